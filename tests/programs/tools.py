"""Tools that programs call: they read, refund, and say what they did."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Executor,
    Image,
    Result,
    ToolFailed,
    Toolset,
    tool,
)
from handrail.programs import program_tool

PNG = b"\x89PNG"


class Order(TypedDict):
    """An order."""

    id: int
    late: bool


class Shop:
    """Records what its tools did."""

    def __init__(self) -> None:
        self.refunded: list[int] = []
        self.reads = 0

    def tools(self) -> Toolset:
        @tool(effect=READ, touches=lambda **_: Access(READ, "db:orders"))
        def orders(user: str, limit: int = 4) -> list[Order]:
            """List the orders of a user."""
            self.reads += 1
            return [{"id": number, "late": number % 2 == 1} for number in range(limit)]

        @tool(effect=WRITE, touches=lambda order, **_: Access(WRITE, f"db:order/{order}"))
        async def refund(order: int, *, note: str = "") -> str:
            """Refund an order."""
            if order < 0:
                raise ToolFailed("There is no such order.")
            self.refunded.append(order)
            return f"refunded {order}"

        @tool(effect=READ, touches=lambda: ())
        def picture() -> Image:
            """Return a picture."""
            return Image(PNG, "image/png")

        @tool(effect=READ, touches=lambda **_: ())
        def text(size: int) -> str:
            """Return a long text."""
            return "x" * size

        @tool(effect=READ, touches=lambda: ())
        async def crash() -> str:
            """End the workers of all interpreters."""
            for worker in find_workers():
                os.kill(worker, signal.SIGKILL)
            return "crashed"

        return Toolset(orders, refund, picture, text, crash)

    def with_program(self, **options: Any) -> Toolset:
        tools = self.tools()
        return Toolset(*tools, program_tool(tools, **options))


def find_workers() -> list[int]:
    """The interpreters that this process started."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            status = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if b"monty" in words[0] or b"/worker" in words[0]:
            parent = int(status[1])
            if parent == os.getpid() or is_below(parent):
                found.append(int(entry.name))
    return found


def is_below(pid: int) -> bool:
    """Whether this process started a process, or one that did."""
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            pid = int(
                Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            )
        except OSError:
            return False
    return False


def ask_about_refunds(call: CheckedCall) -> Decision:
    return Ask(f"Refund {call.args['order']}?") if call.name == "refund" else Allow()


async def run(executor: Executor, code: str) -> Result:
    return await executor.run(Call("run_program", {"code": code}, id="c"))


async def run_text(code: str, shop: Shop | None = None, **options: Any) -> str:
    shop = shop or Shop()
    async with Executor(shop.with_program(**options)) as executor:
        result = await run(executor, code)
    return result.text
