"""SDK sessions: open one, list its tools, call one, and receive changes."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, TypeAlias

import anyio
import mcp_types
from mcp import Client, MCPError
from mcp.client.extension import advertise
from mcp.client.subscriptions import SubscriptionLost
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from handrail._version import __version__
from handrail.mcp._calls.outgoing import Outgoing
from handrail.mcp._calls.shapes import TASKS, CreatedTask
from handrail.mcp._client.definition import ListedTool
from handrail.mcp._client.http import connect_address
from handrail.mcp._client.servers import HttpServer, Server
from handrail.mcp._client.stdio import connect_program
from handrail.mcp._client.watch import Watch
from handrail.mcp._questions.questions import Askers

Era: TypeAlias = Literal["auto", "legacy", "2026-07-28"]
"""Which protocol to speak: the server's newest, the one with a handshake, or 2026."""

MAX_PAGES = 200
MAX_TOOLS = 10_000
"""Tools from one server. More are omitted."""
_LISTEN_AGAIN_SECONDS = 1.0

log = logging.getLogger("handrail.mcp")


class _Answer:
    """Reads an answer: the result, or what comes in its place."""

    def __init__(
        self, complete: type[mcp_types.Result], others: Mapping[str, type[mcp_types.Result]]
    ) -> None:
        self._complete = complete
        self._others = others

    def model_validate(self, sent: dict[str, Any], **how: Any) -> Any:
        kind = self._others.get(str(sent.get("resultType")), self._complete)
        return kind.model_validate(sent, **how)


_ASKS = {"input_required": mcp_types.InputRequiredResult}
_RESULT: Any = _Answer(mcp_types.CallToolResult, {**_ASKS, "task": CreatedTask})
_CONTENTS: Any = _Answer(mcp_types.ReadResourceResult, _ASKS)


@asynccontextmanager
async def open_session(server: Server, watch: Watch, era: Era) -> AsyncGenerator[Session]:
    """Connect to a server, and agree on a protocol. The connection ends with the block."""

    async def hear(message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            watch.changed.set()

    transport = (
        connect_address(server, watch)
        if isinstance(server, HttpServer)
        else connect_program(server, watch)
    )
    info = mcp_types.Implementation(name="handrail", version=__version__)
    askers = Askers()
    async with Client(
        transport,
        mode=era,
        message_handler=hear,
        client_info=info,
        cache=None,
        elicitation_callback=askers.answer,
        extensions=[advertise(TASKS)],
    ) as client:
        if era not in ("auto", "legacy"):  # the SDK then does not ask what the server has
            with suppress(MCPError):
                found = await client.session.send_discover(era)
                client.session.adopt(mcp_types.DiscoverResult.model_validate(found, by_name=False))
        yield Session(client, watch, askers)


class Session:
    """A session with a server, as the SDK makes it."""

    def __init__(self, client: Client, watch: Watch, askers: Askers) -> None:
        self.watch = watch
        self._askers = askers
        self._client = client
        self._session = client.session
        self.version = client.protocol_version
        self.has_resources = False
        """Whether the server has any, which ``find_resources`` finds out."""
        self.info = client.server_info
        self.is_modern = self.version in MODERN_PROTOCOL_VERSIONS

    async def list_tools(self) -> list[ListedTool]:
        """Return all definitions, page by page."""
        found: list[ListedTool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            asked = mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self._session.list_tools(params=asked)
            found += [
                ListedTool.read(tool.model_dump(mode="json", by_alias=True, exclude_unset=True))
                for tool in page.tools
            ]
            cursor = page.next_cursor
            if cursor is None or len(found) >= MAX_TOOLS:
                break
        return found[:MAX_TOOLS]

    async def send(
        self, request: Outgoing, server: str, *, responses: Any, state: str | None
    ) -> Any:
        """Send a call, or read a resource. Returns the SDK's result.

        The output is checked by the executor, within its time limit. Raises MCPError, or ValueError
        for an invalid answer.
        """
        if request.kind == "list":
            return await self._list_resources(str(request.args.get("cursor") or ""))
        answered: dict[str, Any] = {"input_responses": responses, "request_state": state}
        sent: Any
        if request.kind == "read":
            uri = str(request.args["uri"])
            read = mcp_types.ReadResourceRequestParams(uri=uri, **answered)
            sent, kind = mcp_types.ReadResourceRequest(params=read), _CONTENTS
        else:
            params = mcp_types.CallToolRequestParams(
                name=request.name, arguments=request.args, **answered
            )
            sent, kind = mcp_types.CallToolRequest(params=params), _RESULT
        # not `call_tool`: its check by `re` can freeze the loop: decision 062
        if self.is_modern:
            return await self._session.send_request(sent, kind, progress_callback=request.heard)
        with self._askers.note(request.context, server):
            return await self._session.send_request(sent, kind, progress_callback=request.heard)

    async def ask(self, request: mcp_types.Request[Any, Any], kind: type[Any]) -> Any:
        """Send a request of an extension, and return its answer. Raises MCPError."""
        return await self._session.send_request(request, kind)

    async def find_resources(self) -> None:
        """Find out whether there are any: many servers claim so, and have none."""
        if self._client.server_capabilities.resources is not None:
            with suppress(MCPError, ValueError):
                page, templates = await self._list_resources("")
                self.has_resources = bool(page.resources or templates)

    async def _list_resources(self, cursor: str) -> Any:
        """Return a page of resources, and with the first one the templates."""
        page = mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None
        found = await self._session.list_resources(params=page)
        if cursor:
            return found, []
        try:
            templates = (await self._session.list_resource_templates()).resource_templates
        except MCPError:  # a server may have none
            templates = []
        return found, templates

    async def list_prompts(self) -> list[mcp_types.Prompt]:
        """Return all prompts, page by page."""
        found: list[mcp_types.Prompt] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            asked = mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self._session.list_prompts(params=asked)
            found += page.prompts
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def get_prompt(self, name: str, args: dict[str, str]) -> mcp_types.GetPromptResult:
        """Return a prompt's messages."""
        return await self._session.get_prompt(name, args)

    async def subscribe(self) -> None:
        """Receive changes in the newer protocol, where a server notifies only subscribers.

        A new subscription reports nothing before its start, so each one also means a change.
        """
        if not self.is_modern:
            return
        while True:
            try:
                async with self._client.listen(tools_list_changed=True) as changes:
                    self.watch.changed.set()
                    async for _ in changes:
                        self.watch.changed.set()
            except SubscriptionLost as error:
                log.debug("a subscription to changes of tools was lost: %s", error)
            except MCPError as error:
                log.debug("the server tells of no changes: %s", error)
                return
            await anyio.sleep(_LISTEN_AGAIN_SECONDS)
