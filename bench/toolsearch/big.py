"""100,000 tools: what is found, how fast, and what building and changing the index cost."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
from catalogues import Question, big_catalogue, in_big
from measures import mean, score
from ours import spec

from handrail import Spec
from handrail._search.index import ToolIndex

CHANGED = slice(50_000, 50_100)
"""The tools of the source that changes."""


def big_rows(judged: list[Question], written: list[Question]) -> Iterator[str]:
    tools = big_catalogue()
    asked = in_big(judged, tools)
    queries = [one.queries[0] for one in in_big(written, tools)]
    specs = [spec(tool) for tool in tools]
    del tools
    gc.collect()
    yield f"\n{len(specs):,} tools"
    memory, start = _memory(), time.process_time()
    index = ToolIndex.of(specs)
    index.search("warm up")
    seconds = time.process_time() - start
    found = [score(one, index.search(one.queries[0], limit=50).names) for one in asked]
    recall_1, recall_5, rank = mean(found)
    yield f"judged: recall@1 {recall_1:.3f}, recall@5 {recall_5:.3f}, MRR {rank:.3f}"
    for query in queries:
        index.search(query)
    spent = [_seconds(index, query) for query in queries]
    yield f"one search, warm: median {1e3 * statistics.median(spent):.2f} ms CPU"
    yield f"build: {seconds:.1f} s CPU, {_memory() - memory:.0f} MB with the words of these queries"
    yield f"one source of 100 tools indexed again: {_reindex(index, specs):.1f} ms CPU"


def _seconds(index: ToolIndex, query: str) -> float:
    start = time.process_time()
    index.search(query)
    return time.process_time() - start


def _reindex(index: ToolIndex, specs: list[Spec]) -> float:
    changed = list(specs)
    changed[CHANGED] = [
        replace(one, description=f"{one.description} Now.") for one in specs[CHANGED]
    ]

    async def build() -> float:
        start = time.process_time()
        await ToolIndex.build(changed, reuse=index)
        return time.process_time() - start

    return 1e3 * statistics.median(anyio.run(build) for _ in range(5))


def _memory() -> float:
    pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]
    return int(pages) * resource.getpagesize() / 1e6
