"""Hooks of the settings: programs that read a call as JSON, and refuse, change, ask or comment."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

import pytest

from cli_harness import Handrail, Ran
from cli_scripts import programmed, scripted

LOOK = ("tools", "call", "glob", "pattern=*.txt")
FOUND = "a.txt\n[1 file.]\n"


def hook(event: str, command: str, matcher: str = "", **more: Any) -> str:
    """A table of settings with one hook."""
    values = {"type": "command", "command": command, **more}
    inside = ", ".join(f"{name} = {json.dumps(value)}" for name, value in values.items())
    chosen = f"matcher = {json.dumps(matcher)}\n" if matcher else ""
    return f"[[hooks.{event}]]\n{chosen}hooks = [{{ {inside} }}]\n"


def user_settings(handrail: Handrail, text: str) -> None:
    handrail.config.mkdir(parents=True, exist_ok=True)
    (handrail.config / "config.toml").write_text(text, encoding="utf-8")


def program(code: str) -> str:
    """The command that runs a program."""
    whole = f"import json, sys\ngiven = json.load(sys.stdin)\n{code}\n"
    return f"{sys.executable} -I -S -c {shlex.quote(whole)}"


def printing(answer: dict[str, Any]) -> str:
    return program(f"print(json.dumps({answer!r}))")


def specific(**fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **fields}}


@pytest.fixture
def ready(handrail: Handrail) -> Handrail:
    handrail.write("a.txt", "x")
    return handrail


def call(handrail: Handrail, event: str, command: str, *words: str, **more: Any) -> Ran:
    """Call glob with this hook."""
    user_settings(handrail, hook(event, command, **more))
    return handrail(*(words or LOOK))


# ---------------------------------------------------------------- before a call


def test_a_hook_reads_the_call_and_lets_it_pass(ready: Handrail) -> None:
    noted = ready.workspace / "noted"
    code = f"import os; given['dir'] = os.environ['CLAUDE_PROJECT_DIR']; json.dump(given, open({str(noted)!r}, 'w'))"

    ran = call(ready, "PreToolUse", program(code), matcher="Read|Glob")

    assert (ran.exit, ran.out) == (0, FOUND)
    assert json.loads(noted.read_text(encoding="utf-8")) == {
        "session_id": "call",
        "cwd": str(ready.workspace),
        "hook_event_name": "PreToolUse",
        "tool_name": "Glob",
        "tool_input": {"pattern": "*.txt"},
        "dir": str(ready.workspace),
    }


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("sys.exit('no') if 0 else (print('Not today.', file=sys.stderr), sys.exit(2))", "Not today."),
        ("sys.exit(2)", "A hook refused it without a reason."),
        ("print(json.dumps({'decision': 'block', 'reason': 'Ask Ana.'}))", "Ask Ana."),
        (f"print(json.dumps({specific(permissionDecision='deny')!r}))", "A hook refused it without a reason."),
        (
            f"print(json.dumps({specific(permissionDecision='deny', permissionDecisionReason='No.')!r}))",
            "No.",
        ),
    ],
)  # fmt: skip
def test_a_hook_refuses_a_call(ready: Handrail, code: str, reason: str) -> None:
    ran = call(ready, "PreToolUse", program(code))

    assert (ran.exit, ran.out) == (3, "")
    assert f"Not run: {reason}" in ran.err


@pytest.mark.parametrize(
    "code",
    [
        "pass",
        "print('Hello.')",
        "print('[1]')",
        'print(\'{"decision": "approve"}\')',
        f"print(json.dumps({specific(permissionDecision='allow')!r}))",
        "print('{\"hookSpecificOutput\": 5}')",
        "print('{\"continue\": true}')",
        "sys.stdin.close()",
    ],
)
def test_other_answers_let_a_call_pass(ready: Handrail, code: str) -> None:
    assert call(ready, "PreToolUse", program(code)).out == FOUND


def test_a_hook_never_allows_what_the_rules_do_not(ready: Handrail) -> None:
    allow = printing(specific(permissionDecision="allow"))

    ran = call(ready, "PreToolUse", allow, "tools", "call", "write", "file_path=b", "content=x")

    assert ran.exit == 3
    assert not (ready.workspace / "b").exists()


def test_a_hook_asks_where_the_rules_allow(ready: Handrail) -> None:
    asks = specific(permissionDecision="ask", permissionDecisionReason="Look at secrets?")

    ran = call(ready, "PreToolUse", printing(asks))

    assert ran.exit == 3
    assert "Look at secrets?" in ran.err


def test_a_question_without_words_gets_some(ready: Handrail) -> None:
    ran = call(ready, "PreToolUse", printing(specific(permissionDecision="ask")))

    assert "A hook asks for your approval." in ran.err


def test_a_hook_changes_the_arguments_and_the_next_one_sees_them(ready: Handrail) -> None:
    ready.write("b.md", "x")
    noted = ready.workspace / "noted"
    change = printing(specific(updatedInput={"pattern": "*.md"}))
    user_settings(ready, hook("PreToolUse", change) + hook("PreToolUse", f"cat > {noted}", "glob"))

    assert ready(*LOOK).out == "b.md\n[1 file.]\n"
    assert json.loads(noted.read_text(encoding="utf-8"))["tool_input"] == {"pattern": "*.md"}


def test_changed_arguments_are_checked(ready: Handrail) -> None:
    ran = call(ready, "PreToolUse", printing(specific(updatedInput={"pattern": 5})))

    assert (ran.exit, ran.out) == (2, "")


def test_a_matcher_chooses_tools(ready: Handrail) -> None:
    for matcher in ("Edit|Write", "Glo", "edit"):
        assert call(ready, "PreToolUse", "exit 2", matcher=matcher).out == FOUND
    for matcher in ("*", "Glob", "glob", "Gl.*", ""):
        assert call(ready, "PreToolUse", "exit 2", matcher=matcher).exit == 3


def test_a_hook_that_fails_without_refusing_is_reported(ready: Handrail) -> None:
    ran = call(ready, "PreToolUse", "echo broken >&2; exit 1")

    assert (ran.exit, ran.out) == (0, FOUND)
    assert "exit code 1: broken" in ran.err


@pytest.mark.parametrize("command", ["./missing.sh", "sleep 30", "'open quote"])
def test_a_hook_that_cannot_answer_refuses(ready: Handrail, command: str) -> None:
    ran = call(ready, "PreToolUse", command, timeout=1)

    assert (ran.exit, ran.out) == (3, "")


def test_a_message_for_the_person_is_shown(ready: Handrail) -> None:
    ran = call(ready, "PreToolUse", printing({"systemMessage": "Mind the\x1b gap."}))

    assert "Mind the\\u{1B} gap." in ran.err


def test_much_output_does_no_harm(ready: Handrail) -> None:
    ran = call(ready, "PreToolUse", program("print('x' * (3 << 20))"))

    assert (ran.err, ran.out) == ("", FOUND)


# ---------------------------------------------------------------- after a call, start and end


HEARD = """
async def model(request):
    heard = [part.text for message in request.messages if isinstance(message, ToolResults)
             for result in message.results for part in result.content]
    replies = sum(isinstance(one, Reply) for one in request.messages)
    if not replies:
        return Reply((glob("c1"),), "calls")
    return Reply((Text(f"{replies}: {heard} {request.system[-9:]}"),))
