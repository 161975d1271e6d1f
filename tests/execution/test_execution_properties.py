"""Random batches in virtual time: as good as one after the other, and as fast as can be.

Every call is a plan: what it touches, how long it takes, how it ends. The world is a handful of
leaves; who writes one derives the new value from all it has seen, so that any wrong order shows.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import Phase, example, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from handrail import (
    DESTROY,
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    FailureKind,
    Result,
    ToolFailed,
    Toolset,
    Transient,
    Turn,
    tool,
)
from handrail.permissions import Pending
from virtual_time import BACKENDS, Quick, run

FIRST_BUG = settings(report_multiple_bugs=False)
QUICKLY = settings(database=None, phases=[Phase.generate])
FOREVER = 100_000.0

FILES = ("file:a/b", "file:a/c", "file:d")
ROWS = ("db:x", "db:y/1")
LEAVES = FILES + ROWS
COVERS: dict[str, tuple[str, ...]] = {
    "*": LEAVES,
    "file:": FILES,
    "file:/etc": FILES,  # may be any file
    "file:../up": FILES,
    "file:a": ("file:a/b", "file:a/c"),
    "db:": ROWS,
    "db:y": ("db:y/1",),
} | {leaf: (leaf,) for leaf in LEAVES}

TOOLS = {
    "look": READ,
    "change": WRITE,
    "wipe": DESTROY,
    "look_anywhere": READ,
    "change_anywhere": WRITE,
}
FAILURES = {"fails": FailureKind.FAILED, "breaks": FailureKind.BUG, "later": FailureKind.TRANSIENT}


@dataclass(frozen=True)
class Plan:
    """What one call is to do."""

    tool: str
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    turns: int = 0
    """How often it lets others go first, in no time at all."""
    seconds: int = 0
    cleanup: int = 0
    """Seconds it needs to stop."""
    ends: str = "well"
    answer: tuple[int, bool] | None = None
    """Where somebody is asked first: after how many seconds they say yes or no."""

    @property
    def accesses(self) -> list[Access]:
        if self.tool.endswith("_anywhere"):
            return [Access(TOOLS[self.tool], "*")]
        reads = [Access(READ, one) for one in sorted(self.reads)]
        return reads + [Access(TOOLS[self.tool], one) for one in sorted(self.writes)]

    @property
    def touched(self) -> tuple[set[str], set[str]]:
        """The leaves it may look at, and those of them that it may change."""
        everything = set(LEAVES)
        if self.tool == "look_anywhere":
            return everything, set()
        if self.tool == "change_anywhere":
            return everything, everything
        written = {leaf for one in self.writes for leaf in COVERS[one]}
        return written | {leaf for one in self.reads for leaf in COVERS[one]}, written

    def conflicts(self, other: Plan) -> bool:
        (sees, changes), (other_sees, other_changes) = self.touched, other.touched
        return bool(changes & other_sees or sees & other_changes)


@dataclass
class Trace:
    """What one call did."""

    seen: str
    began: float
    order: int
    ended: float | None = None
    order_of_end: int | None = None
    whole: bool = False


@dataclass
class World:
    """The tools under test, and what they act on."""

    plans: Sequence[Plan]
    leaves: dict[str, str] = field(default_factory=lambda: dict.fromkeys(LEAVES, ""))
    arrived: list[int] = field(default_factory=list)
    traces: dict[int, Trace] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    most: int = 0
    most_of: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    """How much has happened."""

    def touches(self, n: int) -> list[Access]:
        return self.plans[n].accesses

    @tool(effect=READ, touches=touches)
    async def look(self, n: int) -> str:
        """Look."""
        return await self._act(n)

    @tool(effect=WRITE, touches=touches)
    async def change(self, n: int) -> str:
        """Look and change."""
        return await self._act(n)

    @tool(effect=DESTROY, touches=touches)
    async def wipe(self, n: int) -> str:
        """Look and destroy."""
        return await self._act(n)

    @tool(effect=READ)
    async def look_anywhere(self, n: int) -> str:
        """Look without saying where."""
        return await self._act(n)

    @tool(effect=WRITE)
    async def change_anywhere(self, n: int) -> str:
        """Change without saying what."""
        return await self._act(n)

    async def _act(self, n: int) -> str:
        plan = self.plans[n]
        self._begin(n)
        seen = self.traces[n].seen
        try:
            for _ in range(plan.turns):
                await checkpoint()
            if plan.seconds:
                await anyio.sleep(plan.seconds)
            self.put(n, seen, whole=True)
            self.traces[n].whole = True
        except anyio.get_cancelled_exc_class():
            if plan.cleanup:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(plan.cleanup)
            raise
        finally:
            self._end(n)
        if plan.ends == "fails":
            raise ToolFailed("no")
        if plan.ends == "later":
            raise Transient("not now")
        if plan.ends == "breaks":
            raise RuntimeError("oops")
        return seen

    def _begin(self, n: int) -> None:
        self.steps += 1
        assert n not in self.traces, f"{n} ran twice"
        self.traces[n] = Trace(self.look_at(n), anyio.current_time(), self.steps)
        self.put(n, self.traces[n].seen, whole=False)
        self.running.add(n)
        self.most = max(self.most, len(self.running))
        of_tool = Counter(self.plans[one].tool for one in self.running)
        self.most_of |= of_tool

    def _end(self, n: int) -> None:
        self.steps += 1
        self.running.remove(n)
        self.traces[n].ended = anyio.current_time()
        self.traces[n].order_of_end = self.steps

    def look_at(self, n: int) -> str:
        sees, _ = self.plans[n].touched
        return _digest(*(f"{one}={self.leaves[one]}" for one in sorted(sees)))

    def put(self, n: int, seen: str, *, whole: bool) -> None:
        _, changes = self.plans[n].touched
        for one in changes:
            self.leaves[one] = _digest(one, str(n), seen, str(whole))

    def calls(self, numbers: Sequence[int]) -> Iterator[Call]:
        """Calls for a batch; notes when each is taken."""
        for n in numbers:
            self.arrived.append(n)
            yield self.call(n)

    async def stream(self, numbers: Sequence[int], gaps: Sequence[int]) -> AsyncIterator[Call]:
        """The same, one by one, with some seconds before each."""
        for n, gap in zip(numbers, gaps, strict=True):
            if gap:
                await anyio.sleep(gap)
            self.arrived.append(n)
            yield self.call(n)

    def call(self, n: int) -> Call:
        return Call(self.plans[n].tool, f'{{"n": {n}}}', str(n))


def _digest(*words: str) -> str:
    return hashlib.sha256("|".join(words).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Story:
    """A batch, and what befalls it."""

    plans: tuple[Plan, ...]
    gaps: tuple[int, ...] | None = None
    """Seconds before each call, where they come one by one."""
    stops: tuple[tuple[float, int, int | None], ...] = ()
    """Seconds, then turns, then which call is cancelled; None is all."""
    timeout: float = FOREVER
    max_running: int = 1000
    max_running_of: tuple[tuple[str, int], ...] = ()


Play = Callable[[World, Story], Awaitable[list[Result]]]


async def play(world: World, story: Story) -> list[Result]:
    """Run a story on an executor."""
    async with _executor(world, story) as executor, anyio.create_task_group() as others:
        turn = executor.turn()
        for stop in story.stops:
            others.start_soon(_stop, executor, turn, stop)
        with anyio.fail_after(10 * FOREVER):
            results = await executor.run_all(_batch(world, story), turn=turn)
        others.cancel_scope.cancel()
    return results


def _executor(world: World, story: Story) -> Executor:
    def policy(call: CheckedCall) -> Decision:
        return Allow() if world.plans[int(call.id)].answer is None else Ask("May it?")

    async def approver(pending: Pending) -> Allow | Deny:
        answer = world.plans[int(pending.call.id)].answer
        assert answer is not None
        seconds, yes = answer
        if seconds:
            await anyio.sleep(seconds)
        return Allow() if yes else Deny("no")

    return Executor(
        Toolset.from_object(world),
        policy=Quick(policy) if any(plan.answer for plan in world.plans) else None,
        approvals=approver,
        limits=CallLimits(
            timeout=story.timeout,
            max_running=story.max_running,
            max_running_per_tool=dict(story.max_running_of),
        ),
    )


def _batch(world: World, story: Story) -> Any:
    numbers = range(len(story.plans))
    if story.gaps is None:
        return world.calls(numbers)
    return world.stream(numbers, story.gaps)


Stop = tuple[float, int, int | None]


async def _stop(executor: Executor, turn: Turn, stop: Stop) -> None:
    seconds, turns, which = stop
    await anyio.sleep(seconds)
    for _ in range(turns):
        await checkpoint()
    if which is None:
        executor.cancel()
    else:
        turn.cancel(str(which))


# What must hold, whoever ran it.


def check_results(world: World, numbers: Sequence[int], results: list[Result]) -> None:
    """One result for each call, in call order, true to what happened."""
    assert [one.call_id for one in results] == [str(n) for n in numbers]
    for n, result in zip(numbers, results, strict=True):
        kind = result.failure.kind if result.failure else None
        assert kind in _possible(world, n), (n, result)
        if kind is None:
            assert result.text == world.traces[n].seen


def _possible(world: World, n: int) -> set[FailureKind | None]:
    plan, trace = world.plans[n], world.traces.get(n)
    if trace is None:
        denied = plan.answer is not None and not plan.answer[1]
        return {FailureKind.CANCELLED, FailureKind.DENIED} if denied else {FailureKind.CANCELLED}
    if trace.whole:
        return {FAILURES.get(plan.ends)}
    return (
        {FailureKind.CANCELLED, FailureKind.TIMEOUT}
        if TOOLS[plan.tool] == READ
        else {FailureKind.UNKNOWN}
    )


def check_order(world: World) -> None:
    """Calls that conflict never overlap, and go in call order."""
    assert not world.running
    for one, other in combinations(world.arrived, 2):
        if not world.plans[one].conflicts(world.plans[other]):
            continue
        first, second = world.traces.get(one), world.traces.get(other)
        if first is not None and second is not None:
            assert first.order_of_end is not None
            assert first.order_of_end < second.order, f"{other} began before {one} ended"


def check_world(world: World) -> None:
    """All that was done could have been done one after the other, in call order."""
    serial = World(world.plans)
    for n in world.arrived:
        trace = world.traces.get(n)
        if trace is None:
            continue
        seen = serial.look_at(n)
        assert trace.seen == seen, f"{n} saw a world that serial execution never has"
        serial.put(n, seen, whole=trace.whole)
    assert world.leaves == serial.leaves


def check_times(world: World, story: Story) -> None:
    """Every call starts the moment it may, and so the whole takes as long as the critical path."""
    expected = foretold(story)
    found = {n: (one.began, one.ended, one.whole) for n, one in world.traces.items()}
    assert found == {n: times for n, times in expected.items() if len(times) == 3}
    makespan = max((one.ended or 0.0 for one in world.traces.values()), default=0.0)
    assert makespan == critical_path(expected)


Times = tuple[float, float, bool] | tuple[float]
"""When it begins, when it ends, and whether it did all; or when it is given up."""


def critical_path(expected: dict[int, Times]) -> float:
    return max((times[1] for times in expected.values() if len(times) == 3), default=0.0)


def foretold(story: Story) -> dict[int, Times]:
    """What must happen when, from who conflicts with whom and nothing else."""
    times: dict[int, Times] = {}
    gaps = story.gaps or (0,) * len(story.plans)
    complete, now = float(sum(gaps)), 0.0
    for n, plan in enumerate(story.plans):
        now += gaps[n]
        closed = [max(at, now) for at, _, which in story.stops if which is None]
        stopped = min([*closed, *(at for at, _, which in story.stops if which == n and at >= now)], default=FOREVER)  # fmt: skip
        ready = now if TOOLS[plan.tool] == READ else complete
        for earlier in range(n):
            if plan.conflicts(story.plans[earlier]):
                ready = max(ready, times[earlier][-2] if len(times[earlier]) == 3 else times[earlier][0])  # fmt: skip
        if plan.answer is not None:
            seconds, yes = plan.answer
            ready = max(ready, now + seconds)
            stopped = stopped if yes else min(stopped, now + seconds)
        if stopped <= ready:
            times[n] = (stopped,)
            continue
        stopped = min(stopped, ready + story.timeout)
        whole = ready + plan.seconds < stopped
        times[n] = (ready, ready + plan.seconds if whole else stopped + plan.cleanup, whole)
    return times


def check_limits(world: World, story: Story) -> None:
    """Never more at a time than allowed, and nobody waits while there is room."""
    assert world.most <= story.max_running
    limits = dict(story.max_running_of)
    assert all(world.most_of[name] <= most for name, most in limits.items())
    traces = world.traces
    for n, plan in enumerate(story.plans):
        earlier = (one for one in range(n) if plan.conflicts(story.plans[one]))
        ready = max((traces[one].ended or 0.0 for one in earlier), default=0.0)
        for second in range(int(ready), int(traces[n].began)):
            at = [one for one, t in traces.items() if t.began <= second < (t.ended or 0.0)]
            of_tool = [one for one in at if story.plans[one].tool == plan.tool]
            full = len(at) == story.max_running or len(of_tool) == limits.get(plan.tool)
            assert full, f"{n} waits in second {second} for nobody"


def check(backend: str, story: Story, runner: Play = play, *, times: bool = True) -> World:
    """Run a story and hold all that must hold against it."""
    world = World(story.plans)
    results = run(backend, runner, world, story)
    check_results(world, range(len(story.plans)), results)
    check_order(world)
    check_world(world)
    if times:
        check_times(world, story)
    return world


# Random batches.


def resources(most: int) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(list(COVERS)), max_size=most)


@st.composite
def plans(draw: st.DrawFn, *, answers: bool = True) -> Plan:
    name = draw(st.sampled_from(list(TOOLS)))
    answer = st.tuples(st.integers(0, 3), st.booleans()) if answers else st.none()
    declared = not name.endswith("_anywhere")
    return Plan(
        tool=name,
        reads=draw(resources(2)) if declared else frozenset(),
        writes=draw(resources(2)) if declared and TOOLS[name] != READ else frozenset(),
        turns=draw(st.integers(0, 3)),
        seconds=draw(st.integers(0, 5)),
        cleanup=draw(st.sampled_from([0, 0, 1])),
        ends=draw(st.sampled_from(["well", "well", *FAILURES])),
        answer=draw(st.one_of(st.none(), st.none(), st.none(), answer)),
    )


def batches(*, answers: bool = True) -> st.SearchStrategy[tuple[Plan, ...]]:
    return st.lists(plans(answers=answers), max_size=9).map(tuple)


@st.composite
def stories(draw: st.DrawFn, *, sharp: bool) -> Story:
    """Batches with cancellations; sharp ones at times when nothing else happens."""
    batch = draw(batches())
    which = st.one_of(st.none(), st.integers(0, max(len(batch) - 1, 0)))
    moments = st.tuples(st.integers(0, 8), st.integers(0, 12), which)
    stops = [
        (seconds + (k + 1) / 64, 0, one) if sharp else (float(seconds), turns, one)
        for k, (seconds, turns, one) in enumerate(draw(st.lists(moments, max_size=4)))
    ]
    gaps = st.tuples(*(st.integers(0, 2) for _ in batch))
    return Story(
        batch,
        gaps=draw(st.one_of(st.none(), gaps)),
        stops=tuple(stops),
        timeout=draw(st.sampled_from([FOREVER, 2.5])),
    )


def change(*resources: str, **options: Any) -> Plan:
    return Plan("change", writes=frozenset(resources), **options)


def look(*resources: str, **options: Any) -> Plan:
    return Plan("look", reads=frozenset(resources), **options)


def test_the_oracle_and_the_library_agree_on_what_conflicts() -> None:
    for (one, its), (other, others) in product(COVERS.items(), repeat=2):
        assert Access(WRITE, one).conflicts(Access(READ, other)) == bool(set(its) & set(others))
        assert not Access(READ, one).conflicts(Access(READ, other))


@pytest.mark.parametrize("backend", BACKENDS)
@FIRST_BUG
@given(batch=batches(), gaps=st.one_of(st.none(), st.lists(st.integers(0, 2), min_size=9)))
def test_a_batch_does_what_serial_execution_does_in_the_time_of_its_critical_path(
    backend: str, batch: tuple[Plan, ...], gaps: list[int] | None
) -> None:
    check(backend, Story(batch, gaps=None if gaps is None else tuple(gaps[: len(batch)])))


@pytest.mark.parametrize("backend", BACKENDS)
@FIRST_BUG
@given(story=stories(sharp=True))
@example(
    Story(
        (change("db:x", seconds=5), change("db:x", "file:d"), change("file:d")),
        stops=((1 + 1 / 64, 0, 1),),
    )
).via("a call that is given up holds nobody back")
@example(Story((change("db:x", answer=(0, False)), change("db:x")))).via("nor one that is denied")
@example(Story((change("db:x", seconds=3, cleanup=1),), stops=((1.25, 0, 0), (1.5, 0, None)))).via(
    "cancelled again while it stops"
)
def test_calls_that_are_stopped_one_by_one_hold_nobody_back(backend: str, story: Story) -> None:
    check(backend, story)


@pytest.mark.parametrize("backend", BACKENDS)
@FIRST_BUG
@given(story=stories(sharp=False))
def test_calls_may_be_stopped_at_any_await(backend: str, story: Story) -> None:
    check(backend, story, times=False)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("turns", range(30))
def test_calls_may_be_stopped_at_each_await_in_turn(backend: str, turns: int) -> None:
    batch = (
        Plan("look_anywhere", turns=1),
        Plan("look_anywhere", turns=2),
        change("db:x", turns=2),
        change("db:x", "file:a", turns=2),
        change("file:a/b", turns=2, answer=(0, True)),
        look("file:", turns=1),
    )
    for which in (*range(len(batch)), None):
        check(backend, Story(batch, stops=((0.0, turns, which),)), times=False)


@pytest.mark.parametrize("backend", BACKENDS)
@FIRST_BUG
@given(
    batch=batches(answers=False),
    max_running=st.integers(1, 4),
    of=st.dictionaries(st.sampled_from(list(TOOLS)), st.integers(1, 2), max_size=3),
)
def test_no_more_run_at_a_time_than_allowed_and_no_fewer(
    backend: str, batch: tuple[Plan, ...], max_running: int, of: dict[str, int]
) -> None:
    story = Story(batch, max_running=max_running, max_running_of=tuple(of.items()))
    world = check(backend, story, times=False)
    check_limits(world, story)


@pytest.mark.parametrize("backend", BACKENDS)
@FIRST_BUG
@given(
    story=stories(sharp=False),
    max_running=st.integers(1, 3),
    of=st.dictionaries(st.sampled_from(list(TOOLS)), st.integers(1, 2), max_size=3),
)
@example(
    story=Story((look("db:x", seconds=2), look("db:x"), look("db:x")), stops=((1.0, 0, 1),)),
    max_running=3,
    of={"look": 1},
).via("one that waits for a free place is stopped, and the next one gets it")
def test_calls_that_wait_for_a_free_place_may_be_stopped_too(
    backend: str, story: Story, max_running: int, of: dict[str, int]
) -> None:
    bounded = replace(story, max_running=max_running, max_running_of=tuple(of.items()))
    world = check(backend, bounded, times=False)
    assert world.most <= max_running
    assert all(world.most_of[name] <= most for name, most in of.items())


# A batch that is cancelled from outside, beside another, before a third.


@dataclass(frozen=True)
class Interruption:
    """The first batch is cancelled after so many seconds and turns; the second begins meanwhile."""

    first: Story
    second: tuple[Plan, ...]
    third: tuple[Plan, ...]
    seconds: int
    turns: int
    by_task: bool = False
    """Whether the task itself is cancelled, where the loop is asyncio's; else a scope around it."""


