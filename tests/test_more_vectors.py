"""More attacks: each is held and lost by the control, or is in a list that gets shorter."""

from __future__ import annotations

import pytest

from vectors.more import CHECKS, UNTRIED, holds, vectors


@pytest.mark.parametrize("name", list(CHECKS))
def test_a_vector_is_held_and_its_control_is_lost(name: str) -> None:
    assert (holds(name), holds(name, judged=False)) == (True, False)


def test_the_lists_name_vectors_that_there_are_and_none_twice() -> None:
    assert UNTRIED.isdisjoint(CHECKS)
    assert CHECKS.keys() | UNTRIED <= vectors().keys()


def test_there_are_81_of_them() -> None:
    assert len(vectors()) == 81
