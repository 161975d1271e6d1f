"""Hostile servers and pages during a login; the control is the SDK with careless handlers."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from handrail import HandrailError, NeedsLogin
from handrail.mcp import HttpServer, Login, TokenFile
from mcp_client.auth_server import Service, serving
from mcp_client.stage import connected


def field(address: str, name: str) -> str:
    """One field of an address to open."""
    return parse_qs(urlsplit(address).query)[name][0]


async def get(url: str) -> httpx2.Response:
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        return await browser.get(url)


class Memory:
    """The control of the storage: one token for all."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


async def careless(service: Service) -> tuple[str, list[str], Memory]:
    """Log in with the SDK alone. Returns the address, the hosts that were asked, and the tokens."""
    opened: list[str] = []
    asked: list[str] = []
    memory = Memory()

    async def show(address: str) -> None:
        opened.append(address)

    async def answer() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code="c-1", state=field(opened[0], "state"), iss=None)

    async def note(request: httpx2.Request) -> None:
        asked.append(request.url.host)
        if request.url.host != "127.0.0.1":
            raise httpx2.ConnectError("no network in a test")

    about = OAuthClientMetadata.model_validate({"redirect_uris": ["http://127.0.0.1:9/callback"]})
    provider = OAuthClientProvider(service.url, about, memory, show, answer)
    hooks: Any = {"request": [note]}
    logging.getLogger("mcp.client.auth.oauth2").setLevel(logging.CRITICAL + 1)
    async with httpx2.AsyncClient(auth=provider, event_hooks=hooks) as client:
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        with contextlib.suppress(Exception):
            await client.post(service.url, json=ping)
    return (opened or [""])[0], asked, memory


def begun(*, says: str = "", **metadata: Any) -> Any:
    """A login that is not safe ends without a token, and says why."""

    async def check(ours: bool) -> bool:  # noqa: FBT001
        with serving(**metadata) as service, tempfile.TemporaryDirectory() as folder:
            if not ours:
                address, asked, memory = await careless(service)
                return memory.tokens is None and "169.254.169.254" not in asked and not address
            tokens = TokenFile(Path(folder) / "tokens")
            login = Login(tokens, seconds=20)
            try:
                await get(await login.start(service.url))
                await login.wait()
            except HandrailError as error:
                return says in str(error) and "tokens" not in tokens.load()[service.url]
        return False

    return check


def denied_token(url: str) -> Any:
    """The token is not fetched from an address inside."""

    async def check(ours: bool) -> bool:  # noqa: FBT001
        with serving(token_endpoint=url) as service, tempfile.TemporaryDirectory() as folder:
            if not ours:
                _, asked, _ = await careless(service)
                return urlsplit(url).hostname not in asked
            tokens = TokenFile(Path(folder) / "tokens")
            login = Login(tokens, seconds=20)
            await get(await login.start(service.url))
            try:
                await login.wait()
            except HandrailError:
                return "tokens" not in tokens.load()[service.url]
        return False

    return check


async def no_shell(ours: bool) -> bool:  # noqa: FBT001
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "mark"
        with serving() as service:
            evil = f"{service.origin}/$(touch${{IFS}}{mark})"
            service.metadata["authorization_endpoint"] = evil
            if ours:
                login = Login(TokenFile(Path(folder) / "tokens"), seconds=20)
                with contextlib.suppress(HandrailError):
                    await get(await login.start(service.url))
            else:
                opened = f"echo {evil}"
                subprocess.run(opened, shell=True, check=False, stdout=subprocess.DEVNULL)  # noqa: ASYNC221, S602
        return not mark.exists()


async def no_script(ours: bool) -> bool:  # noqa: FBT001
    evil = "javascript:alert(1)"
    with (
        serving(authorization_endpoint=evil) as service,
        tempfile.TemporaryDirectory() as folder,
    ):
        if not ours:
            return not str(service.describe()["authorization_endpoint"]).startswith("javascript")
        try:
            await Login(TokenFile(Path(folder) / "tokens")).start(service.url)
        except HandrailError:
            return True
    return False


