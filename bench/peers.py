"""The same calls through the executors and the agent loops of the peers, in instructions.

Each peer lives in a virtual environment of its own, installed by name, below `.venvs/` beside this
file or where BENCH_VENVS says; what exists is used again. Name peers to measure only those.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from execution import counts_of

HERE = Path(__file__).parent
VENVS = Path(os.environ.get("BENCH_VENVS", HERE / ".venvs"))
PEERS = {
    "limit": ["pydantic"],
    "handrail": [str(HERE.parent)],
    "pydantic_ai_slim": ["pydantic-ai-slim"],
    "openai_agents": ["openai-agents"],
    "langchain_core": ["langchain-core"],
    "langgraph_toolnode": ["langgraph"],
    "google_adk": ["google-adk"],
    "fastmcp": ["fastmcp"],
    "mcp_sdk": ["mcp"],
    "strands_agents": ["strands-agents"],
    "smolagents": ["smolagents"],
    "agno": ["agno"],
    "inspect_ai": ["inspect-ai"],
}
TURNS = (1, 10, 100)


def python_of(peer: str) -> str:
    """The interpreter of a peer's environment, which is made and filled if it is not there."""
    folder = VENVS / peer
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run(
            [str(folder / "bin" / "pip"), "install", "--quiet", *PEERS[peer]], check=True
        )
        (folder / "ready").touch()
    return str(folder / "bin" / "python")


def measured(peer: str) -> dict[str, float]:
    """Thousands of instructions by "variant|what"; empty where the peer could not be measured."""
    worker = str(HERE / "peers" / "worker.py")
    try:
        return counts_of([python_of(peer), worker, peer, "callgrind"])
    except subprocess.CalledProcessError as error:
        print(f"{peer}: could not be measured ({error})", file=sys.stderr)
        return {}


def variants(counts: dict[str, float], what: str) -> list[str]:
    """The ways through a peer of which this was measured."""
    return [name.removesuffix(f"|{what}") for name in counts if name.endswith(f"|{what}")]


def cell(value: float, limit: float) -> str:
    return f"{value:10.1f} {value / limit:7.2f}"


def calls(peer: str, counts: dict[str, float], limit: dict[str, float]) -> list[str]:
    """One call, for each way through a peer: its price, and how many times the limit that is."""
    return [
        f"{peer + ': ' + variant:58} "
        + "  ".join(
            cell(counts[f"{variant}|{what}"], limit[f"pydantic-json|{what}"])
            for what in ("add", "place_order")
        )
        for variant in variants(counts, "add")
    ]


def loops(peer: str, counts: dict[str, float], limit: dict[str, float]) -> list[str]:
    """Runs with so many calls in a turn, and one more of them, beside a bare gather of the same."""
    made: list[str] = []
    for variant in variants(counts, "turn 1"):
        ours = {n: counts[f"{variant}|turn {n}"] for n in TURNS}
        bare = {n: limit[f"bare gather|turn {n}"] for n in TURNS}
        cells = [cell(ours[n], bare[n]) for n in TURNS]
        cells.append(cell((ours[100] - ours[10]) / 90, (bare[100] - bare[10]) / 90))
        made.append(f"{peer + ': ' + variant:42} " + "  ".join(cells))
    return made


def main(names: list[str]) -> None:
    """Measure and print, peer by peer; the limit first, since the others are told beside it."""
    limit = measured("limit")
    counts = {one: limit if one == "limit" else measured(one) for one in names or PEERS}
    print(f"{'one call: kIr, and times pydantic-core':58} {'add':>18}  {'place_order':>18}")
    for peer, found in counts.items():
        for row in calls(peer, found, limit):
            print(row)
    heads = (*(f"{n} in a turn" for n in TURNS), "one more call")
    print(f"\n{'a run: kIr, and times a bare gather':42} {'  '.join(f'{h:>18}' for h in heads)}")
    for peer, found in counts.items():
        for row in loops(peer, found, limit):
            print(row)


if __name__ == "__main__":
    main(sys.argv[1:])
