"""A command's MCP servers: those named in files, and their approved tools.

A server starts only for a call, a test or a review. Its tools are known from the last review.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail import HandrailError, NeedsLogin, Registry, Toolset
from handrail.cli._base.app import App
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.settings import closest_name, files, is_trusted
from handrail.cli._base.signals import run_alone
from handrail.cli._project.workspace_code import StartedLine

if TYPE_CHECKING:
    from handrail.mcp import Configured, McpSource, Pins, ServerConfig, StdioServer


def catalogue(app: App) -> Path:
    """Return the file with the user's own servers, the only one commands write."""
    return _catalogue(app.workspace)


def _catalogue(workspace: Path) -> Path:
    return files(workspace)["user"].parent / "mcp.json"


def pins_of(app: App, *, first_use: bool = False) -> Pins:
    """Return the user's approved definitions."""
    from handrail.mcp import Pins

    return Pins(catalogue(app).parent / "mcp", first_use=first_use)


def find_configured(app: App) -> Configured:
    """Return the servers named in files. Problems with the files are reported."""
    from handrail.mcp import Configured, find_servers

    own = catalogue(app)
    paths = [own, *_workspace_files(app)]
    if not any(map(os.path.lexists, paths)):
        return Configured({})
    checks = [(path, None if path == own else partial(is_trusted, app.workspace)) for path in paths]
    found = find_servers(checks, workspace=str(app.workspace))
    for problem in found.problems:
        untrusted = ": not trusted" in problem
        app.say(f"{problem}; review it with `handrail trust`" if untrusted else problem)
    checked = {name: _with_check(one, app.workspace) for name, one in found.servers.items()}
    return replace(found, servers=checked)


def _with_check(config: ServerConfig, workspace: Path) -> ServerConfig:
    """Return a server that starts only if its workspace code is trusted."""
    from handrail.mcp import StdioServer

    server = config.server
    if not isinstance(server, StdioServer):
        return config
    line = line_of(server)
    return replace(config, server=replace(server, before_start=partial(line.prepare, workspace)))


def line_of(server: StdioServer) -> StartedLine:
    """Return the line starting a server, for finding its code."""
    privileged = not server.sandbox or any(
        (server.env, server.hosts, server.readable, server.writable)
    )
    return StartedLine(
        shlex.join(server.words),
        privileged,
        {**os.environ, **server.env},
        Path(server.folder),
        installed=True,
    )


def started_servers(workspace: Path, *, trusted: bool) -> list[StdioServer]:
    """Return servers that are programs, from all files or from trusted ones."""
    if not _may_have_servers(workspace):
        return []
    from handrail.mcp import WORKSPACE_FILES, StdioServer, find_servers

    check = partial(is_trusted, workspace) if trusted else None
    shared = ((workspace / name, check) for name in WORKSPACE_FILES)
    paths = [(_catalogue(workspace), None), *shared]
    found = find_servers(paths, workspace=str(workspace)).servers.values()
    return [one.server for one in found if isinstance(one.server, StdioServer)]


def describe_rights(server: StdioServer, workspace: Path) -> str:
    """Return what a server's workspace code can do beyond a command, or ""."""
    line = line_of(server)
    code = line.find_code(workspace)
    if not line.privileged or not (code.all or code.unknown):
        return ""
    rights = [
        "" if server.sandbox else "runs outside the sandbox",
        f"gets the variables {', '.join(sorted(server.env))}" if server.env else "",
        f"can reach {', '.join(server.hosts)}" if server.hosts else "",
        "can use more files" if server.readable or server.writable else "",
    ]
    names = [os.path.relpath(path, os.path.realpath(workspace)) for path in code.all]
    what = f"code of this workspace ({', '.join(names) or code.unknown})"
    return f"{what} {' and '.join(filter(None, rights))}"


def _workspace_files(app: App) -> Iterator[Path]:
    from handrail.mcp import WORKSPACE_FILES

    return (app.workspace / name for name in WORKSPACE_FILES)


def has_servers(app: App) -> bool:
    """Return whether a file may name servers. Most workspaces have none."""
    return _may_have_servers(app.workspace)


