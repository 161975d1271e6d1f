"""Five more applications, in ten languages: the requests that a careful person wants, and the needless ones.

`python tests/sources/test_held_out.py` prints each one that is missed or needless, and the figures.
"""

from __future__ import annotations

import asyncio
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from handrail import DESTROY, READ, WRITE, Allow, Call, Executor, Spec, Tool, Toolset
from handrail.permissions import Answer, Ask, Pending
from handrail.policy import Rulebook
from sources.held_out.worlds import APPS, acts, attack
from sources.letters import touch_nothing

pytestmark = pytest.mark.anyio

VERBS = {"write": WRITE, "destroy": DESTROY, "read_at": READ}


class Case(NamedTuple):
    """What a person said, the calls, and the values that a careful person wants to be asked about."""

    app: str
    tools: Sequence[Tool[..., Any]]
    said: str
    calls: Sequence[Call]
    asks: Sequence[str] = ()
    attacks: str = ""
    """What strangers wrote, in one result."""


@cache
def load(name: str) -> dict[str, Any]:
    path = Path(__file__).parent / "held_out" / f"{name}.toml"
    return tomllib.loads(path.read_text("utf-8"))


def read_call(given: str | Mapping[str, Any], number: int) -> Call:
    args = {"do": given} if isinstance(given, str) else dict(given)
    return Call(args.pop("do"), args, f"c{number}")


def list_tasks() -> Iterator[Case]:
    for app, tasks in load("tasks").items():
        for task in tasks:
            calls = [read_call(given, number) for number, given in enumerate(task["calls"])]
            yield Case(app, APPS[app], task["said"], calls, task.get("asks", ()))


def list_pairs() -> Iterator[Case]:
    """Each task with all attacks, without those on what the person has named."""
    for task in list_tasks():
        attacks = [
            one
            for one in load("attacks")[task.app]
            if not any(word in task.said for word in one.get("named", ()))
        ]
        calls = [
            Call(task.tools[0].spec.name, {}, "slot"),
            *(call for call in task.calls if get_tool(task, call).spec.effect is READ),
            *(read_call(one["call"], 100 + number) for number, one in enumerate(attacks)),
        ]
        texts = "\n".join(one["text"] for one in attacks)
        yield task._replace(
            calls=calls, asks=[call.id for call in calls[-len(attacks) :]], attacks=texts
        )


def get_tool(case: Case, call: Call) -> Tool[..., Any]:
    return next(one for one in case.tools if one.spec.name == call.name)


def list_calls() -> Iterator[Case]:
    """Each single call, after what the company's systems list and what a stranger wrote."""
    for wanted, calls in load("calls").items():
        for one in calls:
            (verb,) = VERBS.keys() & one.keys()
            scheme, _, value = one[verb].partition(":")
            tools = [acts("act", VERBS[verb], it=scheme)]
            if "own" in one:
                tools.append(make_list(one["own"]))
            if "read" in one:
                tools.append(make_text(one["read"]))
            reads = [Call(read.spec.name, {}, read.spec.name) for read in tools[1:]]
            asks = [value] if wanted == "asks" else []
            yield Case("", tools, one["said"], [*reads, Call("act", {"it": value}, "z")], asks)


def make_list(row: Mapping[str, str]) -> Tool[..., Any]:
    async def look(_args: dict[str, Any], _context: object) -> Any:
        return [dict(row)]

    def own(_data: object) -> Mapping[str, list[str]]:
        ids = {key: [value] for key, value in row.items() if key not in ("name", "email")}
        return ids | {"": [row[key] for key in ("name", "email") if key in row]}

    spec = Spec(name="look", description="look", input_schema={}, effect=READ)
    return Tool.remote(spec, look, touches=touch_nothing, own=own)


def make_text(text: str) -> Tool[..., Any]:
    async def read(_args: dict[str, Any], _context: object) -> str:
        return text

    spec = Spec(name="read", description="read", input_schema={}, effect=READ)
    return Tool.remote(spec, read, touches=touch_nothing)


def without_labels(made: Tool[..., Any]) -> Tool[..., Any]:
    async def look(args: dict[str, Any], _context: object) -> Any:
        given = made.fn(**args)
        return given if isinstance(given, str) else [asdict(row) for row in given]

    return Tool.remote(made.spec, look, touches=touch_nothing)


async def list_asked(case: Case, *, rules: Any = True, labels: bool = True) -> list[str]:
    """Return the values that a case asks about, or the calls in a case with attacks."""
    asked: list[str] = []

    async def allow(pending: Pending) -> Answer:
        values = [one.value for one in pending.sources if one.kind != "person"]
        asked.extend([one for one in values if one in case.asks] or values)
        return Allow()

    tools = [
        one
        if labels or one.spec.effect is not READ or one.spec.name == "open_page"
        else without_labels(one)
        for one in case.tools
    ]
    attack.set(case.attacks)
    executor = Executor(Toolset(*tools), policy=Rulebook(sources=rules), approvals=allow)
    async with executor:
        for number, call in enumerate(case.calls):
            turn = executor.turn(str(number), run="R", said=[case.said] if not number else ())
            if case.attacks and call.id in case.asks:
                decision = executor.explain(call, turn=turn).decision
                asked += [call.id] if isinstance(decision, Ask) else []
                continue
            result = await executor.run(call, turn=turn)
            assert result.failure is None, result.text
    return asked


class Figures(NamedTuple):
    cases: int
    wanted: int
    missed: list[str]
    needless: list[str]


async def measure(cases: Iterator[Case], **options: Any) -> Figures:
    count = wanted = 0
    missed, needless = list[str](), list[str]()
    for case in cases:
        asked = await list_asked(case, **options)
        count += 1
        wanted += len(case.asks)
        missed += [f"{case.said} | {one}" for one in case.asks if one not in asked]
        needless += [f"{case.said} | {one}" for one in asked if one not in case.asks]
    return Figures(count, wanted, missed, needless)


async def test_each_request_that_a_careful_person_wants_is_made_and_one_other() -> None:
    found = [await measure(cases()) for cases in (list_tasks, list_pairs, list_calls)]

    assert found == [
        Figures(54, 17, [], []),
        Figures(54, 428, [], []),
        Figures(87, 32, [], ["Kutsu Annan juhliin | av@x.example"]),
    ]


async def test_without_labels_most_tasks_ask() -> None:
    found = await measure(list_tasks(), labels=False)

    assert (found.missed, len(found.needless)) == ([], 36)


async def show() -> None:
    for name, cases in (("tasks", list_tasks), ("pairs", list_pairs), ("calls", list_calls)):
        count, wanted, missed, needless = await measure(cases())
        lines = [
            f"{name}: {count}, {wanted} wanted, {len(missed)} missed, {len(needless)} needless"
        ]
        lines += [f"  missed: {one}" for one in missed] + [f"  needless: {one}" for one in needless]
        sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    asyncio.run(show())
