"""Keep a run's rows while its journal is written: its summary, turns, calls and counts.

``Tally`` reads entries in order, and returns the rows to write. It continues from its earlier
writes: a write costs the same at a long run's end as at its start.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast
from zlib import crc32

from handrail.runs._store.port import Step
from handrail.runs._store.tables import CHANGE_SUMMARY, PUT_SUMMARY, SUMMARY_COLUMNS, Puts
from handrail.runs.history import CallKey, read_key
from handrail.runs.journal import STATUS, JournalEntry
from handrail.runs.statuses import LIVE

SLOTS = 16
"""Rows per count: runs seldom wait for one another."""
STATE = "state"
"""The line kind for states."""
MAX_SHOWN_CHARS = 200
"""Characters kept from a prompt or a reply for a list."""
TALLY_COLUMNS = (*SUMMARY_COLUMNS.split(", "), "unfinished")
_OTHERS = frozenset({"denied", "pending"})
"""Failure kinds without a tool failure."""
_TEXTS = {"status", "reason", "principal", "why"}
_LIFE = {"requested": "requested", "asked": "asked", "waiting": "waiting", "started": "running"}
"""Where a call stands after an event."""


class Tally:
    """One run's rows, as far as its entries were read."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.base = 0
        """How many entries the written rows cover."""
        self._row: dict[str, Any] = {
            **dict.fromkeys(("status", "reason", "agent", "principal", "prompt"), ""),
            **dict.fromkeys(("why", "cost"), ""),
            **dict.fromkeys(("entries", "turns", "calls", "waiting"), 0),
            "run": run,
            "began": 0.0,
            "ended": None,
            "changed": 0.0,
            "last_event": "",
        }
        self._labels: list[str] = []
        self._new_labels: list[str] = []
        self._counts: Counter[str] = Counter()
        self._tokens: dict[str, list[int]] = {}
        self._open: dict[CallKey, dict[str, Any]] = {}
        """Calls without a result, and those waiting for a person."""
        self._turns: dict[int, dict[str, Any]] = {}
        """The last turns by the person and the model, and those with open calls."""
        self._turn = 0
        self._model_turn = 0
        """The model's last turn, unless its reply cannot come any more."""
        self._changed_calls: dict[int, dict[str, Any]] = {}
        self._changed_turns: set[int] = set()
        self._rules: Counter[tuple[str, str, int, str, str]] = Counter()
        self._about: Mapping[str, Callable[[Mapping[str, Any], int], None]] = {
            "prompt": self._read_prompt,
            "reply": self._read_reply,
            "answer": self._read_answer,
            STATUS: self._read_status,
            STATE: self._read_state,
        }

    @classmethod
    def load(cls, run: str, rows: Iterable[tuple[Any, ...]]) -> Tally:
        """Return earlier writes about a run, from the ``READ_TALLY`` row."""
        tally = cls(run)
        for row in rows:
            found: dict[str, Any] = dict(zip(TALLY_COLUMNS, row, strict=True))
            tally._labels = json.loads(found.pop("labels"))
            tally._counts = Counter(json.loads(found.pop("counts")))
            tally._tokens = json.loads(found.pop("tokens"))
            calls, turns, *last = json.loads(found.pop("unfinished"))
            tally._turn, tally._model_turn = last
            tally._open = {tuple(call["key"]): call for call in calls}
            tally._turns = {turn["number"]: turn for turn in turns}
            tally._row, tally.base = found, found["entries"]
        return tally

    @property
    def entries(self) -> int:
        """How many entries were read."""
        return int(self._row["entries"])

    @property
    def changed(self) -> float:
        """The latest entry's time."""
        return float(self._row["changed"])

    @property
    def labels(self) -> str:
        """The run's labels, as text."""
        return json.dumps(self._labels)

    def read(self, entries: Iterable[JournalEntry]) -> None:
        """Read the next entries. Damaged ones change no count."""
        for entry in entries:
            self._read(entry, entry.content)

    def read_fields(
        self, entries: Iterable[JournalEntry], fields: Iterable[Mapping[str, Any]]
    ) -> None:
        """Read the next entries, and spare parsing them: their contents are known."""
        for entry, content in zip(entries, fields, strict=True):
            self._read(entry, content)

    def steps(self, puts: Puts, about: Mapping[str, Any]) -> list[Step]:
        """Return what to write. The first statement must change a row: else nothing may change.

        Args:
            puts: The statements.
            about: The fields of the run's status lines.
        """
        summary = {
            **self._row,
            "about": json.dumps(dict(about), separators=(",", ":")),
            "base": self.base,
            "labels": self.labels,
            "counts": json.dumps(dict(self._counts)),
            "tokens": json.dumps(self._tokens),
            "unfinished": json.dumps(
                [
                    list(self._open.values()),
                    [self._turns[number] for number in self._kept_turns()],
                    self._turn,
                    self._model_turn,
                ]
            ),
        }
        turns = [self._turns[number] for number in sorted(self._changed_turns)]
        slot = crc32(self.run.encode("utf-8", "surrogatepass")) % SLOTS
        rules = [
            {"rule": rule, "file": file, "line": line, "day": day, "outcome": outcome}
            | {"labels": self.labels, "slot": slot, "count": count}
            for (rule, file, line, day, outcome), count in sorted(self._rules.items())
        ]
        labels = [{"label": label, "run": self.run} for label in self._new_labels]
        several = [
            (puts.turn, [{**turn, "run": self.run} for turn in turns]),
            (puts.call, [{**call, "run": self.run} for call in self._changed_calls.values()]),
            (puts.label, labels),
            (puts.rule, rules),  # last and in order: other runs write the same rows
        ]
        written = [(sql, puts.pack(rows)) for sql, rows in several if rows]
        return [(CHANGE_SUMMARY if self.base else PUT_SUMMARY, [summary]), *written]

    def written(self) -> None:
        """Note the rows as written."""
        self.base = self.entries
        self._changed_calls, self._new_labels = {}, []
        self._changed_turns.clear()
        self._rules.clear()
        self._turns = {number: self._turns[number] for number in self._kept_turns()}

    def _kept_turns(self) -> list[int]:
        """Return the turns still open to change: the last ones, and those with open calls."""
        kept = {call["turn"] for call in self._open.values()} | {self._turn, self._model_turn}
        return sorted(kept & self._turns.keys())

    def _read(self, entry: JournalEntry, content: Mapping[str, Any]) -> None:
        at = read_number(content.get("at"), self._row["changed"])
        self._row["entries"] = entry.number
        self._row["began"] = self._row["began"] or at
        self._row["changed"] = max(at, self._row["changed"])
        if entry.kind in self._about:
            self._about[entry.kind]({**content, "at": at}, entry.number)
        elif isinstance(content.get("call_id"), str):
            self._read_call(entry, content, at)
        if entry.kind != STATE:
            self._row["last_event"] = entry.kind

    def _read_status(self, line: Mapping[str, Any], _entry: int) -> None:
        row = self._row
        row |= {name: storable(line[name]) for name in _TEXTS & line.keys()}
        if "status" in line:
            row["ended"] = None if row["status"] in LIVE else line["at"]
        row["agent"] = row["agent"] or storable(line.get("agent")) or storable(line.get("command"))
        row["prompt"] = row["prompt"] or storable(line.get("prompt"))[:MAX_SHOWN_CHARS]
        row["cost"] = storable(line.get("cost")) or row["cost"]
        labels = line.get("labels")
        if isinstance(labels, list) and not self._labels:
            several = cast("list[object]", labels)
            self._labels = sorted({storable(label) for label in several} - {""})
            self._new_labels = self._labels

    def _read_state(self, line: Mapping[str, Any], _entry: int) -> None:
        cost = storable(_fields(line.get("state")).get("cost"))
        self._row["cost"] = self._row["cost"] if cost in ("", "0") else cost

    def _read_prompt(self, line: Mapping[str, Any], _entry: int) -> None:
        self._begin_turn("person", line["at"], _shown(line))
        if self._model_turn and self._turns[self._model_turn]["speaker"] == "unknown":
            self._model_turn = 0
        self._row["prompt"] = self._row["prompt"] or _shown(line)

    def _read_reply(self, line: Mapping[str, Any], _entry: int) -> None:
        usage = _fields(line.get("usage"))
        names = ("input_tokens", "output_tokens", "cached_tokens")
        tokens = [_count(usage.get(name)) for name in names]
        model = storable(line.get("model"))
        before = self._tokens.get(model, [0, 0, 0])
        self._tokens[model] = [one + more for one, more in zip(before, tokens, strict=True)]
        self._row["turns"] += 1
        turn = self._turn_of(line, is_reply=True)
        turn |= dict(zip(("input", "output", "cached"), tokens, strict=True))
        turn |= {"speaker": "model", "model": model, "at": line["at"], "text": _shown(line)}
        turn["seconds"] = read_number(line.get("seconds"), 0.0)
        turn["ended"] = max(turn["ended"], line["at"])

    def _read_answer(self, line: Mapping[str, Any], _entry: int) -> None:
        """Note the end of a call's wait for a person. Its run uses the answer later."""
        pending = storable(line.get("pending"))
        for call in self._open.values():
            if pending and call["pending"] == pending and _waits(call):
                call["status"] = "answered"
                self._changed_calls[call["number"]] = call
                self._changed_turns.add(call["turn"])
                self._turns[call["turn"]]["waiting"] -= 1
                self._row["waiting"] -= 1

    def _turn_of(self, line: Mapping[str, Any], *, is_reply: bool = False) -> dict[str, Any]:
        """Return the model's turn named by a line. The first line begins it, a reply or a call.

        Each turn has one reply.
        """
        reply, turn = _count(line.get("turn")), self._turns.get(self._model_turn)
        if turn is None or turn["reply"] != reply or (is_reply and turn["speaker"] == "model"):
            turn = self._begin_turn("unknown", line["at"], reply=reply)
            self._model_turn = self._turn
        self._changed_turns.add(self._model_turn)
        return turn

    def _begin_turn(
        self, speaker: str, at: float, text: str = "", *, reply: int = 0
    ) -> dict[str, Any]:
        self._turn += 1
        turn: dict[str, Any] = {
            "number": self._turn,
            "speaker": speaker,
            "reply": reply,
            "at": at,
            "text": text,
            "model": "",
            "seconds": 0.0,
            **dict.fromkeys(("input", "output", "cached"), 0),
            **dict.fromkeys(("calls", "failed", "denied", "waiting"), 0),
            "ended": at,
        }
        self._turns[self._turn] = turn
        self._changed_turns.add(self._turn)
        return turn

    def _read_call(self, entry: JournalEntry, line: Mapping[str, Any], at: float) -> None:
        call = self._find_call(entry, line, at)
        if call is None:
            return
        turn = self._turns[call["turn"]]
        waited = _waits(call)
        call["status"] = _LIFE.get(entry.kind, call["status"])
        call["ended"], call["last"] = max(at, call["ended"]), entry.number
        turn["ended"] = max(at, turn["ended"])
        self._changed_turns.add(call["turn"])
        self._changed_calls[call["number"]] = call
        if entry.kind == "decided":
            call["tool"] = storable(line.get("tool")) or call["tool"]
            call["rule"] = self._count_rule(line.get("origin"), storable(line.get("decision")), at)
        elif entry.kind == "asked":
            call["pending"], call["asked_by"] = storable(line.get("pending")), line.get("origin")
        elif entry.kind == "answered":
            call["status"], call["resumed"] = "answered", at
            self._count_rule(call.get("asked_by"), f"answer {storable(line.get('answer'))}", at)
        elif entry.kind == "finished":
            self._finish(call, turn, storable(line.get("kind")))
        change = _waits(call) - waited
        turn["waiting"] += change
        self._row["waiting"] += change

    def _find_call(
        self, entry: JournalEntry, line: Mapping[str, Any], at: float
    ) -> dict[str, Any] | None:
        """Return a line's open call. A request begins one."""
        key = read_key(line)
        if key in self._open or entry.kind != "requested":
            return self._open.get(key)
        turn = self._turn_of({**line, "at": at})
        turn["calls"] += 1
        self._row["calls"] += 1
        self._open[key] = {
            "key": key,
            "number": self._row["calls"],
            "call": storable(line["call_id"]),
            "turn": turn["number"],
            "tool": storable(line.get("tool")) or "?",
            "status": "requested",
            "began": at,
            "ended": at,
            "rule": "",
            "pending": "",
            "resumed": None,
            "first": entry.number,
            "last": entry.number,
            "asked_by": None,
        }
        return self._open[key]

    def _finish(self, call: dict[str, Any], turn: dict[str, Any], kind: str) -> None:
        call["status"] = kind or "ok"
        if kind == "pending":
            return
        del self._open[tuple(call["key"])]
        self._counts[kind or "ok"] += 1
        turn["denied"] += kind == "denied"
        turn["failed"] += bool(kind) and kind not in _OTHERS

    def _count_rule(self, origin: Any, outcome: str, at: float) -> str:
        """Count what a rule led to, and return its name."""
        if not isinstance(origin, dict):
            return ""
        fields = cast("Mapping[str, Any]", origin)
        rule, file = storable(fields.get("rule")), storable(fields.get("file"))
        line = _count(fields.get("line"))
        day = datetime.fromtimestamp(at, UTC).date().isoformat()
        self._rules[rule, file, line, day, outcome] += 1
        return f"{rule} ({file}:{line})" if file else rule


def _waits(call: Mapping[str, Any]) -> bool:
    """Return whether a call waits for a person."""
    return call["status"] == "asked" or (call["status"] == "pending" and bool(call["pending"]))


def _shown(line: Mapping[str, Any]) -> str:
    return storable(line.get("text"))[:MAX_SHOWN_CHARS]


def _fields(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def storable(value: object) -> str:
    """Return a text as every database can store it; empty for anything else."""
    if not isinstance(value, str):
        return ""
    if value.isascii() and "\0" not in value:
        return str.__str__(value)  # a driver may treat an enum in its own way
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 2**31 else 0


def read_number(value: object, fallback: float) -> float:
    """Return a number as every database can store it, or the fallback for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return fallback
    return float(value) if 0 <= value < 1e11 else fallback  # noqa: PLR2004  as in histories
