"""One scenario, every way of running it: what comes of it must be the same.

Calls run one by one, as a list, added to a turn, from a stream, from another thread, or asked about
and answered later in another executor. What a tool does depends on the call's id and the attempt
alone, so that order does not matter. Compared are results, the events of each call, what tools, hooks
and policies saw, and that the caller's context variables are as before.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from random import Random
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Approvals,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Context,
    Decision,
    Deny,
    Executor,
    Hook,
    LongResults,
    Refused,
    Registry,
    Result,
    Retry,
    Spec,
    Tool,
    ToolFailed,
    Toolset,
    Transient,
    Turn,
    Unknown,
    tool,
)
from handrail._execution import invoke
from handrail._execution import tasks as tasks_module
from handrail._execution.running import RequestedCall
from handrail._permissions import deciding
from handrail._permissions.decide import decide
from handrail._turn.event_feed import EventFeed, Listeners
from handrail.events import (
    Answered,
    Asked,
    AttemptFailed,
    Decided,
    Event,
    Finished,
    Requested,
    Waiting,
)
from handrail.permissions import Answer, Edit, MemoryLedger, Pending
from scenarios import (
    AS_LONG_AS_IT_TAKES,
    SCENARIOS,
    WHO,
    Found,
    call_id_of,
    check_all,
    dice,
    finds,
    quiet,
    same_every_time,
    some,
)

BACKENDS = ("asyncio", "trio")
AGAIN = Retry(attempts=3, base=0.0)
NOTE = re.compile(r"\n\[Note: .*?\.\]", re.DOTALL)

# -- the tools: what each does for a call is in the call's plan ------------------------------------

STEPS = ("wait", "set", "change", "tell")
ENDS = (
    *["value"] * 8,
    *["transient"] * 4,
    *["boom", "failed", "refused", "unknown", "wrong", "long", "none"],
    *["cancelled", "group", "closed", "stopped", "exit"],
)


class Boom(Exception):
    pass


@dataclass(frozen=True)
class Plan:
    """What a tool does for one call, and how each attempt ends."""

    steps: tuple[str, ...]
    ends: tuple[str, ...]

    def end_of(self, attempt: int) -> str:
        return self.ends[min(attempt, len(self.ends)) - 1]


def touched(words: list[str], **_: object) -> list[Access]:
    return [Access(WRITE, f"word:{word.encode().hex()}") for word in words]


class Tools:
    """One tool of every kind; what it saw goes into the world's trace."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.attempts: Counter[str] = Counter()

    def _begin(self, call: str, words: list[str], n: int) -> tuple[Plan, int]:
        self.attempts[call] += 1
        attempt = self.attempts[call]
        self.world.see(call, "tool", attempt, tuple(words), n)
        return self.world.scenario.plans[call], attempt

    async def _act(self, call: str, words: list[str], n: int, context: Any = None) -> Any:
        plan, attempt = self._begin(call, words, n)
        for step in plan.steps:
            if step == "wait":
                await checkpoint()
            else:
                _take_step(step, words, context)
        return _end(plan.end_of(attempt), call, words, n)

    def _act_in_thread(self, call: str, words: list[str], n: int, context: Any = None) -> Any:
        plan, attempt = self._begin(call, words, n)
        for step in plan.steps:
            _take_step(step, words, context)
        return _end(plan.end_of(attempt), call, words, n)

    @tool(effect=READ)
    async def look(self, call: str, words: list[str], n: int = 1) -> str:
        return await self._act(call, words, n)

    @tool(effect=READ, retry=AGAIN, aliases=["seek"])
    async def search(self, call: str, words: list[str], n: int = 1):  # noqa: ANN201  promises nothing
        return await self._act(call, words, n)

    @tool(effect=WRITE, touches=touched, idempotent=True, retry=AGAIN)
    async def put(self, call: str, words: list[str], n: int = 1) -> str:
        return await self._act(call, words, n)

    @tool(effect=WRITE)
    async def change(self, context: Context, call: str, words: list[str], n: int = 1) -> str:
        return await self._act(call, words, n, context)

    @tool(effect=READ, exclusive=True, retry=AGAIN)
    async def alone(self, context: Context, call: str, words: list[str], n: int = 1):  # noqa: ANN201
        return await self._act(call, words, n, context)

    @tool(effect=WRITE, needs_approval=True)
    async def pay(self, call: str, words: list[str], n: int = 1) -> str:
        return await self._act(call, words, n)

    @tool(effect=READ, retry=AGAIN)
    def count(self, call: str, words: list[str], n: int = 1) -> str:
        return self._act_in_thread(call, words, n)

    @tool(effect=WRITE, touches=touched)
    def write(self, context: Context, call: str, words: list[str], n: int = 1):  # noqa: ANN201
        return self._act_in_thread(call, words, n, context)

    @tool(effect=READ, retry=AGAIN)
    async def pieces(self, call: str, words: list[str], n: int = 1) -> AsyncIterator[str]:
        yield "first\n"
        yield str(await self._act(call, words, n))

    @tool(effect=WRITE)
    def lines(self, call: str, words: list[str], n: int = 1) -> Iterator[str]:
        yield "first\n"
        yield str(self._act_in_thread(call, words, n))

    def remote(self) -> Tool[..., Any]:
        words = {"type": "array", "items": {"type": "string"}}
        schema = {
            "type": "object",
            "properties": {"call": {"type": "string"}, "words": words, "n": {"type": "integer"}},
            "required": ["call", "words"],
        }

        def send(args: dict[str, Any], context: Context) -> Any:
            if args.get("n") == 3:
                raise Boom("no line")  # before there is anything to await
            return self._act(args["call"], args["words"], args.get("n", 1), context)

        spec = Spec(name="far", description="Far.", input_schema=schema, effect=READ, retry=AGAIN)
        return Tool.remote(spec, send)


