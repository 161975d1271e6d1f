"""The rows of a run equal a count of its events, however the events come."""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.runs import JournalLine, RunRecord, open_runs, read_history
from replying import WAYS, stream_lines

IDS = st.sampled_from(["a", "b", "c"])
TURNS = st.sampled_from([1, 2])
ORIGIN = st.none() | st.fixed_dictionaries(
    {"rule": st.sampled_from(["r1", "r2"]), "file": st.just("f"), "line": st.sampled_from([1, 2])}
)
KINDS = st.sampled_from(["", "error", "denied", "pending", "timeout"])
LINES = st.one_of(
    st.tuples(st.just("prompt"), st.fixed_dictionaries({"text": st.just("Go.")})),
    st.tuples(
        st.just("reply"),
        st.fixed_dictionaries(
            {
                "turn": TURNS,
                "model": st.sampled_from(["m", "n"]),
                "usage": st.fixed_dictionaries(
                    {"input_tokens": st.integers(0, 9), "output_tokens": st.integers(0, 9)}
                ),
            }
        ),
    ),
    st.tuples(
        st.just("requested"),
        st.fixed_dictionaries({"turn": TURNS, "call_id": IDS, "tool": st.just("t")}),
    ),
    st.tuples(
        st.just("decided"),
        st.fixed_dictionaries(
            {
                "turn": TURNS,
                "call_id": IDS,
                "decision": st.sampled_from(["allow", "ask"]),
                "origin": ORIGIN,
            }
        ),
    ),
    st.tuples(
        st.just("asked"),
        st.fixed_dictionaries({"turn": TURNS, "call_id": IDS, "pending": IDS, "origin": ORIGIN}),
    ),
    st.tuples(
        st.just("answered"),
        st.fixed_dictionaries(
            {"turn": TURNS, "call_id": IDS, "answer": st.sampled_from(["allow", "deny"])}
        ),
    ),
    st.tuples(
        st.just("answer"), st.fixed_dictionaries({"pending": IDS, "answer": st.just("deny")})
    ),
    st.tuples(st.just("started"), st.fixed_dictionaries({"turn": TURNS, "call_id": IDS})),
    st.tuples(
        st.just("finished"), st.fixed_dictionaries({"turn": TURNS, "call_id": IDS, "kind": KINDS})
    ),
    st.tuples(
        st.just("status"),
        st.sampled_from(
            [
                {"status": "queued", "reason": ""},
                {"status": "running", "reason": ""},
                {"status": "waiting", "reason": ""},
                {"status": "done", "reason": "limit"},
                {"status": "failed", "reason": "error"},
                {"status": "cancelled", "reason": ""},
            ]
        ),
    ),
)


class Count:
    """A count of events, from the first to the last, of one run."""

    def __init__(self, lines: list[tuple[str, dict[str, Any]]]) -> None:
        self.status, self.reason, self.turns, self.calls = "", "", 0, 0
        self.ended: float | None = None
        self.kinds: Counter[str] = Counter()
        self.rules: Counter[tuple[Any, ...]] = Counter()
        self.tokens: Counter[str] = Counter()
        self.open: dict[tuple[int, str], dict[str, Any]] = {}
        for at, (kind, line) in enumerate(lines, 1):
            if kind == "status":
                self.status, self.reason = line["status"], line["reason"]
                self.ended = at if self.status in {"done", "failed", "cancelled"} else None
            elif kind == "reply":
                self.turns += 1
                self.tokens[line["model"]] += sum(line["usage"].values())
            elif kind == "answer":
                self.answer(line["pending"])
            elif "call_id" in line:
                self.read(kind, line)

    @property
    def waiting(self) -> int:
        return sum(call["waits"] for call in self.open.values())

    def answer(self, pending: str) -> None:
        for call in self.open.values():
            call["waits"] = call["waits"] and call["asked"] != pending

    def read(self, kind: str, line: dict[str, Any]) -> None:
        id_ = line["turn"], line["call_id"]
        if kind == "requested" and id_ not in self.open:
            self.calls += 1
            self.open[id_] = {"waits": False, "asked": "", "by": None}
        call = self.open.get(id_)
        if call is None:
            return
        if kind == "decided":
            self.add(line["origin"], line["decision"])
            return
        if kind == "answered":
            self.add(call["by"], f"answer {line['answer']}")
        call |= {"asked": line["pending"], "by": line["origin"]} if kind == "asked" else {}
        call["waits"] = kind == "asked" or (line.get("kind") == "pending" and bool(call["asked"]))
        if kind == "finished" and line["kind"] != "pending":
            self.kinds[line["kind"] or "ok"] += 1
            del self.open[id_]

    def add(self, origin: dict[str, Any] | None, outcome: str) -> None:
        if origin is not None:
            day = datetime.fromtimestamp(1, UTC).date().isoformat()
            self.rules[origin["rule"], origin["file"], origin["line"], day, outcome] += 1


