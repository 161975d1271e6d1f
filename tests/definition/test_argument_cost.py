"""Arguments cannot freeze the event loop: how long a task on the same loop waits while they are read.

The pause is compared with ``json.loads`` of the same text, in one interleaved run, in CPU time.
Below a hundred kilobytes what counts is that nothing explodes: there the measure is ``json.loads``
of a text of that size. Each way to freeze has a control: what reads arguments in that way is
caught by the same measure.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union
from uuid import UUID

import anyio
import anyio.lowlevel
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError, SchemaValidator
from typing_extensions import TypeAliasType, TypedDict

from handrail import (
    READ,
    Access,
    Args,
    Call,
    CheckedCall,
    Executor,
    Failure,
    Spec,
    Tool,
    Toolset,
    tool,
)
from handrail.policy import Rulebook, builtin_rules
from handrail.tools import Workspace, edit, read

MAX_RATIO = 40
MEGABYTE = 1_000_000
FLOOR = json.dumps(["x"] * 25_000, separators=(",", ":"))


def longest_pause(work: Callable[[], object]) -> float:
    """How long a task that ticks on the same loop waits, at most, while the work is done."""
    longest = 0.0

    async def ticking(scope: anyio.CancelScope) -> None:
        nonlocal longest
        with scope:
            last = time.process_time()
            while True:
                await anyio.lowlevel.checkpoint()
                now = time.process_time()
                longest, last = max(longest, now - last), now

    async def main() -> None:
        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()
            group.start_soon(ticking, scope)
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            work()
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            scope.cancel()

    anyio.run(main)
    return longest


def reading(texts: tuple[str, ...]) -> float:
    began = time.process_time()
    for text in texts:
        json.loads(text)
    return time.process_time() - began


def slowness(work: Callable[[], object], *texts: str, rounds: int = 6) -> float:
    """The pause as a multiple of reading the texts as JSON; the least of a few rounds.

    Without the garbage collector, whose turns fall on either side by chance, and without a tracer,
    which slows down one side only.
    """
    pause = measure = floor = float("inf")
    tracer = sys.gettrace()
    gc.collect()
    gc.disable()
    sys.settrace(None)
    try:
        for _ in range(rounds):
            measure, floor = min(measure, reading(texts)), min(floor, reading((FLOOR,)))
            pause = min(pause, longest_pause(work))
            if pause <= MAX_RATIO * max(measure, floor):
                break
    finally:
        sys.settrace(tracer)
        gc.enable()
    return pause / max(measure, floor)


def taking(annotation: Any) -> Tool[..., Any]:
    """A tool with one parameter of a type."""

    def take(a: Any) -> None:
        """Take it."""

    take.__annotations__ = {"a": annotation, "return": None}
    return tool(take)


def sent(value: Any) -> str:
    return json.dumps({"a": value}, separators=(",", ":"))


def remote(schema: dict[str, Any]) -> Tool[..., Any]:
    async def send(_args: object, _context: object) -> None: ...

    return Tool.remote(Spec(name="far", description="", input_schema=schema), send)


def told(parsed: Args | Failure) -> list[str]:
    """The lines of complaint; none where the arguments passed."""
    return parsed.message.splitlines()[1:-1] if isinstance(parsed, Failure) else []


Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int")
Anything = TypeAliasType(
    "Anything", "str | int | float | bool | list[Anything] | dict[str, Anything] | None"
)


# ---------------------------------------------------------------- one by one


def wrong_items(count: int) -> str:
    return sent(["x"] * count)


EXPECTED = 'expected an integer or a date such as 2026-01-31, got the string "x"'


@pytest.mark.parametrize("count", [1_000, 4_000, MEGABYTE // 4])
def test_a_list_of_wrong_items_of_a_union_is_refused_at_once(count: int) -> None:
    take = taking(list[int | date])
    text = wrong_items(count)

    assert slowness(lambda: take.parse(text), text) <= MAX_RATIO
    assert told(take.parse(text)) == [*(f"- a[{n}]: {EXPECTED}" for n in range(8)), "- and more"]


def grouped_for_each_union(text: str) -> None:
    """The control: all complaints are made, and gone through once for each union."""
    try:
        TypeAdapter(dict[str, list[int | date]]).validate_json(text, strict=True)
    except ValidationError as error:
        found = [(one["loc"][:2], one) for one in error.errors()]
        kept = list(found)
        for union in dict.fromkeys(at for at, _ in found):
            meant = [one for at, one in found if at == union]
            kept = [(at, one) for at, one in kept if at != union or one in meant]


def test_grouping_the_complaints_anew_for_each_union_would_be_noticed() -> None:
    text = wrong_items(1_000)

    assert slowness(lambda: grouped_for_each_union(text), text, rounds=1) > MAX_RATIO


@dataclass
class Add:
    op: Literal["add"]
    arg: Expr


@dataclass
class Negate:
    op: Literal["negate"]
    arg: Expr


@dataclass
class Invert:
    op: Literal["invert", "flip"]
    arg: Expr


Expr = Union[Add, Negate, Invert, int]  # noqa: UP007  it is used before it is defined

OPS = ("add", "negate", "invert", "flip")


def expression(depth: int, leaf: object) -> str:
    value = leaf
    for level in range(depth):
        value = {"op": OPS[level % len(OPS)], "arg": value}
    return sent(value)


@pytest.mark.parametrize("depth", [7, 12, 60])
def test_a_recursive_union_whose_choices_have_tags_costs_no_more_the_deeper_it_is(
    depth: int,
) -> None:
    take = taking(Expr)
    good, bad = expression(depth, 1), expression(depth, "x")

    assert slowness(lambda: take.parse(good), good) <= MAX_RATIO
    assert slowness(lambda: take.parse(bad), bad) <= MAX_RATIO
    assert told(take.parse(good)) == []
    place = ("a" + ".arg" * depth)[:79] + ("…" if depth > 19 else "")
    assert told(take.parse(bad)) == [
        f'- {place}: expected an object or an integer, got the string "x"'
    ]


def test_a_tag_that_no_choice_has_is_said_of_the_tag() -> None:
    take = taking(Expr)

    assert told(take.parse('{"a": {"op": "divide", "arg": 1}}')) == [
        "- a.op: expected 'add' or 'negate' or 'invert' or 'flip', got the string \"divide\""
    ]
    assert told(take.parse('{"a": {"arg": 1}}')) == ["- a.op: required, missing"]


@dataclass
class Left:
    arg: Alike


@dataclass
class Middle:
    arg: Alike


@dataclass
class Right:
    arg: Alike


Alike = Union[Left, Middle, Right, int]  # noqa: UP007  it is used before it is defined

TOO_MANY_WAYS = "- the arguments take too long to check, since alternatives are nested in one another. Send less at a time, or nest it less deeply."


@pytest.mark.parametrize("leaf", [1, "x"])
def test_a_recursive_union_whose_choices_look_alike_is_refused_where_it_is_deep(leaf: Any) -> None:
    take = taking(Alike)
    texts = [json.dumps({"a": nested(depth, leaf)}) for depth in (3, 5, 7, 9, 12, 60)]

    assert [slowness(lambda text=text: take.parse(text), text) <= MAX_RATIO for text in texts] == (
        [True] * len(texts)
    )
    assert told(take.parse(texts[0])) == (
        []
        if leaf == 1
        else ['- a.arg.arg.arg: expected an object or an integer, got the string "x"']
    )
    assert told(take.parse(texts[-1])) == [TOO_MANY_WAYS]
    assert told(take.parse(json.dumps(texts[-1]))) == [TOO_MANY_WAYS]  # as JSON in a string


def nested(depth: int, leaf: object) -> object:
    value = leaf
    for _ in range(depth):
        value = {"arg": value}
    return value


def test_asking_every_choice_at_every_level_would_be_noticed() -> None:
    adapter = TypeAdapter[Any](Alike)
    text = json.dumps(nested(11, 1))

    assert slowness(lambda: adapter.validate_json(text), text, rounds=2) > MAX_RATIO


def doubling(levels: int, *, alike: bool) -> dict[str, Any]:
    """A schema in which each definition stands for the next one, in two ways."""
    definitions: dict[str, Any] = {f"d{levels}": {"type": "string"}}
    for level in range(levels):
        following = {"$ref": f"#/$defs/d{level + 1}"}
        other = {"anyOf": [following, {"type": "integer", "minimum": level}]}
        definitions[f"d{level}"] = {"anyOf": [following, following if alike else other]}
    return {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d0"}},
        "$defs": definitions,
    }


@pytest.mark.parametrize(("levels", "lines"), [(10, 1), (30, 1), (1_000, 0)])
def test_a_remote_schema_that_doubles_at_each_reference_is_read_at_once(
    levels: int, lines: int
) -> None:
    schema = doubling(levels, alike=True)
    text = sent(1)

    assert slowness(lambda: remote(schema).parse(text), json.dumps(schema), text) <= MAX_RATIO
    # what is nested more than 64 levels deep is left to the server
    assert told(remote(schema).parse(text)) == ["- a: expected a string, got 1"][:lines]


@pytest.mark.parametrize("levels", [5, 10, 30, 1_000])
def test_alternatives_of_a_remote_schema_beyond_the_budget_are_left_to_the_server(
    levels: int,
) -> None:
    schema = doubling(levels, alike=False)
    text = sent(1.5)

    assert slowness(lambda: remote(schema).parse(text), json.dumps(schema), text) <= MAX_RATIO
    expected = "- a: expected a string or an integer, got 1.5"
    assert told(remote(schema).parse(text))[:1] == ([expected] if levels <= 10 else [])


def test_asking_both_of_two_equal_choices_would_be_noticed() -> None:
    core: Any = {"type": "str"}
    for _ in range(15):
        core = {"type": "union", "choices": [(core, "one"), (core, "other")]}
    validator = SchemaValidator(core)

    def work() -> None:
        with pytest.raises(ValidationError):
            validator.validate_json("1")

    assert slowness(work, "1", rounds=2) > MAX_RATIO


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("read", {"file_path": "f", "view_range": ["x"] * 125_000}),
        ("edit", {"file_path": "f", "edits": [{"old_string": 1}] * 20_000}),
        ("edit", {"file_path": "f", "edits": [7] * 200_000}),
    ],
    ids=["view_range", "edits", "numbers for edits"],
)
def test_the_shipped_tools_refuse_half_a_megabyte_of_wrong_items_at_once(
    tmp_path: Path, name: str, args: dict[str, Any]
) -> None:
    workspace = Workspace(tmp_path)
    [asked] = [one for one in (read(workspace), edit(workspace)) if one.spec.name == name]
    text = json.dumps(args)

    assert slowness(lambda: asked.parse(text), text) <= MAX_RATIO
    assert told(asked.parse(text))[-1] == "- and more"


def judging(line: str) -> float:
    book = Rulebook([*builtin_rules("read_only"), *builtin_rules("development")])
    spec = Spec(name="bash", description="", input_schema={})
    call = Call("bash", {"command": line}, "1")
    checked = CheckedCall.recorded(call, spec, (Access(READ, "*"),))
    book(checked)  # the rules are sorted out once
    call = Call("bash", {"command": line + " "}, "1")
    return longest_pause(lambda: book(checked))


def test_a_line_of_a_thousand_changes_of_folder_costs_little_more_than_one_without() -> None:
    rounds = [(judging("ls -l; " * 1_300), judging("cd a; " * 1_600)) for _ in range(2)]

    assert min(cd for _, cd in rounds) <= 10 * min(ls for ls, _ in rounds)


WIDE = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(30_000)}}
LONG = {"type": "object", "required": [f"p{n}" for n in range(100_000)]}
CHOICES = {"properties": {"a": {"enum": [f"choice {n}" for n in range(60_000)]}}}
CONSTANTS = {"properties": {"a": {"anyOf": [{"const": n} for n in range(60_000)]}}}
PATTERNS = {
    "properties": {
        f"p{n}": {"type": "string", "pattern": rf"\\w{{{200 + n}}}"} for n in range(20_000)
    }
}


@pytest.mark.parametrize(
    ("schema", "lines"),
    [
        (WIDE, []),
        (LONG, ["- p0: required, missing"]),
        (CHOICES, []),
        (CONSTANTS, []),
        (PATTERNS, []),
    ],
    ids="wide long choices constants patterns".split(),
)
def test_a_schema_of_a_megabyte_is_understood_as_far_as_the_budget_goes(
    schema: dict[str, Any], lines: list[str]
) -> None:
    text = sent("x")

    assert slowness(lambda: remote(schema).parse(text), json.dumps(schema), text) <= MAX_RATIO
    assert told(remote(schema).parse(text))[:1] == lines


def test_choices_that_differ_on_every_path_are_left_to_the_server() -> None:
    def choice(which: int) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                f"p{n}": {"$ref": f"#/$defs/u{(n * which * which + 5 * n + which // 3) % 8}"}
                for n in range(10)
            },
        }

    unions = {f"u{n}": {"anyOf": [choice(8 * n + k) for k in range(8)]} for n in range(8)}
    far = remote({"properties": {"a": {"$ref": "#/$defs/u0"}}, "$defs": unions})
    leaves: Any = 1
    for _ in range(3):
        leaves = {f"p{n}": leaves for n in range(10)}

    assert told(far.parse(sent(1))) == ["- a: expected an object, got 1"]
    assert [told(far.parse(sent(leaves))) for _ in range(2)] == [[], []]


def test_a_pattern_is_left_to_the_server_where_the_text_is_long() -> None:
    far = remote({"properties": {"a": {"type": "string", "pattern": "[ab]*a[ab]{100}c"}}})

    assert told(far.parse(sent("ab" * 100)))[0].startswith("- a: expected text that matches")
    text = sent("ab" * 400_000)
    assert told(far.parse(text)) == []
    assert slowness(lambda: far.parse(text), text) <= MAX_RATIO


def test_tags_are_found_behind_references() -> None:
    def tagged(kind: str, of: str) -> dict[str, Any]:
        fields = {"kind": {"const": kind}, "of": {"type": of}}
        return {"type": "object", "properties": fields, "required": ["kind", "of"]}

    definitions = {
        "a": {"$ref": "#/$defs/c"},
        "b": tagged("b", "integer"),
        "c": tagged("c", "string"),
    }
    choices = [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]
    far = remote({"properties": {"a": {"oneOf": choices}}, "$defs": definitions})

    assert told(far.parse(sent({"kind": "c", "of": 1}))) == ["- a.of: expected a string, got 1"]
    assert told(far.parse(sent({"kind": "b", "of": 1}))) == []


@pytest.mark.anyio
async def test_long_arguments_of_a_call_that_reads_are_read_in_the_usual_way() -> None:
    @tool(effect=READ)
    async def length(words: list[str]) -> int:
        """Count."""
        return len(words)

    executor = Executor(Toolset(length))
    texts = [json.dumps({"words": ["x"] * count}) for count in (1, 100_000)]
    calls = [Call("length", text, str(at)) for at, text in enumerate(texts)]

    assert [one.text for one in await executor.run_all(calls)] == ["1", "100000"]
    again = [Call("length", text, f"again {at}") for at, text in enumerate(texts)]
    assert [one.text for one in await executor.run_all(again)] == ["1", "100000"]


# ---------------------------------------------------------------- what is said, and what stays right


def test_of_a_long_list_the_first_mistakes_are_told_where_they_are() -> None:
    def take(b: int, a: Annotated[list[int], Field(min_length=30)]) -> None:
        """Take them."""

    good, bad = list(range(5_000)), ["x"] * 3

    assert told(tool(take).parse({"b": "y", "a": [*good, *bad]})) == [
        '- b: expected an integer, got the string "y"',
        '- a[5000]: expected an integer, got the string "x"',
        '- a[5001]: expected an integer, got the string "x"',
        '- a[5002]: expected an integer, got the string "x"',
        "- and perhaps more: a long list is not checked to its end",
    ]
    assert told(tool(take).parse({"b": "y", "a": good})) == [
        '- b: expected an integer, got the string "y"'
    ]


@pytest.mark.parametrize("items", [1, 5_000])
def test_a_validator_that_changes_its_mind_is_believed_the_first_time(items: int) -> None:
    asked = iter(range(10_000))

    def fail_once(value: int) -> int:
        if next(asked) == 0:
            raise ValueError("not yet")
        return value

    take = taking(list[Annotated[int, AfterValidator(fail_once)]])
    first, *_ = told(take.parse(sent([1] * items)))

    assert first == "- a[0]: not yet"


GAPS = "- the arguments are too large to check while required fields are missing. Send these too."


@pytest.mark.parametrize("nested", [True, False])
def test_many_fields_that_are_missing_in_a_large_object_are_not_told_one_by_one(
    nested: bool,  # noqa: FBT001
) -> None:
    form = make_dataclass("Form", [(f"f{n}", int) for n in range(50)])
    take = taking(dict[str, form] if nested else form)  # type: ignore[valid-type]
    items = ["x"] * (MEGABYTE // 5)
    text = sent({"b": {"f0": 1, "more": items}} if nested else {"f0": 1, "more": items})

    assert slowness(lambda: take.parse(text), text) <= MAX_RATIO
    assert told(take.parse(text)) == [GAPS]
    small = text.replace(',"x"', "")
    assert told(take.parse(small))[0] == f"- a{'.b' if nested else ''}.f1: required, missing"


def test_copying_an_object_for_each_missing_field_would_be_noticed() -> None:
    adapter = TypeAdapter[Any](make_dataclass("Form", [(f"f{n}", int) for n in range(50)]))
    text = json.dumps({"more": ["x"] * (MEGABYTE // 5)})

    def work() -> None:
        with pytest.raises(ValidationError):
            adapter.validate_json(text)

    assert slowness(work, text, rounds=1) > MAX_RATIO


def test_a_complaint_of_the_authors_may_bear_a_name_of_the_validators() -> None:
    def refuse(_value: int) -> int:
        raise PydanticCustomError("greater_than", "too small for us")

    take = taking(Annotated[int, AfterValidator(refuse)])

    assert told(take.parse(sent(1))) == ["- a: too small for us"]


class Spoken(BaseModel):
    sort: Literal["spoken"] = Field(alias="kind")
    words: str

    @model_validator(mode="after")
    def has_words(self) -> Spoken:
        if not self.words:
            raise ValueError("say something")
        return self


class Spoke(TypedDict):
    kind: Literal["spoke"]
    words: str


class Kind(StrEnum):
    SEEN = "seen"
    FELT = "felt"


class Seen(BaseModel):
    kind: Literal[Kind.SEEN]
    shape: str


class Felt(TypedDict):
    kind: Literal["felt"]
    heat: int


class Numbered(BaseModel):
    kind: Literal[1, 2]
    count: int


class Untold(BaseModel):
    kind: Literal["untold"] = "untold"


def which(value: Any) -> str:
    return "left" if isinstance(value, dict) and "left" in value else "right"


class Turn(BaseModel):
    left: Way | None = None
    right: Way | None = None


Way = Annotated[
    Annotated[Turn, Tag("left")] | Annotated[list[Turn], Tag("right")], Discriminator(which)
]


class Loud(BaseModel):
    tone: Literal["loud"]


class Soft(BaseModel):
    tone: Literal["soft"]


TWICE = (
    Annotated[Spoke | Felt, Field(discriminator="kind")]
    | Annotated[Loud | Soft, Field(discriminator="tone")]
)


UNIONS: list[tuple[str, Any, Any, list[str]]] = [
    ("an alias", Spoken | Felt, {"kind": "spoken", "words": "a"}, []),
    ("its field", Spoken | Felt, {"kind": "felt", "heat": "x"}, ['- a.heat: expected an integer, got the string "x"']),
    ("its own check", Spoken | Felt, {"kind": "spoken", "words": ""}, ["- a: say something"]),
    ("an unknown tag", Spoken | Felt, {"kind": "x"}, ["- a.kind: expected 'spoken' or 'felt', got the string \"x\""]),
    ("no tag", Spoken | Felt, {}, ["- a.kind: required, missing"]),
    ("a number as tag", Numbered | Felt, {"kind": 2, "count": 3}, []),
    ("true is no number", Numbered | Felt, {"kind": True, "count": 3}, ["- a.kind: expected a number, not a boolean, got true"]),
    ("beside others", Spoken | str | Felt | list[int], "words", []),
    ("beside others, tagged", Spoken | str | Felt | list[int], {"kind": "felt", "heat": 1}, []),
    ("a tag that may be left out", Untold | Felt, {}, []),
    ("a member of an enum as constant", Seen | Felt, {"kind": "felt", "heat": 1}, []),
    ("another object beside", Spoken | Felt | dict[str, int], {"n": 1}, []),
    ("JSON in a string", Spoken | Felt, '{"kind": "felt", "heat": 1}', []),
    ("two unions with tags of their own", TWICE, {"tone": "soft"}, []),
    ("told apart by a function", Way, {"left": [{"left": None}]}, []),
    ("more choices than are compared", Union[tuple(Literal[n] for n in range(-20, 20))], 7, []),  # type: ignore[valid-type]  # noqa: UP007
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value", "lines"), [row[1:] for row in UNIONS], ids=[row[0] for row in UNIONS])  # fmt: skip
def test_a_union_takes_what_its_choices_take(annotation: Any, value: Any, lines: list[str]) -> None:
    assert told(taking(annotation).parse(sent(value))) == lines


@pytest.mark.parametrize(
    "value",
    [["x"] * 20, [{"b": [1, "x"]}, [[[]]]], {"a": [1, 2, [3]]}, [1, {"a": []}, *[[1]] * 20]],
    ids=repr,
)
def test_ordinary_values_of_recursive_types_pass(value: Any) -> None:
    both = tuple[Json, Json, int] | tuple[Anything, ...] | dict[str, Anything]

    assert told(taking(Json).parse(sent(value))) == []
    assert told(taking(Anything).parse(sent(value))) == []
    assert told(taking(both).parse(sent(value))) == []


# ---------------------------------------------------------------- random types and values

FEWER = settings(
    max_examples=max(5, settings.default.max_examples // 8),  # type: ignore[union-attr]
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # nothing that is timed gets simpler
)


class Tree(TypedDict):
    a: list[Tree]
    op: int | str


class Linked(BaseModel):
    a: Linked | list[Linked] | None = None
    b: Any = None


RECURSIVE = (Json, Anything, Expr, Alike, Tree, Linked, Union[Tree, Linked, Json])  # noqa: UP007  an alias has no ``|``
SCALARS = (
    int,
    float,
    bool,
    str,
    date,
    datetime,
    UUID,
    Decimal,
    Literal["x", "y"],
    Literal[1, 2],
)


def union(choices: list[Any]) -> Any:
    return Union[tuple(choices)]  # noqa: UP007  made of any number of choices


def record(fields: dict[str, Any]) -> Any:
    return make_dataclass("Record", list(fields.items()))


names = st.sampled_from(["a", "b", "arg", "op"])
annotations = st.recursive(
    st.sampled_from([*SCALARS, *RECURSIVE]),
    lambda inner: st.one_of(
        inner.map(lambda of: GenericAlias(list, (of,))),
        inner.map(lambda of: GenericAlias(dict, (str, of))),
        inner.map(lambda of: GenericAlias(tuple, (of, ...))),
        st.tuples(inner, inner).map(lambda of: GenericAlias(tuple, of)),
        inner.map(lambda of: Optional[of]),  # noqa: UP045
        st.lists(inner, min_size=2, max_size=6).map(union),
        st.dictionaries(names, inner, min_size=1, max_size=3).map(record),
        st.lists(
            st.dictionaries(names, inner, min_size=1, max_size=2).map(record),
            min_size=2,
            max_size=4,
        ).map(union),
    ),
    max_leaves=12,
)
pieces = st.recursive(
    st.sampled_from(["x", "", 1, 2, 1.5, True, None, "add", "2026-01-31", "[1]", "7"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


class Recipe(NamedTuple):
    """Much of the same, below some levels; short enough to be shown."""

    piece: Any
    size: int
    shape: str
    levels: list[str | None]

    @property
    def text(self) -> str:
        each = len(json.dumps(self.piece, separators=(",", ":"))) + 1
        count = max(1, (self.size - 1_000) // each)
        value: Any = [self.piece] * count
        if self.shape == "object":
            value = {f"{n:x}": self.piece for n in range(count // 2)}
        elif self.shape == "both":
            value = [{"a": self.piece, "op": "add"}] * (count // 4)
        for step in self.levels:
            value = [value] if step is None else {step: value}
        return sent(value)


def recipes(most: int) -> st.SearchStrategy[Recipe]:
    levels = st.sampled_from([0, 2, 8, 60]).flatmap(
        lambda depth: st.lists(names | st.none(), max_size=depth)
    )
    sizes = st.sampled_from([100, 10_000, 100_000, most])
    return st.builds(Recipe, pieces, sizes, st.sampled_from(["list", "object", "both"]), levels)


@FEWER
@given(annotations, recipes(MEGABYTE))
def test_reading_arguments_of_any_type_pauses_the_loop_for_a_multiple_of_reading_json(
    annotation: Any, recipe: Recipe
) -> None:
    take, text = taking(annotation), recipe.text
    take.parse("{}")  # a validator is built once

    assert slowness(lambda: take.parse(text), text) <= MAX_RATIO


schemas = st.recursive(
    st.sampled_from(
        [
            {},
            True,
            {"type": "string"},
            {"type": "integer", "minimum": 3},
            {"type": ["string", "null", "array", "object"]},
            {"const": "x"},
            {"enum": [f"choice {n}" for n in range(100)]},
            {"type": "string", "pattern": "[ab]*a[ab]{100}c"},
            {"type": "string", "pattern": r"^\\w{200}$"},
            *({"$ref": f"#/$defs/{name}"} for name in "abcd"),
        ]
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map(lambda of: {"anyOf": of}),
        st.lists(inner, min_size=1, max_size=4).map(lambda of: {"oneOf": of * 2}),
        inner.map(lambda of: {"type": "array", "items": of}),
        st.dictionaries(names, inner, max_size=3).map(lambda of: {"properties": of}),
        st.dictionaries(names, inner, max_size=3).map(
            lambda of: {"type": ["object", "object"], "properties": of, "required": list(of)}
        ),
        inner.map(lambda of: {"type": "object", "additionalProperties": of}),
    ),
    max_leaves=16,
)


class Plan(NamedTuple):
    """A schema with definitions that refer to one another, some of it many times over."""

    definitions: dict[str, Any]
    piece: Any
    size: int
    shape: str

    @property
    def schema(self) -> dict[str, Any]:
        times = max(1, min(self.size // len(json.dumps(self.piece)), 20_000))
        a: Any = {"anyOf": [self.piece] * times}
        if self.shape == "properties":
            a = {"type": "object", "properties": {f"p{n}": self.piece for n in range(times)}}
        elif self.shape == "levels":
            for _ in range(min(times, 400)):
                a = {"anyOf": [a, {"type": "array", "items": self.piece}]}
        elif self.shape == "enum":
            names = [str(n) for n in range(self.size // 16)]
            a = {"enum": list(range(self.size // 8)), "required": names}
        properties = {"a": a, "b": {"$ref": "#/$defs/a"}}
        return {"type": "object", "properties": properties, "$defs": self.definitions}


plans = st.builds(
    Plan,
    st.fixed_dictionaries(dict.fromkeys("abcd", schemas)),
    schemas,
    st.sampled_from([1, 1_000, 50_000]),
    st.sampled_from(["properties", "choices", "levels", "enum"]),
)


@FEWER
@given(plans, recipes(200_000))
def test_a_hostile_schema_pauses_the_loop_for_a_multiple_of_reading_json(
    plan: Plan, recipe: Recipe
) -> None:
    schema, text = plan.schema, recipe.text
    far = remote(schema)
    # a validator is built once, in time that grows with its schema
    assert slowness(lambda: remote(schema).parse("{}"), json.dumps(schema)) <= 3 * MAX_RATIO
    far.parse("{}")
    far.parse(text)  # and so is a lighter one

    assert slowness(lambda: far.parse(text), text) <= MAX_RATIO
