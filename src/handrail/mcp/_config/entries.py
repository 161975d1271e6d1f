"""Entries: one server in a configuration, in the format of any supported program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from handrail._support import is_list, is_object
from handrail.mcp._client.effects import Effects, find_known
from handrail.mcp._client.servers import HttpServer, Server, StdioServer
from handrail.mcp._client.source import DEFER_OVER, Offer
from handrail.mcp._config.formats import UNSUPPORTED
from handrail.mcp._config.variables import ConfigError, expand

_MILLISECONDS = 1000
START_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """A configured server."""

    server: Server
    offer: Offer
    start_seconds: float = START_SECONDS
    origin: str = ""
    """The file with its entry."""
    known: str = ""
    """Where its effects were read, if it is in the list of known servers."""

    @property
    def name(self) -> str:
        """The server's name."""
        return self.server.name


def read_entry(
    name: str, entry: Mapping[str, Any], variables: Mapping[str, str], workspace: str
) -> ServerConfig | None:
    """Return an entry's server, or None if it is turned off.

    Raises HandrailError for an unusable entry. Environment variables are passed on only if the
    entry names them.
    """
    if entry.get("disabled") is True or entry.get("enabled") is False:
        return None
    if UNSUPPORTED in entry:
        raise ConfigError(str(entry[UNSUPPORTED]))
    expanded: dict[str, Any] = expand(dict(entry), variables, workspace)
    fields = _Fields(expanded, variables)
    server = fields.server(name, workspace)
    known = find_known(server)
    effects = fields.effects() | (known.effects if known else Effects())
    return ServerConfig(
        server=server,
        offer=fields.offer(effects),
        start_seconds=fields.number("startup_timeout_sec") or START_SECONDS,
        known=known.source if known else "",
    )


class _Fields:
    """An entry's fields, checked."""

    def __init__(self, entry: dict[str, Any], variables: Mapping[str, str]) -> None:
        self._entry = entry
        self._variables = variables

    def server(self, name: str, workspace: str) -> Server:
        url = self._text("url", "httpUrl", "serverUrl")
        if url and self._entry.get("type") == "sse":
            raise ConfigError("it uses the older transport SSE, which is not supported")
        if url:
            personal = self._text("credential")
            return HttpServer(name=name, url=url, headers=self._headers(), personal=personal)
        command = self._text("command")
        if not command:
            raise ConfigError("it has neither a command nor a url")
        return StdioServer(
            name=name,
            command=command,
            args=self._texts("args"),
            env={**self._passed(), **self._table("env")},
            cwd=self._text("cwd") or workspace,
            hosts=self._texts("hosts"),
            readable=self._texts("readable"),
            writable=self._texts("writable"),
            sandbox=self._entry.get("sandbox") is not False,
        )

    def effects(self) -> Effects:
        return Effects(
            reads=self._texts("reads"),
            writes=self._texts("writes"),
            idempotent=self._texts("idempotent"),
            touches=self._table("touches"),
        )

    def offer(self, effects: Effects) -> Offer:
        seconds = self.number("tool_timeout_sec")
        milliseconds = self.number("timeout") or self.number("request_timeout_ms")
        return Offer(
            effects=effects,
            only=(*self._texts("includeTools"), *self._texts("enabled_tools")),
            without=(*self._texts("excludeTools"), *self._texts("disabled_tools")),
            timeout=seconds or (milliseconds and milliseconds / _MILLISECONDS),
            defer_over=int(self.number("defer_over") or DEFER_OVER),
        )

    def number(self, key: str) -> float | None:
        value = self._entry.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ConfigError(f"`{key}` must be a number greater than 0")
        return float(value)

    def _passed(self) -> dict[str, str]:
        """Return the variables the entry passes on by name."""
        return {name: self._variable(name) for name in self._texts("env_vars")}

    def _headers(self) -> dict[str, str]:
        named = {
            header: self._variable(name) for header, name in self._table("env_http_headers").items()
        }
        token = self._text("bearer_token_env_var")
        bearer = {"Authorization": f"Bearer {self._variable(token)}"} if token else {}
        return {**self._table("headers"), **self._table("http_headers"), **named, **bearer}

    def _variable(self, name: str) -> str:
        if name not in self._variables:
            raise ConfigError(f"the variable {name!r} is not set")
        return self._variables[name]

    def _text(self, *keys: str) -> str:
        found = next((self._entry[key] for key in keys if self._entry.get(key) is not None), "")
        if not isinstance(found, str):
            raise ConfigError(f"`{keys[0]}` must be text")
        return found

    def _texts(self, key: str) -> tuple[str, ...]:
        value = self._entry.get(key, [])
        if not is_list(value) or not all(isinstance(item, str) for item in value):
            raise ConfigError(f"`{key}` must be a list of texts")
        return tuple(value)

    def _table(self, key: str) -> dict[str, str]:
        value = self._entry.get(key, {})
        if not is_object(value) or not all(isinstance(item, str) for item in value.values()):
            raise ConfigError(f"`{key}` must be a table of texts")
        return value
