"""Long results of durable runs are in the database: another worker's model reads on."""

from __future__ import annotations

from typing import Any

from handrail import READ, Call, Executor, LongResults, Text, Toolset, tool
from handrail.agent import Agent
from handrail.messages import Reply, ToolResults
from handrail.runs import RunRecord, open_runs
from handrail.runs._durable.results import StoredResults
from handrail.runs.durable import DurableRuns

WHOLE = " ".join(map(str, range(10_000)))


@tool(effect=READ, touches=lambda: (), max_chars=100)
def count() -> str:
    """Count."""
    return WHOLE


async def model(request: Any) -> Reply:
    """Counts, and then reads on in a later segment."""
    last = request.messages[-1]
    if not isinstance(last, ToolResults):
        return Reply((Call("count", {}, "c1"),), "calls")
    if last.results[0].call_id == "c1":
        assert [one.name for one in request.tools.specs] == ["count", "read_result"]
        return Reply((Call("read_result", {"call_id": "c1", "start": 48_000}, "c2"),), "calls")
    return Reply((Text(last.results[0].text),))


async def test_a_later_segment_in_another_worker_reads_on(database: str) -> None:
    def make() -> DurableRuns:
        return DurableRuns(database, {"clerk": Agent(model, [count])}, poll=0.02, segment_turns=1)

    first, other = make(), make()
    async with first:
        name = await first.start("clerk", "Count.", principal="ada")
    async with other.work(interval=0.1):
        run = await other.wait(name, seconds=60)
        texts = await _read(other)

    assert (run.status, run.text) == (
        "done",
        f"[characters 48000 to {len(WHOLE)} of {len(WHOLE)}]\n{WHOLE[48_000:]}",
    )
    assert texts == [("ada/c1", WHOLE)]
    async with other:
        await other.remove(name)
        assert await _read(other) == []


async def _read(runs: DurableRuns) -> list[Any]:
    sql = "SELECT call, body FROM handrail_result"
    return list(await runs.store.database.read(sql))


async def test_an_executor_of_your_own_shares_the_results_of_a_recorded_run(database: str) -> None:
    with open_runs(database) as store:
        RunRecord(store, "r1")
        stored = [store.results(run) for run in ("r1", "unknown")]
        assert [one.put("c", "text") for one in stored] == [0, 0]
        store.append("r1", [], after=0)
        RunRecord(store, "r1").set_status(status="running")
        options = LongResults(store=store.results("r1"), reader="always")
        first, other = (Executor(Toolset(count), long_results=options) for _ in range(2))
        await first.run(Call("count", {}, "c1"))
        asked = Call("read_result", {"call_id": "c1", "start": 0, "end": 9}, "c2")
        read = await other.run(asked)
        few = StoredResults(store.database, "r1", max_bytes=3_500)
        few.put("large", "x" * 1_000)
        for n in range(4):
            few.put(f"d{n}", "x")
        kept = few.ids()
        few.put("d1", "newer")
        few.put("e", "x")
        again = few.ids()

    assert read.text == f"[characters 0 to 9 of {len(WHOLE)}]\n{WHOLE[:9]}"
    assert (kept, again) == (("d1", "d2", "d3"), ("d3", "d1", "e"))
