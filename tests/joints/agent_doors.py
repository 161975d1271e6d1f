"""Doors of an agent: its runs, its streams, saved states, sub-agents and durable runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from handrail import Approvals, Call, Executor, LongResults, Toolset
from handrail.agent import (
    Agent,
    InnerEvent,
    Limits,
    ResultFolder,
    RunResult,
    RunState,
    dump_state,
    load_state,
)
from handrail.approvals import defer
from handrail.permissions import Answer, MemoryLedger
from handrail.runs.durable import DurableRuns
from handrail.runs.migrating import migrate_tables
from joints.case import PATIENCE, Case, Door, Seen, make_model
from joints.own_doors import make_executor


def _take(seen: Seen, state: RunState | None) -> None:
    seen.read(() if state is None else state.messages)


def _answer(state: RunState, answers: Iterator[Answer]) -> dict[str, Answer]:
    return {pending.id: next(answers) for pending in state.pending if pending.question}


async def run_agent(case: Case, *, every_turn: bool = False) -> Seen:
    """Run an agent. Answers go to another agent, with the state as JSON; or every turn does."""
    seen, ledger, answers = Seen(), MemoryLedger(), iter(case.answers)
    state, given = RunState(run_id="R"), dict[str, Answer]()
    while True:
        turns = state.turns + 1 if every_turn else 50
        limits = Limits(turns=turns, last_word=False)
        async with make_executor(case, seen, ledger) as executor:
            agent = Agent(make_model(case), executor, limits=limits)
            prompt = () if state.messages else (case.prompt,)
            with case.inside():
                options = {"answers": given, "on_event": seen.hear}
                done = await agent.resume(state, *prompt, **options, **case.turn)
        state = load_state(dump_state(done.state))
        given = _answer(state, answers)
        if done.stop_reason not in ("pending", "limit"):
            _take(seen, state)
            return seen


async def resume_every_turn(case: Case) -> Seen:
    """Save the state after every turn, and let another agent continue. A folder has long results."""
    with TemporaryDirectory() as folder:
        kept = LongResults(store=ResultFolder(folder))
        options = {"long_results": kept, **case.options}
        return await run_agent(replace(case, options=options), every_turn=True)


async def stream_agent(case: Case) -> Seen:
    """Watch an agent."""
    seen, ledger, answers = Seen(), MemoryLedger(), iter(case.answers)
    state, given = RunState(run_id="R"), dict[str, Answer]()
    while True:
        silent = Seen()
        async with make_executor(case, silent, ledger) as executor:
            agent = Agent(make_model(case), executor)
            prompt = () if state.messages else (case.prompt,)
            options: Any = {"history": state, "answers": given, **case.turn}
            with case.inside():
                async with agent.stream(*prompt, **options) as events:
                    async for event in events:
                        seen.note(event)
                        seen.hear(event)
        done: RunResult[Any] = events.result
        state = load_state(dump_state(done.state))
        given = _answer(state, answers)
        if done.stop_reason != "pending":
            _take(seen, state)
            return seen


async def run_sub_agent(case: Case) -> Seen:
    """Run an agent that works for another one."""
    seen, ledger, answers = Seen(), MemoryLedger(), iter(case.answers)
    state, given = RunState(run_id="R"), dict[str, Answer]()
    outer = Case(replies=((Call("sub", {"task": "go"}, "s1"),),), tools=())

    def hear_inner(event: object) -> None:
        if isinstance(event, InnerEvent):
            seen.hear(event.event)

    while True:
        options: dict[str, Any] = dict(case.options)
        if case.answers:
            options["approvals"] = Approvals(ledger=ledger)
        options["hooks"] = [*options.get("hooks", ()), seen.hook(results=True)]
        inner = Executor(Toolset(*case.tools), **options)
        sub = Agent(make_model(case), inner).as_tool("sub", "Work on a task.")
        approvals = Approvals(approver=defer, ledger=ledger)
        async with inner, Executor(Toolset(sub), approvals=approvals) as executor:
            agent = Agent(make_model(outer), executor)
            prompt = () if state.messages else (case.prompt,)
            with case.inside():
                more: Any = {"answers": given, "on_event": hear_inner}
                done = await agent.resume(state, *prompt, **more, **case.turn)
        state = load_state(dump_state(done.state))
        given = _answer(state, answers)
        if done.stop_reason != "pending":
            sent = {call.id for calls in case.replies for call in calls}
            seen.results = {key: one for key, one in seen.results.items() if key in sent}
            return seen


@cache
def _migrated() -> bytes:
    """Return a file with all tables, to copy: making them takes most of the time of a row."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        migrate_tables(str(path))
        return path.read_bytes()


async def run_durably(case: Case) -> Seen:
    """Run an agent in a worker, on a SQLite file."""
    seen, answers, turn = Seen(), iter(case.answers), dict(case.turn)
    deps = {"joint": turn.pop("deps", None)}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        path.write_bytes(_migrated())
        path.chmod(0o600)
        options: dict[str, Any] = dict(case.options)
        if case.answers:
            options["approvals"] = Approvals(approver=defer)
        options["hooks"] = [*options.get("hooks", ()), seen.hook()]
        agent = Agent(make_model(case), case.tools, **options)
        runs = DurableRuns(str(path), {"joint": agent}, deps=deps, poll=0.05)
        async with runs.work(interval=0.2, drain_seconds=5):
            with case.inside():
                run = await runs.start("joint", case.prompt, run_id="R", **turn)
            if case.begun is not None:
                await case.begun.wait()
                await runs.cancel(run)
            with anyio.fail_after(PATIENCE):
                while (await runs.wait(run)).status == "waiting":
                    for pending in await runs.inbox():
                        await runs.answer(pending.id, next(answers))
            async for update in runs.watch(run):
                heard = {"started": "call", "finished": "result"}.get(update.fields["event"], "")
                seen.host += filter(None, [heard])
            _take(seen, (await runs.get(run)).state)
    return seen


run_durably.cancels = True  # type: ignore[attr-defined]  # the door itself, as its callers do

DOORS: dict[str, Door] = {
    "Agent.run": run_agent,
    "Agent.stream": stream_agent,
    "Agent.resume": resume_every_turn,
    "as_tool": run_sub_agent,
    "DurableRuns": run_durably,
}
