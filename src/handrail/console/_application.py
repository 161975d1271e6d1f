"""The console as an ASGI application: its routes, inside the guard."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from urllib.parse import quote

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from handrail import HandrailError
from handrail.console._audit import Audit
from handrail.console._config import ConsoleConfig, ConsoleError, HeaderIdentity, LoadRules
from handrail.console._guard import Refusal, RequestGuard
from handrail.console._identity import Identity, LinkIdentity, OidcReader, make_identity
from handrail.console._inbox import Inbox
from handrail.console._rendering import Renderer
from handrail.console._rules import Rules
from handrail.console._runs import Runs
from handrail.console._shown import Clear
from handrail.console._store import Site, Store, go
from handrail.console._stream import Streams
from handrail.policy import load_files

_log = logging.getLogger("handrail.console")


class Console:
    """The console. It decides nothing: it reads runs and records answers."""

    def __init__(
        self,
        config: ConsoleConfig,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
        rules: LoadRules | None = None,
    ) -> None:
        if config.identity is not None and not config.hosts:
            raise ConsoleError("For a team, `hosts` must name the console's own host names.")
        self._identity = identity = make_identity(config, clock)
        self.config = config
        if rules is None and config.rules:
            rules = partial(load_files, config.rules)
        base = config.base + identity.path
        renderer = Renderer(config.base, base, unknown=identity.unknown)
        self._site = site = Site(config, renderer, store, base, clock)
        self._streams = Streams(site)
        routes = Router(
            self._routes(site, rules),
            redirect_slashes=False,
            default=self._not_found,
            lifespan=self._lifespan,
        )
        self._guard = RequestGuard(routes, config, identity, renderer.refuse)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._guard(scope, receive, send)

    @property
    def needs_socket(self) -> bool:
        """Whether it must listen on a Unix socket, reachable only by the proxy."""
        identity = self.config.identity
        return isinstance(identity, HeaderIdentity) and not identity.secret

    def end_streams(self) -> None:
        """End the live pages' streams, before the server stops."""
        self._streams.end()

    def make_link(self) -> str:
        """Return the path of a one-time sign-in link, valid for 60 seconds. Local consoles only."""
        if not isinstance(self._identity, LinkIdentity):
            raise ConsoleError("Only a local console has links; a proxy says who a person is.")
        return f"{self.config.base}/link?code={quote(self._identity.make_code())}"

    def _routes(self, site: Site, load: LoadRules | None) -> list[Route]:
        inbox, runs, audit = Inbox(site), Runs(site), Audit(site)
        rules = Rules(site, load)
        return [
            Route("/", inbox.show_home),
            Route("/healthz", self._healthy),
            Route("/readyz", self._ready),
            Route("/static/{name}", self._static),
            *_link_routes(self._identity, site),
            *_oidc_routes(self._identity, site),
            Route("/inbox", inbox.show_list),
            Route("/inbox/deny", inbox.deny_several, methods=["POST"]),
            Route("/inbox/{pending}", inbox.show),
            Route("/inbox/{pending}", inbox.answer, methods=["POST"]),
            Route("/inbox/{pending}/more", inbox.show_more),
            Route("/runs", runs.show_list),
            Route("/runs/{run}", runs.show),
            Route("/tokens", runs.show_tokens),
            Route("/fleet", runs.show_fleet),
            Route("/rules", rules.show),
            Route("/rules/replay", rules.replay, methods=["POST"]),
            Route("/stream", self._streams.show),
            Route("/audit", audit.show),
            Route("/audit/export.jsonl", audit.export_lines),
            Route("/audit/export.csv", audit.export_table),
            Route("/audit/verify", audit.verify, methods=["POST"]),
            Route("/audit/chain/{run}", audit.export_chain),
        ]

    @asynccontextmanager
    async def _lifespan(self, _app: Router) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(self._streams.read)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def _healthy(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _ready(self, _request: Request) -> Response:
        await to_thread.run_sync(lambda: self._site.store.records(None).run(""))
        return PlainTextResponse("ok\n")

    async def _static(self, request: Request) -> Response:
        return self._site.renderer.static(request.scope["path"])

    async def _not_found(self, _scope: Scope, _receive: Receive, _send: Send) -> None:
        raise Refusal(HTTPStatus.NOT_FOUND, "missing")


def _link_routes(link: Identity, site: Site) -> list[Route]:
    """Return a local console's routes, where a link signs in."""
    if not isinstance(link, LinkIdentity):
        return []

    async def show(request: Request) -> Response:
        """Show a button. Link previews send GET, so a GET uses no code."""
        code, action = request.query_params.get("code", "")[:100], f"{site.config.base}/link"
        return site.page("link.html", request.state.visit, code=code, action=Clear(action))

    async def use(request: Request) -> Response:
        cookie = link.use_code(request.state.visit.field("code"))
        if cookie is None:
            raise Refusal(HTTPStatus.UNAUTHORIZED, "unknown")
        return go(f"{site.base}/inbox", cookie)

    return [Route("/link", show), Route("/link", use, methods=["POST"])]


def _oidc_routes(reader: Identity, site: Site) -> list[Route]:
    """Return the routes for signing in at a provider."""
    if not isinstance(reader, OidcReader):
        return []

    async def start(request: Request) -> Response:
        """Send the browser to the provider. Another site's page cannot begin this."""
        if request.headers.get("sec-fetch-site") not in {"same-origin", "none"}:
            raise Refusal(HTTPStatus.FORBIDDEN, "refused")
        target = request.query_params.get("next", "")
        return await _follow(reader.sign_in.start(request.headers["host"], target))

    async def finish(request: Request) -> Response:
        """Take the browser back from the provider."""
        host, answer, cookies = request.headers["host"], request.query_params, request.cookies
        return await _follow(reader.sign_in.finish(host, answer=answer, cookies=cookies))

    async def leave(_request: Request) -> Response:
        return go(f"{site.base}/", reader.sign_in.end())

    pages = [Route("/login", start), Route("/callback", finish)]
    return [*pages, Route("/logout", leave, methods=["POST"])]


async def _follow(redirect: Awaitable[tuple[str, tuple[str, ...]]]) -> Response:
    """Redirect the browser. Pages never show a provider's message, but the log does."""
    try:
        url, cookies = await redirect
    except HandrailError as error:
        _log.warning("a person could not sign in: %s", ascii(str(error)))
        raise Refusal(HTTPStatus.UNAUTHORIZED, "failed") from None
    return go(url, *cookies)
