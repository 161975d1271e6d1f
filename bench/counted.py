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

import anyio
import anyio.to_thread
import trio
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, core_schema, to_json

from functions import Address, Line, Priority, Receipt
from handrail import (
    READ,
    Access,
    Call,
    CallLimits,
    CheckedCall,
    Context,
    Executor,
    Hook,
    Registry,
    Result,
    Spec,
    Tool,
    Toolset,
    tool,
)

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


def passing(call: CheckedCall) -> CheckedCall:
    return call


def seeing(_call: CheckedCall | Call, result: Result) -> Result:
    return result


async def passing_async(call: CheckedCall) -> CheckedCall:
    return call


async def seeing_async(_call: CheckedCall | Call, result: Result) -> Result:
    return result


async def calls(name: str, tools: Toolset) -> None:
    call = Call(name, ARGS[name], "c1")
    await count(f"limit {name}", limit(name))
    async with Executor(tools) as executor:
        await count(f"plain {name}", lambda: executor.run(call))
    for kind, hook in (
        ("full", Hook(before=passing, after=seeing)),
        ("full async", Hook(before=passing_async, after=seeing_async)),
    ):
        limits = CallLimits(timeout=10.0)
        async with Executor(tools, hooks=[hook], limits=limits) as executor, executor.events():
            await count(f"{kind} {name}", lambda executor=executor: executor.run(call))


ONCE = Call("add", ARGS["add"], "c1")


@tool(name="add", effect=READ, touches=lambda a, b: Access("read", f"number:{a}/{b}"))
async def touching(a: int, b: int) -> int:
    """Add two integers, and say which."""
    return a + b


@tool(name="add", effect=READ)
async def knowing(a: int, b: int, context: Context) -> int:
    """Add two integers, knowing for whom."""
    return a + b + len(context.metadata)


@tool(name="add", effect=READ)
async def waiting(a: int, b: int) -> int:
    """Add two integers, after others had their turn."""
    await asyncio.sleep(0)
    return a + b


@tool(name="add", effect=READ)
def plain_function(a: int, b: int) -> int:
    """Add two integers, in a thread."""
    return a + b


@tool(name="add")
async def writing(a: int, b: int) -> int:
    """Add two integers, and perhaps write something."""
    return a + b


async def far(args: dict[str, Any], _context: Context) -> dict[str, Any]:
    return {"sum": args["a"] + args["b"]}


REMOTE = Tool.remote(
    Spec(
        name="add",
        description="Add two integers, elsewhere.",
        input_schema=tool(add).spec.input_schema,
        output_schema={"type": "object", "properties": {"sum": {"type": "integer"}}},
        effect=READ,
    ),
    far,
)


async def kinds(tools: Toolset) -> None:
    """One call of every kind of tool, in every way that a tool is called."""
    registry = Registry()
    registry.add(tools, name="tools")
    others = {"dict arguments": Call("add", {"a": 1, "b": 2}, "c1")}
    for kind, offered in (
        ("dict arguments", tools),
        ("from a registry", registry),
        ("that may write", Toolset(writing)),
        ("with touches", Toolset(touching)),
        ("with a Context", Toolset(knowing)),
        ("remote", Toolset(REMOTE)),
        ("that awaits once", Toolset(waiting)),
    ):
        call = others.get(kind, ONCE)
        async with Executor(offered) as executor:
            await count(f"kind {kind}", lambda executor=executor, call=call: executor.run(call))
    executor = Executor(tools)
    await count("kind not entered", lambda: executor.run(ONCE))
    async with Executor(tools) as executor:
        await count("kind in a turn", lambda: executor.turn("1", run="r").run(ONCE))
    async with Executor(tools, hooks=[Hook(around=around)]) as executor:
        await count("kind with around", lambda: executor.run(ONCE))
    await count("await once", lambda: asyncio.sleep(0))


async def in_threads() -> None:
    """At the end: once there are threads, callgrind counts what they do between two calls too."""
    async with Executor(Toolset(plain_function)) as executor:
        for _ in range(2):  # the second count is kept: in the first, threads wait for valgrind
            await count("thread hop", lambda: anyio.to_thread.run_sync(lambda: 3))
            await count("kind a plain function", lambda: executor.run(ONCE))


async def around(_call: CheckedCall, run: Any) -> Result:
    result: Result = await run()
    return result


async def long_results(tools: Toolset, others: Toolset) -> None:
    """The same call before and after a long result was stored."""

    @tool(effect=READ)
    async def shout() -> str:
        """Say a lot."""
        return "all of it\n" * 5_000

    async with Executor(Toolset(*tools, shout, *others)) as executor:
        await count("before a long result", lambda: executor.run(ONCE))
        await executor.run(Call("shout", "{}", "c2"))
        await count("after a long result", lambda: executor.run(ONCE))


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
    others = Toolset(*(other(n) for n in range(1000)))
    crowd = Toolset(*tools, *others)
    await kinds(tools)
    await long_results(tools, others)
    ten = [Call("add", ARGS["add"], f"c{n}") for n in range(10)]
    async with Executor(crowd) as executor:
        await count("crowd add", lambda: executor.run(ONCE))
        await count("crowd turn", lambda: executor.run_all(ten))
    async with Executor(tools) as executor:
        await count("turn", lambda: executor.run_all(ten))


async def on_trio() -> None:
    async with Executor(Toolset(tool(effect=READ)(add))) as executor:
        await count("kind on trio", lambda: executor.run(ONCE))


if __name__ == "__main__":
    if "others" in sys.argv:
        trio.run(on_trio)
        asyncio.run(in_threads())
    else:
        asyncio.run(main())
