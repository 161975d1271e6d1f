"""Personal logins: each principal signs in once, and no one gets the account of another person."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest

from credentials.company import (
    PATIENCE,
    Front,
    Services,
    browser,
    fronting,
    running_services,
    text_of,
)
from handrail.credentials import OAuthClient, PersonalLogin, TokenStore

SIGN_IN = "Sign in at 's0' first. "


@pytest.fixture(scope="module")
def services() -> Any:
    with running_services() as running:
        yield running


async def prove(
    front: Front, made: httpx2.AsyncClient, name: str, **options: Any
) -> httpx2.Response:
    """What a person does on the page: send the token."""
    sent = {
        "data": {"token": f"token-of-{name}-here"},
        "headers": {"origin": front.origin},
        **options,
    }
    return await made.post(f"{front.origin}/sign-in/s0", **sent)


async def whoami(front: Front, name: str) -> str:
    async with front.client(name) as client:
        return text_of(await client.call_tool("mcp__s0__whoami", {"claimed": name}))


async def test_each_person_signs_in_once_and_calls_with_a_token_of_its_own(
    services: Services, tmp_path: Path
) -> None:
    with anyio.fail_after(PATIENCE):
        async with fronting(services, tmp_path) as front:
            before = await whoami(front, "alice")
            pages = []
            for name in ("alice", "bob"):
                async with browser(services, name) as made:
                    pages.append((await made.get(f"{front.origin}/sign-in/s0")).text)
                    pages.append((await prove(front, made, name)).text)
            after = [await whoami(front, name) for name in ("alice", "bob", "alice")]
            mallory = await whoami(front, "mallory")
            signed_out = [await front.login.forget("alice"), await front.login.forget("alice")]
            out = await whoami(front, "alice")
    seen = services.control()

    asked = f"{SIGN_IN}{front.origin}/sign-in/s0 Show the user this address unchanged"
    assert asked in before
    assert "Your token for" in pages[0]
    assert "signed in at s0 as alice" in pages[1]
    assert after == ["alice at s0", "bob at s0", "alice at s0"]
    assert SIGN_IN in mallory
    assert (signed_out, SIGN_IN in out) == ([True, False], True)
    assert seen["wrong"] == 0


async def test_a_client_that_can_ask_shows_the_address_and_the_call_goes_through(
    services: Services, tmp_path: Path
) -> None:
    from mcp_types import ElicitResult

    shown: list[str] = []

    async def person(_: Any, params: Any) -> ElicitResult:
        shown.append(params.message)
        async with browser(services, "alice") as made:
            await prove(front, made, "alice")
        return ElicitResult(action="accept", content={})

    texts = []
    with anyio.fail_after(PATIENCE):
        for number, mode in enumerate(("legacy", "auto")):
            async with fronting(services, tmp_path / str(number)) as front:
                async with front.client("alice", mode=mode, elicitation_callback=person) as client:
                    texts.append(
                        text_of(await client.call_tool("mcp__s0__whoami", {"claimed": "alice"}))
                    )

    assert texts == ["alice at s0"] * 2
    assert [SIGN_IN in text for text in shown] == [True, True]


async def test_only_the_browser_that_proved_who_it_is_can_finish(
    services: Services, tmp_path: Path
) -> None:
    """Bob begins, and gets Alice, who is signed in at the service, to open the address."""
    with anyio.fail_after(PATIENCE):
        async with (
            fronting(services, tmp_path) as front,
            browser(services, "alice") as hers,
            browser(services, "bob") as his,
        ):
            begun = await prove(front, his, "bob", follow_redirects=False)
            lured = await hers.get(begun.headers["location"])
            told = await whoami(front, "bob")
            other_site = await prove(
                front, hers, "bob", headers={"origin": "https://evil.example.org"}
            )
            no_origin = await prove(front, hers, "bob", headers={})
            wrong = await prove(front, hers, "nobody")
            elsewhere = await his.get(f"{front.origin}/sign-in/s0/callback?code=x&state=wrong")
            other_issuer = await his.get(
                f"{front.origin}/sign-in/s0/callback",
                params={
                    "code": "x",
                    "iss": "https://other.example.org",
                    "state": parse_qs(urlsplit(begun.headers["location"]).query)["state"][0],
                },
            )
            control = await his.get(begun.headers["location"])
            after = await whoami(front, "bob")

    assert (lured.status_code, "did not begin to sign in" in lured.text) == (400, True)
    assert SIGN_IN in told
    assert [other_site.status_code, no_origin.status_code, wrong.status_code] == [403, 403, 403]
    assert [elsewhere.status_code, other_issuer.status_code] == [400, 400]
    assert (control.status_code, after) == (200, "bob at s0")


async def test_pages_are_closed_to_frames_and_other_paths(
    services: Services, tmp_path: Path
) -> None:
    with anyio.fail_after(PATIENCE):
        async with fronting(services, tmp_path) as front, httpx2.AsyncClient() as made:
            page = await made.get(f"{front.origin}/sign-in/s0")
            missing = await made.get(f"{front.origin}/sign-in/<script>")
            put = await made.put(f"{front.origin}/sign-in/s0")
            behind = await made.get(f"{front.origin}/other")

    assert (
        page.headers["content-security-policy"]
        == "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
    )
    assert page.headers["cache-control"] == "no-store"
    assert [missing.status_code, put.status_code, behind.status_code] == [404, 405, 401]


async def test_an_ended_token_is_refreshed_once_for_all_processes(
    services: Services, tmp_path: Path
) -> None:
    """Two processes, each with many calls at once, and a refresh token that works once."""
    before = services.control(seconds=3600)
    with anyio.fail_after(PATIENCE):
        async with fronting(services, tmp_path) as front:
            async with browser(services, "alice") as made:
                await prove(front, made, "alice")
            assert await whoami(front, "alice") == "alice at s0"
            services.control(end_all=True)
            other = PersonalLogin(
                "s0", front.find_client, store=front.store, page_url=front.login.page_url
            )
            got: list[str] = []

            async def call() -> None:
                got.append(await whoami(front, "alice"))

            async def get() -> None:
                entry = await front.store.get("s0", "alice")
                got.append(await other.renew(context("alice"), entry["access"]))

            async with anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(call)
                    tasks.start_soon(get)
    after = services.control()

    assert sum(text == "alice at s0" for text in got) == 4
    assert after["reused"] == before["reused"]
    assert after["wrong"] == 0


def context(principal: str) -> Any:
    from handrail import Context

    return Context(call_id="c", idempotency_key="k", principal=principal)


async def test_a_refused_refresh_asks_the_person_again(services: Services, tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE):
        async with fronting(services, tmp_path) as front:
            entry = {
                "access": "a",
                "refresh": "used-up",
                "ends": 0.0,
                "client": (await front.find_client()).client_id,
            }
            await front.store.put("s0", "alice", entry)
            first = await whoami(front, "alice")
            left = await front.store.get("s0", "alice")

    assert SIGN_IN in first
    assert left == {}


@pytest.mark.parametrize(
    "url", ["http://auth.example.org/token", "ftp://auth.example.org", "http://[", "nothing"]
)
def test_endpoints_are_encrypted(url: str) -> None:
    from handrail import Refused

    with pytest.raises(Refused):
        OAuthClient(authorize_url="https://auth.example.org", token_url=url, client_id="c")


async def test_a_service_without_a_login_says_so(tmp_path: Path) -> None:
    from handrail import ToolFailed
    from handrail.mcp import discover_client
    from mcp_client.auth_server import serving

    store = TokenStore(tmp_path / "tokens.db", keys=[b"k" * 32])
    with serving(code_challenge_methods_supported=None) as service, anyio.fail_after(PATIENCE):
        find = discover_client(
            "one", service.url, store=store, page_url="https://tools.example.org/sign-in"
        )
        with pytest.raises(ToolFailed, match="does not support PKCE"):
            await find()
        assert await store.get("one", "") == {}
