"""A worker whose model streams: ``python talker.py DATABASE SLOTS WORDS PAUSE REPLIES``. It says other texts each time."""

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


async def main(url: str, slots: int, model: Any) -> None:
    """Each reply has its own segment: after two deaths in one, a run would run alone."""
    agent = Agent(model, [go_on])
    runs = DurableRuns(url, {"talker": agent}, poll=0.1, segment_turns=1, max_deaths=100)
    async with runs.work(interval=0.2, slots=slots):
        await anyio.sleep_forever()


if __name__ == "__main__":
    url, slots, words, pause, replies = sys.argv[1:]
    anyio.run(main, url, int(slots), make_model(int(words), float(pause), int(replies)))
