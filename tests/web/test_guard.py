"""Strangers, pages of other sites and other people's ids get nothing from a chat."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from handrail.web import ChatApp, Visitor
from web.chats import (
    ORIGIN,
    REFUNDS,
    as_person,
    client_of,
    identify,
    post_chat,
    shop_agent,
    text_of,
)

PNG = b"\x89PNG\r\n\x1a\n picture"


@asynccontextmanager
async def chatting(database: str, **options: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    options = {"origins": [ORIGIN], "database": database, **options}
    async with client_of(ChatApp(shop_agent(), identify, **options)) as client:
        yield client


ROUTES = (
    ("POST", "/chat"),
    ("POST", "/ag-ui"),
    ("POST", "/ui-messages"),
    ("GET", "/ui-messages/k/stream"),
    ("GET", "/conversations"),
    ("GET", "/conversations/k"),
    ("DELETE", "/conversations/k"),
    ("GET", "/conversations/k/events"),
    ("POST", "/conversations/k/cancel"),
    ("GET", "/inbox"),
    ("POST", "/inbox/p"),
    ("POST", "/files"),
    ("GET", "/files/f"),
    ("DELETE", "/files/f"),
)
OPEN_ROUTES = {"/healthz", "/readyz"}


async def test_every_route_needs_a_visitor(sqlite: str) -> None:
    async with chatting(sqlite) as client:
        codes = [
            (
                await client.request(method, path, headers={"authorization": "", "origin": ORIGIN})
            ).status_code
            for method, path in ROUTES
        ]

    known = [
        (method, route)
        for route in _routes(sqlite)
        for method in route.methods
        if method != "HEAD" and route.path not in OPEN_ROUTES
    ]
    named = [
        (method, route.matches({"type": "http", "path": path, "method": method})[0].name)
        for method, path in ROUTES
        for route in _routes(sqlite)
    ]
    assert codes == [401] * len(ROUTES)
    assert sum(match == "FULL" for _, match in named) == len(known) == len(ROUTES)


def _routes(database: str) -> Any:
    app: Any = ChatApp(shop_agent(), identify, origins=[ORIGIN], database=database)
    return app._router.routes  # noqa: SLF001  a new route must come into the list above


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"{ORIGIN}.evil.example"}, 403),
        ({"origin": "http://shop.example"}, 403),
        ({"cookie": "session=ada"}, 403),
        ({"sec-fetch-site": "same-origin"}, 403),
        ({"origin": ORIGIN, "content-type": "text/plain"}, 415),
        ({"origin": ORIGIN, "content-type": "application/x-www-form-urlencoded"}, 415),
        ({"origin": ORIGIN}, 200),
        ({}, 200),
    ],
)
async def test_only_own_pages_write(sqlite: str, headers: dict[str, str], code: int) -> None:
    async with chatting(sqlite) as client:
        client.headers.clear()
        sent = {"authorization": "Bearer ada", "content-type": "application/json", **headers}
        response = await client.post("/chat", content='{"text": "hi"}', headers=sent)

    assert response.status_code == code


async def test_two_origins_in_one_request_are_none(sqlite: str) -> None:
    async with chatting(sqlite) as client:
        sent = [("authorization", "Bearer ada"), ("origin", ORIGIN), ("origin", ORIGIN)]
        client.headers.clear()
        response = await client.post("/chat", json={"text": "hi"}, headers=sent)

    assert response.status_code == 403


async def test_no_one_reads_or_changes_another_persons_conversation(database: str) -> None:
    REFUNDS.clear()
    async with chatting(database) as client:
        await post_chat(client, {"text": "my secret", "conversation": "k"})
        file = await client.post("/files", content=PNG, headers={"content-type": "image/png"})
        name = file.json()["id"]
        eve = as_person("eve")
        got = {
            "show": await client.get("/conversations/k", headers=eve),
            "watch": await client.get("/conversations/k/events", headers=eve),
            "replay": await client.get("/ui-messages/k/stream", headers=eve),
            "cancel": await client.post("/conversations/k/cancel", headers=eve),
            "delete": await client.delete("/conversations/k", headers=eve),
            "file": await client.get(f"/files/{name}", headers=eve),
            "use file": await client.post(
                "/chat", json={"text": "a", "files": [name]}, headers=eve
            ),
        }
        listed = (await client.get("/conversations", headers=eve)).json()
        same_id = await post_chat(client, {"text": "mine", "conversation": "k"}, headers=eve)
        own = (await client.get("/conversations/k")).json()["messages"]
        back = await client.get(f"/files/{name}")

    assert {what: one.status_code for what, one in got.items()} == dict.fromkeys(got, 404)
    assert not any("secret" in one.text for one in got.values())
    assert listed == {"conversations": []}
    assert text_of(same_id) == "1: mine "  # her own conversation, with the same id
    assert [one["text"] for one in own] == ["my secret", "1: my secret "]
    assert (back.content, back.headers["content-disposition"]) == (
        PNG,
        "attachment; filename*=UTF-8''file",
    )


async def test_a_persons_answer_reaches_only_the_conversation_it_names(sqlite: str) -> None:
    """AG-UI and the AI SDK send answers with messages: of one's own conversation only."""

    def both(request: Any) -> Visitor:
        _, _, name = request.headers["authorization"].partition(" ")
        return Visitor(principal=name, answers=True)  # may answer all, in the inbox

    REFUNDS.clear()
    app = ChatApp(shop_agent(), both, origins=[ORIGIN], database=sqlite)
    async with client_of(app) as client:
        ask = {
            "id": "k",
            "messages": [{"role": "user", "parts": [{"type": "text", "text": "refund o1 500"}]}],
        }
        chunks = await post_chat(client, ask, "/ui-messages")
        [asked] = [
            one.data
            for one in chunks
            if isinstance(one.data, dict) and one.data["type"] == "tool-approval-request"
        ]
        approval = {"id": asked["approvalId"], "approved": True}
        part = {"type": "dynamic-tool", "state": "approval-responded", "approval": approval}
        answer = {"messages": [{"role": "assistant", "parts": [part]}]}
        eve = as_person("eve")
        await post_chat(client, {"text": "hi", "conversation": "k"}, headers=eve)
        by_eve = await client.post("/ui-messages", json={"id": "k", **answer}, headers=eve)
        elsewhere = await client.post("/ui-messages", json={"id": "z", **answer})
        before = list(REFUNDS)
        await post_chat(client, {"id": "k", **answer}, "/ui-messages")
        again = await client.post("/ui-messages", json={"id": "k", **answer})

    assert (by_eve.status_code, elsewhere.status_code, before) == (404, 404, [])
    assert (again.status_code, [one[:2] for one in REFUNDS]) == (409, [("o1", 500)])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'"text"',
        b"{",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"text": ""}',
        b'{"text": 3}',
        b'{"text": "a", "conversation": 3}',
        b'{"text": "a", "conversation": "a\\u0000b"}',
        b'{"text": "a", "conversation": "' + b"k" * 101 + b'"}',
        b'{"text": "a", "files": "all"}',
        b'{"text": "a", "files": [3]}',
        b'{"text": "a", "principal": "boss"}',
        b'{"text": "a \\ud800"}',
        b'{"text": "a \xed\xa0\x80"}',
        b'{"text": "a \\u0000"}',
        b'{"text": "a \\\\\\u0000"}',
    ],
)
async def test_malformed_bodies_are_refused(sqlite: str, body: bytes) -> None:
    kind = {"content-type": "application/json"}
    async with chatting(sqlite) as client:
        codes = [
            (await client.post(path, content=body, headers=kind)).status_code
            for path in ("/chat", "/ag-ui", "/ui-messages")
        ]

    assert codes == [400, 400, 400]


