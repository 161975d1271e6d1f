"""The same calls through the executors and loops of the peers, in instructions: one table.

Each peer lives in a virtual environment of its own, installed by name, below `.venvs/` beside this
file or where BENCH_VENVS says; what exists is used again. Name peers to measure only those.
"""

from __future__ import annotations

import json
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


def rows(peer: str, counts: dict[str, float], limit: dict[str, float]) -> list[str]:
    """A line for each way through a peer: its price, and how many times the limit that is."""
    made: list[str] = []
    for variant in dict.fromkeys(name.rpartition("|")[0] for name in counts):
        cells = []
        for what in ("add", "place_order"):
            value, base = counts.get(f"{variant}|{what}"), limit.get(f"pydantic-json|{what}")
            cells.append(
                f"{value:10.1f} {value / base:7.2f}" if value and base else f"{'-':>10} {'-':>7}"
            )
        more = counts.get(f"{variant}|turn 100", 0.0) - counts.get(f"{variant}|turn 10", 0.0)
        bare = limit["bare gather|turn 100"] - limit["bare gather|turn 10"]
        cells.append(f"{more / 90:10.1f} {more / bare:7.2f}" if more else f"{'-':>10} {'-':>7}")
        made.append(f"{peer + ': ' + variant:68} " + "  ".join(cells))
    return made


def main(names: list[str]) -> None:
    """Measure and print, peer by peer; the limit first, since the others are told beside it."""
    limit = measured("limit")
    print(
        f"{'kIr, and times the limit':68} {'add':>18}  {'place_order':>18}  {'one more call':>18}"
    )
    for peer in names or list(PEERS):
        counts = limit if peer == "limit" else measured(peer)
        for row in rows(peer, counts, limit):
            print(row, flush=True)
    kept = VENVS / "limit.json"
    kept.write_text(json.dumps(limit), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
