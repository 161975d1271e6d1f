"""What it costs to define tools, hold them and find them, beside pydantic's TypeAdapter alone.

Times are CPU time in one interleaved run: a chunk of functions goes to each side in turn, so that
whatever else the machine does meets both. Only the ratios mean anything.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from functions import functions
from handrail import Registry, Spec, Tool, Toolset


class Row(NamedTuple):
    """One line of the table: what was measured, in which unit, and what it is held to."""

    what: str
    ours: float
    limit: float
    unit: str
    held: str
    ok: bool


def seconds(act: Callable[[], Any]) -> float:
    started = time.process_time()
    act()
    return time.process_time() - started


def registration(shape: str, count: int, chunk: int = 500) -> Row:
    """Functions to tools with all their specs, against an adapter and its JSON Schema for each."""
    ours = limit = 0.0
    kept: list[Any] = []
    for first in range(0, count, chunk):
        made = functions(shape, first, chunk)

        def register(made: list[Any] = made) -> None:
            tools = Toolset(*made)
            kept.append((tools, tools.specs))

        def adapt(made: list[Any] = made) -> None:
            kept.append([(adapter := TypeAdapter(fn), adapter.json_schema()) for fn in made])

        for act in (register, adapt) if first // chunk % 2 else (adapt, register):
            spent = seconds(act)
            ours, limit = (ours + spent, limit) if act is register else (ours, limit + spent)
    ratio = ours / limit
    return Row(
        f"register and emit {count:,} {shape}",
        ours / count * 1e6,
        limit / count * 1e6,
        "µs a tool",
        f"ratio {ratio:.2f} <= 0.5",
        ratio <= 0.5,
    )


def emission(count: int) -> Row:
    tools = Toolset(*functions("simple", 0, count))
    first = seconds(lambda: tools.specs) / count * 1e6
    again = min(seconds(lambda: [list(tools.specs) for _ in range(20)]) for _ in range(5))
    each = again / 20 / count * 1e6
    return Row("emit the specs again", each, first, "µs a tool", "<= 1", each <= 1)


def memory(count: int) -> Row:
    """Growth of the resident set, in a process of its own with the plain C allocator."""
    code = f"import definition; print(definition.resident({count}))"
    made = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONMALLOC": "malloc"},
        cwd=os.path.dirname(os.path.abspath(__file__)),  # noqa: PTH100, PTH120
    )
    each = json.loads(made.stdout)
    return Row("memory beyond the function", each, 0.0, "KiB a tool", "<= 4", each <= 4)


def resident(count: int) -> float:
    libc = ctypes.CDLL(None)
    made = functions("simple", 0, count)
    Toolset(*functions("simple", count, 10))

    def now() -> int:
        gc.collect()
        libc.malloc_trim(0)
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = now()
    tools = Toolset(*made)
    specs = tools.specs
    return (now() - before) / 1024 / len(specs)


async def _nowhere(_args: object, _context: object) -> None: ...


def far(name: str) -> Tool[..., Any]:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    return Tool.remote(Spec(name=name, description="Far.", input_schema=schema), _nowhere)


def catalogue(count: int) -> dict[str, float]:
    """Seconds for a snapshot after a small change, one without a change, and a lookup."""
    registry = Registry()
    registry.add(Toolset(*(far(f"tool_{i}") for i in range(count))), name="large")
    registry.add(Toolset(far("small_0")), name="small")
    wanted = f"tool_{count // 2}"
    changed, same, found = [], [], []
    for n in range(1, 60):
        registry.replace("small", far(f"small_{n}"))
        changed.append(seconds(registry.snapshot))
        same.append(seconds(lambda: [registry.snapshot() for _ in range(1000)]) / 1000)
        tools = registry.snapshot()
        found.append(seconds(lambda tools=tools: [tools[wanted] for _ in range(1000)]) / 1000)
    return {"changed": min(changed), "same": min(same), "found": min(found)}


def scaling() -> list[Row]:
    sizes = (1_000, 10_000, 100_000)
    timed = {size: catalogue(size) for size in sizes}
    words = {
        "changed": "snapshot after a change",
        "same": "snapshot, nothing changed",
        "found": "look a name up",
    }
    rows = []
    for key, what in words.items():
        small, _, large = (timed[size][key] * 1e6 for size in sizes)
        # two clock ticks of slack: the operations take about as long as reading the clock
        fits = large <= 2 * small + 2
        rows.append(Row(f"{what}: 100,000 / 1,000", large, small, "µs", "does not grow", fits))
    return rows


def imports(statement: str, times: float, rounds: int = 15) -> Row:
    def cost(statement: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", statement], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)

    pairs = [(cost(statement), cost("import pydantic, anyio")) for _ in range(rounds)]
    ours, limit = (sum(sorted(side)[: rounds // 2]) for side in zip(*pairs, strict=True))
    ratio = ours / limit
    scale = 1e3 / (rounds // 2)
    held = f"ratio {ratio:.2f} <= {times:g}"
    return Row(statement, ours * scale, limit * scale, "ms", held, ratio <= times)


def rows() -> list[Row]:
    """Everything, smallest claims last."""
    return [
        registration("simple", 10_000),
        registration("nested", 2_000),
        emission(10_000),
        memory(10_000),
        *scaling(),
        imports("import handrail", 0.3),
        imports("from handrail import Toolset, tool", 1.1),
        imports("from handrail import Executor, Toolset, tool", 1.6),
    ]
