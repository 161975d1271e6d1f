"""Starts an MCP server to see what it lists, and stops it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail import HandrailError, NeedsLogin, Registry
from handrail.cli._base.exits import Exit, Halt

if TYPE_CHECKING:
    from handrail.mcp import McpSource


async def visit(source: McpSource) -> None:
    """Connect once. The source then knows the server's lists. A Halt if this fails."""
    try:
        async with Registry().connect(source):
            pass
    except NeedsLogin as error:
        hint = "set a header: `headers` in its entry, or `bearer_token_env_var`"
        raise Halt(str(error), code="login", hint=hint, exits=Exit.UNREACHABLE) from None
    except HandrailError as error:
        hint = "\n".join(getattr(error, "__notes__", ())) or "see `handrail mcp show`"
        raise Halt(str(error), code="not_connected", hint=hint, exits=Exit.UNREACHABLE) from None
