"""Random turns under fire: whatever is cancelled, closed, broken or answered late, these things hold.

Three callers share one executor, each with a context variable and turns of its own. Calls conflict,
fail, hang, outlive their deadlines and call their own executor; questions are answered later, in any
order. Meanwhile somebody cancels or closes, at any tick. Afterwards every call has exactly one
result, nothing was done twice, at the wrong time or in another's name, and nothing is left.
"""

# ruff: noqa: SLF001  it looks whether anything is left inside, and breaks what is there

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any

import anyio
import pytest
import trio
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
    FailureKind,
    Hook,
    NeedsLogin,
    Result,
    Retry,
    StopRun,
    ToolFailed,
    Toolset,
    Transient,
    Turn,
    tool,
)
from handrail._execution import invoke, tasks
from handrail._execution.hooks import Hooks
from handrail._execution.ordering import Ordering
from handrail._execution.pipeline import Pipeline
from handrail._execution.running import (
    Group,
    RequestedCall,
    RunningCall,
    Waits,
    mark_pending,
)
from handrail._execution.tasks import Tasks
from handrail._schedule.schedule import Schedule
from handrail._support.loop import spawn
from handrail.events import Event, Finished, Requested
from handrail.permissions import Edit, MemoryLedger, Pending
from scenarios import (
    AS_LONG_AS_IT_TAKES,
    SCENARIOS,
    WHO,
    Found,
    call_id_of,
    check_all,
    dice,
    finds,
    run,
    some,
)
from virtual_time import Quick

BACKENDS = ("asyncio", "trio")
CALLERS = ("alice", "bob", "carol")
MARK: ContextVar[str] = ContextVar("mark", default="")
"""Set by hooks and tools, to the key of their call: nobody else may see it."""
FOREVER = 100_000.0
PATIENT = 1_000.0
"""Seconds for a call that nothing needs in vain, unless it hangs."""
IDLE = 0.01
"""Real seconds for which threads must do nothing before virtual time goes on."""

# -- scenarios -------------------------------------------------------------------------------------

TOOLS = {
    "read": READ,
    "write": WRITE,
    "sweep": WRITE,
    "alone": READ,
    "few": WRITE,
    "slow": READ,
    "again": READ,
    "pieces": READ,
    "thread": WRITE,
    "lines": READ,
    "nest": WRITE,
    "nest_thread": WRITE,
}
IN_THREADS = ("thread", "lines", "nest_thread")
PLACES = ("res:a", "res:a/1", "res:b", "res:c")
ENDS = (*["value"] * 7, "failed", "boom", "login")
INNERMOST = (*["pass"] * 4, "wait", "wait", "nap", "mark")
BEFORE = (*INNERMOST, "rewrite", "answer", "boom", "hang", "stop", "look")
AFTER = (*INNERMOST, "boom", "hang", "look")
AROUND = (*INNERMOST, "cache", "boom", "late boom", "look")
ANSWERS = (
    "yes",
    "yes",
    "no",
    "later",
    "later",
    "later",
    "never",
    "boom",
    "edit",
    "slowly",
    "slowly later",
)
WAYS = ("run", "run_all", "add", "add", "stream", "streamed", "tasks")
OPERATIONS = "call call turn turn all view task task close kill free".split()


@dataclass(frozen=True)
class Plan:
    """What becomes of one call, as far as it is not disturbed."""

    key: str
    """Caller, turn and place; those of inner calls go on."""
    id: str
    tool: str
    on: tuple[str, ...]
    ticks: int = 0
    nap: float = 0.0
    end: str = "value"
    decision: str = "allow"
    answer: str = "yes"
    before: str = "pass"
    after: str = "pass"
    around: str = "pass"
    inner: tuple[Plan, ...] = ()
    way: str = "run"
    """How a tool makes its inner calls."""
    is_known: bool = False
    """Whether its result was recorded before."""

    @property
    def who(self) -> str:
        return self.key.partition("/")[0]

    @property
    def call(self) -> Call:
        return Call(self.tool, {"key": self.key, "on": list(self.on)}, self.id)

    def family(self) -> Iterator[Plan]:
        yield self
        for one in self.inner:
            yield from one.family()


@dataclass(frozen=True)
class TurnPlan:
    key: str
    way: str
    plans: tuple[Plan, ...]
    through_view: bool
    listens: bool

    @property
    def who(self) -> str:
        return self.key.partition("/")[0]


@dataclass(frozen=True)
class Operation:
    """Something that somebody does to the executor, after so many ticks."""

    kind: str
    ticks: int
    nap: float
    target: float
    """Which caller, turn or call it is done to, as a fraction of all."""


@dataclass(frozen=True)
class Scenario:
    seed: int
    turns: tuple[TurnPlan, ...]
    operations: tuple[Operation, ...]
    has: frozenset[str]
    """The places where hooks stand."""
    limits: CallLimits
    frees: str
    """When threads that do not end by themselves are set free."""

    @property
    def plans(self) -> list[Plan]:
        return [one for turn in self.turns for plan in turn.plans for one in plan.family()]

    @property
    def has_threads(self) -> bool:
        return any(plan.tool in IN_THREADS for plan in self.plans)