NAMES = "look search seek put change alone pay count write pieces lines far look search put nope".split()


def _take_step(step: str, words: list[str], context: Context | None) -> None:
    if step == "set":
        WHO.set("a tool")
    elif step == "change":
        words.append("changed")
    elif step == "tell" and context is not None:
        context.progress("half", 0.5)


def _end(end: str, call: str, words: list[str], n: int) -> Any:
    errors: dict[str, BaseException] = {
        "transient": Transient("busy"),
        "boom": Boom("boom"),
        "failed": ToolFailed("no such word"),
        "refused": Refused("not that one"),
        "unknown": Unknown("the line broke"),
        "cancelled": asyncio.CancelledError(),
        "group": ExceptionGroup("both", [ToolFailed("one"), ToolFailed("two")]),
        "closed": GeneratorExit(),
        "stopped": StopIteration(),
        "exit": SystemExit(1),
    }
    if end in errors:
        raise errors[end]
    values = {"wrong": 7.5, "long": "a line\n" * 60, "none": None}
    return values.get(end, f"{call} {words} {n}")


# -- scenarios -------------------------------------------------------------------------------------

BEFORE = (
    "pass apass wait rewrite arewrite answer refuse boom aboom nothing set aset stop other twice"
).split()
AFTER = "pass apass wait rewrite arewrite boom aboom nothing set aset stop other".split()
AROUND = ("pass", "wait", "cache", "boom", "late boom", "set", "nothing")
POLICIES = (*["none"] * 3, "allow", "deny", "ask", "ask", "boom", "nothing")
ANSWERS = ("yes", "yes", "no", "edit", "bad edit", "result", "boom", "nothing")


@dataclass(frozen=True)
class Scenario:
    seed: int
    calls: tuple[Call, ...]
    plans: dict[str, Plan]
    hooks: tuple[tuple[str, str, str], ...]
    """Of each hook, what it does before, after and around calls; empty, where it does not stand."""
    marked: frozenset[str]
    """The calls that hooks and policies treat in their special way."""
    policy: str
    answers: dict[str, str]
    max_chars: int
    max_running: int


