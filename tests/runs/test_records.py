"""Records: what pages read, kept by the writer of the journal in the same transactions."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail import Allow, Deny, HandrailError
from handrail.permissions import Approvers, Grade, Pending
from handrail.runs import (
    Claimant,
    JournalError,
    JournalLine,
    Records,
    RunQuery,
    RunRecord,
    RunStore,
    open_runs,
)
from handrail.runs._sealing.compression import decompress
from handrail.runs.history import TokenShare, read_history, share_tokens
from handrail.runs.lines import as_fields
from handrail.runs.records import (
    EventQuery,
    InboxRow,
    ModelTokens,
    RuleCount,
    RunPart,
    RunSummary,
    TurnRow,
)
from replying import WAYS, StreamedJournal
from runs.pages import PAGES, counted
from runs.parked import RULE, call_lines, make_pending, park, resume_lines

NOW = 1_500.0
DAY = "1970-01-01"
SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"


@pytest.fixture(params=WAYS)
def journal(tmp_path: Path, request: pytest.FixtureRequest) -> RunStore:
    journal = StreamedJournal(tmp_path / "state" / "journal.db", clock=lambda: NOW)
    journal.way = request.param
    return journal


in_one_way = pytest.mark.parametrize("journal", ["whole"], indirect=True)
"""For tests of the database, in which no reply has a call."""


def read(journal: RunStore, *labels: str, now: float = NOW) -> Records:
    return open_runs(journal.path, clock=lambda: now).records(labels=labels or None)


# the inbox


def test_the_inbox_has_what_waits_by_the_time_that_is_left(journal: RunStore) -> None:
    for name, expires in (("late", 1_900.0), ("soon", 1_600.0), ("over", 1_400.0)):
        park(journal, name, make_pending(name, expires_at=expires))

    page = read(journal).inbox()

    assert [(row.run, row.expires) for row in page.rows] == [("soon", 1_600.0), ("late", 1_900.0)]
    assert page.rows[0] == InboxRow(
        id="soon~1~c1~0",
        run="soon",
        agent="run",
        principal="ana",
        tool="refund",
        grade=Grade.LOSES,
        headline="Refund order A1",
        question="Refund A1?",
        asked=1_000.0,
        expires=1_600.0,
        parts=1,
    )


@in_one_way
def test_pages_of_the_inbox_go_on_by_key(journal: RunStore) -> None:
    for number in range(5):
        park(journal, f"r{number}", make_pending(f"r{number}", expires_at=1_600.0 + number // 2))
    records, seen, key = read(journal), list[list[str]](), ""

    while True:
        page = records.inbox(after=key, limit=2)
        seen.append([row.run for row in page.rows])
        assert page.total == 5
        if not (key := page.next):
            break

    assert seen == [["r0", "r1"], ["r2", "r3"], ["r4"]]
    assert records.inbox(after="nonsense").rows == records.inbox().rows


def test_a_request_has_everything_that_was_stored_when_it_was_asked(
    journal: RunStore,
) -> None:
    asked = make_pending("r", approvers=Approvers((("leads",),), not_requester=True, count=2))
    park(journal, "r", asked)

    found = read(journal).request(asked.id)

    assert found is not None
    assert found.pending == asked
    assert found.pending.origin == RULE
    assert found.pending.origin.digest == "00ff"
    assert (found.answer, found.votes, found.call) == (None, (), 1)
    assert read(journal).request("other") is None
    assert read(journal).receipt(asked.id) is None


def test_a_request_that_is_gone_without_an_answer_leaves_the_inbox(journal: RunStore) -> None:
    park(journal, "r")
    assert read(journal).inbox().total == 1

    journal.append("r", [JournalLine("state", '{"at":1,"kept":0,"state":{"waiting":[]}}')])

    assert read(journal).inbox().rows == ()
    assert read(journal).request("r~1~c1~0") is None


# runs


def test_a_run_has_a_summary_and_its_turns(journal: RunStore) -> None:
    park(journal, "r", make_pending("r"), make_pending("r", "c2"), labels=["team=pay"])
    summary = RunSummary(
        id="r",
        status="waiting",
        agent="run",
        principal="ana",
        prompt="Refund order A1, please.",
        labels=("team=pay",),
        began=998.0,
        changed=1_005.0,
        last_event="status",
        entries=13,
        turns=1,
        calls=2,
        waiting=2,
        tokens=(ModelTokens("m", 10, 5, 2),),
    )

    assert read(journal).run("r") == summary
    assert read(journal).turns("r") == (
        TurnRow(number=1, speaker="person", at=998.5, text="Refund order A1, please.", ended=998.5),
        TurnRow(
            number=2,
            speaker="model",
            at=999.5,
            model="m",
            seconds=1.0,
            input_tokens=10,
            output_tokens=5,
            cached_tokens=2,
            calls=2,
            waiting=2,
            ended=1_003.0,
            reply=1,
        ),
    )


def used(run: int, *tools: str, model: str = "m", **usage: int) -> list[JournalLine]:
    """Return the lines of a reply with its tokens, and of its calls."""
    reply = {"at": run * 10.0, "turn": 1, "model": model, "usage": usage}
    lines = [JournalLine.of("prompt", at=run * 10.0, text="Go."), JournalLine.of("reply", **reply)]
    for number, tool in enumerate(tools):
        about = {"at": run * 10.0, "turn": 1, "call_id": f"c{number}"}
        lines.append(JournalLine.of("requested", **about, tool=tool))
        lines.append(JournalLine.of("finished", **about, kind="", chars=7))
    return lines


@in_one_way
def test_tokens_of_replies_are_divided_among_the_calls_of_their_turns(
    journal: RunStore,
) -> None:
    tokens = {"input_tokens": 30, "output_tokens": 6, "cached_tokens": 3}
    journal.append("r1", used(1, "read", "read", "edit", **tokens))
    journal.append("r2", used(2, "read", model="n", **tokens))
    labels = JournalLine.of("status", at=30.0, status="running", labels=["team=pay"])
    journal.append("r3", [labels, *used(3, **tokens)])

    def share(model: str, tool: str, calls: int, *numbers: float) -> TokenShare:
        return TokenShare(model, tool, calls, *numbers)

    answer = share("m", "", 0, 1.0, 30.0, 6.0, 3.0)
    edit = share("m", "edit", 1, 1 / 3, 10.0, 2.0, 1.0)
    reads = share("m", "read", 2, 2 / 3, 20.0, 4.0, 2.0)
    other = share("n", "read", 1, 1.0, 30.0, 6.0, 3.0)
    records = read(journal)
    found = records.tokens()
    assert [one._asdict() for one in found] == [
        pytest.approx(one._asdict()) for one in (answer, edit, reads, other)
    ]
    turns = [
        turn
        for run in ("r1", "r2", "r3")
        for turn in read_history(as_fields(entry) for entry in journal.read(run))
    ]
    assert [one._asdict() for one in share_tokens(turns)] == [
        pytest.approx(one._asdict()) for one in found
    ]
    assert records.tokens(since=15.0) == (answer, other)
    assert records.tokens(limit=1) == read(journal, "team=pay").tokens() == (answer,)
    assert read(journal, "team=web").tokens() == ()


def two_turns(*, numbered: bool = True) -> list[JournalLine]:
    """Return the lines of two replies that came whole, each with a call of the same id."""
    lines = [JournalLine.of("prompt", at=0.0, text="Go.")]
    for number in (1, 2):
        about: dict[str, Any] = {"turn": number} if numbered else {}
        lines += [
            JournalLine.of("reply", at=number * 10.0, seconds=number / 4, model="m", **about),
            JournalLine.of("requested", at=number * 10.0, call_id="c", tool="t", **about),
            JournalLine.of("decided", at=number * 10.0, call_id="c", **about),
            JournalLine.of("finished", at=number * 10.0 + 3, call_id="c", kind="", **about),
        ]
    return lines


def test_a_call_is_in_the_turn_that_made_it(journal: RunStore) -> None:
    journal.append("r", two_turns())
    journal.append("parts", two_turns()[:3])
    for line in two_turns()[3:]:
        journal.append("parts", [line])

    for run in ("r", "parts"):
        turns, calls = read(journal).turns(run), read(journal).calls(run, after=0).rows
        assert [(one.speaker, one.reply, one.seconds, one.calls, one.at) for one in turns] == [
            ("person", 0, 0.0, 0, 0.0),
            ("model", 1, 0.25, 1, 10.0),
            ("model", 2, 0.5, 1, 20.0),
        ]
        assert [(row.turn, row.id, row.history and row.history.turn) for row in calls] == [
            (2, "c", 1),
            (3, "c", 2),
        ]
        assert [(one.models, one.calls) for one in read(journal).parts(run)] == [
            (0.0, 0.0),
            (0.25, 3.0),
            (0.5, 3.0),
        ]


@pytest.mark.parametrize("journal", ["early"], indirect=True)
def test_without_turns_in_the_lines_a_call_would_be_in_the_turn_before(
    journal: RunStore,
) -> None:
    journal.append("r", two_turns(numbered=False))

    assert [one.calls for one in read(journal).turns("r")] == [0, 2, 0]


@pytest.mark.parametrize("journal", ["early"], indirect=True)
def test_a_turn_without_a_reply_is_shown_and_the_next_prompt_ends_it(
    journal: RunStore,
) -> None:
    """The stream broke. After the next prompt, the turn has the same number."""
    first, *lines = two_turns()[:5]
    journal.append("r", [first, *lines[1:], first, *lines])

    records = read(journal)
    turns, run = records.turns("r"), records.run("r")
    assert [(one.speaker, one.reply, one.calls) for one in turns] == [
        ("person", 0, 0),
        ("unknown", 1, 1),
        ("person", 0, 0),
        ("model", 1, 1),
    ]
    assert run is not None
    assert (run.turns, run.calls) == (1, 2)


@in_one_way
def test_runs_are_searched_and_go_on_by_key(journal: RunStore) -> None:
    standings = [("done", "limit"), ("failed", "error"), ("waiting", "")]
    for number, (status, reason) in enumerate(standings):
        line = {"status": status, "reason": reason, "command": "chat"}
        line["prompt"] = f"Fix 100% of bug_{number}"
        journal.append(f"r{number}", [JournalLine.of("status", at=10.0 + number, **line)])
    records = read(journal)

    first = records.runs(limit=2)
    rest = records.runs(limit=2, after=first.next)

    def find(**query: Any) -> list[str]:
        return [row.id for row in records.runs(RunQuery(**query)).rows]

    assert [row.id for row in (*first.rows, *rest.rows)] == ["r2", "r1", "r0"]
    assert (rest.next, rest.rows[0].ended) == ("", 10.0)
    assert find(text="BUG_1 fix") == ["r1"]
    assert find(text="100%") == ["r2", "r1", "r0"]
    assert find(text="b%g") == []  # no wildcard
    assert find(status="failed") == ["r1"]
    assert (find(reason="limit"), find(status="failed", reason="limit")) == (["r0"], [])
    assert find(agent="chat", since=11.0) == ["r2", "r1"]
    assert find(principal="ana") == []
    assert records.figures().by_status == dict.fromkeys(standings, 1)
    assert records.figures(since=11.0).by_hour == ((0.0, 2),)
    assert records.run("none") is None


def test_calls_open_at_the_turn_that_matters(journal: RunStore) -> None:
    park(journal, "waits")
    records = read(journal)
    assert (records.calls("waits").turn, len(records.calls("waits").rows)) == (2, 1)

    lines = [JournalLine.of("status", at=1.0, status="running")]
    for number, kind in enumerate(["", "error", ""], 1):
        call = {"turn": number, "call_id": f"c{number}"}
        lines += [
            JournalLine.of("reply", at=float(number), turn=number, text=""),
            JournalLine.of("requested", at=float(number), tool="t", **call),
            JournalLine.of("finished", at=number + 0.5, kind=kind, **call),
        ]
    journal.append("fails", lines)
    assert [row.number for row in records.calls("fails").rows] == [2, 3]
    journal.append("last", [line for line in lines if '"kind":"error"' not in line.body])
    assert [row.number for row in records.calls("last").rows] == [3]
    assert records.calls("none").rows == ()


@in_one_way
def test_pages_of_calls_have_the_history_of_each(journal: RunStore) -> None:
    lines = [JournalLine.of("status", at=1.0, status="running")]
    for number in range(1, 6):
        call = {"turn": number // 2, "call_id": "same"}
        lines += [
            JournalLine.of("requested", at=float(number), tool="look", args={}, **call),
            JournalLine.of("started", at=number + 0.25, attempt=1, **call),
            JournalLine.of("finished", at=number + 0.5, kind="", text=f"{number}", **call),
        ]
    journal.append("r", lines)
    records = read(journal)

    page = records.calls("r", after=0, limit=3)
    rest = records.calls("r", after=page.next, limit=3)
    both = (*page.rows, *rest.rows)

    assert [row.number for row in both] == [1, 2, 3, 4, 5]
    assert [row.history and (row.history.number, row.history.text) for row in both] == [
        (number, f"{number}") for number in range(1, 6)
    ]
    assert rest.next == 0
    one = records.call("r", 4)
    assert one is not None
    assert [(line["event"], line["at"]) for line in one.events] == [
        ("requested", 4.0),
        ("started", 4.25),
        ("finished", 4.5),
    ]
    assert one.row.history is not None
    assert one.row.history.seconds("running") == 0.25
    assert records.call("r", 9) is None


def test_events_are_searched_by_who_event_tool_rule_and_time(journal: RunStore) -> None:
    park(journal, "r")
    park(journal, "s")
    journal.answer_now("r~1~c1~0", Allow(), by=Claimant("jo", via="console"))
    records = read(journal)

    def find(**query: Any) -> list[tuple[str, str]]:
        rows = records.events(EventQuery(**query)).rows
        return [(record.row.run, record.row.kind) for record in rows]

    assert find(who="jo") == [("r", "answer")]
    assert find(kind="asked") == [("s", "asked"), ("r", "asked")]
    assert find(kind="asked", run="r", tool="refund", rule=RULE.rule) == [("r", "asked")]
    assert find(since=1_400.0) == [("r", "answer")]
    assert find(until=998.0) == [("s", "status"), ("r", "status")]
    assert find(tool="other") == []

    page = records.events(limit=9)
    rest = records.events(before=page.next)
    entries = {(entry.run, entry.number): entry for run in "rs" for entry in journal.read(run)}
    every = [*page.rows, *rest.rows]
    assert len(every) == sum(entry.kind != "state" for entry in entries.values())
    for record in every:
        entry = entries[record.row.run, record.row.number]
        assert (record.body, record.digest) == (entry.body, entry.digest)


def test_decisions_and_answers_are_counted_by_rule_and_day(journal: RunStore) -> None:
    asked = make_pending("r")
    park(journal, "r", labels=["team=pay"])
    park(journal, "s", labels=["team=web"])
    journal.append("r", resume_lines(asked, 90_000.0))

    def count(outcome: str, day: str, number: int) -> RuleCount:
        place = {"rule": RULE.rule, "file": RULE.file, "line": RULE.line}
        return RuleCount(**place, day=day, outcome=outcome, count=number)

    answered = count("answer allow", "1970-01-02", 1)
    assert read(journal).rules() == (count("ask", DAY, 2), answered)
    assert read(journal).rules(since="1970-01-02") == (answered,)
    assert read(journal).rules(until=DAY) == (count("ask", DAY, 2),)
    assert read(journal, "team=web").rules() == (count("ask", DAY, 1),)


# tenants


def test_a_reader_sees_only_runs_with_one_of_its_labels(journal: RunStore) -> None:
    for run, label in (("mine", "team=pay"), ("theirs", "team=web")):
        park(journal, run, labels=[label])
        journal.answer_now(f"{run}~1~c1~0", Deny("no"), by=Claimant("jo"))
        park(journal, f"{run}-2", labels=[label])

    def everything(records: Records, run: str) -> list[Any]:
        return [
            [row.run for row in records.inbox().rows],
            [row.id for row in records.runs().rows],
            sum(records.figures().by_status.values()),
            {record.row.run for record in records.events().rows},
            records.request(f"{run}~1~c1~0") is not None,
            records.receipt(f"{run}~1~c1~0") is not None,
            records.run(run) is not None,
            bool(records.turns(run)),
            bool(records.calls(run, after=0).rows),
            records.call(run, 1) is not None,
            bool(records.events(EventQuery(run=run)).rows),
        ]

    both, mine = {"mine", "mine-2", "theirs", "theirs-2"}, {"mine", "mine-2"}
    everyone, payer = read(journal), read(journal, "team=pay", "team=none")
    unlabelled = open_runs(journal.path, clock=lambda: NOW).records(labels=[])
    seen = [True] * 7
    newest = ["theirs-2", "theirs", "mine-2", "mine"]
    assert everything(everyone, "theirs") == [["mine-2", "theirs-2"], newest, 4, both, *seen]
    assert everything(payer, "mine") == [["mine-2"], ["mine-2", "mine"], 2, mine, *seen]
    assert everything(payer, "theirs")[4:] == [False] * 7
    assert everything(unlabelled, "mine") == [[], [], 0, set(), *[False] * 7]
    assert (payer.inbox().total, everyone.inbox().total) == (1, 2)


# budgets


def multiply(journal: RunStore, times: int) -> None:
    """Copy the rows of the run "r" many times."""
    numbers = f"WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {times})"  # noqa: S608
    connection = sqlite3.connect(journal.path)
    for table, key in (("handrail_summary", "run"), ("handrail_question", "id")):
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        values = {name: name for name in columns} | {"run": "run || '-' || i"}
        values |= {"id": "id || i"} if key == "id" else {}
        values |= {"expires": "expires + i % 97"} if key == "id" else {}
        several = ", ".join(values[name] for name in columns)
        connection.execute(f"INSERT INTO {table} {numbers} SELECT {several} FROM {table}, n")  # noqa: S608
    connection.commit()
    connection.close()


@in_one_way
@pytest.mark.parametrize("times", [10, 100_000 if SOAK else 2_000])
def test_a_page_takes_six_statements_at_most_however_many_requests_wait(
    journal: RunStore, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    park(journal, "r")
    multiply(journal, times)
    with counted(monkeypatch) as statements:
        records = read(journal)
    taken: dict[str, int] = {}
    for name, page in PAGES.items():
        statements.clear()
        page(records)
        taken[name] = len(statements)

    assert taken == {
        "inbox": 4,
        "second page of the inbox": 4,
        "receipt": 1,
        "runs": 3,
        "run": 6,
        "call": 3,
        "audit": 2,
        "rules": 1,
        "tokens": 1,
        "fleet": 1,
    }
    assert records.inbox().total == times + 1


@in_one_way
def test_a_long_run_carries_no_more_than_a_short_one(journal: RunStore) -> None:
    carried: list[int] = []
    for number in range(10, 30):
        about: dict[str, Any] = {"at": float(number), "turn": number}
        call = {**about, "call_id": str(number)}
        journal.append("r", [JournalLine.of("prompt", at=float(number))])
        journal.append("r", [JournalLine.of("requested", **call)])
        journal.append("r", [JournalLine.of("reply", **about)])
        journal.append("r", [JournalLine.of("finished", kind="", **call)])
        connection = sqlite3.connect(journal.path)
        [(stored,)] = connection.execute("SELECT unfinished FROM handrail_summary")
        carried.append(len(decompress(stored)))
        connection.close()

    assert max(carried) - min(carried) <= 4  # a digit more


@in_one_way
def test_labels_may_come_after_the_first_line(journal: RunStore) -> None:
    journal.append("r", [JournalLine.of("status", at=1.0, status="running")])
    assert read(journal, "team=pay").runs().rows == ()

    journal.append("r", [JournalLine.of("status", at=2.0, labels=["team=pay", "", 3])])
    journal.append("r", [JournalLine.of("status", at=3.0, labels=["team=web"])])  # too late

    assert [row.labels for row in read(journal, "team=pay").runs().rows] == [("team=pay",)]
    assert read(journal, "team=web").runs().rows == ()


@in_one_way
def test_records_cannot_write(journal: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    park(journal, "r")
    opened: list[sqlite3.Connection] = []
    connect: Any = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *a, **o: opened.append(connect(*a, **o)) or opened[-1]
    )
    records = read(journal)
    change = "UPDATE handrail_summary SET status = 'done'"

    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        opened[-1].execute(change)
    assert connect(journal.path).execute(change).rowcount == 1  # others can
    records.close()


def test_a_place_without_runs_is_reported(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_text("not a database, but a text of some length" * 9, "utf-8")

    with pytest.raises(JournalError, match=r"Cannot use the runs in .*: file is not a database"):
        open_runs(tmp_path / "other.db").records()
    assert open_runs(tmp_path / "none.db").records().runs().rows == ()


def test_postgresql_needs_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "handrail.runs._store.postgres", raising=False)

    with pytest.raises(HandrailError, match=r"needs the package psycopg .*handrail\[postgres\]"):
        open_runs("postgresql://nowhere/x").records()


# older files


def test_a_run_that_is_removed_leaves_no_rows(journal: RunStore) -> None:
    asked = make_pending("r", approvers=Approvers(count=2))
    park(journal, "r", asked, labels=["team=pay"])
    journal.answer_now(asked.id, Allow(), by=Claimant("jo"))

    journal.remove("r")

    connection = sqlite3.connect(journal.path)
    tables = ("summary", "label", "turn", "called", "journal", "question", "vote")
    queries = [f"SELECT * FROM handrail_{name}" for name in tables]  # noqa: S608
    found = [connection.execute(query).fetchall() for query in queries]
    assert found == [[]] * len(tables)
    connection.close()


# the feed


@in_one_way
async def test_a_feed_reads_all_that_it_missed_and_waits_for_more(journal: RunStore) -> None:
    journal.append("r", [JournalLine.of("prompt", at=1.0)] * 501)
    seen: list[int] = []

    async def write() -> None:
        while len(seen) < 501:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        await anyio.sleep(1.2)  # it has looked, and found nothing new
        open_runs(journal.path).append("r", [JournalLine.of("prompt", at=2.0)])

    with anyio.fail_after(40):
        async with anyio.create_task_group() as group:
            group.start_soon(write)
            async for event in journal.follow(0):
                seen.append(event.number)
                if len(seen) == 502:
                    break

    assert seen == list(range(1, 503))


@in_one_way
async def test_a_feed_has_what_others_write_after_a_place(journal: RunStore) -> None:
    park(journal, "r")
    last = read(journal).events(limit=1).rows[0].row.place
    other = open_runs(journal.path)
    seen: list[tuple[str, str]] = []
    with anyio.fail_after(30):
        async for event in journal.follow(last - 1):
            seen.append((event.run, event.kind))
            if len(seen) == 1:
                other.append("s", [JournalLine.of("prompt", at=1.0)])
            if len(seen) == 2:
                break

    assert seen == [("r", "status"), ("s", "prompt")]


@in_one_way
async def test_a_feed_without_a_place_begins_now_and_keeps_to_its_labels(
    journal: RunStore,
) -> None:
    park(journal, "old", labels=["team=pay"])
    records = read(journal, "team=pay")
    seen: list[str] = []

    async def write(_scope: object) -> None:
        while not seen:
            park(journal, "theirs", labels=["team=web"])
            park(journal, "mine", labels=["team=pay"])
            await anyio.sleep(0.05)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(write, group)
            async for event in records.follow():
                seen.append(event.run)
                break

    assert seen == ["mine"]


def test_lines_that_are_damaged_change_no_rows_and_stop_no_append(journal: RunStore) -> None:
    journal.append(
        "r",
        [
            JournalLine.of("status", at="soon", status=3, labels="all", cost=1, prompt=None),
            JournalLine.of("reply", at=1.0, usage=[1], model=2, turn="1", seconds=[]),
            JournalLine.of("requested", at=2.0, call_id="\ud800\0", tool="\ud800"),
            JournalLine.of("decided", at=True, call_id="\ud800\0", origin="rule", decision=4),
            JournalLine.of("finished", at=-1, call_id="other", kind="error"),
            JournalLine("state", "[]"),
            JournalLine("state", '{"state":{"waiting":[1]}}'),
            JournalLine.of("answer", pending=3, by=[], answer="maybe"),
            JournalLine("answer", "not json"),
        ],
    )
    run = read(journal).run("r")

    assert run is not None
    assert (run.status, run.calls, run.counts, run.waiting) == ("", 1, {}, 0)
    assert [row.tool for row in read(journal).calls("r").rows] == ["?"]


@in_one_way
def test_a_run_has_the_cost_that_its_states_or_its_end_say(journal: RunStore) -> None:
    lines = [
        JournalLine("state", '{"at":1,"kept":0,"state":{"cost":"0.25","waiting":[]}}'),
        JournalLine("state", '{"at":2,"kept":0,"state":{"cost":"0","waiting":[]}}'),
    ]
    journal.append("r", lines)
    journal.append("s", [JournalLine.of("status", at=1.0, cost="0.5")])

    assert [row.cost for row in read(journal).runs().rows] == ["0.5", "0.25"]


@in_one_way
def test_a_call_line_without_its_request_is_no_call(journal: RunStore) -> None:
    pending: Pending = make_pending("r")
    journal.append("r", call_lines(pending)[1:])

    assert read(journal).run("r") is not None
    assert read(journal).calls("r", after=0).rows == ()


def test_the_parts_of_a_run_say_where_its_time_went(journal: RunStore) -> None:
    run = RunRecord(journal, "long")
    for turn in range(6):
        at, call = 1e9 + turn * 10, {"call_id": f"c{turn}", "tool": "save", "turn": turn + 1}
        reply = {"event": "reply", "turn": turn + 1, "model": "m", "text": "", "usage": {}}
        lines = [
            {"at": at, "event": "prompt", "text": "Go on."},
            {**reply, "at": at + 1, "seconds": 1.0},
            {**call, "at": at + 1, "event": "requested", "args": {}},
            {**call, "at": at + 1, "event": "asked", "pending": f"p{turn}", "question": "?"},
            {**call, "at": at + 4, "event": "answered", "answer": "allow"},
            {**call, "at": at + 6, "event": "finished", "kind": "" if turn else "error"},
        ]
        run.note(lines)

    several, few = read(journal).parts("long"), read(journal).parts("long", limit=3)

    assert several[:3] == (
        RunPart(1e9, 1e9, 0.0, 0.0, 0.0, 0),
        RunPart(1e9, 1e9 + 6, 1.0, 3.0, 2.0, 1),
        RunPart(1e9 + 10, 1e9 + 10, 0.0, 0.0, 0.0, 0),
    )
    assert few == (
        RunPart(1e9, 1e9 + 16, 2.0, 6.0, 4.0, 1),
        RunPart(1e9 + 20, 1e9 + 36, 2.0, 6.0, 4.0, 0),
        RunPart(1e9 + 40, 1e9 + 56, 2.0, 6.0, 4.0, 0),
    )
    assert read(journal).parts("unknown") == ()
    turns = [(one.number, one.reply) for one in read(journal).turns("long", after=2, limit=3)]
    assert turns == [(3, 0), (4, 2), (5, 0)]
