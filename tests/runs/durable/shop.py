"""A shop whose tools write to a ledger outside: the judge of what really happened."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Text,
    tool,
)
from handrail.agent import Agent
from handrail.messages import Model, Reply, Request, ToolResults


class Ledger:
    """A file that the tools append to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pause = 0.001
        """Seconds before an effect, and after it."""
        self.bank = 0
        """The port of a bank that keeps the file. Without one, this process does."""

    def add(self, line: str) -> None:
        if self.bank:
            assert self._ask("POST", "/", line) == 204
            return
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, f"{line}\n".encode())
        os.close(file)

    def count(self) -> Counter[str]:
        if not self.path.exists():
            return Counter()
        return Counter(self.path.read_text(encoding="utf-8").splitlines())

    def has(self, line: str) -> bool:
        if self.bank:
            return self._ask("GET", f"/{quote(line)}") == 204
        return line in self.count()

    def _ask(self, method: str, path: str, body: str | None = None) -> int:
        with closing(HTTPConnection("127.0.0.1", self.bank, timeout=30)) as bank:
            bank.request(method, path, body)
            return bank.getresponse().status


def policy(call: CheckedCall) -> Decision:
    large = call.name == "pay" and call.args["amount"] > 100
    return Ask(f"Pay {call.args['amount']}?") if large else Allow()


TURNS = (
    (
        ("look", {"place": "a"}),
        ("put", {"place": "b"}),
        ("pay", {"amount": 1}),
        ("wire", {"amount": 2}),
    ),
    (("pay", {"amount": 500}), ("look", {"place": "c"}), ("pay", {"amount": 4})),
    (("helper", {"task": "pay the fee"}), ("pay", {"amount": 3})),
)
"""What the model calls: reads, idempotent writes, payments, one that needs approval, a sub-agent."""


Script = tuple[tuple[tuple[str, dict[str, Any]], ...], ...]


def make_model(script: Script) -> Model:
    """A model that calls what a script says, and then answers."""

    async def model(request: Request) -> Reply:
        turn = sum(isinstance(message, ToolResults) for message in request.messages)
        if turn == len(script):
            return Reply((Text("All done."),))
        called = enumerate(script[turn])
        return Reply(tuple(Call(name, args, f"{name}-{number}") for number, (name, args) in called))

    return model


def call_once(name: str) -> Model:
    """A model that pays or wires 1, and then answers."""
    return make_model((((name, {"amount": 1}),),))


SHOPPING = make_model(TURNS)


def make_agent(
    ledger: Ledger, model: Model = SHOPPING, *, fee: int = 7, **options: Any
) -> Agent[str]:
    """An agent with every kind of tool."""

    async def act(line: str) -> None:
        await anyio.sleep(ledger.pause)
        ledger.add(line)
        await anyio.sleep(ledger.pause)

    @tool(effect=READ, touches=lambda place: Access(READ, f"shelf:{place}"))
    async def look(place: str, context: Context) -> str:
        """Look at a shelf."""
        await act(f"look {context.idempotency_key}")
        return f"saw {place}"

    @tool(effect=WRITE, idempotent=True, touches=lambda place: Access(WRITE, f"shelf:{place}"))
    async def put(place: str, context: Context) -> str:
        """Put something on a shelf."""
        await act(f"put {context.idempotency_key}")
        return f"put {place}"

    @tool(effect=WRITE, touches=lambda **_: Access(WRITE, "account:shop"))
    async def pay(amount: int, context: Context) -> str:
        """Pay."""
        await act(f"pay {context.idempotency_key}")
        return f"paid {amount}"

    async def was_wired(amount: int, idempotency_key: str) -> bool:
        return ledger.has(f"wire {idempotency_key}")

    @tool(effect=WRITE, touches=lambda **_: Access(WRITE, "account:bank"), verify=was_wired)
    async def wire(amount: int, context: Context) -> str:
        """Wire money. The bank knows which transfers it made, and makes each of them once."""
        await anyio.sleep(ledger.pause)
        if not ledger.has(f"wire {context.idempotency_key}"):
            ledger.add(f"wire {context.idempotency_key}")
        await anyio.sleep(ledger.pause)
        return f"wired {amount}"

    fees = make_model(((("pay", {"amount": fee}),),))
    helper = Agent(fees, [pay], policy=policy).as_tool("helper", "Does small tasks.")
    return Agent(model, [look, put, pay, wire, helper], policy=policy, **options)