def make_scenario(seed: int) -> Scenario:
    rng = dice(seed)
    ids = [f"c{place}" for place in range(rng.randint(1, 5))]
    return Scenario(
        seed=seed,
        calls=tuple(Call(rng.choice(NAMES), _make_args(rng, one), one) for one in ids),
        plans={one: _make_plan(rng) for one in ids},
        hooks=tuple(_make_hook(rng) for _ in range(rng.choice((0, 0, 1, 1, 2)))),
        marked=frozenset(one for one in ids if some(rng, 0.6)),
        policy=rng.choice(POLICIES),
        answers={one: rng.choice(ANSWERS) for one in ids},
        max_chars=rng.choice((250, 20_000)),
        max_running=rng.choice((1, 2, 128)),
    )


def _make_plan(rng: Random) -> Plan:
    steps = tuple(rng.choice(STEPS) for _ in range(rng.randint(0, 3)))
    return Plan(steps, tuple(rng.choice(ENDS) for _ in range(3)))


def _make_hook(rng: Random) -> tuple[str, str, str]:
    before = rng.choice(BEFORE) if some(rng, 0.7) else ""
    after = rng.choice(AFTER) if some(rng, 0.6) else ""
    return before, after, rng.choice(AROUND) if some(rng, 0.3) else ""


def _make_args(rng: Random, call: str) -> dict[str, Any] | str:
    named = f'"call": "{call}"'
    return rng.choice(
        (
            f'{{{named}, "words": ["a", "b"]}}',
            f'{{{named}, "words": [], "n": 3}}',
            f'{{"words" : ["a:b"],  {named}, "n":2}}',
            f'{{{named}, "words": ["q\\"u", "\\u00e9"], "n": 0}}',
            f'{{{named}, "words": ["a"], "words": ["b"]}}',
            f'{{{named}, "words": "a"}}',
            f'{{{named}, "n": 1}}',
            f'{{{named}, "words": ["a"], "n": "5"}}',
            f'{{{named}, "words": "[\\"a\\", \\"c\\"]"}}',
            f'{{{named}, "words": ["a"], "n": null}}',
            f"{{{named}, bad",
            {"call": call, "words": ["d", "e"], "n": 4},
            {"call": call, "words": ["a"], "more": 1},
        )
    )


# -- what everybody saw ----------------------------------------------------------------------------


@dataclass
class World:
    """One run of a scenario: its hooks and policies, and the trace that they leave, call by call."""

    scenario: Scenario
    trace: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    events: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    defers: bool = False

    def see(self, call: str, what: str, *facts: Any) -> None:
        self.trace[call].append((what, *facts, WHO.get()))

    def make_executor(self, *, over_registry: bool) -> Executor:
        methods = Tools(self)
        tools: Toolset | Registry = Toolset.from_object(methods) | Toolset(methods.remote())
        if over_registry:
            registry = Registry()
            registry.add(tools, name="all")
            tools = registry
        return Executor(
            tools,
            policy=None if self.scenario.policy == "none" else self.policy,
            approvals=Approvals(approver=self.approver, ledger=self.ledger),
            hooks=[self.hook(place, *kinds) for place, kinds in enumerate(self.scenario.hooks)],
            limits=CallLimits(max_running=self.scenario.max_running),
            long_results=LongResults(max_result_chars=self.scenario.max_chars),
            clock=lambda: 0.0,
        )

    def policy(self, checked: CheckedCall) -> Decision:
        args = {**checked.args}
        self.see(checked.id, "policy", checked.call, checked.accesses, str(args))
        args.get("words", []).append("changed by the policy")
        kind = self.scenario.policy if checked.id in self.scenario.marked else "allow"
        decisions: dict[str, Any] = {"deny": Deny("no"), "ask": Ask("may it?"), "nothing": None}
        if kind == "boom":
            raise Boom
        return decisions.get(kind, Allow())

    async def approver(self, pending: Pending) -> Answer | Pending:
        if self.defers:
            return pending
        self.see(pending.call.id, "approver", plain_pending(pending))
        await checkpoint()
        return self.answer(pending)

    def answer(self, pending: Pending) -> Any:
        call = pending.call.id
        kind = self.scenario.answers[call] if pending.round == 0 else "yes"
        if kind == "boom":
            no = Deny("Not run: the approval request failed (Boom). Tell the user.")
            return no if self.defers else _raise(Boom())
        edited = {"call": call, "words": ["edited"]}
        answers: dict[str, Any] = {
            "yes": Allow(),
            "no": Deny("nobody wants that"),
            "edit": Edit(edited),
            "bad edit": Edit({"call": call}),
            "result": Result(call, "done by hand"),
        }
        return answers.get(kind)

    def hook(self, place: int, before: str, after: str, around: str) -> Hook:
        return Hook(
            before=self.before(place, before) if before else None,
            after=self.after(place, after) if after else None,
            around=self.around(place, around) if around else None,
        )

    def before(self, place: int, kind: str) -> Any:
        def hook(checked: CheckedCall) -> Any:
            self.see(
                checked.id, f"before {place}", checked.call, checked.accesses, checked.decision
            )
            return _act_before(kind, checked) if checked.id in self.scenario.marked else checked

        return _waits(hook) if kind[0] in "aw" and kind != "answer" else hook

    def after(self, place: int, kind: str) -> Any:
        def hook(checked: CheckedCall | Call, result: Result) -> Any:
            seen = (plain_result(result), getattr(checked, "decision", None))
            self.see(checked.id, f"after {place}", *seen)
            return _act_after(kind, result) if checked.id in self.scenario.marked else result

        return _waits(hook) if kind[0] in "aw" else hook

    def around(self, place: int, kind: str) -> Any:
        async def hook(checked: CheckedCall, go: Callable[[], Any]) -> Any:
            self.see(checked.id, f"around {place}", checked.call, checked.decision)
            if checked.id not in self.scenario.marked:
                return await go()
            return await _act_around(kind, checked, go)

        return hook


