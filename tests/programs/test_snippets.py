"""What works and what is refused before any call. It says what changes with the interpreter."""

from __future__ import annotations

import pytest

from handrail import READ, Call, Executor, Toolset, tool
from handrail.programs import program_tool
from programs.snippets import REFUSED, WORKS

LATE: set[str] = set()
"""Those that fail only when they are reached. At most two."""


@pytest.fixture
def anyio_backend() -> str:
    """The event loop makes no difference."""
    return "asyncio"


async def run(code: str) -> tuple[str, list[int]]:
    """Return the text and the failure of a program, and the steps that it noted."""
    steps: list[int] = []

    @tool(effect=READ, touches=lambda **_: ())
    async def note(step: int) -> int:
        """Note a step."""
        steps.append(step)
        return step

    async with Executor(Toolset(note, program_tool([note]))) as executor:
        result = await executor.run(Call("run_program", {"code": code}))
    return ("" if result.failure is None else result.text), steps


@pytest.mark.parametrize("name", WORKS)
async def test_a_program_that_works_is_not_refused(name: str) -> None:
    assert (await run(WORKS[name]))[0] == ""


@pytest.mark.parametrize("name", REFUSED)
async def test_a_program_that_cannot_work_makes_no_call(name: str) -> None:
    text, steps = await run(f"await note(step=100)\n{REFUSED[name]}")
    assert text != ""
    assert steps == ([100] if name in LATE else []), text


def test_the_lists_are_as_long_as_they_say() -> None:
    assert (len(WORKS), len(REFUSED)) == (59, 66)
    assert len(LATE) <= 2
