"""Processes that spend together until they are killed: run it, and it prints what they did.

`python spenders.py '{"url": ..., "log": ..., ...}'`. Each process is a fork of the first, so that only
one loads handrail. A process that is killed is replaced by one that sends its other requests.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import handrail.cli._runs.stores  # noqa: F401  loaded once, for all processes
from handrail import Text
from handrail.agent import Agent
from handrail.messages import Delta, Price, Prompt, Reply, Request, StreamItem, Usage
from handrail.shared import Budget

PRICES = Price(input=1000, output=1000, cached=1000, cache_write=1000)
MOST_TOKENS = 100
"""What one request may use."""


class Spender:
    """One process."""

    def __init__(self, options: dict[str, Any], share: list[int], deaths: int) -> None:
        self._options = options
        self._share = share
        self._deaths = deaths
        self._log = os.open(options["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._charged = 0

    async def run(self) -> None:
        """Send all requests at once."""
        estimate = Usage(input_tokens=self._options["estimate"])
        budget = Budget(
            self._options["limit"],
            database=self._options["url"],
            prices=PRICES,
            estimate=lambda _: estimate,
            wait=self._options["wait"],
        )
        agent = Agent(self._model, budget=budget)
        people = self._options["people"]

        async def spend(number: int) -> None:
            done = await agent.run(f"p{number % people} {number}", principal=f"p{number % people}")
            self._write({"number": number, "stop": done.limit or done.stop_reason})

        await asyncio.gather(*map(spend, self._share))

    async def _model(self, request: Request) -> AsyncIterator[StreamItem]:
        """Charge for the request, and die after some."""
        [prompt] = request.messages
        assert isinstance(prompt, Prompt)
        assert isinstance(prompt.parts[0], Text)
        person, number = prompt.parts[0].text.split()
        tokens = random.Random(number).randrange(1, MOST_TOKENS)  # noqa: S311
        yield Delta("so")
        for _ in range(tokens % 7):
            await asyncio.sleep(0)
        self._write({"person": person, "tokens": tokens})
        self._charged += 1
        if self._deaths and self._charged == self._options["die_after"]:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(0)
        yield Reply((Text("so"),), usage=Usage(input_tokens=tokens), model="m")

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._log, f"{json.dumps(line)}\n".encode())


def begin(options: dict[str, Any], share: list[int], deaths: int) -> int:
    """Fork a process, and return its id."""
    child = os.fork()
    if child:
        return child
    try:
        asyncio.run(Spender(options, share, deaths).run())
    finally:
        os._exit(0)


def ended(log: Path) -> set[int]:
    """The requests that have ended."""
    lines = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    return {line["number"] for line in lines if "number" in line}


def main(options: dict[str, Any]) -> None:
    """Start the processes, and replace those that were killed."""
    log, several = Path(options["log"]), options["processes"]
    log.touch()
    shares = {
        begin(options, share, options["deaths"]): (share, options["deaths"])
        for share in ([*range(one, options["requests"], several)] for one in range(several))
    }
    killed = 0
    while shares:
        child, status = os.wait()
        share, deaths = shares.pop(child)
        if os.WIFSIGNALED(status):
            killed += 1
            left = sorted(set(share) - ended(log))
            shares[begin(options, left, deaths - 1)] = (left, deaths - 1)
    sys.stdout.write(json.dumps({"killed": killed}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
