"""Approvals remembered in the database: by principal, in each process, until they are forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from handrail import WRITE, Access, Approvals, Call, Deny, Executor, Text, Toolset, tool
from handrail.agent import Agent
from handrail.approvals import Proposal
from handrail.hooks import rate_limit
from handrail.messages import Reply, ToolResults
from handrail.permissions import Pending
from handrail.policy import Rulebook
from handrail.runs import open_runs
from handrail.runs.durable import DurableRuns
from handrail.shared import SharedApprovals, SharedRates
from handrail.web import ChatApp
from web.chats import ORIGIN, client_of, identify, post_chat

NOW = 1_772_366_400.0
RULES = '[[rule]]\nid = "no-gold"\ndecide = "deny"\naccess = ["write order:gold"]\n'


@tool(effect=WRITE, touches=lambda order: Access(WRITE, f"order:{order}"))
def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


def make(database: Any, **options: Any) -> SharedApprovals:
    given = {"clock": lambda: NOW, **options}
    return SharedApprovals(Rulebook.from_toml(RULES), database, **given)


async def run(policy: SharedApprovals, order: str = "o1", who: str = "ada") -> str | Pending:
    executor = Executor(Toolset(refund), policy=policy, approvals=Approvals())
    turn = executor.turn(principal=who)
    (result,) = await executor.run_all([Call("refund", {"order": order}, "c")], turn=turn)
    return result.text


async def ask(policy: SharedApprovals, order: str = "o1", who: str = "ada") -> Pending:
    asked: list[Pending] = []

    async def approve(pending: Pending) -> Any:
        asked.append(pending)
        return Deny("no")

    executor = Executor(Toolset(refund), policy=policy, approvals=Approvals(approver=approve))
    turn = executor.turn(principal=who)
    await executor.run_all([Call("refund", {"order": order}, "c")], turn=turn)
    return asked[0]


async def test_an_approval_applies_in_each_process_for_its_principal(database: str) -> None:
    here, there = make(database), make(database)
    before = await run(there)
    (proposal,) = here.propose(await ask(here))
    here.store(proposal)

    assert isinstance(before, str)
    assert before.startswith("Not run")
    assert [await run(one) for one in (here, there)] == ["refunded o1"] * 2
    for order, who in (("o2", "ada"), ("o1", "bob"), ("gold", "ada")):
        assert str(await run(there, order, who)).startswith("Not run")
    (kept,) = there.remembered("ada")
    assert (proposal.scope, kept.text, there.remembered("bob")) == ("always", proposal.rule, ())

    there.forget(kept.id)
    assert str(await run(here)).startswith("Not run")
    with pytest.raises(LookupError, match="No remembered approval has the id"):
        here.forget(kept.id)


async def test_an_approval_expires_and_can_be_for_all_or_a_tenant(sqlite: str) -> None:
    now = [NOW]
    with open_runs(sqlite) as store:
        every = make(store, per="all", lifetime=60, clock=lambda: now[0])
        tenant = make(store, per=lambda who: str(who).partition(":")[0], clock=lambda: now[0])
        every.store(every.propose(await ask(every))[0])
        tenant.store(tenant.propose(await ask(tenant, "o2", "acme:ada"))[0])
        said = [
            await run(every, "o1", "bob"),
            await run(tenant, "o2", "acme:bob"),
            str(await run(tenant, "o2", "other:bob"))[:7],
        ]
        now[0] += 61
        said.append(str(await run(every, "o1", "bob"))[:7])

    assert said == ["refunded o1", "refunded o2", "Not run", "Not run"]


async def test_a_process_creates_missing_tables(create_database: Callable[[], str]) -> None:
    with open_runs(create_database()) as store:
        hook = rate_limit(1, rates=SharedRates(store))
        executor = Executor(Toolset(refund), policy=make(store), hooks=[hook])
        (result,) = await executor.run_all([Call("refund", {"order": "o1"}, "c")])

    assert result.text.startswith("Not run: this needs the user's approval")


async def test_only_what_was_proposed_is_stored(sqlite: str) -> None:
    policy = make(sqlite)
    rule = '[[rule]]\nid = "remembered-1"\ndecide = "allow"\ntool = "*"\n'
    with pytest.raises(ValueError, match="was not proposed here"):
        policy.store(Proposal("always", rule))


async def test_it_says_about_tools_what_its_rulebook_says(sqlite: str) -> None:
    policy, spec = make(sqlite), refund.spec
    rulebook = Rulebook.from_toml(RULES)
    asked = await ask(policy)
    plain, shared = (Executor(Toolset(refund), policy=one) for one in (rulebook, policy))
    call, turn = Call("refund", {"order": "o1"}, "c"), shared.turn(principal="ada")
    before = shared.explain(call, turn=turn).matched
    policy.store(policy.propose(asked)[0])
    after = shared.explain(call, turn=turn)

    assert before == plain.explain(call).matched
    assert [one.verdict for one in after.matched][:1] == ["allow"]
    assert (policy.version, policy.named_tools) == (rulebook.version, rulebook.named_tools)
    assert (policy.never(spec), policy.denies_all(spec, None), policy.asks_always(spec, None)) == (
        False,
        False,
        False,
    )
    assert policy.refusal(asked) == ""
    assert policy.refusal(replace(asked, once=True)) == "it needs approval every time"


async def model(request: Any) -> Reply:
    last = request.messages[-1]
    if isinstance(last, ToolResults):
        return Reply((Text(last.results[0].text),))
    return Reply((Call("refund", {"order": "o1"}, "c1"),), "calls")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # workers run on asyncio only
async def test_the_inbox_of_a_chat_remembers_an_approval_for_durable_runs(database: str) -> None:
    here, there = make(database), make(database)
    runs = DurableRuns(database, {"shop": Agent(model, [refund], policy=here)}, poll=0.02)
    web = DurableRuns(database, {"shop": Agent(model, [refund], policy=there)})
    app = ChatApp(web, identify, origins=[ORIGIN], agent="shop", remember=there)
    boss = {"authorization": "Bearer boss"}
    async with client_of(app) as client, runs.work(interval=0.1):
        async with client.stream("POST", "/chat", json={"text": "a", "conversation": "k"}) as sent:
            async for line in sent.aiter_lines():
                if line == "event: approval":
                    break
        (asked,) = (await client.get("/inbox", headers=boss)).json()["requests"]
        answer = {"answer": "allow", "seen": asked["seen"], "remember": asked["remember"][0]}
        place = f"/inbox/{asked['pending']}"
        other = asked["remember"][0].replace("order:o1", "*")
        wrong = await client.post(place, json={**answer, "remember": other}, headers=boss)
        used = await client.post(place, json=answer, headers=boss)
        await runs.wait((await client.get("/conversations/k")).json()["run"])
        again = await post_chat(client, {"text": "b", "conversation": "l"})
        left = (await client.get("/inbox", headers=boss)).json()["requests"]

    assert "write order:o1" in there.remembered("ada")[0].text
    assert [one.partition("id =")[0] for one in asked["remember"]] == ["[[rule]]\n"]
    assert (wrong.status_code, used.status_code, left) == (400, 200, [])
    assert [event.event for event in again].count("approval") == 0
    assert again[-1].data == {"status": "done", "reason": "answer"}


class Forgetful(SharedApprovals):
    """Its database is away when a rule is stored."""

    def store(self, proposal: Proposal, /) -> None:  # noqa: ARG002
        raise OSError("away")


async def test_an_answer_counts_if_its_rule_cannot_be_stored(sqlite: str) -> None:
    policy = Forgetful(Rulebook(), sqlite)
    agent = Agent(model, [refund], policy=policy)
    app = ChatApp(agent, identify, origins=[ORIGIN], database=sqlite, remember=policy)
    boss = {"authorization": "Bearer boss"}
    async with client_of(app) as client:
        async with client.stream("POST", "/chat", json={"text": "a", "conversation": "k"}) as sent:
            async for line in sent.aiter_lines():
                if line == "event: approval":
                    break
        (asked,) = (await client.get("/inbox", headers=boss)).json()["requests"]
        answer = {"answer": "allow", "seen": asked["seen"], "remember": asked["remember"][0]}
        used = await client.post(f"/inbox/{asked['pending']}", json=answer, headers=boss)
        async with client.stream("GET", "/conversations/k/events") as rest:
            ends = [line async for line in rest.aiter_lines() if "done" in line]

    assert used.json()["text"].endswith(
        "Its rule could not be stored: the next such call asks again."
    )
    assert (used.status_code, len(ends)) == (200, 1)
