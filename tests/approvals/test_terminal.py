"""The terminal approver, with a person at the other end of a pty."""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import struct
import subprocess
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Sequence
from types import MappingProxyType
from typing import Any

import anyio
import pytest
from inline_snapshot import snapshot
from rich.console import Console
from rich.theme import Theme

from approvals.person import Person, person
from approvals.questions import asked
from handrail import (
    DESTROY,
    READ,
    WRITE,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Deny,
    Effect,
    Executor,
    Result,
    Toolset,
    tool,
)
from handrail.approvals import Proposal, ask_at_terminal, terminal
from handrail.permissions import Answer, Approver, Edit, FileChange, Origin, Pending
from handrail.policy import Rulebook

NO = Deny(
    "Not run: the user denied this call. Do not work around this. Continue without it, or tell the "
    "user."
)


def no_prompt(why: str) -> Deny:
    return Deny(
        f"Not run: this needs the user's approval, and {why}. Do what you can without it, and "
        "report it at the end."
    )


NO_TERMINAL = no_prompt("the input is not a terminal")
RAW = no_prompt("the terminal is in raw mode")
CANNOT_SHOW = no_prompt("the request cannot be shown on a terminal")
QUESTION = asked({"path": "a"})
NEW = "new arguments as JSON, on one line (Enter to go back): "
MARK, MARK_ESCAPE = "\u0301", r"\u0301"

Acts = Callable[[], Awaitable[Any]]


def at(who: Person, **options: Any) -> Approver:
    return terminal(stdin=who.stdin, console=who.console, **options)


async def answer(approver: Approver, pending: Pending, *acts: Acts) -> Answer | Pending:
    """What the approver answers, while a person does these things in turn."""
    answers: list[Answer | Pending] = []

    async def ask() -> None:
        answers.append(await approver(pending))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        for act in acts:
            await act()
    return answers[0]


async def answered(
    *words: str, pending: Pending = QUESTION, height: int = 24, **options: Any
) -> Answer | Pending:
    """What becomes of a question if a person types these words, each when they are asked."""
    with person(height=height) as who:
        return await answer(at(who, **options), pending, lambda: who.answers(*words))


@pytest.mark.parametrize("word", ["y", "yes", " Y "])
@pytest.mark.parametrize("effect", [READ, WRITE])
async def test_yes_allows_the_call_once(word: str, effect: Effect) -> None:
    assert await answered(word, pending=asked({}, effect=effect)) == Allow()


@pytest.mark.parametrize("effect", [READ, WRITE, DESTROY])
async def test_enter_alone_is_no_answer(effect: Effect) -> None:
    pending = asked({}, effect=effect)

    assert await answered("", "", "what", "l", pending=pending) == pending


async def test_what_may_destroy_wants_the_whole_word() -> None:
    with person() as who:
        given = await answer(
            at(who),
            asked({}, effect=DESTROY),
            lambda: who.answers("y"),
            lambda: who.sees("Type yes in full: this can lose something for good.\n"),
            lambda: who.answers("yes"),
        )

    assert (given, who.rails) == (Allow(), {"║"})


async def test_the_whole_question_is_shown_before_it_is_asked() -> None:
    with person() as who:
        shown: list[str] = []

        async def reads() -> None:
            shown.append(await who.sees("your answer: "))
            who.types("l\n")

        await answer(at(who), QUESTION, reads)

    assert who.rails == {"┃"}
    assert "".join(shown) == (
        "\nCall write?                                          ! no sandbox contains it\n"
        "\n  path: a\n\n  Write it? Asked by ask write (handrail.toml:3).\n"
        "  y yes, this once      n no      ? more\n"
    )


ASKED = "Allow this command, and let it reach pypi.org? `pip install attrs`"