def _raise(error: Exception) -> Any:
    raise error


def _waits(hook: Callable[..., Any]) -> Callable[..., Any]:
    async def waiting(*args: Any) -> Any:
        await checkpoint()
        return hook(*args)

    return waiting


def _act_before(kind: str, checked: CheckedCall) -> Any:
    if kind.endswith("boom"):
        raise Boom
    if kind == "stop":
        raise StopIteration(checked)
    if kind.endswith("set"):
        WHO.set("a hook before")
    answers: dict[str, Callable[[], Any]] = {
        "rewrite": lambda: checked.with_args(words=["rewritten"]),
        "arewrite": lambda: checked.with_args(words="rewritten"),
        "twice": lambda: replace(checked.call, args=str(checked.call.args) + " "),
        "answer": lambda: checked.answer("by a hook"),
        "refuse": lambda: checked.refuse("by a hook"),
        "nothing": lambda: None,
        "other": lambda: Call(checked.name, "{}", "another"),
    }
    return answers.get(kind, lambda: checked)()


def _act_after(kind: str, result: Result) -> Any:
    if kind.endswith("boom"):
        raise Boom
    if kind == "stop":
        raise StopIteration(result)
    if kind.endswith("set"):
        WHO.set("a hook after")
    if kind.endswith("rewrite"):
        return result._replace(text=f"{result.text} (seen)")
    if kind == "other":
        return result._replace(call_id="another")
    return None if kind == "nothing" else result


async def _act_around(kind: str, checked: CheckedCall, go: Callable[[], Any]) -> Any:
    if kind == "boom":
        raise Boom
    if kind == "cache":
        return checked.answer("remembered")
    if kind == "wait":
        await checkpoint()
    if kind == "set":
        WHO.set("a hook around")
    result = await go()
    if kind == "late boom":
        raise Boom
    return None if kind == "nothing" else result


# -- the ways --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """All that came of a scenario, as values that can be compared."""

    results: list[Any]
    events: dict[str, list[Any]]
    trace: dict[str, list[Any]]


async def by_run(world: World, executor: Executor) -> list[Result]:
    return [await executor.run(call) for call in world.scenario.calls]


async def by_run_all(world: World, executor: Executor) -> list[Result]:
    return await executor.run_all(world.scenario.calls)


async def by_adding(world: World, executor: Executor) -> list[Result]:
    turn = executor.turn()
    for call in world.scenario.calls:
        turn.add(call)
    return await turn.results()


