"""An order agent whose refund waits for a manager in a web app, and that survives kill -9.

Run it with `python examples/order_agent.py`. Its worker is killed in a refund; another continues.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable
from contextlib import chdir
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from subprocess import DEVNULL, Popen
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any
from urllib.request import ProxyHandler, build_opener

from handrail import Allow, Ask, Call, Context, tool
from handrail.agent import Agent
from handrail.runs.durable import DurableRuns
from handrail.testing import ScriptedModel

SCRIPT = (Call("refund", {"order": "A1", "euros": 120}, "c1"), "Your money is on its way.")
LEDGER = Path("ledger.txt")


def was_refunded(order: str, euros: int, idempotency_key: str) -> bool:  # noqa: ARG001
    return LEDGER.exists() and idempotency_key in LEDGER.read_text(encoding="utf-8")


@tool(verify=was_refunded)
def refund(order: str, euros: int, context: Context) -> None:
    """Refund an order."""
    with LEDGER.open("a", encoding="utf-8") as file:
        file.write(f"{context.idempotency_key}: {euros} euros for {order}\n")
    time.sleep(60)  # the worker dies here: after the effect, before the result


async def do(work: Awaitable[Any]) -> Any:
    async with runs:
        return await work


class Desk(BaseHTTPRequestHandler):  # a real one has a login
    def do_POST(self) -> None:
        if pending := self.rfile.read(int(self.headers["Content-Length"])).decode():
            asyncio.run(do(runs.answer(pending, Allow(), by="the manager")))
        self.send_response_only(200)
        self.end_headers()
        for waiting in asyncio.run(do(runs.inbox())):
            self.wfile.write(f"{waiting.id} {waiting.principal}: {waiting.question}".encode())


with TemporaryDirectory() as new, chdir((*sys.argv[1:], new)[0]):
    model = ScriptedModel(*SCRIPT[LEDGER.exists() :])  # a real model reads the messages
    agents = {"orders": Agent(model, [refund], policy=lambda _call: Ask("Refund it?"))}
    runs = DurableRuns("runs.db", agents)
    if sys.argv[1:]:
        sys.exit(asyncio.run(runs.serve()))
    asyncio.run(do(runs.start("orders", "Refund order A1.", run_id="a1", principal="ada")))
    command, app = [sys.executable, __file__, new], HTTPServer(("127.0.0.1", 0), Desk)
    worker = Popen(command, stderr=DEVNULL)  # noqa: S603  this file
    Thread(target=app.serve_forever, daemon=True).start()
    browser, url = build_opener(ProxyHandler({})), f"http://127.0.0.1:{app.server_port}"
    while not (line := browser.open(url, b"").read().decode()):
        time.sleep(0.5)
    print("desk:", line)
    browser.open(url, line.partition(" ")[0].encode())
    while not LEDGER.exists():
        time.sleep(0.1)
    worker.kill()
    print("worker:", worker.wait())
    worker = Popen(command, stderr=DEVNULL)  # noqa: S603  this file
    print("agent:", asyncio.run(do(runs.wait("a1"))).text)
    print("ledger:", LEDGER.read_text(encoding="utf-8").strip())
    app.server_close()
    worker.terminate()
    worker.wait()

# output:
# desk: a1~1~c1~0 ada: Refund it?
# worker: -9
# agent: Your money is on its way.
# ledger: a1/1/c1: 120 euros for A1
