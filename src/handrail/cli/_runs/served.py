"""Serves tools to MCP clients: the executor, its journal, and the servers behind it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail import Executor, HandrailError, Hook, LongResults, Registry, Toolset
from handrail.cli._base.columns import quantity
from handrail.cli._base.exits import Halt
from handrail.cli._project.kit import Kit
from handrail.cli._project.principals import Principal, list_named_files, read_principals
from handrail.cli._project.servers import pins_of, read_config
from handrail.cli._project.users import Users
from handrail.cli._runs.saved import SavedRun, new_run
from handrail.permissions import Approvals
from handrail.runs.audit import CallAudit
from handrail.runs.statuses import Standing

if TYPE_CHECKING:
    from handrail.mcp import Configured, McpSource
    from handrail.mcp.gateway import CallMetrics, Upstreams

FIRST_LIST_SECONDS = 5.0
"""How long a client over stdio waits for unknown servers."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """A command's served tools, and their users."""

    kit: Kit
    configs: Sequence[Path] = ()
    """Files naming a gateway's servers."""
    principals: Sequence[Principal] = ()
    principals_file: Path | None = None
    """The file with the users, which is read again when it changes."""
    keys: Sequence[bytes] = ()
    """Protect open questions; several processes share them."""
    first_use: bool = False
    """Whether a definition is approved when it is first seen."""
    telemetry: bool = False
    _problems: set[str] = field(default_factory=set[str], init=False)
    """What cannot be used in the files of servers, by the last reading that took effect."""

    @cached_property
    def saved(self) -> SavedRun:
        """The run whose journal has every call. It begins at first use."""
        app = self.kit.app
        return new_run(app.workspace, "serve", command="serve", settings=app.settings.values)

    @cached_property
    def upstreams(self) -> Upstreams | None:
        """A gateway's servers, or None if only this machine's tools are served."""
        if not self.configs:
            return None
        from handrail.mcp.gateway import Upstreams

        app = self.kit.app
        is_chosen = app.settings.origins["tools"].level != "default"
        own = self.kit.tools if is_chosen else Toolset()
        read = read_config(app, self.configs)
        self._problems.update(read.problems)
        return Upstreams(self._sources(read), own=own)

    def _read_again(self) -> list[McpSource]:
        """Return the servers in changed files. A new problem with them is an error."""
        read = read_config(self.kit.app, self.configs)
        if new := sorted({*read.problems} - self._problems):
            raise Halt(new[0], code="config")
        sources = self._sources(read)
        self._problems.intersection_update(read.problems)
        return sources

    def _sources(self, read: Configured) -> list[McpSource]:
        from handrail.mcp import McpSource

        app, found = self.kit.app, read.servers.values()
        if not found:
            raise Halt("there is no MCP server to serve", code="config", hint="check `--mcp`")
        pins = pins_of(app, first_use=self.first_use)
        for one in found:
            if not self.first_use and not pins.is_reviewed(one.server):
                app.say(
                    f"the tools of the MCP server {one.name} are not offered: review them with "
                    f"`handrail mcp review {one.name} --mcp {one.origin}`"
                )
        return [
            McpSource(one.server, offer=one.offer, pins=pins, start_seconds=one.start_seconds)
            for one in found
        ]

    @cached_property
    def audit(self) -> CallAudit:
        """Records every call."""
        return CallAudit(self.saved.record)

    @cached_property
    def executor(self) -> Executor:
        """Decides and runs all clients' calls."""
        tools = self.kit.tools if self.upstreams is None else self.upstreams.registry
        hooks = self.kit.make_hooks(self.saved.id)
        self.kit.report_misnamed(tools.snapshot() if isinstance(tools, Registry) else tools)
        return Executor(
            tools,
            policy=hooks.limit(self.users.rules),
            approvals=Approvals(ledger=self.saved.journal.ledger),
            hooks=[*self._hooks(), *hooks.hooks],
            limits=hooks.limits,
            # another process cannot read what this one has stored
            long_results=LongResults(reader="never" if self.keys else "always"),
            call_found_by="call_tool",
        )

    @cached_property
    def users(self) -> Users:
        """The users over HTTP, and everyone's rules."""
        return Users(self.kit.rules, self.principals)

    @cached_property
    def metrics(self) -> CallMetrics:
        """Counts the calls, for those allowed to read it over HTTP."""
        from handrail.mcp.gateway import CallMetrics

        return CallMetrics()

    def _hooks(self) -> list[Hook]:
        hooks = [self.metrics.hook] if self.principals else []
        if self.telemetry:
            from handrail.telemetry import Telemetry

            hooks.append(Telemetry().hook)
        hooks.append(self.audit.hook)
        if self.principals:
            from handrail.mcp.gateway import limit_principals

            hooks.append(limit_principals(self.users.quotas))
        return hooks

    def make_app(self, hosts: Sequence[str], origins: Sequence[str]) -> Any:
        """Return the application for HTTP, with its health and its metrics."""
        from handrail.mcp.gateway import with_health, with_metrics
        from handrail.mcp.server import PRINCIPAL_SHARE, http_app, make_server

        users, upstreams = self.users, self.upstreams
        server = make_server(
            self.executor,
            keys=self.keys,
            rules_of=users.rules.find,
            metrics=self.metrics,
            principal_share=1.0 if len(self.principals) == 1 else PRINCIPAL_SHARE,
            wait_first=None if upstreams is None else upstreams.wait_first,
        )
        app = http_app(server, tokens=users.tokens, hosts=hosts, origins=origins)
        measured = with_metrics(app, self.metrics, tokens=users.readers, upstreams=upstreams)
        return with_health(measured, self._is_ready)

    def _is_ready(self) -> bool:
        return not self.audit.problem and (self.upstreams is None or self.upstreams.is_ready)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Connect to a gateway's servers, and write the journal, until the block ends."""
        with self.saved.hold():
            try:
                async with self.executor, self.audit.writing(), self._connected():
                    yield
            finally:
                self.saved.put_standing(Standing("done", "stopped"))

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[None]:
        if self.upstreams is None:
            yield
            return
        async with self.upstreams.connect(self.executor):
            yield

    def list_watched(self) -> list[Path]:
        """Return the files whose changes take effect while serving."""
        places = self.kit.places
        rules = [places.managed, places.user, places.project]
        users = [] if self.principals_file is None else list_named_files(self.principals_file)
        return [*self.configs, *users, *(one for one in rules if one is not None)]

    async def reload(self) -> None:
        """Read servers, users and rules again. If a file cannot be used, nothing changes."""
        say = self.kit.app.say
        try:
            rules = self.kit.load_rules()
            file = self.principals_file
            users = self.principals if file is None else read_principals(file, self.kit)
            sources = None if self.upstreams is None else self._read_again()
        except (Halt, HandrailError, OSError) as error:
            say(f"not reloaded, so everything stays as it was: {error}")
            return
        self.users.replace(rules, users)
        if self.upstreams is not None and sources is not None:
            await self.upstreams.replace(sources)
        servers = quantity(len(sources or ()), "server")
        say(f"reloaded: {servers}, {quantity(len(users), 'user')}")
