"""The console as an ASGI application: its routes, inside the guard."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from urllib.parse import quote

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from handrail.console.audit import Audit
from handrail.console.config import ConsoleConfig, ConsoleError, HeaderIdentity, LoadRules
from handrail.console.guard import Refusal, RequestGuard
from handrail.console.identity import LinkIdentity, make_identity
from handrail.console.inbox import Inbox
from handrail.console.rendering import Renderer
from handrail.console.rules import Rules
from handrail.console.runs import Runs
from handrail.console.shown import Clear
from handrail.console.store import Site, Store, visit_of
from handrail.console.stream import Streams
from handrail.policy import load_files


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
            raise ConsoleError("Behind a proxy, `hosts` must name the console's own host names.")
        identity = make_identity(config, clock)
        self._link = identity if isinstance(identity, LinkIdentity) else None
        self._store = store
        self.config = config
        if rules is None and config.rules:
            rules = partial(load_files, config.rules)
        base = config.base + (self._link.path if self._link else "")
        self._renderer = Renderer(config.base, base, is_local=self._link is not None)
        self._base = base
        site = Site(config, self._renderer, store, base, clock)
        self._streams = Streams(site)
        routes = Router(
            self._routes(site, rules),
            redirect_slashes=False,
            default=self._not_found,
            lifespan=self._lifespan,
        )
        self._guard = RequestGuard(routes, config, identity, self._renderer.refuse)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._guard(scope, receive, send)

    @property
    def needs_socket(self) -> bool:
        """Whether it must listen on a Unix socket, so that only the proxy can reach it."""
        identity = self.config.identity
        return isinstance(identity, HeaderIdentity) and not identity.secret

    def end_streams(self) -> None:
        """End the streams of live pages, before the server stops."""
        self._streams.end()

    def make_link(self) -> str:
        """Return the path of a link that signs in once, within 60 seconds. Local consoles only."""
        if self._link is None:
            raise ConsoleError("Only a local console has links; a proxy says who a person is.")
        return f"{self.config.base}/link?code={quote(self._link.make_code())}"

    def _routes(self, site: Site, load: LoadRules | None) -> list[Route]:
        inbox, runs, audit = Inbox(site), Runs(site), Audit(site)
        rules = Rules(site, load)
        return [
            Route("/", self._home),
            Route("/healthz", self._healthy),
            Route("/readyz", self._ready),
            Route("/static/{name}", self._static),
            *self._link_routes(),
            Route("/inbox", inbox.show_list),
            Route("/inbox/deny", inbox.deny_several, methods=["POST"]),
            Route("/inbox/{pending}", inbox.show),
            Route("/inbox/{pending}", inbox.answer, methods=["POST"]),
            Route("/inbox/{pending}/more", inbox.show_more),
            Route("/runs", runs.show_list),
            Route("/runs/{run}", runs.show),
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

    async def _home(self, request: Request) -> Response:
        visit_of(request)
        return RedirectResponse(f"{self._base}/inbox", HTTPStatus.SEE_OTHER)

    async def _healthy(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _ready(self, _request: Request) -> Response:
        await to_thread.run_sync(lambda: self._store.records(None).run(""))
        return PlainTextResponse("ok\n")

    async def _static(self, request: Request) -> Response:
        return self._renderer.static(request.scope["path"])

    async def _show_link(self, request: Request) -> Response:
        """Show a button. Programs that preview links send GET, so a GET uses no code."""
        return self._renderer.page(
            "link.html",
            request.state.visit,
            here="",
            code=request.query_params.get("code", "")[:100],
            action=Clear(f"{self.config.base}/link"),
        )

    def _link_routes(self) -> list[Route]:
        """Return the routes of a local console, where a link signs in."""
        if (link := self._link) is None:
            return []

        async def use(request: Request) -> Response:
            cookie = link.use_code(request.state.visit.field("code"))
            if cookie is None:
                raise Refusal(HTTPStatus.UNAUTHORIZED, "unknown")
            headers = {"set-cookie": cookie}
            return RedirectResponse(f"{self._base}/inbox", HTTPStatus.SEE_OTHER, headers=headers)

        return [Route("/link", self._show_link), Route("/link", use, methods=["POST"])]

    async def _not_found(self, _scope: Scope, _receive: Receive, _send: Send) -> None:
        raise Refusal(HTTPStatus.NOT_FOUND, "missing")
