"""The console shows the program around a call that waits, with its line marked."""

from __future__ import annotations

from pathlib import Path

from console.visits import park, read_page, visit
from handrail import Approvals, Call, Executor
from handrail.approvals import defer
from handrail.messages import Reply
from handrail.runs import open_runs
from handrail.runs.records import to_path
from programs.tools import Shop, ask_about_refunds

CODE = "late = [1, 3]\nfor order in late:\n    await refund(order=order)"


async def test_a_question_of_a_program_shows_its_line(tmp_path: Path) -> None:
    approvals = Approvals(approver=defer)
    tools = Shop().with_program()
    async with Executor(tools, policy=ask_about_refunds, approvals=approvals) as executor:
        reply = Reply((Call("run_program", {"code": CODE}, id="c1"),))
        saved = await executor.run_reply(reply, turn=executor.turn("1", run="r1"))
    [pending] = saved.questions
    file = tmp_path / "journal.db"
    journal = open_runs(file)
    park(journal, pending)
    journal.close()
    page = read_page(visit(file).get(f"/inbox/{to_path(pending.id)}").text).text

    assert "1 late = [1, 3] 2 for order in late:> 3 await refund(order=order)Refund 1?" in page
