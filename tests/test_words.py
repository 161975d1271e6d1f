"""The words: frozen values that compare, replace and refuse nonsense."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

import handrail
from handrail import (
    DESTROY,
    READ,
    WRITE,
    Access,
    Allow,
    Args,
    Ask,
    Call,
    Context,
    DefinitionError,
    Deny,
    Effect,
    Exposure,
    Failure,
    Fault,
    File,
    Finding,
    Image,
    Kind,
    Result,
    Retry,
    Spec,
    Text,
    events,
    judgement,
)
from handrail.events import ToolsChanged
from handrail.judgement import Edit, Explanation, Matched, Origin, Pending

PENDING = Pending(
    id="p1",
    call=Call("add", "{}", "c1"),
    effect=READ,
    accesses=(Access(READ, "*"),),
    question="May it?",
    fingerprint="00",
    asked_at=1.0,
    expires_at=2.0,
)
VALUES = [
    Access(READ, "file:a"),
    Allow(),
    Args({"a": 1}, '{"a":1}'),
    Ask("Go on?"),
    Call("add", {"a": 1}, "c1"),
    Context(call_id="c1", idempotency_key="k1"),
    Deny("not here"),
    Failure(Kind.BAD_ARGS, "no"),
    File(b"%PDF", "application/pdf", "a.pdf"),
    Finding("add", "rule", "words"),
    Image(b"\x89PNG"),
    Retry(),
    Spec(name="add", description="Add.", input_schema={"type": "object"}),
    Text("3"),
    ToolsChanged(generation=1, added=("add",)),
    events.Requested(1.0, Call("add", "{}", "c1")),
    events.Judged(1.0, "c1", (Access(READ, "*"),), Allow()),
    PENDING,
    Edit({"a": 2}),
    Explanation(call=Call("add", "{}", "c1"), matched=(Matched("ask", Origin("mode ask")),)),
    Matched("deny", Origin("no-env", "rules.toml", 3), "secrets"),
    Origin("no-env", "rules.toml", 3),
    events.Asked(1.0, PENDING),
    events.Answered(1.0, "p1", "c1", Edit({"a": 2})),
    events.Waiting(1.0, "c2", ("c1",)),
    events.Started(1.0, "c1", 1),
    events.Progressed(1.0, "c1", "half"),
    events.AttemptFailed(1.0, "c1", 1, Kind.TRANSIENT, "busy", 0.5),
    events.Stored(1.0, "c1", 100_000),
    events.Finished(2.0, Result("c1", "3")),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_word_is_a_frozen_slotted_value_that_survives_pickling(value: object) -> None:
    assert dataclasses.is_dataclass(value)
    assert not hasattr(value, "__dict__")
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301  made on the line itself
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, None)


def test_every_public_dataclass_but_tool_is_among_them() -> None:
    words = {
        value
        for module in (handrail, events, judgement)
        for name in module.__all__
        if isinstance(value := getattr(module, name), type) and dataclasses.is_dataclass(value)
    }

    assert words - {handrail.Tool} == {type(value) for value in VALUES}


def test_effects_are_ordered() -> None:
    assert READ < WRITE < DESTROY
    assert [effect.name for effect in Effect] == ["READ", "WRITE", "DESTROY"]


def test_exposures_are_three() -> None:
    assert [one.value for one in Exposure] == ["direct", "deferred", "hidden"]


def test_each_kind_of_failure_says_whose_fault_it_is() -> None:
    assert {kind.value: kind.fault for kind in Kind} == {
        "unknown_tool": Fault.MODEL,
        "bad_args": Fault.MODEL,
        "stale": Fault.MODEL,
        "denied": Fault.PERSON,
        "pending": Fault.PERSON,
        "transient": Fault.WORLD,
        "timeout": Fault.WORLD,
        "cancelled": Fault.WORLD,
        "unknown": Fault.WORLD,
        "failed": Fault.TOOL,
        "bug": Fault.AUTHOR,
    }


def test_a_kind_equals_its_stable_string() -> None:
    assert Failure(Kind.BAD_ARGS, "no") == Failure("bad_args", "no")  # type: ignore[arg-type]


def test_a_result_reads_as_its_words_and_holds_its_parts() -> None:
    parts = (Text("one"), Image(b"\x89PNG"), Text("two"))

    assert Result("c1", "one\ntwo", parts).content == parts
    assert Result("c1", "3").content == (Text("3"),)
    assert Result.fail("c1", Kind.DENIED, "not here", "rule 3") == Result(
        "c1", "not here", failure=Failure(Kind.DENIED, "not here", "rule 3")
    )


def test_a_result_cannot_be_changed_and_survives_pickling() -> None:
    result = Result("c1", "3")

    with pytest.raises(AttributeError):
        result.text = "4"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301  made on the line above


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"base": -1.0}, {"base": 2.0, "cap": 1.0}])
def test_a_retry_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="it takes attempts >= 1"):
        Retry(**wrong)  # type: ignore[arg-type]


def test_an_alias_may_not_stand_twice() -> None:
    with pytest.raises(DefinitionError, match="one alias twice"):
        Spec(name="add", description="", input_schema={}, aliases=("plus", "plus"))


def test_canonical_bytes_sort_keys_and_keep_unicode() -> None:
    assert Args({}, '{ "b": [1, 2.0], "a": "é" }').canonical == '{"a":"é","b":[1,2.0]}'.encode()
