"""What a call costs beside pydantic-core alone, in instructions: they repeat, times do not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from definition import Row

HERE = Path(__file__).parent


def counts_of(command: list[str]) -> dict[str, float]:
    """Run a command under callgrind, with the compiled shim as its last argument: kIr by name."""
    with tempfile.TemporaryDirectory() as folder:
        shim = Path(folder) / "shim.so"
        out = Path(folder) / "out"
        source = str(HERE / "callgrind" / "shim.c")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(shim), source], check=True)
        valgrind = ("valgrind", "-q", "--tool=callgrind", "--instr-atstart=no")
        subprocess.run(
            [*valgrind, f"--callgrind-out-file={out}", *command, str(shim)],
            check=True,
            cwd=HERE,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        made: dict[str, float] = {}
        for dump in sorted(Path(folder).glob("out.*"), key=lambda path: int(path.suffix[1:])):
            text = dump.read_text(encoding="utf-8", errors="replace")
            named = re.search(r"desc: Trigger: Client Request: (.*)\|(\d+)", text)
            total = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
            if named and total:
                made[named[1]] = int(total[1]) / int(named[2]) / 1000
        return made


HELD = {
    ("plain", "add"): 6.95,
    ("plain", "place_order"): 1.85,
    ("full", "add"): 11.1,
    ("full", "place_order"): 2.45,
}
MAX_KIND = 2.0
"""How much more any kind of tool may cost than a plain one, besides what it waits for itself."""
SLACK = 0.02
"""Counts differ a little between builds of an interpreter, and with the length of its path."""
MAX_HOP = 1.3
"""How much more a plain function may cost than the bare hop to a thread."""


def rows() -> list[Row]:
    """One call plain and with hooks, deadline and events; of every kind; in a batch; in a crowd."""
    script = [sys.executable, str(HERE / "counted.py")]
    cost = counts_of(script) | counts_of([*script, "others"])
    made = [
        _row(f"one call, {kind}: {name}", cost, (kind, name))
        for kind in ("plain", "full", "full async")
        for name in ("add", "place_order")
    ]
    made += _kinds(cost)
    more = (cost["batch 101"] - cost["batch 1"]) / 100
    bare = (cost["gather 101"] - cost["gather 1"]) / 100
    made.append(_ratio("one more call in a batch, beside gather", more, bare, 3.08))
    plain = cost["plain add"]
    made.append(_ratio("a call among 1,000 tools", cost["crowd add"], plain, 1.1))
    made.append(_ratio("a turn among 1,000 tools", cost["crowd turn"], cost["turn"], 1.1))
    before, after = cost["before a long result"], cost["after a long result"]
    made.append(_ratio("a call after a long result", after, before, 1.01))
    return made


def _row(what: str, cost: dict[str, float], key: tuple[str, str]) -> Row:
    kind, name = key
    return _ratio(what, cost[f"{kind} {name}"], cost[f"limit {name}"], HELD.get(key))


def _kinds(cost: dict[str, float]) -> list[Row]:
    """Every kind of tool beside a plain one, less what it itself waits for."""
    plain, hop = cost["plain add"], cost["thread hop"]
    made: list[Row] = []
    for name in [name for name in cost if name.startswith("kind ")]:
        kind, ours = name.removeprefix("kind "), cost[name]
        if kind == "a plain function":
            made.append(_ratio("a plain function, beside a thread hop", ours, hop, MAX_HOP))
            continue
        ours -= cost["await once"] if kind == "that awaits once" else 0
        asked = None if kind in ("in a turn", "with around") else MAX_KIND
        made.append(_ratio(f"add {kind}, beside plain add", ours, plain, asked))
    return made


def _ratio(what: str, ours: float, limit: float, most: float | None) -> Row:
    said = f"ratio {ours / limit:.2f}" + (f" <= {most:g}" if most else "")
    return Row(what, ours, limit, "kIr", said, most is None or ours <= (most + SLACK) * limit)
