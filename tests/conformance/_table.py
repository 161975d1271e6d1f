"""Observations as a table: Markdown for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping

from conformance._check import Observation, is_good

Observations = Mapping[str, Mapping[str, Observation]]
"""What each host did, by host and provocation."""


def to_json(observed: Observations) -> str:
    """Return observations as JSON text for ``from_json``."""
    plain = {
        host: {name: one._asdict() for name, one in rows.items()} for host, rows in observed.items()
    }
    return json.dumps(plain, indent=1, ensure_ascii=False)


def from_json(text: str) -> dict[str, dict[str, Observation]]:
    """Read what ``to_json`` wrote."""
    return {
        host: {name: Observation(one["word"], one["detail"]) for name, one in rows.items()}
        for host, rows in json.loads(text).items()
    }


def to_markdown(observed: Observations) -> str:
    """Return observations as a table with one column for each host."""
    names = list(dict.fromkeys(name for rows in observed.values() for name in rows))
    body = [[name, *(_cell(rows.get(name)) for rows in observed.values())] for name in names]
    lines = [["provocation", *observed], ["---"] * (len(observed) + 1), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cell(observation: Observation | None) -> str:
    if observation is None:
        return ""
    return observation.word if is_good(observation) else f"**{observation.word}**"
