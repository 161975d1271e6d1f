"""Runs in a peer's environment, under valgrind: counts its calls and its turns.

    python worker.py ADAPTER callgrind LIB

Each adapter has ``executors`` (an async context manager over the tools, giving {variant: prepare}; ``prepare(name,
text, args)`` gives a function that performs one call and returns what the model sees) and ``loops`` (the same for one
run of the peer's own agent loop, driven by a scripted model that asks for all ``calls`` at once).
"""

import asyncio
import ctypes
import gc
import importlib
import logging
import os
import sys
import warnings


async def callgrind(adapter, library: str) -> None:
    """One dump per measurement, named 'variant|what|times'; run.py reads the dump files."""
    import common

    lib = ctypes.CDLL(library)
    tools = getattr(adapter, "TOOLS", common.tools)()

    async def count(name: str, one, warm: int, k: int) -> None:
        for _ in range(warm):
            await one()
        gc.collect()
        lib.cg_start()
        lib.cg_zero()
        for _ in range(k):
            await one()
        lib.cg_dump(f"{name}|{k}".encode())
        lib.cg_stop()

    async with adapter.executors(tools) as executors:
        for variant, prepare in executors.items():
            for tool in ("add", "place_order"):
                one = prepare(tool, common.ARGS_JSON[tool], common.ARGS[tool])
                await count(f"{variant}|{tool}", one, 30, 100)
    async with adapter.loops(tools) as loops:
        for variant, run in loops.items():
            for n in (0, 1, 10, 100):
                calls = [("add", common.ADD)] * n
                await count(f"{variant}|turn {n}", lambda: run(calls), 3, 20 if n < 100 else 5)


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    adapter = importlib.import_module(f"adapters.{sys.argv[1]}")
    asyncio.run(callgrind(adapter, sys.argv[3]))
    os._exit(0)  # some peers leave threads behind


if __name__ == "__main__":
    main()
