"""More attacks: each is held and lost by the control, or is in one of two lists that get shorter."""

from __future__ import annotations

import pytest

from vectors.more import CHECKS, OPEN, UNTRIED, holds, vectors


@pytest.mark.parametrize("name", [name for name in CHECKS if name not in OPEN])
def test_a_vector_is_held_and_its_control_is_lost(name: str) -> None:
    assert (holds(name), holds(name, judged=False)) == (True, False)


@pytest.mark.parametrize("name", sorted(OPEN))
def test_a_vector_in_the_list_of_open_ones_is_not_held_yet(name: str) -> None:
    assert not holds(name), "it is held now: remove it from the list"


def test_the_lists_name_vectors_that_there_are_and_none_twice() -> None:
    assert CHECKS.keys() >= OPEN
    assert UNTRIED.isdisjoint(CHECKS)
    assert CHECKS.keys() | UNTRIED <= vectors().keys()


def test_there_are_81_of_them() -> None:
    assert len(vectors()) == 81
