"""A person who answers what waits, at the same moments as others: `python people.py URL NAME FILE`.

Each answer that was used is a line of the file.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import anyio

from handrail import Allow, HandrailError
from handrail.runs.durable import DurableRuns
from runs.durable.shop import Ledger

STEP = 0.2


async def answer_all(url: str, name: str, used: Ledger) -> None:
    async with DurableRuns(url, {}) as runs:
        while True:
            await anyio.sleep(STEP - time.time() % STEP)
            for pending in sorted(await runs.inbox(), key=lambda one: one.id):
                outcome = await runs.store.answer(pending.id, Allow(), by=name)
                if outcome.used:
                    used.add(pending.id)


async def main(url: str, name: str, path: str) -> None:
    while True:
        try:
            await answer_all(url, name, Ledger(Path(path)))
        except HandrailError:  # the database is away
            await anyio.sleep(STEP)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
