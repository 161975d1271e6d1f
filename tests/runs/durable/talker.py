"""A worker whose model streams: ``python talker.py DATABASE WORDS PAUSE``. It says another text each time."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any

import anyio

from handrail import Text
from handrail.agent import Agent
from handrail.messages import Delta, Reply, Request
from handrail.runs.durable import DurableRuns


def make_model(words: int, pause: float) -> Any:
    """A model whose words say when they were said, and which attempt they are of."""

    async def model(_request: Request) -> AsyncGenerator[Any]:
        mark, said = secrets.token_hex(4), list[str]()
        for _ in range(words):
            said.append(f"{mark}@{time.time():.4f} ")
            yield Delta(said[-1])
            await anyio.sleep(pause)
        yield Reply((Text("".join(said)),))

    return model


async def main(url: str, words: int, pause: float) -> None:
    runs = DurableRuns(url, {"talker": Agent(make_model(words, pause))}, poll=0.1)
    async with runs.work(interval=0.2):
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
