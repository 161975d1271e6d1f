"""A state as text: what was written comes back, and nothing else is taken for a state."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import Access, Call, Effect, Failure, File, Image, Kind, Result, Text
from handrail.agent import State, Unreadable, dump, load
from handrail.judgement import Origin, Pending
from handrail.messages import Cut, Prompt, Reply, Results, Stop, Thought, Usage

TEXT = st.text(max_size=8)
BYTES = st.binary(max_size=8)
CONTENT = st.one_of(
    st.builds(Text, TEXT), st.builds(Image, BYTES, TEXT), st.builds(File, BYTES, TEXT, TEXT)
)
COUNTS = st.integers(0, 2**70)
USAGES = st.builds(Usage, sent=COUNTS, received=COUNTS, cached=COUNTS)
PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
ARGS = TEXT | st.dictionaries(TEXT, PLAIN, max_size=2)
CALLS = st.builds(Call, TEXT, ARGS, TEXT)
TIMES = st.floats(allow_nan=False)
PENDING = st.builds(
    Pending,
    id=TEXT,
    call=CALLS,
    effect=st.sampled_from(Effect),
    accesses=st.lists(st.builds(Access, st.sampled_from(Effect), st.sampled_from(["file:a", "net:b"]))).map(tuple),
    question=TEXT,
    fingerprint=TEXT,
    asked_at=TIMES,
    expires_at=TIMES,
    origin=st.none() | st.builds(Origin, TEXT, TEXT, st.integers()),
    once=st.booleans(),
    after=st.lists(TEXT, max_size=2).map(tuple),
    first=TEXT,
)  # fmt: skip
RESULTS = st.builds(
    Result,
    TEXT,
    TEXT,
    st.lists(CONTENT, max_size=2).map(tuple),
    st.none() | TEXT,
    st.none() | st.builds(Failure, st.sampled_from(Kind), TEXT, TEXT),
    st.none() | PENDING,
)
SAID = st.one_of(
    st.builds(Text, TEXT),
    st.builds(Thought, TEXT, TEXT, TEXT),
    CALLS,
    st.builds(Cut, TEXT, TEXT, TEXT),
)
STOPS: list[Stop] = ["end", "calls", "length", "refused", "other"]
PROMPTS = st.builds(Prompt, st.lists(CONTENT, max_size=2).map(tuple))
MESSAGES = st.one_of(
    PROMPTS,
    st.builds(Reply, st.lists(SAID, max_size=3).map(tuple), st.sampled_from(STOPS), USAGES, TEXT),
    st.builds(Results, st.lists(RESULTS, max_size=2).map(tuple)),
)
STATES = st.builds(
    State,
    messages=st.lists(MESSAGES, max_size=3).map(tuple),
    waiting=st.lists(RESULTS, max_size=2).map(tuple),
    inbox=st.lists(PROMPTS, max_size=2).map(tuple),
    usage=USAGES,
    turns=COUNTS,
    calls=COUNTS,
)


@given(STATES)
def test_what_was_written_comes_back(state: State) -> None:
    text = dump(state)

    assert load(text) == state
    assert dump(load(text)) == text
    text.encode("ascii")  # it can lie anywhere


def test_what_a_state_looks_like() -> None:
    state = State(
        messages=(
            Prompt.of("go", Image(b"\0", "image/png"), File(b"x", "text/plain", "x.txt")),
            Reply((Thought("hm", "s", "w"), Call("a", {"n": 1}, "1"), Cut("b", "2", "{")), "length"),
            Results((Result("1", "1", data="1"), Result.fail("2", Kind.BAD_ARGS, "no", "why"))),
        ),
        inbox=(Prompt.of("more"),),
        usage=Usage(sent=1, received=2, cached=3),
        turns=1,
        calls=1,
    )  # fmt: skip

    assert json.loads(dump(state)) == snapshot(
        {
            "handrail": 1,
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
                        {"thought": "hm", "sealed": "s", "wire": "w"},
                        {"call": "a", "args": {"n": 1}, "id": "1"},
                        {"cut": "b", "args": "{", "id": "2"},
                    ],
                    "stop": "length",
                    "usage": [0, 0, 0],
                    "model": "",
                },
                {
                    "results": [
                        {
                            "id": "1",
                            "text": "1",
                            "parts": [],
                            "data": "1",
                            "failure": None,
                            "pending": None,
                        },
                        {
                            "id": "2",
                            "text": "no",
                            "parts": [],
                            "data": None,
                            "failure": ["bad_args", "no", "why"],
                            "pending": None,
                        },
                    ]
                },
            ],
            "waiting": [],
            "inbox": [{"prompt": [{"text": "more"}]}],
            "usage": [1, 2, 3],
            "turns": 1,
            "calls": 1,
        }
    )


@pytest.mark.parametrize(
    "args", [{"a": {1, 2}}, {"a": float("nan")}, {"a": object()}], ids=["set", "nan", "object"]
)
def test_what_json_cannot_say_is_refused_when_it_is_written(args: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"JSON|not JSON compliant|json"):
        dump(State(messages=(Reply((Call("a", args, "1"),)),)))


@pytest.mark.parametrize("state", [State(messages=(5,)), State(messages=(Prompt((5,)),))])
def test_what_is_no_message_cannot_be_written(state: State) -> None:
    with pytest.raises(AssertionError):
        dump(state)


def test_arguments_that_are_too_deep_are_refused_when_they_are_written() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}

    with pytest.raises(ValueError, match="cannot be written"):
        dump(State(messages=(Reply((Call("a", deep, "1"),)),)))


# ---------------------------------------------------------------- what is no state

EMPTY = json.loads(dump(State()))


@pytest.mark.parametrize("version", [0, 2, 99, -1])
def test_a_state_of_another_version_is_not_read(version: int) -> None:
    with pytest.raises(Unreadable, match=f"a state of version {version}; this reads 1"):
        load(json.dumps({**EMPTY, "handrail": version}))


GARBAGE: dict[str, str] = {
    "nothing": "",
    "no JSON": "hello",
    "half": dump(State())[:-2],
    "a number": "5",
    "null": "null",
    "a list": "[]",
    "a string": '"handrail"',
    "no version": "{}",
    "deep": "[" * 100_000,
    "a lone half": '{"handrail": "\\ud800"}',
    **{
        f"{key}={value}": json.dumps({**EMPTY, key: value})
        for key, values in {
            "handrail": [None, "1", 1.0, True, [1]],
            "messages": [None, {}, "prompt", [5], [None], ["prompt"], [{}], [{"prompt": None}], [{"prompt": [{}]}], [{"prompt": [{"text": 5}]}], [{"prompt": [{"image": "?", "type": "a"}]}], [{"prompt": [{"image": "AA=="}]}], [{"prompt": [{"file": "AA==", "type": "a", "name": 1}]}], [{"reply": []}], [{"reply": [], "stop": "why", "usage": [0, 0, 0], "model": ""}], [{"reply": [], "stop": ["end"], "usage": [0, 0, 0], "model": ""}], [{"reply": [], "stop": "end", "usage": [0, 0, 0], "model": None}], [{"reply": [], "stop": "end", "usage": [0, 0], "model": ""}], [{"reply": [{"call": "a", "args": [], "id": "1"}], "stop": "end", "usage": [0, 0, 0], "model": ""}], [{"reply": [{"thought": "a", "sealed": None, "wire": ""}], "stop": "end", "usage": [0, 0, 0], "model": ""}], [{"reply": [{"cut": "a"}], "stop": "end", "usage": [0, 0, 0], "model": ""}], [{"reply": [{"text": []}], "stop": "end", "usage": [0, 0, 0], "model": ""}]],
            "waiting": [None, [5], [{}], [{"id": 1, "text": "", "parts": [], "data": None, "failure": None, "pending": None}], [{"id": "1", "text": "", "parts": [], "data": 5, "failure": None, "pending": None}], [{"id": "1", "text": "", "parts": [], "data": None, "failure": ["denied"], "pending": None}], [{"id": "1", "text": "", "parts": [], "data": None, "failure": ["sulking", "", ""], "pending": None}], [{"id": "1", "text": "", "parts": [], "data": None, "failure": None, "pending": {}}], [{"id": "1", "text": "", "parts": [], "data": None, "failure": None, "pending": False}], [{"id": "1", "text": "", "parts": [], "data": None, "failure": 0, "pending": None}]],
            "inbox": [None, [{"results": []}], [{"reply": []}]],
            "usage": [None, [], [0, 0], [0, 0, 0, 0], [0, 0, -1], [0, 0, 0.5], {"sent": 1}],
            "turns": [None, -1, 1.5, "1", True, float("inf"), float("nan")],
            "calls": [None, [], 1e300],
        }.items()
        for value in values
    },
}  # fmt: skip


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_no_state(name: str) -> None:
    with pytest.raises(Unreadable):
        load(GARBAGE[name])


@given(st.text() | PLAIN.map(json.dumps))
def test_whatever_is_no_state_is_unreadable_and_nothing_else(text: str) -> None:
    with pytest.raises(Unreadable):
        load(text)


@given(STATES, st.data())
def test_a_state_with_one_thing_changed_is_a_state_or_unreadable(
    state: State, data: st.DataObject
) -> None:
    plain = json.loads(dump(state))
    place: Any = plain
    while True:  # walk down to some place, and put something else there
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
        read = load(json.dumps(plain))
    except Unreadable:
        return
    assert load(dump(read)) == read


@given(STATES, st.integers(0))
def test_a_text_that_was_cut_off_is_unreadable(state: State, at: int) -> None:
    text = dump(state)

    with pytest.raises(Unreadable):
        load(text[: at % len(text)])


def test_words_of_the_refusal_name_no_file_and_no_line() -> None:
    with pytest.raises(Unreadable) as refused:
        load('{"handrail": 1}')

    assert str(refused.value) == snapshot("this is no state (KeyError: 'messages')")
