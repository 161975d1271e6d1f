"""Budgets at each door: agents, streams, resumed and durable runs, chats, sub-agents and tool calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest

from handrail import READ, Allow, Call, Context, Deny, Text, tool
from handrail.agent import Agent, InnerEvent, Limits, Spender
from handrail.approvals import defer
from handrail.messages import (
    Delta,
    ModelError,
    Price,
    Reply,
    Request,
    StreamItem,
    ToolResults,
    Usage,
)
from handrail.programs import program_tool
from handrail.runs import open_runs
from handrail.runs.durable import DurableRuns
from handrail.shared import Budget
from handrail.web import ChatApp, Visitor

PRICES = Price(input=1000, output=1000, cached=1000, cache_write=1000)
USED = Usage(input_tokens=600, output_tokens=400)  # one dollar
FINISH = "Finish with what you have."
UNTIL = "2026-03-02 00:00 UTC"
NOON = 1_772_366_400.0  # 2026-03-01
REFUSED = f"The budget of 2.5 per principal and day is used up until {UNTIL}"


async def model(request: Request) -> AsyncIterator[StreamItem]:
    """Answers "so" for one dollar; `look` calls the tool first."""
    last = request.messages[-1]
    if "look" in str(last) and not isinstance(last, ToolResults):
        call = Call("look", {}, f"c{len(request.messages)}")
        yield call
        yield Reply((call,), "calls", usage=USED, model="large")
        return
    yield Delta("so")
    yield Reply((Text("so"),), usage=USED, model="large")


async def small(_request: Request) -> Reply:
    return Reply((Text("briefly"),), usage=Usage(input_tokens=10), model="small")


@tool(effect=READ, touches=lambda: ())
def look() -> str:
    """Look."""
    return "seen"


def make(folder: Path, limit: Any = 2.5, **options: Any) -> Budget:
    given = {"prices": PRICES, "clock": lambda: NOON, "database": folder / "b.db", **options}
    return Budget(limit, **given)


async def spend(agent: Agent[Any], who: str = "ada", **options: Any) -> str:
    done = await agent.run("hello", principal=who, **options)
    return done.stop_detail or f"{done.output}"


async def spent_of(budget: Budget) -> dict[str, Decimal]:
    return {use.holder: use.spent for use in await budget.read_uses()}


async def test_each_principal_has_a_budget_of_its_own(tmp_path: Path) -> None:
    budget = make(tmp_path)
    agent = Agent(model, budget=budget)

    said = [await spend(agent) for _ in range(4)] + [await spend(agent, "bob")]

    assert said == ["so", "so", "so", REFUSED, "so"]
    [ada, bob] = await budget.read_uses()
    assert (ada.holder, ada.spent, ada.reserved, ada.limit) == ("ada", 3, 0, Decimal("2.5"))
    assert (ada.is_used_up, bob.is_used_up, dict(ada.parts)) == (True, False, {"large": 3})


async def test_the_budget_renews_with_its_window(tmp_path: Path) -> None:
    now = [NOON]
    agent = Agent(model, budget=make(tmp_path, 1, clock=lambda: now[0]))

    first = [await spend(agent), await spend(agent)]
    now[0] += 86_400

    assert [len(one) > 2 for one in (*first, await spend(agent))] == [False, True, False]


@pytest.mark.parametrize(
    ("window", "until"), [("month", "2026-04-01 00:00"), (3600.0, "2026-03-01 13:00")]
)
async def test_windows_are_months_or_seconds(tmp_path: Path, window: Any, until: str) -> None:
    agent = Agent(model, budget=make(tmp_path, 0, window=window))

    assert f"is used up until {until} UTC" in await spend(agent)


async def test_a_budget_per_tenant_or_by_a_function(tmp_path: Path) -> None:
    def plan(spender: Spender) -> float:
        return 3 if spender.metadata["plan"] == "gold" else 1

    tenants = make(tmp_path, plan, per="tenant")
    teams = make(tmp_path, 9, per=lambda one: None if one.principal == "root" else "all", name="t")
    agent = Agent(model, budget=[tenants, teams])
    gold, plain = ({"tenant": name, "plan": name} for name in ("gold", "plain"))

    for who, about in (
        ("ada", gold),
        ("bob", gold),
        ("root", gold),
        ("eve", plain),
        ("eve", plain),
    ):
        await spend(agent, who, metadata=about)

    assert await spent_of(tenants) == {"gold": 3, "plain": 1}
    assert await spent_of(teams) == {"all": 3}


async def test_a_budget_of_tokens(tmp_path: Path) -> None:
    budget = make(tmp_path, 1500, unit="tokens", prices=None)
    agent = Agent(model, budget=budget)

    said = [await spend(agent) for _ in range(3)]

    assert said[2].startswith("The budget of 1,500 tokens per principal and day")
    assert await spent_of(budget) == {"ada": 2000}


async def test_a_budget_of_calls_refuses_calls(tmp_path: Path) -> None:
    budget = make(tmp_path, 1, unit="calls")
    agent = Agent(model, [look], budget=budget)

    runs = [await agent.run("look", principal="ada") for _ in range(2)]

    [ok, refused] = [run.state.messages[2].results[0] for run in runs]  # type: ignore[union-attr]
    assert (ok.text, refused.text) == (
        "seen",
        f"Not run. The budget of 1 call per principal and day is used up until {UNTIL}. {FINISH}",
    )
    [use] = await budget.read_uses()
    assert (use.spent, dict(use.parts)) == (1, {"look": 1})


async def test_at_the_limit_another_model_answers(tmp_path: Path) -> None:
    budget = make(tmp_path, 1, at_limit=small)
    agent = Agent(model, budget=budget)

    assert [await spend(agent) for _ in range(3)] == ["so", "briefly", "briefly"]
    [use] = await budget.read_uses()
    assert dict(use.parts) == {"large": 1, "small": Decimal("0.02")}


async def test_at_the_limit_a_person_can_add_to_it(tmp_path: Path) -> None:
    budget = make(tmp_path, 1, at_limit="ask")
    agent = Agent(model, budget=budget, approvals=defer)
    await spend(agent)

    asked = await agent.run("hello", principal="ada")
    [question] = asked.questions
    done = await agent.resume(asked.state, answers={question.id: Allow()}, principal="ada")
    again = await agent.run("hello", principal="ada")
    denied = await agent.resume(
        again.state, answers={again.questions[0].id: Deny("No.")}, principal="ada"
    )

    assert question.headline == "Raise the budget cost_principal_day by 1?"
    assert (done.output, denied.limit) == ("so", "budget")
    assert denied.stop_detail == f"The budget of 2 per principal and day is used up until {UNTIL}"
    assert [use.limit for use in await budget.read_uses()] == [2]


async def test_calls_over_a_budget_tell_the_model_how_to_ask(tmp_path: Path) -> None:
    agent = Agent(model, [look], budget=make(tmp_path, 0, unit="calls", at_limit="ask"))

    done = await agent.run("look", principal="ada")

    assert (
        done.state.messages[2]
        .results[0]
        .text.endswith(  # type: ignore[union-attr]
            "To ask for more, call raise_calls_principal_day."
        )
    )


async def test_streams_count_what_arrived_before_they_were_left(tmp_path: Path) -> None:
    async def endless(_request: Request) -> AsyncIterator[StreamItem]:
        while True:
            yield Delta("word " * 3)

    budget = make(tmp_path, 100)
    async with Agent(endless, budget=budget).stream("hello", principal="ada") as events:
        async for event in events:
            if isinstance(event, Delta):
                break

    [use] = await budget.read_uses()
    assert 0 < use.spent < 1
    assert use.reserved == 0


async def test_a_failed_request_costs_what_the_model_reports(tmp_path: Path) -> None:
    async def broken(_request: Request) -> AsyncIterator[StreamItem]:
        error = ModelError("Away.", "network")
        error.usage = USED
        yield Delta("s")
        raise error

    budget = make(tmp_path)
    with pytest.raises(ModelError, match="Away"):
        await Agent(broken, budget=budget).run("hello", principal="ada")

    assert await spent_of(budget) == {"ada": 1}


async def test_a_sub_agent_spends_its_callers_budget(tmp_path: Path) -> None:
    budget = make(tmp_path, 2)
    helper = Agent(model).as_tool("help", "Helps.", effect=READ)

    async def asks_for_help(_request: Request) -> Reply:
        return Reply((Call("help", {"task": "go"}, "c1"),), "calls", usage=USED)

    done = await Agent(asks_for_help, [helper], budget=budget).run("hello", principal="ada")

    assert (done.stop_detail, done.limit) == (REFUSED.replace("2.5", "2"), "budget")
    assert await spent_of(budget) == {"ada": 2}


@pytest.mark.parametrize("name", ["run_program", "delegate"])
async def test_a_sub_agent_in_a_program_or_a_tools_turn_spends_it_too(
    tmp_path: Path, name: str
) -> None:
    budget = make(tmp_path, 2)
    helper = Agent(model).as_tool("assist", "Assists.", effect=READ)

    @tool(effect=READ, touches=lambda **_: ())
    async def delegate(code: str, context: Context) -> str:
        """Delegate."""
        [result] = await context.turn("1", [Call("assist", {"task": code}, "h")], tools=[helper])
        return result.text

    async def delegates(_request: Request) -> Reply:
        call = Call(name, {"code": "await assist(task='go')"}, "c/1")
        return Reply((call,), "calls", usage=USED)

    tools = [helper, program_tool([helper]), delegate]
    agent = Agent(delegates, tools, budget=budget, limits=Limits(tokens=9_000))
    async with agent.stream("hello", principal="ada") as events:
        inside = [one async for one in events]
    done = events.result

    assert (done.stop_detail, done.limit) == (REFUSED.replace("2.5", "2"), "budget")
    assert (await spent_of(budget), done.state.usage.total) == ({"ada": 2}, 2_000)
    replies = [
        one.call_id
        for one in inside
        if isinstance(one, InnerEvent) and isinstance(one.event, InnerEvent)
        if isinstance(one.event.event, Reply)
    ]
    assert replies == ["c/1"]


async def test_a_budget_of_calls_counts_those_of_sub_agents_and_programs(tmp_path: Path) -> None:
    async def inner(request: Request) -> Reply:
        """Gives the task to the next one, or runs a program."""
        if isinstance(request.messages[-1], ToolResults):
            return Reply((Text(request.messages[-1].results[0].text),))
        name, args = "run_program", {"code": "[await look() for _ in range(3)]"}
        if request.tools.find("help") is not None:
            name, args = "help", {"task": "look"}
        return Reply((Call(name, args, "c1"),), "calls")

    async def run(most: int, **options: Any) -> tuple[str, dict[str, Any]]:
        budget = make(tmp_path, most, unit="calls", name=f"calls_{most}", **options)
        lowest = Agent(inner, [look, program_tool([look])]).as_tool("help", "Helps.", effect=READ)
        middle = Agent(inner, [lowest], budget=budget).as_tool("help", "Helps.", effect=READ)
        done = await Agent(inner, [middle], budget=budget).run("look", principal="ada")
        [use] = await budget.read_uses()
        return f"{done.output}", dict(use.parts)

    used = f"The budget of 5 calls per principal and day is used up until {UNTIL}."
    assert await run(9) == (
        '["seen", "seen", "seen"]',
        {"help": 2, "look": 3, "run_program": 1},
    )
    said, parts = await run(5, at_limit="ask")
    assert (f"Not run. {used} {FINISH}" in said, parts) == (
        True,
        {"help": 2, "look": 2, "run_program": 1},
    )


async def test_a_request_waits_for_the_one_under_way(tmp_path: Path) -> None:
    """Both fit in fact, but not by their estimates."""
    going = anyio.Event()

    async def slow(_request: Request) -> AsyncIterator[StreamItem]:
        yield Delta("so")
        await going.wait()
        yield Reply((Text("so"),), usage=USED)

    budget = make(tmp_path, 5)
    said: list[str] = []

    async def run(wait: Callable[[], Any]) -> None:
        wait()
        said.append(await spend(Agent(slow, budget=budget)))

    async with anyio.create_task_group() as group:
        group.start_soon(run, lambda: None)
        while not any(use.reserved for use in await budget.read_uses()):
            await anyio.lowlevel.checkpoint()
        group.start_soon(run, going.set)

    assert said == ["so", "so"]


async def test_the_estimate_of_a_dead_process_is_spent(tmp_path: Path) -> None:
    now = [NOON]
    budget = make(tmp_path, 6, clock=lambda: now[0], wait=0.0)
    other = make(tmp_path, 6, clock=lambda: now[0], wait=0.0)

    async def stuck(_request: Request) -> Reply:
        now[0] += 121
        refused.append(await spend(Agent(model, budget=other)))
        [use] = await other.read_uses()
        assert use.reserved == 0
        assert 4 < use.spent < 5
        return Reply((Text("late"),), usage=USED)

    refused: list[str] = []
    said = await spend(Agent(stuck, budget=budget))

    assert (said, refused) == ("late", [REFUSED.replace("2.5", "6")])
    assert await spent_of(other) == {"ada": 1}  # it was not dead after all


async def test_rows_of_ended_windows_are_removed(tmp_path: Path) -> None:
    now = [NOON]
    options: Any = {"window": 60, "clock": lambda: now[0], "name": "often"}
    calls = make(tmp_path, 9, unit="calls", **options)
    tokens = make(tmp_path, 9_000, unit="tokens", **options | {"name": "tokens"})
    sizes: list[list[int]] = []
    with open_runs(tmp_path / "b.db") as store:
        for _ in range(30):
            agent = Agent(model, [look], budget=[calls, tokens])
            await agent.run("look", principal="ada")
            sizes.append(
                [
                    int(store.select(f"SELECT COUNT(*) FROM handrail_{table}", {})[0][0])  # noqa: S608
                    for table in ("budget", "budget_part", "reservation")
                ]
            )
            now[0] += 8_000

    assert sizes[0] == [2, 2, 1]
    assert max(sizes) <= [44, 44, 22]


def test_a_budget_can_be_for_a_callable_with_a_name_given(tmp_path: Path) -> None:
    class ByTeam:
        def __call__(self, spender: Spender) -> str:
            return f"{spender.principal}"

    budget = make(tmp_path, per=ByTeam(), name="team")
    account = budget.find_account(Spender("ada"))

    assert budget.describe(account, account.most).startswith("The budget of 2.5 per name and day")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"limit": -1}, "a number of at least 0"),
        ({"limit": True}, "a number of at least 0"),
        ({"window": "week"}, "'day', 'month' or seconds"),
        ({"window": 0}, "'day', 'month' or seconds"),
        ({"unit": "words"}, "'cost', 'tokens' or 'calls'"),
        ({"per": "planet"}, "'principal', 'tenant' or a function"),
        ({"per": lambda _: "all"}, "a lambda has no name: pass `name`, or a function"),
        ({"name": "Not so"}, "use a-z, 0-9 and _"),
        ({"unit": "calls", "at_limit": small}, "pass 'refuse' or 'ask'"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        make(tmp_path, **options)


def test_an_unknown_price_is_refused_before_a_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the price of a model without a name is not known"):
        Agent(model, budget=make(tmp_path, prices=None))


def identify(request: Any) -> Visitor:
    return Visitor(principal=request.headers.get("user", ""))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.timeout(60)
async def test_chats_and_durable_runs_have_budgets(database: str, anyio_backend: str) -> None:
    budget = Budget(1, database=database, prices=PRICES)
    runs = DurableRuns(database, {"shop": Agent(model, budget=budget)}, poll=0.05)
    app = ChatApp(runs, identify, origins=["https://s.example"], agent="shop")
    transport, headers = httpx2.ASGITransport(app), {"user": "ada", "origin": "https://s.example"}

    async with runs.work() as worker:
        async with httpx2.AsyncClient(transport=transport, base_url="http://s") as browser:
            ends = [
                (await browser.post("/chat", json={"text": "hello"}, headers=headers)).text
                for _ in range(2)
            ]
        measured = await worker.render_metrics()

    assert ['"text":"so"' in end for end in ends] == [True, False]
    assert '"reason":"limit"' in ends[1]
    assert await spent_of(budget) == {"ada": 1}
    lines = [line for line in measured.splitlines() if line.startswith("handrail_budget")]
    assert lines == [
        'handrail_budget_spent{budget="cost_principal_day",unit="cost",part="large"} 1',
        'handrail_budget_holders{budget="cost_principal_day",state="used_up"} 1',
        'handrail_budget_holders{budget="cost_principal_day",state="open"} 0',
    ]
