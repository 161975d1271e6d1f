"""Searches over runs, and all workers' state."""

from __future__ import annotations

from typing import Any

from handrail.runs._reading.calls import Select
from handrail.runs._reading.values import (
    Fleet,
    QueueRow,
    RunQuery,
    WorkerRow,
)
from handrail.runs.history import TokenShare

MAX_WORDS = 8
"""Search words used."""
AGES = (0.0, 60.0, 3600.0, 86_400.0, 604_800.0)
"""The ages by which requests are counted, in seconds."""
_SEARCHED = "s.run || ' ' || s.agent || ' ' || s.principal"


def find_runs(query: RunQuery, *, in_texts: bool) -> tuple[str, dict[str, Any]]:
    """Return a run search's condition, and its values. Sealed texts are not searched."""
    where, values = ["1 = 1"], dict[str, Any]()
    searched = f"lower(s.prompt || ' ' || {_SEARCHED})" if in_texts else f"lower({_SEARCHED})"
    for n, word in enumerate(query.text.lower().split()[:MAX_WORDS]):
        plain = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        where.append(f"{searched} LIKE :word{n} ESCAPE '\\'")
        values[f"word{n}"] = f"%{plain}%"
    for name in ("status", "reason", "agent", "principal"):
        if given := getattr(query, name):
            where.append(f"s.{name} = :{name}")
            values[name] = given
    if query.since:
        where.append("s.began >= :since")
        values["since"] = query.since
    return " AND ".join(where), values


def find_tokens(select: Select, seen: str, *, since: float, limit: int) -> tuple[TokenShare, ...]:
    """Return the newest runs' tokens by model and tool, as ``share_tokens`` does."""
    part = "1.0 / CASE WHEN t.calls > 0 THEN t.calls ELSE 1 END"
    sums = ", ".join(f"SUM({part} * {number})" for number in ("1", "t.input", "t.output"))
    rows = select(
        f"SELECT t.model, COALESCE(c.tool, ''), COUNT(c.number), {sums}, SUM({part} * t.cached) "
        "FROM (SELECT s.run FROM handrail_summary s "
        f"WHERE s.began >= :since AND {seen} ORDER BY s.began DESC, s.run DESC LIMIT :limit) AS r "
        "JOIN handrail_turn t ON t.run = r.run AND t.speaker = 'model' "
        "LEFT JOIN handrail_called c ON c.run = t.run AND c.turn = t.number GROUP BY 1, 2",
        since=since,
        limit=limit,
    )
    return tuple(TokenShare(*row[:3], *map(float, row[3:])) for row in sorted(rows))


def read_fleet(select: Select, engine_table: str, seen: tuple[str, str], now: float) -> Fleet:
    """Return workers, queues, and how long requests have waited."""
    busy = (
        f"SELECT COUNT(*) FROM {engine_table} d WHERE d.executor_id = w.id AND d.status = 'PENDING'"
    )
    workers = select(
        f"SELECT w.id, w.version, w.began, ({busy}) FROM handrail_worker w ORDER BY w.began, w.id"
    )
    queues = select(
        "SELECT queue_name, SUM(CASE WHEN status = 'PENDING' THEN 1 ELSE 0 END), "
        "SUM(CASE WHEN status = 'ENQUEUED' THEN 1 ELSE 0 END), "
        "MIN(CASE WHEN status = 'ENQUEUED' THEN created_at END) "
        f"FROM {engine_table} WHERE status IN ('PENDING', 'ENQUEUED') AND queue_name IS NOT NULL "
        "GROUP BY queue_name ORDER BY queue_name"
    )
    ages = ", ".join(
        f"COALESCE(SUM(CASE WHEN s.changed <= :now - {age} THEN s.waiting ELSE 0 END), 0)"
        for age in AGES
    )
    [counts] = select(
        f"SELECT {ages} FROM handrail_summary s "
        f"WHERE s.status = 'waiting' AND s.waiting > 0 AND {seen[0]}",
        now=now,
    )
    [(unknown,)] = select(f"SELECT COUNT(*) FROM handrail_call WHERE result IS NULL AND {seen[1]}")
    parked = [
        (age, int(count) - int(older))
        for age, count, older in zip(AGES, counts, (*counts[1:], 0), strict=True)
    ]
    return Fleet(
        workers=tuple(WorkerRow(*row) for row in workers),
        queues=tuple(_queue(row) for row in queues),
        parked=tuple(parked),
        unknown=unknown,
    )


def _queue(row: tuple[Any, ...]) -> QueueRow:
    name, running, waiting, oldest = row
    return QueueRow(name, int(running), int(waiting), None if oldest is None else oldest / 1000)
