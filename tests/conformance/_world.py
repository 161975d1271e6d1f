"""The provocations' tools, and a record of what they did."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any

import anyio

from handrail import (
    READ,
    WRITE,
    Access,
    Image,
    Text,
    Toolset,
    Unknown,
    reads_file,
    tool,
    writes_file,
)

CALLER: ContextVar[str] = ContextVar("conformance_caller", default="no one")
"""A turn's caller, as an application would store it."""
SECRET = "/srv/secret/customers.db"  # noqa: S105 a path no model should read
NEEDLE = "The invoice number is 4711."
"""A line in the middle of a long result."""
LONG_CHARS = 1_000_000
OVERLAP_SECONDS = 0.25
"""How long a writer waits for another one with a chance to overtake it."""
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c02"
    "0000000b4944415478da6364f80f00010501012718e3660000000049454e44ae426082"
)
"""A one-pixel PNG image."""


def _writes_path(path: str, **_: object) -> Access:
    return writes_file(path)


class World:
    """Tools, the files they change, and a log of their work."""

    def __init__(self) -> None:
        self.files = {"a": "", "b": "old"}
        self.log: list[str] = []
        """What each tool did, in order."""
        self.begun = anyio.Event()
        """Set once a never-returning tool has begun."""
        self._writers = 0
        self._overlap = anyio.Event()

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Return the tools as plain functions, for a framework wrapping functions."""
        return (
            self.read_broken_file,
            self.count_items,
            self.append_text,
            self.show_file,
            self.transfer,
            self.wait_forever,
            self.show_caller,
            self.draw,
            self.list_items,
            self.print_report,
            self.get_price,
        )

    def toolset(self) -> Toolset:
        """Return the same functions as tools, with what they touch."""
        writes = tool(effect=WRITE, touches=_writes_path)
        reads = tool(effect=READ)
        plain = [fn for fn in self.functions() if fn.__name__ not in _DECLARED]
        return Toolset(
            writes(self.append_text),
            tool(effect=READ, touches=reads_file)(self.show_file),
            tool(effect=WRITE)(self.transfer),
            *map(reads, plain),
        )

    async def read_broken_file(self, number: int) -> str:
        """Read a file that is broken."""
        raise OSError(f"cannot open {SECRET}, block {number}")

    async def count_items(self, number: int) -> str:
        """Count items."""
        self.log.append(f"counted {number!r}")
        return f"counted {number}"

    async def append_text(self, path: str, text: str) -> str:
        """Append text to a file."""
        before = self.files.get(path, "")
        self._writers += 1
        if self._writers > 1:
            self._overlap.set()
        with anyio.move_on_after(OVERLAP_SECONDS):
            await self._overlap.wait()
        self.files[path] = before + text
        self.log.append(f"appended {text}")
        return f"appended {text}"

    async def show_file(self, path: str) -> str:
        """Show a file."""
        self.log.append(f"showed {path}")
        return f"content: {self.files.get(path, '')}"

    async def transfer(self, amount: int) -> str:
        """Transfer an amount, and lose the connection before the bank answers."""
        self.log.append(f"transferred {amount}")
        raise Unknown("The connection was lost.")

    async def wait_forever(self) -> None:
        """Wait for something that never happens."""
        self.begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.log.append("stopped")

    async def show_caller(self) -> str:
        """Show who calls."""
        caller = CALLER.get()
        CALLER.set("a tool")
        return f"caller: {caller}"

    async def draw(self) -> list[Text | Image]:
        """Draw a chart."""
        return [Text("a chart"), Image(PIXEL)]

    async def list_items(self) -> AsyncIterator[str]:
        """List all items, piece by piece."""
        for name in ("first", "second", "third"):
            yield f"{name} item; "

    async def print_report(self) -> str:
        """Print a long report."""
        half = "x" * (LONG_CHARS // 2)
        return f"{half}\n{NEEDLE}\n{half}"

    async def get_price(self) -> str:
        """Get a price."""
        self.log.append("priced")
        return "250"


_DECLARED = {"append_text", "show_file", "transfer"}