def make_scenario(seed: int) -> Scenario:
    rng = dice(seed)
    make = Maker(rng)
    callers = CALLERS[: rng.choice((1, 2, 3, 3))]
    turns = [make.turn(f"{who}/{n}") for who in callers for n in range(rng.choice((1, 1, 2)))]
    return Scenario(
        seed=seed,
        turns=tuple(turns),
        operations=tuple(make.operation() for _ in range(rng.choice((0, 1, 1, 2, 3)))),
        has=frozenset(one for one in ("before", "after", "around") if some(rng, 0.4)),
        limits=CallLimits(
            timeout=rng.choice((20.0, PATIENT, PATIENT)),
            hook_timeout=1.0,
            max_running=rng.choice((1, 2, 128)),
            max_running_per_tool={"few": rng.choice((1, 2))},
        ),
        frees=rng.choice(("soon", "soon", "late", "after closing")),
    )


def is_known(turn: TurnPlan, plan: Plan) -> bool:
    """Whether a call has its result already: the first of its id, and not one that runs alone."""
    first = next(one for one in turn.plans if one.id == plan.id)
    return plan.is_known and first is plan and turn.way not in ("run", "tasks")


class Maker:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.asks = rng.choice((0.0, 0.0, 0.3, 0.6))
        self.threads = some(rng, 0.3)
        self.names = [name for name in TOOLS if self.threads or name not in IN_THREADS]

    def turn(self, key: str) -> TurnPlan:
        rng = self.rng
        ids = [f"c{place}" for place in range(rng.randint(1, 6))]
        if some(rng, 0.1):
            ids[-1] = ids[0]
        plans = [self.plan(f"{key}/{place}", one, 0) for place, one in enumerate(ids)]
        way = rng.choice(WAYS)
        if some(rng, 0.2):
            plans, way = [self.question(plan) for plan in plans], "add"
        return TurnPlan(key, way, tuple(plans), some(rng, 0.2), some(rng, 0.2))

    def question(self, plan: Plan) -> Plan:
        """A plain call that is asked about, most often: answers and their order are all there is."""
        rng = self.rng
        decision, answer = (
            rng.choice(("ask", "ask", "allow")),
            rng.choice(("later", "slowly later")),
        )
        name = rng.choice(("read", "write", "write"))
        return Plan(plan.key, plan.id, name, plan.on, decision=decision, answer=answer)

    def plan(self, key: str, call_id: str, depth: int) -> Plan:
        rng = self.rng
        name = rng.choice(self.names) if some(rng, 0.97) else "nope"
        inner: list[Plan] = []
        if name in ("nest", "nest_thread") and depth < 2:
            inner = [self.plan(f"{key}/{n}", f"i{n}", depth + 1) for n in range(rng.randint(1, 3))]
        return Plan(
            key=key,
            id=call_id,
            tool=name,
            on=tuple(rng.sample(PLACES, rng.choice((1, 1, 2)))),
            ticks=rng.randint(0, 4),
            nap=rng.choice((0.0, 0.0, 0.0, 0.5, 10.0)),
            end=rng.choice(ENDS),
            decision="ask" if some(rng, self.asks) else "deny" if some(rng, 0.05) else "allow",
            answer=rng.choice(ANSWERS),
            before=rng.choice(BEFORE if depth == 0 else INNERMOST),
            after=rng.choice(AFTER),
            around=rng.choice(AROUND),
            inner=tuple(inner),
            way=rng.choice(("run", "run_all", "turn")),
            is_known=depth == 0 and some(rng, 0.05),
        )

    def operation(self) -> Operation:
        rng = self.rng
        nap = rng.choice((0.0, 0.0, 0.0, 0.3, 1.5))
        return Operation(rng.choice(OPERATIONS), rng.randint(0, 13), nap, rng.random())


# -- the tools -------------------------------------------------------------------------------------


def reads(on: list[str], **_: object) -> list[Access]:
    return [Access(READ, place) for place in on]


def writes(on: list[str], **_: object) -> list[Access]:
    return [Access(WRITE, place) for place in on]


def touched_by(name: str, on: Iterable[str]) -> list[Access]:
    """What a call touches."""
    return [Access(WRITE, "*")] if name == "sweep" else [Access(TOOLS[name], one) for one in on]


def conflict(ones: list[Access], others: list[Access]) -> bool:
    return any(one.conflicts(other) for one in ones for other in others)


