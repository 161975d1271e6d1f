"""One coding agent: `chat`, `run` and `coding_agent` send the same request."""

from __future__ import annotations

import json
import runpy
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cli.terminal import Pty
from cli_harness import Handrail
from handrail.coding import coding_agent

MODEL = """
import json
from pathlib import Path
from handrail import Call, Text
from handrail.messages import Reply
from handrail.providers import openai_chat

SENT = Path({sent!r})
FACT = Text("Two.")


class Model:
    names = ({name!r},)

    async def __call__(self, request):
        tools = openai_chat.encode_tools(request.tools)
        with SENT.open("a", encoding="utf-8") as file:
            file.write(json.dumps([request.system, tools]) + "\\n")
        if "for another agent" in request.system:
            number = len(request.messages)
            parts = [Call("read", {{"file_path": "notes.txt"}}, "r1")] if number == 1 else [FACT]
        else:
            number = sum(isinstance(one, Reply) for one in request.messages)
            parts = {steps}[number]
        return Reply(tuple(parts), "calls" if isinstance(parts[-1], Call) else "end")


model = Model()
"""
MAX_TOKENS = 3_300
"""For the system prompt and the tools, as compact JSON with four characters in a token."""
ENTER = "> "
ASKED = "(Enter: none): "
Chat = Callable[..., Pty]


def write_model(handrail: Handrail, steps: str = '[[Text("Done.")]]', name: str = "any") -> None:
    sent = str(handrail.folder / "sent.jsonl")
    handrail.write("model.py", MODEL.format(sent=sent, name=name, steps=steps))


def take_sent(handrail: Handrail) -> list[tuple[str, list[Any]]]:
    """The system prompts and tools that were sent, each once."""
    file = handrail.folder / "sent.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()
    file.unlink()
    return [(system, tools) for system, tools in map(json.loads, lines)]


def names_of(tools: list[Any]) -> list[str]:
    return [one["function"]["name"] for one in tools]


@pytest.fixture
def chat(handrail: Handrail) -> Iterator[Chat]:
    opened: list[Pty] = []

    def begin(*arguments: str) -> Pty:
        opened.append(Pty(handrail, "chat", "-m", "model.py:model", "--color", "never", *arguments))
        return opened[-1]

    yield begin
    for one in opened:
        one.end()


@pytest.mark.parametrize("name", ["claude-opus-5", "openai/gpt-5"])
def test_chat_run_and_coding_agent_send_the_same(
    handrail: Handrail, chat: Chat, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(handrail, name=name)
    handrail.write("AGENTS.md", "Use tabs.\n")
    subprocess.run(["git", "init", "-q", "-b", "main", str(handrail.workspace)], check=True)  # noqa: S603, S607
    assert handrail("trust", "--yes", "AGENTS.md").exit == 0

    assert handrail("run", "-m", "model.py:model", "Hello.").exit == 0
    [by_run] = take_sent(handrail)
    pty = chat("Hello.")
    pty.sees("Done.")
    pty.answers("/quit", after=ENTER)
    assert pty.ends() == 0
    [by_chat] = take_sent(handrail)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(handrail.config.parent))
    model = runpy.run_path(str(handrail.workspace / "model.py"))["model"]
    coding_agent(handrail.workspace, model).run_sync("Hello.")
    [by_library] = take_sent(handrail)

    assert by_run == by_library
    face = [one for one in by_chat[1] if one["function"]["name"] == "ask_user"]
    assert (by_chat[0], [one for one in by_chat[1] if one not in face]) == by_run
    changing = ["apply_patch"] if "gpt" in name else ["edit"]
    usual = "ask_user bash glob grep read read_job stop_job task todo web_fetch write".split()
    assert names_of(by_chat[1]) == sorted([*usual, *changing])
    assert "Use tabs." in by_run[0]
    assert "Git: branch main, 2 changed files" in by_run[0]
    assert by_run[0].endswith(
        "Mode: ask. Changes, and commands that no rule allows, need approval."
    )
    as_sent = json.dumps(by_chat, separators=(",", ":"))
    assert len(as_sent) / 4 <= MAX_TOKENS


QUESTION = '[Call("ask_user", {"question": "Which\\x1b?", "choices": ["red", "green"]}, "c1")]'


@pytest.mark.parametrize(
    ("typed", "told", "row"),
    [
        ("2", "The user chose: green", "answered"),
        ("blue", "The user answered: blue", "answered"),
        ("", "Not answered. Continue with what you know, and mention what you assumed.", "not"),
    ],
)
def test_a_person_answers_a_question_of_the_model(
    handrail: Handrail, chat: Chat, *, typed: str, told: str, row: str
) -> None:
    told_step = "[Text(request.messages[-1].results[0].text)]"
    write_model(handrail, f"[{QUESTION}, {told_step} if number else []]")
    pty = chat("Ask.", "--without", "bash")
    pty.answers(typed, after=ASKED)

    pty.sees(told)
    pty.answers("/quit", after=ENTER)
    assert pty.ends() == 0
    assert "Which\\u{1B}?" in pty.seen
    assert f"{row} " in pty.seen.replace("\r", " ")


def test_without_a_person_there_is_nobody_to_ask(handrail: Handrail) -> None:
    write_model(handrail, f"[{QUESTION}, [Text('Done.')]]")

    ran = handrail("run", "-m", "model.py:model", "--without", "bash", "Ask.")

    assert (ran.exit, "There is no tool 'ask_user'." in ran.err) == (0, True)


PLAN = """[
    [Text("1. Write it."), Call("finish_plan", {}, "c1")],
    [Call("write", {"file_path": "new.txt", "content": "x"}, "c2")] if number else [],
    [Text(request.messages[-1].results[0].text)] if number == 2 else [],
]"""


def test_a_plan_ends_with_a_question_and_goes_on_in_the_chosen_mode(
    handrail: Handrail, chat: Chat
) -> None:
    write_model(handrail, PLAN)
    pty = chat("Plan it.", "--mode", "plan")
    pty.answers("1", after=ASKED)
    pty.sees("Created 'new.txt'")
    pty.answers("/quit", after=ENTER)

    assert pty.ends() == 0
    planned, done, _ = take_sent(handrail)
    ending = (
        "Mode: plan. Nothing can be changed: explore, then write a plan. Then call finish_plan."
    )
    assert planned[0].endswith(ending)
    assert names_of(planned[1]) == [
        *("ask_user", "bash", "finish_plan", "glob", "grep", "read", "read_job", "task", "todo"),
        "web_fetch",
    ]
    assert "Mode: edits." in done[0]
    assert "finish_plan" not in names_of(done[1])
    assert (handrail.workspace / "new.txt").read_text(encoding="utf-8") == "x"


TASK = """[
    [Call("task", {"task": "How many lines are in notes.txt?"}, "c1")],
    [Text(request.messages[-1].results[0].text)] if number else [],
]"""


def test_a_task_is_explored_by_a_sub_agent_whose_calls_are_recorded(handrail: Handrail) -> None:
    write_model(handrail, TASK)
    handrail.write("notes.txt", "one\ntwo\n")

    ran = handrail("run", "-m", "model.py:model", "--without", "bash", "Explore.")

    assert ran.out == "Two.\n"
    sent = take_sent(handrail)
    assert [names_of(tools) for _, tools in sent[1:3]] == [["glob", "grep", "read"]] * 2
    shown = handrail("runs", "show", "last").out
    assert ["task" in shown, 'file_path="notes.txt"' in shown] == [True, True]
    assert handrail("runs", "replay", "last").exit == 0
