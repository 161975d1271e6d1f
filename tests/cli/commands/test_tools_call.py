"""`handrail tools call`: one call, as a model would make it."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

import forked
from cli_harness import Handrail, Ran, Schemas
from cli_scripts import scripted

TOOLS = '''
import sys
from pathlib import Path
from handrail import READ, File, Image, Refused, Text, ToolFailed, Transient, tool, writes_file

print("loaded")

@tool(effect=READ)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    print("adding")
    return a + b

@tool(effect=READ)
def say(words: str) -> str:
    """Say it."""
    return words

@tool(effect=READ)
def show() -> list[Text | Image | File]:
    """A picture and a document."""
    return [Text("look:"), Image(b"png"), File(b"pdf", "application/pdf", "a\\x1b.pdf")]

@tool(effect=READ)
def divide(by: float) -> float:
    """Divide one."""
    return 1 / by if by else float("inf")

@tool(effect=READ)
def halve() -> str:
    """Half a character."""
    return "a\\ud800b"

@tool(effect=READ)
def fail() -> str:
    """Fail."""
    raise ToolFailed("it is not there")

@tool(effect=READ)
def broken() -> str:
    """Break."""
    raise ZeroDivisionError("oh")

@tool(effect=READ)
def refuse() -> str:
    """Refuse."""
    raise Refused("not this one")

@tool(touches=lambda path, **_: writes_file(path))
def mark(path: str) -> str:
    """Write a mark into a file."""
    Path(path).write_text("x", encoding="utf-8")
    return "marked"
'''


@pytest.fixture
def tools(handrail: Handrail) -> Handrail:
    handrail.write("own.py", TOOLS)
    return handrail


def call(handrail: Handrail, *arguments: str) -> tuple[int, str, str]:
    ran = handrail("tools", "call", *arguments, "-t", "own.py")
    return ran.exit, ran.out, ran.err.replace(str(handrail.folder), "TMP")


def test_the_result_alone_is_on_stdout(tools: Handrail) -> None:
    assert call(tools, "add", "a=2", "b=3") == (0, "5\n", "loaded\nadding\n")


def test_programs_get_the_whole_result(tools: Handrail, schema: Schemas) -> None:
    def told(*arguments: str) -> object:
        ran = tools("tools", "call", *arguments, "-t", "own.py", "--json")
        return schema("tools-call", ran.json, part="") | {"exit": ran.exit}

    assert told("add", '{"a": 2, "b": 3}') == {
        "tool": "add",
        "text": "5",
        "parts": [{"type": "text", "text": "5"}],
        "data": 5,
        "failure": None,
        "would_allow": [],
        "exit": 0,
    }
    assert told("show") == snapshot(
        {
            "tool": "show",
            "text": "look:",
            "parts": [
                {"type": "text", "text": "look:"},
                {"type": "image", "media_type": "image/png", "data": "cG5n"},
                {
                    "type": "file",
                    "name": "a\x1b.pdf",
                    "media_type": "application/pdf",
                    "data": "cGRm",
                },
            ],
            "data": None,
            "failure": None,
            "would_allow": [],
            "exit": 0,
        }
    )
    assert told("fail") == snapshot(
        {
            "tool": "fail",
            "text": "it is not there",
            "parts": [{"type": "text", "text": "it is not there"}],
            "data": None,
            "failure": {
                "kind": "failed",
                "fault": "tool",
                "message": "it is not there",
                "detail": "",
            },
            "would_allow": [],
            "exit": 1,
        }
    )


def test_numbers_that_json_has_not_are_words_in_it(tools: Handrail, schema: Schemas) -> None:
    def told(by: str) -> object:
        ran = tools("tools", "call", "divide", by, "-t", "own.py", "--json")
        assert "Infinity," not in ran.out.replace('"Infinity"', "")
        return schema("tools-call", ran.json)["data"]

    assert (told("by=4"), told("by=0")) == (0.25, None)
    assert tools("explain", "divide", "by=NaN", "-t", "own.py", "--json").json["call"] == {
        "name": "divide",
        "args": {"by": "NaN"},
    }


def test_pictures_and_documents_are_named(tools: Handrail) -> None:
    assert call(tools, "show")[1] == snapshot("""\
