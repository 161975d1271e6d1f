"""What the type checkers must see: read by mypy and pyright, and run by nobody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, assert_type

from handrail import (
    READ,
    Access,
    Args,
    Context,
    Effect,
    Failure,
    Json,
    Registry,
    Spec,
    Tool,
    Toolset,
    reads_file,
    tool,
)


@tool
def add(a: int, b: int = 2) -> int:
    """Add two integers."""
    return a + b


def touched(path: str, **_: object) -> Access:
    return reads_file(path)


@tool(effect=READ, touches=touched, aliases=["cat"], timeout=3.0)
async def show(path: str, *, lines: int = 10) -> str:
    """Show a file."""
    return path * lines


class Notes:
    def __init__(self) -> None:
        self.kept: list[str] = []

    @tool
    def note(self, text: str) -> int:
        """Keep a note."""
        self.kept.append(text)
        return len(self.kept)


assert_type(Access("write", "order:o1").verb, Effect)
assert_type(Access(READ, "order:o1").verb, Effect)
Access("delete", "order:o1")  # type: ignore[arg-type]

assert_type(add(1), int)
assert_type(add(a=1, b=2), int)
assert_type(Notes().note("x"), int)
assert_type(Notes.note(Notes(), "x"), int)

add("1")  # type: ignore[arg-type]
add(1, 2, 3)  # type: ignore[call-arg]
Notes().note(1)  # type: ignore[arg-type]
tool(effect="read")  # type: ignore[call-overload]
tool(efect=READ)  # type: ignore[call-overload]


async def send(args: dict[str, Json], context: Context) -> str:
    return f"{args} {context.call_id}"


remote = Tool.remote(Spec(name="far", description="Far away.", input_schema={}), send)
assert_type(remote, Tool[..., Any])

tools = Toolset(add, show, remote, Notes().note) | Toolset.from_object(Notes())
assert_type(tools["add"], Tool[..., Any])
assert_type(tools.specs, tuple[Spec, ...])
assert_type(tools.only("add").map(lambda one: one), Toolset)
assert_type(Registry().snapshot(), Toolset)

parsed = add.parse('{"a": 1}')
assert_type(parsed, Args | Failure)
if isinstance(parsed, Args):
    assert_type(parsed.values, Mapping[str, Any])
    assert_type(add.accesses(parsed), tuple[Access, ...])


async def awaited() -> None:
    assert_type(await show("a", lines=3), str)
    await show("a", 3)  # type: ignore[call-arg]


as_a_function: Callable[[int, int], int] = add
as_an_async_function: Callable[[str], Awaitable[str]] = show
as_a_bound_function: Callable[[str], int] = Notes().note
