"""A tool says what a call would do: for the person who is asked, and never at the call's cost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from handrail import (
    WRITE,
    Allow,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Executor,
    FailureKind,
    Result,
    Tool,
    Toolset,
    tool,
    writes_file,
)
from handrail.permissions import Answer, Edit, FileChange, Pending

pytestmark = pytest.mark.anyio
SAVE = Call("save", {"path": "a", "text": "new\n"}, "c1")


def saver(**options: Any) -> Tool[..., Any]:
    @tool(effect=WRITE, touches=lambda path, **_: writes_file(path), **options)
    async def save(path: str, text: str) -> str:
        """Save a file."""
        return f"{path}: {text}"

    return save


def ask(_call: CheckedCall) -> Ask:
    return Ask("Save it?")


async def asked(
    save: Tool[..., Any], *calls: Call, answers: tuple[Answer, ...] = (), **options: Any
) -> tuple[list[Pending], list[Result]]:
    """What was asked about these calls, each allowed where no other answer is left."""
    questions: list[Pending] = []
    left = list(answers)

    async def approve(pending: Pending) -> Answer:
        questions.append(pending)
        return left.pop(0) if left else Allow()

    async with Executor(Toolset(save), policy=ask, approvals=approve, **options) as executor:
        results = [await executor.run(call) for call in calls or (SAVE,)]
    return questions, results


def change(path: str, text: str) -> FileChange:
    return FileChange(path, "old\n", text)


def headline(path: str, **_: str) -> str:
    return f"Save {path}"


async def test_a_preview_gets_the_key_of_the_call_if_it_has_a_parameter_for_it() -> None:
    """Without the parameter, it gets only the arguments."""
    named = saver(preview=lambda path, text, idempotency_key: f"{path} {text} {idempotency_key}")
    others = saver(preview=lambda **others: str(sorted(others)))
    [[first], _], [[second], _] = await asked(named), await asked(others)

    assert first.changes == (f"a new\n {first.key}",)
    assert second.changes == ("['path', 'text']",)


async def test_a_question_carries_what_the_tool_says_of_the_call() -> None:
    [pending], [result] = await asked(saver(preview=change, headline=headline))

    assert (pending.headline, pending.changes) == ("Save a", (FileChange("a", "old\n", "new\n"),))
    assert result == Result("c1", "a: new\n")


async def test_a_tool_may_say_one_of_both() -> None:
    [first], _ = await asked(saver(preview=lambda **_: "One mail is sent."))
    [second], _ = await asked(saver(headline=headline))
    [third], _ = await asked(saver())

    assert (first.headline, first.changes) == ("", ("One mail is sent.",))
    assert (second.headline, second.changes) == ("Save a", ())
    assert (third.headline, third.changes) == ("", ())


async def test_several_changes_come_in_their_order() -> None:
    def preview(path: str, text: str) -> list[FileChange | str]:
        return [FileChange(path, text, None), FileChange(f"{path}/b", None, text), "That is all."]

    [pending], _ = await asked(saver(preview=preview))

    assert pending.changes == (
        FileChange("a", "new\n", None),
        FileChange("a/b", None, "new\n"),
        "That is all.",
    )


async def test_a_call_that_nobody_is_asked_about_is_not_previewed() -> None:
    made: list[str] = []
    save = saver(preview=lambda path, **_: made.append(path), headline=lambda **_: made.append(""))
    async with Executor(Toolset(save)) as executor:
        await executor.run(SAVE)
    Executor(Toolset(save), policy=ask).explain(SAVE)

    assert made == []


async def test_a_preview_runs_beside_the_event_loop() -> None:
    threads: list[int] = []

    def preview(**_: str) -> str:
        threads.append(threading.get_ident())
        return ""

    await asked(saver(preview=preview))

    assert threading.get_ident() not in threads


async def test_other_arguments_have_another_preview() -> None:
    questions, [result] = await asked(
        saver(preview=change), answers=(Edit({"path": "b", "text": "other"}),)
    )

    assert [one.changes for one in questions] == [
        (FileChange("a", "old\n", "new\n"),),
        (FileChange("b", "old\n", "other"),),
    ]
    note = '[Note: a person changed the arguments: path="b", text="other".]'
    assert result.text == f"b: other\n{note}"


class Folder:
    def __init__(self, root: str) -> None:
        self.root = root

    def says(self, path: str) -> str:
        return f"Save {self.root}/{path}"

    @tool(effect=WRITE, headline=says, preview=lambda self, path: FileChange(path, self.root, None))
    async def save(self, path: str) -> str:
        """Save a file."""
        return path


async def test_the_preview_of_a_method_may_take_its_object() -> None:
    [pending], _ = await asked(Folder("home").save, Call("save", {"path": "a"}, "c1"))

    assert (pending.headline, pending.changes) == ("Save home/a", (FileChange("a", "home", None),))


async def test_a_preview_cannot_change_what_runs() -> None:
    def preview(names: list[str]) -> str:
        names.clear()
        return "Nothing to see."

    @tool(effect=WRITE, preview=preview)
    async def remove(names: list[str]) -> str:
        """Remove files."""
        return " ".join(names)

    _, [result] = await asked(remove, Call("remove", {"names": ["a", "b"]}, "c1"))

    assert result.text == "a b"


def raising(error: BaseException) -> Callable[..., Any]:
    def broken(**_: str) -> Any:
        raise error

    return broken


BROKEN: dict[str, Callable[..., Any]] = {
    "error": raising(OSError("gone")),
    "exit": raising(SystemExit(1)),
    "generator exit": raising(GeneratorExit()),
    "stop": raising(StopIteration()),
    "parameters": "{other}".format,
    "nothing": lambda **_: None,
    "number": lambda **_: 1,
    "numbers": lambda **_: [1],
    "bytes": lambda **_: b"new",
    "bytes of a file": lambda **_: FileChange("a", b"old", "new"),  # type: ignore[arg-type]
    "no path": lambda **_: FileChange(None, "old", "new"),  # type: ignore[arg-type]
    "no line": lambda **_: FileChange("a", "old", "new", None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_preview_is_logged_and_the_question_asked_without_it(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    save = saver(preview=BROKEN[name], headline=BROKEN[name])
    [pending], [result] = await asked(save)

    assert (pending.headline, pending.changes) == ("", ())
    assert result == Result("c1", "a: new\n")
    broken = f"the preview of the tool 'save' ({save.origin}) is broken"
    assert caplog.record_tuples == [("handrail", logging.ERROR, broken)] * 2


@pytest.mark.parametrize("path", ["b", "../a", "/a", "ab"])
async def test_a_file_that_the_call_does_not_touch_is_not_shown(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    [pending], _ = await asked(saver(preview=lambda **_: FileChange(path, "secret", "")))

    assert pending.changes == ()
    assert caplog.records[0].exc_info is not None
    assert str(caplog.records[0].exc_info[1]) == (
        f"The preview shows a change of file:{path}, which the call does not touch."
    )


async def test_a_preview_that_takes_too_long_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()
    slow = saver(preview=lambda **_: str(release.wait()), headline=headline)
    try:
        [pending], [result] = await asked(slow, limits=CallLimits(hook_timeout=0.5))
    finally:
        release.set()

    assert (pending.headline, pending.changes) == ("", ())
    assert result == Result("c1", "a: new\n")
    assert caplog.messages == ["the preview of a call of 'save' timed out"]


async def test_a_call_that_is_stopped_while_it_is_previewed_is_not_asked_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, release = anyio.Event(), threading.Event()
    questions: list[Pending] = []

    def preview(**_: str) -> str:
        anyio.from_thread.run_sync(begun.set)
        release.wait()
        return "late"

    async def approve(pending: Pending) -> Answer:
        questions.append(pending)
        return Allow()

    async def run(executor: Executor) -> None:
        results.append(await executor.run(SAVE))

    results: list[Result] = []
    try:
        async with (
            Executor(Toolset(saver(preview=preview)), policy=ask, approvals=approve) as executor,
            anyio.create_task_group() as group,
        ):
            group.start_soon(run, executor)
            await begun.wait()
            executor.cancel()
    finally:
        release.set()

    assert [result.failure and result.failure.kind for result in results] == [FailureKind.CANCELLED]
    assert (questions, caplog.messages) == ([], [])


async def test_a_call_that_is_asked_about_again_since_another_waits_is_previewed_again() -> None:
    async def approve(pending: Pending) -> Answer | Pending:
        return pending if pending.call.id == "c1" else Allow()

    save = saver(preview=change, headline=headline)
    async with Executor(Toolset(save), policy=ask, approvals=approve) as executor:
        second = Call("save", {"path": "a", "text": "newer\n"}, "c2")
        results = await executor.run_all([SAVE, second])
    shown = [
        (pending.id.partition("~c")[2], pending.headline, pending.changes)
        for result in results
        if (pending := result.pending)
    ]

    assert shown == [
        ("1~0", "Save a", (FileChange("a", "old\n", "new\n"),)),
        ("2~1", "Save a", (FileChange("a", "old\n", "newer\n"),)),
    ]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("Save it", "Save it"),
        ("Save\nit", "Save …"),
        ("x" * 201, f"{'x' * 199}…"),
        (f"{'x' * 200}\n", f"{'x' * 199}…"),
    ],
)
async def test_a_headline_is_one_line(given: str, kept: str) -> None:
    [pending], _ = await asked(saver(headline=lambda **_: given))

    assert pending.headline == kept


def lines(first: int, last: int) -> str:
    return "".join(f"line {number}\n" for number in range(first, last + 1))


async def previewed(*given: FileChange | str) -> tuple[FileChange | str, ...]:
    [pending], _ = await asked(saver(preview=lambda **_: iter(given)))
    return pending.changes


async def test_of_a_long_file_the_part_that_changes_is_kept() -> None:
    around = lines(1, 10_000)
    changed = around.replace("line 2500\n", "two\nlines\n")

    assert await previewed(FileChange("a", around, changed)) == (
        FileChange(
            "a",
            "line 2497\nline 2498\nline 2499\nline 2500\nline 2501\nline 2502\nline 2503",
            "line 2497\nline 2498\nline 2499\ntwo\nlines\nline 2501\nline 2502\nline 2503",
            line=2497,
        ),
    )


async def test_the_ends_of_a_long_file_are_kept_as_they_are() -> None:
    around = lines(1, 10_000)

    assert await previewed(
        FileChange("a", around, f"first\n{around}"), FileChange("a", around, around[:-1])
    ) == (
        FileChange("a", "line 1\nline 2\nline 3", "first\nline 1\nline 2\nline 3"),
        FileChange(
            "a",
            "line 9998\nline 9999\nline 10000\n",
            "line 9998\nline 9999\nline 10000",
            line=9998,
        ),
    )


async def test_where_even_that_is_too_long_it_is_said() -> None:
    many = "x" * 60_000

    assert await previewed(
        FileChange("a", None, many),
        FileChange("a/b", None, many),
        FileChange("a/c", "y" * 100_000, "z"),
        many,
        "That is all.",
    ) == (
        FileChange("a", None, many),
        "The change is too long to show here: a/b",
        "The change is too long to show here: a/c",
        "The change is too long to show here.",
        "That is all.",
    )


async def test_of_very_many_changes_the_first_are_kept() -> None:
    changes = await previewed(*[FileChange("a", "old", str(number)) for number in range(200)])

    assert changes == (
        *(FileChange("a", "old", str(number)) for number in range(100)),
        "More changes than can be shown here.",
    )
