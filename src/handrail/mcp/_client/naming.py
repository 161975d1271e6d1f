"""Server and tool names: the accepted ones, and a model's name for a server's tool."""

from __future__ import annotations

import re

from handrail import DefinitionError

MAX_SERVER_NAME = 40
"""Characters in a server's name."""

_SERVER = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")
_TOOL = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def check_server_name(name: str) -> str:
    """Return a server's name. Raises DefinitionError if it is not valid."""
    if len(name) <= MAX_SERVER_NAME and _SERVER.fullmatch(name):
        return name
    raise DefinitionError(
        f"{name[:80]!r} is not a valid name of a server. Use at most {MAX_SERVER_NAME} letters, "
        "digits, and single `-` or `_` between them."
    )


def is_tool_name(name: str) -> bool:
    """Return whether the protocol allows a tool name: ASCII letters, digits, `_`, `.`, `-`.

    So no name looks like another one.
    """
    return _TOOL.fullmatch(name) is not None


def join_names(server: str, tool: str) -> str:
    """Return a model's name for a server's tool. Different pairs give different names.

    A server's name has no two underscores in a row and none at its end, so the first two after the
    prefix are the boundary.
    """
    return f"mcp__{server}__{tool}"