def answered(**changes: str) -> Any:
    """A callback that is not the answer of this login gets no token."""

    async def check(ours: bool) -> bool:  # noqa: FBT001
        with serving() as service, tempfile.TemporaryDirectory() as folder:
            if not ours:
                return (await careless(service))[2].tokens is None
            file = TokenFile(Path(folder) / "tokens")
            login = Login(file, seconds=5)
            address = await login.start(service.url)
            fields = {"code": "c-1", "state": field(address, "state"), **changes}
            query = "&".join(f"{name}={value}" for name, value in fields.items())
            await get(f"{field(address, 'redirect_uri')}?{query}")
            if "iss" in changes:
                with contextlib.suppress(HandrailError):
                    await login.wait()
            return "tokens" not in file.load()[service.url] and not service.grants

    return check


async def no_echo(ours: bool) -> bool:  # noqa: FBT001
    evil = "<script>alert(1)</script>"
    with serving() as service, tempfile.TemporaryDirectory() as folder:
        address = await Login(TokenFile(Path(folder) / "t"), seconds=5).start(service.url)
        back, state = field(address, "redirect_uri"), field(address, "state")
        page = await get(f"{back}?error={evil}&state={state}")
    text = page.text if ours else f"<p>The login failed: {evil}</p>"
    return (
        "<script>" not in text and page.headers["content-security-policy"] == "default-src 'none'"
    )


async def on_loopback(ours: bool) -> bool:  # noqa: FBT001
    with serving() as service, tempfile.TemporaryDirectory() as folder:
        logins = [Login(TokenFile(Path(folder) / str(one)), seconds=5) for one in range(2)]
        backs = [field(await one.start(service.url), "redirect_uri") for one in logins]
        ports = [urlsplit(back).port or 0 for back in backs]
        naive = socket.create_server(("0.0.0.0", 0))  # noqa: S104  the control
        with naive:
            bound = _find_bound(ports[0] if ours else naive.getsockname()[1])
    return bound == {"0100007F"} and ports[0] != ports[1]


def _find_bound(port: int) -> set[str]:
    """The addresses of this machine that listen on a port, as the kernel lists them."""
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    rows = [line.split() for line in lines]
    places = [row[1].split(":") for row in rows if row[3] == "0A"]
    return {address for address, at in places if int(at, 16) == port}


async def for_one_address(ours: bool) -> bool:  # noqa: FBT001
    with serving() as service, serving() as other, tempfile.TemporaryDirectory() as folder:
        tokens = TokenFile(Path(folder) / "tokens")
        login = Login(tokens, seconds=20)
        await get(await login.start(service.url))
        await login.wait()
        passed = {"Authorization": f"Bearer {service.valid}"}
        server = HttpServer(
            name="other",
            url=other.url,
            auth=login if ours else None,
            headers={} if ours else passed,
        )
        with contextlib.suppress(NeedsLogin):
            async with connected(server):
                pass
    return bool(other.seen) and all(token == "" for _, token in other.seen)


async def private_file(ours: bool) -> bool:  # noqa: FBT001
    with serving() as service, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tokens"
        if ours:
            login = Login(TokenFile(file), seconds=20)
            await get(await login.start(service.url))
            await login.wait()
        else:
            before = os.umask(0o022)
            file.write_text(service.valid, encoding="utf-8")
            os.umask(before)
        return file.stat().st_mode & 0o777 == 0o600


async def not_logged(ours: bool) -> bool:  # noqa: FBT001
    seen: list[str] = []
    handler, logger = logging.Handler(), logging.getLogger()
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    level, disabled = logger.level, logging.root.manager.disable
    logging.disable(logging.NOTSET)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        with serving() as service, tempfile.TemporaryDirectory() as folder:
            service.valid = "very-secret"
            login = Login(TokenFile(Path(folder) / "tokens"), seconds=20)
            await get(await login.start(service.url))
            await login.wait()
            async with connected(HttpServer(name="a", url=service.url, auth=login)) as stage:
                await stage.call("act")
            if not ours:
                logger.debug("headers: %s", {"Authorization": f"Bearer {service.valid}"})
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logging.disable(disabled)
    return bool(seen) and not any("very-secret" in line for line in seen)


CHECKS: dict[str, Callable[[bool], Awaitable[bool]]] = {
    "mcp-client-021": no_shell,
    "mcp-client-022": no_script,
    "mcp-client-023": denied_token("https://169.254.169.254/token"),
    "mcp-client-024": begun(says="PKCE", code_challenge_methods_supported=None),
    "mcp-client-025": answered(iss="https://evil.test"),
    "mcp-client-026": answered(state="wrong"),
    "mcp-client-027": no_echo,
    "mcp-client-028": on_loopback,
    "mcp-client-029": for_one_address,
    "mcp-client-030": private_file,
    "mcp-client-031": not_logged,
}
