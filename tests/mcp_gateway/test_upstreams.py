"""Many servers behind one: none delays, shadows or sees another."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from handrail import READ, DuplicateName, Toolset, tool
from handrail.mcp import HttpServer, Pins
from handrail.mcp.gateway import RulesByPrincipal, UpstreamHealth, Upstreams
from handrail.mcp.server import ServedResource, make_server
from handrail.policy import Rulebook
from mcp_client.raw_server import TOOLS
from mcp_client.stage import raw
from mcp_gateway.gateways import (
    DEAD,
    client_of,
    gateway,
    names_of,
    source,
    sources,
    text_of,
    until,
)
from mcp_served.served import Notes, connect, executor, over_http

pytestmark = pytest.mark.anyio


@tool(effect=READ)
def own_tool() -> str:
    """Do what the gateway does itself."""
    return "own"


@tool(effect=READ, name="mcp__raw__echo")
def looks_foreign() -> str:
    """Do what the gateway does itself."""
    return "own"


async def test_a_dead_and_a_silent_server_delay_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.mcp._gateway.upstreams.FIRST_PAUSE", 0.01)
    given = [source(DEAD), source(raw("silent", name="silent")), *sources("good")]
    async with gateway(given, own=Toolset(own_tool)) as (upstreams, made):
        async with client_of(made) as client:
            first = await names_of(client)
            await upstreams.wait_tried(0.01)  # not for ever: one of them is silent
            await until(lambda: "mcp__good__echo" in made.tools)
            listed = await names_of(client)
            called = await client.call_tool("mcp__good__echo", {"text": "hello"})
            await until(lambda: upstreams.health()[0].state == "failed")
            states = [(one.name, one.state, one.tools) for one in upstreams.health()]
            waits = upstreams.is_ready
            monkeypatch.setattr("handrail.mcp._gateway.upstreams.READY_SECONDS", 0.0)

            assert (waits, upstreams.is_ready) == (False, True)
            assert "own_tool" in first
            assert {"own_tool", "mcp__good__echo"} <= set(listed)
            assert text_of(called) == "hello"
            assert states == [
                ("dead", "failed", 0),
                ("good", "open", len(TOOLS)),
                ("silent", "connecting", 0),
            ]
            assert "The MCP server 'dead' is not connected" in upstreams.health()[0].problem


async def test_approved_tools_are_offered_before_their_server_answers(tmp_path: Path) -> None:
    pins = Pins(tmp_path, first_use=True)
    async with gateway([source(raw(), pins=pins)]) as (upstreams, made):
        await upstreams.wait_tried(30)
        before = [spec.name for spec in made.tools.specs]
        assert upstreams.is_ready
    quiet = raw("silent")
    known = json.loads((tmp_path / "raw.json").read_text(encoding="utf-8"))
    pins.approve(quiet, [])
    entry = {"identity": quiet.identity, "tools": known["tools"]}
    (tmp_path / "raw.json").write_text(json.dumps(entry), encoding="utf-8")
    async with gateway([source(quiet, pins=Pins(tmp_path))]) as (upstreams, made):
        with_silence = [spec.name for spec in made.tools.specs]
        async with client_of(made) as client:
            called = await client.call_tool("mcp__raw__get_it", {"text": "x"})

    assert before == with_silence
    assert "mcp__raw__echo" in before
    assert (called.is_error, "The MCP server 'raw' is not connected." in text_of(called)) == (
        True,
        True,
    )


async def test_a_damaged_file_of_approvals_concerns_its_server_only(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    damaged = source(raw(name="bad"), pins=Pins(tmp_path))
    async with gateway([damaged, *sources("good")]) as (upstreams, made):
        await until(lambda: "mcp__good__echo" in made.tools)
        await until(lambda: upstreams.health()[0].state == "failed")
        health = upstreams.health()

    assert "cannot be read" in health[0].problem
    assert health[1] == UpstreamHealth("good", "open", len(TOOLS))


async def test_a_large_catalogue_is_searched() -> None:
    async with gateway(sources("raw"), own=Toolset(own_tool), defer_over=1) as (upstreams, made):
        await upstreams.wait_tried(30)
        async with client_of(made) as client:
            listed = await names_of(client)
            found = await client.call_tool("search_tools", {"queries": ["get it"]})
            args = {"name": "mcp__raw__get_it", "arguments": {"text": "found"}}
            called = await client.call_tool("call_tool", args)

    assert listed == ["call_tool", "own_tool", "search_tools"]
    assert "mcp__raw__get_it" in text_of(found)
    assert text_of(called) == "found"


async def test_no_server_takes_the_name_of_another_tool() -> None:
    with pytest.raises(DuplicateName, match="Two MCP servers are named 'raw'"):
        Upstreams(sources("raw", "raw"))

    async with gateway(sources("raw", "other"), own=Toolset(looks_foreign)) as (upstreams, made):
        await upstreams.wait_tried(30)
        async with client_of(made) as client:
            mine = await client.call_tool("mcp__raw__echo", {})
            other = await client.call_tool("mcp__other__echo", {"text": "other"})
            listed = await names_of(client)
        [_, refused] = upstreams.health()

    assert (text_of(mine), text_of(other)) == ("own", "other")
    assert [name for name in listed if name.startswith("mcp__raw__")] == ["mcp__raw__echo"]
    assert "Two tools claim the name 'mcp__raw__echo'" in refused.problem


async def test_servers_are_replaced_and_those_unchanged_stay_connected() -> None:
    async with gateway(sources("kept", "gone")) as (upstreams, made):
        await upstreams.wait_tried(30)
        kept = [one.state for one in upstreams.health()]
        async with client_of(made) as client:
            await upstreams.replace(sources("kept", "new"))
            await until(lambda: "mcp__new__echo" in made.tools)
            listed = await names_of(client)
            gone = await client.call_tool("mcp__gone__echo", {"text": "x"})
            heard = text_of(await client.call_tool("mcp__kept__methods", {}))
        health = [(one.name, one.state) for one in upstreams.health()]
        await upstreams.replace(sources("new"))
        last = [one.name for one in upstreams.health()]

    assert (kept, heard.split().count("initialize")) == (["open", "open"], 1)
    assert health == [("kept", "open"), ("new", "open")]
    assert {name.split("__")[1] for name in listed if "__" in name} == {"kept", "new"}
    assert text_of(gone).startswith("There is no tool 'mcp__gone__echo'.")
    assert last == ["new"]
    with pytest.raises(RuntimeError, match="inside of `connect`"):
        await upstreams.replace(sources("new"))


async def test_a_first_list_waits_and_names_the_servers_that_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("handrail.mcp._gateway.upstreams.FIRST_LIST_SECONDS", 2.0)
    both = RulesByPrincipal(
        Rulebook.from_toml(""),
        {"bob": Rulebook.from_toml('[[rule]]\ndecide = "deny"\ntools = "mcp__silent__*"\n')},
    )
    given = [source(raw("silent", name="silent")), *sources("good")]
    async with gateway(given, policy=both) as (upstreams, made):
        options = {"rules_of": both.find, "wait_first": upstreams.wait_first}
        lists = [
            await client.list_tools()
            for name in (None, "bob")
            async for client in _clients(make_server(made, principal=name, **options))
        ]

    names = [{tool.name.split("__")[1] for tool in one.tools if "__" in tool.name} for one in lists]
    assert names == [{"good"}, {"good"}]
    assert [(one.meta or {}).get("handrail/missing") for one in lists] == [["silent"], None]


async def _clients(server: Any) -> AsyncIterator[Client]:
    async with Client(server, mode="legacy") as client:
        yield client


async def test_new_tools_of_a_known_server_wait_for_a_review_even_with_first_use(
    tmp_path: Path,
) -> None:
    pins = Pins(tmp_path, first_use=True)
    more = json.dumps([{**TOOLS["echo"], "name": "extra"}])
    known_server = source(raw(), pins=pins)
    async with gateway([known_server]) as (upstreams, made):
        await upstreams.wait_tried(30)
        async with client_of(made) as client:
            await client.call_tool("mcp__raw__grow", {"text": more})
            await until(lambda: [one.name for one in known_server.changes] == ["extra"])
            extra = await client.call_tool("mcp__raw__extra", {"text": "x"})
            known = await client.call_tool("mcp__raw__echo", {"text": "x"})

    assert (extra.is_error, text_of(known)) == (True, "x")
    assert text_of(extra).startswith("There is no tool 'mcp__raw__extra'.")


async def test_what_only_programs_of_users_read_passes_unchanged() -> None:
    sent = {"content": [{"type": "text", "text": "x"}], "_meta": {"a.example/r": {"b": [1]}}}
    async with gateway([source(raw("adorned"))]) as (upstreams, made):
        await upstreams.wait_tried(30)
        async with client_of(made) as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            result = await client.call_tool("mcp__raw__odd", {"text": json.dumps(sent)})

    echo = listed["mcp__raw__echo"].model_dump(mode="json", by_alias=True, exclude_none=True)
    assert {key: echo[key] for key in ("title", "icons", "_meta")} == {
        "title": "Echo",
        "icons": [{"src": "https://a.example/i.png", "mimeType": "image/png"}],
        "_meta": {"ui": {"resourceUri": "ui://a/b"}, "a.example/x": [1]},
    }
    assert (text_of(result), result.meta) == ("x", {"a.example/r": {"b": [1]}})
    assert listed["mcp__raw__get_it"].meta is None


async def test_what_servers_say_and_lose_is_reported_as_theirs() -> None:
    async with gateway(sources("raw")) as (upstreams, made):
        await upstreams.wait_tried(30)
        async with client_of(made) as client:
            refused = await client.call_tool("mcp__raw__refuse", {})
            lost = await client.call_tool("mcp__raw__die", {})
            again = await client.call_tool("mcp__raw__get_it", {"text": "back"})
            await client.call_tool("mcp__raw__die", {})
            health = upstreams.health()

    assert text_of(refused) == "The MCP server 'raw' refused the call: no\\x1b"
    assert "The connection to the MCP server 'raw' was lost during the call." in text_of(lost)
    assert (lost.is_error, text_of(again)) == (True, "back")
    assert [(one.state, one.problem[:12]) for one in health] in (
        [("lost", "exit code 3.")],
        [("open", "")],
    )


async def test_new_tools_reach_an_open_session() -> None:
    grown = json.dumps(
        [{"name": "fresh", "description": "New.", "inputSchema": {"type": "object"}}]
    )
    async with gateway(sources("raw")) as (upstreams, made):
        await upstreams.wait_tried(30)
        async with client_of(made) as client:
            await client.call_tool("mcp__raw__grow", {"text": grown})
            await until(lambda: "mcp__raw__fresh" in made.tools)
            called = await client.call_tool("mcp__raw__fresh", {})

    assert called.is_error is False


async def test_secrets_stay_with_their_server() -> None:
    """What one server gets is not in the environment of another, nor in what a person sends."""
    heard: list[bytes] = []
    notes = Notes()
    seen = [source(raw(name="a", KEY_A="secret-a")), source(raw(name="b", KEY_B="secret-b"))]

    def listens(app: Any) -> Any:
        async def serve(scope: Any, receive: Any, send: Any) -> None:
            async def noting() -> Any:
                message = await receive()
                heard.append(repr(message).encode())
                return message

            heard.append(repr(scope.get("headers")).encode())
            await app(scope, noting, send)

        return serve

    async with over_http(executor(notes), tokens={"t-upstream": "gateway"}, around=listens) as url:
        headers = {"Authorization": "Bearer t-upstream"}
        upstream = source(HttpServer(name="web", url=url, headers=headers))
        async with gateway([*seen, upstream]) as (upstreams, made):
            await upstreams.wait_tried(30)
            async with over_http(made) as front, connect(front, "t-alice") as client:
                a = json.loads(text_of(await client.call_tool("mcp__a__env", {})))
                b = json.loads(text_of(await client.call_tool("mcp__b__env", {})))
                read = await client.call_tool("mcp__web__read_note", {})

    assert (a["KEY_A"], "KEY_B" in a, b["KEY_B"], "KEY_A" in b) == (
        "secret-a",
        False,
        "secret-b",
        False,
    )
    assert text_of(read) == "a: "
    assert any(b"t-upstream" in one for one in heard)
    assert not any(b"t-alice" in one or b"secret-a" in one for one in heard)


async def test_resources_of_a_server_are_read_with_two_tools() -> None:
    given = {"resources": [ServedResource("shop://hours", lambda: "9 to 17")]}
    async with over_http(executor(Notes()), given=given) as url:
        server = HttpServer(name="shop", url=url, headers={"Authorization": "Bearer t-alice"})
        async with gateway([source(server)]) as (upstreams, made), client_of(made) as client:
            await upstreams.wait_tried(30)
            listed = await names_of(client)
            read = await client.call_tool("mcp__shop__read_resource", {"uri": "shop://hours"})

    assert {"mcp__shop__list_resources", "mcp__shop__read_resource"} <= set(listed)
    assert text_of(read).endswith("9 to 17")
