"""Hooks around prompts, failures, questions, sub-agents, summaries and the end of a session."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from cli_harness import Handrail
from cli_scripts import scripted

PYTHON = os.path.realpath(sys.executable)  # a link of /tmp is not in the sandbox
NOTE = "open('noted', 'a').write(json.dumps(given) + chr(10))"


def hook(event: str, code: str, matcher: str = "") -> str:
    """A table of settings with a hook that notes what it reads, and then does something."""
    whole = f"import json, sys\ngiven = json.load(sys.stdin)\n{NOTE}\n{code}\n"
    command = f"{PYTHON} -I -S -c {shlex.quote(whole)}"
    chosen = f"matcher = {json.dumps(matcher)}\n" if matcher else ""
    return f"[[hooks.{event}]]\n{chosen}hooks = [{{ type = 'command', command = {json.dumps(command)} }}]\n"


@pytest.fixture
def ready(handrail: Handrail) -> Handrail:
    handrail.write("a.txt", "x")
    return handrail


def settings(handrail: Handrail, *texts: str) -> None:
    handrail.config.mkdir(parents=True, exist_ok=True)
    (handrail.config / "config.toml").write_text("\n".join(texts), encoding="utf-8")


def noted(handrail: Handrail) -> list[dict[str, Any]]:
    """What the hooks read, without what is another at each run."""
    path = handrail.workspace / "noted"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [
        {
            key: value
            for key, value in json.loads(line).items()
            if key not in {"session_id", "cwd", "permission_mode"}
        }
        for line in lines
    ]


def test_a_hook_adds_to_a_prompt_and_the_session_end_is_told(ready: Handrail) -> None:
    settings(
        ready,
        hook("UserPromptSubmit", "print('Today is Monday.')"),
        hook("SessionEnd", "pass"),
        hook("SessionEnd", "pass", "clear"),
    )
    ran = ready("run", *scripted(ready, '"Done."'), "Look.")

    assert (ran.exit, noted(ready)) == (
        0,
        [
            {"hook_event_name": "UserPromptSubmit", "prompt": "Look."},
            {"hook_event_name": "SessionEnd", "reason": "other"},
        ],
    )
    assert "Today is Monday." in ready("runs", "export", "last").out


@pytest.mark.parametrize(
    "code",
    [
        "print('It has a key.', file=sys.stderr); sys.exit(2)",
        "print(json.dumps({'decision': 'block', 'reason': 'It has a key.'}))",
        "print(json.dumps({'continue': False, 'stopReason': 'It has a key.'}))",
    ],
)
def test_a_refused_prompt_reaches_no_model(ready: Handrail, code: str) -> None:
    settings(ready, hook("UserPromptSubmit", code))

    ran = ready("run", *scripted(ready, '"Never."'), "Look.")

    assert ran.exit == 2
    assert "a hook refused the message: It has a key." in ran.err
    assert "Never." not in ran.out


def test_a_call_that_fails_is_told_with_its_error(ready: Handrail) -> None:
    settings(
        ready,
        hook(
            "PostToolUseFailure",
            "print(json.dumps({'hookSpecificOutput': {'additionalContext': 'Look in docs.'}}))",
            "Read",
        ),
    )
    read = 'Call("read", {"file_path": "none.txt"}, "c1")'
    model = scripted(ready, f"[{read}]", '"Done."')

    ran = ready("run", *model, "Look.", "--json")

    assert ran.exit == 0
    assert noted(ready) == snapshot(
        [
            {
                "hook_event_name": "PostToolUseFailure",
                "tool_name": "Read",
                "tool_use_id": "c1",
                "tool_input": {"file_path": "none.txt"},
                "error": "'none.txt' does not exist. Did you mean 'a.txt'?",
                "is_interrupt": False,
            }
        ]
    )
    shown = ready("runs", "export", "last").out
    assert "[Hook: Look in docs.]" in shown


def test_a_question_can_be_denied_but_not_allowed_and_is_notified(ready: Handrail) -> None:
    def decide(**answer: str) -> str:
        return f"print(json.dumps({{'hookSpecificOutput': {{'decision': {answer!r}}}}}))"

    write = 'Call("write", {"file_path": "b.txt", "content": "x"}, "c1")'
    run = ("run", "--on-denied", "suspend", "--mode", "ask")
    settings(
        ready,
        hook("PermissionRequest", decide(behavior="allow"), "Write"),
        hook("Notification", "pass", "permission_prompt"),
    )
    allowed = ready(*run, *scripted(ready, f"[{write}]", '"Done."'), "Write.")
    said = noted(ready)
    settings(ready, hook("PermissionRequest", decide(behavior="deny", message="Not now."), "Write"))
    denied = ready(*run, *scripted(ready, f"[{write}]", '"Done."'), "Write.")

    assert (allowed.exit, denied.exit) == (4, 3)
    assert not (ready.workspace / "b.txt").exists()
    assert "Not run: Not now." in ready("runs", "export", "last").out
    assert said == snapshot(
        [
            {
                "hook_event_name": "PermissionRequest",
                "tool_name": "Write",
                "tool_use_id": "c1",
                "tool_input": {"file_path": "b.txt", "content": "x"},
            },
            {
                "hook_event_name": "Notification",
                "message": "handrail needs your permission to use Write",
                "title": "Permission needed",
                "notification_type": "permission_prompt",
            },
        ]
    )


def test_the_end_of_a_sub_agent_is_told(ready: Handrail) -> None:
    settings(ready, hook("SubagentStop", "pass"))
    task = 'Call("task", {"task": "Find it."}, "c1")'
    ready.write(
        "model.py",
        "from handrail import Call, Text\n"
        "from handrail.messages import Reply, ToolResults\n"
        "async def model(request):\n"
        "    if 'Find it.' in str(request.messages[0]):\n"
        "        return Reply((Text('Found.'),))\n"
        "    if isinstance(request.messages[-1], ToolResults):\n"
        "        return Reply((Text('Done.'),))\n"
        f"    return Reply(({task},), 'calls')\n",
    )

    ran = ready("run", "-m", "model.py:model", "Look.")

    assert (ran.exit, ran.out) == (0, "Done.\n")
    assert noted(ready) == snapshot(
        [
            {
                "hook_event_name": "SubagentStop",
                "stop_hook_active": False,
                "agent_id": "c1",
                "agent_type": "Explore",
                "last_assistant_message": "Found.",
            }
        ]
    )


def test_events_that_there_are_not_are_named_and_the_others_run(ready: Handrail) -> None:
    settings(
        ready, hook("SubagentStart", "pass"), hook("Setup", "pass"), hook("SessionEnd", "pass")
    )

    ran = ready("run", *scripted(ready, '"Done."'), "Look.")

    assert ran.exit == 0
    assert "these hooks do not run, as there is no such event: Setup, SubagentStart" in ran.err
    assert [one["hook_event_name"] for one in noted(ready)] == ["SessionEnd"]


def test_the_noted_file_is_where_this_test_looks(ready: Handrail) -> None:
    assert noted(ready) == []
    Path(ready.workspace / "noted").write_text('{"a": 1}\n', encoding="utf-8")
    assert noted(ready) == [{"a": 1}]