async def test_names_that_no_database_stores_are_of_nothing(database: str) -> None:
    """A database that refuses them would look as if it were away."""
    async with chatting(database) as client:
        codes = {
            (await client.request(method, path.replace("{}", "a%00b"))).status_code
            for method in ("GET", "DELETE", "POST")
            for path in ("/conversations/{}", "/conversations/{}/events", "/files/{}", "/inbox/{}")
        }
        told = await post_chat(client, {"text": r"What is \u0000, and \ud800?"})

    assert codes == {404, 405}
    assert text_of(told) == r"1: What is \u0000, and \ud800? "


async def test_bodies_are_bounded(sqlite: str) -> None:
    async with chatting(sqlite) as client:
        kind = {"content-type": "application/json"}
        large = await client.post("/chat", content=b" " * (1024 * 1024 + 1), headers=kind)
        page = await client.post(
            "/files", content=b"<script>", headers={"content-type": "text/html"}
        )
        picture = {"content-type": "image/png"}
        huge = await client.post("/files", content=b" " * (10 * 1024 * 1024 + 1), headers=picture)

    assert [one.status_code for one in (large, page, huge)] == [413, 415, 413]


async def test_pages_see_no_arguments_results_or_errors_unless_you_say_so(sqlite: str) -> None:
    REFUNDS.clear()
    async with chatting(sqlite) as client:
        hidden = await post_chat(client, {"text": "refund o1 50"})
    async with chatting(sqlite, details=True) as client:
        shown = await post_chat(client, {"text": "refund o1 50"})

    calls = [
        [one.data for one in events if one.event in ("call", "result")]
        for events in (hidden, shown)
    ]
    assert calls == [
        [{"id": "c1", "name": "refund"}, {"id": "c1", "failure": ""}],
        [
            {"id": "c1", "name": "refund", "args": {"order": "o1", "amount": 50}},
            {"id": "c1", "failure": "", "text": "refunded 50"},
        ],
    ]


