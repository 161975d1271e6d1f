"""What is mended because it has one reading only, what never is, and what a model is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired
from uuid import UUID

import pytest
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from handrail import Args, Failure, FailureKind, Tool, tool


class Item(BaseModel):
    sku: str
    count: int = 1


class Order(BaseModel):
    id: int
    items: list[Item]
    rush: bool = False


@dataclass
class Line:
    sku: str
    tags: list[str] = field(default_factory=list)


class Change(TypedDict):
    path: str
    lines: NotRequired[int]


class Color(Enum):
    RED = "red"
    BLUE = "blue"


def refusal(*lines: str) -> Failure:
    """What a model reads."""
    told = "\n".join(f"- {line}" for line in lines)
    return Failure(
        FailureKind.BAD_ARGS,
        f"Not run: invalid arguments.\n{told}\nFix these and call again.",
    )


# ---------------------------------------------------------------- what is mended


def integer(a: int) -> None: ...
def number(a: float) -> None: ...
def boolean(*, a: bool) -> None: ...
def maybe_integer(a: int | None = None) -> None: ...
def bounded(a: Annotated[int, Field(ge=1, le=10)]) -> None: ...
def integers(a: list[int]) -> None: ...
def words(a: list[str]) -> None: ...
def maybe_words(a: list[str] | None = None) -> None: ...
def unique(a: set[int]) -> None: ...
def pair(a: tuple[int, str]) -> None: ...
def row(a: tuple[float, ...]) -> None: ...
def days(a: list[date]) -> None: ...
def mapping(a: dict[str, int]) -> None: ...
def anything_in_a_mapping(a: dict[str, Any]) -> None: ...
def item(a: Item) -> None: ...
def items(a: list[Item]) -> None: ...
def line(a: Line) -> None: ...
def change(a: Change) -> None: ...
def order(a: Order) -> None: ...
def optional(a: int, b: int = 2, c: list[int] | None = None) -> None: ...


AS_OBJECT = "the string was read as a JSON object"
AS_LIST = "the string was read as a JSON list"
AS_NUMBER = "the string was read as a number"
AS_BOOLEAN = "the string was read as a boolean"
WHOLE = "the whole number was read as an integer"
SINGLE = "the single value was read as a list of one item"
LEFT_OUT = "null was read as omitted"

MENDED: list[tuple[Any, Any, dict[str, Any], str, list[str]]] = [
    (integer, {"a": "3"}, {"a": 3}, '{"a":3}', [f"a: {AS_NUMBER}"]),
    (integer, {"a": "-12"}, {"a": -12}, '{"a":-12}', [f"a: {AS_NUMBER}"]),
    (integer, {"a": "0"}, {"a": 0}, '{"a":0}', [f"a: {AS_NUMBER}"]),
    (integer, {"a": "9" * 30}, {"a": 10**30 - 1}, f'{{"a":{"9" * 30}}}', [f"a: {AS_NUMBER}"]),
    (integer, {"a": 3.0}, {"a": 3}, '{"a":3}', [f"a: {WHOLE}"]),
    (integer, '{"a": 1e2}', {"a": 100}, '{"a":100}', [f"a: {WHOLE}"]),
    (integer, {"a": -(2.0**53)}, {"a": -(2**53)}, '{"a":-9007199254740992}', [f"a: {WHOLE}"]),
    (bounded, {"a": "10"}, {"a": 10}, '{"a":10}', [f"a: {AS_NUMBER}"]),
    (maybe_integer, {"a": "3"}, {"a": 3}, '{"a":3}', [f"a: {AS_NUMBER}"]),
    (number, {"a": "2.5"}, {"a": 2.5}, '{"a":2.5}', [f"a: {AS_NUMBER}"]),
    (number, {"a": "2"}, {"a": 2.0}, '{"a":2}', [f"a: {AS_NUMBER}"]),
    (number, {"a": "-1e3"}, {"a": -1000.0}, '{"a":-1000.0}', [f"a: {AS_NUMBER}"]),
    (boolean, {"a": "true"}, {"a": True}, '{"a":true}', [f"a: {AS_BOOLEAN}"]),
    (boolean, {"a": "false"}, {"a": False}, '{"a":false}', [f"a: {AS_BOOLEAN}"]),
    (integers, {"a": "[1, 2]"}, {"a": [1, 2]}, '{"a":[1,2]}', [f"a: {AS_LIST}"]),
    (integers, {"a": 1}, {"a": [1]}, '{"a":[1]}', [f"a: {SINGLE}"]),
    (integers, {"a": "1"}, {"a": [1]}, '{"a":[1]}', [f"a: {SINGLE}"]),
    (
        integers,
        {"a": [1, "2", 3.0]},
        {"a": [1, 2, 3]},
        '{"a":[1,2,3]}',
        [f"a[1]: {AS_NUMBER}", f"a[2]: {WHOLE}"],
    ),
    (
        integers,
        {"a": '["1", 2]'},
        {"a": [1, 2]},
        '{"a":[1,2]}',
        [f"a: {AS_LIST}", f"a[0]: {AS_NUMBER}"],
    ),
    (words, {"a": "x"}, {"a": ["x"]}, '{"a":["x"]}', [f"a: {SINGLE}"]),
    (words, {"a": '["x: y"]'}, {"a": ["x: y"]}, '{"a":["x: y"]}', [f"a: {AS_LIST}"]),
    (words, {"a": "[]"}, {"a": []}, '{"a":[]}', [f"a: {AS_LIST}"]),
    (maybe_words, {"a": "x"}, {"a": ["x"]}, '{"a":["x"]}', [f"a: {SINGLE}"]),
    (unique, {"a": "[1, 2]"}, {"a": {1, 2}}, '{"a":[1,2]}', [f"a: {AS_LIST}"]),
    (pair, {"a": '[1, "x"]'}, {"a": (1, "x")}, '{"a":[1,"x"]}', [f"a: {AS_LIST}"]),
    (row, {"a": 2}, {"a": (2.0,)}, '{"a":[2]}', [f"a: {SINGLE}"]),
    (
        days,
        {"a": "2026-01-31"},
        {"a": [date(2026, 1, 31)]},
        '{"a":["2026-01-31"]}',
        [f"a: {SINGLE}"],
    ),
    (mapping, {"a": '{"x": 1}'}, {"a": {"x": 1}}, '{"a":{"x":1}}', [f"a: {AS_OBJECT}"]),
    (mapping, {"a": {"x": "1"}}, {"a": {"x": 1}}, '{"a":{"x":1}}', [f"a.x: {AS_NUMBER}"]),
    (
        anything_in_a_mapping,
        {"a": '{"x": "1", "y": null}'},
        {"a": {"x": "1", "y": None}},
        '{"a":{"x":"1","y":null}}',
        [f"a: {AS_OBJECT}"],
    ),
    (
        item,
        {"a": '{"sku": "x", "count": 2}'},
        {"a": Item(sku="x", count=2)},
        '{"a":{"count":2,"sku":"x"}}',
        [f"a: {AS_OBJECT}"],
    ),
    (
        items,
        {"a": {"sku": "x"}},
        {"a": [Item(sku="x")]},
        '{"a":[{"sku":"x"}]}',
        [f"a: {SINGLE}"],
    ),
    (
        items,
        {"a": ['{"sku": "x"}', {"sku": "y"}]},
        {"a": [Item(sku="x"), Item(sku="y")]},
        '{"a":[{"sku":"x"},{"sku":"y"}]}',
        [f"a[0]: {AS_OBJECT}"],
    ),
    (
        line,
        {"a": '{"sku": "x", "tags": "new"}'},
        {"a": Line("x", ["new"])},
        '{"a":{"sku":"x","tags":["new"]}}',
        [f"a: {AS_OBJECT}", f"a.tags: {SINGLE}"],
    ),
    (
        change,
        {"a": {"path": "x", "lines": None}},
        {"a": {"path": "x"}},
        '{"a":{"path":"x"}}',
        [f"a.lines: {LEFT_OUT}"],
    ),
    (
        order,
        {"a": '{"id": "7", "items": "[{\\"sku\\": \\"x\\", \\"count\\": \\"2\\"}]"}'},
        {"a": Order(id=7, items=[Item(sku="x", count=2)])},
        '{"a":{"id":7,"items":[{"count":2,"sku":"x"}]}}',
        [
            f"a: {AS_OBJECT}",
            f"a.id: {AS_NUMBER}",
            f"a.items: {AS_LIST}",
            f"a.items[0].count: {AS_NUMBER}",
        ],
    ),
    (
        order,
        {"a": {"id": 7, "items": {"sku": "x"}, "rush": "true"}},
        {"a": Order(id=7, items=[Item(sku="x")], rush=True)},
        '{"a":{"id":7,"items":[{"sku":"x"}],"rush":true}}',
        [f"a.items: {SINGLE}", f"a.rush: {AS_BOOLEAN}"],
    ),
    (optional, {"a": 1, "b": None}, {"a": 1}, '{"a":1}', [f"b: {LEFT_OUT}"]),
    (
        optional,
        '{"c": null, "b": null, "a": "1"}',
        {"a": 1, "c": None},
        '{"a":1,"c":null}',
        [f"a: {AS_NUMBER}", f"b: {LEFT_OUT}"],
    ),
    (
        optional,
        '"{\\"a\\": 1, \\"b\\": \\"5\\"}"',
        {"a": 1, "b": 5},
        '{"a":1,"b":5}',
        [f"the arguments: {AS_OBJECT}", f"b: {AS_NUMBER}"],
    ),
]


@pytest.mark.parametrize(
    ("fn", "sent", "values", "text", "repairs"),
    MENDED,
    ids=[f"{fn.__name__} {sent!r:.50}" for fn, sent, *_ in MENDED],
)
def test_what_has_one_reading_only_is_mended_and_told(
    fn: Any, sent: Any, *, values: dict[str, Any], text: str, repairs: list[str]
) -> None:
    taken = tool(fn).parse(sent)

    assert taken == Args(values, text, tuple(repairs))
    assert [type(one) for one in taken.values.values()] == [type(one) for one in values.values()]


@pytest.mark.parametrize(("fn", "text"), [(row[0], row[3]) for row in MENDED], ids=str)
def test_what_was_mended_needs_no_repair_again(fn: Any, text: str) -> None:
    again = tool(fn).parse(text)

    assert isinstance(again, Args)
    assert (again.text, again.repairs) == (text, ())


# ---------------------------------------------------------------- what is never mended


def required(a: list[int]) -> None: ...
def lists(a: list[list[int]]) -> None: ...
def either(*, a: int | bool) -> None: ...
def number_or_list(a: int | list[int]) -> None: ...
def chosen(a: Literal[1, 2]) -> None: ...
def text(a: str) -> None: ...
def at_least_two(a: Annotated[list[int], Field(min_length=2)]) -> None: ...


NEVER: list[tuple[Any, Any, str]] = [
    (integer, "3x", 'a: expected an integer, got the string "3x"'),
    (integer, "", 'a: expected an integer, got the string ""'),
    (integer, " 3", 'a: expected an integer, got the string " 3"'),
    (integer, "03", 'a: expected an integer, got the string "03"'),
    (integer, "+3", 'a: expected an integer, got the string "+3"'),
    (integer, "3.0", 'a: expected an integer, got the string "3.0"'),
    (integer, "٣", 'a: expected an integer, got the string "٣"'),
    (integer, "1_000", 'a: expected an integer, got the string "1_000"'),
    (integer, "three", 'a: expected an integer, got the string "three"'),
    (integer, True, "a: expected an integer, got true"),
    (integer, 2.5, "a: expected an integer, got 2.5"),
    (integer, 2.0**54, "a: expected an integer, got 1.8014398509481984e+16"),
    (integer, [3], "a: expected an integer, got a list of 1"),
    (integer, None, "a: expected an integer, got null"),
    (bounded, "11", 'a: expected an integer, got the string "11"'),
    (number, "2,5", 'a: expected a number, got the string "2,5"'),
    (number, "nan", 'a: expected a number, got the string "nan"'),
    (number, "1e999", 'a: expected a number, got the string "1e999"'),
    (number, False, "a: expected a number, got false"),
    (number, None, "a: expected a number, got null"),
    (boolean, "True", 'a: expected true or false, got the string "True"'),
    (boolean, "yes", 'a: expected true or false, got the string "yes"'),
    (boolean, 1, "a: expected true or false, got 1"),
    (boolean, 0, "a: expected true or false, got 0"),
    (boolean, "", 'a: expected true or false, got the string ""'),
    (text, 3, "a: expected a string, got 3"),
    (text, ["x"], "a: expected a string, got a list of 1"),
    (text, {"x": 1}, "a: expected a string, got an object with x"),
    (text, None, "a: expected a string, got null"),
    (required, None, "a: expected a list, got null"),
    (integers, [1, None], "a[1]: expected an integer, got null"),
    (integers, "1, 2", 'a: expected a list, got the string "1, 2"'),
    (integers, "[1, 2", 'a: expected a list, got the string "[1, 2"'),
    (integers, "", 'a: expected a list, got the string ""'),
    (integers, True, "a: expected a list, got true"),
    (integers, {}, "a: expected a list, got an object with no fields"),
    (words, "", 'a: expected a list, got the string ""'),
    (words, '["x"', 'a: expected a list, got the string "[\\"x\\""'),
    (words, 3, "a: expected a list, got 3"),
    (words, "[1]", "a[0]: expected a string, got 1"),
    (at_least_two, 1, "a: expected a list, got 1"),
    (lists, [1, 2], "a[0]: expected a list, got 1\n- a[1]: expected a list, got 2"),
    (pair, 1, "a: expected a list, got 1"),
    (mapping, {"x": None}, "a.x: expected an integer, got null"),
    (mapping, "x", 'a: expected an object, got the string "x"'),
    (mapping, "[]", 'a: expected an object, got the string "[]"'),
    (mapping, [["x", 1]], "a: expected an object, got a list of 1"),
    (item, '{"sku": "x"', 'a: expected an object, got the string "{\\"sku\\": \\"x\\""'),
    (item, '{"sku": "x", "sku": "y"}', None),
    (item, ["x", 1], "a: expected an object, got a list of 2"),
    (item, None, "a: expected an object, got null"),
    (either, "3", 'a: expected an integer or true or false, got the string "3"'),
    (either, "true", 'a: expected an integer or true or false, got the string "true"'),
    (number_or_list, "3", 'a: expected an integer or a list, got the string "3"'),
    (number_or_list, 3.0, "a: expected an integer or a list, got 3.0"),
    (chosen, "1", 'a: expected 1 or 2, got the string "1"'),
    (chosen, True, "a: expected a number, not a boolean, got true"),
]


@pytest.mark.parametrize(
    ("fn", "given", "line"), NEVER, ids=[f"{fn.__name__} {given!r:.40}" for fn, given, _ in NEVER]
)
def test_what_has_another_reading_or_none_is_refused(fn: Any, given: Any, line: str | None) -> None:
    told = line or f"a: expected an object, got the string {json.dumps(given)}"

    assert tool(fn).parse({"a": given}) == refusal(told)


@pytest.mark.parametrize("given", ['{"a": 1}', "[1, 2]", "3", "true", "null", ""])
def test_text_that_looks_like_json_stays_text(given: str) -> None:
    assert tool(text).parse({"a": given}) == Args(
        {"a": given}, json.dumps({"a": given}, separators=(",", ":"))
    )


def test_a_repair_that_does_not_help_is_not_made() -> None:
    assert tool(order).parse({"a": {"id": "7", "items": [{"count": 1}]}}) == refusal(
        "a.items[0].sku: required, missing"
    )


# ---------------------------------------------------------------- how much is tried


def test_a_repair_is_tried_a_bounded_number_of_times() -> None:
    checks: list[int] = []

    def counted(value: int) -> int:
        checks.append(value)
        return value

    def many(
        probe: Annotated[int, AfterValidator(counted)],
        groups: dict[str, list[int]],
        numbers: list[int],
    ) -> None: ...

    made = tool(many)
    for sent in (
        {"probe": 1, "groups": {f"k{n}": "x" for n in range(500)}, "numbers": []},
        {"probe": 1, "groups": {}, "numbers": ["7"] * 500},
        {"probe": 1, "groups": {f"k{n}": 1 for n in range(500)}, "numbers": ["7"] * 500},
    ):
        checks.clear()
        assert isinstance(made.parse(sent), Failure)
        assert len(checks) < 200


def test_a_few_dozen_repairs_are_made_and_no_more() -> None:
    few, many = ["7"] * 32, ["7"] * 33

    mended = tool(integers).parse({"a": few})

    assert mended == Args(
        {"a": [7] * 32},
        json.dumps({"a": [7] * 32}, separators=(",", ":")),
        tuple(f"a[{n}]: {AS_NUMBER}" for n in range(32)),
    )
    assert isinstance(tool(integers).parse({"a": many}), Failure)


# ---------------------------------------------------------------- what a model is told


def everything(  # noqa: PLR0913  one for each kind of complaint
    a: int,
    b: Annotated[int, Field(ge=1, le=10)] = 1,
    c: Annotated[float, Field(gt=0, lt=1)] = 0.5,
    *,
    d: Annotated[str, Field(min_length=2, max_length=4, pattern="^[a-z]+$")] = "ab",
    e: Annotated[list[int], Field(min_length=1, max_length=2)] = [1],  # noqa: B006  never changed
    f: Literal["fast", "slow"] = "fast",
    g: Color = Color.RED,
    h: Annotated[int, Field(multiple_of=5)] = 5,
    i: date | None = None,
    j: datetime | None = None,
    k: time | None = None,
    m: timedelta | None = None,
    n: UUID | None = None,
    o: Decimal | None = None,
    p: Path | None = None,
    q: Order | None = None,
    r: Line | None = None,
    s: Change | None = None,
    t: tuple[int, str] | None = None,
    u: int | str | None = None,
    v: bytes | None = None,
    w: dict[str, list[int]] | None = None,
) -> None: ...


EVERYTHING = tool(everything)

TOLD: list[tuple[dict[str, Any], list[str]]] = [
    ({"b": 1}, ["a: required, missing"]),
    (
        {"a": 1, "aa": 2},
        [
            "aa: unknown field; known fields: a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t, u, v, w"
        ],
    ),
    (
        {"b": 0, "z": 1},
        [
            "a: required, missing",
            "b: expected a number of at least 1, got 0",
            "z: unknown field; did you mean a?",
        ],
    ),
    ({"a": "x"}, ['a: expected an integer, got the string "x"']),
    ({"a": {"b": 1, "c": 2}}, ["a: expected an integer, got an object with b, c"]),
    ({"a": 1, "b": 11}, ["b: expected a number of at most 10, got 11"]),
    ({"a": 1, "c": 0}, ["c: expected a number above 0, got 0"]),
    ({"a": 1, "c": 1.5}, ["c: expected a number below 1, got 1.5"]),
    ({"a": 1, "d": "x"}, ['d: expected 2 or more characters, got the string "x"']),
    ({"a": 1, "d": "xxxxx"}, ['d: expected 4 or fewer characters, got the string "xxxxx"']),
    ({"a": 1, "d": "A1"}, ['d: expected text that matches ^[a-z]+$, got the string "A1"']),
    ({"a": 1, "e": []}, ["e: expected 1 or more items, got a list of 0"]),
    ({"a": 1, "e": [1, 2, 3]}, ["e: expected 2 or fewer items, got a list of 3"]),
    ({"a": 1, "f": "Fast"}, ["f: expected 'fast' or 'slow', got the string \"Fast\""]),
    ({"a": 1, "g": "green"}, ["g: expected 'red' or 'blue', got the string \"green\""]),
    ({"a": 1, "h": 3}, ["h: expected a multiple of 5, got 3"]),
    ({"a": 1, "i": "soon"}, ['i: expected a date such as 2026-01-31, got the string "soon"']),
    ({"a": 1, "i": 3}, ["i: expected a date such as 2026-01-31, got 3"]),
    (
        {"a": 1, "j": "2026-01-31"},
        ['j: expected a date and time such as 2026-01-31T10:30:00Z, got the string "2026-01-31"'],
    ),
    ({"a": 1, "k": "noon"}, ['k: expected a time such as 10:30:00, got the string "noon"']),
    ({"a": 1, "m": 90}, ["m: expected a duration such as PT1H30M, got 90"]),
    ({"a": 1, "n": "1"}, ['n: expected a UUID, got the string "1"']),
    ({"a": 1, "o": "x"}, ['o: expected a number, or a string with one, got the string "x"']),
    ({"a": 1, "p": 3}, ["p: expected a string, got 3"]),
    ({"a": 1, "v": 3}, ["v: expected a string, got 3"]),
    (
        {"a": 1, "q": {"id": 1, "items": [{"sku": "x"}, {"sku": 2, "size": 3}, {}]}},
        [
            "q.items[1].sku: expected a string, got 2",
            "q.items[1].size: unknown field; known fields: sku, count",
            "q.items[2].sku: required, missing",
        ],
    ),
    (
        {"a": 1, "r": {"tags": [1], "tag": "x"}},
        [
            "r.sku: required, missing",
            "r.tags[0]: expected a string, got 1",
            "r.tag: unknown field; known fields: sku, tags",
        ],
    ),
    ({"a": 1, "s": {"lines": 1}}, ["s.path: required, missing"]),
    ({"a": 1, "t": [1]}, ["t[1]: required, missing"]),
    ({"a": 1, "t": [1, "x", 2]}, ["t: expected 2 or fewer items, got a list of 3"]),
    ({"a": 1, "u": 1.5}, ["u: expected an integer or a string, got 1.5"]),
    ({"a": 1, "w": {"x": ["y"]}}, ['w.x[0]: expected an integer, got the string "y"']),
    (
        {"a": 1, "w": {"x" * 100: ["y"]}},
        [f'w.{"x" * 77}…: expected an integer, got the string "y"'],
    ),
    ({"a": "x" * 200}, [f'a: expected an integer, got the string "{"x" * 78}…']),
    ({"a": {"x" * 200: 1}}, [f"a: expected an integer, got an object with {'x' * 79}…"]),
    (
        {"a": [{"deep": [1, 2, 3]}] * 50},
        ["a: expected an integer, got a list of 50"],
    ),
]


@pytest.mark.parametrize(("sent", "lines"), TOLD, ids=[repr(sent)[:50] for sent, _ in TOLD])
def test_a_model_is_told_what_was_expected_and_what_came(
    sent: dict[str, Any], lines: list[str]
) -> None:
    assert EVERYTHING.parse(sent) == refusal(*lines)


def test_at_most_eight_problems_are_told_and_the_rest_counted() -> None:
    sent = {"a": [{"sku": n} for n in range(11)]}

    assert tool(items).parse(sent) == refusal(
        *(f"a[{n}].sku: expected a string, got {n}" for n in range(8)), "and 3 more"
    )


def test_a_long_list_of_choices_is_told_in_part() -> None:
    choices = tuple(f"choice-{n}" for n in range(40))

    def choose(a: Any) -> None: ...

    choose.__annotations__ = {"a": Literal[choices], "return": None}
    [_, told, _] = _message(tool(choose), {"a": "x"}).splitlines()

    assert told.startswith("- a: expected 'choice-0', 'choice-1', ")
    assert told.endswith('…, got the string "x"')
    assert len(told) < 200


TEXTS = [
    (
        '{"a": [1, 2',
        "the JSON ends too early, after 11 characters. If it was cut off, send it in smaller pieces.",
    ),
    (
        '{"a": "x',
        "the JSON ends too early, after 8 characters. If it was cut off, send it in smaller pieces.",
    ),
    (
        "",
        "the JSON ends too early, after 0 characters. If it was cut off, send it in smaller pieces.",
    ),
    (
        "  ",
        "the JSON ends too early, after 2 characters. If it was cut off, send it in smaller pieces.",
    ),
    ("[1, 2]", "the arguments: expected an object, got a list of 2"),
    ("null", "a: required, missing"),
    ("3", "the arguments: expected an object, got 3"),
    ('"x"', 'the arguments: expected an object, got the string "x"'),
    ('"[1]"', 'the arguments: expected an object, got the string "[1]"'),
    ("a: 1", 'invalid JSON at line 1, column 1, near "a: 1".'),
    ('{"a" 1}', 'invalid JSON at line 1, column 6, near "{\\"a\\" 1}".'),
    ('{"a": 1} {}', 'invalid JSON at line 1, column 10, near "{\\"a\\": 1} {}".'),
    (
        '{"a": 1,\n "b": x}',
        'invalid JSON at line 2, column 7, near " 1,\\n \\"b\\": x}".',
    ),
    ('{"a": NaN}', "NaN is not valid JSON."),
    ('{"a": -Infinity}', "-Infinity is not valid JSON."),
    ('{"a": 1e999}', "a: the number is too large."),
    ('{"a": 1, "a": 2}', 'the key "a" occurs twice in one object.'),
    ('{"a": "x\\u0000"}', "a: the text has a NUL character."),
    ('{"a": "\\ud83d"}', "a: the text has half of a surrogate pair."),
    (
        '{"a": ' + "[" * 70 + "]" * 70 + "}",
        "the arguments are nested more than 64 levels deep. Nest them less deeply.",
    ),
    (
        '{"a": "' + "x" * 1024 * 1024 + '"}',
        "the arguments are larger than 1,048,576 bytes. Send less at a time.",
    ),
]


@pytest.mark.parametrize(("sent", "line"), TEXTS, ids=[text[:20] for text, _ in TEXTS])
def test_a_model_is_told_why_its_text_cannot_be_read(sent: str, line: str) -> None:
    assert tool(integer).parse(sent) == refusal(line)


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


def tagged(a: Annotated[Cat | Dog, Field(discriminator="kind")]) -> None: ...
def untagged(a: Cat | Dog) -> None: ...


UNIONS: list[tuple[Any, Any, list[str]]] = [
    (tagged, {"kind": "cow"}, ["a.kind: expected 'cat' or 'dog', got the string \"cow\""]),
    (tagged, {"lives": 9}, ["a.kind: required, missing"]),
    (tagged, {"kind": "cat", "lives": "9"}, ['a.lives: expected an integer, got the string "9"']),
    (tagged, {"kind": "dog"}, ["a.name: required, missing"]),
    (tagged, 3, ["a: expected an object, got 3"]),
    (untagged, {"kind": "cat", "lives": "9"}, ['a.lives: expected an integer, got the string "9"']),
    (untagged, {"kind": "dog"}, ["a.name: required, missing"]),
    (untagged, 3, ["a: expected an object, got 3"]),
]


@pytest.mark.parametrize(
    ("fn", "given", "lines"), UNIONS, ids=[f"{fn.__name__} {given}" for fn, given, _ in UNIONS]
)
def test_a_model_is_told_of_the_branch_that_it_meant(fn: Any, given: Any, lines: list[str]) -> None:
    assert tool(fn).parse({"a": given}) == refusal(*lines)


def test_a_wrong_key_is_told_as_a_key() -> None:
    def paint(a: dict[Color, int]) -> None: ...

    assert tool(paint).parse({"a": {"green": 1}}) == refusal("a.green: this key is not allowed")


def test_the_author_of_a_type_has_the_word() -> None:
    def even(value: int) -> int:
        if value % 2:
            raise ValueError("expected an even number")
        return value

    def halve(a: Annotated[int, AfterValidator(even)]) -> None: ...

    assert tool(halve).parse({"a": 3}) == refusal("a: expected an even number, got 3")


def _message(made: Tool[..., Any], sent: Any) -> str:
    taken = made.parse(sent)
    assert isinstance(taken, Failure)
    return taken.message


# ---------------------------------------------------------------- the control


def lenient(fn: Any, given: Any) -> Iterator[Any]:
    """What a validator makes of it that takes whatever it can convert, as pydantic does unasked."""
    annotation = tool(fn).fn.__annotations__["a"]
    adapter = TypeAdapter(eval(annotation))  # noqa: S307  an annotation from this file
    try:
        yield adapter.validate_python(given)
    except ValueError:
        return


def test_a_lenient_validator_would_take_some_of_what_is_refused_above() -> None:
    taken = [(fn.__name__, given) for fn, given, _ in NEVER for _ in lenient(fn, given)]

    assert taken == [
        ("integer", " 3"),
        ("integer", "03"),
        ("integer", "+3"),
        ("integer", "3.0"),
        ("integer", "1_000"),
        ("integer", True),
        ("integer", 2.0**54),
        ("number", "nan"),
        ("number", "1e999"),
        ("number", False),
        ("boolean", "True"),
        ("boolean", "yes"),
        ("boolean", 1),
        ("boolean", 0),
        ("either", "3"),
        ("either", "true"),
        ("number_or_list", "3"),
        ("number_or_list", 3.0),
        ("chosen", True),
    ]