class Tools:
    """Each acts as the plan of its call says, and notes when it began and when it ended."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.signed_in: set[str] = set()

    async def _act(self, key: str, on: list[str]) -> str:
        plan = self.world.plans[key]
        with self.world.acting(key, on):
            for _ in range(plan.ticks):
                await checkpoint()
            if plan.nap and plan.tool != "slow":
                await anyio.sleep(min(plan.nap, 0.5))
            elif plan.nap:
                await anyio.sleep(plan.nap)
            await self._call_inner(plan)
            return self._end(plan)

    async def _call_inner(self, plan: Plan) -> None:
        executor = self.world.executor
        calls = [one.call for one in plan.inner]
        if plan.way == "run":
            for call in calls:
                await executor.run(call)
        elif plan.way == "run_all":
            await executor.run_all(calls)
        else:
            turn = executor.turn()
            turn.add(*calls)
            await turn.results()

    def _end(self, plan: Plan) -> str:
        if plan.end == "failed":
            raise ToolFailed("no")
        if plan.end == "boom":
            raise ValueError("boom")
        if plan.end == "login" and not plan.inner and plan.key not in self.signed_in:
            self.signed_in.add(plan.key)
            raise NeedsLogin("Sign in.")
        return plan.key

    def _act_in_thread(self, key: str, on: list[str]) -> str:
        plan = self.world.plans[key]
        with self.world.acting(key, on):
            if plan.nap:  # it does not end by itself, and nobody can stop it
                self.world.free.wait(20)
            for one in plan.inner:
                self.world.executor.run_sync(one.call)
            return self._end(plan)

    @tool(effect=READ, touches=reads)
    async def read(self, key: str, on: list[str]) -> str:
        return await self._act(key, on)

    @tool(effect=WRITE, touches=writes)
    async def write(self, key: str, on: list[str]) -> str:
        return await self._act(key, on)

    @tool(effect=WRITE)
    async def sweep(self, key: str, on: list[str]) -> str:
        return await self._act(key, on)

    @tool(effect=READ, touches=reads, exclusive=True)
    async def alone(self, key: str, on: list[str]) -> str:
        return await self._act(key, on)

    @tool(effect=WRITE, touches=writes)
    async def few(self, context: Context, key: str, on: list[str]) -> str:  # noqa: ARG002
        return await self._act(key, on)

    @tool(effect=READ, touches=reads, timeout=5.0)
    async def slow(self, key: str, on: list[str]) -> str:
        return await self._act(key, on)

    @tool(effect=READ, touches=reads, retry=Retry(attempts=3, base=0.0))
    async def again(self, context: Context, key: str, on: list[str]) -> str:
        said = await self._act(key, on)
        on.append("res:changed")
        if context.attempt < 3:
            raise Transient("not yet")
        return said

    @tool(effect=READ, touches=reads)
    async def pieces(self, key: str, on: list[str]) -> AsyncIterator[str]:
        yield await self._act(key, on)

    @tool(effect=WRITE, touches=writes)
    def thread(self, key: str, on: list[str]) -> str:
        return self._act_in_thread(key, on)

    @tool(effect=READ, touches=reads)
    def lines(self, key: str, on: list[str]) -> Iterator[str]:
        yield self._act_in_thread(key, on)

    @tool(effect=WRITE, touches=writes)
    async def nest(self, key: str, on: list[str]) -> str:
        return await self._act(key, on)

    @tool(effect=WRITE, touches=writes)
    def nest_thread(self, key: str, on: list[str]) -> str:
        return self._act_in_thread(key, on)


# -- what happens ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """That a tool ran: from when to when, as places in the log."""

    key: str
    on: tuple[str, ...]
    began: int
    ended: int


class World:
    """One run of a scenario: those who call, decide, answer and disturb, and what they noted."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.rng = dice(scenario.seed)
        self.plans = {plan.key: plan for plan in scenario.plans}
        self.problems: list[str] = []
        self.log: list[tuple[Any, ...]] = []
        self.busy: Counter[str] = Counter()
        """Tools and hooks that are at work now."""
        self.free = threading.Event()
        """Set when threads that do not end by themselves may."""
        self.added: dict[str, list[Plan]] = defaultdict(list)
        self.groups: list[list[str]] = []
        self.results: dict[str, list[Result]] = defaultdict(list)
        self.told: dict[tuple[str, str], list[Event]] = defaultdict(list)
        self.answered: Counter[tuple[str, str]] = Counter()
        self.disturbed: set[str] = set()
        """Keys of calls that may have been cancelled."""
        self.loosened: set[str] = set()
        """Keys of calls that were edited or answered elsewhere: their place in the order is free."""
        self.refused: set[str] = set()
        """Keys of calls that were refused when they were answered."""
        self.scopes: dict[str, anyio.CancelScope] = {}
        self.closed = False
        self.closed_early = False
        self.executor = self._make_executor()
        self.view = self.executor.restrict(*TOOLS, policy=Quick(lambda _: Allow()))
        self.turns = {one.key: self._make_turn(one) for one in scenario.turns}

    def _make_executor(self) -> Executor:
        hooks = {"before": self.before, "after": self.after, "around": self.around}
        return Executor(
            Toolset.from_object(Tools(self)),
            policy=Quick(self.policy),
            approvals=Approvals(approver=self.approver, timeout=3.0),
            hooks=[Hook(**{place: hooks[place]}) for place in sorted(self.scenario.has)],
            limits=self.scenario.limits,
            clock=lambda: 0.0,
        )

    def _make_turn(self, plan: TurnPlan) -> Turn[None]:
        executor = self.view if plan.through_view else self.executor
        known = {one.id: Result(one.id, "recorded") for one in plan.plans if is_known(plan, one)}
        return executor.turn(plan.key.replace("/", "-"), run="run", known=known)

    def problem(self, what: str) -> None:
        self.problems.append(what)

    # what tools, hooks and policies note

    @contextmanager
    def acting(self, key: str, on: list[str]) -> Iterator[None]:
        if self.closed:
            self.problem(f"{key} began after the executor was closed")
        self.look_around("tool", key)
        if "res:changed" in on:
            self.problem(f"{key} was given arguments that an earlier attempt had changed")
        self.log.append(("+", key, tuple(on)))
        token = MARK.set(key)
        with self.at_work(f"tool of {key}"):
            try:
                yield
            finally:
                MARK.reset(token)
                self.log.append(("-", key))

    @contextmanager
    def at_work(self, what: str) -> Iterator[None]:
        self.busy[what] += 1
        try:
            yield
        finally:
            self.busy[what] -= 1

    def look_around(self, what: str, key: str) -> None:
        """Check that the context is that of the call's own caller."""
        if WHO.get() != self.plans[key].who:
            self.problem(f"the {what} of {key} ran with the variables of {WHO.get()}")
        mark = MARK.get()
        if mark and not f"{key}/".startswith(f"{mark}/"):
            self.problem(f"the {what} of {key} saw what was set for {mark}")

    def policy(self, checked: CheckedCall) -> Decision:
        plan = self.plans[checked.args["key"]]
        self.look_around("policy", plan.key)
        self.log.append(("decided", plan.key))
        decisions = {"ask": Ask("May it?"), "deny": Deny("no")}
        return decisions.get(plan.decision, Allow())

    async def approver(self, pending: Pending) -> Any:
        plan = self.plans[_key_of(pending.call)]
        self.look_around("approver", plan.key)
        with self.at_work(f"approver of {plan.key}"):
            await checkpoint()
            if plan.answer == "never":
                await anyio.sleep(FOREVER)
            if plan.answer.startswith("slowly"):
                await anyio.sleep(1)
            if plan.answer == "boom":
                raise ValueError
            if plan.answer == "edit" and pending.round == 0:
                return self.edit(plan)
            if plan.answer.endswith("later"):
                return pending
            return Deny("no") if plan.answer == "no" else Allow()

    def edit(self, plan: Plan) -> Edit:
        self.loosened.add(plan.key)
        return Edit({"key": plan.key, "on": ["res:c"]})

    async def before(self, checked: CheckedCall) -> Any:
        plan = self.plans[checked.args["key"]]
        self.look_around("hook before", plan.key)
        with self.at_work(f"hook before {plan.key}"):
            await self.act_as_hook(plan.before, plan)
            if plan.before == "stop":
                turn = next(one for one in self.scenario.turns if plan in one.plans)
                self.disturb(turn.plans)
                raise StopRun("enough")
        answers = {"rewrite": checked.with_args(on=["res:c"]), "answer": checked.answer("known")}
        self.log.append(("checked", plan.key))
        return answers.get(plan.before, checked)

    async def after(self, checked: CheckedCall | Call, result: Result) -> Result:
        call = checked if isinstance(checked, Call) else checked.call
        plan = self.plans[_key_of(call)]
        self.look_around("hook after", plan.key)
        with self.at_work(f"hook after {plan.key}"):
            await self.act_as_hook(plan.after, plan)
        return result

    async def around(self, checked: CheckedCall, go: Callable[[], Any]) -> Any:
        plan = self.plans[checked.args["key"]]
        self.look_around("hook around", plan.key)
        with self.at_work(f"hook around {plan.key}"):
            if plan.around == "cache":
                return checked.answer("remembered")
            await self.act_as_hook(plan.around, plan)
            result = await go()
            await checkpoint()
            if plan.around == "late boom":
                raise ValueError
            return result

    async def act_as_hook(self, kind: str, plan: Plan) -> None:
        for _ in range(plan.ticks if kind == "wait" else 0):
            await checkpoint()
        if kind in ("nap", "hang"):
            await anyio.sleep(FOREVER if kind == "hang" else 0.5)
        if kind == "look":
            await self.executor.run(self.plan_to_look(plan).call)
        if kind == "mark":
            MARK.set(plan.key)
        if kind == "boom":
            raise ValueError

    def plan_to_look(self, plan: Plan) -> Plan:
        """The plan of a call that a hook makes."""
        key = f"{plan.key}/{len(self.plans)}/0"
        self.plans[key] = Plan(key, "look", "read", plan.on)
        return self.plans[key]

    # those who call

    async def call(self, plans: list[TurnPlan]) -> None:
        WHO.set(plans[0].who)
        variables = dict(copy_context())
        for plan in plans:
            with anyio.CancelScope() as self.scopes[plan.key]:
                await self.take_turn(plan)
                await self.answer_later(plan)
        after = dict(copy_context())
        changed = [one for one in variables | after if variables.get(one) is not after.get(one)]
        if changed:
            self.problem(f"the variables {changed} of {plans[0].who} were changed")

    async def take_turn(self, plan: TurnPlan) -> None:
        turn = self.turns[plan.key]
        executor = self.view if plan.through_view else self.executor
        feed = turn.events() if plan.listens else None
        if plan.way == "run":
            for one in plan.plans:
                self.results[one.key].append(await executor.run(one.call))
        elif plan.way == "run_all":
            await executor.run_all(self.add(turn, plan.plans), turn=turn)
        elif plan.way == "streamed":
            await executor.run_all(self.stream(turn, plan), turn=turn)
        elif plan.way == "stream":
            await turn.add_from(self.stream(turn, plan))
        elif plan.way == "tasks":
            await self.run_in_tasks(turn, plan)
        else:
            await self.add_in_parts(turn, plan)
        await turn.results()
        if feed is not None and some(self.rng, 0.5):
            feed.close()

    def add(self, turn: Turn[Any], plans: Iterable[Plan]) -> list[Call]:
        added = list(plans)
        self.added[turn.key] += added
        self.groups.append([plan.key for plan in added])
        return [plan.call for plan in added]

    async def stream(self, turn: Turn[Any], plan: TurnPlan) -> AsyncIterator[Call]:
        group: list[str] = []
        self.groups.append(group)
        for one in plan.plans:
            await self.pause(one.ticks)
            self.added[turn.key].append(one)
            group.append(one.key)
            yield one.call

    async def run_in_tasks(self, turn: Turn[Any], plan: TurnPlan) -> None:
        async def run_one(one: Plan) -> None:
            (call,) = self.add(turn, [one])
            self.results[one.key].append(await turn.run(call))

        async with anyio.create_task_group() as group:
            for one in plan.plans:
                group.start_soon(run_one, one)

    async def add_in_parts(self, turn: Turn[Any], plan: TurnPlan) -> None:
        left = list(plan.plans)
        while left:
            size = self.rng.randint(1, 3)
            turn.add(*self.add(turn, left[:size]))
            left = left[size:]
            await self.pause(self.rng.randint(0, 4))

    async def pause(self, ticks: int) -> None:
        """Let others run, now and then until they wait for the time to pass."""
        for _ in range(ticks):
            await checkpoint()
        if some(self.rng, 0.4):
            await anyio.sleep(0.4)

    async def answer_later(self, plan: TurnPlan) -> None:
        """Answer what waits, in any order, some of it twice."""
        turn = self.turns[plan.key]
        used: list[Pending] = []
        for _ in range(3):
            waiting = list(turn.pending)
            self.rng.shuffle(waiting)
            left = self.rng.choice((0.0, 0.2, 0.6))
            for pending in waiting:
                if not some(self.rng, left):
                    await self.answer_one(turn, pending, used)
            await turn.results()
        for pending in used:
            if some(self.rng, 0.3):
                await self.answer_again(turn, pending)

    async def answer_one(self, turn: Turn[Any], pending: Pending, used: list[Pending]) -> None:
        kind = self.rng.choice(("yes", "yes", "yes", "no", "edit", "dismiss"))
        self.answered[turn.key, pending.call.id] += 1
        if kind in ("no", "dismiss"):
            self.refused.add(_key_of(pending.call))
        if kind == "dismiss":
            await turn.dismiss(pending)
        elif not pending.question:
            turn.answer(pending)
        elif kind == "edit":
            turn.answer(pending, self.edit(self.plans[_key_of(pending.call)]))
        else:
            used.append(pending)
            turn.answer(pending, Allow() if kind == "yes" else Deny("no"))
        for _ in range(self.rng.randint(0, 2)):
            await checkpoint()

    async def answer_again(self, turn: Turn[Any], pending: Pending) -> None:
        """Use an answer once more, as another process might that has heard of it too."""
        self.loosened.add(_key_of(pending.call))
        self.answered[turn.key, pending.call.id] += 1
        other = self.executor.turn(turn.id, run=turn.run_id)
        other.answer(pending, Allow())
        await other.results()

    # those who disturb

    async def disturb_at(self, operation: Operation) -> None:
        if operation.nap:
            await anyio.sleep(operation.nap)
        for _ in range(operation.ticks):
            await checkpoint()
        turns = self.scenario.turns
        turn = turns[int(operation.target * len(turns))]
        await getattr(self, f"disturb_{operation.kind}")(turn, operation)

    def disturb(self, plans: Iterable[Plan]) -> None:
        self.disturbed |= {one.key for plan in plans for one in plan.family()}

    def disturb_everything(self) -> None:
        self.disturb(plan for turn in self.scenario.turns for plan in turn.plans)

    async def disturb_call(self, turn: TurnPlan, operation: Operation) -> None:
        plan = turn.plans[operation.ticks % len(turn.plans)]
        self.disturb(one for one in turn.plans if one.id == plan.id)
        self.turns[turn.key].cancel(plan.id)

    async def disturb_turn(self, turn: TurnPlan, _: Operation) -> None:
        self.disturb(turn.plans)
        self.turns[turn.key].cancel()

    async def disturb_all(self, *_: object) -> None:
        self.disturb_everything()
        self.executor.cancel()

    async def disturb_view(self, *_: object) -> None:
        self.disturb(one for turn in self.scenario.turns if turn.through_view for one in turn.plans)
        self.view.cancel()

    async def disturb_task(self, turn: TurnPlan, _: Operation) -> None:
        if turn.key in self.scopes:
            self.disturb(turn.plans)
            self.scopes[turn.key].cancel()

    async def disturb_close(self, *_: object) -> None:
        self.disturb_everything()
        self.closed_early = True
        await self.executor.aclose(grace=5)
        self.note_closed()

    async def disturb_kill(self, _: TurnPlan, operation: Operation) -> None:
        """Cancel a task of the executor itself, as a program does that ends by cancelling all."""
        live = [(one, one.task) for one in self.pipeline.live if hasattr(one, "task")]
        if live and isinstance(live[0][1], asyncio.Task):
            running, task = live[int(operation.target * len(live))]
            self.disturbed.add(_key_of(running.call))
            task.cancel()

    async def disturb_free(self, *_: object) -> None:
        self.free.set()

    async def set_free(self) -> None:
        if self.scenario.frees != "after closing":
            await anyio.sleep(2 if self.scenario.frees == "soon" else 50)
            self.free.set()

    # the end

    @property
    def in_order(self) -> list[str]:
        """The keys of the calls that were added to turns, as they were."""
        return [plan.key for added in self.added.values() for plan in added]

    @property
    def pipeline(self) -> Any:
        return self.executor._pipeline

    def note_closed(self) -> None:
        self.closed = True
        at_work = [one for one, count in self.busy.items() if count]
        lingering = {
            f"tool of {_key_of(one.record.call)}"
            for one in self.pipeline.ordering._lingering.values()
        }
        for one in at_work:
            if one not in lingering and "_thread" not in one:
                self.problem(f"the {one} was at work when closing was over")

    async def watch_for_hang(self) -> None:
        """Let time pass in large steps; when a scenario has not ended by then, it never will."""
        for _ in range(100):
            await anyio.sleep(1_000)
        live = [_key_of(one.call) for one in self.pipeline.live]
        self.problem(f"hangs, with {live} under way")
        for turn in self.turns.values():
            for record in turn._records.values():  # so that nobody waits on
                if record.result is None:
                    record.finish(Result.fail(record.call.id, FailureKind.BUG, "it hung"))
        raise Found("; ".join(self.problems))


