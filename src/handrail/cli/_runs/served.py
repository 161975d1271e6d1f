"""Serves tools to MCP clients: the executor, its journal, and the servers behind it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail import Executor, Hook, LongResults, Toolset
from handrail.cli._base.exits import Halt
from handrail.cli._project.kit import Kit
from handrail.cli._project.principals import Principal
from handrail.cli._project.servers import pins_of, read_config
from handrail.cli._runs.saved import SavedRun, new_run
from handrail.permissions import Approvals
from handrail.runs.audit import CallAudit
from handrail.runs.statuses import Standing

if TYPE_CHECKING:
    from handrail.mcp import McpSource
    from handrail.mcp.gateway import CallMetrics, RulesByPrincipal, Upstreams

FIRST_LIST_SECONDS = 5.0
"""How long a client over stdio waits for unknown servers."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """A command's served tools, and their users."""

    kit: Kit
    configs: Sequence[Path] = ()
    """Files naming a gateway's servers."""
    principals: Sequence[Principal] = ()
    keys: Sequence[bytes] = ()
    """Protect open questions; several processes share them."""
    first_use: bool = False
    """Whether a definition is approved when it is first seen."""
    telemetry: bool = False

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
        return Upstreams(self._sources(), own=own)

    def _sources(self) -> list[McpSource]:
        from handrail.mcp import McpSource

        app = self.kit.app
        found = read_config(app, self.configs).servers.values()
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
        return Executor(
            tools,
            policy=hooks.limit(self._rules or self.kit.rules),
            approvals=Approvals(ledger=self.saved.journal.ledger),
            hooks=[*self._hooks(), *hooks.hooks],
            limits=hooks.limits,
            # another process cannot read what this one has stored
            long_results=LongResults(reader="never" if self.keys else "always"),
            call_found_by="call_tool",
        )

    @cached_property
    def _rules(self) -> RulesByPrincipal | None:
        """Each principal's rules; None if all have the same."""
        own = {one.name: one.rules for one in self.principals if one.rules is not None}
        if not own:
            return None
        from handrail.mcp.gateway import RulesByPrincipal

        return RulesByPrincipal(self.kit.rules, own)

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
        quotas = {one.name: one.quota for one in self.principals if one.quota is not None}
        if quotas:
            from handrail.mcp.gateway import limit_principals

            hooks.append(limit_principals(quotas))
        return hooks

    def make_app(self, hosts: Sequence[str], origins: Sequence[str]) -> Any:
        """Return the application for HTTP, with its health and its metrics."""
        from handrail.mcp.gateway import with_health, with_metrics
        from handrail.mcp.server import PRINCIPAL_SHARE, http_app, make_server

        rules_of = None if self._rules is None else self._rules.find
        server = make_server(
            self.executor,
            keys=self.keys,
            rules_of=rules_of,
            metrics=self.metrics,
            principal_share=1.0 if len(self.principals) == 1 else PRINCIPAL_SHARE,
        )
        tokens = {one.token: one.name for one in self.principals}
        app = http_app(server, tokens=tokens, hosts=hosts, origins=origins)
        readers = [one.token for one in self.principals if one.metrics]
        measured = with_metrics(app, self.metrics, tokens=readers, upstreams=self.upstreams)
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