"""


def test_text_after_a_call_reaches_the_model(ready: Handrail) -> None:
    answer = {**specific(additionalContext="Names only."), "decision": "block", "reason": "Stale."}
    user_settings(ready, hook("PostToolUse", printing(answer), "Glob"))

    ran = ready("run", *programmed(ready, HEARD), "Look.")

    assert ran.exit == 0
    assert "[1 file.]\\n\\n[Hook: Stale.]\\n\\n[Hook: Names only.]" in ran.out


def test_nothing_runs_after_a_call_that_failed(ready: Handrail) -> None:
    noted = ready.workspace / "noted"
    code = f"open({str(noted)!r}, 'w')"

    call(ready, "PostToolUse", program(code), "tools", "call", "read", "file_path=none")

    assert not noted.exists()
    assert call(ready, "PostToolUse", program(code)).out == FOUND
    assert noted.exists()


def test_a_hook_after_a_call_that_fails_is_reported(ready: Handrail) -> None:
    ran = call(ready, "PostToolUse", "./missing.sh")

    assert (ran.exit, ran.out) == (0, FOUND)
    assert "PostToolUse hook failed: `./missing.sh` could not start" in ran.err


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
def test_a_hook_ends_the_run(ready: Handrail, event: str) -> None:
    user_settings(ready, hook(event, printing({"continue": False, "stopReason": "Lunch."})))

    ran = ready("run", *programmed(ready, HEARD), "Look.")

    assert ran.exit != 0
    assert "Lunch." in ran.err


def test_the_start_adds_to_the_instructions(ready: Handrail) -> None:
    user_settings(ready, hook("SessionStart", "echo 'Be brief.'"))

    assert "Be brief." in ready("run", *programmed(ready, HEARD), "Look.").out


def test_the_start_can_answer_with_data(ready: Handrail) -> None:
    context = {"hookSpecificOutput": {"additionalContext": "Be short."}}
    user_settings(ready, hook("SessionStart", printing(context)))

    assert "Be short." in ready("run", *programmed(ready, HEARD), "Look.").out


def test_the_end_lets_a_run_go_on(ready: Handrail) -> None:
    code = "given['stop_hook_active'] or (print('Add tests.', file=sys.stderr), sys.exit(2))"
    user_settings(ready, hook("Stop", program(code)))
    model = scripted(ready, '"First."', '"Second."')

    ran = ready("run", *model, "Look.")

    assert (ran.exit, ran.out) == (0, "First.\nSecond.\n")


def test_the_end_cannot_go_on_for_ever(ready: Handrail) -> None:
    user_settings(ready, hook("Stop", "echo More. >&2; exit 2"))

    ran = ready("run", *scripted(ready, *['"More."'] * 9), "Look.")

    assert (ran.exit, ran.out) == (0, "More.\n" * 6)
    assert "a Stop hook continued the run 5 times; it ends now" in ran.err


# ---------------------------------------------------------------- trust


def test_a_hook_of_a_workspace_runs_only_when_it_is_trusted(ready: Handrail) -> None:
    ready.write("check.sh", "exit 2")
    ready.write("handrail.toml", hook("PreToolUse", "sh $CLAUDE_PROJECT_DIR/check.sh"))

    assert ready(*LOOK).out == FOUND  # the settings are not trusted
    ready("trust", "--yes", "handrail.toml")
    distrusted = ready(*LOOK)
    listed = ready("trust", "--list", "--json").json
    ready("trust", "--yes", "check.sh")
    refused = ready(*LOOK)
    ready.write("check.sh", "touch owned")
    changed = ready(*LOOK)

    assert "check.sh is not trusted, or changed since you trusted it" in distrusted.err
    assert (distrusted.exit, refused.exit, changed.exit) == (3, 3, 3)
    assert "Not run: A hook refused it" in refused.err
    assert not (ready.workspace / "owned").exists()
    assert [(file["path"], file["kind"]) for file in listed["files"]] == [
        ("handrail.toml", "settings"),
        ("check.sh", "hook"),
    ]


def test_a_file_that_a_hook_of_the_user_names_needs_trust_too(ready: Handrail) -> None:
    ready.write("check.sh", "exit 0")
    user_settings(ready, hook("PreToolUse", "env RUN=./check.sh sh -c 'sh $RUN'"))

    assert ready(*LOOK).exit == 3
    ready("trust", "--yes", "check.sh")
    assert ready(*LOOK).out == FOUND


def test_a_link_to_a_file_is_not_run(ready: Handrail) -> None:
    ready.write("real.sh", "exit 0")
    (ready.workspace / "check.sh").symlink_to("real.sh")
    user_settings(ready, hook("PreToolUse", "sh ./check.sh"))

    ran = ready(*LOOK)

    assert ran.exit == 3
    assert "cannot read" in ran.err


def test_files_of_hooks_cannot_be_changed_without_a_question(ready: Handrail) -> None:
    ready.write("check.sh", "exit 0")
    user_settings(ready, hook("Stop", "sh ./check.sh"))

    change = ("tools", "call", "write", "file_path=check.sh", "content=x", "--mode", "edits")
    other = ("tools", "call", "write", "file_path=other.sh", "content=x", "--mode", "edits")

    assert (ready(*change).exit, ready(*other).exit) == (3, 0)


# ---------------------------------------------------------------- settings


def test_hooks_of_all_files_run_and_none_removes_another(ready: Handrail) -> None:
    user_settings(ready, hook("PreToolUse", "exit 2"))
    ready.write("handrail.toml", "[hooks]\nPreToolUse = []\nStop = []\n")
    ready("trust", "--yes", "handrail.toml")

    assert ready(*LOOK).exit == 3


@pytest.mark.parametrize(
    "text",
    [
        "hooks = 5",
        "[hooks]\nNotification = []",
        "[hooks]\nStop = 5",
        "[[hooks.Stop]]\nhooks = 5",
        "[[hooks.Stop]]\nother = 5\nhooks = []",
        "[[hooks.Stop]]\nmatcher = '('\nhooks = []",
        "[[hooks.Stop]]\nmatcher = 5\nhooks = []",
        "[[hooks.Stop]]\nhooks = [5]",
        "[[hooks.Stop]]\nhooks = [{ type = 'command' }]",
        "[[hooks.Stop]]\nhooks = [{ type = 'command', command = ' ' }]",
        "[[hooks.Stop]]\nhooks = [{ type = 'prompt', command = 'x' }]",
        "[[hooks.Stop]]\nhooks = [{ type = 'command', command = 'x', timeout = 0 }]",
        "[[hooks.Stop]]\nhooks = [{ type = 'command', command = 'x', timeout = 'x' }]",
    ],
)
def test_a_table_of_another_shape_is_an_error(handrail: Handrail, text: str) -> None:
    user_settings(handrail, text)

    ran = handrail("config", "show")

    assert ran.exit == 2
    assert "`hooks` must be a table with lists of hooks for PreToolUse" in ran.err
    handrail.write("handrail.toml", text)
    assert handrail("trust", "--list").exit in {0, 1}