def _key_of(call: Call) -> str:
    args = json.loads(call.args) if isinstance(call.args, str) else call.args
    return str(args["key"])


async def play(world: World) -> None:
    """Let everything happen, and end when nothing is under way."""
    turns = world.scenario.turns
    tasks = living_tasks()
    async with anyio.create_task_group() as outer:
        outer.start_soon(world.watch_for_hang)
        async with world.executor:
            feed = world.executor.events()
            async with anyio.create_task_group() as group:
                for who in dict.fromkeys(turn.who for turn in turns):
                    group.start_soon(world.call, [one for one in turns if one.who == who])
                for operation in world.scenario.operations:
                    group.start_soon(world.disturb_at, operation)
                group.start_soon(world.set_free)
            await check_results(world)
        world.note_closed()
        world.free.set()
        while any(world.busy.values()) or world.pipeline.ordering._lingering:  # noqa: ASYNC110
            await anyio.sleep(500)
        outer.cancel_scope.cancel()
    async for event in feed:
        world.told[event.turn, call_id_of(event)].append(event)
    check_nothing_is_left(world, tasks)


def living_tasks() -> int:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return trio.lowlevel.current_statistics().tasks_living


# -- what must hold --------------------------------------------------------------------------------


async def check_results(world: World) -> None:
    """Every call that was added has exactly one result, in call order."""
    for turn in world.turns.values():
        added = world.added[turn.key]
        results = await turn.results()
        if [result.call_id for result in results] != [plan.id for plan in added]:
            world.problem(f"{[plan.key for plan in added]} gave {results}")
        for plan, result in zip(added, results, strict=False):
            world.results[plan.key].append(result)


