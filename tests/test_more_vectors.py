"""More attacks: each is held, and lost by its control."""

from __future__ import annotations

import os

import pytest

from vectors.more import CHECKS, holds, vectors

EVERY = 1 if os.environ.get("HANDRAIL_PROFILE") == "soak" else 6
"""A short run tries one vector in six on its control."""
TRIED = {*list(vectors())[::EVERY]}


# the alarm that ends a control may go off inside a callback of the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", list(vectors()))
def test_a_vector_is_held_and_its_control_is_lost(name: str) -> None:
    vector = vectors()[name]

    assert holds(vector)
    assert name not in TRIED or not holds(vector, judged=False)


def test_there_are_161_of_them_and_each_is_tried() -> None:
    assert len(vectors()) == 161
    assert CHECKS.keys() == vectors().keys()