interruptions = st.builds(
    Interruption,
    first=stories(sharp=False),
    second=batches(),
    third=batches(),
    seconds=st.integers(0, 5),
    turns=st.integers(0, 12),
    by_task=st.booleans(),
)


class Interrupted:
    """Tells of an interruption, and keeps what came of it."""

    def __init__(self, told: Interruption) -> None:
        self.told = told
        self.world = World(told.first.plans + told.second + told.third)
        end = len(told.first.plans)
        self.first = range(end)
        self.second = range(end, end + len(told.second))
        self.third = range(end + len(told.second), len(self.world.plans))
        self.outcomes: list[list[Result]] = []
        """The first batch's, if it was not cancelled."""
        self.steps = 0
        """How much had happened when it was."""

    async def happen(self) -> tuple[list[Result], list[Result]]:
        told, world = self.told, self.world
        async with _executor(world, told.first) as executor:
            with anyio.fail_after(10 * FOREVER):
                turn = executor.turn()
                async with anyio.create_task_group() as tasks:
                    for stop in told.first.stops:
                        tasks.start_soon(_stop, executor, turn, stop)
                    tasks.start_soon(self._first, executor, turn)
                    await anyio.sleep(1.5)
                    second = await executor.run_all(world.calls(self.second))
                third = await executor.run_all(world.calls(self.third))
        return second, third

    async def _first(self, executor: Executor, turn: Turn) -> None:
        if self.told.by_task:
            task = asyncio.create_task(self._batch(executor, turn))
            await self._interrupt(task.cancel)
            await asyncio.wait([task])
            if not task.cancelled():
                await task
        else:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._interrupt, tasks.cancel_scope.cancel)
                await self._batch(executor, turn)
        assert not self.world.running & set(self.first), "something runs on"

    async def _batch(self, executor: Executor, turn: Turn) -> None:
        calls = _batch(self.world, self.told.first)
        self.outcomes.append(await executor.run_all(calls, turn=turn))

    async def _interrupt(self, cancel: Callable[[], object]) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(self.told.seconds)
            for _ in range(self.told.turns):
                await checkpoint()
        cancel()
        with anyio.CancelScope(shield=True):
            for _ in range(2):  # its calls have tasks of their own: until then they do not know
                await checkpoint()
        self.steps = self.world.steps


