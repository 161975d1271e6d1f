"""The tables of the documentation have the stored results of the kit, and these what the tests expect."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from adapters import run
from conformance import PROVOCATIONS

RESULTS = run.read_results()
HERE = Path(__file__).parent


@pytest.mark.parametrize("page", [run.FIRST_PAGE, run.PAGE], ids=["first page", "frameworks"])
def test_a_page_has_the_stored_results(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == run.render(page, RESULTS)
    assert page.read_text(encoding="utf-8") != run.render(page, {"none": RESULTS["autogen"]})


def test_every_host_has_a_result_for_every_provocation() -> None:
    names = [one.name for one in PROVOCATIONS]

    assert {host: list(observed) for host, observed in RESULTS.items()} == dict.fromkeys(
        run.HOSTS, names
    )


def read_expected(host: str) -> dict[str, dict[str, str]]:
    """Return what the tests of a host expect, without its framework."""
    tree = ast.parse((HERE / f"on_{host}.py").read_text(encoding="utf-8"))
    found: dict[str, dict[str, str]] = {"UNSURE": {}}
    for node in tree.body:
        target: Any = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.AnnAssign):
            target = node.target
        if isinstance(target, ast.Name) and target.id in {"BARE", "HOST_DECIDES", "UNSURE"}:
            found[target.id] = ast.literal_eval(node.value)  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("host", run.HOSTS)
def test_the_stored_results_are_those_that_the_tests_of_the_host_expect(host: str) -> None:
    expected, observed = read_expected(host), RESULTS[host]
    bare = {name: words[0] for name, words in observed.items() if words[0] != "ok"}
    railed = {name: words[1] for name, words in observed.items() if words[1] != "ok"}
    unsure = expected["UNSURE"]

    assert railed == expected["HOST_DECIDES"]
    assert {name: word for name, word in bare.items() if name not in unsure} == expected["BARE"]
    assert all(bare.get(name, word) == word for name, word in unsure.items())


def test_with_handrail_nothing_is_worse_than_alone() -> None:
    """What handrail leaves as it is must be what the framework decides alone."""
    worse = [
        (host, name, words)
        for host, observed in RESULTS.items()
        for name, words in observed.items()
        if words[1] not in {"ok", words[0]}
    ]

    assert worse == []


def test_words_are_counted_with_the_good_one_first() -> None:
    assert run.count(["n/a", "leaks", "ok", "dies", "dies"]) == "1 ok, 2 dies, 1 leaks, 1 n/a"
