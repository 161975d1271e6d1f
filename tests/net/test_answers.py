"""Answers are plain and bounded, or reading them fails."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from httpx2 import AsyncClient, MockTransport, ReadError, Request, Response

from handrail.net import bounded_hooks

pytestmark = pytest.mark.anyio


async def read(body: bytes, encoding: str = "") -> str:
    """What a client gets that reads at most ten bytes, and which encoding it asked for."""

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 4):
            yield body[at : at + 4]

    def answer(request: Request) -> Response:
        told = {"Content-Encoding": encoding, "X-Asked": request.headers["Accept-Encoding"]}
        return Response(200, headers=told, content=pieces())

    async with AsyncClient(
        transport=MockTransport(answer), event_hooks=bounded_hooks(10)
    ) as client:
        response = await client.get("http://x.test/")
        return f"{response.headers['X-Asked']}: {response.text}"


async def test_a_plain_answer_within_the_bound_is_read() -> None:
    assert await read(b"0123456789") == "identity: 0123456789"
    assert await read(b"0123456789", encoding="Identity") == "identity: 0123456789"


async def test_a_longer_answer_is_not_read() -> None:
    with pytest.raises(ReadError, match="the answer has more than 10 bytes"):
        await read(b"0123456789a")


@pytest.mark.parametrize("encoding", ["gzip", "br", "gzip, gzip", "no-such"])
async def test_a_compressed_answer_is_not_read(encoding: str) -> None:
    told = f"the answer is compressed ({encoding!r}), though a plain one was asked for"
    with pytest.raises(ReadError) as raised:
        await read(b"", encoding=encoding)

    assert str(raised.value) == told