def check_interruption(backend: str, told: Interruption) -> None:
    story = Interrupted(told)
    second, third = run(backend, story.happen)
    for results in story.outcomes:  # it ended before it was cancelled
        check_results(story.world, story.first, results)
    check_results(story.world, story.second, second)
    check_results(story.world, story.third, third)
    check_order(story.world)
    check_world(story.world)
    if not story.outcomes:
        check_nothing_followed(story)


def check_nothing_followed(story: Interrupted) -> None:
    """What waited for another call when its batch was cancelled never began."""
    plans, traces = story.world.plans, story.world.traces
    for one, other in combinations(story.world.arrived, 2):
        if one in traces and other in traces and other in story.first:
            waited = plans[one].conflicts(plans[other])
            ended = traces[one].order_of_end or 0
            assert not waited or ended <= story.steps or traces[other].order <= story.steps, (
                f"{other} began although its batch was cancelled while it waited for {one}"
            )


@pytest.mark.parametrize("backend", BACKENDS)
@FIRST_BUG
@given(told=interruptions)
@example(
    Interruption(
        Story((change("db:x", seconds=5, cleanup=1), change("db:x")), stops=((1.5, 0, None),)),
        second=(change("db:x"),),
        third=(look("db:x"),),
        seconds=1,
        turns=0,
    )
).via("its calls are cancelled while it is being cancelled")
@example(
    Interruption(
        Story((change("db:x", seconds=5), *[change("db:x")] * 3)),
        second=(),
        third=(look("db:x"),),
        seconds=1,
        turns=0,
    )
).via("those that waited do not get their turn")
def test_a_batch_may_be_cancelled_from_outside_at_any_await(
    backend: str, told: Interruption
) -> None:
    if backend == "trio":
        told = replace(told, by_task=False)
    check_interruption(backend, told)


