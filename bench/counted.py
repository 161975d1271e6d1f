"""Counted work: each piece runs a fixed number of times, with callgrind switched on around it.

Runs under valgrind (see execution.py), which starts it with the path of the compiled shim.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, core_schema, to_json

from functions import Address, Line, Priority, Receipt
from handrail import READ, Call, Executor, Result, Toolset, tool

SHIM = ctypes.CDLL(sys.argv[-1])
TIMES = 50


async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


async def place_order(
    customer: str,
    ship_to: Address,
    lines: list[Line],
    priority: Priority = Priority.LOW,
    tags: list[str] | None = None,
    *,
    dry_run: bool = False,
) -> Receipt:
    """Place an order."""
    total = sum(line.quantity * line.unit_price for line in lines)
    return Receipt(
        order=f"{customer} {priority} {len(tags or [])} {dry_run}", total=total, ship_to=ship_to
    )


ARGS = {
    "add": '{"a": 1, "b": 2}',
    "place_order": (
        '{"customer": "cust-1042", "ship_to": {"street": "Keizersgracht 1", "city": "Amsterdam", '
        '"postcode": "1015CN"}, "lines": [{"sku": "A-1", "quantity": 2, "unit_price": 9.5}, '
        '{"sku": "B-2", "quantity": 1, "unit_price": 30.25}, {"sku": "C-3", "quantity": 4, '
        '"unit_price": 2.5}], "priority": "high", "tags": ["gift", "fragile"], "dry_run": true}'
    ),
}
FUNCTIONS: dict[str, Callable[..., Awaitable[Any]]] = {"add": add, "place_order": place_order}


@contextmanager
def counting(name: str, per: int = 1) -> Iterator[None]:
    SHIM.cg_start()
    SHIM.cg_zero()
    yield
    SHIM.cg_dump(f"{name}|{TIMES * per}".encode())
    SHIM.cg_stop()


async def count(name: str, work: Callable[[], Awaitable[Any]], per: int = 1) -> None:
    for _ in range(10):
        await work()
    gc.collect()  # so that no collection falls into what is counted
    with counting(name, per):
        for _ in range(TIMES):
            await work()


def limit(name: str) -> Callable[[], Awaitable[bytes]]:
    """What pydantic-core alone needs: validate the JSON, await the function, write the JSON."""
    fn = FUNCTIONS[name]
    hints = {key: hint for key, hint in fn.__annotations__.items() if key != "return"}
    required = {"a", "b", "customer", "ship_to", "lines"}
    evaluated = {
        key: eval(hint, globals()) if isinstance(hint, str) else hint for key, hint in hints.items()
    }
    fields = {
        key: core_schema.typed_dict_field(TypeAdapter(hint).core_schema, required=key in required)
        for key, hint in evaluated.items()
    }
    validate = SchemaValidator(
        core_schema.typed_dict_schema(fields, extra_behavior="forbid")
    ).validate_json

    async def one() -> bytes:
        return to_json(await fn(**validate(ARGS[name])))

    return one


def passing(call: Call) -> Call:
    return call


def seeing(_call: Call, result: Result) -> Result:
    return result


async def passing_async(call: Call) -> Call:
    return call


async def seeing_async(_call: Call, result: Result) -> Result:
    return result


async def calls(name: str, tools: Toolset) -> None:
    call = Call(name, ARGS[name], "c1")
    await count(f"limit {name}", limit(name))
    async with Executor(tools) as executor:
        await count(f"plain {name}", lambda: executor.run(call))
    for kind, before, after in (
        ("full", passing, seeing),
        ("full async", passing_async, seeing_async),
    ):
        async with Executor(tools, before=[before], after=[after], timeout=10.0) as executor:
            listening = executor.events()
            first = asyncio.ensure_future(anext(listening))
            await asyncio.sleep(0)
            await count(f"{kind} {name}", lambda executor=executor: executor.run(call))
            await first
            await listening.aclose()


async def batches(tools: Toolset) -> None:
    async def gather(n: int) -> None:
        await asyncio.gather(*[add(1, 2) for _ in range(n)])

    many = [Call("add", ARGS["add"], f"c{n}") for n in range(101)]
    async with Executor(tools) as executor:
        for n in (1, 101):
            await count(f"gather {n}", lambda n=n: gather(n))
            await count(f"batch {n}", lambda n=n: executor.run_all(many[:n]))


def other(n: int) -> Any:
    async def one(a: int) -> int:
        return a

    return tool(name=f"other_{n}", effect=READ)(one)


async def main() -> None:
    tools = Toolset(*(tool(effect=READ)(fn) for fn in FUNCTIONS.values()))
    for name in FUNCTIONS:
        await calls(name, tools)
    await batches(tools)
    crowd = Toolset(*tools, *(other(n) for n in range(1000)))
    call = Call("add", ARGS["add"], "c1")
    ten = [Call("add", ARGS["add"], f"c{n}") for n in range(10)]
    async with Executor(crowd) as executor:
        await count("crowd add", lambda: executor.run(call))
        await count("crowd turn", lambda: executor.run_all(ten))
    async with Executor(tools) as executor:
        await count("turn", lambda: executor.run_all(ten))


if __name__ == "__main__":
    asyncio.run(main())
