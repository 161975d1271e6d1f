"""Logins: a call that needs one says where to sign in, and goes through afterwards."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
import time
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.lowlevel
import httpx2
import pytest

from handrail import (
    Allow,
    Call,
    Executor,
    HandrailError,
    NeedsLogin,
    Registry,
    ToolFailed,
)
from handrail.mcp import HttpServer, Login, McpSource, TokenFile
from handrail.net import Guard
from mcp_client.auth_server import Service, serving
from mcp_client.stage import PATIENCE, connected
from unframed import UNFRAMED


def make(service: Service, folder: Path, **options: Any) -> tuple[HttpServer, Login]:
    login = Login(TokenFile(folder / "tokens.json"), **options)
    return HttpServer(name="sdk", url=service.url, auth=login), login


async def sign_in(address: str) -> int:
    """What a person does in the browser. Returns the status of the last page."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        return (await browser.get(address)).status_code


async def get(url: str) -> tuple[int, str]:
    async with httpx2.AsyncClient() as browser:
        response = await browser.get(url)
    return response.status_code, response.text


async def test_a_call_is_pending_until_the_person_has_signed_in(tmp_path: Path) -> None:
    with serving() as service:
        service.calls_only = True
        server, login = make(service, tmp_path)
        asked: list[str] = []

        async def person(pending: Any) -> Allow:
            asked.append(pending.question)
            assert await sign_in(pending.question.rpartition(" ")[2]) == 200
            await login.wait()
            return Allow()

        registry = Registry()
        source = McpSource(server, era="legacy")
        with anyio.fail_after(PATIENCE):
            async with (
                registry.connect(source),
                Executor(
                    registry, policy=lambda _: Allow(), approvals=person, hooks=UNFRAMED
                ) as executor,
            ):
                result = await executor.run(Call("mcp__sdk__act", {}))

    [question] = asked
    address = question.removeprefix("The MCP server 'sdk' needs a login. ")
    assert address.startswith(f"{service.origin}/authorize?")
    assert (result.text, result.failure) == ("acted", None)
    assert (tmp_path / "tokens.json").stat().st_mode & 0o777 == 0o600


async def test_a_server_that_wants_a_login_first_is_opened_after_it(tmp_path: Path) -> None:
    with serving() as service, anyio.fail_after(PATIENCE):
        server, login = make(service, tmp_path)
        with pytest.raises(NeedsLogin) as caught:
            async with connected(server):
                raise AssertionError
        again = await login.start(server.url)
        await sign_in(caught.value.url)
        await login.wait()
        async with connected(server) as stage:
            result = await stage.call("act")
        async with connected(make(service, tmp_path)[0]) as stage:
            later = await stage.call("act")

    assert again == caught.value.url
    assert (result.text, later.text) == ("acted", "acted")
    asked = parse_qs(urlsplit(again).query)
    assert (asked["code_challenge_method"], asked["resource"]) == (["S256"], [server.url])
    assert len(service.grants) == 1


_BASIC = "Basic bWluZTpzLTE="


async def test_a_token_that_has_ended_is_refreshed_where_it_came_from(tmp_path: Path) -> None:
    with serving() as service, anyio.fail_after(PATIENCE):
        service.expires_in = 1
        server, login = make(service, tmp_path)
        await sign_in(await login.start(server.url))
        await login.wait()
        service.valid, service.expires_in = "t-2", None
        async with connected(server) as stage:
            result = await stage.call("act")

    assert result.text == "acted"
    assert [parse_qs(body)["grant_type"] for body in service.grants] == [
        ["authorization_code"],
        ["refresh_token"],
    ]
    assert ("/mcp", "Bearer t-1") not in service.seen


