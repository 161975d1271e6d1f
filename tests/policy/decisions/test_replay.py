"""The policy bench: what was recorded, judged again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Deny,
    Executor,
    Hook,
    Tool,
    Toolset,
    tool,
    writes_file,
)
from handrail.events import Decided, Event, Requested
from handrail.permissions import Decision, Edit, Origin, Pending
from handrail.policy import Change, Level, Recorded, Rulebook, parse, recorded_calls, replay


@tool(effect=WRITE)
async def bash(command: str) -> str:
    """Run a line."""
    return command


@tool(effect=WRITE, touches=lambda path, **_: writes_file(path))
async def save(path: str, times: int = 1) -> str:
    """Save a file."""
    return path


@tool(effect=READ)
async def look() -> str:
    """Look around."""
    return "nothing"


TOOLS = Toolset(bash, save, look)


def book(*bodies: str) -> Rulebook:
    text = "\n".join(f"[[rule]]\n{body}\n" for body in bodies)
    return Rulebook(parse(text, file="r.toml", level=Level.USER).rules)


async def heard(executor: Executor, calls: Sequence[Call]) -> list[Event]:
    events: list[Event] = []

    async def listen() -> None:
        events.extend([event async for event in executor.events()])

    async with anyio.create_task_group() as tasks, executor:
        tasks.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        await executor.run_all(calls)
    return events


def line(text: str, call_id: str) -> Call:
    return Call("bash", {"command": text}, call_id)


CALLS = [
    line("ls", "1"),
    line("git push", "2"),
    Call("save", '{"path": "src/a.py"}', "3"),
    Call("look", {}, "4"),
]
OLD = ("decide = 'allow'\ncommand = 'ls'", "decide = 'deny'\ncommand = 'git push'")


async def test_calls_are_recorded_with_what_they_touch_and_how_they_were_judged() -> None:
    policy = book(*OLD)
    made = recorded_calls(await heard(Executor(TOOLS, policy=policy), CALLS), TOOLS)
    touched = [
        (Access(WRITE, "*"),),
        (Access(WRITE, "*"),),
        (writes_file("src/a.py"),),
        (Access(READ, "*"),),
    ]
    specs = [bash.spec, bash.spec, save.spec, look.spec]

    assert sorted(made, key=lambda one: one.call.id) == [
        Recorded(call, spec, accesses, policy(CheckedCall.recorded(call, spec, accesses)))
        for call, spec, accesses in zip(CALLS, specs, touched, strict=True)
    ]


async def test_the_same_rules_change_nothing() -> None:
    made = recorded_calls(await heard(Executor(TOOLS, policy=book(*OLD)), CALLS), TOOLS)

    assert replay(made, book(*OLD)) == ()


async def test_other_rules_change_what_they_change_and_the_change_tells_how() -> None:
    made = recorded_calls(await heard(Executor(TOOLS, policy=book(*OLD)), CALLS), TOOLS)
    new = book(
        "decide = 'deny'\ncommand = 'ls'",
        "id = 'src'\ndecide = 'allow'\naccess = 'write file:src/**'",
        "decide = 'ask'\ntools = 'look'",
    )
    changes = sorted(replay(made, new), key=lambda one: one.recorded.call.id)

    assert [str(one) for one in changes] == [
        "bash {'command': 'ls'}: allow -> deny by deny ls (r.toml:1)",
        "bash {'command': 'git push'}: deny -> ask by mode ask",
        'save {"path": "src/a.py"}: ask -> allow by src (r.toml:5)',
        "look {}: allow -> ask by ask look (r.toml:10)",
    ]
    assert [one.recorded for one in changes] == sorted(made, key=lambda one: one.call.id)


def test_a_change_without_an_origin_says_what_it_knows() -> None:
    one = Recorded(Call("look", {}, "1"), look.spec, (), Ask("May it?"))

    assert str(Change(one, Allow())) == "look {}: ask -> allow"


def test_a_change_is_one_of_the_verdict_and_not_of_the_words() -> None:
    def silent(_call: CheckedCall) -> Decision:
        return Deny("Never.", Origin("other"))

    one = Recorded(Call("look", {}, "1"), look.spec, (), Deny("No."))

    assert replay([one], silent) == ()


async def test_calls_of_tools_that_are_gone_or_never_were_are_left_out() -> None:
    events = await heard(
        Executor(TOOLS, policy=book()),
        [*CALLS, Call("nothing", {}, "5"), Call("save", {"path": 5}, "6")],
    )

    assert {one.call.id for one in recorded_calls(events, TOOLS)} == {"1", "2", "3", "4"}
    assert {one.call.id for one in recorded_calls(events, Toolset(save))} == {"3"}


def test_a_judgement_of_which_the_call_was_not_heard_is_left_out() -> None:
    judged = Decided(0.0, "1", (), Allow())

    assert recorded_calls([judged], TOOLS) == ()
    assert recorded_calls([Requested(0.0, Call("look", {}, "1")), judged], TOOLS) == (
        Recorded(Call("look", {}, "1"), look.spec, (), Allow()),
    )


def test_a_call_under_a_tools_old_name_is_recorded_with_the_tool() -> None:
    tools = Toolset(
        Tool(**{**_fields(look), "spec": replace(look.spec, name="see", aliases=("look",))})
    )
    events = [Requested(0.0, Call("look", {}, "1")), Decided(0.0, "1", (), Allow())]

    assert [one.spec.name for one in recorded_calls(events, tools)] == ["see"]


def _fields(one: Tool[Any, Any]) -> dict[str, Any]:
    return {
        name: getattr(one, name)
        for name in one.__dataclass_fields__
        if one.__dataclass_fields__[name].init
    }


async def test_a_call_that_a_hook_rewrote_is_judged_again_as_it_was_judged() -> None:
    async def rewrite(call: CheckedCall) -> Call:
        return call.with_args(command="git push")

    policy = book(*OLD)
    events = await heard(
        Executor(TOOLS, policy=policy, hooks=[Hook(before=rewrite)]), [line("ls", "1")]
    )

    assert replay(recorded_calls(events, TOOLS), policy) == ()


async def test_a_call_that_was_mended_is_judged_again_as_it_was_judged() -> None:
    policy = book("decide = 'deny'\nargs = { times = 5 }", "decide = 'allow'\ntools = 'save'")
    events = await heard(
        Executor(TOOLS, policy=policy), [Call("save", '{"path": "a", "times": "5"}', "1")]
    )
    [one] = recorded_calls(events, TOOLS)

    assert isinstance(one.decision, Deny)
    assert replay([one], policy) == ()


async def test_a_call_that_somebody_edited_is_judged_again_as_it_was_asked_about() -> None:
    async def edit(pending: Pending) -> Edit:
        return Edit({"command": "ls"})

    policy = book(*OLD)
    events = await heard(Executor(TOOLS, policy=policy, approvals=edit), [line("npm test", "1")])

    assert replay(recorded_calls(events, TOOLS), policy) == ()


@pytest.mark.parametrize("decision", [Allow(), Ask("May it?"), Deny("No.")])
def test_every_verdict_can_be_replayed_against_every_other(decision: Decision) -> None:
    one = Recorded(Call("look", {}, "1"), look.spec, (), decision)
    others: list[Decision] = [Allow(), Ask("Really?"), Deny("Never.")]

    changes = [replay([one], lambda *_, now=now: now) for now in others]
    assert changes == [() if type(now) is type(decision) else (Change(one, now),) for now in others]


@tool(effect=READ, touches=lambda **_: (), private=True)
async def read_mail() -> str:
    """Read the user's mail."""
    return "From Bo: the code is 463820."


