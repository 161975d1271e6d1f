"""Request rows for a command's runs: what waits for a person, and its answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from handrail.runs._store.port import Step
from handrail.runs._store.tables import PUT_REQUEST
from handrail.runs._store.tally import STATE, storable
from handrail.runs.journal import JournalEntry

_DROP_OTHERS = "DELETE FROM handrail_question WHERE run = :run AND answer IS NULL AND id NOT IN "
_ANSWER = (
    "UPDATE handrail_question SET answer = :answer, answered_by = :by WHERE id = :id AND used = 0"
)
_USE = (
    "UPDATE handrail_question SET answer = COALESCE(answer, :answer), "
    "answered_by = COALESCE(answered_by, :by), used = 1 WHERE id = :id"
)
_ABOUT_ANSWERS = {"answer": _ANSWER, "answered": _USE}


def keep_requests(
    entries: Iterable[JournalEntry], contents: Iterable[Mapping[str, Any]], members: str
) -> list[Step]:
    """Return what entries change: states ask, answers are given and used.

    Args:
        entries: The new entries of a run.
        contents: Their contents, which spares parsing them.
        members: A query that lists the texts of the JSON array ``:ids``.
    """
    steps: list[Step] = []
    for entry, content in zip(entries, contents, strict=True):
        if entry.kind == STATE:
            steps += _ask(entry, content, members)
        elif entry.kind in _ABOUT_ANSWERS:
            steps.append(_note_answer(entry.kind, content))
    return steps


def _ask(entry: JournalEntry, content: Mapping[str, Any], members: str) -> list[Step]:
    """Add a state's requests, and remove unanswered ones now gone."""
    rows = [
        {
            "id": storable(pending.id),
            "run": entry.run,
            "pending": storable(pending.to_json()),
            "expires": pending.expires_at,
        }
        for pending in _read_pending(entry, content)
    ]
    ids = json.dumps([row["id"] for row in rows])
    drop: Step = (f"{_DROP_OTHERS} {members}", [{"run": entry.run, "ids": ids}])
    return [(PUT_REQUEST, rows), drop] if rows else [drop]


def _read_pending(entry: JournalEntry, content: Mapping[str, Any]) -> list[Any]:
    state: Any = content.get("state")
    if not (isinstance(state, dict) and cast("dict[str, Any]", state).get("waiting")):
        return []
    from handrail.agent import InvalidState, load_state  # few programs list runs with an agent

    _, _, rest = entry.body.partition(',"state":')
    try:
        return [pending for pending in load_state(rest[:-1]).pending if pending.kind != "waiting"]
    except InvalidState:
        return []


def _note_answer(kind: str, line: Mapping[str, Any]) -> Step:
    from handrail.runs.answers import answer_of_line  # most entries are no answers

    values = {"id": storable(line.get("pending")), "by": storable(line.get("by")) or None}
    return _ABOUT_ANSWERS[kind], [{**values, "answer": answer_of_line(line)}]