async def test_a_client_that_is_registered_already_is_used(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with serving() as service, anyio.fail_after(PATIENCE):
        _, login = make(service, tmp_path, client_id="mine", client_secret="s-1", port=port)  # noqa: S106
        address = await login.start(service.url)
        await sign_in(address)
        await login.wait()
        _, public = make(service, tmp_path, client_id="open")
        other = await public.start(service.url)
        await sign_in(other)
        await public.wait()

    asked = [parse_qs(urlsplit(each).query) for each in (address, other)]
    assert [each["client_id"] for each in asked] == [["mine"], ["open"]]
    assert asked[0]["redirect_uri"] == [f"http://127.0.0.1:{port}/callback"]
    assert [parse_qs(body).get("client_secret") for body in service.grants] == [None, None]
    assert [token for path, token in service.seen if path == "/token"] == [_BASIC, ""]
    assert "/register" not in {path for path, _ in service.seen}


@pytest.mark.parametrize(
    ("methods", "sent"),
    [
        (["client_secret_post", "client_secret_basic"], ("", _BASIC)),
        (["client_secret_post"], ("s-1", "")),
    ],
)
async def test_a_secret_is_sent_as_the_server_takes_it_also_for_a_refresh(
    tmp_path: Path, methods: list[str], sent: tuple[str, str]
) -> None:
    with serving(token_endpoint_auth_methods_supported=methods) as service:
        with anyio.fail_after(PATIENCE):
            service.expires_in = 1
            server, login = make(service, tmp_path, client_id="mine", client_secret="s-1")  # noqa: S106
            await sign_in(await login.start(server.url))
            await login.wait()
            service.valid, service.expires_in = "t-2", None
            async with connected(server) as stage:
                await stage.call("act")

    secrets = [parse_qs(body).get("client_secret", [""])[0] for body in service.grants]
    tokens = [token for path, token in service.seen if path == "/token"]
    assert list(zip(secrets, tokens, strict=True)) == [sent, sent]


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (
            {"code_challenge_methods_supported": None},
            "the authorization server does not support PKCE with S256",
        ),
        (
            {"code_challenge_methods_supported": ["plain"]},
            "the authorization server does not support PKCE with S256",
        ),
        (
            {"authorization_endpoint": "http://example.org/"},
            "the address to sign in at is not encrypted",
        ),
        ({"registration_endpoint": "http://example.org/"}, "example.org is not encrypted"),
        ({"registration_endpoint": "https://169.254.169.254/"}, "not on the public internet"),
        ({"registration_endpoint": "https://[fd00::1]:8443/"}, "not on the public internet"),
        ({"service_documentation": f"https://x.test/{'x' * (1 << 20)}"}, "more than 1048576 bytes"),
    ],
)
async def test_a_login_that_is_not_safe_does_not_begin(
    tmp_path: Path, metadata: dict[str, Any], why: str
) -> None:
    with serving(**metadata) as service, anyio.fail_after(PATIENCE):
        server, login = make(service, tmp_path)
        with pytest.raises(ToolFailed, match=why):
            async with connected(server):
                raise AssertionError
        with pytest.raises(HandrailError, match=why):
            await login.wait()


async def test_a_guard_allows_hosts_inside_and_connects_to_the_address_that_it_checked(
    tmp_path: Path,
) -> None:
    asked: list[tuple[str, int]] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1"]

    guard = Guard(networks=("127.0.0.0/8",), names=("auth.internal",), resolver=resolve)
    with serving() as service, anyio.fail_after(PATIENCE):
        place = f"https://auth.internal:{service.server_port}/register"
        service.metadata["registration_endpoint"] = place
        _, login = make(service, tmp_path, guard=guard)
        with pytest.raises(ToolFailed, match="SSL"):  # it was reached, and has no certificate
            await login.start(service.url)

    assert asked == [("auth.internal", service.server_port)]