@tool(effect=WRITE, touches=lambda to, **_: Access(WRITE, f"email:{to}"))
async def send(to: str) -> str:
    """Send a mail."""
    return to


async def test_the_rule_of_two_decides_recorded_calls_by_what_was_read_before() -> None:
    anything = "decide = 'allow'\neffects = ['read', 'write']"
    tools, events = Toolset(read_mail, send), list[Event]()
    executor = Executor(tools, policy=book(anything))

    async def listen() -> None:
        events.extend([event async for event in executor.events()])

    async with anyio.create_task_group() as tasks, executor:
        tasks.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        for number, name in enumerate(["send", "read_mail", "send"]):
            turn = executor.turn(str(number), run="R", said=["Write to bo@x.com."])
            args = {"to": "bo@x.com"} if name == "send" else {}
            await executor.run(Call(name, args, f"c{number}"), turn=turn)
    made = recorded_calls(events, tools)
    two = book(anything, "decide = 'ask'\ntools = 'send'\nafter = ['read', 'private']")

    read = {"read": "send (call c0)"}
    assert [one.after for one in made] == [{}, read, read | {"private": "read_mail (call c1)"}]
    assert [change.recorded.call.id for change in replay(made, two)] == ["c2"]
    assert replay([replace(one, after={}) for one in made], two) == ()


async def test_an_edited_call_is_recorded_with_what_was_read_before() -> None:
    async def redirect(pending: Pending) -> Edit | Allow:
        return Edit({"to": "eve@x.com"}) if "bo@" in str(pending.call.args) else Allow()

    tools, events = Toolset(read_mail, send), list[Event]()
    rules = book("decide = 'allow'\ntools = 'read_mail'", "decide = 'ask'\ntools = 'send'")
    executor = Executor(tools, policy=rules, approvals=redirect)

    async def listen() -> None:
        events.extend([event async for event in executor.events()])

    async with anyio.create_task_group() as tasks, executor:
        tasks.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        turn = executor.turn("1", run="R", said=["Write to bo@x.com."])
        await executor.run(Call("read_mail", {}, "c1"), turn=turn)
        await executor.run(Call("send", {"to": "bo@x.com"}, "c2"), turn=turn)
    named = [
        (one.checked.args.get("to"), [each.kind for each in one.sources], dict(one.after))
        for one in recorded_calls(events, tools)
    ]

    after = {"read": "read_mail (call c1)", "private": "read_mail (call c1)"}
    assert named == [
        (None, [], {}),
        ("bo@x.com", ["person"], after),
        ("eve@x.com", ["nowhere"], after),
    ]
