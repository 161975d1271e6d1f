"""The agent an editor starts: it opens conversations, and passes on requests from the editor."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
from acp import (
    PROTOCOL_VERSION,
    Client,
    RequestError,
    run_agent,
)
from acp.core import DEFAULT_STDIO_BUFFER_LIMIT_BYTES
from acp.helpers import update_available_commands
from acp.schema import (
    AgentCapabilities,
    AvailableCommand,
    AvailableCommandInput,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionMode,
    SessionModeState,
    SetSessionModeResponse,
)
from acp.stdio import stdio_streams
from anyio import to_thread
from anyio.abc import TaskGroup

from handrail import HandrailError, Text
from handrail._version import __version__
from handrail.cli._acp.conversation import Conversation, as_request_error
from handrail.cli._acp.prompts import read_prompt
from handrail.cli._base.app import App
from handrail.cli._base.exits import Halt
from handrail.cli._project.kit import Kit
from handrail.cli._project.models import model_of
from handrail.cli._project.own_commands import find_own_commands
from handrail.cli._rules.mode import WITH_SANDBOX, WITHOUT_SANDBOX
from handrail.cli._runs.resumed_app import app_to_resume, flag_settings
from handrail.cli._runs.saved import SavedRun, find_run, list_runs, new_run, readable_runs
from handrail.messages import Content, Model
from handrail.policy import InvalidRule, Mode, Rulebook

if TYPE_CHECKING:
    from acp import Agent

_MAX_SESSIONS = 50
"""Conversations to list."""


class EditorAgent:
    """Speaks the Agent Client Protocol for one editor."""

    def __init__(self, app: App, group: TaskGroup) -> None:
        self._app = app
        self._group = group
        self._conversations: dict[str, Conversation] = {}
        self._client: Client

    def on_connect(self, conn: Client) -> None:
        """Keep the connection to the editor."""
        self._client = conn

    async def initialize(self, protocol_version: int, **_more: Any) -> InitializeResponse:
        """Say what this agent can do."""
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(), close=SessionCloseCapabilities()
                ),
            ),
            agent_info=Implementation(name="handrail", title="handrail", version=__version__),
        )

    async def new_session(self, cwd: str, **more: Any) -> NewSessionResponse:
        """Begin a conversation in a folder."""
        app = replace(self._app, workspace=_check_folder(cwd))
        with _as_errors():
            kit, model = await to_thread.run_sync(_open_kit, app)
            saved = await to_thread.run_sync(_start_run, app)
            opened = await self._open(kit, model, saved)
        self._say_ignored(opened, more.get("mcp_servers"))  # not reviewed: decision 098
        return NewSessionResponse(session_id=saved.id, modes=_list_modes(kit.rules))

    async def load_session(self, cwd: str, session_id: str, **more: Any) -> LoadSessionResponse:
        """Continue a saved conversation, and show what was said."""
        opened = self._conversations.get(session_id)
        if opened is None:
            with _as_errors():
                saved = await to_thread.run_sync(find_run, session_id)
                app = app_to_resume(replace(self._app, workspace=_check_folder(cwd)), saved)
                kit, model = await to_thread.run_sync(_open_kit, app)
                opened = await self._open(kit, model, saved)
        opened.show_history()
        self._say_ignored(opened, more.get("mcp_servers"))
        await opened.updates.flush()
        return LoadSessionResponse(modes=_list_modes(opened.kit.rules))

    async def _open(self, kit: Kit, model: Model, saved: SavedRun) -> Conversation:
        send = partial(self._client.session_update, saved.id)
        ask = partial(self._ask, saved.id)
        opened = Conversation(kit, model, saved, send=send, ask=ask)
        await self._group.start(opened.hold_open)
        self._conversations[saved.id] = opened
        commands = await to_thread.run_sync(find_own_commands, kit.app.workspace)
        if usable := [one for one in commands.values() if one.is_trusted]:
            hint = AvailableCommandInput.model_validate({"hint": "arguments"})
            listed = [
                AvailableCommand(name=one.name, description=one.description or one.path, input=hint)
                for one in usable
            ]
            opened.updates.put(update_available_commands(listed))
        return opened

    async def _ask(self, session_id: str, about: Any, options: Any) -> Any:
        return await self._client.request_permission(
            session_id=session_id, tool_call=about, options=options
        )

    def _say_ignored(self, opened: Conversation, servers: Sequence[Any] | None) -> None:
        if servers:
            names = ", ".join(str(server.name) for server in servers)
            opened.updates.say(
                f"MCP servers of the editor are not used: {names}. "
                "Add them with `handrail mcp add`, and review their tools."
            )

    async def list_sessions(self, cwd: str | None = None, **_more: Any) -> ListSessionsResponse:
        """Return a folder's saved conversations, the newest first."""
        runs = await to_thread.run_sync(list_runs)
        found: list[SessionInfo] = []
        for about in (run.about for run in readable_runs(runs, self._app.say)):
            is_here = cwd is None or Path(cwd) == Path(about["workspace"])
            if is_here and about["command"] in {"acp", "chat"} and len(found) < _MAX_SESSIONS:
                updated = about["ended"] or about["began"]
                info = {"cwd": about["workspace"], "title": about["prompt"], "updated_at": updated}
                found.append(SessionInfo(session_id=about["id"], **info))
        return ListSessionsResponse(sessions=found)

    async def set_session_mode(
        self, session_id: str, mode_id: str, **_more: Any
    ) -> SetSessionModeResponse:
        """Change a conversation's mode."""
        opened = self._find(session_id)
        try:
            opened.kit.rules.set_mode(mode_id)
        except InvalidRule as error:
            raise RequestError.invalid_params({"details": str(error)}) from None
        opened.tell_mode()
        return SetSessionModeResponse()

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_more: Any) -> PromptResponse:
        """Run one turn."""
        opened = self._find(session_id)
        content = read_prompt(prompt, Path(opened.kit.workspace.root))
        content = await to_thread.run_sync(_fill_in_command, content, opened.kit.app.workspace)
        return PromptResponse(stop_reason=await opened.prompt(content))

    async def cancel(self, session_id: str, **_more: Any) -> None:
        """Stop a conversation's turn."""
        self._find(session_id).cancel()

    async def close_session(self, session_id: str, **_more: Any) -> None:
        """Close a conversation. It stays saved."""
        opened = self._find(session_id)
        del self._conversations[session_id]
        await opened.close()

    async def close_all(self) -> None:
        """Close all conversations: the editor has left."""
        for opened in list(self._conversations.values()):
            await opened.close()

    def _find(self, session_id: str) -> Conversation:
        if session_id not in self._conversations:
            raise RequestError.invalid_params({"details": f"There is no session {session_id!r}."})
        return self._conversations[session_id]