async def test_only_the_answer_of_this_login_counts(tmp_path: Path) -> None:
    with serving() as service, anyio.fail_after(PATIENCE):
        _, login = make(service, tmp_path)
        asked = parse_qs(urlsplit(await login.start(service.url)).query)
        back, state = asked["redirect_uri"][0], asked["state"][0]
        pages = [
            await get(f"{back}?code=c&state=wrong"),
            await get(f"{back}?code=c&error=<script>"),
            await get(f"{back[:-9]}/other?code=c&state={state}"),
        ]
        host, port = urlsplit(back).hostname, urlsplit(back).port
        assert host == "127.0.0.1"
        refused = list[bytes]()
        for request in (b"PUT /\r\n\r\n", b"GET //[ HTTP/1.1\r\n\r\n"):
            async with await anyio.connect_tcp("127.0.0.1", int(port or 0)) as stream:
                await stream.send(request)
                refused.append((await stream.receive())[:12])
        await (await anyio.connect_tcp("127.0.0.1", int(port or 0))).aclose()
        denied = await get(f"{back}?error=access_denied&state={state}")
        with pytest.raises(HandrailError, match="No authorization code"):
            await login.wait()

    page = "<!doctype html><title>handrail</title><p>This is not the login that was begun.</p>"
    assert pages == [(400, page)] * 3
    assert refused == [b"HTTP/1.1 400"] * 2
    assert denied[0] == 200
    assert service.grants == []


async def test_a_login_has_an_end(tmp_path: Path) -> None:
    with serving() as service, anyio.fail_after(PATIENCE):
        _, login = make(service, tmp_path, seconds=2)
        with pytest.raises(HandrailError, match="No login was begun"):
            await login.wait()
        first = await login.start(service.url)
        with pytest.raises(HandrailError, match=r"did not sign in within 2 s"):
            await login.wait()
        second = await login.start(service.url)

    assert first != second


def test_a_login_ends_with_its_event_loop(tmp_path: Path) -> None:
    with serving() as service:
        _, login = make(service, tmp_path)
        anyio.run(login.start, service.url)

        async def look() -> None:
            with pytest.raises(HandrailError, match="given up"):
                await login.wait()

        anyio.run(look)


def test_a_loop_that_ends_as_a_login_begins_leaves_nothing_behind(tmp_path: Path) -> None:
    async def begin(login: Login, steps: int) -> None:
        begun = asyncio.create_task(login.start("http://127.0.0.1:9/mcp"))
        for _ in range(steps):
            time.sleep(0.005)  # noqa: ASYNC251  a thread looks up the address meanwhile
            await anyio.lowlevel.checkpoint()
        del begun

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for steps in range(15):
            anyio.run(begin, Login(TokenFile(tmp_path / "tokens.json")), steps)
        gc.collect()

    assert [str(one.message) for one in heard if "serve" in str(one.message)] == []


async def test_no_token_is_logged_or_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with serving() as service, anyio.fail_after(PATIENCE):
        service.valid = "very-secret"
        server, login = make(service, tmp_path, client_secret="also-secret")  # noqa: S106
        await sign_in(await login.start(server.url))
        await login.wait()
        async with connected(server) as stage:
            result = await stage.call("act")

    assert result.failure is None
    told = caplog.text + repr(server) + repr(login) + repr(TokenFile(tmp_path / "x"))
    assert "secret" not in told
    assert "very-secret" in (tmp_path / "tokens.json").read_text(encoding="utf-8")


async def test_a_token_is_bound_to_its_address_and_can_be_forgotten(tmp_path: Path) -> None:
    with serving() as service, serving() as other, anyio.fail_after(PATIENCE):
        _, login = make(service, tmp_path)
        await sign_in(await login.start(service.url))
        await login.wait()
        with pytest.raises(NeedsLogin):
            async with connected(make(other, tmp_path)[0]):
                raise AssertionError
    tokens = TokenFile(tmp_path / "tokens.json")

    assert {token for _, token in other.seen} == {""}
    assert [tokens.forget(service.url), tokens.forget(service.url)] == [True, False]


@pytest.mark.parametrize("damage", ["[]", "{", "exposed"])
def test_a_damaged_or_exposed_file_is_not_used(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "tokens.json"
    file.write_text("{}" if damage == "exposed" else damage, encoding="utf-8")
    file.chmod(0o666 if damage == "exposed" else 0o600)

    with pytest.raises(HandrailError, match="Remove it"):
        TokenFile(file).forget("x")


async def test_an_entry_that_is_no_entry_holds_no_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"x": 7}), encoding="utf-8")
    file.chmod(0o600)

    assert await TokenFile(file).for_address("x").get_tokens() is None