@pytest.mark.parametrize(
    ("command", "question", "shown"),
    [
        (
            "pip install attrs",
            f"{ASKED} (programs run .venv)",
            "Allow this command, and let it reach pypi.org? Reason: programs run .venv. Asked by",
        ),
        (
            "pip install attrs",
            ASKED,
            "Allow this command, and let it reach pypi.org? Asked by",
        ),
        (
            "pip install other",  # the question names what is not shown above it
            ASKED,
            f"{ASKED}. Asked by",
        ),
        (
            "pip install attrs",  # only the policy knows where such a reason begins
            f"{ASKED} (why? (so))",
            "Allow this command, and let it reach pypi.org? (why? (so)). Asked by",
        ),
    ],
)
async def test_a_question_ends_with_its_reason_and_names_the_command_once(
    command: str, question: str, shown: str
) -> None:
    with person(width=200) as who:

        async def reads() -> None:
            text = await who.sees("your answer: ")
            assert [line for line in text.splitlines() if "Asked by" in line] == [
                f"  {shown} ask write (handrail.toml:3)."
            ]
            who.types("l\n")

        await answer(at(who), asked({"command": command}, question=question), reads)


async def test_markup_and_names_of_emoji_are_shown_as_they_are() -> None:
    with person() as who:
        shown: list[str] = []

        async def reads() -> None:
            shown.append(await who.sees("your answer: "))
            who.types("l\n")

        await answer(at(who), asked({"text": "[bold red]x[/] :smile: [link=x]y[/link]"}), reads)

    assert "text: [bold red]x[/] :smile: [link=x]y[/link]\n" in shown[0]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("", NO.reason),
        (
            "Use b.",
            "Not run: the user denied this call. Do not work around this. Their message: Use b.",
        ),
        (
            "grüß \u0301",
            "Not run: the user denied this call. Do not work around this. Their message: grüß \u0301",
        ),
    ],
)
async def test_no_takes_words_for_the_model(words: str, reason: str) -> None:
    with person() as who:
        given = await answer(
            at(who),
            QUESTION,
            lambda: who.answers("n"),
            lambda: who.answers(
                words, after="What should the model do instead? (Enter: say nothing) "
            ),
        )

    assert given == Deny(reason)


async def seen(pending: Pending, *keys: str, **options: Any) -> str:
    """What is on the screen between the first key and the next time that an answer is wanted."""
    with person() as who:
        shown: list[str] = []

        async def reads() -> None:
            await who.answers(*keys)
            shown.append(await who.sees("  y yes, this once  "))
            await who.answers("l")

        await answer(at(who, **options), pending, reads)
    return shown[0]


async def test_why_names_the_rule_that_asks() -> None:
    assert await seen(QUESTION, "w") == "w\nasked by: ask write (handrail.toml:3)\n"
    assert await seen(asked({}, origin=None), "w") == "w\nNo rule asked for this.\n"


KEYS = """\
?
  y  yes, this once
  n  no, and say why
  e  edit its arguments
  d  show all of it
  w  why am I asked?
  r  answer in the tool's place
  l  decide later
"""


async def test_the_other_keys_are_behind_a_question_mark() -> None:
    assert await seen(QUESTION, "?") == KEYS
    assert await seen(QUESTION, "?", stop=lambda: None) == f"{KEYS}  q  no, and stop the run\n"


async def test_why_names_every_rule_that_speaks_of_the_call_with_its_file_and_line() -> None:
    @tool
    def change(path: str) -> None:
        """Change a file."""

    rules = """
        [[rule]]
        decide = "ask"
        tools = ["change"]
        id = "look\\u202e"

        [[rule]]
        decide = "allow"
        tools = ["*"]
        id = "all"
    """
    executor = Executor(Toolset(change), policy=Rulebook.from_toml(rules, file="rules.toml"))
    pending = asked({"path": "a"}, name="change", origin=Origin("look\u202e", "rules.toml", 2))

    assert await seen(pending, "w", explain=executor.explain) == (
        "w\n"
        "asked by: look\\u{202E} (rules.toml:2)\n"
        "matching rules, the deciding one first:\n"
        "│ ask by look\\u{202E} (rules.toml:2)\n"
        "│ allow by all (rules.toml:7)\n"
    )


async def test_why_says_so_where_no_rule_speaks() -> None:
    executor = Executor(Toolset())

    assert (await seen(QUESTION, "w", explain=executor.explain)).endswith(
        "No rule matches this call.\n"
    )


async def test_stop_ends_the_run_and_is_a_no() -> None:
    stopped: list[str] = []
    with person() as who:
        given = await answer(
            at(who, stop=lambda: stopped.append("stopped")),
            QUESTION,
            lambda: who.answers("q"),
        )

    assert (given, stopped) == (Deny("Not run: the user stopped the run."), ["stopped"])


