"""The commands of a chat that are about its history, its files and its other runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.terminal import Pty
from cli_harness import Handrail
from cli_runs import journal_runs

MODEL = """
from handrail import Call, Text
from handrail.messages import ModelError, Prompt, Reply, Usage
from handrail.testing import ScriptedModel


async def model(request):
    last = request.messages[-1]
    said = " ".join(part.text for part in last.parts) if isinstance(last, Prompt) else ""
    if "Write a summary" in said:
        if "no summary" in repr(request.messages):
            raise ModelError("It is busy.", "overloaded")
        return Reply((Text("We said hello."),), usage=Usage(input_tokens=5, output_tokens=5))
    if "mark" in said:
        args = {"file_path": "notes.txt", "old_string": "two", "new_string": "2 `"}
        return Reply((Text("I mark it."), Call("edit", args, "c1")), "calls")
    if "big" in said:
        return Reply((Text("Read."),), usage=Usage(input_tokens=190_000, output_tokens=5))
    if "job" in said:
        return Reply((Call("bash", {"command": "sleep 60", "background": True}, "c2"),), "calls")
    return Reply((Text(f"{len(request.messages)}: {said or 'Done.'}"),))


async def other(request):
    return Reply((Text("I am another."),))
"""
ENTER = "> "


class Chat:
    """A chat in which one command follows the other."""

    def __init__(self, handrail: Handrail, *arguments: str) -> None:
        handrail.write("model.py", MODEL)
        handrail.write("notes.txt", "one\ntwo\n")
        words = ["chat", "--model", "model.py:model", "--mode", "edits", "--color", "never"]
        self.pty = Pty(handrail, *words, *arguments)
        self.welcome = _rows(self.pty.sees(ENTER))

    def __call__(self, line: str) -> list[str]:
        """What the chat answers to a line, without what a turn has used."""
        self.pty.types(f"{line}\r")
        self.pty.sees(f"{line}\r\n")
        return [row for row in _rows(self.pty.sees(ENTER)) if not row.startswith("  edits ")]

    def ends(self) -> int:
        self.pty.types("/quit\r")
        return self.pty.ends()


def _rows(text: str) -> list[str]:
    shown = re.sub(r"\x1b\[\??[0-9;]*[a-zA-Z]", "", text)
    rows = [row.rpartition("\r")[2] for row in shown.replace("\r\n", "\n").split("\n")]
    return [row for row in rows if row.strip()]


@pytest.fixture
def chat(handrail: Handrail) -> Iterator[Chat]:
    made = Chat(handrail, "--without", "bash")
    yield made
    made.pty.end()


def test_what_a_conversation_changed_is_shown_and_saved(chat: Chat, handrail: Handrail) -> None:
    nothing = chat("/diff")
    chat("mark it")
    handrail.write("notes.txt", "one\n2 `\nthree\n")
    changed = chat("/diff")
    saved, again = chat("/save talk.md"), chat("/save talk.md")
    usual = chat("/save")
    [run] = journal_runs(handrail)

    assert (nothing, chat.ends()) == (["nothing has changed"], 0)
    assert changed == [
        "Changed notes.txt",
        "  │ 1   one",
        "  │ 2 - two",
        "  │ 2 + 2 `",
        "  │ 3 + three",
    ]
    path = handrail.workspace / "talk.md"
    assert (saved, usual) == (["saved to talk.md"], [f"saved to {run.id}.md"])
    assert "".join(again).replace(" ", "").endswith("`/saveFILE`,ordeletethisone")
    assert path.stat().st_mode & 0o777 == 0o600
    assert (handrail.workspace / f"{run.id}.md").read_text(encoding="utf-8") == _text(path)
    assert _text(path).partition("## You")[2] == (
        "\n\nmark it\n\n## Model\n\nI mark it.\n\n### Call `c1`: edit\n\n```json\n"
        '{"file_path": "notes.txt", "old_string": "two", "new_string": "2 `"}\n```\n\n'
        "### Result of `c1`\n\n```text\n"
        f"{_text(path).partition('```text')[2].partition('```')[0].strip()}\n```\n\n"
        "## Model\n\n3: Done.\n"
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_a_conversation_is_compacted_by_its_model(chat: Chat, handrail: Handrail) -> None:
    nothing = chat("/compact")
    said = [chat("hello"), chat("hello again")]
    compacted = chat("/compact")
    after = chat("and now")
    [run] = journal_runs(handrail)

    assert nothing == ["compacting: the model writes a summary", "nothing to compact"]
    assert said == [["  1: hello"], ["  3: hello again"]]
    assert compacted == [
        "compacting: the model writes a summary",
        "3 earlier messages are now sent as a summary; the saved run keeps them",
    ]
    assert after == ["  3: and now"]  # the summary, the last reply, and this
    assert chat("no summary, please") == ["  5: no summary, please"]
    assert chat("/compact")[1:] == ["model error: It is busy.", "nothing has changed"]
    assert (chat.ends(), len(run.state().messages)) == (0, 8)


def test_a_hook_is_told_before_a_conversation_is_summarized(handrail: Handrail) -> None:
    noted = handrail.workspace / "noted"
    program = f"import sys; print(sys.stdin.read(), file=open('{noted}', 'a'))"
    command = json.dumps(f"{os.path.realpath(sys.executable)} -ISc {shlex.quote(program)}")
    handrail.config.mkdir(parents=True)
    (handrail.config / "config.toml").write_text(
        f"[[hooks.PreCompact]]\nhooks = [{{ type = 'command', command = {command} }}]\n",
        encoding="utf-8",
    )
    chat = Chat(handrail, "--without", "bash")
    try:
        for line in ("hello", "hello again", "/compact", "big", "and now"):
            chat(line)
        given = [json.loads(line) for line in noted.read_text(encoding="utf-8").splitlines()]
        assert chat.ends() == 0
    finally:
        chat.pty.end()

    assert [(one["hook_event_name"], one["trigger"]) for one in given] == [
        ("PreCompact", "manual"),
        ("PreCompact", "auto"),
    ]
    assert given[0].keys() == {
        *("session_id", "cwd", "permission_mode", "hook_event_name"),
        *("trigger", "custom_instructions"),
    }


def test_another_conversation_follows_and_the_first_can_be_resumed(
    chat: Chat, handrail: Handrail
) -> None:
    alone = chat("/resume")
    chat("hello")
    chat("/mode plan")
    chat("/model model.py:other")
    cleared = chat("/clear")
    back = chat("/resume last")
    chat("/clear")
    second = chat("Who are you?")
    [first, _] = sorted(run.id for run in journal_runs(handrail))  # IDs begin with the time
    listed = chat("/resume")
    wrong = chat("/resume nothing")
    resumed = chat("/resume last")
    same = chat(f"/resume {first}")

    assert alone == ["no other runs in this folder"]
    assert cleared[0] == f"resume this chat with `handrail chat --resume {first}`"
    assert cleared[1] == "handrail 0.1.0  model.py:other  mode plan  8 tools  /help"
    assert "  1: hello" in back
    assert second == ["  I am another."]
    assert listed == [
        f"{first}  now  done  hello",
        "  resume one with /resume RUN; the start of its ID is enough",
    ]
    assert wrong == ["there is no run 'nothing'", "  run `handrail runs list` to see the IDs"]
    assert "  1: hello" in resumed
    assert same == ["this is the run that you are in"]
    assert chat.ends() == 0


def test_a_run_of_another_folder_is_not_resumed_here(chat: Chat, handrail: Handrail) -> None:
    elsewhere = handrail.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "model.py").write_text(MODEL, encoding="utf-8")
    handrail("run", "-C", str(elsewhere), "--model", "model.py:model", "hello")
    [run] = [one for one in journal_runs(handrail) if one.about["command"] == "run"]

    said = " ".join(chat(f"/resume {run.id}"))
    assert said.startswith(f"run {run.id} is in another folder")
    assert chat.ends() == 0


def test_jobs_are_listed(handrail: Handrail) -> None:
    chat = Chat(handrail)
    try:
        none = chat("/jobs")
        chat("/mode open")
        chat("start a job")
        some = chat("/jobs")
        assert (none, chat.ends()) == (["no jobs: no command runs in the background"], 0)
    finally:
        chat.pty.end()
    assert [re.sub(r"[\d.]+ m?s", "1 s", row) for row in some] == ["  Job 1  sleep 60   1 s"]


REVIEW = """---
description: "Review a file"
---
Review $1 for $2, please: $ARGUMENTS$3
"""


@pytest.fixture
def with_own(handrail: Handrail) -> Handrail:
    """A workspace and a user with commands."""
    for name, text in {
        "review": REVIEW,
        "new": "New $1",
        "empty": "",
        "draft": "x",
        "Not A Name": "x",
    }.items():
        handrail.write(f".handrail/commands/{name}.md", text)
    own = handrail.config / "commands"
    own.mkdir(parents=True)
    for name, text in {"say": "---\nmodel: x\n---\nSay", "help": "never", "new": "Mine"}.items():
        (own / f"{name}.md").write_text(text, encoding="utf-8")
    return handrail


def test_commands_of_ones_own_are_sent_to_the_model(with_own: Handrail) -> None:
    names = [f".handrail/commands/{name}.md" for name in ("review", "empty")]
    trusted = with_own("trust", "--yes", *names)
    chat = Chat(with_own, "--without", "bash")
    try:
        listed = chat("/help")
        reviewed = chat("/review 'my notes.txt' typos")
        said = [chat("/say hello there"), chat("/say"), chat("/new"), chat("/empty")]
        with_own.write(".handrail/commands/review.md", "Delete everything.")
        changed, mistyped, unclosed = chat("/review"), chat("/reviw"), chat("/say it's")
        assert chat.ends() == 0
    finally:
        chat.pty.end()

    assert trusted.exit == 0
    assert "trusted  command  .handrail/commands/review.md" in trusted.out
    assert [row.split("  ", 1)[0] for row in listed if row.startswith("/")] == [
        "/help", "/model [NAME]", "/mode [MODE]", "/clear", "/compact", "/resume [RUN]",
        "/rewind [N]", "/undo", "/diff", "/jobs", "/save [FILE]", "/trust [yes]", "/tools", "/cost", "/quit", "/draft", "/empty", "/new", "/review",
        "/say",
    ]  # fmt: skip
    assert "/draft         not trusted: `handrail trust .handrail/commands/draft.md`" in listed
    assert [row for row in listed if "/review" in row] == ["/review        Review a file"]
    assert reviewed == [
        "  1: Review my notes.txt for typos, please: 'my notes.txt' typos",
    ]
    assert said == [
        ["  3: Say", "  hello there"],
        ["  5: Say"],
        ["  7: Mine"],
        ["/empty has no text: write some in .handrail/commands/empty.md"],
    ]
    assert changed == [
        "/review is not trusted, or changed since you trusted it",
        "  review it with `handrail trust .handrail/commands/review.md`",
    ]
    assert mistyped == ["unknown command /reviw; did you mean /review?"]
    assert unclosed == ["  9: Say", "  it's"]


def test_a_folder_of_commands_that_is_a_link_is_not_followed(handrail: Handrail) -> None:
    elsewhere = handrail.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "go.md").write_text("Go.", encoding="utf-8")
    (handrail.workspace / ".handrail").mkdir()
    (handrail.workspace / ".handrail" / "commands").symlink_to(elsewhere)

    assert handrail("trust", "--list").out == "no files need trust\n"
