"""What a policy sees is the same in a new run, and in one that was resumed, forked, adopted or replayed."""

from __future__ import annotations

import shutil
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail import READ, Allow, Call, CheckedCall, Decision, Text, Toolset, tool
from handrail.agent import Agent
from handrail.messages import ModelError, Prompt, Reply, Request
from handrail.runs import replay_run
from handrail.runs.durable import DurableRuns
from handrail.runs.lines import EVENTS, as_fields

SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
METADATA = st.dictionaries(st.text(max_size=3), SCALARS | st.lists(SCALARS, max_size=2), max_size=3)
DEPS = object()


class Case(NamedTuple):
    """For whom a run is, and what is said about it."""

    principal: str | None
    metadata: dict[str, Any]


CASES = st.lists(st.builds(Case, st.none() | st.text(max_size=3), METADATA), min_size=3, max_size=3)


class View(NamedTuple):
    """What a policy sees of a call's turn."""

    principal: str | None
    metadata: dict[str, Any]
    has_deps: bool
    turn: str


@tool(effect=READ)
async def look(name: str) -> str:
    """Look."""
    return f"saw {name}"


class Watched:
    """An agent whose policy notes what it sees, and whose model fails at first where it should."""

    def __init__(self) -> None:
        self.seen: dict[str, list[View]] = {}
        self._failed: set[str] = set()
        self.agent = Agent(self._model, [look], policy=self.policy)

    def policy(self, call: CheckedCall) -> Decision:
        turn = call.turn
        view = View(turn.principal, dict(turn.metadata), turn.deps is DEPS, turn.id)
        self.seen.setdefault(turn.run_id, []).append(view)
        return Allow()

    async def _model(self, request: Request) -> Reply:
        [first, *others] = request.messages
        assert isinstance(first, Prompt)
        [name] = [part.text for part in first.parts if isinstance(part, Text)]
        if others:
            return Reply((Text("Seen."),))
        if "resumed" in name and name not in self._failed:
            self._failed.add(name)
            raise ModelError("away")
        return Reply((Call("look", {"name": "a"}, "c1"),))


async def see(path: str, cases: list[Case], *, forget: bool) -> list[dict[str, View]]:
    """Let runs be worked on in every way. Returns what the policy saw, by way and case."""
    watched = Watched()
    served: dict[str, Any] = {"agents": {"a": watched.agent}, "deps": {"a": DEPS}, "poll": 0.02}
    numbered = list(enumerate(cases))
    async with DurableRuns(path, version="1", **served) as old:
        for number, case in numbered:
            await old.start("a", f"adopted {number}", run_id=f"adopted {number}", **case._asdict())
    runs = DurableRuns(path, version="2", **served)
    async with runs.work(interval=0.1):
        await runs.adopt("1")
        for way in ("new", "resumed"):
            for number, case in numbered:
                name = f"{way} {number}"
                await runs.start("a", name, run_id=name, **case._asdict())
        await wait_all(runs, ("new", "resumed", "adopted"), len(cases))
        if forget:
            forget_metadata(path)
        for number, _ in numbered:
            await runs.resume(f"resumed {number}")
            await runs.fork(f"new {number}", turn=0, new_id=f"forked {number}")
        await wait_all(runs, ("resumed", "forked"), len(cases))
        again = [await replay(runs, f"new {number}") for number, _ in numbered]
    ways = ("new", "adopted", "resumed", "forked")
    seen = [{way: watched.seen[f"{way} {number}"][0] for way in ways} for number, _ in numbered]
    return [{**views, "replayed": view} for views, view in zip(seen, again, strict=True)]


async def wait_all(runs: DurableRuns, ways: tuple[str, ...], count: int) -> None:
    for way in ways:
        for number in range(count):
            await runs.wait(f"{way} {number}", seconds=60)


async def replay(runs: DurableRuns, run_id: str) -> View:
    run = await runs.get(run_id)
    assert run.state is not None
    watched = Watched()
    lines = [as_fields(entry) for entry in runs.store.read(run_id, kinds=EVENTS)]
    about: dict[str, Any] = {"principal": run.principal, "metadata": run.metadata, "deps": DEPS}
    done = await replay_run(run.state, lines, Toolset(look), policy=watched.policy, **about)
    assert done.differences == ()
    return watched.seen[run_id][0]


def forget_metadata(path: str) -> None:
    file = sqlite3.connect(path, timeout=30)
    file.execute("UPDATE handrail_run SET metadata = '{}'")
    file.commit()
    file.close()


WAYS = ("new", "adopted", "resumed", "forked", "replayed")


@settings(max_examples=2)
@given(cases=CASES)
def test_a_policy_sees_the_same_however_a_run_came_about(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory, cases: list[Case]
) -> None:
    path = str(shutil.copy(sqlite_template, tmp_path_factory.mktemp("runs")))
    seen = anyio.run(partial(see, path, cases, forget=False))

    wanted = [View(case.principal, case.metadata, has_deps=True, turn="1") for case in cases]
    assert seen == [dict.fromkeys(WAYS, view) for view in wanted]


def test_without_the_column_it_does_not(sqlite: str) -> None:
    case = Case("ada", {"tenant": "acme"})
    [seen] = anyio.run(partial(see, sqlite, [case], forget=True))

    known = {way for way, view in seen.items() if view.metadata == case.metadata}
    assert known == {"new", "adopted"}


async def test_metadata_is_a_part_of_a_run(database: str) -> None:
    facts = {"tenant": "acme", "more": [1, None, {"a": "\udc80"}]}
    async with DurableRuns(database, {"a": Watched().agent}) as runs:
        run = await runs.get(await runs.start("a", "Look.", metadata=facts))

    assert run.metadata == facts
