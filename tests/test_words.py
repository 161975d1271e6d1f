"""The words: frozen values that compare, replace and refuse nonsense."""

from __future__ import annotations

import dataclasses
import pickle
import re

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
    CallLimits,
    Context,
    DefinitionError,
    Deny,
    Effect,
    Exposure,
    Failure,
    FailureKind,
    Fault,
    File,
    Finding,
    HandrailError,
    Hook,
    Image,
    LongResults,
    NeedsLogin,
    Refused,
    Result,
    Retry,
    Spec,
    StopRun,
    Text,
    ToolFailed,
    Transient,
    Unknown,
    events,
    permissions,
)
from handrail.events import ToolsChanged
from handrail.permissions import (
    Approvers,
    CommandPart,
    Edit,
    Explanation,
    FileChange,
    Grade,
    Matched,
    Origin,
    Pending,
    Review,
    Undoable,
)

PENDING = Pending(
    run_id="r1",
    turn_id="t1",
    key="r1/t1/c1",
    position=0,
    round=0,
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
    FileChange("a", "old", None),
    Allow(),
    Ask("Go on?"),
    CommandPart(0, 2, Grade.UNKNOWN),
    Undoable(("build",), "Undo cannot restore: build."),
    Call("add", {"a": 1}, "c1"),
    Deny("not here"),
    Failure(FailureKind.BAD_ARGS, "no"),
    File(b"%PDF", "application/pdf", "a.pdf"),
    Finding("add", "rule", "words"),
    Image(b"\x89PNG"),
    Retry(),
    Spec(name="add", description="Add.", input_schema={"type": "object"}),
    Text("3"),
    ToolsChanged(generation=1, added=("add",)),
    events.Requested(1.0, Call("add", "{}", "c1")),
    events.Decided(1.0, "c1", (Access(READ, "*"),), Allow()),
    PENDING,
    Edit({"a": 2}),
    Explanation(
        call=Call("add", "{}", "c1"), matched=(Matched("ask", Origin("mode ask", kind="mode")),)
    ),
    Matched("deny", Origin("no-env", "rules.toml", 3), "secrets"),
    Origin("no-env", "rules.toml", 3),
    Approvers((("leads",),), not_requester=True, count=2),
    events.Asked(1.0, PENDING),
    Review("ask", "not sure", "small"),
    events.Reviewed(1.0, PENDING.id, "c1", Review("ask", "not sure", "small")),
    events.Answered(1.0, PENDING.id, "c1", Edit({"a": 2})),
    events.Waiting(1.0, "c2", ("c1",)),
    events.Started(1.0, "c1", 1),
    events.Progressed(1.0, "c1", "half"),
    events.CredentialUsed(1.0, "c1", "github", "alice"),
    events.AttemptFailed(1.0, "c1", 1, FailureKind.TRANSIENT, "busy", 0.5),
    events.Stored(1.0, "c1", 100_000),
    events.Finished(2.0, Result("c1", "3")),
    events.Yielded(1.0, "c1", "a piece"),
    events.Lost(3),
    CallLimits(timeout=5.0),
    LongResults(reader="always"),
    Hook(),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_word_is_a_frozen_slotted_value_that_survives_pickling(value: object) -> None:
    assert dataclasses.is_dataclass(value)
    assert not hasattr(value, "__dict__")
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301  made on the line itself
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, None)


def test_a_context_is_a_slotted_value_that_survives_pickling() -> None:
    value = Context(call_id="c1", idempotency_key="k1", deps=["a"], metadata={"tenant": "t1"})

    assert not hasattr(value, "__dict__")
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301  made on the line above


def test_every_public_dataclass_but_tool_is_among_them() -> None:
    words = {
        value
        for module in (handrail, events, permissions)
        for name in module.__all__
        if isinstance(value := getattr(module, name), type) and dataclasses.is_dataclass(value)
    }

    # functions, a ledger, and one for each attempt at a call, which is made too often to be frozen
    with_a_life = {handrail.Tool, handrail.Approvals, Context}
    assert words - with_a_life == {type(value) for value in VALUES}


def test_a_call_without_an_id_gets_one_of_its_own() -> None:
    calls = [Call("add", {"a": 1}) for _ in range(100)]

    assert len({call.id for call in calls}) == 100
    assert [call.id for call in calls if not re.fullmatch("call_[0-9a-f]{24}", call.id)] == []
    assert dataclasses.replace(calls[0], args="{}").id == calls[0].id
    assert Call("add", "{}", "c1").id == "c1"