@pytest.mark.parametrize(("backend", "by_task"), [("asyncio", True), ("asyncio", False), ("trio", False)])  # fmt: skip
@pytest.mark.parametrize("turns", range(20))
def test_a_batch_may_be_cancelled_from_outside_at_each_await_in_turn(
    backend: str,
    by_task: bool,  # noqa: FBT001  a parameter of the test
    turns: int,
) -> None:
    batch = (
        Plan("look_anywhere", turns=1),
        Plan("look_anywhere", turns=2),
        Plan("look_anywhere"),
        change("db:x", turns=2),
        change("db:x", "file:a", turns=2),
        look("file:", turns=1),
    )
    again = (Plan("look_anywhere"), Plan("change_anywhere"), Plan("look_anywhere"))
    for first in (batch, batch[:3]):
        check_interruption(
            backend, Interruption(Story(first), again, again, 0, turns, by_task=by_task)
        )


# Schedulers that are wrong, each in its own way: the same check must catch them.


async def _bare(world: World, n: int, into: dict[int, Result]) -> None:
    """Run a tool with nothing around it."""
    plan = world.plans[n]
    world.arrived.append(n)
    try:
        into[n] = Result(str(n), await Toolset.from_object(world)[plan.tool].fn(n=n))
    except (ToolFailed, Transient, RuntimeError):
        into[n] = Result.fail(str(n), FAILURES[plan.ends], plan.ends)


