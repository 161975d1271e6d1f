"""A plain balancer: it passes each connection to the next process, and reads nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream

PATIENCE = 120


class RoundRobin:
    """Passes connections to ports in turn. One that refuses is left out."""

    def __init__(self, find_ports: Callable[[], Sequence[int]]) -> None:
        self._find_ports = find_ports
        self._turn = count()
        self.port = 0
        self.passed: Counter[int] = Counter()
        """Connections by place in the row."""

    async def handle(self, client: SocketStream) -> None:
        async with client:
            server = await self._connect()
            if server is None:
                return
            async with server, anyio.create_task_group() as tasks:
                tasks.start_soon(_copy, client, server)
                await _copy(server, client)
                tasks.cancel_scope.cancel()

    async def _connect(self) -> SocketStream | None:
        ports, first = self._find_ports(), next(self._turn)
        for at in range(first, first + len(ports)):
            place = at % len(ports)
            try:
                with anyio.fail_after(PATIENCE):
                    server = await anyio.connect_tcp("127.0.0.1", ports[place])
            except OSError:
                continue
            self.passed[place] += 1
            return server
        return None


async def _copy(one: ByteStream, other: ByteStream) -> None:
    try:
        async for piece in one:
            await other.send(piece)
        await other.send_eof()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return


@asynccontextmanager
async def balancing(find_ports: Callable[[], Sequence[int]]) -> AsyncIterator[RoundRobin]:
    """Run a balancer until the block ends."""
    made = RoundRobin(find_ports)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", backlog=2048)
    made.port = listener.extra(SocketAttribute.local_port)  # noqa: S610  no Django
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, made.handle)
        yield made
        tasks.cancel_scope.cancel()