look:
[image: image/png, 3 bytes]
[a\x1b.pdf: application/pdf, 3 bytes]
""")


def test_a_failure_is_told_on_stderr_with_exit_1(tools: Handrail) -> None:
    assert call(tools, "fail") == (
        1,
        "",
        snapshot("""\
loaded
handrail: it is not there
"""),
    )
    assert call(tools, "broken") == (
        1,
        "",
        snapshot("""\
handrail: The tool 'broken' failed with an internal error (ZeroDivisionError). Do not repeat the same call; tell the user.
  File "TMP/ws/own.py", line 42, in broken: ZeroDivisionError: oh
"""),
    )


def test_arguments_that_do_not_fit_end_with_2(tools: Handrail) -> None:
    assert call(tools, "add", "a=2") == (
        2,
        "",
        snapshot("""\
loaded
handrail: Not run: invalid arguments.
- b: required, missing
Fix these and call again.
"""),
    )
    assert call(tools, "add", "2", "3")[0] == 2


def test_a_tool_that_refuses_ends_with_3(tools: Handrail) -> None:
    assert call(tools, "refuse") == (
        3,
        "",
        snapshot("""\
loaded
handrail: not this one
"""),
    )


def test_where_nobody_can_be_asked_nothing_runs_and_the_rule_is_shown(
    tools: Handrail, schema: Schemas
) -> None:
    code, out, err = call(tools, "mark", "path=a.txt")
    ran = tools("tools", "call", "mark", "path=a.txt", "-t", "own.py", "--json")
    rules = schema("tools-call", ran.json)["would_allow"]

    assert (code, out, (tools.workspace / "a.txt").exists()) == (3, "", False)
    assert err.startswith(
        "loaded\nhandrail: Not run: approval is needed, and there is no terminal. Allow "
        "`mark` to change a.txt?\n  to allow it, add this rule to TMP/config/handrail/projects/"
    )
    assert (ran.exit, ran.error["code"]) == (3, "denied")
    assert [one["scope"] for one in rules] == ["project", "always"]

    # the rule that is shown is one that does
    (tools.config / "projects").mkdir(parents=True, exist_ok=True)
    Path(rules[0]["file"]).write_text(rules[0]["rule"], encoding="utf-8")
    assert call(tools, "mark", "path=a.txt")[:2] == (0, "marked\n")
    assert call(tools, "mark", "path=b.txt")[0] == 3


def test_a_denial_names_the_rule_that_denies(tools: Handrail) -> None:
    tools.config.mkdir(parents=True)
    (tools.config / "rules.toml").write_text(
        '[[rule]]\nid = "hands off"\ndecide = "deny"\ntools = ["mark"]\nreason = "not now"\n',
        encoding="utf-8",
    )
    code, out, err = call(tools, "mark", "path=a.txt", "--mode", "edits")

    assert (code, out) == (3, "")
    assert (
        err.splitlines()[-1] == "  to allow it, change hands off (TMP/config/handrail/rules.toml:1)"
    )


@pytest.mark.parametrize(("named", "meant"), [("mrak", "mark"), ("mark", ""), ("deploy", "")])
def test_a_rule_with_a_misspelled_tool_is_reported_wherever_tools_are_known(
    tools: Handrail, named: str, meant: str
) -> None:
    file = tools.config / "rules.toml"
    tools.config.mkdir(parents=True)
    file.write_text(f"[[rule]]\ndecide = 'deny'\ntools = '{named}'\n", encoding="utf-8")
    model = ("-t", "own.py", *scripted(tools, "'Done.'"))
    told = {
        words[0]: [line for line in tools(*words).err.splitlines() if "no tool" in line]
        for words in (
            ("tools", "call", "mark", "path=a.txt", "-t", "own.py"),
            ("explain", "mark", "path=a.txt", "-t", "own.py"),
            ("run", *model, "Go."),
        )
    }

    line = f"deny {named} ({file}:1): no tool is named {named!r}; did you mean {meant!r}?"
    assert told == dict.fromkeys(("tools", "explain", "run"), [line] if meant else [])


def test_what_is_asked_each_time_is_for_a_terminal(handrail: Handrail) -> None:
    ran = handrail("tools", "call", "bash", "command=rm -rf /", "--json")

    assert (ran.exit, ran.error["hint"]) == (3, "run it at a terminal, where you can approve it")


def test_a_dry_run_explains_and_runs_nothing(tools: Handrail, schema: Schemas) -> None:
    given = ("mark", "path=a.txt", "--mode", "edits")
    dry = tools("tools", "call", *given, "--dry-run", "-t", "own.py", "--json")

    assert schema("tools-call", dry.json)["decision"]["verdict"] == "allow"
    assert call(tools, *given, "--dry-run")[:2] == (
        0,
        (
            'call      mark {"path": "a.txt"}\n'
            "touches   write file:a.txt\n"
            "rule      allow by mode edits\n"
            "decision  allow [mode edits]\n"
        ),
    )
    assert not (tools.workspace / "a.txt").exists()
    assert call(tools, *given)[0] == 0  # the control: it would have
    assert (tools.workspace / "a.txt").exists()


def test_a_coding_tool_works_in_the_workspace(handrail: Handrail) -> None:
    handrail.write("a.txt", "hello\n")

    assert handrail("tools", "call", "read", "file_path=a.txt") == (0, "     1\thello\n", "")
    assert handrail("tools", "call", "bash", "command=cat a.txt").out.startswith("hello\n")
    assert handrail("tools", "call", "read", "file_path=/etc/hostname").exit == 3


def test_text_that_no_terminal_takes_is_data_where_none_is(tools: Handrail) -> None:
    plain = tools("tools", "call", "say", "words=\x1b[1mbold\ttab", "-t", "own.py")
    halves = tools("tools", "call", "halve", "-t", "own.py")

    assert plain.out == "\x1b[1mbold\ttab\n"
    assert (halves.exit, halves.out) == (0, snapshot("a\\ud800b\n"))


class Terminal:
    """A command with a person at the other end of a pty."""

    def __init__(self, handrail: Handrail, *arguments: str) -> None:
        self.master, side = pty.openpty()
        self.process = forked.start(
            arguments,
            (side, side, side),
            env=handrail.environment({"COLUMNS": "100", "LINES": "40"}),
            cwd=handrail.workspace,
            terminal=True,
        )
        os.close(side)
        self.seen = ""
        self._answered = 0

    def until(self, words: str) -> None:
        """Wait for words that come after those that were waited for last."""
        while (at := self.seen.find(words, self._answered)) < 0:
            assert self._reads(), self.seen
        self._answered = at + len(words)

    def type(self, words: str) -> None:
        os.write(self.master, words.encode())

    def end(self) -> int:
        """Wait for the end; the exit code."""
        while self._reads():
            pass
        return self.process.wait(30)

    def _reads(self) -> bool:
        ready, _, _ = select.select([self.master], [], [], 30)
        assert ready, self.seen
        try:
            piece = os.read(self.master, 65536)
        except OSError:  # nobody is at the other side any more
            return False
        self.seen += piece.decode()
        return bool(piece)


Opens = Callable[..., Terminal]


@pytest.fixture
def person(handrail: Handrail) -> Iterator[Opens]:
    """Starts commands at terminals; none outlives its test."""
    opened: list[Terminal] = []

    def opens(*arguments: str) -> Terminal:
        opened.append(Terminal(handrail, *arguments))
        return opened[-1]

    yield opens
    for one in opened:
        one.process.kill()
        one.process.wait()
        os.close(one.master)


def test_at_a_terminal_a_yes_runs_it(tools: Handrail, person: Opens) -> None:
    seat = person("tools", "call", "mark", "path=a.txt", "-t", "own.py")
    seat.until("your answer: ")
    seat.type("y\n")

    assert seat.end() == 0
    assert "marked" in seat.seen
    assert (tools.workspace / "a.txt").read_text(encoding="utf-8") == "x"


def test_whoever_is_asked_may_ask_back_why(tools: Handrail, person: Opens) -> None:
    seat = person("tools", "call", "mark", "path=a.txt", "-t", "own.py")
    seat.until("your answer: ")
    seat.type("w\n")
    seat.until("ask by mode ask")
    seat.until("your answer: ")
    seat.type("n\n")
    seat.until("What should the model")
    seat.type("\n")

    assert seat.end() == 3


def test_at_a_terminal_a_no_does_not(tools: Handrail, person: Opens) -> None:
    seat = person("tools", "call", "mark", "path=a.txt", "-t", "own.py")
    seat.until("your answer: ")
    seat.type("n\n")
    seat.until("What should the model")
    seat.type("\n")

    assert seat.end() == 3
    assert "to allow it, add this rule" not in seat.seen
    assert not (tools.workspace / "a.txt").exists()


def test_an_answer_for_later_runs_nothing(tools: Handrail, person: Opens) -> None:
    seat = person("tools", "call", "mark", "path=a.txt", "-t", "own.py")
    seat.until("your answer: ")
    seat.type("l\n")

    assert seat.end() == 3
    assert not (tools.workspace / "a.txt").exists()


def test_with_no_input_nobody_is_asked_at_a_terminal(tools: Handrail, person: Opens) -> None:
    seat = person("tools", "call", "mark", "path=a", "-t", "own.py", "--no-input")

    assert seat.end() == 3
    assert "your answer" not in seat.seen
    assert "to allow it, add this rule" in seat.seen


def test_a_file_that_is_no_text_is_not_taken_for_a_new_one(
    handrail: Handrail, person: Opens
) -> None:
    (handrail.workspace / "picture").write_bytes(b"\x89PNG\xff")
    for path, told in [("picture", "was not read"), ("new", "is a new file")]:
        seat = person("tools", "call", "write", f"file_path={path}", "content=x")
        seat.until("your answer: ")
        seat.type("n\n")
        seat.until("What should the model")
        seat.type("\n")

        assert seat.end() == 3
        assert told in seat.seen


def test_a_change_is_shown_as_a_diff_before_it_is_made(handrail: Handrail, person: Opens) -> None:
    handrail.write("a.txt", "old words\n")
    args = '{"file_path": "a.txt", "content": "new words\\n"}'
    seat = person("tools", "call", "write", args)
    seat.until("your answer: ")
    seat.type("n\n")
    seat.until("What should the model")
    seat.type("\n")

    assert seat.end() == 3
    assert "old words" in seat.seen


def test_a_file_that_is_not_there_yet_is_shown_whole(handrail: Handrail, person: Opens) -> None:
    args = '{"file_path": "new.txt", "content": "new words\\n"}'
    seat = person("tools", "call", "write", args)
    seat.until("your answer: ")
    seat.type("y\n")

    assert seat.end() == 0
    assert "new words" in seat.seen
    assert (handrail.workspace / "new.txt").read_text(encoding="utf-8") == "new words\n"


def test_on_a_terminal_a_result_is_made_safe(tools: Handrail, person: Opens) -> None:
    seat = person("tools", "call", "say", "words=\x1b]0;x\x07", "-t", "own.py")

    assert seat.end() == 0
    assert "\\u{1B}]0;x\\u{7}" in seat.seen
    assert "\x1b]0;x" not in seat.seen


SLOW = """
import time
import anyio
from handrail import READ, tool

