"""Interpreters that were killed while no program used them, and ones that do not start."""

from __future__ import annotations

import os
import signal

import pytest

from handrail import Executor
from handrail.programs import _monty
from programs.tools import Shop, find_workers, run


async def test_a_program_after_a_free_interpreter_was_killed_runs() -> None:
    texts: list[str] = []
    async with Executor(Shop().with_program()) as executor:
        for number in (1, 2):
            texts.append((await run(executor, f"await refund(order={number})")).text)
            for worker in find_workers():
                os.kill(worker, signal.SIGKILL)

    assert texts == ["refunded 1", "refunded 2"]


async def test_where_no_interpreter_starts_a_program_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, shop = _monty.Pool(), Shop()
    monkeypatch.setattr(_monty, "POOL", pool)
    monkeypatch.setattr(_monty, "find_binary", lambda: "/bin/false")
    async with Executor(shop.with_program()) as executor:
        result = await run(executor, "await refund(order=1)")
    pool.close()

    assert (result.text, shop.refunded) == (
        "The program failed.\nThe program was stopped: No worker starts.\n\nIt had made no call.",
        [],
    )