def test_effects_are_ordered() -> None:
    assert READ < WRITE < DESTROY
    assert [effect.name for effect in Effect] == ["READ", "WRITE", "DESTROY"]


def test_exposures_are_four() -> None:
    assert [one.value for one in Exposure] == ["direct", "deferred", "search", "hidden"]


def test_each_kind_of_failure_says_whose_fault_it_is() -> None:
    assert {kind.value: kind.fault for kind in FailureKind} == {
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
    assert Failure(FailureKind.BAD_ARGS, "no") == Failure("bad_args", "no")  # type: ignore[arg-type]


def test_a_result_reads_as_its_words_and_holds_its_parts() -> None:
    parts = (Text("one"), Image(b"\x89PNG"), Text("two"))

    assert Result("c1", "one\ntwo", parts).content == parts
    assert Result("c1", "3").content == (Text("3"),)
    assert Result.fail("c1", FailureKind.DENIED, "not here", "rule 3") == Result(
        "c1", "not here", failure=Failure(FailureKind.DENIED, "not here", "rule 3")
    )


def test_a_result_cannot_be_changed_and_survives_pickling() -> None:
    result = Result("c1", "3")

    with pytest.raises(AttributeError):
        result.text = "4"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301  made on the line above
    rich = Result("c1", "3", (Text("3"),), "3", None, PENDING, {"cost": 1}, 0.5)
    back = pickle.loads(pickle.dumps(rich))  # noqa: S301  made on the line above
    assert (type(back), tuple(back)) == (Result, tuple(rich))


def test_how_long_a_call_ran_is_not_part_of_its_result() -> None:
    quick, slow = Result("c1", "3", seconds=0.1), Result("c1", "3", seconds=9.0)
    other = Result("c1", "3", metadata={"cost": 1})

    assert (quick == slow, quick != slow, hash(quick) == hash(slow)) == (True, False, True)
    assert (quick == other, quick != other, len({quick, slow, other})) == (False, True, 2)
    assert (quick == tuple(quick), tuple(quick) == quick, quick != tuple(quick)) == (
        False,
        False,
        True,
    )
    assert (quick == "3", quick != "3") == (False, True)
    assert (quick.seconds, slow.seconds, quick._replace(text="4").seconds) == (0.1, 9.0, 0.1)


def test_the_metadata_of_a_result_is_empty_and_cannot_be_changed_by_mistake() -> None:
    with pytest.raises(TypeError):
        Result("c1", "3").metadata["cost"] = 1  # type: ignore[index]
    assert Result("c1", "3").metadata == {}


def test_a_result_is_shown_without_what_it_does_not_have() -> None:
    assert [
        repr(Result("c1", "3", seconds=0.5)),
        repr(Result("c1", "3", metadata={"cost": 1})),
    ] == [
        "Result(call_id='c1', text='3', parts=(), data=None, failure=None, pending=None)",
        "Result(call_id='c1', text='3', parts=(), data=None, failure=None, pending=None, metadata={'cost': 1})",
    ]


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("a" * 4, 1), ("a" * 5, 2)])
def test_the_size_of_a_result_in_tokens_is_estimated(text: str, tokens: int) -> None:
    assert Result("c1", text).tokens == tokens


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"base": -1.0}, {"base": 2.0, "cap": 1.0}])
def test_a_retry_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="use attempts >= 1"):
        Retry(**wrong)  # type: ignore[arg-type]


def test_what_a_tool_and_a_hook_may_raise_are_errors_of_handrail_with_their_message() -> None:
    raised = [
        ToolFailed("no"),
        Refused("never"),
        Transient("busy", retry_after=2.0),
        Unknown("may have happened"),
        NeedsLogin("Sign in first."),
        NeedsLogin("Sign in first.", url="https://example.org/login"),
        StopRun("enough"),
    ]

    assert [str(error) for error in raised if isinstance(error, HandrailError)] == [
        "no",
        "never",
        "busy",
        "may have happened",
        "Sign in first.",
        "Sign in first.",
        "enough",
    ]
    assert [error.url for error in raised if isinstance(error, NeedsLogin)] == [
        "",
        "https://example.org/login",
    ]


def test_an_alias_may_not_stand_twice() -> None:
    with pytest.raises(DefinitionError, match="one alias twice"):
        Spec(name="add", description="", input_schema={}, aliases=("plus", "plus"))


def test_canonical_bytes_sort_keys_and_keep_unicode() -> None:
    assert Args({}, '{ "b": [1, 2.0], "a": "é" }').canonical == '{"a":"é","b":[1,2.0]}'.encode()