@tool(effect=READ)
async def wait() -> str:
    '''Wait.'''
    print("waiting", flush=True)
    await anyio.sleep_forever()

@tool(effect=READ)
async def stubborn() -> str:
    '''Wait on, whatever comes.'''
    print("waiting", flush=True)
    while True:
        try:
            await anyio.sleep_forever()
        except BaseException:
            pass

@tool(effect=READ, timeout=0.5)
def threaded() -> str:
    '''Wait, in a thread.'''
    print("waiting", flush=True)
    time.sleep(1000)

@tool(effect=READ)
async def quits() -> str:
    '''End the program.'''
    raise KeyboardInterrupt
"""


def test_an_interrupt_ends_a_call(handrail: Handrail, person: Opens) -> None:
    handrail.write("slow.py", SLOW)
    seat = person("tools", "call", "wait", "-t", "slow.py")
    seat.until("waiting")
    seat.process.send_signal(signal.SIGINT)

    assert seat.end() == 130
    assert "Traceback" not in seat.seen
    assert "left behind" not in seat.seen


def slow(handrail: Handrail, tool: str) -> subprocess.Popen[str]:
    """A call of a tool that goes on."""
    handrail.write("slow.py", SLOW)
    return subprocess.Popen(  # noqa: S603  our own interpreter
        [forked.program(), "tools", "call", tool, "-t", "slow.py", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=handrail.workspace,
        env=handrail.environment(),
        encoding="utf-8",
    )


def test_a_tool_that_does_not_stop_is_left_behind(handrail: Handrail, schema: Schemas) -> None:
    threaded, stubborn = slow(handrail, "threaded"), slow(handrail, "stubborn")
    assert stubborn.stderr is not None
    assert stubborn.stderr.readline() == "waiting\n"
    stubborn.send_signal(signal.SIGTERM)

    late, never = (Ran(one.wait(30), *one.communicate()) for one in (threaded, stubborn))

    assert (late.exit, late.error["code"]) == (1, "timeout")
    assert schema("tools-call", late.json)["failure"]["kind"] == "timeout"
    assert (never.exit, never.out) == (143, "")
    assert never.error == {"code": "interrupted", "message": "interrupted", "hint": "", "exit": 143}
    assert all("the tool did not stop; exiting without it" in one.err for one in (late, never))


def test_a_second_signal_ends_a_call_at_once(handrail: Handrail) -> None:
    process = slow(handrail, "stubborn")
    assert process.stderr is not None
    assert process.stderr.readline() == "waiting\n"

    process.send_signal(signal.SIGTERM)
    while process.poll() is None:  # two that come at the same time are one
        process.send_signal(signal.SIGTERM)

    assert process.returncode == 143
    assert "left behind" not in process.communicate()[1]


def test_code_that_ends_a_program_ends_a_call(handrail: Handrail) -> None:
    process = slow(handrail, "quits")
    ran = Ran(process.wait(30), *process.communicate())

    assert (ran.exit, ran.out) == (1, "")
    assert ran.error["message"] == "the tool raised KeyboardInterrupt, which would end the program"


def test_what_goes_wrong_is_told_once_and_not_logged_over_the_screen(handrail: Handrail) -> None:
    handrail.write("broken.py", BROKEN)
    ran = handrail.process("tools", "call", "breaks", "-t", "broken.py")

    assert (ran.exit, ran.out) == (1, "")
    assert ran.err.count("ZeroDivisionError") == 2  # for the person, and in the hint
    assert "Traceback" not in ran.err


BROKEN = """
from handrail import READ, tool

