"""A reviewer: a second model that may allow a call, where a rule says so, and nothing a person must decide."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Annotated, Any, NamedTuple

import anyio
import pytest

import virtual_time
from approvals.questions import asked
from handrail import (
    DESTROY,
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Deny,
    Effect,
    Executor,
    Toolset,
    tool,
)
from handrail.agent import Agent, dump_state, load_state
from handrail.approvals import defer, reviewed_by
from handrail.events import Answered, Event, Reviewed
from handrail.messages import Delta, Reply, Request, TruncatedCall
from handrail.permissions import Answer, Approvers, Pending, Review
from handrail.policy import Rulebook
from handrail.sources import Own
from handrail.testing import ScriptedModel
from sources.letters import FRIEND, MAIL, STRANGER, make_mailbox, touch_nothing
from virtual_time import Quick

ALLOW = Call("review", {"decision": "allow", "reason": "The user asked for it."})
DOUBT = Call("review", {"decision": "ask", "reason": "Not sure."})
REVIEWED = """
version = 1

[[rule]]
id = "sending"
decide = "ask"
tools = ["send_mail"]
review = true
"""
TAKEN_BACK = """
[[rule]]
id = "a person decides"
decide = "ask"
tools = ["send_mail"]
"""


@dataclass(frozen=True)
class Row:
    """A room, whose title a stranger can write."""

    id: Annotated[str, Own]
    title: str


def send(to: str = FRIEND) -> Call:
    return Call("send_mail", {"to": to, "body": "Hello"})


class Watched(NamedTuple):
    """An executor with a mailbox, and what its reviewer and its person were asked."""

    box: Any
    executor: Executor
    model: ScriptedModel

    async def write(self, *to: str) -> list[Event]:
        """Send mails in one run, and return its events about requests."""
        feed = self.executor.events()
        async with self.executor:
            for number, address in enumerate(to):
                turn = self.executor.turn(str(number), run="R", said=[f"Write to {FRIEND}."])
                await self.executor.run(send(address), turn=turn)
        return [one async for one in feed if isinstance(one, Reviewed | Answered)]


def watch(*answers: Any, rules: str = REVIEWED, **options: Any) -> Watched:
    box, model = make_mailbox(), ScriptedModel(*answers)
    approver = reviewed_by(model, then=box.decline, **options)
    policy = Rulebook.from_toml(rules, mode="edits")
    return Watched(box, box.executor(policy=policy, approvals=approver), model)


@pytest.mark.anyio
async def test_a_reviewer_allows_a_call_and_the_answer_has_its_name() -> None:
    watched = watch(Reply((ALLOW,), model="small-1"))

    reviewed, answered = await watched.write(FRIEND)

    assert isinstance(reviewed, Reviewed)
    assert isinstance(answered, Answered)
    assert reviewed.review == Review("allow", "The user asked for it.", "small-1")
    assert (answered.answer.by, answered.answer.via) == ("small-1", "reviewer")  # type: ignore[union-attr]
    assert (watched.box.sent, watched.box.asked) == ([FRIEND], [])


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (DOUBT, "Not sure."),
        ("I allow it.", "the model did not give one answer"),
        (Reply((ALLOW, ALLOW)), "the model did not give one answer"),
        (Reply((ALLOW, Call("send_mail", {}))), "the model did not give one answer"),
        (Reply((TruncatedCall("review", "1"),)), "the model did not give one answer"),
        (Call("review", {"decision": "yes", "reason": ""}), "the model's answer is not valid"),
        (Call("review", {"decision": "allow"}), "the model's answer is not valid"),
        (ValueError("down"), "the model failed: ValueError"),
    ],
)
async def test_anything_but_one_valid_answer_is_left_to_the_person(
    answer: Any, reason: str
) -> None:
    watched = watch(answer)

    reviewed, _ = await watched.write(FRIEND)

    assert isinstance(reviewed, Reviewed)
    assert (reviewed.review.verdict, reviewed.review.reason) == ("ask", reason)
    assert (watched.box.sent, len(watched.box.asked)) == ([], 1)


@pytest.mark.anyio
async def test_a_run_over_its_budget_and_a_long_call_are_left_to_the_person() -> None:
    watched = watch(ALLOW, ALLOW, max_reviews=2)

    events = await watched.write(FRIEND, FRIEND, FRIEND)

    said = [one.review.reason for one in events if isinstance(one, Reviewed)]
    assert said == ["The user asked for it.", "The user asked for it.", "over its budget"]
    assert (watched.box.sent, len(watched.box.asked)) == ([FRIEND, FRIEND], 1)


@pytest.mark.anyio
@pytest.mark.parametrize(("end", "asked_model"), [("", 1), ("\u202e", 0), ("p\u0430y", 0)])
async def test_no_long_call_hides_a_character(end: str, asked_model: int) -> None:
    model = ScriptedModel(ALLOW)

    await reviewed_by(model, then=defer)(asked({"body": "x" * 12_000 + end}, review=True))

    assert len(model.requests) == asked_model


@pytest.mark.anyio
async def test_one_rule_takes_every_review_back() -> None:
    watched = watch(rules=REVIEWED + TAKEN_BACK)

    await watched.write(FRIEND)

    assert (watched.model.requests, len(watched.box.asked)) == ([], 1)


@pytest.mark.anyio
async def test_a_reviewer_sees_the_words_of_people_and_no_text_of_a_tool() -> None:
    @tool(effect=READ, touches=touch_nothing)
    def list_rooms() -> list[Row]:
        """List rooms."""
        return [Row("room-4711", "SECRET-TITLE")]

    @tool(
        effect=WRITE,
        touches=lambda room, **_: Access(WRITE, f"room:{room}"),
        headline=lambda **_: "SECRET-HEADLINE",
        preview=lambda **_: "SECRET-PREVIEW",
    )
    def book(room: str) -> str:
        """Book a room."""
        return room

    box = make_mailbox(list_rooms, book, mail=f"SECRET-MAIL {MAIL}")
    model = ScriptedModel(ALLOW)
    policy = Rulebook.from_toml(REVIEWED.replace("send_mail", "book"), mode="edits")
    executor = box.executor(policy=policy, approvals=reviewed_by(model, then=box.decline))
    calls = Call("read_mail", {}), Call("list_rooms", {}), Call("book", {"room": "room-4711"})
    agent = Agent(ScriptedModel(*calls, "done"), executor, system="SECRET-SYSTEM")

    await agent.run("Book me a room.")

    [request] = model.requests
    [prompt] = request.messages
    assert json.loads(prompt.parts[0].text) == {  # type: ignore[union-attr]
        "user": ["Book me a room."],
        "call": {
            "tool": "book",
            "arguments": {"room": "room-4711"},
            "effect": "write",
            "touches": ["write room:room-4711"],
            "grade": "unconfined",
            "sources": [
                {"value": "room-4711", "name": "room", "named_by": "the user's own systems"}
            ],
        },
    }
    assert "SECRET" not in request.system


@pytest.mark.anyio
async def test_a_deferred_request_keeps_in_another_process_that_a_model_may_answer() -> None:
    box = make_mailbox()
    policy = Rulebook.from_toml(REVIEWED, mode="edits")
    agent = Agent(ScriptedModel(send(), "done"), box.executor(policy=policy, approvals=defer))

    state = load_state(dump_state((await agent.run(f"Write to {FRIEND}.")).state))

    [pending] = state.pending
    again = Pending.from_json(pending.to_json())
    assert (again.review, again.said) == (True, (f"Write to {FRIEND}.",))
    assert again == pending
    answer = await reviewed_by(ScriptedModel(ALLOW), then=defer)(again)
    assert answer == Allow()
    assert await reviewed_by(ScriptedModel(DOUBT), then=defer)(again) == again


class Case(NamedTuple):
    """One call, by everything that decides whether a model may allow it."""

    decide: str
    review: bool
    once: bool
    needs_approval: bool
    limited: bool
    access: tuple[Effect, str]
    source: str

    @property
    def is_open(self) -> bool:
        """Whether a model may allow it."""
        reserved = self.once or self.needs_approval or self.limited
        known = self.source in ("person", "own", "none")
        lost = self.access[0] == DESTROY
        return self.decide == "ask" and self.review and not reserved and known and not lost

    def policy(self, call: CheckedCall) -> Decision:
        """Decide the call, and allow reading."""
        if call.name != "act" or self.decide == "allow":
            return Allow()
        if self.decide == "deny":
            return Deny("No.")
        approvers = Approvers((("boss",),)) if self.limited else Approvers()
        return Ask("Act?", None, self.once, (), approvers, review=self.review)


ACCESSES = ((WRITE, "thing"), (WRITE, "net"), (DESTROY, "thing"), (READ, "net"))
VALUES = {"person": "named-by-user", "own": "own-4711", "read": STRANGER, "nowhere": "made-up-1"}
EVERY_CASE = [
    Case(*one)
    for one in product(
        ("allow", "ask", "deny"),
        *[(False, True)] * 4,
        ACCESSES,
        (*VALUES, "none"),
    )
]


@cache
def make_tools(verb: Effect, scheme: str, *, needs_approval: bool) -> tuple[Toolset, list[str]]:
    """Return a tool that reads, and one that acts, with what it has done."""
    ran: list[str] = []

    @tool(effect=READ, touches=touch_nothing)
    async def read() -> Row:
        """Read."""
        return Row(VALUES["own"], MAIL)

    @tool(
        effect=verb,
        needs_approval=needs_approval,
        touches=lambda to, **_: Access(verb, f"{scheme}:{to}" if to else f"{scheme}:fixed"),
    )
    async def act(to: str) -> str:
        """Act."""
        ran.append(to)
        return "done"

    return Toolset(read, act), ran


async def play(case: Case, model: Callable[[Request], Any]) -> tuple[bool, bool]:
    """Return whether a call ran, and whether the person was asked. The person always says no."""
    asked = []

    async def person(pending: Pending) -> Answer:
        asked.append(pending)
        return Deny("No.")

    tools, ran = make_tools(*case.access, needs_approval=case.needs_approval)
    ran.clear()
    approver = reviewed_by(model, then=person, timeout=5)
    executor = Executor(tools, policy=Quick(case.policy), approvals=approver)
    async with executor:
        said = [f"Do it for {VALUES['person']}."]
        await executor.run(Call("read", {}, "c1"), turn=executor.turn("1", run="R", said=said))
        call = Call("act", {"to": VALUES.get(case.source, "")}, "c2")
        await executor.run(call, turn=executor.turn("2", run="R"))
    return bool(ran), bool(asked)


async def allow_everything(_request: Request) -> Reply:
    return Reply((ALLOW,))


def test_a_model_that_allows_everything_runs_only_what_is_open_to_it() -> None:
    async def main() -> list[tuple[Case, bool, bool]]:
        return [(case, *await play(case, allow_everything)) for case in EVERY_CASE]

    wrong = [
        (case, ran, asked)
        for case, ran, asked in virtual_time.run("asyncio", main)
        if ran is not (case.is_open or (case.decide == "allow" and not case.needs_approval))
    ]

    assert wrong == []
    assert sum(case.is_open for case in EVERY_CASE) == 9


async def hang(_request: Request) -> Reply:
    await anyio.sleep_forever()
    raise AssertionError


async def ignore_the_end(_request: Request) -> Reply:
    with anyio.CancelScope(shield=True):
        await anyio.sleep(60)
    return Reply((ALLOW,))


def quote(request: Request) -> Iterator[Any]:
    return iter([Delta(MAIL), Reply((ALLOW,))])


def stream_no_reply(_request: Request) -> Any:
    async def stream() -> Any:
        yield Delta(MAIL)

    return stream()


def make_garbage(chance: random.Random) -> Callable[[Request], Awaitable[Any]]:
    """Return a model whose reply is never one valid answer that allows."""
    letters = "".join(chance.choices('{}[]":,allow \n\0\u202e', k=chance.randrange(60)))
    parts: list[Any] = [
        Call(chance.choice(["review", "allow", ""]), letters),
        Call("review", {"decision": chance.choice(["ALLOW!", "deny", 1, None]), "reason": "x"}),
        Call("review", {"decision": ["allow"], "reason": letters, "more": 1}),
        TruncatedCall("review", "1", '{"decision": "allow"'),
    ]

    async def reply(_request: Request) -> Any:
        if chance.random() < 0.2:
            raise chance.choice([ValueError, RuntimeError, KeyError, TimeoutError])(MAIL)
        if chance.random() < 0.1:
            return chance.choice([None, "allow", {"decision": "allow"}, ALLOW, Allow()])
        return Reply(tuple(chance.choices(parts, k=chance.randrange(3))))

    return reply


def hostile_models(chance: random.Random) -> tuple[str, Callable[[Request], Any]]:
    kinds: dict[str, Callable[[Request], Any]] = {
        "allows": allow_everything,
        "hangs": hang,
        "ignores the end": ignore_the_end,
        "is no stream": quote,
        "sends no reply": stream_no_reply,
        "garbage": make_garbage(chance),
    }
    kind = chance.choice(list(kinds))
    return kind, kinds[kind]


@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.soak)])
def test_nothing_that_a_person_must_decide_runs_with_a_hostile_model(count: int) -> None:
    chance = random.Random(count)  # noqa: S311  the same cases each time
    open_cases = [case for case in EVERY_CASE if case.is_open]
    asks = [case for case in EVERY_CASE if case.decide == "ask"]
    wrong, ran_by_kind = [], set()

    async def main() -> None:
        for _ in range(count):
            case = chance.choice(open_cases if chance.random() < 0.5 else asks)
            kind, model = hostile_models(chance)
            ran, asked = await play(case, model)
            may_run = case.is_open and kind == "allows"
            if ran is not may_run or asked is (may_run or case.limited):
                wrong.append((case, kind, ran, asked))
            ran_by_kind.update([kind] if ran else [])

    virtual_time.run("asyncio", main)

    assert wrong == []
    assert ran_by_kind == {"allows"}
