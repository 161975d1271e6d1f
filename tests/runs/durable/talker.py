"""A worker whose model streams: ``python talker.py DATABASE WORDS PAUSE REPLIES``. It says another text each time."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any

import anyio

from handrail import READ, Call, Text, tool
from handrail.agent import Agent
from handrail.messages import Delta, Reply, Request
from handrail.runs.durable import DurableRuns


@tool(effect=READ, touches=lambda: ())
def go_on() -> str:
    """Let the model say more."""
    return "Go on."


def make_model(words: int, pause: float, replies: int) -> Any:
    """A model whose words say when they were said, and which attempt they are of."""

    async def model(request: Request) -> AsyncGenerator[Any]:
        number = sum(isinstance(one, Reply) for one in request.messages) + 1
        mark, said = secrets.token_hex(4), list[str]()
        for _ in range(words):
            said.append(f"{mark}@{time.time():.4f} ")
            yield Delta(said[-1])
            await anyio.sleep(pause)
        text = Text("".join(said))
        if number == replies:
            yield Reply((text,))
            return
        call = Call("go_on", {}, f"c{number}")
        yield call
        yield Reply((text, call), "calls")

    return model


async def main(url: str, words: int, pause: float, replies: int) -> None:
    """Each reply has a segment of its own, so that few runs are under way at two deaths."""
    agent = Agent(make_model(words, pause, replies), [go_on])
    runs = DurableRuns(url, {"talker": agent}, poll=0.1, segment_turns=1, max_deaths=100)
    async with runs.work(interval=0.2):
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