async def test_where_nothing_can_be_stopped_the_key_is_none() -> None:
    assert await answered("q", "l") is QUESTION


async def test_later_hands_the_question_back() -> None:
    assert await answered("l") is QUESTION


@pytest.mark.parametrize("pending", [QUESTION, asked({}, call=Call("write", {"path": "a"}, "c1"))])
async def test_edited_arguments_have_to_be_a_json_object(pending: Pending) -> None:
    with person() as who:
        given = await answer(
            at(who),
            pending,
            lambda: who.answers("e"),
            lambda: who.sees('│ {"path":"a"}\n'),
            lambda: who.answers('{"path"', "[1]", '{"path": "b"}', after=NEW),
        )

    assert given == Edit('{"path": "b"}')


async def copied(pending: Pending, *, width: int = 200) -> tuple[str, Answer | Pending]:
    """The arguments as they are shown for editing, and the answer of who sends them back."""
    with person(width=width) as who:
        shown: list[str] = []

        async def copies() -> None:
            await who.sees("current arguments:\n│ ")
            shown.append(await who.sees(f"\n{NEW}"))
            who.types(f"{shown[0]}\n")

        given = await answer(at(who), pending, lambda: who.answers("e"), copies)
    return shown[0], given


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{\n  "a b": "c  d",\r\n\t"n": [1, 2.50, 1e2]\n}\n', '{"a b":"c  d","n":[1,2.50,1e2]}'),
        (r'{"text": "\u001b[2K\n \" \\ : , x"}', r'{"text":"\u001b[2K\n \" \\ : , x"}'),
        ('{"a\u200b": "\u202e\x7f\u2028"}', r'{"a\u200b":"\u202e\u007f\u2028"}'),
        ('{"tag": "\U000e0041"}', r'{"tag":"\udb40\udc41"}'),
        ('{"url": "p\u0430ypal.com"}', r'{"url":"p\u0430ypal.com"}'),
        (f'{{"mark": "a{MARK * 5}"}}', f'{{"mark":"a{MARK * 3}{MARK_ESCAPE * 2}"}}'),
        (r'{"text": "grüße\nგამარჯობა 文件 😀"}', r'{"text":"grüße\nგამარჯობა 文件 😀"}'),
    ],
)
async def test_arguments_to_edit_are_one_line_of_json_that_can_be_copied(
    text: str, line: str
) -> None:
    shown, given = await copied(asked(text))

    assert (shown, given) == (line, Edit(line))
    assert json.loads(line) == json.loads(text)


async def test_arguments_of_any_mapping_are_shown_for_editing_as_json() -> None:
    call = Call("write", MappingProxyType({"path": "a\u200b", "n": 1}), "c1")
    line = r'{"path":"a\u200b","n":1}'

    assert await copied(asked({}, call=call)) == (line, Edit(line))


async def test_arguments_to_edit_that_are_not_json_are_shown_as_text() -> None:
    with person() as who:
        await answer(
            at(who),
            asked("not\nJSON"),
            lambda: who.answers("e"),
            lambda: who.sees("│ not\\u{A}JSON\n"),
            lambda: who.answers("", after=NEW),
            lambda: who.answers("l"),
        )


async def test_arguments_to_edit_that_are_wider_than_the_screen_go_on_after_a_margin() -> None:
    with person(width=40) as who:
        shown: list[str] = []

        async def reads() -> None:
            await who.sees("current arguments:\n")
            shown.append(await who.sees(NEW[:20]))
            who.types("\n")

        await answer(
            at(who),
            asked({"text": "x" * 60}),
            lambda: who.answers("e"),
            reads,
            lambda: who.answers("l"),
        )

    assert shown == [f'│ {{"text":"{"x" * 25}\n┊ {"x" * 34}\n┊ x"}}\n']


async def test_a_result_can_be_given_in_place_of_the_call() -> None:
    with person() as who:
        given = await answer(
            at(who),
            QUESTION,
            lambda: who.answers("r"),
            lambda: who.answers("done by hand", after="result for the model (Enter to go back): "),
        )

    assert given == Result("c1", "done by hand")


