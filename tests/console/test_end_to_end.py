"""An agent parks a payment, a form approves it, a worker resumes: the effect happens once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from console.visits import BEHIND_A_PROXY, read_page, visit
from handrail.agent import Agent
from handrail.console import Console
from handrail.console._request import to_path
from handrail.console._store import Store
from handrail.runs import open_runs
from handrail.runs.durable import DurableRuns
from runs.durable.shop import Ledger, make_agent, make_model

LARGE = ((("pay", {"amount": 500}),),)


async def ended(runs: DurableRuns, run: str) -> Any:
    with anyio.fail_after(60):
        while (found := await runs.get(run)).status in {"queued", "running", "waiting"}:  # noqa: ASYNC110
            await anyio.sleep(0.05)
    return found


async def test_a_form_approves_and_a_worker_resumes(tmp_path: Path) -> None:
    ledger, file = Ledger(tmp_path / "ledger"), tmp_path / "runs.db"
    agent: Agent[Any] = make_agent(ledger, make_model(LARGE))
    runs = DurableRuns(str(file), {"shop": agent}, name="shop", poll=0.05)
    async with runs.work(interval=0.1, drain_seconds=5):
        run = await runs.start("shop", "Pay it.", run_id="run-1", principal="sam")
        await runs.wait(run, seconds=60)
        [pending] = await runs.inbox()
        console = Console(BEHIND_A_PROXY, Store(str(file)))
        ana = visit(file, "admins", console=console)
        path = f"/inbox/{to_path(pending.id)}"
        before = ledger.count()
        page = read_page((await to_thread.run_sync(ana.get, path)).text)
        form = {**page.fields, "answer": "approve"}
        send = partial(ana.post, path, form)
        first = await to_thread.run_sync(send)
        done = await ended(runs, run)
        second = await to_thread.run_sync(send)  # a double tap, or a replayed form
        receipt = (await to_thread.run_sync(ana.get, path)).text
        other = await to_thread.run_sync(visit(file, "others", console=console).get, path)

    assert ("Pay 500?" in page.text, before) == (True, {})
    assert (first.status_code, second.status_code, other.status_code) == (303, 409, 404)
    assert "Already answered. proxy|ana approved it" in read_page(second.text).text
    assert (done.status, ledger.count()) == ("done", {"pay run-1/1/pay-0": 1})
    assert "By proxy|ana" in receipt
    assert "The run resumed" in receipt
    given = open_runs(file).records().receipt(pending.id)
    assert given is not None
    assert (given.answer, given.by, given.via) == ("allow", "proxy|ana", "console")
    audit = (await to_thread.run_sync(ana.get, "/audit?kind=answer")).text
    assert "proxy|ana" in audit


async def test_a_denial_with_a_reason_reaches_the_model(tmp_path: Path) -> None:
    ledger, file = Ledger(tmp_path / "ledger"), tmp_path / "runs.db"
    agent: Agent[Any] = make_agent(ledger, make_model(LARGE))
    runs = DurableRuns(str(file), {"shop": agent}, name="shop", poll=0.05)
    async with runs.work(interval=0.1, drain_seconds=5):
        run = await runs.start("shop", "Pay it.", run_id="run-2")
        await runs.wait(run, seconds=60)
        [pending] = await runs.inbox()
        ana = visit(file, "admins")
        path = f"/inbox/{to_path(pending.id)}"
        deny = partial(ana.answer, path, "deny", reason="Ask the bank first.")
        found = await to_thread.run_sync(deny)
        done = await ended(runs, run)

    assert (found.status_code, done.status, ledger.count()) == (303, "done", {})
    assert "Ask the bank first." in str(done.state)