def check_nothing_is_left(world: World, tasks: int) -> None:
    inside = world.pipeline
    ordering = inside.ordering
    left = {
        "calls": list(inside.live),
        "places": [] if ordering.is_empty else ["some"],
        "waiting": [
            *ordering._waits._blockers,
            *ordering._waits._waiters,
            *ordering._waits._within,
        ],
        "inner": [*ordering._inner, *ordering._within, *ordering._unstarted, *ordering._survived],
        "lent": [*ordering._schedule._lent, *ordering._schedule._suspended],
        "listeners": list(inside.listeners.feeds),
        "tasks": list(range(living_tasks() - tasks)),
    }
    for what, of_it in left.items():
        if of_it:
            world.problem(f"{len(of_it)} {what} are left")


def check_each_result(world: World) -> None:
    for key, results in world.results.items():
        plan = world.plans[key]
        for result in results:
            kind = result.failure.kind if result.failure is not None else None
            stopped = kind is FailureKind.CANCELLED or "Cancelled while" in result.text
            if stopped and key not in world.disturbed:
                world.problem(f"{key} was cancelled, and nobody wanted that: {result.text}")
            if "without end" in result.text:
                world.problem(f"{key}: {result.text}")
            if is_plain(world, plan) and result.pending is None and result.text != plan.key:
                world.problem(f"{key} should have gone well: {result.text}")


