"""A shop in four processes: a worker, a console, a database, and the agent's starter."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from console.browser import Browser
from crash_points import crash_env
from handrail.console._request import to_path
from handrail.runs import JournalError, Records, open_runs
from handrail.runs.records import EventQuery
from services import Postgres

SECONDS = 120
RULES = """
[[rule]]
id = "refunds"
decide = "ask"
tools = ["refund"]
reason = "Refunds need a person."
"""
SHOP = """
import os, sys, time
import anyio
from handrail import Call, Context, Text, tool
from handrail.agent import Agent
from handrail.messages import Reply, ToolResults
from handrail.policy import Level, Rulebook, parse
from handrail.runs.durable import DurableRuns

DATABASE, LEDGER = os.environ["DATABASE"], os.environ["LEDGER"]


@tool(headline="Refund {amount} to order {order}".format)
async def refund(order: str, amount: int, context: Context) -> str:
    await anyio.sleep(0.05)
    with open(LEDGER, "a", encoding="utf-8") as ledger:
        ledger.write(f"{context.idempotency_key} {time.time()}\\n")
    await anyio.sleep(0.05)
    return f"refunded {amount}"


async def model(request):
    if any(isinstance(message, ToolResults) for message in request.messages):
        return Reply((Text("The order is refunded."),))
    return Reply((Call("refund", {"order": "88213", "amount": 500}, "c1"),))


with open("rules.toml", encoding="utf-8") as file:
    policy = Rulebook(parse(file.read(), file="rules.toml", level=Level.USER).rules)
runs = DurableRuns(DATABASE, {"shop": Agent(model, [refund], policy=policy)}, name="shop")


async def main():
    async with runs:
        for run in sys.argv[1:]:
            await runs.start("shop", "Refund order 88213.", run_id=run, principal="Sam Obi")


if __name__ == "__main__":
    anyio.run(main)
"""


class Shop:
    """The processes of a shop. Each can be killed and started again.

    Args:
        folder: For its program, its rules and its ledger.
        database: A path, or a PostgreSQL that is killed too.
    """

    def __init__(self, folder: Path, database: Postgres) -> None:
        self.folder = folder
        self.server = database
        self.url = f"{database.url.rpartition('/')[0]}/shop"
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute("DROP DATABASE IF EXISTS shop")
            connection.execute("CREATE DATABASE shop")
        self.ledger = folder / "ledger"
        (folder / "shop.py").write_text(SHOP, encoding="utf-8")
        (folder / "rules.toml").write_text(RULES, encoding="utf-8")
        names = {name: one for name, one in os.environ.items() if not name.startswith("COVERAGE")}
        self._environment = {**names, "DATABASE": self.url, "LEDGER": str(self.ledger)}
        self._environment |= {"HOME": str(folder), "XDG_STATE_HOME": str(folder)}
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.links: list[str] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])

    def run(self, *command: str) -> str:
        """Run a program to its end, and return what it prints."""
        return subprocess.run(  # noqa: S603  our own commands
            [sys.executable, *command],
            cwd=self.folder,
            env=self._environment,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            timeout=SECONDS,
        ).stdout

    def begin(self, name: str, **environment: str) -> None:
        """Start the worker or the console, and wait until it says that it runs."""
        command = ["-m", "handrail.cli", "worker", "shop:runs", "--output", "jsonl"]
        if name == "console":
            command = ["-m", "handrail.cli", "console", "--database", self.url, "--output", "jsonl"]
            command += ["--port", self.port]
        with (self.folder / f"{name}.log").open("a", encoding="utf-8") as log:
            process = subprocess.Popen(  # noqa: S603  our own commands
                [sys.executable, *command],
                cwd=self.folder,
                env={**self._environment, **environment},
                text=True,
                stdout=subprocess.PIPE,
                stderr=log,
                encoding="utf-8",
            )
        self.processes[name] = process
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (self.folder / f"{name}.log").read_text(encoding="utf-8")
        if name == "console":
            self.links.append(json.loads(line)["url"])

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, and start it again."""
        if name == "database":
            pid = int((self.server.folder / "data" / "postmaster.pid").read_text().split()[0])
            os.kill(pid, signal.SIGKILL)
            self._launch()
            return
        process = self.processes[name]
        process.kill()
        process.communicate()
        self.begin(name)

    def doom(self, point: str) -> None:
        """Start the console anew, so that it is killed at a point of the next answer."""
        self.processes["console"].kill()
        self.processes["console"].communicate()
        self.begin("console", **crash_env(point))

    def _launch(self) -> None:
        """Start the database. For a moment, the processes of the dead one are still there."""
        until = time.monotonic() + SECONDS
        while True:
            try:
                self.server.launch()
            except subprocess.CalledProcessError:
                assert time.monotonic() < until
                time.sleep(0.1)
            else:
                return

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()

    def count(self, run: str) -> int:
        """How often the refund of a run was made."""
        return len(self.moments(run))

    def moments(self, run: str) -> list[float]:
        """When it was made."""
        lines = self.ledger.read_text(encoding="utf-8").splitlines() if self.ledger.exists() else []
        return [float(line.split()[1]) for line in lines if line.startswith(f"{run}/")]

    def ask(self, question: Callable[[Records], Any]) -> Any:
        """Ask the records, by a connection of its own: a database on its way up is asked again."""
        until = time.monotonic() + SECONDS
        while True:
            try:
                with closing(open_runs(self.url).records()) as records:
                    return question(records)
            except JournalError:
                assert time.monotonic() < until
                time.sleep(0.1)

    def wait(self, run: str, status: str) -> None:
        """Wait until a run has a status."""
        until = time.monotonic() + SECONDS
        while (found := self.ask(lambda records: records.run(run))) is None or (
            found.status != status
        ):
            assert time.monotonic() < until, found
            time.sleep(0.1)

    def receipt(self, run: str) -> Any:
        """The answer that is recorded."""
        return self.ask(lambda records: records.receipt(f"{run}~1~c1~0"))

    def result(self, run: str) -> str:
        """The last result of the refund, as it is recorded."""
        query = EventQuery(run=run, kind="finished")
        rows = self.ask(lambda records: records.events(query, limit=1).rows)
        return str(rows[0].body)


class Phone:
    """A browser of 390 pixels without script, and a person who reads before answering."""

    def __init__(self, browser: Browser, shop: Shop) -> None:
        self.browser = browser
        self.shop = shop
        self.base = ""
        browser.set_headers({})
        browser.resize(390)

    @property
    def text(self) -> str:
        """What the page says."""
        return str(self.browser.evaluate("document.body.innerText"))

    def sign_in(self) -> None:
        """Use the newest link, if this console does not know the browser yet."""
        while self.shop.links:
            self.browser.open(self.shop.links.pop())
            self.shop.links.clear()
            self.browser.press("form button")
            self.base = self.browser.address.removesuffix("/inbox")

    def read(self, run: str) -> str:
        """Open the request of a run, and return what its page says."""
        self.sign_in()
        self.browser.open(f"{self.base}/inbox/{to_path(f'{run}~1~c1~0')}")
        return self.text

    def approve(self, run: str) -> str:
        """Press Approve on what is shown; if it is not there any more, read it again first."""
        until = time.monotonic() + SECONDS
        while "✓ Approved." not in self.text:
            assert time.monotonic() < until, self.text
            if self.browser.evaluate("!!document.querySelector('button[value=approve]')"):
                self.browser.press("button[value=approve]")
            if "✓ Approved." not in self.text:
                self.read(run)
        return self.text
