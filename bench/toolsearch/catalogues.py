"""The catalogues and the queries of the bench: what is searched, and what should be found.

The data is in `tests/data/toolsearch`, with its licenses. HANDRAIL_TOOLSEARCH names another folder.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
DATA = Path(
    os.environ.get("HANDRAIL_TOOLSEARCH", HERE.parents[1] / "tests" / "data" / "toolsearch")
)
KEYWORDS = 60
"""Queries of a catalogue in the set `keywords`."""
DEPTH = 50
"""Places in which a tool counts as found, for the reciprocal rank."""

BIG = 100_000

Tool = dict[str, Any]


class Question(NamedTuple):
    """What is searched for, in which catalogue, and what fits."""

    id: str
    catalogue: str
    queries: tuple[str, ...]
    gold: frozenset[str]
    any_fits: bool = False
    """Whether one fitting tool is enough. Otherwise, recall is the share of all of them."""


def read_lines(name: str) -> Iterator[dict[str, Any]]:
    opened = gzip.open if (DATA / f"{name}.jsonl.gz").exists() else lzma.open
    suffix = "gz" if opened is gzip.open else "xz"
    with opened(DATA / f"{name}.jsonl.{suffix}", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def catalogues() -> dict[str, list[Tool]]:
    """Return the labelled catalogues."""
    held: dict[str, list[Tool]] = {}
    for tool in read_lines("tools"):
        held.setdefault(tool["catalogue"], []).append(tool)
    return held


def question_sets() -> dict[str, list[Question]]:
    """Return the four sets of questions."""
    rows = list(read_lines("queries-dev"))
    written = [row for row in rows if "model_query" in row or row["kind"] != "user"]
    judged = [row for row in rows if row.get("judged")]
    return {
        "model": [_question(row, _model_query(row)) for row in written],
        "judged": [_judged(row) for row in judged],
        "multi": list(_several({row["id"]: row for row in rows})),
        "keywords": [_question(row, row["keywords"]) for row in _spread(rows)],
    }


def _model_query(row: dict[str, Any]) -> str:
    return row.get("model_query", row["query"])


def _question(row: dict[str, Any], *queries: str) -> Question:
    return Question(row["id"], row["catalogue"], queries, frozenset(row["gold"]))


def _judged(row: dict[str, Any]) -> Question:
    fits = frozenset([*row["gold"], *row["also"]])
    return Question(row["id"], row["catalogue"], (_model_query(row),), fits, any_fits=True)


def _several(rows: dict[str, dict[str, Any]]) -> Iterator[Question]:
    for line in (DATA / "queries-multi-dev.tsv").read_text(encoding="utf-8").splitlines():
        name, queries = line.split("\t")
        yield _question(rows[name], *queries.split("; "))


def _spread(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return some queries of each catalogue, evenly spread."""
    held: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        held.setdefault(row["catalogue"], []).append(row)
    for of_one in held.values():
        yield from of_one[:: max(1, len(of_one) // KEYWORDS)][:KEYWORDS]


def big_catalogue() -> list[Tool]:
    """Return 100,000 tools. One that has the name of an earlier one gets its catalogue's name too."""
    tools: list[Tool] = []
    taken: set[str] = set()
    for file in ("tools", "tools-mcp-servers", "tools-openapi"):
        for tool in read_lines(file):
            name = tool["name"]
            if name in taken:
                tool["name"] = f"{name}_{tool['catalogue']}"
            taken.add(tool["name"])
            tools.append({**tool, "old_name": name})
    return tools[:BIG]


def in_big(questions: list[Question], tools: list[Tool]) -> list[Question]:
    """Return questions as they are asked of the large catalogue."""
    names = {(tool["catalogue"], tool["old_name"]): tool["name"] for tool in tools}
    return [
        question._replace(
            catalogue="100k",
            gold=frozenset(names[question.catalogue, name] for name in question.gold),
        )
        for question in questions
    ]