async def by_stream(world: World, executor: Executor) -> list[Result]:
    async def stream() -> AsyncIterator[Call]:
        for call in world.scenario.calls:
            yield call
            await checkpoint()

    turn = executor.turn()
    await turn.add_from(stream())
    return await turn.results()


async def by_turn_run(world: World, executor: Executor) -> list[Result]:
    turn = executor.turn()
    return [await turn.run(call) for call in world.scenario.calls]


WAYS = (by_run_all, by_run, by_adding, by_stream, by_turn_run)


async def observe(scenario: Scenario, way: Any, *, over_registry: bool) -> Outcome:
    """Run a scenario one way, in this task."""
    WHO.set("caller")
    world, variables = World(scenario), dict(copy_context())
    async with world.make_executor(over_registry=over_registry) as executor:
        feed = executor.events()
        results = await way(world, executor)
        _check_nothing_is_left(executor)
    _check_variables(variables)
    await _read(feed, world)
    return _outcome(world, results)


async def observe_deferred(scenario: Scenario, *, over_registry: bool) -> Outcome:
    """Ask, and answer later, in another executor for each round of answers."""
    WHO.set("caller")
    world, variables = World(scenario, defers=True), dict(copy_context())
    results: dict[str, Result] = {}
    waiting: list[str] | None = None
    while waiting is None or waiting:
        async with world.make_executor(over_registry=over_registry) as executor:
            feed = executor.events()
            turn = executor.turn("turn", run="run")
            _go_on(world, turn, waiting)
            results |= {result.call_id: result for result in await turn.results()}
            waiting = [pending.to_json() for pending in turn.pending]
            _check_nothing_is_left(executor)
        await _read(feed, world)
    _check_variables(variables)
    return _outcome(world, [results[call.id] for call in scenario.calls])


def _go_on(world: World, turn: Turn[Any], waiting: list[str] | None) -> None:
    if waiting is None:
        turn.add(*world.scenario.calls)
        return
    again = [Pending.from_json(text) for text in waiting]
    dice(world.scenario.seed).shuffle(again)
    turn.adopt(*again)
    for pending in again:
        turn.answer(pending, _asked_later(world, pending))


def _asked_later(world: World, pending: Pending) -> Any:
    """What the host answers; like an executor, it takes what is no answer for a no."""
    if not pending.question:
        world.see(pending.call.id, "goes on")
        return None
    world.see(pending.call.id, "approver", plain_pending(pending))
    answer = world.answer(pending)
    none = Deny("Not run: the approver returned an invalid answer. Tell the user.")
    return none if answer is None else answer


def observe_in_thread(scenario: Scenario, *, over_registry: bool, at_once: bool) -> Outcome:
    """Run a scenario from this thread, in an event loop that another one has."""
    WHO.set("caller")
    world, variables = World(scenario), dict(copy_context())
    executor = world.make_executor(over_registry=over_registry)
    with executor.in_thread() as run:
        feed = executor.events()
        calls = scenario.calls
        results = run.run_all(calls) if at_once else [run(call) for call in calls]
    _check_nothing_is_left(executor)
    _check_variables(variables)
    anyio.run(_read, feed, world)
    return _outcome(world, results)


def _check_nothing_is_left(executor: Executor) -> None:
    inside = executor._pipeline  # noqa: SLF001
    if inside.live or not inside.ordering.is_empty:
        raise Found("a call has its result, and something of it is left")


def _check_variables(before: dict[Any, Any]) -> None:
    after = dict(copy_context())
    changed = [name for name in before | after if before.get(name) is not after.get(name)]
    if changed:
        raise Found(f"context variables of the caller were changed: {changed}")


async def _read(feed: EventFeed, world: World) -> None:
    feed.close()
    async for event in feed:
        world.events[call_id_of(event)].append(event)


# -- what must be equal ----------------------------------------------------------------------------


def _outcome(world: World, results: list[Result]) -> Outcome:
    _check_trace(world)
    return Outcome(
        [plain_result(result) for result in results],
        {call: _plain_events(events) for call, events in world.events.items()},
        dict(world.trace),
    )


