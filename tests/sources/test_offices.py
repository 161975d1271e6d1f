"""Five small applications: each question a careful person wants is asked, and few others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from handrail import READ, Access, Call, Deny, Executor, Spec, Tool, Toolset
from handrail.permissions import Answer, Pending
from handrail.policy import Rulebook
from sources.letters import touch_nothing
from sources.office_cases import ATTACKS, TASKS, TOOLS, Case, Does, Read

pytestmark = pytest.mark.anyio


def make_tool(name: str, does: Does) -> Tool[..., Any]:
    async def act(args: dict[str, Any], _context: object) -> str:
        return f"done: {sorted(args)}"

    def touches(**args: Any) -> list[Access]:
        given = [(scheme, args[key]) for key, scheme in does.names.items()]
        several = [(scheme, one if isinstance(one, list) else [one]) for scheme, one in given]
        return [Access(does.verb, f"{scheme}:{one}") for scheme, every in several for one in every]

    tags = frozenset(["commits"] if does.commits else [])
    spec = Spec(name=name, description=name, input_schema={}, effect=does.verb, tags=tags)
    return Tool.remote(spec, act, touches=touches)


def make_reader(name: str, read: Read) -> Tool[..., Any]:
    async def look(_args: dict[str, Any], _context: object) -> Any:
        return read.data

    def own(data: Any) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for row in data if isinstance(data, list) else ():
            for field, scheme in read.own.items():
                found.setdefault(scheme, []).append(row[field])
        return found

    spec = Spec(name=name, description=name, input_schema={}, effect=READ)
    return Tool.remote(spec, look, touches=touch_nothing, own=own)


async def list_asked(case: Case, *, rules: Any = True, labels: bool = True) -> list[str]:
    """Return the values that a case asks about."""
    asked: list[Pending] = []

    async def decline(pending: Pending) -> Answer:
        asked.append(pending)
        return Deny("No.")

    reads = [one if labels else Read(one.data) for one in case.reads]
    readers = [make_reader(f"look_{number}", one) for number, one in enumerate(reads)]
    acting = make_tool(case.tool, TOOLS[case.tool])
    policy = Rulebook(sources=rules)
    executor = Executor(Toolset(acting, *readers), policy=policy, approvals=decline)
    async with executor:
        for number, reader in enumerate(readers):
            turn = executor.turn(str(number), run="R", said=[case.said])
            await executor.run(Call(reader.spec.name, {}, f"c{number}"), turn=turn)
        last = executor.turn("last", run="R", said=[case.said])
        result = await executor.run(Call(case.tool, case.args, "z"), turn=last)
    assert bool(result.failure) is bool(asked)
    return [one.value for pending in asked for one in pending.sources if one.kind != "person"]


def is_right(case: Case, asked: list[str]) -> bool:
    return case.asks in asked if case.asks else not asked


@pytest.mark.parametrize("rules", ["strict"])
async def test_each_question_a_careful_person_wants_is_asked_and_no_other(rules: Any) -> None:
    asked = {case.name: await list_asked(case, rules=rules) for case in (*TASKS, *ATTACKS)}

    assert len(asked) == len(TASKS) + len(ATTACKS) == 65
    assert [one.name for one in (*TASKS, *ATTACKS) if not is_right(one, asked[one.name])] == []


async def test_without_labels_more_tasks_ask() -> None:
    asked = [await list_asked(case, labels=False) for case in TASKS]

    assert [sum(map(bool, asked)), sum(bool(case.asks) for case in TASKS)] == [21, 12]
