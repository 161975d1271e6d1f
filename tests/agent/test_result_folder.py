"""Long results in a folder: another process reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.stage import Recorded
from handrail import READ, Call, Executor, LongResults, Text, Toolset, tool
from handrail.agent import Agent, ResultFolder, RunState
from handrail.messages import Reply, Request, ToolResults

pytestmark = pytest.mark.anyio
LONG = "a\ud800é" * 20_000


@tool(effect=READ)
async def write() -> str:
    """Write a long text."""
    return "x" * 30_000 + "THE END"


async def test_another_executor_reads_what_one_has_stored(tmp_path: Path) -> None:
    for folder, expected in (("run", "THE END"), ("other", "No result is stored")):
        kept = LongResults(store=ResultFolder(tmp_path / folder), reader="always")
        async with Executor(Toolset(write), long_results=kept) as executor:
            if folder == "run":
                await executor.run(Call("write", {}, "c1"), turn=executor.turn(principal="ada"))
        async with Executor(Toolset(write), long_results=kept) as executor:
            rest = Call("read_result", {"call_id": "c1", "start": 30_000}, "c2")
            mine = await executor.run(rest, turn=executor.turn(principal="ada"))
            others = await executor.run(rest, turn=executor.turn(principal="bob"))

        assert expected in mine.text
        assert "No result is stored for 'c1'. Stored: none." in others.text


def test_a_text_comes_back_unchanged_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    folder = ResultFolder(str(tmp_path / "a" / "b"))

    assert (folder.ids(), folder.get("c1")) == ((), None)
    assert [folder.put(name, LONG) for name in ("../c1", "c2\udc80")] == [len(LONG)] * 2
    assert folder.put("c3", "short") == 5
    assert folder.get("../c1") == folder.get("c2\udc80") == LONG
    assert sorted(folder.ids()) == ["../c1", "c2\udc80", "c3"]
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "a").rglob("*")] == [
        0o700,
        *[0o600] * 3,
    ]


async def test_after_a_restart_the_tool_that_a_recorded_result_names_is_offered(
    tmp_path: Path,
) -> None:
    offered: list[list[str]] = []

    async def model(request: Request) -> Reply:
        offered.append(sorted(one.name for one in request.tools.specs))
        last = request.messages[-1]
        if not isinstance(last, ToolResults):
            return Reply((Call("write", {}, "c1"),), "calls")
        if last.results[0].call_id == "c1":
            rest = Call("read_result", {"call_id": "c1", "start": 30_000}, "c2")
            return Reply((rest,), "calls")
        return Reply((Text(last.results[0].text[-7:]),))

    recorder = Recorded(ResultFolder(tmp_path))
    agent, start = Agent(model, [write]), RunState(run_id="r").add_prompt("Go")
    first = await agent.run_recorded(start, recorder)
    del recorder.texts[2:]  # another worker has the first turn only
    recorder.restart()
    again = await agent.run_recorded(start, recorder)

    assert (first.output, again.output) == ("THE END", "THE END")
    assert offered[1:] == [["read_result", "write"]] * 4
