"""Answers of the console's forms to durable runs, in SQLite and in PostgreSQL."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from console.visits import BEHIND_A_PROXY, read_page, visit
from handrail.console import Console
from handrail.console._request import to_path
from handrail.console._store import Store
from handrail.runs import open_runs
from handrail.runs.durable import DurableRuns
from runs.durable.shop import Ledger, make_agent, make_model

LARGE = ((("pay", {"amount": 500}),),)
PAGES = (
    "/inbox",
    "/runs",
    "/runs/run-1?call=1",
    "/audit",
    "/audit/export.csv",
    "/readyz",
    "/fleet",
)


async def test_of_two_forms_at_once_one_is_used_and_the_payment_happens_once(  # noqa: PLR0915  one story
    database: str, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    agent = make_agent(ledger, make_model(LARGE))
    runs = DurableRuns(database, {"shop": agent}, name="shop", poll=0.05)
    console = Console(BEHIND_A_PROXY, Store(database))
    people = [visit(tmp_path, "admins", name=name, console=console) for name in ("ana", "ben")]
    found: list[Any] = []
    async with runs.work(interval=0.1, drain_seconds=5):
        run = await runs.start("shop", "Pay it.", run_id="run-1", principal="sam")
        await runs.wait(run, seconds=60)
        [pending] = await runs.inbox()
        path = f"/inbox/{to_path(pending.id)}"
        fleets = [
            read_page((await to_thread.run_sync(one.get, "/fleet")).text).text
            for one in (people[0], visit(tmp_path, "operators", console=console))
        ]
        forms = [await to_thread.run_sync(person.form, path) for person in people]

        async def send(number: int) -> None:
            form = {**forms[number], "answer": "approve"}
            found.append(await to_thread.run_sync(partial(people[number].post, path, form)))

        async with anyio.create_task_group() as group:
            group.start_soon(send, 0)
            group.start_soon(send, 1)
        with anyio.fail_after(60):
            while (await runs.get(run)).status in {"queued", "running", "waiting"}:  # noqa: ASYNC110
                await anyio.sleep(0.05)
    receipt = open_runs(database).records().receipt(pending.id)
    pages = [await to_thread.run_sync(people[0].get, one) for one in (path, *PAGES)]

    assert sorted(one.status_code for one in found) == [303, 409]
    [lost] = [read_page(one.text).text for one in found if one.status_code == 409]
    assert receipt is not None
    assert f"Already answered. {receipt.by} approved it" in lost
    assert "Your answer was not used." in lost
    assert (receipt.answer, receipt.via) == ("allow", "console")
    assert ledger.count() == {"pay run-1/1/pay-0": 1}
    assert [page.status_code for page in pages] == [200] * len(pages)
    assert "The run resumed" in pages[0].text
    for text, sees, waits in zip(fleets, (True, False), ("1", "0"), strict=True):
        assert ("1worker" in text, "Queues" in text) == (sees, sees)  # others see their team alone
        assert f"{waits}wait for people" in text