def is_plain(world: World, plan: Plan) -> bool:
    """Whether nothing stands between a call and its value."""
    hooks = {place: getattr(plan, place) for place in world.scenario.has}
    return (
        plan.end == "value"
        and plan.key not in world.disturbed | world.refused
        and plan.decision == "allow"
        and not plan.is_known
        and plan.tool not in ("nope", "slow", *IN_THREADS)
        and (plan.tool != "nest" or world.scenario.limits.timeout == PATIENT)
        and not any(one.tool in IN_THREADS for one in world.plans.values())
        and all(kind in ("pass", "wait", "nap", "mark") for kind in hooks.values())
    )


def spans_of(world: World) -> list[Span]:
    """When each tool ran. An attempt that is made again is a span of its own."""
    open_: dict[str, tuple[int, tuple[str, ...]]] = {}
    spans = []
    for place, (what, key, *facts) in enumerate(world.log):
        if what == "+":
            if key in open_:
                world.problem(f"{key} ran beside itself")
            open_[key] = (place, facts[0])
        elif what == "-" and key in open_:
            began, on = open_.pop(key)
            spans.append(Span(key, on, began, place))
    for key in open_:
        world.problem(f"{key} never ended")
    return spans


def check_once(world: World, spans: list[Span]) -> None:
    for key, times in Counter(span.key for span in spans).items():
        plan = world.plans[key]
        may = (3 if plan.tool == "again" else 1) * (2 if plan.end == "login" else 1)
        if times > may:
            world.problem(f"{key} was done {times} times")
    for turn in world.scenario.turns:
        known = {plan.key for plan in turn.plans if is_known(turn, plan)}
        if known & {span.key for span in spans}:
            world.problem(f"of {known}, one was done again")


