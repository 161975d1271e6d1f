"""What a call costs through an adapter, beside the framework's own tool: in instructions, or CPU time if it uses threads.

Needs an environment for each framework, which tests/adapters/run.py makes: runs only by name, `bench/run.py adapters`.
HANDRAIL_BENCH_HOSTS chooses frameworks, with spaces between them.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from definition import Row
from execution import counts_of

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests" / "adapters"
CLOSE = ("pydantic_ai", "langgraph", "openai_agents")
"""Frameworks that validate and wrap themselves, which an adapter replaces."""
THREADED = ("smolagents", "crewai")
"""Frameworks that call tools in threads. Callgrind cannot count them; by CPU time, one more call is within the noise."""
MAX_CLOSE = 1.15
MAX_OTHER = 1.3


def find_hosts() -> Any:
    """Return the script that knows the frameworks and makes their environments."""
    spec = spec_from_file_location("hosts", TESTS / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(host: str, python: Path) -> dict[str, float]:
    """Return thousands of instructions of a run, or microseconds, by its kind and the number of its calls."""
    paths = os.pathsep.join([str(HERE.parent / "src"), str(TESTS), str(TESTS.parent)])
    os.environ |= {"PYTHONPATH": paths, "HANDRAIL_HOST": host}
    command = [str(python), str(HERE / "counted_adapters.py")]
    if host not in THREADED:
        return counts_of(command)
    ran = subprocess.run(
        [*command, "clock"], check=True, cwd=HERE, capture_output=True, encoding="utf-8"
    )
    found = re.findall(r"^(\w+ \d+)\|([\d.]+)$", ran.stdout, re.MULTILINE)
    return {name: float(taken) for name, taken in found}


def rows() -> Iterator[Row]:
    """One call more in a reply, and a whole run with one call."""
    hosts = find_hosts()
    for host in os.environ.get("HANDRAIL_BENCH_HOSTS", " ".join(hosts.HOSTS)).split():
        cost = measure(host, hosts.make_environment(host))
        most = MAX_CLOSE if host in CLOSE else MAX_OTHER
        ours, theirs = [
            (cost[f"{kind} 11"] - cost[f"{kind} 1"]) / 10 for kind in ("railed", "bare")
        ]
        held = most, "us CPU" if host in THREADED else "kIr"
        if host not in THREADED:
            yield _row(f"{host}: one more call", ours, theirs, held)
        yield _row(f"{host}: a run with one call", cost["railed 1"], cost["bare 1"], held)


def _row(what: str, ours: float, theirs: float, held: tuple[float, str]) -> Row:
    (most, unit), ratio = held, ours / theirs
    return Row(
        what, ours, theirs, unit, f"{ratio:.2f} of {most:g} times the bare tool", ratio <= most
    )