@settings(max_examples=40)
@given(st.lists(LINES, max_size=30), st.integers(1, 7))
def test_the_rows_of_a_run_equal_a_count_of_its_events(
    lines: list[tuple[str, dict[str, Any]]], size: int
) -> None:
    counted = Count(lines)
    written = [JournalLine.of(kind, at=at, **line) for at, (kind, line) in enumerate(lines, 1)]
    with tempfile.TemporaryDirectory() as folder:
        journal = open_runs(Path(folder) / "journal.db")
        journal.append("other", [JournalLine.of("prompt", at=0.5)])
        for start in range(0, len(written), size):
            journal.append("r", written[start : start + size])
        records = open_runs(journal.path).records()
        run, turns, calls = records.run("r"), records.turns("r"), records.calls("r", after=0)
        rules = records.rules()
        events = [record.row for record in records.events(limit=1000).rows if record.row.run == "r"]
        records.close()
        journal.close()

    if run is None:
        assert not lines
        return
    assert (run.status, run.reason) == (counted.status, counted.reason)
    assert (run.ended, run.turns) == (counted.ended, counted.turns)
    assert (run.calls, run.waiting, dict(run.counts)) == (
        counted.calls,
        counted.waiting,
        dict(counted.kinds),
    )
    assert {one.model: one.input + one.output for one in run.tokens} == dict(counted.tokens)
    assert (run.began, run.changed, run.last_event) == (1, len(lines), lines[-1][0])
    assert {(*_key(rule), rule.count) for rule in rules} == {
        (*key, count) for key, count in counted.rules.items()
    }
    assert sum(turn.calls for turn in turns) == len(calls.rows) == counted.calls
    assert sum(turn.waiting for turn in turns) == counted.waiting
    assert [event.number for event in events] == list(range(len(lines), 0, -1))


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return the lines of a run, and its turns: who spoke, the number, and the calls."""
    lines, turns, number = list[dict[str, Any]](), list[Any](), draw(st.sampled_from([1, 5]))
    for _ in range(draw(st.integers(1, 4))):
        if not turns or turns[-1][0] == "unknown" or draw(st.booleans()):
            lines.append({"event": "prompt"})
            turns.append(("person", 0, []))
        ids = draw(st.lists(IDS, unique=True, max_size=3))
        has_reply = not ids or draw(st.booleans())
        calls = [{"turn": number, "call_id": id_, "tool": f"{number}{id_}"} for id_ in ids]
        steps = [{**call, "event": "requested"} for call in calls]
        steps += [{**call, "event": "finished", "kind": ""} for call in calls]
        reply = [{"event": "reply", "turn": number}] if has_reply else []
        lines += stream_lines(draw(st.sampled_from(WAYS)), [*reply, *steps])
        speaker = "model" if has_reply else "unknown"
        turns.append((speaker, number, [call["tool"] for call in calls]))
        number += has_reply
    return lines, turns


@settings(max_examples=25)
@given(runs(), st.integers(1, 7))
def test_histories_and_records_have_each_call_in_its_turn(
    run: tuple[list[dict[str, Any]], list[Any]], size: int
) -> None:
    lines, expected = run
    history = [
        (turn.speaker, turn.number, [call.tool for call in turn.calls])
        for turn in read_history(lines)
    ]
    with tempfile.TemporaryDirectory() as folder:
        record = RunRecord(open_runs(Path(folder) / "journal.db"), "r")
        for start in range(0, len(lines), size):
            record.note(lines[start : start + size])
        records = open_runs(Path(folder) / "journal.db").records()
        rows = records.calls("r", after=0).rows
        recorded = [
            (turn.speaker, turn.reply, [row.tool for row in rows if row.turn == turn.number])
            for turn in records.turns("r")
        ]
        records.close()
        record.journal.close()

    assert (history, recorded) == (expected, expected)


def _key(rule: Any) -> tuple[Any, ...]:
    return (rule.rule, rule.file, rule.line, rule.day, rule.outcome)