def check_order(world: World, spans: list[Span]) -> None:
    """Calls that conflict never overlap, and those of one turn keep their order."""
    tools = {span: world.plans[span.key].tool for span in spans}
    places = {key: place for place, key in enumerate(world.in_order)}
    accesses = {span: touched_by(tools[span], span.on) for span in spans}
    for one, other in combinations(sorted(spans, key=lambda span: span.began), 2):
        if f"{other.key}/".startswith(f"{one.key}/"):
            continue
        conflicts = conflict(accesses[one], accesses[other])
        if other.began < one.ended and (conflicts or "alone" in (tools[one], tools[other])):
            world.problem(f"{one.key} and {other.key} conflict, and ran at once")
        if not conflicts or not are_ordered(world, one, other):
            continue
        if places.get(one.key, one.key) > places.get(other.key, other.key):
            world.problem(f"{one.key} ran before {other.key}")


def are_ordered(world: World, one: Span, other: Span) -> bool:
    """Whether two calls are of one turn, and neither was edited nor answered elsewhere."""
    turn, others = one.key.rpartition("/")[0], other.key.rpartition("/")[0]
    return turn == others and not {one.key, other.key} & world.loosened


def check_slots(world: World, spans: list[Span]) -> None:
    """As many calls run at once as may; those that tools make have their tool's slot."""
    outer = [span for span in spans if span.key.count("/") == 2]
    few = [span for span in outer if world.plans[span.key].tool == "few"]
    limits = world.scenario.limits
    bounds = ((outer, limits.max_running), (few, limits.max_running_per_tool["few"]))
    for which, most in bounds:
        for span in which:
            at_once = [one for one in which if one.began <= span.began < one.ended]
            if len(at_once) > most:
                world.problem(f"{[one.key for one in at_once]} ran at once, and {most} may")


def check_groups(world: World) -> None:
    """No call has an effect before all that were added with it are decided."""
    first: dict[tuple[str, str], int] = {}
    for place, (what, key, *_) in enumerate(world.log):
        first.setdefault((what, key), place)
    for group in world.groups:
        effects = [first.get(("+", key)) for key in group if world.plans[key].tool in WRITERS]
        decided = [first[what, key] for key in group for what in DECIDING if (what, key) in first]
        began = min((one for one in effects if one is not None), default=len(world.log))
        if any(one > began for one in decided):
            world.problem(f"of {group}, one had its effect before all were decided")


WRITERS = frozenset(name for name, effect in TOOLS.items() if effect == WRITE)
DECIDING = ("checked", "decided")