def plain_result(result: Result) -> Any:
    """A result without what differs by nature: tracebacks, how long it took, where it waits."""
    failure = replace(result.failure, detail="") if result.failure is not None else None
    pending = plain_pending(result.pending) if result.pending is not None else None
    return (result.call_id, result.text, result.parts, result.data, failure, pending)


def plain_pending(pending: Pending) -> Any:
    left_out = {"run_id", "turn_id", "key", "position", "after"}
    return tuple(getattr(pending, one.name) for one in fields(pending) if one.name not in left_out)


def _plain_events(events: list[Event]) -> list[Any]:
    return [_plain_event(event) for event in events if not isinstance(event, Waiting)]


def _plain_event(event: Event) -> Any:
    match event:
        case Finished():
            facts: Any = plain_result(event.result)
        case Asked():
            facts = plain_pending(event.pending)
        case Answered():
            facts = (event.call_id, _without_detail(event.answer))
        case Decided():
            facts = (event.call_id, event.accesses, _without_detail(event.decision), event.call)
        case _:
            facts = event
    return type(event), facts


def _without_detail(answer: Any) -> Any:
    return replace(answer, detail="") if isinstance(answer, Deny) else answer


def _as_if_asked_at_once(outcome: Outcome) -> Outcome:
    """What must be equal for calls that were put off: who waits is decided and told of again.

    What a hook before the question set is gone with the executor that asked it, and so is the note
    of a repair, since the question was about the call as repaired.
    """
    return Outcome(
        [_without_note(result) for result in outcome.results],
        {call: _told_once(events) for call, events in outcome.events.items()},
        {call: _seen_once(seen) for call, seen in outcome.trace.items()},
    )


def _told_once(events: list[Any]) -> list[Any]:
    kept = [one for one in events if one[0] not in (Requested, Decided)]
    kept = [one for one in kept if one[0] is not Finished or one[1][-1] is None]
    first = [one for one in events if one[0] in (Requested, Decided)][:2]
    return first + [
        (kind, _without_note(facts)) if kind is Finished else (kind, facts) for kind, facts in kept
    ]


def _seen_once(seen: list[Any]) -> list[Any]:
    kept = [one[:-1] for one in seen if one[0] not in ("policy", "approver", "goes on")]
    kept = [one for one in kept if not (one[0].startswith("after") and one[1][-1] is not None)]
    return [_seen_plainly(one) for one in kept]


def _seen_plainly(one: Any) -> Any:
    if one[0].startswith("after"):
        return one[0], _without_note(one[1])
    return one[:2] if one[0].startswith("around") else one


def _without_note(result: Any) -> Any:
    call, text, parts, data, failure, pending = result
    return call, NOTE.sub("", text), parts, data, failure, pending


def _check_trace(world: World) -> None:
    """Check what holds for every way: who saw which context, and how often."""
    for call in world.scenario.calls:
        seen, events = world.trace[call.id], world.events[call.id]
        requested = [event.call for event in events if isinstance(event, Requested)]
        if requested[0] is not call:
            raise Found(f"{call} was requested, and told was {requested[0]}")
        if any(one[-1] == "a tool" for one in seen):
            raise Found(f"what a tool set was seen by another: {seen}")
        if not any(hook[0] == "answer" for hook in world.scenario.hooks):
            _check_policy(seen, call)
        _check_attempts(seen, events, call)


def _check_policy(seen: list[Any], call: Call) -> None:
    """A policy is asked once, and again only after somebody has spoken."""
    for one, other in pairwise(seen):
        if one[0] == other[0] == "policy" and one == other:
            raise Found(f"the policy was asked twice about {call}: {seen}")


def _check_attempts(seen: list[Any], events: list[Event], call: Call) -> None:
    attempts = [one for one in seen if one[0] == "tool"]
    if len({one[2:] for one in attempts}) > 1:
        raise Found(f"an attempt was given other arguments than the first: {attempts}")
    failed = [event for event in events if isinstance(event, AttemptFailed)]
    if attempts and len(attempts) != len(failed) + 1:
        raise Found(f"{len(failed)} failed attempts of {call} were told, and made: {attempts}")


