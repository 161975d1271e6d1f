"""Runs in a library's environment and answers requests, one JSON object on a line.

    python worker.py LIBRARY

`{"load": NAME, "hostile": KIND or null}` indexes a catalogue; `{"ask": [[NAME, [QUERY, ...], LIMIT], ...]}` gives
the names for each, and the CPU seconds of each question.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from catalogues import catalogues
from hostile import hostile_tool
from searchers import SEARCHERS, Search


def in_turn(search: Search, queries: Sequence[str], limit: int) -> list[str]:
    """Answer several queries in turn: each gives its next tool that is new."""
    waiting = [iter(search(query, limit)) for query in queries]
    found: dict[str, None] = {}
    while waiting and len(found) < limit:
        waiting = [names for names in waiting if _take_next(names, found, limit)]
    return list(found)


def _take_next(names: Iterator[str], found: dict[str, None], limit: int) -> bool:
    """Add the next name that is new. Return whether there was one."""
    new = next((name for name in names if name not in found), None)
    if new is not None and len(found) < limit:
        found[new] = None
    return new is not None


class Worker:
    def __init__(self, library: str) -> None:
        self._make = SEARCHERS[library]
        self._labelled = catalogues()
        self._held: dict[str, Search] = {}

    def load(self, name: str, kind: str | None = None) -> dict[str, Any]:
        """Index a catalogue, and say what that cost."""
        tools = self._labelled[name]
        if kind:
            tools = [*tools, hostile_tool(tools, kind)]
        self._held[name] = self._make(tools)
        return {"tools": len(tools)}

    def ask(self, questions: list[tuple[str, list[str], int]]) -> dict[str, Any]:
        names, seconds = [], []
        for catalogue, queries, limit in questions:
            search = self._held[catalogue]
            start = time.process_time()
            if len(queries) == 1:
                names.append(search(queries[0], limit))
            else:
                names.append(in_turn(search, queries, limit))
            seconds.append(time.process_time() - start)
        return {"names": names, "seconds": seconds}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if "load" in request:
            return self.load(request["load"], request.get("hostile"))
        return self.ask(request["ask"])


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    answers = sys.stdout
    sys.stdout = sys.stderr
    worker = Worker(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