def check_events(world: World) -> None:
    """Each call is requested first and finished last; again after each answer."""
    for (turn, call), events in world.told.items():
        told = [type(event) for event in events if isinstance(event, Requested | Finished)]
        twice = sum(plan.id == call for plan in world.added[turn]) > 1
        wanted = [Requested, Finished] * (len(told) // 2)
        if twice:
            told, wanted = sorted(told, key=str), sorted(wanted, key=str)
        if not told or told != wanted or not isinstance(events[-1], Finished):
            world.problem(f"told of {turn} {call}: {[type(event).__name__ for event in events]}")
        elif not isinstance(events[0], Requested):
            world.problem(f"told first of {turn} {call}: {events[0]}")
    if not world.closed_early:  # from then on nobody is told
        check_requests(world)


def check_requests(world: World) -> None:
    for turn in world.turns.values():
        for plan in world.added[turn.key]:
            told = world.told[turn.key, plan.id]
            asked = [event.call for event in told if isinstance(event, Requested)]
            if plan.call not in asked:
                world.problem(f"{plan.call} was requested, and told was {asked}")
            many = sum(one.id == plan.id for one in world.added[turn.key])
            if len(asked) != many + world.answered[turn.key, plan.id]:
                world.problem(f"{plan.key} was requested {len(asked)} times")


def check(seed: int, backend: str) -> None:
    """Play a scenario, and check all that must hold."""
    scenario = make_scenario(seed)
    world_of: list[World] = []

    async def main() -> None:
        world = World(scenario)
        world_of.append(world)
        await play(world)

    run(backend, seed, main, idle=IDLE if scenario.has_threads else 0.0)
    world = world_of[0]
    spans = spans_of(world)
    check_once(world, spans)
    check_order(world, spans)
    check_slots(world, spans)
    check_groups(world)
    check_events(world)
    check_each_result(world)
    if world.problems:
        raise Found("; ".join(world.problems))


@AS_LONG_AS_IT_TAKES
@pytest.mark.parametrize("backend", BACKENDS)
def test_whatever_happens_every_call_has_one_result_and_nothing_is_left(backend: str) -> None:
    half = SCENARIOS // 2
    seeds = range(half) if backend == "asyncio" else range(half, SCENARIOS)
    check_all(lambda seed: check(seed, backend), seeds)


# -- a broken core is found out --------------------------------------------------------------------


def use_the_context_of_whoever_came_before(patch: pytest.MonkeyPatch) -> None:
    last = [copy_context()]

    def spawn_in_another(context: Any, *work: Any, **more: Any) -> object:
        last.append(context)
        return spawn(last.pop(0), *work, **more)

    patch.setattr(tasks, "spawn", spawn_in_another)


def hand_out_changed_arguments(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(invoke, "_args_again", lambda running, _tool: running.checked.parsed)


def start_nobody_when_one_leaves(patch: pytest.MonkeyPatch) -> None:
    real = Ordering.leave

    def leave(self: Ordering, running: RunningCall) -> None:
        vars(self)["launch"] = lambda: None
        real(self, running)
        del vars(self)["launch"]

    patch.setattr(Ordering, "leave", leave)


def wake_no_inner_call(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Waits, "end", lambda *_: None)


def start_among_inner_calls(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Schedule, "_lenders", lambda *_: {})


def count_hooks_of_all_callers(patch: pytest.MonkeyPatch) -> None:
    real, now = Hooks.run_before, Counter[Hooks]()

    async def run_before(self: Hooks, running: RunningCall) -> Result | None:
        now[self] += 1
        try:
            if now[self] > 2:
                return running.checked.refuse("Checks are running within one another without end.")
            return await real(self, running)
        finally:
            now[self] -= 1

    patch.setattr(Hooks, "run_before", run_before)


def enter_as_hooks_end(patch: pytest.MonkeyPatch) -> None:
    real = Tasks._enter_later

    async def enter_later(self: Tasks, record: RequestedCall, *more: Any) -> Result:
        record.previous = None
        return await real(self, record, *more)

    patch.setattr(Tasks, "_enter_later", enter_later)


def put_off_on_arrival(patch: pytest.MonkeyPatch) -> None:
    """A call then knows only of those that wait already, and trusts that when it is answered."""
    real, look = Pipeline.admit, Turn.waiting_before

    def admit(self: Pipeline, running: RunningCall, group: Group | None = None) -> Result | None:
        checked = running.checked
        after = running.turn.waiting_before(running.record.position, checked.accesses)
        if not after:
            return real(self, running, group)
        pending = self.questions.make_pending(running, checked.decision, after)
        return mark_pending(running.turn, pending)

    def waiting_before(self: Turn[Any], position: int, accesses: Any) -> tuple[str, ...]:
        mine = [one for one in self._records.values() if one.position == position]
        return () if any(one.answered for one in mine) else look(self, position, accesses)

    patch.setattr(Pipeline, "admit", admit)
    patch.setattr(Turn, "waiting_before", waiting_before)


def start_before_all_are_decided(patch: pytest.MonkeyPatch) -> None:
    real = Pipeline.admit
    patch.setattr(Pipeline, "admit", lambda self, running, _group=None: real(self, running))


def wait_for_the_own_tool(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ordering, "_root_of", lambda *_: None)


def take_an_answer_twice(patch: pytest.MonkeyPatch) -> None:
    async def claim(*_: object) -> bool:
        return True

    patch.setattr(MemoryLedger, "claim", claim)


def lose_the_results_of_cancelled_tasks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tasks, "_give_up", lambda *_: None)


def lose_tasks_that_never_began(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tasks, "_begin_again", lambda *_: None)


def cancel_equal_ids_of_other_turns(patch: pytest.MonkeyPatch) -> None:
    real = Turn.cancel

    def cancel(self: Turn[Any], *ids: str) -> tuple[str, ...]:
        owner: Any = self.owner
        for record in owner.pipeline.live:
            if record.call.id in ids:
                record.cancel()
        return real(self, *ids)

    patch.setattr(Turn, "cancel", cancel)


BROKEN = {
    use_the_context_of_whoever_came_before: 0,
    hand_out_changed_arguments: 0,
    start_nobody_when_one_leaves: 0,
    wake_no_inner_call: 0,
    start_among_inner_calls: 0,
    count_hooks_of_all_callers: 13,
    enter_as_hooks_end: 55,
    put_off_on_arrival: 405,
    start_before_all_are_decided: 2,
    wait_for_the_own_tool: 9,
    take_an_answer_twice: 16,
    lose_the_results_of_cancelled_tasks: 0,
    lose_tasks_that_never_began: 38,
    cancel_equal_ids_of_other_turns: 42,
}
"""Ways to break it, and the seed that finds each; should scenarios change, a later one does."""


@AS_LONG_AS_IT_TAKES
@pytest.mark.parametrize("break_it", BROKEN)
def test_a_broken_core_is_found_out(break_it: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)
    first = BROKEN[break_it]

    assert finds(lambda seed: check(seed, "asyncio"), range(first, first + 1_000))