def _compare(base: Outcome, other: Outcome, how: str) -> None:
    for one, two in zip(base.results, other.results, strict=True):
        if one != two:
            raise Found(f"{how}, another result\n  {one}\n  {two}")
    for name in ("events", "trace"):
        ones, others = getattr(base, name), getattr(other, name)
        for call in ones | others:
            if ones.get(call) != others.get(call):
                both = [*map(str, ones.get(call, ())), "but", *map(str, others.get(call, ()))]
                raise Found(f"{how}, another {name} of {call}\n  " + "\n  ".join(both))


def check_ways(seed: int, backend: str = "asyncio") -> None:
    """Check that a scenario comes to the same by every way of one loop."""
    scenario = make_scenario(seed)
    odd = seed % 2 == 1

    async def main() -> None:
        base = await observe(scenario, by_run_all, over_registry=False)
        for place, way in enumerate(WAYS):
            other = await observe(scenario, way, over_registry=(place % 2 == 0) is not odd)
            _compare(base, other, way.__name__)
        later = await observe_deferred(scenario, over_registry=odd)
        _compare(_as_if_asked_at_once(base), _as_if_asked_at_once(later), "answered later")

    with same_every_time(seed), quiet():
        anyio.run(main, backend=backend)


def check_threads_and_loops(seed: int) -> None:
    """Check that a scenario comes to the same in another thread, and in another loop."""
    scenario = make_scenario(seed)
    outcomes = {}
    with same_every_time(seed), quiet():
        for backend in BACKENDS:

            async def main() -> Outcome:
                return await observe(scenario, by_run_all, over_registry=False)

            outcomes[backend] = anyio.run(main, backend=backend)
        for at_once in (True, False):
            how = "in a thread, " + ("as a list" if at_once else "one by one")
            outcomes[how] = observe_in_thread(scenario, over_registry=at_once, at_once=at_once)
    for how, outcome in outcomes.items():
        _compare(outcomes["asyncio"], outcome, how)


@AS_LONG_AS_IT_TAKES
def test_every_way_of_running_calls_comes_to_the_same() -> None:
    check_all(check_ways, range(SCENARIOS))


@AS_LONG_AS_IT_TAKES
def test_every_way_of_running_calls_comes_to_the_same_on_trio() -> None:
    check_all(lambda seed: check_ways(seed, "trio"), range(0, SCENARIOS, 4))


@AS_LONG_AS_IT_TAKES
def test_other_threads_and_other_loops_come_to_the_same() -> None:
    check_all(check_threads_and_loops, range(0, SCENARIOS, 3))


# -- a broken core is found out --------------------------------------------------------------------


def hand_out_changed_arguments(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(invoke, "_args_again", lambda running, _tool: running.checked.parsed)


def ask_the_policy_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deciding, "decide", lambda *asked: decide(*asked) and decide(*asked))


def tell_the_rewritten_call_as_requested(patch: pytest.MonkeyPatch) -> None:
    real = Listeners.emit

    def emit(self: Listeners, record: RequestedCall, kind: Any, *facts: Any) -> None:
        if kind is Requested and record.call.name != "nope":
            return
        running = record.running
        if kind is Decided and running is not None and running.checked.decision is not None:
            real(self, record, Requested, running.checked.call)
        real(self, record, kind, *facts)

    patch.setattr(Listeners, "emit", emit)


def run_tools_in_the_context_of_their_callers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RequestedCall, "own_context", lambda _: copy_context())
    patch.setattr(invoke, "start", lambda work, _context: (False, work))


def let_hooks_set_variables_of_single_callers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tasks_module, "in_context", lambda work, _context: work)


BROKEN = (
    hand_out_changed_arguments,
    ask_the_policy_twice,
    tell_the_rewritten_call_as_requested,
    run_tools_in_the_context_of_their_callers,
    let_hooks_set_variables_of_single_callers,
)


@pytest.mark.parametrize("break_it", BROKEN)
def test_a_broken_core_is_found_out(break_it: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)

    assert finds(check_ways, range(300))