@pytest.mark.parametrize("key", ["e", "r"])
async def test_nothing_typed_leads_back_to_the_question(key: str) -> None:
    with person() as who:
        given = await answer(
            at(who),
            QUESTION,
            lambda: who.answers(key),
            lambda: who.answers("", after="(Enter to go back): "),
            lambda: who.answers("y"),
        )

    assert given == Allow()


@pytest.mark.parametrize("before", [(), ("n",), ("e",), ("r",)])
async def test_the_end_of_the_input_is_a_no(before: Sequence[str]) -> None:
    with person() as who:

        async def ends() -> None:
            await who.sees("(Enter" if before else "your answer: ")
            who.types("\x04")

        given = await answer(at(who), QUESTION, lambda: who.answers(*before), ends)

    assert given == NO


async def test_a_terminal_that_hangs_up_is_a_no() -> None:
    with person() as who:

        async def hangs_up() -> None:
            await who.sees("your answer: ")
            who.hang_up()

        given = await answer(at(who), QUESTION, hangs_up)

    assert isinstance(given, Deny)


async def test_a_screen_that_hangs_up_is_a_no() -> None:
    with person() as who, person() as other:
        other.hang_up()
        given = await terminal(stdin=who.stdin, console=other.console)(QUESTION)

    assert given == CANNOT_SHOW


LONG = asked({"text": "\n".join(map(str, range(60))), "path": "b"})
UNSEEN = "Part of the request was not on the screen. Type d to see all of it first.\n"


async def test_details_are_the_whole_request_and_what_an_answer_is_tied_to() -> None:
    shown = await seen(QUESTION, "d")

    assert re.sub("[0-9a-f]{16,}", "…", shown) == snapshot("""\
d
write wants to run (write; call c1)
  write file:src/a.py
question: Write it?
asked by: ask write (handrail.toml:3)
path: a
fingerprint: …
the answer is valid for this call only, once, within 1 minute of this request
""")


async def test_nobody_says_yes_to_what_was_not_on_the_screen() -> None:
    with person() as who:
        more = "more rows; Enter to continue, q to go back) "
        given = await answer(
            at(who),
            LONG,
            lambda: who.answers("y"),
            lambda: who.sees(UNSEEN),
            lambda: who.answers("d"),
            lambda: who.answers("q", after=more),
            lambda: who.answers("y"),
            lambda: who.sees(UNSEEN),
            lambda: who.answers("d"),
            lambda: who.answers("", "", "", after=more),
            lambda: who.sees("fingerprint: "),
            lambda: who.answers("y"),
        )

    assert given == Allow()


async def test_what_fits_on_the_screen_only_in_parts_was_not_on_it_either() -> None:
    pending = asked({f"a{number}": number for number in range(30)})

    assert await answered("y", "l", pending=pending) == pending
    assert await answered("y", pending=pending, height=50) == Allow()


async def test_what_is_too_long_to_judge_is_denied_unasked() -> None:
    with person() as who:
        given = await answer(at(who), asked({"content": "x" * 10_240}))

    assert given == Deny(
        "Not run: the call has 10303 bytes, too many to show to the user for approval (at most 10240). Split it into smaller calls."
    )


async def test_what_was_typed_before_the_question_is_no_answer() -> None:
    """Vector approval-019."""
    with person() as who:
        who.types("y\ny\nyes\ny")
        given = await answer(at(who), QUESTION, lambda: who.answers("l"))

    assert given == QUESTION


async def test_a_yes_in_advance_does_not_answer_the_question_behind_it() -> None:
    with person() as who:

        async def types_two() -> None:
            await who.sees("your answer: ")
            who.types("what\ny\n")

        given = await answer(at(who), QUESTION, types_two, lambda: who.answers("l"))

    assert given == QUESTION


@pytest.mark.parametrize("kind", ["pipe", "no file", "closed"])
async def test_without_a_terminal_the_answer_is_no_at_once(kind: str) -> None:
    """Vector approval-020."""
    inside, outside = os.pipe()
    os.write(outside, b"y\n")
    with os.fdopen(inside, encoding="utf-8") as pipe, os.fdopen(outside, "wb"):
        closed = io.StringIO()
        closed.close()
        stdin: Any = {"pipe": pipe, "no file": io.StringIO("y\n"), "closed": closed}[kind]
        console = Console(file=io.StringIO(), force_terminal=True)
        given = await terminal(stdin=stdin, console=console)(QUESTION)

    assert given == NO_TERMINAL


