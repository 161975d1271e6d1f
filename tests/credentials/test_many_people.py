"""Many people, many services, two gateways behind a plain balancer: no call goes out with the credential of another person.

The services check whose token each call has. Meanwhile, tokens end, the gateways reload, and one of them is killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, product
from pathlib import Path

import anyio
import pytest

from credentials import gateway
from credentials.balancer import RoundRobin, balancing
from credentials.company import KEY, Services, running_services, start_process
from handrail.credentials import TokenStore

SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
PEOPLE, SERVICES, CALLS, WORKERS = (100, 20, 20_000, 24) if SOAK else (8, 3, 160, 8)
IN_ROW = 10 if SOAK else 4
"""Calls of one person to one service in a row: the first one at a gateway opens a session there."""
PATIENCE = 3_000 if SOAK else 120
BROKEN = "no answer"
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "Connection": "close",
    "MCP-Protocol-Version": "2026-07-28",
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "people", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Gateway:
    """A gateway in another process, which can be killed and started again."""

    def __init__(self, folder: Path, services: Services) -> None:
        self._args = folder, services.origin, SERVICES
        self.port = 0
        self.start()

    def start(self) -> None:
        self.process, self._told = start_process(gateway.main, *self._args)

    def wait(self) -> None:
        self.port = self._told.recv()

    def reload(self) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGHUP)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


@contextmanager
def running_gateways(folder: Path, services: Services) -> Iterator[list[Gateway]]:
    gateways = [Gateway(folder, services) for _ in range(2)]
    try:
        for gateway in gateways:
            gateway.wait()
        yield gateways
    finally:
        for gateway in gateways:
            gateway.kill()


def write_tables(folder: Path, *, swapped: bool = False) -> None:
    people = [f"p{number}" for number in range(PEOPLE)]
    owners = dict(zip(people, people, strict=True))
    if swapped:
        owners["p0"], owners["p1"] = "p1", "p0"
    tables = {
        f"s{number}": {name: f"t-s{number}-{owners[name]}" for name in people}
        for number in range(0, SERVICES, 3)
    }
    folder.joinpath("table.new").write_text(json.dumps(tables), encoding="utf-8")
    folder.joinpath("table.new").replace(folder / "table.json")


async def sign_everyone_in(folder: Path, services: Services, *, swapped: bool = False) -> None:
    store = TokenStore(folder / "tokens.db", keys=[KEY])
    pairs = [
        (f"s{number}", f"p{person}") for number in range(1, SERVICES, 3) for person in range(PEOPLE)
    ]
    for (service, person), tokens in zip(pairs, services.control(issue=pairs), strict=True):
        entry = {
            "access": tokens["access_token"],
            "refresh": tokens["refresh_token"],
            "ends": None,
            "client": "gateway",
        }
        await store.put(service, person, entry)


class Crowd:
    """People who call the services through the balancer."""

    def __init__(self, gateways: list[Gateway], balancer: RoundRobin) -> None:
        self.gateways = gateways
        self._balancer = balancer
        self.outcomes: Counter[str] = Counter()
        self.shares: list[float] = []
        """Of the gateways, in the connections."""
        self.made = 0
        pairs = list(product(range(PEOPLE), range(SERVICES)))
        random.Random(7).shuffle(pairs)  # noqa: S311  no secret
        self._pairs = cycle(pairs)

    async def work(self) -> None:
        for person, service in self._pairs:
            for _ in range(IN_ROW):
                if self.made >= CALLS:
                    return
                self.made += 1
                await self._call(f"p{person}", f"s{service}")

    async def _call(self, person: str, service: str) -> None:
        for _ in range(2):
            outcome = await call(self._balancer.port, person, service)
            self.outcomes[outcome] += 1
            if outcome != BROKEN:  # else the gateway was killed during the call
                return


async def call(port: int, person: str, service: str) -> str:
    """Call as a person, in one connection. Returns `ok`, `WRONG`, or why there is no answer."""
    name = f"mcp__{service}__whoami"
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": {"claimed": person}, "_meta": META},
    }
    body = json.dumps(request)
    headers = {
        **HEADERS,
        "Host": f"127.0.0.1:{port}",
        "Content-Length": len(body),
        "Authorization": f"Bearer jwt-{person}",
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    answer = await exchange(port, f"POST /mcp HTTP/1.1\r\n{head}\r\n{body}".encode())
    for line in answer.splitlines():
        if '"result"' in line:
            result = json.loads(line.removeprefix("data: "))["result"]
            text = result["content"][0]["text"]
            if result.get("isError"):
                return text[:60]
            return "ok" if text == f"{person} at {service}" else "WRONG"
    return answer[:80] or BROKEN


async def exchange(port: int, request: bytes) -> str:
    """Return what is answered until the connection ends: little, if the gateway was killed."""
    answer = b""
    try:
        with anyio.fail_after(120):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(request)
                async for piece in stream:
                    answer += piece
    except (OSError, anyio.BrokenResourceError):
        pass
    return answer.decode()


async def disturb(crowd: Crowd, folder: Path, services: Services) -> None:
    """End all tokens, reload both gateways, and kill one, while calls are under way."""
    killed = crowd.gateways[1]
    for part in range(1, 9):
        while crowd.made < CALLS * part / 9:  # noqa: ASYNC110
            await anyio.sleep(0.02)
        match part % 4:
            case 1:
                services.control(end_all=True)
            case 2:
                write_tables(folder)
                for one in crowd.gateways:
                    one.reload()
            case 3 if SOAK and part == 3:  # starting again takes most of the time of a short test
                killed.kill()
                killed.start()
                await anyio.to_thread.run_sync(killed.wait)
            case _:
                services.control(end_all=True, seconds=31 if part > 5 else 3600)


async def run_crowd(folder: Path, services: Services, gateways: list[Gateway]) -> Crowd:
    with anyio.fail_after(PATIENCE):
        async with (
            balancing(lambda: [one.port for one in gateways]) as balancer,
            anyio.create_task_group() as tasks,
        ):
            crowd = Crowd(gateways, balancer)
            for _ in range(WORKERS):
                tasks.start_soon(crowd.work)
            await disturb(crowd, folder, services)
    crowd.shares = [balancer.passed[place] / balancer.passed.total() for place in range(2)]
    return crowd


async def find_swapped(port: int) -> str:
    """Call as a person until the tables are read again."""
    with anyio.fail_after(60):
        while (found := await call(port, "p0", "s0")) == "ok":  # noqa: ASYNC110
            await anyio.sleep(0.05)
    return found


@pytest.mark.timeout(PATIENCE + 120)
def test_no_call_has_the_credential_of_another_person(tmp_path: Path) -> None:
    write_tables(tmp_path)
    with running_services(SERVICES) as services:
        anyio.run(sign_everyone_in, tmp_path, services)
        with running_gateways(tmp_path, services) as gateways:
            crowd = anyio.run(run_crowd, tmp_path, services, gateways)
            seen = services.control()
            write_tables(tmp_path, swapped=True)  # the control: two get the credential of the other
            for one in gateways:
                one.reload()
            caught = anyio.run(find_swapped, gateways[0].port)
            control = services.control()
    if SOAK:
        del seen["grants"]
        print(dict(crowd.outcomes), seen, crowd.shares)  # noqa: T201  the figures

    assert crowd.made >= CALLS
    assert (crowd.outcomes["WRONG"], seen["wrong"]) == (0, 0)
    assert crowd.outcomes["ok"] >= CALLS * 0.85  # the others met a crash or a reload
    assert (caught, control["wrong"]) == ("WRONG", 1)
    assert min(seen["refreshed"], seen["exchanged"], seen["refused"]) > 0
    assert min(crowd.shares) > 0.2
