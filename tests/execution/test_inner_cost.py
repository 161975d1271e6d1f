"""A call within a call costs the same, however many others are open. Counted in statements."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import handrail
from handrail import READ, WRITE, Access, Call, Executor, Toolset, tool
from handrail._schedule.access_index import AccessIndex
from handrail._schedule.schedule import Schedule

SOURCE = handrail.__file__.removesuffix("__init__.py")
MOST = 2.0
"""How many times the statements of an inner call alone it may take among others."""


class Desk:
    """A tool that makes calls, one by one or all at once."""

    def __init__(self) -> None:
        self.executor: Any = None

    @tool(touches=lambda place: Access(WRITE, f"db:{place}"))
    async def save(self, place: str) -> str:
        """Save."""
        await anyio.lowlevel.checkpoint()
        return place

    @tool(effect=READ, touches=lambda desk, **_: Access(READ, f"desk:{desk}"))
    async def work(self, desk: int, calls: int, *, at_once: bool, places: bool) -> str:
        """Make calls."""
        inner = [
            Call("save", {"place": f"{desk}/{n}" if places else "one"}, f"{desk}-{n}")
            for n in range(calls)
        ]
        if at_once:
            await self.executor.run_all(inner)
        else:
            for call in inner:
                await self.executor.run(call)
        await anyio.lowlevel.checkpoint()
        return "worked"


def statements(desks: int, calls: int, *, at_once: bool, places: bool = True) -> int:
    """Count the statements of handrail that run desks with inner calls."""
    made, count = Desk(), 0
    made.executor = executor = Executor(Toolset.from_object(made))
    args = {"calls": calls, "at_once": at_once, "places": places}
    outer = [Call("work", {"desk": desk, **args}, f"d{desk}") for desk in range(desks)]

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace if frame.f_code.co_filename.startswith(SOURCE) else None

    async def run() -> list[str]:
        return [result.text for result in await executor.run_all(outer)]

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        texts = anyio.run(run)
    finally:
        sys.settrace(before)
    assert texts == ["worked"] * desks
    return count


def of_each(desks: int, calls: int, **shape: Any) -> float:
    """Return the statements of one inner call."""
    return (statements(desks, calls, **shape) - statements(desks, 0, **shape)) / (desks * calls)


SHAPES: dict[str, tuple[int, int, dict[str, bool]]] = {
    "one tool, one by one": (1, 100, {"at_once": False}),
    "one tool, one by one, at one place": (1, 100, {"at_once": False, "places": False}),
    "100 tools, one by one": (100, 2, {"at_once": False}),
    "one tool, at once": (1, 100, {"at_once": True}),
    "one tool, at once, at one place": (1, 100, {"at_once": True, "places": False}),
    "50 tools, at once": (50, 2, {"at_once": True}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_an_inner_call_among_many_costs_at_most_twice_one_alone(name: str) -> None:
    desks, calls, shape = SHAPES[name]
    of_each(1, 1, **shape)  # validators are built once

    assert of_each(desks, calls, **shape) <= MOST * of_each(1, 1, **shape)


def test_looking_at_everybody_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: an index that looks at all holders costs more, the more there are."""

    class Slow(AccessIndex):
        def find(self, accesses: Any) -> list[int]:
            return [
                key
                for key, held in self._held.items()
                if any(one.conflicts(two) for one in held for two in accesses)
            ]

    monkeypatch.setattr(sys.modules[Schedule.__module__], "AccessIndex", Slow)

    assert of_each(100, 1, at_once=False) > MOST * of_each(1, 1, at_once=False)