GROUNDS = {"handrail.added": "on #0b3b45", "handrail.ask": "bold on default"}


@pytest.mark.parametrize(("styles", "fill"), [(GROUNDS, "  "), ({}, "")])
async def test_the_ground_of_changed_rows_is_as_wide_as_the_longest(
    styles: dict[str, str], fill: str
) -> None:
    change = FileChange("a.txt", None, "one\nthree\n")
    pending = asked({"path": "a.txt"}, changes=(change,))
    with person() as who:
        console = Console(
            file=who.console.file,
            force_terminal=True,
            color_system="truecolor",
            theme=Theme(styles),
            width=80,
            height=24,
            _environ={"TERM": "dumb"},
        )
        seen: list[str] = []

        async def answers() -> None:
            seen.append(await who.sees("your answer: "))
            who.types("n\n\n")

        await answer(terminal(stdin=who.stdin, console=console), pending, answers)

    rows = [re.sub("\x1b\\[[0-9;]*m", "", row) for row in seen[0].split("\n")]
    assert [row for row in rows if "+" in row and "one" in row] == [f" 1 + one{fill}"]


async def test_stdin_is_looked_at_when_the_question_is_asked(monkeypatch: Any) -> None:
    console = Console(file=io.StringIO(), force_terminal=True)
    approver = terminal(console=console)
    monkeypatch.setattr(sys, "stdin", None)
    nobody = await approver(QUESTION)
    with person() as who:
        monkeypatch.setattr(sys, "stdin", who.stdin)
        given = await answer(terminal(console=who.console), QUESTION, lambda: who.answers("y"))

    assert (nobody, given) == (NO_TERMINAL, Allow())


async def test_lines_are_as_long_as_the_terminal_is_wide_whatever_the_environment_says() -> None:
    with person(width=200, height=100) as who:
        fcntl.ioctl(who.stdin, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 50, 0, 0))
        shown: list[str] = []

        async def reads() -> None:
            shown.append(await who.sees("your answer: "))
            who.types("l\n")

        await answer(at(who), asked({"path": "x" * 150}), reads)

    assert max(map(len, shown[0].splitlines())) == 47  # and two for the rail


async def test_a_question_that_cannot_be_shown_is_not_asked() -> None:
    with person() as who:
        given = await terminal(stdin=who.stdin, console=Console(file=io.StringIO()))(QUESTION)

    assert given == CANNOT_SHOW


async def test_in_raw_mode_the_answer_is_no_at_once() -> None:
    """Vector approval-021."""
    with person() as who:
        tty.setraw(who.stdin)
        who.types("y\n")

        assert await at(who)(QUESTION) == RAW


async def test_a_terminal_that_turns_raw_meanwhile_gives_no_answer() -> None:
    with person() as who:

        async def turns_raw() -> None:
            await who.sees("your answer: ")
            tty.setcbreak(who.stdin)
            who.types("y\n")

        given = await answer(at(who), QUESTION, turns_raw)

    assert given == RAW


async def test_questions_are_asked_one_at_a_time_in_their_order() -> None:
    with person() as who:
        approver = at(who)
        given: dict[str, object] = {}

        async def ask(call_id: str) -> None:
            given[call_id] = await approver(asked({"of": call_id}, call_id=call_id))

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(ask, f"c{number}", name=str(number))
                await anyio.wait_all_tasks_blocked()
            for number in range(5):
                before = await who.sees("your answer: ")
                assert f"  of: c{number}\n" in before
                assert before.count("Call write?") == 1
                who.types("r\n")
                await who.answers(f"r{number}", after="(Enter to go back): ")

    assert given == {f"c{number}": Result(f"c{number}", f"r{number}") for number in range(5)}