async def test_a_failed_run_says_so_and_no_more(sqlite: str) -> None:
    async def model(_request: Any) -> Any:
        raise RuntimeError("the key is 12345")

    app = ChatApp(shop_agent(model), identify, origins=[ORIGIN], database=sqlite)
    async with client_of(app) as client:
        events = await post_chat(client, {"text": "hi", "conversation": "k"})
        ui = await post_chat(
            client,
            {"id": "u", "messages": [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}]},
            "/ui-messages",
        )
        shown = (await client.get("/conversations/k")).json()

    assert events[-1].data == {"status": "failed", "reason": "error"}
    assert ui[-3].data == {"type": "error", "errorText": "The run failed."}
    assert (shown["state"], [one["text"] for one in shown["messages"]]) == ("free", ["hi"])


async def test_every_answer_has_the_headers(sqlite: str) -> None:
    async with chatting(sqlite) as client:
        several = [
            await client.get("/conversations"),
            await client.get("/conversations/none"),
            await client.post("/chat", json={"text": "hi"}),
            await client.get("/inbox", headers={"authorization": ""}),
        ]

    for response in several:
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"origins": ["https://shop.example/"]}, "is not an origin"),
        ({"origins": ["*"]}, "is not an origin"),
        ({"origins": ["shop.example"]}, "is not an origin"),
        ({"origins": [ORIGIN], "agent": "shop"}, "pass `database`"),
        ({"origins": [ORIGIN], "database": None}, "pass `database`"),
    ],
)
def test_wrong_options_are_refused(sqlite: str, options: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        ChatApp(shop_agent(), identify, **{"database": sqlite, **options})


async def test_a_deps_function_gets_the_visitor_also_after_anothers_answer(sqlite: str) -> None:
    REFUNDS.clear()
    made: list[Any] = []

    def make_deps(visitor: Visitor) -> str:
        made.append((visitor.principal, dict(visitor.metadata)))
        return f"database of {visitor.principal}"

    async with chatting(sqlite, deps=make_deps) as client:  # noqa: SIM117
        async with client.stream("POST", "/chat", json={"text": "refund o1 500"}) as response:
            async for line in response.aiter_lines():
                if '"waiting"' in line:
                    break
            boss = as_person("boss")
            [request] = (await client.get("/inbox", headers=boss)).json()["requests"]
            given = {"answer": "allow", "seen": request["seen"]}
            await client.post(f"/inbox/{request['pending']}", json=given, headers=boss)
            assert [line async for line in _rest(client)]

    assert REFUNDS == [("o1", 500, "database of ada")]
    assert made == [("ada", {"plan": "gold"})] * 2


async def test_an_answered_run_has_the_metadata_of_its_own_message(sqlite: str) -> None:
    """What a person may do can change between two messages of a conversation."""
    REFUNDS.clear()
    plans = {"ada": "gold"}

    def by_plan(request: Any) -> Visitor | None:
        found = identify(request)
        return found and replace(found, metadata={"plan": plans.get(found.principal, "")})

    def plan(visitor: Visitor) -> Any:
        return visitor.metadata["plan"]

    app = ChatApp(shop_agent(), by_plan, origins=[ORIGIN], database=sqlite, deps=plan)
    async with client_of(app) as client:
        await post_chat(client, {"text": "hello", "conversation": "k"})
        plans["ada"] = "none"
        sent = {"text": "refund o1 500", "conversation": "k"}
        async with client.stream("POST", "/chat", json=sent) as response:
            async for line in response.aiter_lines():
                if '"waiting"' in line:
                    break
        boss = as_person("boss")
        [request] = (await client.get("/inbox", headers=boss)).json()["requests"]
        given = {"answer": "allow", "seen": request["seen"]}
        await client.post(f"/inbox/{request['pending']}", json=given, headers=boss)
        assert [line async for line in _rest(client)]

    assert REFUNDS == [("o1", 500, "none")]


async def _rest(client: httpx2.AsyncClient) -> AsyncGenerator[str]:
    [one] = (await client.get("/conversations")).json()["conversations"]
    async with client.stream("GET", f"/conversations/{one['id']}/events") as response:
        async for line in response.aiter_lines():
            yield line
