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
    ("plain", "add"): 2.0,
    ("plain", "place_order"): 1.15,
    ("full", "add"): 3.0,
    ("full", "place_order"): 1.3,
}


def rows() -> list[Row]:
    """One call plain and with hooks, deadline and events; one more call in a batch; a crowd."""
    cost = counts_of([sys.executable, str(HERE / "counted.py")])
    made: list[Row] = []
    for kind in ("plain", "full", "full async"):
        for name in ("add", "place_order"):
            ours, limit = cost[f"{kind} {name}"], cost[f"limit {name}"]
            held = HELD.get((kind, name))
            said = f"ratio {ours / limit:.2f}" + (f" <= {held}" if held else "")
            fits = held is None or ours / limit <= held
            made.append(Row(f"one call, {kind}: {name}", ours, limit, "kIr", said, fits))
    more = (cost["batch 101"] - cost["batch 1"]) / 100
    bare = (cost["gather 101"] - cost["gather 1"]) / 100
    made.append(
        Row(
            "one more call in a batch",
            more,
            bare,
            "kIr",
            f"ratio {more / bare:.2f} <= 2",
            more <= 2 * bare,
        )
    )
    for what, among, alone in (("call", "crowd add", "plain add"), ("turn", "crowd turn", "turn")):
        ratio = cost[among] / cost[alone]
        said = f"ratio {ratio:.2f} <= 1.1"
        made.append(
            Row(f"a {what} among 1,000 tools", cost[among], cost[alone], "kIr", said, ratio <= 1.1)
        )
    return made