@tool(effect=READ)
async def breaks() -> str:
    '''Break.'''
    raise ZeroDivisionError("no")
"""


STOCK = """
from handrail import READ, Access, tool

@tool(effect=READ{declared})
def stock(item: str) -> int:
    '''Return how many of an item are in stock.'''
    return 12
"""
SECRETS = """
[[rule]]
id = "secrets"
decide = "deny"
access = ["read file:secret*"]
"""


def test_a_tool_that_does_not_say_what_it_reads_is_told_what_to_declare(
    handrail: Handrail,
) -> None:
    handrail.config.mkdir(parents=True, exist_ok=True)
    (handrail.config / "rules.toml").write_text(SECRETS, encoding="utf-8")
    call = ("stock", "item=rails", "-t", "stock.py")
    model = scripted(handrail, "Call('stock', {'item': 'rails'}, 'c1')", "'Done.'")
    handrail.write("stock.py", STOCK.format(declared=""))
    denied, explained = handrail("tools", "call", *call), handrail("tools", "explain", *call)
    ran = handrail("run", *model, "-t", "stock.py", "Go")
    told = [re.findall(r"`(touches=.+)`", one.err) for one in (denied, explained, ran)]
    [declared] = told[0]
    handrail.write("stock.py", STOCK.format(declared=f", {declared}"))
    done = handrail("tools", "call", *call)

    assert told == [['touches=lambda **_: Access("read", "stock:all")']] * 3
    assert (denied.exit, ran.exit, done.exit, done.out) == (3, 3, 0, "12\n")
    assert "data that the tool does not name may include what rule 'secrets' denies" in denied.err