@contextmanager
def _as_errors() -> Generator[None]:
    """Raise a command's end as a protocol error."""
    try:
        yield
    except Halt as halt:
        raise as_request_error(halt) from None
    except HandrailError as error:
        raise RequestError(-32603, str(error)) from None


def _check_folder(cwd: str) -> Path:
    folder = Path(cwd)
    if not folder.is_absolute() or not folder.is_dir():
        raise RequestError.invalid_params({"details": f"There is no folder {cwd!r}."})
    return folder


def _open_kit(app: App) -> tuple[Kit, Model]:
    kit, model = Kit(app), model_of(app.settings, app.workspace, say=app.say)
    _ = kit.tools, kit.rules  # report problems before a run is saved
    return kit, model


def _start_run(app: App) -> SavedRun:
    settings = app.settings
    given = flag_settings(settings)
    return new_run(app.workspace, "", command="acp", settings=settings.values, given=given)


def _list_modes(rules: Rulebook) -> SessionModeState:
    means = WITH_SANDBOX if rules.is_sandboxed else WITHOUT_SANDBOX
    modes = [
        SessionMode(id=str(mode), name=str(mode), description=means[str(mode)])
        for mode in Mode
        if mode <= rules.ceiling
    ]
    return SessionModeState(current_mode_id=str(rules.mode), available_modes=modes)


def _fill_in_command(content: list[Content], workspace: Path) -> list[Content]:
    """Return a prompt with the text from the user's own command, if it begins with one."""
    first = content[0] if content else None
    if not isinstance(first, Text) or not first.text.startswith("/"):
        return content
    name, _, rest = first.text[1:].partition(" ")
    command = find_own_commands(workspace).get(name)
    if command is None or not command.is_trusted:
        return content
    return [Text(command.fill_in(rest)), *content[1:]]


async def serve_editor(app: App) -> None:
    """Speak the protocol over stdin and stdout, until the editor leaves."""
    reader, writer = await _take_stdio()
    async with anyio.create_task_group() as group:
        agent = EditorAgent(app, group)
        try:
            await run_agent(cast("Agent", agent), writer, reader, use_unstable_protocol=True)
        finally:
            with anyio.CancelScope(shield=True):
                await agent.close_all()


async def _take_stdio() -> tuple[Any, Any]:
    """Return the editor's streams. Printing tools, or ones reading stdin, cannot disturb them."""
    sys.stdin, sys.stdout = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    streams = await stdio_streams(limit=DEFAULT_STDIO_BUFFER_LIMIT_BYTES)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdin, sys.stdout = sys.__stdin__, sys.stderr
    return streams
