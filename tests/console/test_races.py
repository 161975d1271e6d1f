"""Answers at the same time: each is used at most once, and who loses is told so first."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from console.visits import ASKED, BEHIND_A_PROXY, Visitor, make_pending, park, read_page, visit
from handrail.console import Console
from handrail.console._request import to_path
from handrail.console._store import Store
from handrail.permissions import Approvers, Pending
from handrail.runs import RunStore, open_runs

ROUNDS = {"soak": 200}.get(os.environ.get("HANDRAIL_PROFILE", ""), 4)
"""Of each of five races: 1,000 in all, or 20."""
pytestmark = pytest.mark.timeout(3_600)
NOT_USED = "Your answer was not used."


class People(NamedTuple):
    """Two people with a browser each, and the journal behind their console."""

    ana: Visitor
    ben: Visitor
    journal: RunStore


@pytest.fixture
def people(tmp_path: Path) -> People:
    file = tmp_path / "journal.db"
    journal = open_runs(file)
    park(journal, make_pending("first"))  # so that the file is there
    # the pages never call a request expired: only the claim does
    console = Console(BEHIND_A_PROXY, Store(str(file)), clock=lambda: ASKED + 1)
    ana, ben = (visit(file, name=name, console=console) for name in ("ana", "ben"))
    return People(ana, ben, journal)


def at_once(*several: Callable[[], Any]) -> list[Any]:
    """Call functions in threads that wait for one another first."""
    barrier = threading.Barrier(len(several))

    def run(one: Callable[[], Any]) -> Any:
        barrier.wait(60)
        return one()

    with ThreadPoolExecutor(len(several)) as pool:
        return list(pool.map(run, several))


def send(person: Visitor, path: str, form: dict[str, str], answer: str) -> Callable[[], Any]:
    return lambda: person.post(path, {**form, "answer": answer})


def ask(people: People, number: int, **fields: Any) -> tuple[Pending, str]:
    pending = make_pending(f"r{number}", **fields)
    park(people.journal, pending)
    return pending, f"/inbox/{to_path(pending.id)}"


def two_people(people: People, path: str) -> list[Callable[[], Any]]:
    forms = [one.form(path) for one in (people.ana, people.ben)]
    return [send(people.ana, path, forms[0], "approve"), send(people.ben, path, forms[1], "deny")]


def two_tabs(people: People, path: str) -> list[Callable[[], Any]]:
    forms = [people.ana.form(path) for _ in range(2)]
    return [send(people.ana, path, form, "approve") for form in forms]


def a_double_tap(people: People, path: str) -> list[Callable[[], Any]]:
    form = people.ana.form(path)
    return [send(people.ana, path, form, "approve") for _ in range(2)]


@pytest.mark.parametrize("kind", [two_people, two_tabs, a_double_tap])
def test_of_two_answers_one_is_used(
    people: People, kind: Callable[[People, str], list[Callable[[], Any]]]
) -> None:
    for number in range(ROUNDS):
        pending, path = ask(people, number)
        sends = kind(people, path)
        found = at_once(*sends)
        replayed = sends[0]()
        lost = [one for one in found if one.status_code == 409] + [replayed]

        assert sorted(one.status_code for one in found) == [303, 409]
        for one in lost:
            assert NOT_USED in said_first(one)
        assert "Already answered." in said_first(replayed)
        assert count_answers(people, pending) == 1


def test_an_answer_at_the_end_of_its_time_is_used_or_late(people: People) -> None:
    choice = random.Random(7)  # noqa: S311  moments, no secrets
    for number in range(ROUNDS):
        soon = time.time() + choice.uniform(0.0, 0.03)
        pending, path = ask(people, number, expires_at=soon)
        found = at_once(*two_people(people, path))
        lost = [one for one in found if one.status_code == 409]

        assert len(found) - len(lost) == count_answers(people, pending) <= 1
        for one in lost:
            assert NOT_USED in said_first(one)


def test_a_call_that_changes_is_never_approved_by_the_form_of_the_earlier_one(
    people: People,
) -> None:
    for number in range(ROUNDS):
        pending, path = ask(people, number)
        other = make_pending(f"r{number}", args={"order": "1", "amount": 9}, fingerprint="e" * 64)
        form = people.ana.form(path)
        found, _ = at_once(
            send(people.ana, path, form, "approve"), lambda new=other: park(people.journal, new)
        )
        now = open_runs(people.journal.path).records().request(pending.id)
        assert now is not None
        if found.status_code == 303:  # it was there first; what came later does not change it
            assert now.answer is not None
            assert now.pending == pending
        else:
            assert NOT_USED in said_first(found)
            assert now.answer is None
        late = send(people.ana, path, form, "approve")()
        assert (late.status_code, NOT_USED in said_first(late)) == (409, True)


def test_a_vote_for_an_earlier_version_of_a_call_does_not_count(people: People) -> None:
    both: dict[str, Any] = {"approvers": Approvers(count=2)}
    pending, path = ask(people, 1, **both)
    first = people.ana.answer(path)
    before = read_page(people.ben.get(path).text).text
    park(people.journal, make_pending("r1", args={"amount": 9}, fingerprint="e" * 64, **both))
    [row] = [
        one for one in open_runs(people.journal.path).records().inbox().rows if one.run == "r1"
    ]
    after = read_page(people.ben.get(path).text).text
    second = people.ben.answer(path)
    waits = count_answers(people, pending)
    third = people.ana.answer(path)

    assert [one.status_code for one in (first, second, third)] == [303, 303, 303]
    assert "So far: proxy|ana approved." in before
    assert ("So far: none." in after, row.votes, waits) == (True, 0, 0)
    assert count_answers(people, pending) == 1


def said_first(found: Any) -> str:
    """The text of the notice, which comes before the buttons and before all facts."""
    page = found.text
    start = page.index('role="status"', page.index("<article"))
    assert '<form class="answer"' not in page[:start]
    assert '<dl class="facts"' not in page[:start]
    return read_page(page[page.rindex("<", 0, start) : page.index("</div>", start)]).text


def count_answers(people: People, pending: Pending) -> int:
    kinds = [entry.kind for entry in people.journal.read(pending.run_id)]
    return kinds.count("answer")
