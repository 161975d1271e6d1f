"""Which call may start when, against an oracle that compares every call with every other."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, takewhile
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from handrail import DESTROY, READ, WRITE, Access, Executor
from handrail._execution.threads import Thread
from handrail._schedule import resource_tree, schedule
from handrail._schedule.resource_tree import EntryState, ScheduleEntry
from handrail._schedule.schedule import Schedule
from steps import counting

RESOURCES = [
    "*",
    "file:",
    "file:a",
    "file:a/b",
    "file:a/b/c",
    "file:a/d",
    "file:ab",
    "file:/etc",
    "file:../up",
    "db:x",
    "db:x/1",
    "net:host:80",
]
TOOLS = ["t", "u", "v"]


def accesses(*verbs: int) -> st.SearchStrategy[list[Access]]:
    one = st.builds(Access, st.sampled_from(verbs), st.sampled_from(RESOURCES))
    return st.lists(one, max_size=3)


@contextmanager
def tuned(**few: Any) -> Iterator[None]:
    """What happens only to many calls happens to few, so that a short test sees it."""
    places = [vars(module) for module in (resource_tree, schedule)]
    usual = [{name: names[name] for name in few if name in names} for names in places]
    for names, own in zip(places, usual, strict=True):
        names.update({name: few[name] for name in own})
    try:
        yield
    finally:
        for names, own in zip(places, usual, strict=True):
            names.update(own)


class Oracle:
    """The same promises, kept by looking at everybody."""

    def __init__(self, most: int, most_of: dict[str, int]) -> None:
        self.most = most
        self.most_of = most_of
        self.calls: dict[int, tuple[str, list[Access]]] = {}
        """Those that have not ended, in the order they came."""
        self.holds: dict[int, int] = {}
        self.running: set[int] = set()
        self.inner: dict[int, tuple[int, str, list[Access]]] = {}
        """Inner calls: whose they are, their tools, and what they touch."""

    def before(self, key: int) -> set[int]:
        """Whom a call must wait for."""
        earlier = takewhile(lambda other: other != key, self.calls)
        found = {other for other in earlier if self.conflict(self.calls[key][1], other)}
        return (found | self.lenders(self.calls[key][1])) - {key}

    def conflict(self, mine: list[Access], other: int) -> bool:
        return any(one.conflicts(two) for one in mine for two in self.calls[other][1])

    def lenders(self, mine: list[Access]) -> set[int]:
        """Whose inner calls are in the way."""
        return {
            outer
            for outer, _, accesses in self.inner.values()
            if any(one.conflicts(two) for one in mine for two in accesses)
        }

    def amend(self, key: int, accesses: list[Access]) -> None:
        """A call will touch something else; those that run have come before it."""
        self.calls[key] = (self.calls[key][0], accesses)
        self.calls = dict(sorted(self.calls.items(), key=lambda one: one[0] not in self.running))

    def behind(self, key: int, accesses: list[Access]) -> bool:
        """Whether an earlier call that has not started is in the way."""
        waiting = [one for one in self.calls if one < key and one not in self.running]
        return any(self.conflict(accesses, one) for one in waiting)

    def restart(self, key: int, accesses: list[Access]) -> None:
        """A call that runs waits again, before all later ones that have not started."""
        tool, _ = self.calls.pop(key)
        self.running.remove(key)
        order = list(self.calls)
        later = [at for at, one in enumerate(order) if one > key and one not in self.running]
        order.insert(later[0] if later else len(order), key)
        self.calls[key] = (tool, accesses)
        self.calls = {one: self.calls[one] for one in order}
        self.amend(key, accesses)

    def free(self, key: int) -> bool:
        """Whether nothing but a place can be missing."""
        return key not in self.running and not self.holds[key] and not self.before(key)

    def has_place(self, key: int) -> bool:
        tool = self.calls[key][0]
        return len(self.running) < self.most and self.has_slot(tool)

    def has_slot(self, tool: str) -> bool:
        used = [self.calls[one][0] for one in self.running]
        used += [name for _, name, _ in self.inner.values()]
        return used.count(tool) < self.most_of.get(tool, self.most)


class ScheduleMachine(RuleBasedStateMachine):
    """Any order of additions, releases, starts and ends."""

    open_calls = Bundle("open_calls")

    def __init__(self, most: int = 1000, most_of: dict[str, int] | None = None) -> None:
        super().__init__()
        self.schedule = Schedule(max_running=most, max_per_tool=most_of or {})
        self.oracle = Oracle(most, most_of or {})
        self.keys = count(1)
        self.dropped: set[int] = set()
        """Those whose tools have ended."""

    @rule(
        target=open_calls,
        tool=st.sampled_from(TOOLS),
        accesses=accesses(READ, WRITE, DESTROY),
        held=st.sampled_from([0, 0, 1, 2]),
    )
    def add(self, tool: str, accesses: list[Access], held: int) -> int:
        key = next(self.keys)
        self.oracle.calls[key] = (tool, accesses)
        self.oracle.holds[key] = held
        told = self.schedule.add(key, tool, accesses, held=held)
        assert set(told) <= self.oracle.before(key), "told of somebody who is not waited for"
        return key

    @rule(
        target=open_calls,
        tool=st.sampled_from(TOOLS),
        accesses=st.one_of(accesses(READ), accesses(READ, WRITE, DESTROY)),
    )
    def start_now(self, tool: str, accesses: list[Access]) -> int:
        key = next(self.keys)
        reads = all(access.verb == READ for access in accesses)
        if not self.schedule.start_now(key, tool, accesses, READ if reads else WRITE):
            self.schedule.add(key, tool, accesses)
            self.oracle.calls[key], self.oracle.holds[key] = (tool, accesses), 0
            return key
        self.oracle.calls[key], self.oracle.holds[key] = (tool, accesses), 0
        assert self.oracle.free(key)
        assert self.oracle.has_place(key)
        self.oracle.running.add(key)
        return key

    @rule(key=open_calls)
    def release(self, key: int) -> None:
        if self.oracle.holds.get(key):
            self.oracle.holds[key] -= 1
            self.schedule.release(key)

    @rule()
    def startable(self) -> None:
        for key in self.schedule.startable():
            assert self.oracle.free(key), f"{key} starts too early"
            assert self.oracle.has_place(key), f"{key} starts without a place"
            self.oracle.running.add(key)
        left = [key for key in self.oracle.calls if self.oracle.free(key)]
        late = [key for key in left if self.oracle.has_place(key)]
        assert not late, f"{late} are held back by nobody"

    @rule(key=open_calls, accesses=accesses(READ, WRITE, DESTROY))
    def amend(self, key: int, accesses: list[Access]) -> None:
        if self.oracle.holds.get(key) and key not in self.oracle.running:
            self.oracle.amend(key, accesses)
            self.schedule.amend(key, accesses)

    @rule(key=open_calls, accesses=accesses(READ, WRITE, DESTROY))
    def ask_for_more(self, key: int, accesses: list[Access]) -> None:
        """One that runs will touch something else: at once, or after it has waited again."""
        if key not in self.oracle.running or key in self.dropped:
            return
        behind, met = self.oracle.behind(key, accesses), self.schedule.running(accesses)
        assert self.schedule.is_behind(key, accesses) == behind
        if behind or [one for one in met if key not in (one, *self.oracle.inner.get(one, ())[:1])]:
            self.oracle.restart(key, accesses)
            told = self.schedule.restart(key, accesses)
            assert set(told) <= self.oracle.before(key), "told of somebody who is not waited for"
        else:
            self.oracle.amend(key, accesses)
            self.schedule.extend(key, accesses)

    @rule(at=st.integers(0, 3), accesses=accesses(READ, WRITE, DESTROY))
    def ask_within(self, at: int, accesses: list[Access]) -> None:
        """An inner call will touch something else, too."""
        for inner, (outer, tool, _) in list(self.oracle.inner.items())[at : at + 1]:
            if set(self.schedule.running(accesses)) <= {inner, outer}:
                self.oracle.inner[inner] = (outer, tool, accesses)
                self.schedule.extend(inner, accesses)

    @rule(key=open_calls, tool=st.sampled_from(TOOLS), accesses=accesses(READ, WRITE, DESTROY))
    def lend(self, key: int, tool: str, accesses: list[Access]) -> None:
        """One that runs makes a call."""
        if key in self.oracle.running and self.oracle.has_slot(tool):
            inner = next(self.keys)
            self.oracle.inner[inner] = (key, tool, accesses)
            self.schedule.lend(key, inner, tool, accesses)

    @rule(at=st.integers(0, 3))
    def take_back(self, at: int) -> None:
        for inner in list(self.oracle.inner)[at : at + 1]:
            _, tool, _ = self.oracle.inner.pop(inner)
            self.schedule.take_back(inner, tool)

    @rule(key=open_calls)
    def drop_accesses(self, key: int) -> None:
        """Only its inner calls are left."""
        if key in self.oracle.running:
            self.oracle.calls[key] = (self.oracle.calls[key][0], [])
            self.schedule.drop_accesses(key)
            self.dropped.add(key)

    @rule(accesses=accesses(READ, WRITE, DESTROY))
    def running(self, accesses: list[Access]) -> None:
        met = [key for key in self.oracle.running if self.oracle.conflict(accesses, key)]
        for inner, (_, _, held) in self.oracle.inner.items():
            met += [inner] if any(a.conflicts(b) for a in accesses for b in held) else []
        assert sorted(self.schedule.running(accesses)) == sorted(met)

    @rule(accesses=accesses(READ, WRITE, DESTROY))
    def conflicting(self, accesses: list[Access]) -> None:
        met = {key for key in self.oracle.calls if self.oracle.conflict(accesses, key)}
        met |= self.oracle.lenders(accesses)
        assert sorted(self.schedule.conflicting(accesses)) == sorted(met)

    @rule(key=consumes(open_calls))
    def end(self, key: int) -> None:
        """Whether it runs, waits, or is held."""
        for inner, (outer, tool, _) in list(self.oracle.inner.items()):
            if outer == key:
                del self.oracle.inner[inner]
                self.schedule.take_back(inner, tool)
        self.schedule.end(key)
        self.oracle.running.discard(key)
        del self.oracle.calls[key], self.oracle.holds[key]

    @invariant()
    def counts(self) -> None:
        assert self.schedule.open == len(self.oracle.calls)

    def teardown(self) -> None:
        """Everything that is left can be brought to an end."""
        for key, holds in self.oracle.holds.items():
            for _ in range(holds):
                self.schedule.release(key)
            self.oracle.holds[key] = 0
        self.startable()
        while self.oracle.running:
            self.end(min(self.oracle.running))
            self.startable()
        assert not self.oracle.calls


class BoundedMachine(ScheduleMachine):
    """The same with few places."""

    def __init__(self) -> None:
        super().__init__(most=3, most_of={"t": 1, "u": 2})


LONGER = settings(stateful_step_count=40, report_multiple_bugs=False)


class TestWithoutLimits(ScheduleMachine.TestCase):
    settings = LONGER


class TestWithLimits(BoundedMachine.TestCase):
    settings = LONGER


class TestWhilePruning(ScheduleMachine.TestCase):
    settings = LONGER

    def runTest(self) -> None:  # noqa: N802  unittest's name
        with tuned(_MAX_STALE_ACCESSES=5):
            super().runTest()


class TestWithGroups(ScheduleMachine.TestCase):
    settings = LONGER

    def runTest(self) -> None:  # noqa: N802  unittest's name
        with tuned(_MIN_GROUP_ENTRIES=2, _MAX_STALE_ACCESSES=30):
            super().runTest()


def write(resource: str) -> list[Access]:
    return [Access(WRITE, resource)]


def read(resource: str) -> list[Access]:
    return [Access(READ, resource)]


def test_a_call_waits_for_exactly_those_it_conflicts_with() -> None:
    schedule = Schedule()

    assert schedule.add(1, "t", write("file:a")) == ()
    assert schedule.add(2, "t", read("file:b")) == ()
    assert schedule.add(3, "t", [*write("file:b"), *write("file:a")]) == (2, 1)
    assert schedule.add(4, "t", read("file:a/deep")) == (3,)
    assert schedule.startable() == [1, 2]
    schedule.end(1)
    assert schedule.startable() == []
    schedule.end(2)
    assert schedule.startable() == [3]
    schedule.end(3)
    assert schedule.startable() == [4]


def test_a_held_call_that_is_given_up_lets_the_next_one_go() -> None:
    schedule = Schedule()
    schedule.add(1, "t", write("file:a"), held=True)
    schedule.add(2, "t", write("file:a"))

    schedule.end(1)

    assert schedule.startable() == [2]


def test_a_call_that_is_given_up_while_it_waits_for_a_place_gives_the_place_on() -> None:
    schedule = Schedule(max_per_tool={"t": 1})
    for key in (1, 2, 3):
        schedule.add(key, "t", [])
    assert schedule.startable() == [1]

    schedule.end(2)
    schedule.end(1)

    assert schedule.startable() == [3]


def test_a_call_that_is_given_up_just_as_it_gets_its_place_gives_it_on() -> None:
    schedule = Schedule(max_per_tool={"t": 1})
    for key in (1, 2, 3):
        schedule.add(key, "t", [])
    assert schedule.startable() == [1]

    schedule.end(1)
    schedule.end(2)

    assert schedule.startable() == [3]


def test_a_call_that_is_given_up_holds_back_nobody_who_does_not_conflict() -> None:
    schedule = Schedule()
    schedule.add(1, "t", write("file:a"))
    schedule.add(2, "t", [*write("file:a"), *write("file:b")])
    schedule.add(3, "t", write("file:b"))
    schedule.add(4, "t", write("file:a"))
    assert schedule.startable() == [1]

    schedule.end(2)

    assert schedule.startable() == [3]
    assert schedule.add(5, "t", write("file:a/x")) == (4,)


def test_who_comes_after_one_that_was_given_up_waits_for_those_before_it() -> None:
    schedule = Schedule()
    schedule.add(1, "t", write("file:a"))
    assert schedule.startable() == [1]
    schedule.add(2, "t", write("file:a"))
    schedule.end(2)

    assert schedule.add(3, "t", write("file:a")) == (1,)
    assert schedule.startable() == []


def test_the_call_that_makes_it_prune_waits_like_any_other() -> None:
    with tuned(_MAX_STALE_ACCESSES=3):
        schedule = Schedule()
        for key in range(8):
            schedule.add(key, "t", write(f"file:{key}"))
        assert schedule.startable() == list(range(8))

        for key in range(8, 16):
            assert schedule.add(key, "t", write(f"file:{key - 8}")) == (key - 8,)
        assert schedule.startable() == []


# How it grows: what it costs is counted in steps, so that a busy machine does not matter.


MAX_GROWTH = 9
"""Twice as many calls may cost three times as much."""


def distinct_writes(n: int) -> list[list[Access]]:
    return [write(f"file:{key}") for key in range(n)]


def same_resource(n: int) -> list[list[Access]]:
    return [write("file:a")] * n


def writes_then_root_reads(n: int) -> list[list[Access]]:
    return [write(f"file:{key}") for key in range(n // 2)] + [read("*")] * (n // 2)


def reads_then_root_writes(n: int) -> list[list[Access]]:
    return [read(f"file:{key}") for key in range(n // 2)] + [write("*")] * (n // 2)


def root_reads_then_writes(n: int) -> list[list[Access]]:
    return [read("*")] * (n // 2) + [write(f"file:{key}") for key in range(n // 2)]


def alternating(n: int) -> list[list[Access]]:
    return [read("*") if key % 2 else write(f"file:{key}") for key in range(n)]


def alternating_on_one(n: int) -> list[list[Access]]:
    return [read("file:a") if key % 2 else write("file:a") for key in range(n)]


def reads_among_writes(n: int) -> list[list[Access]]:
    return [write(f"file:{key}/x") if key % 8 else read("file:") for key in range(n)]


def deep_paths(n: int) -> list[list[Access]]:
    return [write("file:" + "/".join("abcdefghij"[: key % 10 + 1])) for key in range(n)]


def deep_and_apart(n: int) -> list[list[Access]]:
    return [write(f"file:a/b/c/d/e/f/g/{key}") for key in range(n)]


def many_accesses(n: int) -> list[list[Access]]:
    return [[*write(f"file:{key}"), *read(f"file:{key - 1}")] for key in range(n)]


SHAPES = [
    distinct_writes,
    same_resource,
    writes_then_root_reads,
    reads_then_root_writes,
    root_reads_then_writes,
    alternating,
    alternating_on_one,
    reads_among_writes,
    deep_paths,
    deep_and_apart,
    many_accesses,
]


def run_all(shape: list[list[Access]]) -> None:
    """Take all in, then run all to the end."""
    schedule = Schedule()
    for key, wanted in enumerate(shape):
        schedule.add(key, "t", wanted)
    while running := schedule.startable():
        for key in running:
            schedule.end(key)
    assert schedule.open == 0


def cancel_all(shape: list[list[Access]]) -> None:
    """Take all in, start some, then give all up."""
    schedule = Schedule()
    for key, wanted in enumerate(shape):
        schedule.add(key, "t", wanted)
    running = schedule.startable()
    for key in reversed(range(len(shape))):
        schedule.end(key)
    assert running
    assert schedule.open == 0
    assert schedule.startable() == []


def one_in_ten_is_given_up(shape: list[list[Access]]) -> None:
    """Take all in, and give some up at once, as somebody does who asks for a batch to be cut."""
    schedule = Schedule()
    for key, wanted in enumerate(shape):
        schedule.add(key, "t", wanted)
    running = set(schedule.startable())
    for key in range(0, len(shape), 10):
        schedule.end(key)
    while running := set(schedule.startable()) | (running - set(range(0, len(shape), 10))):
        for key in running:
            schedule.end(key)
        running = set()
    assert schedule.open == 0


class CountedEntry(ScheduleEntry):
    """An entry that counts how often somebody looks at its state, where no function is called."""

    looks = 0

    @property
    def state(self) -> EntryState:
        CountedEntry.looks += 1
        return self._own_state

    @state.setter
    def state(self, state: EntryState) -> None:
        self._own_state = state


def steps(work: Callable[[list[list[Access]]], None], shape: list[list[Access]]) -> int:
    CountedEntry.looks = 0
    with tuned(ScheduleEntry=CountedEntry), counting() as counted:
        work(shape)
    return counted.total + CountedEntry.looks


@pytest.mark.parametrize("work", [run_all, cancel_all, one_in_ten_is_given_up])
@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_as_many_calls_cost_about_four_times_as_much(
    shape: Callable[[int], list[list[Access]]], work: Callable[[list[list[Access]]], None]
) -> None:
    assert growth(work, shape) <= MAX_GROWTH


@pytest.mark.parametrize("work", [run_all, cancel_all])
def test_pruning_while_everybody_waits_costs_little_more(
    work: Callable[[list[list[Access]]], None],
) -> None:
    with tuned(_MAX_STALE_ACCESSES=5):
        assert growth(work, same_resource) <= MAX_GROWTH


def growth(
    work: Callable[[list[list[Access]]], None], shape: Callable[[int], list[list[Access]]]
) -> float:
    """How many times as much four times as many calls cost."""
    return steps(work, shape(200)) / steps(work, shape(50))


def test_without_groups_the_same_count_finds_that_it_grows_faster() -> None:
    with tuned(_MIN_GROUP_ENTRIES=10_000):
        assert growth(run_all, writes_then_root_reads) > MAX_GROWTH


def things(root: object) -> int:
    """How many objects of the schedule hang on one."""
    seen: dict[int, object] = {}
    todo = [root]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        todo += [each for each in gc.get_referents(one) if not isinstance(each, type | ModuleType)]
    return len(seen)


NEVER_IDLE = {
    "distinct writes": lambda key: write(f"file:{key}"),
    "distinct reads": lambda key: read(f"file:{key}"),
    "one reader after the other": lambda _key: read("file:"),
    "deep paths": lambda key: write(f"file:a/{key % 7}/{key}/b/c"),
    "writes and reads of all": lambda key: write(f"file:{key}") if key % 10 else read("file:"),
}


@pytest.mark.parametrize("wanted", NEVER_IDLE.values(), ids=NEVER_IDLE)
def test_a_schedule_that_is_never_idle_forgets_those_that_ended(
    wanted: Callable[[int], list[Access]],
) -> None:
    sizes = []
    with tuned(_MAX_STALE_ACCESSES=100):
        schedule = Schedule()
        schedule.add(-10, "t", write("db:long"))  # it runs all the time
        schedule.add(-9, "t", write("db:long"))  # and this one waits for it all the time
        assert schedule.startable() == [-10]
        for key in range(1, 3001):
            schedule.add(key, "t", wanted(key))
            assert schedule.startable() == [key]
            schedule.end(key)
            if key % 500 == 0:
                sizes.append(things(schedule))

    assert max(sizes) < 3000, sizes
    assert schedule.open == 2


def test_a_call_that_runs_for_long_does_not_keep_those_that_gave_up_waiting_for_it() -> None:
    with tuned(_MAX_STALE_ACCESSES=100):
        schedule = Schedule()
        schedule.add(-10, "t", write("db:long"))
        assert schedule.startable() == [-10]
        for key in range(1, 3001):
            schedule.add(key, "t", write("db:long"))
            schedule.end(key)
            assert schedule.startable() == []

    assert things(schedule) < 3000


def test_work_that_was_called_off_before_its_thread_began_is_not_done() -> None:
    done: list[str] = []
    counts: list[int] = []
    with Executor.count_threads(counts.append):
        thread = Thread()

    assert thread.abandon(lambda: done.append("ended")) is False
    assert thread.abandon(lambda: done.append("ended")) is False
    assert thread.run(lambda: done.append("worked")) == (None,)
    assert (done, counts) == ([], [1, -1])
