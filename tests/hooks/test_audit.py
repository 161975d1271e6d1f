"""The audit: one line of JSON for every result, refused calls' too."""

from __future__ import annotations

import hashlib
import json

import pytest

from handrail import (
    READ,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Deny,
    Executor,
    Failure,
    FailureKind,
    Hook,
    Result,
    Toolset,
    tool,
)
from handrail.hooks import audit


@tool(effect=READ)
async def repeat(text: str, times: int = 1) -> str:
    """Repeat a text."""
    return text * times


TOOLS = Toolset(repeat)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def test_every_result_leaves_a_line_with_its_arguments_as_a_hash() -> None:
    lines: list[str] = []
    hook = audit(lines.append, clock=lambda: 7.5)
    async with Executor(TOOLS, hooks=[hook]) as executor:
        outcomes = await executor.run_all(
            [
                Call("repeat", '{"times": 2, "text": "ab\\n"}', "c1"),
                Call("repeat", {}, "c2"),
                Call("repeat", "{", "c3"),
                Call("sing", {"x": 1}, "c4"),
            ],
            turn=executor.turn("t1", run="r1"),
        )

    common = {"time": 7.5}
    assert lines[0].endswith("}\n")
    assert "\n" not in lines[0][:-1]
    assert sorted(map(json.loads, lines), key=lambda line: line["call_id"]) == [
        common | {"call_id": "c1", "name": "repeat", "args_sha256": sha('{"text":"ab\\n","times":2}'), "kind": "ok", "chars": 6, "run": "r1", "turn": "t1", "decision": "allow"},
        common | {"call_id": "c2", "name": "repeat", "args_sha256": sha("{}"), "kind": "bad_args", "chars": len(outcomes[1].text)},
        common | {"call_id": "c3", "name": "repeat", "args_sha256": sha("'{'"), "kind": "bad_args", "chars": len(outcomes[2].text)},
        common | {"call_id": "c4", "name": "sing", "args_sha256": sha('{"x":1}'), "kind": "unknown_tool", "chars": len(outcomes[3].text)},
    ]  # fmt: skip


async def test_the_arguments_stand_in_the_line_where_they_are_asked_for() -> None:
    lines: list[str] = []
    hook = audit(lines.append, args=True, clock=lambda: 1.0)
    async with Executor(TOOLS, hooks=[hook]) as executor:
        turn = executor.turn("t1", run="r1")
        outcome = await executor.run(Call("repeat", {"text": "é"}, "c1"), turn=turn)

    assert outcome == Result("c1", "é")
    assert list(map(json.loads, lines)) == [
        {"time": 1.0, "call_id": "c1", "name": "repeat", "args": '{"text":"\\u00e9"}', "kind": "ok", "chars": 1, "run": "r1", "turn": "t1", "decision": "allow"}
    ]  # fmt: skip


async def test_a_line_says_for_whom_it_was_and_what_was_decided_as_far_as_that_is_known() -> None:
    def policy(call: CheckedCall) -> Allow | Ask | Deny:
        return {"a": Allow(), "b": Ask("May it?"), "c": Deny("never")}[call.args["text"]]

    def answer(call: CheckedCall) -> CheckedCall | Result:
        return call.refuse("not now") if call.args["times"] == 2 else call

    lines: list[str] = []
    hooks = [audit(lines.append, clock=lambda: 1.0), Hook(before=answer)]
    async with Executor(TOOLS, policy=policy, hooks=hooks) as executor:
        turn = executor.turn("t1", run="r1", principal="ada")
        for n, args in enumerate([{"text": "a"}, {"text": "b"}, {"text": "c"}]):
            await turn.run(Call("repeat", args, f"c{n}"))
        await turn.run(Call("repeat", {"text": "a", "times": 2}, "c3"))

    said = [json.loads(line) for line in lines]
    assert [[one["kind"], one["principal"], one.get("decision")] for one in said] == [
        ["ok", "ada", "allow"],
        ["denied", "ada", "ask"],
        ["denied", "ada", "deny"],
        ["denied", "ada", None],
    ]


async def test_what_really_happened_reaches_neither_the_line_nor_the_model() -> None:
    @tool(effect=READ)
    async def broken() -> str:
        """Break."""
        raise OSError("password=hunter2")

    lines: list[str] = []
    async with Executor(Toolset(broken), hooks=[audit(lines.append)]) as executor:
        outcome = await executor.run(Call("broken", {}, "c1"))

    assert outcome.failure is not None
    assert "hunter2" in outcome.failure.detail
    assert "hunter2" not in outcome.text + "".join(lines)


@pytest.mark.parametrize("args", [{"a": object}, {1: 2, "b": 3}, '{"a": ' + "[" * 100_000])
async def test_arguments_that_are_no_json_are_audited_all_the_same(args: object) -> None:
    lines: list[str] = []
    async with Executor(TOOLS, hooks=[audit(lines.append)]) as executor:
        outcome = await executor.run(Call("repeat", args, "c1"))  # type: ignore[arg-type]

    assert [json.loads(line)["kind"] for line in lines] == ["bad_args"]
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.BAD_ARGS


async def test_a_result_that_could_not_be_audited_is_withheld() -> None:
    def full(_line: str) -> None:
        raise OSError("disk full")

    async with Executor(TOOLS, hooks=[audit(full)]) as executor:
        outcome = await executor.run(Call("repeat", {"text": "a"}, "c1"))

    message = "Result withheld: a check after the call failed (OSError). The call may have taken effect: check before you call it again. Tell the user."
    failure = Failure(FailureKind.BUG, message, "OSError('disk full')")
    assert outcome == Result("c1", message, failure=failure)