async def test_too_many_questions_at_once_are_denied() -> None:
    """Vector approval-027."""
    with person() as who:
        approver = at(who, most_waiting=3)
        given: list[object] = []

        async def ask() -> None:
            given.append(await approver(QUESTION))

        async with anyio.create_task_group() as tasks:
            for _ in range(200):
                tasks.start_soon(ask)
            await who.sees("your answer: ")
            at_once = list(given)
            who.types("y\n")
            await who.answers("y", "y", "y")

    assert (
        at_once
        == [
            Deny(
                "Not run: too many calls are waiting for the user's approval. Send fewer such calls at a time."
            )
        ]
        * 196
    )
    assert given[196:] == [Allow()] * 4


async def test_a_question_that_was_cancelled_leaves_the_terminal_to_the_next() -> None:
    with person() as who:
        approver = at(who)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(approver, QUESTION)
            await who.sees("your answer: ")
            tasks.cancel_scope.cancel()
        await who.sees("The request was withdrawn.\n")
        given = await answer(approver, QUESTION, lambda: who.answers("y"))

        assert (given, who.is_raw()) == (Allow(), False)


async def test_a_question_that_was_cancelled_in_the_queue_is_never_shown() -> None:
    with person() as who:
        approver = at(who)
        waiting = anyio.CancelScope()

        async def ask_second() -> None:
            with waiting:
                await approver(asked({}, call_id="second"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(approver, QUESTION)
            first = await who.sees("your answer: ")
            tasks.start_soon(ask_second)
            await anyio.wait_all_tasks_blocked()
            waiting.cancel()
            await anyio.wait_all_tasks_blocked()
            who.types("y\n")
        given = await answer(approver, QUESTION, lambda: who.answers("l"))

    assert (given, "second" in first + who.seen) == (QUESTION, False)


async def test_a_line_typed_after_a_cancelled_question_is_still_there_for_others() -> None:
    with person() as who:
        approver = at(who)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(approver, QUESTION)
            await who.sees("your answer: ")
            tasks.cancel_scope.cancel()
        await who.sees("The request was withdrawn.\n")
        who.types("for the host\n")

        assert await anyio.to_thread.run_sync(who.stdin.readline) == "for the host\n"


async def test_other_calls_go_on_while_a_question_waits() -> None:
    ran: list[str] = []
    with person() as who:

        @tool(effect=READ, touches=lambda **_: ())
        def look() -> str:
            """Look."""
            ran.append("look")
            who.types("y\n")
            return "seen"

        @tool
        def change() -> str:
            """Change."""
            ran.append("change")
            return "changed"

        def policy(call: CheckedCall) -> Allow | Ask:
            return Ask("Change?") if call.name == "change" else Allow()

        tools = Toolset(look, change)
        async with Executor(tools, policy=policy, approvals=at(who)) as executor:
            results: list[Result] = []

            async def run() -> None:
                results.append(await executor.run(Call("change", {}, "c1")))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await who.sees("your answer: ")
                results.append(await executor.run(Call("look", {}, "c2")))

    assert ([one.text for one in results], ran) == (["seen", "changed"], ["look", "change"])


class Rules:
    """Remembers what it is told to, if it can."""

    def __init__(self, *proposals: Proposal, fails: bool = False) -> None:
        self._proposals = proposals
        self._fails = fails
        self.stored: list[Proposal] = []

    def propose(self, _pending: Pending, /) -> Sequence[Proposal]:
        return self._proposals

    def store(self, proposal: Proposal, /) -> None:
        if self._fails:
            raise PermissionError("no")
        self.stored.append(proposal)


RUN = Proposal("run", "write file:src/**")
PROJECT = Proposal("project", "write file:src/a.py", "/home/u/p/.handrail.toml")
ALWAYS = Proposal("always", "[[rule]]\ntools = []\n", "/home/u/.config/handrail.toml")
REMEMBERED = "  y yes, this once      a always, as a rule      n no      ? more\n"
SCOPES = "  r  this run\n  p  this project\n  w  all projects\nremember for (Enter to go back): "
REMEMBER = "remember for (Enter to go back): "


@pytest.mark.parametrize(
    ("key", "proposal", "said"),
    [
        ("r", RUN, "rule: write file:src/**\nscope: this run\nfile: none\n"),
        ("p", PROJECT, "rule: write file:src/a.py\nscope: this project\nfile: /home/u/p/.handrail.toml\n"),
        ("w", ALWAYS, "rule:\n│ [[rule]]\n│ tools = []\nscope: all projects\nfile: /home/u/.config/handrail.toml\n"),
    ],
)  # fmt: skip
async def test_a_rule_is_shown_before_it_is_stored(key: str, proposal: Proposal, said: str) -> None:
    rules = Rules(RUN, PROJECT, ALWAYS)
    with person() as who:
        given = await answer(
            at(who, remember=rules),
            QUESTION,
            lambda: who.sees(REMEMBERED),
            lambda: who.answers("a"),
            lambda: who.answers(key, after=SCOPES),
            lambda: who.sees(said + "This approves the call and stores the rule.\n"),
            lambda: who.answers("y", after="store it? y/n: "),
        )

    assert (given, rules.stored) == (Allow(), [proposal])


WIDE = Proposal("run", "write file:**", width="all files")
NARROW = Proposal("run", "write file:src/a.py", width="this file")


@pytest.mark.parametrize(("number", "chosen"), [("1", NARROW), ("2", WIDE)])
async def test_a_person_chooses_how_much_is_remembered(number: str, chosen: Proposal) -> None:
    rules = Rules(NARROW, PROJECT, WIDE)
    with person() as who:
        given = await answer(
            at(who, remember=rules),
            QUESTION,
            lambda: who.answers("a"),
            lambda: who.answers("x", after=REMEMBER),
            lambda: who.answers("a"),
            lambda: who.answers("r", after=REMEMBER),
            lambda: who.sees("  1  this file\n  2  all files\n"),
            lambda: who.answers("3", after=REMEMBER),
            lambda: who.answers("a"),
            lambda: who.answers("r", number, after=REMEMBER),
            lambda: who.sees(f"rule: {chosen.rule}\nscope: this run\n"),
            lambda: who.answers("y", after="store it? y/n: "),
        )

    assert (given, rules.stored) == (Allow(), [chosen])


class Forgetful(Rules):
    """Remembers nothing, and says why."""

    def refusal(self, _pending: Pending, /) -> str:
        return "it is\u202e new"


@pytest.mark.parametrize(
    ("pending", "said"),
    [
        (QUESTION, "cannot be remembered: it is\\u{202E} new\n"),
        (asked({"path": "a\u200b"}), "cannot be remembered: the request does not show all of it unchanged\n"),
    ],
)  # fmt: skip
async def test_a_person_reads_why_an_approval_cannot_be_remembered(
    pending: Pending, said: str
) -> None:
    with person() as who:
        given = await answer(
            at(who, remember=Forgetful()),
            pending,
            lambda: who.answers("?"),
            lambda: who.sees(said),
            lambda: who.answers("l"),
        )

    assert given == pending


async def test_a_rule_that_is_not_wanted_after_all_is_not_stored() -> None:
    rules = Rules(RUN)
    with person() as who:
        given = await answer(
            at(who, remember=rules),
            QUESTION,
            lambda: who.answers("a"),
            lambda: who.answers("r", after=REMEMBER),
            lambda: who.answers("", after="store it? y/n: "),
            lambda: who.sees("Nothing was stored.\n"),
            lambda: who.answers("l"),
        )

    assert (given, rules.stored) == (QUESTION, [])


async def test_a_rule_that_cannot_be_stored_allows_nothing() -> None:
    with person() as who:
        given = await answer(
            at(who, remember=Rules(RUN, fails=True)),
            QUESTION,
            lambda: who.answers("a"),
            lambda: who.answers("r", after=REMEMBER),
            lambda: who.answers("y", after="store it? y/n: "),
            lambda: who.sees("The rule could not be stored: PermissionError: no\n"),
            lambda: who.answers("l"),
        )

    assert given == QUESTION


async def test_a_rule_for_what_may_destroy_wants_the_whole_word_too() -> None:
    rules = Rules(RUN)
    with person() as who:
        given = await answer(
            at(who, remember=rules),
            asked({}, effect=DESTROY),
            lambda: who.answers("a"),
            lambda: who.answers("r", after=REMEMBER),
            lambda: who.answers("y", after="store it? y/n: "),
            lambda: who.answers("a"),
            lambda: who.answers("r", after=REMEMBER),
            lambda: who.answers("yes", after="store it? y/n: "),
        )

    assert (given, rules.stored) == (Allow(), [RUN])


async def test_no_rule_is_stored_for_what_was_not_on_the_screen() -> None:
    pending, rules = asked({f"a{number}": number for number in range(30)}), Rules(RUN)

    assert await answered("a", "l", pending=pending, remember=rules) == pending
    assert rules.stored == []


@pytest.mark.parametrize(
    ("pending", "rules"),
    [
        (asked({}, once=True), Rules(RUN)),
        (asked({"path": "a\u200b"}), Rules(RUN)),
        (asked({"path": "p\u0430th"}), Rules(RUN)),
        (LONG, Rules(RUN)),
        (QUESTION, Rules()),
        (QUESTION, None),
        (QUESTION, Rules(Proposal("run", "a\u202eb"), Proposal("project", "a", "\u200b"))),
        (QUESTION, Rules(Proposal("run", "x" * 10_241))),
    ],
    ids=[
        "once",
        "hidden",
        "mixed",
        "cut",
        "nothing to offer",
        "nobody",
        "hidden rule",
        "long rule",
    ],
)
async def test_nothing_is_remembered_that_a_person_may_not_have_seen(
    pending: Pending, rules: Rules | None
) -> None:
    """Vector approval-015."""
    with person() as who:
        shown: list[str] = []

        async def reads() -> None:
            shown.append(await who.sees("your answer: "))
            who.types("a\n")

        given = await answer(
            at(who, remember=rules),
            pending,
            reads,
            lambda: who.sees("Unknown answer. Type one of the keys above, then Enter.\n"),
            lambda: who.answers("l"),
        )

    assert (given, "always" in shown[0]) == (pending, False)


def test_without_rich_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['rich.console'] = None\n"
        "from handrail.approvals import terminal\n"
        "try: terminal()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8"
    )

    assert done.stdout == (
        "HandrailError The terminal approver needs rich: pip install 'handrail[terminal]'\n"
    )


async def test_questions_go_to_stderr_if_no_console_is_given(capfd: Any) -> None:
    with person() as who:
        given = await terminal(stdin=who.stdin)(QUESTION)

    assert (type(given), capfd.readouterr()) == (Deny, ("", ""))


async def asks(who: Person, *acts: Acts, choices: Sequence[str] = ()) -> str | None:
    """What a person answers to a question of a model, while they do these things."""
    given: list[str | None] = []
    ask = ask_at_terminal(stdin=who.stdin, console=who.console)

    async def ask_one() -> None:
        given.append(await ask("Which\x1b?\nOr none?", choices))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask_one)
        for act in acts:
            await act()
    return given[0]


