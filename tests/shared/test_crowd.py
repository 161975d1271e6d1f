"""Many processes that spend one budget, and die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from handrail.runs import open_runs
from handrail.runs.records import BudgetUse
from shared.spenders import MOST_TOKENS

PROGRAM = Path(__file__).parent / "spenders.py"
PROCESSES = 4


class Spent(NamedTuple):
    """What a crowd did."""

    charged: Counter[str]
    """Tokens by person, as the model counts them."""
    stops: Counter[str]
    killed: int
    uses: dict[str, BudgetUse]


def crowd(database: str, folder: Path, **options: Any) -> Spent:
    log = folder / "log"
    given = {
        "url": database,
        "log": str(log),
        "processes": PROCESSES,
        "people": 4,
        "requests": 60,
        "limit": 0.5,  # dollars: 500 tokens
        "estimate": MOST_TOKENS,
        "wait": 30.0,
        "deaths": 0,
        "die_after": 3,
        **options,
    }
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment = {name: value for name, value in environment.items() if "COVERAGE" not in name}
    ran = subprocess.run(  # noqa: S603  our own script
        [sys.executable, PROGRAM, json.dumps(given)],
        stdout=subprocess.PIPE,
        check=True,
        env=environment,
    )
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    charged: Counter[str] = Counter()
    for line in lines:
        charged[line.get("person", "")] += line.get("tokens", 0)
    del charged[""]
    stops = Counter(line["stop"] for line in lines if "stop" in line)
    with open_runs(database) as store:
        uses = {use.holder: use for use in store.budgets()}
    return Spent(charged, stops, json.loads(ran.stdout)["killed"], uses)


def overshoot(spent: Spent, limit: int) -> int:
    """By how many tokens the most excessive person is over the limit."""
    return max(spent.charged.values()) - limit


def check_honest(spent: Spent, limit: int) -> None:
    """Nobody has more than one request too many for each process, and nothing is forgotten."""
    assert overshoot(spent, limit) <= MOST_TOKENS * PROCESSES
    for person, use in spent.uses.items():
        assert (use.spent + use.reserved) * 1000 >= spent.charged[person]


def test_a_crowd_of_processes_spends_a_budget_to_its_end(database: str, tmp_path: Path) -> None:
    spent = crowd(database, tmp_path)

    check_honest(spent, 500)
    assert overshoot(spent, 500) <= MOST_TOKENS
    assert min(spent.charged.values()) >= 400
    assert set(spent.stops) == {"answer", "budget"}
    assert {use.holder: use.spent * 1000 for use in spent.uses.values()} == spent.charged
    assert {use.reserved for use in spent.uses.values()} == {0}


def test_what_dead_processes_have_spent_counts(database: str, tmp_path: Path) -> None:
    spent = crowd(database, tmp_path, deaths=1, wait=0.2)

    check_honest(spent, 500)
    assert spent.killed >= PROCESSES - 1
    assert spent.stops.total() == 60
    assert sum(use.reserved for use in spent.uses.values()) > 0


def test_the_check_notices_a_budget_that_reserves_nothing(sqlite: str, tmp_path: Path) -> None:
    spent = crowd(sqlite, tmp_path, estimate=0, limit=0.1, people=1)

    assert overshoot(spent, 100) > MOST_TOKENS * PROCESSES
    with pytest.raises(AssertionError):
        check_honest(spent, 100)


@pytest.mark.soak
@pytest.mark.timeout(1_400)
def test_a_thousand_requests_of_twenty_people(database: str, tmp_path: Path) -> None:
    spent = crowd(
        database, tmp_path, people=20, requests=1000, limit=1.5, deaths=1, die_after=40, wait=10.0
    )

    check_honest(spent, 1500)
    assert spent.killed >= PROCESSES
    sys.stderr.write(
        f"overshoot {overshoot(spent, 1500)} tokens, {spent.killed} kills, {spent.stops}\n"
    )
