"""A run that needs a login waits like one that needs approval, and continues in another process."""

from __future__ import annotations

from pathlib import Path

import anyio

from handrail import Allow
from handrail.permissions import Pending
from handrail.runs.durable import DurableRun, DurableRuns
from runs.durable.workers import Forks

MAIL = """
import sys
from pathlib import Path

import anyio

from handrail import Call, NeedsLogin, Text, tool
from handrail.agent import Agent
from handrail.messages import Reply
from handrail.runs.durable import DurableRuns


@tool
async def send(to: str) -> str:
    "Send a letter."
    with Path("tries.txt").open("a", encoding="utf-8") as tries:
        tries.write(f"{sys.argv[1]}\\n")
    if not Path("token.txt").exists():
        raise NeedsLogin("Sign in.", url="https://mail.example/login")
    with Path("sent.txt").open("a", encoding="utf-8") as sent:
        sent.write(f"{to}\\n")
    return "sent"


async def model(request):
    if len(request.messages) > 1:
        return Reply((Text(request.messages[-1].results[0].text),))
    return Reply((Call("send", {"to": "bob"}, "c1"),))


async def main():
    runs = DurableRuns("runs.db", {"mail": Agent(model, [send])}, poll=0.05)
    async with runs.work(interval=0.1):
        await runs.start("mail", "Write to bob.", run_id="r", principal="ada")
        while (await runs.wait("r", seconds=60)).status != sys.argv[1]:
            await anyio.sleep(0.02)


anyio.run(main)
"""


def test_a_run_waits_for_a_login_and_continues_in_another_process(
    sqlite: str, forks: Forks
) -> None:
    folder = Path(sqlite).parent
    (folder / "mail.py").write_text(MAIL, encoding="utf-8")

    async def read() -> tuple[DurableRun, tuple[Pending, ...]]:
        async with DurableRuns(sqlite, {}) as runs:
            return await runs.get("r"), await runs.inbox()

    async def answer(pending: str) -> None:
        async with DurableRuns(sqlite, {}) as runs:
            await runs.answer(pending, Allow())

    forks.run_program(folder / "mail.py", "waiting")
    run, [asked] = anyio.run(read)
    assert (run.status, asked.question) == ("waiting", "Sign in. https://mail.example/login")
    assert (asked.principal, (folder / "sent.txt").exists()) == ("ada", False)

    (folder / "token.txt").touch()
    anyio.run(answer, asked.id)
    forks.run_program(folder / "mail.py", "done")

    run, nothing = anyio.run(read)
    assert (run.status, run.text, nothing) == ("done", "sent", ())
    assert (folder / "sent.txt").read_text(encoding="utf-8") == "bob\n"
    assert (folder / "tries.txt").read_text(encoding="utf-8") == "waiting\ndone\n"
