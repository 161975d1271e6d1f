"""Items of a set cannot be chosen so that they take very long to compare."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import Field, TypeAdapter

from definition.test_argument_cost import MAX_RATIO, remote, sent, slowness, taking, told
from handrail import Args
from handrail._schema.cost import _FieldStates

P = 2**61 - 1
"""The numbers that differ by a multiple of it have the same hash."""
MANY = 5_000
REFUSED = "- a: the items take too long to compare; send at most 500"


class Point(NamedTuple):
    """A place."""

    x: int
    y: int


@dataclass(frozen=True)
class Pair:
    """Two numbers."""

    x: int


NUMBERS = [at * P for at in range(MANY)]
COLLIDING: list[tuple[Any, list[Any]]] = [
    (set[int], NUMBERS),
    (frozenset[int], NUMBERS),
    (set[int | str], NUMBERS),
    (set[int | None], NUMBERS),
    (Annotated[set[int], Field(min_length=1, max_length=MANY)], NUMBERS),
    (set[tuple[int, ...]], [[at] for at in NUMBERS]),
    (frozenset[tuple[int, str]], [[at, "x"] for at in NUMBERS]),
    (set[Point], [[at, 1] for at in NUMBERS]),
    (set[Pair], [{"x": at} for at in NUMBERS]),
    (set[Decimal], [str(at) for at in NUMBERS]),
    (set[UUID], [str(UUID(int=at)) for at in NUMBERS]),
]


@pytest.mark.parametrize(("annotation", "items"), COLLIDING, ids=lambda of: str(of)[:40])
def test_items_with_the_same_hash_are_refused_at_once(annotation: Any, items: list[Any]) -> None:
    take, text = taking(annotation), sent(items)

    assert told(take.parse(text)) == [REFUSED]
    assert slowness(lambda: take.parse(text), text) <= MAX_RATIO


@pytest.mark.parametrize(
    ("annotation", "items"),
    [
        (set[int], list(range(-MANY, MANY))),
        (set[int], [1, 2] * MANY),
        (set[int], [at << 40 for at in range(MANY)]),
        (set[float], [float(at * 2**61) for at in range(MANY)]),
        (set[tuple[int, int]], [[at % 90, at] for at in range(MANY)]),
        (set[str], [str(at) for at in range(MANY)]),
        (set[int], NUMBERS[:500]),
    ],
    ids=lambda of: str(of)[:40],
)
def test_usual_items_are_read_at_once(annotation: Any, items: list[Any]) -> None:
    take, text = taking(annotation), sent(items)
    parsed = take.parse(text)

    assert isinstance(parsed, Args)
    assert len(parsed.values["a"]) == len(
        {tuple(of) if isinstance(of, list) else of for of in items}
    )
    assert slowness(lambda: take.parse(text), text) <= MAX_RATIO


def test_making_a_set_of_them_would_be_noticed() -> None:
    text, adapter = json.dumps(NUMBERS), TypeAdapter(set[int])

    assert slowness(lambda: adapter.validate_json(text), text, rounds=1) > MAX_RATIO


def test_the_length_of_a_set_is_that_of_the_set() -> None:
    take = taking(Annotated[set[int], Field(min_length=2, max_length=3)])

    assert told(take.parse(sent([1, 1]))) == ["- a: expected 2 or more items, got a list of 2"]
    assert isinstance(take.parse(sent([1, 2, 1, 2])), Args)


def branches(count: int) -> dict[str, Any]:
    """A remote schema with a choice of many objects, which differ by the field that they need."""
    choices = [
        {"type": "object", "properties": {f"k{n}": {"type": "integer"}}, "required": [f"k{n}"]}
        for n in range(count)
    ]
    items = {"type": "array", "items": {"anyOf": choices}}
    return {"type": "object", "properties": {"a": items}}


@pytest.mark.parametrize("count", [20, 200, 500])
def test_many_choices_of_objects_are_counted_at_once(count: int) -> None:
    far, text = remote(branches(count)), sent([{f"k{count - 1}": 1}] * 20_000)
    far.parse(text)  # a validator is built once

    assert slowness(lambda: far.parse(text), text) <= MAX_RATIO


def test_asking_each_choice_what_it_misses_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def count_missing(self: Any, node: dict[str, Any]) -> int:
        return sum(len({name} - node.keys()) for name in self._required)

    monkeypatch.setattr(_FieldStates, "count_missing", count_missing)
    far, text = remote(branches(200)), sent([{"k199": 1}] * 3_000)
    far.parse(text)

    assert slowness(lambda: far.parse(text), text, rounds=1) > MAX_RATIO