def _may_have_servers(workspace: Path) -> bool:
    names = (".mcp.json", ".vscode", ".cursor", ".gemini", ".codex")
    paths = [_catalogue(workspace), *(workspace / name for name in names)]
    return any(map(os.path.lexists, paths))


def get_server(app: App, name: str, file: Path | None = None) -> ServerConfig:
    """Return a server by its name, from a file or from all applicable ones, or a Halt."""
    known = (find_configured(app) if file is None else read_config(app, [file])).servers
    if name in known:
        return known[name]
    near = closest_name(name, known)
    hint = f"did you mean {near!r}?" if near else "list them with `handrail mcp list`"
    raise Halt(f"there is no MCP server {name!r}", code="no_server", hint=hint)


def read_config(app: App, paths: Sequence[Path]) -> Configured:
    """Return servers from files named by the user. Problems with them are reported."""
    from handrail.mcp import find_servers

    for path in paths:
        if not path.is_file():
            hint = "name a file with MCP servers, such as .mcp.json"
            raise Halt(f"{path} does not exist", code="config", hint=hint)
    found = find_servers([(path, None) for path in paths], workspace=str(app.workspace))
    for problem in found.problems:
        app.say(problem)
    return found


def live_tools(app: App, name: str) -> Toolset:
    """Return a server's tools, as it lists them now if they are not reviewed.

    Only for a person, who chooses the call: a model gets reviewed tools.
    """
    from handrail.mcp import McpSource

    config = get_server(app, name)
    if pins_of(app).is_reviewed(config.server):
        return source_of(app, config).offline()
    source = McpSource(config.server, offer=config.offer, start_seconds=config.start_seconds)
    run_alone(partial(visit, source))
    return source.offline()


async def visit(source: McpSource) -> None:
    """Connect once. The source then knows the server's lists. A Halt if this fails."""
    async with connected(source):
        pass


@asynccontextmanager
async def connected(source: McpSource) -> AsyncGenerator[McpSource]:
    """Stay connected until the block ends. A Halt if this fails, or a request in the block."""
    try:
        async with Registry().connect(source):
            yield source
    except NeedsLogin as error:
        hint = "set a header: `headers` in its entry, or `bearer_token_env_var`"
        raise Halt(str(error), code="login", hint=hint, exits=Exit.UNREACHABLE) from None
    except HandrailError as error:
        hint = "\n".join(getattr(error, "__notes__", ())) or "see `handrail mcp show`"
        raise Halt(str(error), code="not_connected", hint=hint, exits=Exit.UNREACHABLE) from None


def source_of(app: App, config: ServerConfig) -> McpSource:
    """Return the source for a server's tools. Nothing starts."""
    from handrail.mcp import McpSource

    return McpSource(
        config.server,
        offer=config.offer,
        pins=pins_of(app),
        start_seconds=config.start_seconds,
    )


def approved_tools(app: App) -> Toolset:
    """Return all servers' approved tools. Calling one starts its server."""
    if not has_servers(app):
        return Toolset()
    pins, found = pins_of(app), Toolset()
    for config in find_configured(app).servers.values():
        try:
            if pins.is_reviewed(config.server):
                found |= source_of(app, config).offline()
                continue
        except HandrailError as error:
            raise Halt(str(error), code="config", hint="then review the server again") from None
        app.say(
            f"the tools of the MCP server {config.name} are not offered: "
            f"review them with `handrail mcp review {config.name}`"
        )
    return found.deferred()


def describe(config: ServerConfig) -> tuple[str, str]:
    """Return a server's kind, and how it is started or reached, in full."""
    from handrail.mcp import HttpServer

    server = config.server
    if isinstance(server, HttpServer):
        return "http", server.url
    return "stdio", shlex.join(server.words)


def document(app: App, config: ServerConfig) -> dict[str, Any]:
    """Return a server for programs."""
    kind, target = describe(config)
    pins = pins_of(app)
    return {
        "name": config.name,
        "kind": kind,
        "target": target,
        "origin": config.origin,
        "sandbox": getattr(config.server, "sandbox", None),
        "reviewed": pins.is_reviewed(config.server),
        "tools": len(pins.get(config.server)),
    }
