"""Answers: who may give them, each used once, and what their giver learns."""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail import Allow, Deny, Result
from handrail.permissions import Approvers, Edit
from handrail.runs import (
    AnswerOutcome,
    Claimant,
    JournalLine,
    Records,
    RunStore,
    open_runs,
    request_digest,
    verify,
)
from handrail.runs._store import answering, claims
from handrail.runs.answers import dump_answer
from handrail.runs.records import AnswerRecord, Vote
from runs.parked import make_pending, park, resume_lines

NOW = 1_500.0


@pytest.fixture
def journal(tmp_path: Path) -> RunStore:
    return open_runs(tmp_path / "state" / "journal.db", clock=lambda: NOW)


def read(journal: RunStore) -> Records:
    return open_runs(journal.path, clock=lambda: NOW).records()


async def answer(journal: RunStore, by: str, what: Any = None, **others: Any) -> AnswerOutcome:
    return await journal.answer("r~1~c1~0", what or Allow(), by=Claimant(by, **others))


async def test_an_answer_is_used_once_and_leaves_a_receipt(journal: RunStore) -> None:
    asked = make_pending("r")
    park(journal, "r")
    digest = request_digest(asked)
    record = AnswerRecord(
        pending=asked.id, answer="allow", by="jo", via="console", seen=digest, at=NOW
    )

    first = await answer(journal, "jo", via="console", seen=digest)
    second = await answer(open_runs(journal.path, clock=lambda: NOW + 8), "ana")

    assert first == AnswerOutcome(
        pending=asked.id, status="used", text="Approved.", run="r", answer=first.answer
    )
    assert (second.status, second.used, second.answer) == ("answered", False, record)
    assert second.text == (
        "Already answered. jo approved it 8 seconds before you. Your answer was not used."
    )
    assert read(journal).receipt(asked.id) == record
    assert read(journal).inbox().rows == ()
    assert [entry.kind for entry in journal.read("r")].count("answer") == 1
    assert verify(journal, "r") is None

    journal.append("r", resume_lines(asked, NOW + 2))
    receipt = read(journal).receipt(asked.id)
    assert receipt is not None
    assert (receipt.by, receipt.at, receipt.resumed_after) == ("jo", NOW, 2.0)


@pytest.mark.parametrize(
    ("given", "word", "text"),
    [
        (Allow(), "allow", "Approved."),
        (Deny("Not today."), "deny", "Denied."),
        (Edit({"order": "B2"}), "edit", "Changed and approved."),
        (Result("c1", "By hand."), "result", "Answered."),
    ],
)
async def test_every_kind_of_answer_has_a_receipt(
    journal: RunStore, given: Any, word: str, text: str
) -> None:
    park(journal, "r")

    outcome = await answer(journal, "jo", given, via="console")
    receipt = read(journal).receipt("r~1~c1~0")

    assert outcome.text == text
    assert receipt is not None
    assert (receipt.answer, receipt.by, receipt.via) == (word, "jo", "console")
    assert receipt.reason == ("Not today." if word == "deny" else "")


@pytest.mark.parametrize(
    ("asked", "by", "options", "status", "text"),
    [
        ({}, "jo", {"pending": "none"}, "unknown", "There is no such request."),
        (
            {"expires_at": 1_400.0},
            "jo",
            {},
            "expired",
            "Too late. This request expired at 1970-01-01 00:23 UTC.",
        ),
        ({}, "jo", {"seen": "00"}, "changed", "The request changed while you read it."),
        (
            {"approvers": Approvers((("leads", "cfo"),))},
            "jo",
            {"groups": ["staff"]},
            "not_allowed",
            "You may not answer this request. It is for leads or cfo.",
        ),
        (
            {"approvers": Approvers((("leads",), ("security",)))},
            "jo",
            {"groups": ["leads"]},
            "not_allowed",
            "You may not answer this request. It is for security.",
        ),
        (
            {"approvers": Approvers(not_requester=True)},
            "ana",
            {},
            "not_allowed",
            "You may not approve this request: it is on your own behalf.",
        ),
        *(
            (
                {"approvers": Approvers(not_requester=True)},
                by,
                {"names": names},
                "not_allowed",
                "You may not approve this request: it is on your own behalf.",
            )
            for by, names in [("Ana", ()), ("proxy|ana", ()), ("proxy|17", ("ana",))]
        ),
        (
            {"approvers": Approvers(not_requester=True), "principal": None},
            "jo",
            {},
            "not_allowed",
            "You may not approve this request: it does not say on whose behalf it is.",
        ),
        (
            {"approvers": Approvers(count=2)},
            "",
            {},
            "not_allowed",
            "You may not approve this request: your name is not known.",
        ),
    ],
)
async def test_a_refusal_says_that_the_answer_was_not_used(  # noqa: PLR0917
    journal: RunStore,
    asked: dict[str, Any],
    by: str,
    options: dict[str, Any],
    status: str,
    text: str,
) -> None:
    park(journal, "r", make_pending("r", **asked))
    before = journal.head("r")

    name = options.pop("pending", "r~1~c1~0")
    outcome = await journal.answer(name, Allow(), by=Claimant(by, **options))

    assert (outcome.status, outcome.used, outcome.answer) == (status, False, None)
    assert outcome.text == f"{text} Your answer was not used."
    assert journal.head("r") == before