async def test_a_question_of_a_model_is_answered_by_a_number_or_in_words() -> None:
    shown: list[str] = []
    for typed, choices in {"2": ("red", "gre\x07en"), "blue": ("red",), "3": ()}.items():
        with person() as who:

            async def reads(who: Person = who, typed: str = typed) -> None:
                shown.append(await who.sees("(Enter: none): "))
                who.types(f"{typed}\n")

            shown.append(str(await asks(who, reads, choices=choices)))

    assert shown == snapshot(
        [
            """\

Which\\u{1B}?
Or none?

  1  red
  2  gre\\u{7}en

A number or your own answer \
""",
            "gre\x07en",
            """\

Which\\u{1B}?
Or none?

  1  red

A number or your own answer \
""",
            "blue",
            """\

Which\\u{1B}?
Or none?
Your answer \
""",
            "3",
        ]
    )


async def test_a_question_that_nobody_can_answer_has_no_answer() -> None:
    with person() as who:

        async def closes() -> None:
            await who.sees("Your answer (Enter: none): ")
            who.types("\x04")

        closed = await asks(who, closes)
        elsewhere = ask_at_terminal(stdin=io.StringIO(), console=who.console)
        unseen = ask_at_terminal(stdin=who.stdin, console=Console(file=io.StringIO()))
        assert [closed, await elsewhere("Which?", ()), await unseen("Which?", ())] == [None] * 3


async def test_a_question_of_a_model_can_be_withdrawn() -> None:
    with person() as who:
        ask = ask_at_terminal(stdin=who.stdin, console=who.console)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "Which?", ())
            await who.sees("Your answer (Enter: none): ")
            tasks.cancel_scope.cancel()
        await who.sees("The request was withdrawn.\n")
