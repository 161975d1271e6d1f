"""More arguments that take for ever, texts that deceive, and tools, streams and clocks that misbehave."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anyio
from jsonschema import Draft202012Validator

from approvals.display_vectors import as_printed, as_prompted
from handrail import (
    READ,
    Approvals,
    Args,
    Ask,
    Call,
    Context,
    Executor,
    Failure,
    FailureKind,
    HandrailError,
    Result,
    Spec,
    Tool,
    Toolset,
    tool,
)
from handrail.approvals import defer
from handrail.permissions import Allow
from handrail.providers import anthropic
from resuming import resume
from vectors.stage import Check

SECONDS = 0.5
"""Of the processor, for one reading of arguments; the vectors give it a second."""


@contextmanager
def _bounded() -> Iterator[None]:
    """Raises TimeoutError in code that takes longer."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, SECONDS)  # again: a finalizer ignores it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _refuses(given: Tool[..., Any], args: object) -> bool:
    return isinstance(given.parse(json.dumps(args)), Failure)


def _answers(given: Tool[..., Any], args: object) -> bool:
    """The schema of a remote tool is read as far as that is cheap; the server checks the rest."""
    return isinstance(given.parse(json.dumps(args)), Failure | Args)


def _tries_all(given: Tool[..., Any], args: object) -> bool:
    """The control: a validator that tries every choice at every level."""
    return not Draft202012Validator(dict(given.spec.input_schema)).is_valid(args)


@tool(effect=READ)
def listed(a: list[int | date]) -> str:
    """List."""
    return str(a)


def _compares_all(_given: object, args: Any) -> bool:
    """The control: of all complaints, those are shown that are about one of the same places."""
    places = [[at, kind] for at, _ in enumerate(args["a"]) for kind in ("int", "date")]
    return len([one for one in places if places.count(one) == 1]) > 0


@dataclass
class Not:
    """Not."""

    op: Literal["not"]
    arg: Not | Neg | Abs | int


@dataclass
class Neg:
    """Minus."""

    op: Literal["neg"]
    arg: Not | Neg | Abs | int


@dataclass
class Abs:
    """Without its sign."""

    op: Literal["abs"]
    arg: Not | Neg | Abs | int


@tool(effect=READ)
def computed(expr: Not | Neg | Abs | int) -> str:
    """Compute."""
    return str(expr)


def _nested(levels: int) -> object:
    value: object = "wrong"
    for level in range(levels):
        value = {"op": ("not", "neg", "abs")[level % 3], "arg": value}
    return value


async def _nowhere(_args: object, _context: Context) -> None: ...


def _remote(schema: dict[str, Any]) -> Tool[..., Any]:
    return Tool.remote(Spec(name="far", description="", input_schema=schema), _nowhere)


def _doubled(depth: int) -> Tool[..., Any]:
    """Each definition is one of two, which are the same next one."""
    names = [{"$ref": f"#/$defs/d{number}"} for number in range(depth + 1)]
    defs: dict[str, Any] = {
        f"d{number}": {"anyOf": [names[number + 1]] * 2} for number in range(depth)
    }
    defs[f"d{depth}"] = {"type": "string"}
    return _remote(
        {"type": "object", "properties": {"a": names[0]}, "required": ["a"], "$defs": defs}
    )


def _honest() -> Tool[..., Any]:
    """A recursive union of three objects."""
    arg = {"anyOf": [{"$ref": f"#/$defs/{one}"} for one in "abc"] + [{"type": "integer"}]}
    made = {
        one: {
            "type": "object",
            "properties": {f"{one}1": {"type": "boolean"}, "arg": arg},
            "required": ["arg"],
        }
        for one in "abc"
    }
    return _remote({"type": "object", "properties": {"a": arg}, "required": ["a"], "$defs": made})


class Soon(NamedTuple):
    """Arguments are answered before the time is over; the control is another way to read them."""

    make: Callable[[], Tool[..., Any]]
    args: object
    read: Callable[[Tool[..., Any], Any], bool] = _refuses
    naive: Callable[[Tool[..., Any], Any], bool] = _tries_all

    def __call__(self, _given: Any, _root: Path, *, judged: bool) -> bool:
        made = self.make()
        try:
            with _bounded():
                return (self.read if judged else self.naive)(made, self.args)
        except TimeoutError:
            return False


def _marked(given: Any, _root: Path, *, judged: bool) -> bool:
    """What looks like something else is written out."""
    [text] = given.values()
    shown, _ = (as_prompted if judged else as_printed)(text)
    odd = [sign for sign in text if not sign.isascii()]
    return not any(sign in shown for sign in odd) and all(f"{ord(one):X}" in shown for one in odd)


def _decoded(given: Any, _root: Path, *, judged: bool) -> bool:
    """A stream is read, or refused in words; the control is a table of blocks by their index."""

    async def events() -> AsyncIterator[Any]:
        for event in given["events"]:
            yield event

    async def read() -> None:
        blocks: dict[Any, Any] = {}
        async for event in anthropic.decode_stream(events()) if judged else events():
            if not judged and "index" in event:
                blocks[event["index"]] = event

    try:
        anyio.run(read)
    except HandrailError:
        return True
    except TypeError:
        return False
    return True


@tool(effect=READ)
def gen() -> str:
    """Raise what closes generators."""
    raise GeneratorExit


def _one_result(_given: Any, _root: Path, *, judged: bool) -> bool:
    """Whatever a tool raises, its call has one result; the control runs it in a task."""

    async def run() -> Result:
        if judged:
            async with Executor(Toolset(gen)) as executor:
                return await executor.run(Call("gen", {}, "1"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, gen.fn)
        return Result("1", "")

    try:
        result = anyio.run(run)
    except BaseExceptionGroup:
        return False
    return result.failure is not None and result.failure.kind is FailureKind.BUG


def _expired(given: Any, _root: Path, *, judged: bool) -> bool:
    """An answer from before its question does not count; the clock of the control stands still."""
    clock = [1_060.0]
    looked: list[str] = []

    @tool(effect=READ)
    async def look() -> str:
        looked.append("seen")
        return "seen"

    async def run() -> None:
        approvals = Approvals(approver=defer, timeout=60)
        async with Executor(
            Toolset(look),
            policy=lambda _: Ask("May it?"),
            approvals=approvals,
            clock=lambda: clock[0],
        ) as executor:
            pending = (await executor.run(Call("look", {}, "1"))).pending
            assert pending is not None
            clock[0] = given["clock"] if judged else clock[0]
            await resume(executor, [pending], {pending.id: Allow()})

    anyio.run(run)
    return not looked


CHECKS: dict[str, Check] = {
    "t2-schema-001": Soon(lambda: listed, {"a": ["x"] * 4_000}, naive=_compares_all),
    "t2-schema-002": Soon(lambda: computed, {"expr": _nested(12)}),
    "t2-schema-003": Soon(partial(_doubled, 30), {"a": 1}, _answers),
    "t2-schema-004": Soon(_honest, {"a": _nested(12)}, _answers),
    **{f"t2-display-{number:03}": _marked for number in range(1, 4)},
    "t2-format-001": _decoded,
    "t2-executor-001": _one_result,
    "t3-approval-001": _expired,
}