@pytest.mark.parametrize(
    ("asked", "options", "what"),
    [
        ({"approvers": Approvers((("leads", "cfo"),))}, {"groups": ["leads"]}, Allow()),
        ({"approvers": Approvers((("leads", "jo"),))}, {}, Allow()),
        ({"approvers": Approvers(not_requester=True)}, {}, Allow()),
        ({"approvers": Approvers(not_requester=True)}, {"by": "ana"}, Deny("no")),
        ({"approvers": Approvers(count=2)}, {}, Deny("no")),
        ({"expires_at": 1_400.0}, {}, Deny("no")),
        ({}, {"seen": "digest"}, Allow()),
    ],
)
async def test_who_may_answer_can(
    journal: RunStore, asked: dict[str, Any], options: dict[str, Any], what: Any
) -> None:
    pending = make_pending("r", **asked)
    park(journal, "r", pending)
    options = {"by": "jo", **options}
    options |= {"seen": request_digest(pending)} if "seen" in options else {}

    assert (await answer(journal, what=what, **options)).status == "used"


async def test_two_different_people_must_give_the_same_approval(journal: RunStore) -> None:
    asked = make_pending("r", approvers=Approvers(count=2))
    park(journal, "r", asked)

    first = await answer(journal, "jo", via="console")
    again = await answer(journal, "jo")
    same = [(await answer(journal, name)).status for name in ("Jo", "proxy|jo")]
    other = await answer(journal, "ana", Edit({"order": "B2"}))
    middle = read(journal).request(asked.id)
    last = await answer(journal, "kim")

    assert [(one.status, one.missing) for one in (first, again, other, last)] == [
        ("counted", 1),
        ("counted", 1),
        ("counted", 1),
        ("used", 0),
    ]
    assert same == ["counted", "counted"]
    assert first.text == "Your approval counts. 1 more person must approve it."
    assert middle is not None
    assert [vote for vote in middle.votes if vote.by in ("ana", "jo")] == [
        Vote("ana", NOW, "edit"),
        Vote("jo", NOW, "allow"),
    ]
    assert middle.answer is None
    kinds = [entry.kind for entry in journal.read("r")]
    assert (kinds.count("vote"), kinds.count("answer")) == (5, 1)


async def test_a_run_that_a_process_works_on_takes_no_answer(journal: RunStore) -> None:
    park(journal, "r")

    with journal.hold("r"):
        busy = await answer(open_runs(journal.path, clock=lambda: NOW), "jo")

    assert (busy.status, busy.text) == (
        "busy",
        "Another process is working on this run. Your answer was not used.",
    )
    assert (await answer(journal, "jo")).used


async def test_of_many_who_answer_at_once_one_is_used(journal: RunStore) -> None:
    outcomes: list[AnswerOutcome] = []
    park(journal, "r")

    async def give(by: str) -> None:
        own = open_runs(journal.path, clock=lambda: NOW)
        while (outcome := await answer(own, by)).status == "busy":  # noqa: ASYNC110
            await anyio.sleep(0.01)
        outcomes.append(outcome)

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(give, f"p{number}")

    [winner] = [outcome for outcome in outcomes if outcome.used]
    assert winner.answer is not None
    lost = f"Already answered. {winner.answer.by} approved it 0 seconds before you."
    texts = {outcome.text for outcome in outcomes if not outcome.used}
    assert texts == {f"{lost} Your answer was not used."}


@pytest.mark.parametrize(
    ("later", "when"),
    [(90.0, "1 minute 30 seconds"), (7_200.0, "2 hours")],
    ids=["minutes", "hours"],
)
async def test_a_late_answer_says_how_late_it_is(
    journal: RunStore, later: float, when: str
) -> None:
    park(journal, "r", make_pending("r", expires_at=1e6))
    await answer(journal, "jo", Deny("no"))

    second = await answer(open_runs(journal.path, clock=lambda: NOW + later), "ana")

    text = f"Already answered. jo denied it {when} before you. Your answer was not used."
    assert second.text == text


@pytest.mark.parametrize(
    ("line", "word", "done"),
    [
        ({"answer": "allow", "by": "jo"}, "allow", "jo approved"),
        ({"answer": "deny", "reason": "no"}, "deny", "Someone denied"),
        ({"answer": "edit", "args": {}}, "edit", "Someone changed and approved"),
        ({"answer": "result", "text": "x"}, "result", "Someone answered"),
    ],
)
async def test_answers_of_an_older_version_count_too(
    journal: RunStore, line: dict[str, Any], word: str, done: str
) -> None:
    park(journal, "r")
    journal.append("r", [JournalLine.of("answer", pending="r~1~c1~0", **line)])

    receipt = read(journal).receipt("r~1~c1~0")

    assert receipt is not None
    assert (receipt.answer, receipt.by, receipt.at) == (word, line.get("by", ""), 0.0)
    assert (await answer(journal, "ana")).text == (
        f"Already answered. {done} it. Your answer was not used."
    )


async def test_a_run_that_is_removed_meanwhile_takes_no_answer(
    journal: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove_and_hold(database: Any, run: str) -> AbstractContextManager[None]:
        journal.remove(run)
        return claims.hold_run(database, run)

    park(journal, "r")
    monkeypatch.setattr("handrail.runs._store.answering.hold_run", remove_and_hold)

    outcome = await answer(journal, "jo")

    assert outcome.text == "There is no such request. Your answer was not used."
    assert outcome.pending == "r~1~c1~0"


async def test_an_answer_for_which_another_one_was_faster_is_refused(
    journal: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker denies a request that expires, and adds no line for that."""
    park(journal, "r")
    write = answering._write  # noqa: SLF001

    def deny_first(*given: Any, **options: Any) -> bool:
        denied = dump_answer(Deny("Not run."), NOW - 1)
        with closing(sqlite3.connect(journal.path)) as connection:
            connection.execute("UPDATE handrail_question SET answer = ?", [denied])
            connection.commit()
        return write(*given, **options)

    monkeypatch.setattr(answering, "_write", deny_first)
    outcome = await answer(journal, "jo")

    assert outcome.status == "answered"
    assert outcome.text == (
        "Already answered. Someone denied it 1 second before you. Your answer was not used."
    )
