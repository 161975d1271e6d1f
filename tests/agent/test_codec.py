"""Saved states: they load unchanged, and no other text is accepted."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import Allow, Call, Deny, FailureKind, File, Image, Result, Text
from handrail.agent import (
    BackgroundCall,
    EarlyCall,
    GivenAnswer,
    InvalidState,
    RunState,
    Shortened,
    Spent,
    dump_state,
    load_state,
)
from handrail.approvals import Tampered
from handrail.messages import (
    Opaque,
    Prompt,
    Reasoning,
    Reply,
    Stop,
    ToolResults,
    TruncatedCall,
    Usage,
)
from handrail.permissions import Edit
from saved_values import RESULTS

TEXT = st.text(max_size=8)
BYTES = st.binary(max_size=8)
CONTENT = st.one_of(
    st.builds(Text, TEXT), st.builds(Image, BYTES, TEXT), st.builds(File, BYTES, TEXT, TEXT)
)
COUNTS = st.integers(0, 2**70)
USAGES = st.builds(
    Usage,
    input_tokens=COUNTS,
    output_tokens=COUNTS,
    cached_tokens=COUNTS,
    cache_write_tokens=COUNTS,
    reasoning_tokens=COUNTS,
)
PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
ARGS = TEXT | st.dictionaries(TEXT, PLAIN, max_size=2)
CALLS = st.builds(Call, TEXT, ARGS, TEXT)
SAID = st.one_of(
    st.builds(Text, TEXT),
    st.builds(Image, BYTES, TEXT),
    st.builds(Reasoning, TEXT, TEXT, TEXT),
    st.builds(Opaque, TEXT, TEXT, st.sampled_from(("part", "fields"))),
    CALLS,
    st.builds(TruncatedCall, TEXT, TEXT, TEXT),
)
STOPS: list[Stop] = ["end", "calls", "length", "refused", "other"]
PROMPTS = st.builds(Prompt, st.lists(CONTENT, max_size=2).map(tuple))
MESSAGES = st.one_of(
    PROMPTS,
    st.builds(
        Reply,
        st.lists(SAID, max_size=3).map(tuple),
        st.sampled_from(STOPS),
        USAGES,
        TEXT,
        TEXT,
        seconds=st.none() | st.floats(0, 1e9) | st.integers(0, 9),
    ),
    st.builds(ToolResults, st.lists(RESULTS, max_size=2).map(tuple)),
)
COSTS = st.decimals(min_value=0, allow_nan=False, allow_infinity=False)
ANSWERS = st.one_of(
    st.just(Allow()),
    st.builds(lambda reason, detail: Deny(reason, detail=detail), TEXT, TEXT),
    st.builds(Edit, ARGS),
    RESULTS,
)
STATES = st.builds(
    RunState,
    messages=st.lists(MESSAGES, max_size=3).map(tuple),
    waiting=st.lists(RESULTS, max_size=2).map(tuple),
    inbox=st.lists(PROMPTS, max_size=2).map(tuple),
    usage=USAGES,
    turns=COUNTS,
    calls=COUNTS,
    run_id=TEXT,
    before=st.builds(Spent, COUNTS, COUNTS, USAGES, COSTS),
    discarded=st.lists(st.builds(EarlyCall, CALLS, RESULTS), max_size=1).map(tuple),
    shortened=st.builds(Shortened, COUNTS, TEXT, COUNTS),
    cost=COSTS,
    answers=st.lists(st.builds(GivenAnswer, TEXT, TEXT, ANSWERS), max_size=2).map(tuple),
    background=st.lists(st.builds(BackgroundCall, CALLS, TEXT), max_size=1).map(tuple),
)


@given(STATES)
def test_a_saved_state_loads_unchanged(state: RunState) -> None:
    text = dump_state(state)

    assert load_state(text) == state
    assert dump_state(load_state(text)) == text
    text.encode("ascii")  # it can be stored anywhere


def test_the_format_of_a_saved_state() -> None:
    state = RunState(
        messages=(
            Prompt.of("go", Image(b"\0", "image/png"), File(b"x", "text/plain", "x.txt")),
            Reply(
                (
                    Reasoning("hm", "s", "w"),
                    Opaque("{}", "w"),
                    Image(b"\0", "image/png"),
                    Opaque('{"a":1}', "w", "fields"),
                    Call("a", {"n": 1}, "1"),
                    TruncatedCall("b", "2", "{"),
                ),
                "length",
                seconds=2,
            ),
            ToolResults((Result("1", "1", data="1"), Result.fail("2", FailureKind.BAD_ARGS, "no", "why"))),
        ),
        inbox=(Prompt.of("more"),),
        usage=Usage(input_tokens=1, output_tokens=2, cached_tokens=3),
        turns=1,
        calls=1,
        run_id="r1",
        before=Spent(1, 1, Usage(input_tokens=1), Decimal("0.25")),
        discarded=(EarlyCall(Call("a", "{}", "1"), Result("1", "1")),),
        shortened=Shortened(1, "before", 2),
        cost=Decimal("1.50"),
        answers=(
            GivenAnswer("r~1~1~0", "f", Allow()),
            GivenAnswer("r~1~2~0", "f", Deny("no", detail="why")),
            GivenAnswer("r~1~3~0", "f", Edit({"n": 1})),
        ),
        background=(BackgroundCall(Call("a", {"n": 1}, "3"), "1"),),
    )  # fmt: skip

    assert load_state(dump_state(state)) == state
    assert json.loads(dump_state(state)) == snapshot(
        {
            "handrail": 2,
            "messages": [
                {
                    "prompt": [
                        {"text": "go"},
                        {"image": "AA==", "type": "image/png"},
                        {"file": "eA==", "type": "text/plain", "name": "x.txt"},
                    ]
                },
                {
                    "reply": [
                        {"reasoning": "hm", "signature": "s", "api": "w"},
                        {"opaque": "{}", "api": "w", "kind": "part"},
                        {"image": "AA==", "type": "image/png"},
                        {"opaque": '{"a":1}', "api": "w", "kind": "fields"},
                        {"call": "a", "args": {"n": 1}, "id": "1"},
                        {"truncated_call": "b", "args": "{", "id": "2"},
                    ],
                    "stop": "length",
                    "usage": [0, 0, 0, 0, 0],
                    "model": "",
                    "seconds": 2.0,
                },
                {
                    "results": [
                        {
                            "v": 1,
                            "call_id": "1",
                            "text": "1",
                            "parts": [],
                            "data": "1",
                            "failure": None,
                            "pending": None,
                            "metadata": {},
                            "found": [],
                            "seconds": None,
                        },
                        {
                            "v": 1,
                            "call_id": "2",
                            "text": "no",
                            "parts": [],
                            "data": None,
                            "failure": {"kind": "bad_args", "message": "no", "detail": "why"},
                            "pending": None,
                            "metadata": {},
                            "found": [],
                            "seconds": None,
                        },
                    ]
                },
            ],
            "waiting": [],
            "inbox": [{"prompt": [{"text": "more"}]}],
            "usage": [1, 2, 3, 0, 0],
            "turns": 1,
            "calls": 1,
            "run_id": "r1",
            "before": {"turns": 1, "calls": 1, "usage": [1, 0, 0, 0, 0], "cost": "0.25"},
            "discarded": [
                [
                    {"call": "a", "args": "{}", "id": "1"},
                    {
                        "v": 1,
                        "call_id": "1",
                        "text": "1",
                        "parts": [],
                        "data": None,
                        "failure": None,
                        "pending": None,
                        "metadata": {},
                        "found": [],
                        "seconds": None,
                    },
                ]
            ],
            "shortened": [1, "before", 2],
            "cost": "1.50",
            "answers": [
                ["r~1~1~0", "f", {"allow": True}],
                ["r~1~2~0", "f", {"deny": "no", "detail": "why"}],
                ["r~1~3~0", "f", {"edit": {"n": 1}}],
            ],
            "background": [[{"call": "a", "args": {"n": 1}, "id": "3"}, "1"]],
        }
    )


@pytest.mark.parametrize(
    "args", [{"a": {1, 2}}, {"a": float("nan")}, {"a": object()}], ids=["set", "nan", "object"]
)
def test_values_that_json_cannot_represent_are_rejected_on_save(args: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"JSON|not JSON compliant|json"):
        dump_state(RunState(messages=(Reply((Call("a", args, "1"),)),)))


@pytest.mark.parametrize("state", [RunState(messages=(5,)), RunState(messages=(Prompt((5,)),))])
def test_only_messages_can_be_saved(state: RunState) -> None:
    with pytest.raises(AssertionError):
        dump_state(state)


def test_arguments_that_are_nested_too_deeply_are_rejected_on_save() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}

    with pytest.raises(ValueError, match="cannot be saved as JSON"):
        dump_state(RunState(messages=(Reply((Call("a", deep, "1"),)),)))


# ---------------------------------------------------------------- invalid states

EMPTY = json.loads(dump_state(RunState()))
RESULT = json.loads(Result("1", "").to_json())


@pytest.mark.parametrize("version", [0, 1, 99, -1])
def test_a_state_of_another_version_is_not_read(version: int) -> None:
    with pytest.raises(InvalidState, match=f"Unsupported version {version} of a saved run state"):
        load_state(json.dumps({**EMPTY, "handrail": version}))


GARBAGE: dict[str, str] = {
    "nothing": "",
    "no JSON": "hello",
    "half": dump_state(RunState())[:-2],
    "a number": "5",
    "null": "null",
    "a list": "[]",
    "a string": '"handrail"',
    "no version": "{}",
    "deep": "[" * 100_000,
    "a number that is too large": json.dumps(
        {**EMPTY, "waiting": [{**RESULT, "metadata": {"n": 1.5}}]}
    ).replace("1.5", "1e999"),
    "a lone half": '{"handrail": "\\ud800"}',
    **{
        f"{key}={value}": json.dumps({**EMPTY, key: value})
        for key, values in {
            "handrail": [None, "1", 1.0, True, [1]],
            "messages": [None, {}, "prompt", [5], [None], ["prompt"], [{}], [{"prompt": None}], [{"prompt": [{}]}], [{"prompt": [{"text": 5}]}], [{"prompt": [{"image": "?", "type": "a"}]}], [{"prompt": [{"image": "AA=="}]}], [{"prompt": [{"file": "AA==", "type": "a", "name": 1}]}], [{"reply": []}], [{"reply": [], "stop": "why", "usage": [0, 0, 0, 0, 0], "model": ""}], [{"reply": [], "stop": ["end"], "usage": [0, 0, 0, 0, 0], "model": ""}], [{"reply": [], "stop": "end", "usage": [0, 0, 0, 0, 0], "model": None}], [{"reply": [], "stop": "end", "usage": [0, 0, 0, 0, 0], "model": "", "seconds": -1.0}], [{"reply": [], "stop": "end", "usage": [0, 0, 0, 0, 0], "model": "", "seconds": "1"}], [{"reply": [], "stop": "end", "usage": [0, 0], "model": ""}], [{"reply": [{"call": "a", "args": [], "id": "1"}], "stop": "end", "usage": [0, 0, 0, 0, 0], "model": ""}], [{"reply": [{"reasoning": "a", "signature": None, "api": ""}], "stop": "end", "usage": [0, 0, 0, 0, 0], "model": ""}], [{"reply": [{"opaque": "{}", "api": "a", "kind": "odd"}], "stop": "end", "usage": [0, 0, 0, 0, 0], "model": ""}], [{"reply": [{"truncated_call": "a"}], "stop": "end", "usage": [0, 0, 0, 0, 0], "model": ""}], [{"reply": [{"text": []}], "stop": "end", "usage": [0, 0, 0, 0, 0], "model": ""}]],
            "waiting": [None, [5], [{}], [{**RESULT, "v": 2}], [{**RESULT, "call_id": 1}], [{**RESULT, "failure": {"kind": "sulking", "message": "", "detail": ""}}], [{**RESULT, "pending": {}}], [{**RESULT, "more": 1}], [{**RESULT, "metadata": {"n": float("nan")}}]],
            "inbox": [None, [{"results": []}], [{"reply": []}]],
            "usage": [None, [], [0, 0], [0, 0, 0, 0], [0, 0, 0, 0, -1], [0, 0, 0, 0, 0.5], {"sent": 1}],
            "turns": [None, -1, 1.5, "1", True, float("inf"), float("nan")],
            "calls": [None, [], 1e300],
            "run_id": [None, 1, []],
            "before": [None, [], {}, {"turns": 1, "calls": 0}, {"turns": -1, "calls": 0, "usage": [0, 0, 0, 0, 0], "cost": "0"}, {"turns": 1, "calls": 0, "usage": [0, 0, 0, 0, 0], "cost": 0}],
            "shortened": [None, [], [0, ""], [0, 0, 0], [-1, "", 0], [0, "", -1]],
            "cost": [None, 1, "", "a", "-1", "NaN", "sNaN", "Infinity"],
            "answers": [None, [5], [["a", "b"]], [[1, "b", {"allow": True}]], [["a", 1, {"allow": True}]], *([["a", "b", answer]] for answer in ({}, {"allow": 1.5}, {"allow": False}, {"allow": True, "more": 1}, {"deny": "no"}, {"edit": 5}, {"edit": [], "x": 1}, {"result": "{}"}, {"result": 1}, "allow", None))],
            "background": [None, [5], [[]], [[{"text": "a"}, "1"]], [[{"call": "a", "args": "{}", "id": "1"}, 1]]],
            "discarded": [None, [5], [[]], [[{"text": "a"}, RESULT]], [[{"call": "a", "args": "{}", "id": "1"}]]],
        }.items()
        for value in values
    },
}  # fmt: skip


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_not_a_state(name: str) -> None:
    with pytest.raises(InvalidState):
        load_state(GARBAGE[name])


@given(st.text() | PLAIN.map(json.dumps))
def test_any_other_json_raises_only_invalid_state(text: str) -> None:
    with pytest.raises(InvalidState):
        load_state(text)


@given(STATES, st.data())
def test_a_state_with_one_change_is_valid_or_invalid_state(
    state: RunState, data: st.DataObject
) -> None:
    plain = json.loads(dump_state(state))
    place: Any = plain
    while True:  # choose a place, and put another value there
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        below = place[key]
        if not isinstance(below, dict | list) or not below or data.draw(st.booleans()):
            break
        place = below
    place[key] = data.draw(PLAIN)
    if isinstance(place, dict) and data.draw(st.booleans()):
        del place[key]

    try:
        read = load_state(json.dumps(plain))
    except InvalidState:
        return
    assert load_state(dump_state(read)) == read


@given(STATES, st.integers(0))
def test_a_truncated_text_is_invalid(state: RunState, at: int) -> None:
    text = dump_state(state)

    with pytest.raises(InvalidState):
        load_state(text[: at % len(text)])


def test_the_error_message_names_no_file_and_no_line() -> None:
    with pytest.raises(InvalidState) as refused:
        load_state('{"handrail": 2}')

    assert str(refused.value) == snapshot("Not a saved run state: key 'messages' is missing.")


@pytest.mark.parametrize("field", ["answers", "background"])
def test_a_state_of_an_earlier_version_without_a_field_is_read(field: str) -> None:
    before = {key: value for key, value in EMPTY.items() if key != field}

    assert load_state(json.dumps(before)) == RunState()


KEY, OLD = bytes(range(32)), bytes(range(1, 33))


@given(STATES)
def test_a_signed_state_loads_with_its_key_and_with_several(state: RunState) -> None:
    signed = dump_state(state, key=KEY)

    assert load_state(signed, key=KEY) == load_state(signed, key=[OLD, KEY]) == state
    assert signed.endswith(dump_state(state))


SIGNED = dump_state(RunState(run_id="r"), key=KEY)
HEAD, MAC, BODY = SIGNED.split(".", 2)
FORGED = {
    "not signed": (
        BODY,
        "The state is not signed, and a key was passed: only a signed one is read.",
    ),
    **{
        name: (
            text,
            "The signature of the state does not match: it was changed, or signed with another key.",
        )
        for name, text in {
            "another key": dump_state(RunState(run_id="r"), key=OLD),
            "changed": SIGNED.replace('"r"', '"s"'),
            "cut off": SIGNED[:-1],
            "only the version": f"{HEAD}.",
            "no signature": f"{HEAD}..{BODY}",
            "a signature of half characters": f"{HEAD}.\ud800.{BODY}",
            "longer": f"{HEAD}.{MAC}A.{BODY}",
        }.items()
    },
}


@pytest.mark.parametrize("name", FORGED)
def test_with_a_key_only_what_it_signed_is_read(name: str) -> None:
    text, why = FORGED[name]

    with pytest.raises(Tampered) as refused:
        load_state(text, key=KEY)

    assert str(refused.value) == why
    assert load_state(SIGNED, key=KEY) == RunState(run_id="r")


def test_a_key_is_long_and_a_signed_state_is_not_read_without_it() -> None:
    for use in (
        lambda: dump_state(RunState(), key=b"short"),
        lambda: load_state(SIGNED, key=[b"short"]),
    ):
        with pytest.raises(ValueError, match="at least 32 bytes, got 5"):
            use()
    with pytest.raises(InvalidState, match=r"^This run state is signed\. Pass its key: load_state"):
        load_state(SIGNED)
    with pytest.raises(Tampered, match="does not match"):
        load_state(SIGNED, key=[])
