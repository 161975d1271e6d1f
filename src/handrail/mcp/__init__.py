"""MCP: tools from other people's servers. It requires the extra ``handrail[mcp]``.

Nothing here is loaded by ``import handrail``, and the SDK only by the first connection.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.mcp._client.definition import ListedTool
    from handrail.mcp._client.effects import Effects, KnownServer, find_known, propose_effects
    from handrail.mcp._client.pins import ChangedTool, Pins
    from handrail.mcp._client.resources import ServerPrompt
    from handrail.mcp._client.servers import HttpServer, NotConnected, StdioServer
    from handrail.mcp._client.source import McpSource, Offer
    from handrail.mcp._config.entries import ServerConfig, read_entry
    from handrail.mcp._config.files import (
        WORKSPACE_FILES,
        Configured,
        find_servers,
        parse_servers,
        read_servers,
        store_entry,
    )
    from handrail.mcp._config.variables import ConfigError
    from handrail.mcp._login.discovery import discover_client
    from handrail.mcp._login.flow import Login
    from handrail.mcp._login.tokens import TokenFile
else:
    _MODULES = {
        "_client.definition": "ListedTool",
        "_client.effects": "Effects KnownServer find_known propose_effects",
        "_client.pins": "ChangedTool Pins",
        "_client.resources": "ServerPrompt",
        "_client.servers": "HttpServer NotConnected StdioServer",
        "_client.source": "McpSource Offer",
        "_config.entries": "ServerConfig read_entry",
        "_config.files": (
            "Configured WORKSPACE_FILES find_servers parse_servers read_servers store_entry"
        ),
        "_config.variables": "ConfigError",
        "_login.discovery": "discover_client",
        "_login.flow": "Login",
        "_login.tokens": "TokenFile",
    }

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals(), extra="mcp")


__all__ = [
    "WORKSPACE_FILES",
    "ChangedTool",
    "ConfigError",
    "Configured",
    "Effects",
    "HttpServer",
    "KnownServer",
    "ListedTool",
    "Login",
    "McpSource",
    "NotConnected",
    "Offer",
    "Pins",
    "ServerConfig",
    "ServerPrompt",
    "StdioServer",
    "TokenFile",
    "discover_client",
    "find_known",
    "find_servers",
    "parse_servers",
    "propose_effects",
    "read_entry",
    "read_servers",
    "store_entry",
]
