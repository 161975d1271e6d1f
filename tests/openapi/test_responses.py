"""Responses: content becomes a result, a status a failure that a model and a retry can act on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx2
import pytest

from handrail import READ, Context, FailureKind, File, Image, Result, Retry, Transient
from handrail.openapi import tools
from openapi.service import Answer, Service, call, document, on_loopback

pytestmark = pytest.mark.anyio


async def answered(answer: Answer | Exception, method: str = "get", **options: Any) -> Result:
    return await call(tools(document(method=method), Service(answer).client, **options), {})


def typed(kind: str, body: bytes, status: int = 200) -> Answer:
    return Answer(status, body, {"Content-Type": kind})


@pytest.mark.parametrize(
    ("answer", "text", "data"),
    [
        (Answer(), '{"ok":true}', '{"ok":true}'),
        (typed("application/problem+json", b"[1]"), "[1]", "[1]"),
        (Answer(200, b"[1]", {}), "[1]", "[1]"),
        (Answer(200, b"plain", {}), "plain", None),
        (typed("application/json", b"{"), "{", None),
        (typed("application/json", b"[" * 20_000), "[" * 20_000, None),
        (typed("text/plain; charset=latin-1", b"caf\xe9"), "café", None),
        (typed("text/plain; charset=nonsense", "é".encode()), "é", None),
        (typed("text/csv", b"[1]"), "[1]", None),
        (Answer(204, b"", {}), "Done: 204 No Content.", None),
        (Answer(299, b"", {}), "Done: 299.", None),
    ],
    ids=range(11),
)
async def test_text_and_data(answer: Answer, text: str, data: str | None) -> None:
    result = await answered(answer)

    assert (result.text, result.data, result.failure) == (text, data, None)


async def test_images_and_files_are_parts() -> None:
    image = await answered(typed("image/png", b"\x89"))
    other = await answered(typed("application/pdf", b"%PDF"))

    assert image.parts == (Image(b"\x89", "image/png"),)
    assert other.parts == (File(b"%PDF", "application/pdf", "response"),)


async def test_a_long_response_is_cut() -> None:
    long = await answered(typed("text/plain", b"abc" * 100), max_bytes=10)
    data = await answered(typed("application/json", b"[1,2,3,4,5,6]"), max_bytes=10)
    picture = await answered(typed("image/png", b"abc" * 100), max_bytes=10)
    exact = await answered(typed("text/plain", b"abcde"), max_bytes=5)

    note = "[The end of the response was not read: it is too long.]"
    assert (long.text, data.text) == (f"abcabcabca\n{note}", f"[1,2,3,4,5\n{note}")
    assert picture.text == "The request was sent. The response (image/png) is too long to read."
    assert exact.text == "abcde"


@pytest.mark.parametrize(
    ("status", "read", "wrote"),
    [
        (400, FailureKind.FAILED, FailureKind.FAILED),
        (404, FailureKind.FAILED, FailureKind.FAILED),
        (429, FailureKind.TRANSIENT, FailureKind.TRANSIENT),
        (503, FailureKind.TRANSIENT, FailureKind.TRANSIENT),
        (500, FailureKind.TRANSIENT, FailureKind.UNKNOWN),
        (502, FailureKind.TRANSIENT, FailureKind.UNKNOWN),
        (599, FailureKind.FAILED, FailureKind.FAILED),
    ],
)
async def test_a_status_is_a_failure(status: int, read: FailureKind, wrote: FailureKind) -> None:
    results = [
        await answered(Answer(status, b"why \x1b", {}), method) for method in ("get", "put", "post")
    ]

    assert [result.failure and result.failure.kind for result in results] == [read, read, wrote]
    assert all(f"api.test/v1/pets returned {status}" in result.text for result in results)
    assert all("why \\x1b" in result.text for result in results)


async def test_a_login_is_for_the_user_and_a_long_message_is_cut() -> None:
    login = await answered(Answer(401, b"", {}))
    long = await answered(Answer(400, b"x" * 5_000, {}))

    assert login.text == (
        "GET api.test/v1/pets returned 401 Unauthorized. It requires other credentials. Tell the "
        "user."
    )
    assert len(long.text) == len("GET api.test/v1/pets returned 400 Bad Request.\n") + 2_004


@pytest.mark.parametrize(
    ("error", "method", "kind"),
    [
        (httpx2.ConnectError("no"), "get", FailureKind.TRANSIENT),
        (httpx2.ConnectError("no"), "post", FailureKind.TRANSIENT),
        (httpx2.ReadError("cut"), "get", FailureKind.TRANSIENT),
        (httpx2.ReadTimeout("late"), "delete", FailureKind.TRANSIENT),
        (httpx2.RemoteProtocolError("closed"), "post", FailureKind.UNKNOWN),
    ],
)
async def test_a_lost_connection_is_temporary_only_if_nothing_can_have_happened(
    error: Exception, method: str, kind: FailureKind
) -> None:
    result = await answered(error, method)

    assert result.failure is not None
    assert result.failure.kind is kind
    assert ("Not sent" in result.text) == isinstance(error, httpx2.ConnectError)


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("0", 0.0),
        ("7", 7.0),
        ("soon", None),
        ("", None),
        ("Mon, 01 Jan 2024 00:00:00 GMT", 0.0),
        ("Mon, 01 Jan 2024 00:00:00", None),
        ("9" * 400, 999999999.0),
    ],
)
async def test_the_time_to_wait_is_read(header: str, wait: float | None) -> None:
    service = Service(Answer(429, b"", {"Retry-After": header}))
    tool = tools(document(), service.client)["call_it"]

    with pytest.raises(Transient) as raised:
        await tool.fn({}, Context(call_id="c1", idempotency_key="k1"))

    assert raised.value.retry_after == wait


async def test_a_date_in_the_future_is_waited_for() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=3_600), usegmt=True)
    tool = tools(document(), Service(Answer(503, b"", {"Retry-After": soon})).client)["call_it"]

    with pytest.raises(Transient) as raised:
        await tool.fn({}, Context(call_id="c1", idempotency_key="k1"))

    assert raised.value.retry_after is not None
    assert 3_000 < raised.value.retry_after <= 3_600


async def test_a_call_is_retried_after_the_time_that_the_service_asks_for() -> None:
    later = Answer(429, b"", {"Retry-After": "0"})
    reads, writes = Service(later), Service(later)

    read = await call(tools(document(), reads.client, retry=Retry()), {})
    wrote = await call(tools(document(method="post"), writes.client, retry=Retry()), {})

    assert (read.text, len(reads.received)) == ('{"ok":true}', 2)
    assert wrote.failure is not None
    assert (wrote.failure.kind, len(writes.received)) == (FailureKind.TRANSIENT, 1)


async def test_the_key_of_a_call_is_a_header_by_choice() -> None:
    writes, reads, without = Service(), Service(), Service()
    name = "Idempotency-Key"
    own = document(
        method="post", parameters=[{"name": name.lower(), "in": "header", "required": True}]
    )

    await call(tools(own, writes.client, idempotency_header=name), {})
    await call(tools(document(), reads.client, idempotency_header=name), {})
    await call(tools(document(method="post"), without.client), {})

    keys = [one.received[0].headers.get(name.lower()) for one in (writes, reads, without)]
    assert (bool(keys[0]), keys[1:]) == (True, [None, None])


async def test_a_call_over_a_real_connection() -> None:
    with on_loopback(Answer(200, b'{"id": 3}'), Answer(404, b"no pet")) as (url, received, client):
        made = tools(document("/pets/{id}", server=f"{url}/v1"), client)
        found = await call(made, {"id": "3"})
        missing = await call(made, {"id": "4"})

    assert (found.data, missing.text.splitlines()) == (
        '{"id":3}',
        ["GET pets.internal/v1/pets/4 returned 404 Not Found.", "no pet"],
    )
    assert [one[:2] for one in received] == [("GET", "/v1/pets/3"), ("GET", "/v1/pets/4")]
    assert made["call_it"].spec.effect == READ