async def _in_groups(world: World, groups: Sequence[Sequence[int]]) -> list[Result]:
    results: dict[int, Result] = {}
    for group in groups:
        async with anyio.create_task_group() as tasks:
            for n in group:
                tasks.start_soon(_bare, world, n, results)
    world.arrived.sort()
    return [results[n] for n in sorted(results)]


async def parallel_ones_first(world: World, story: Story) -> list[Result]:
    """Those that only read side by side, then the others one by one: out of the model's order."""
    reads = [n for n, plan in enumerate(story.plans) if TOOLS[plan.tool] == READ]
    rest = [n for n, plan in enumerate(story.plans) if TOOLS[plan.tool] != READ]
    return await _in_groups(world, [reads, *([n] for n in rest)])


async def one_by_one(world: World, story: Story) -> list[Result]:
    """Safe, and slow."""
    return await _in_groups(world, [[n] for n in range(len(story.plans))])


async def all_at_once(world: World, story: Story) -> list[Result]:
    """Fast, and wrong."""
    return await _in_groups(world, [range(len(story.plans))])


async def runs_between_writes(world: World, story: Story) -> list[Result]:
    """Neighbours that only read side by side, everything else alone: right, but not fast enough."""
    groups: list[list[int]] = []
    for n, plan in enumerate(story.plans):
        reads = TOOLS[plan.tool] == READ
        if reads and groups and TOOLS[story.plans[groups[-1][-1]].tool] == READ:
            groups[-1].append(n)
        else:
            groups.append([n])
    return await _in_groups(world, groups)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "wrong", [parallel_ones_first, one_by_one, all_at_once, runs_between_writes]
)
def test_a_wrong_scheduler_is_caught_by_the_same_check(backend: str, wrong: Play) -> None:
    def caught(batch: tuple[Plan, ...]) -> bool:
        try:
            check(backend, Story(batch), wrong)
        except AssertionError:
            return True
        return False

    found = find(batches(answers=False), caught, settings=QUICKLY)

    check(backend, Story(found))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_order_of_the_model_is_what_parallel_ones_first_breaks(backend: str) -> None:
    story = Story((change("db:x"), look("db:x")))

    with pytest.raises(AssertionError, match=r"1 saw a world|1 began before 0 ended"):
        check(backend, story, parallel_ones_first)
    check(backend, story)


def test_a_right_scheduler_is_not_caught() -> None:
    def caught(batch: tuple[Plan, ...]) -> bool:
        try:
            check("trio", Story(batch), one_by_one, times=False)
        except AssertionError:
            return True
        return False

    with pytest.raises(NoSuchExample):
        find(batches(answers=False), caught, settings=QUICKLY)
