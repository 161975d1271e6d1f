"""Formats: JSON with comments, TOML and YAML, and what each program calls a server's fields."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from handrail._support import is_list, is_object
from handrail.mcp._config.variables import ConfigError

Format: TypeAlias = Literal["json", "toml", "yaml"]

UNSUPPORTED = "handrail: unsupported"
"""An entry with this field cannot be used. It says why."""
MAX_YAML_CHARS = 1_000_000
_MARKS = frozenset({"command", "url", "httpUrl", "serverUrl"})
"""Fields marking an entry as a server. One without them extends another file's entry."""
_NOISE = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'("(?:\\.|[^"\\\n])*")|,(?=\s*[}\]])')
_SECRET = re.compile(r"\$\{\{\s*(?:secrets\.|env\.)?([A-Za-z0-9_]+)\s*\}\}")
_BRACED = re.compile(r"(?<!\$)\{env:([A-Za-z0-9_]+)\}")


def find_format(suffix: str) -> Format:
    """Return the format that a suffix means."""
    return "toml" if suffix == ".toml" else "yaml" if suffix in (".yaml", ".yml") else "json"


def read_entries(content: bytes, form: Format) -> dict[str, dict[str, Any]]:
    """Return a file's servers by name, in one spelling. Raises ConfigError if it cannot be read."""
    try:
        whole: Any = _READERS[form](content.decode())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not valid {form.upper()}: {error}") from None
    if not is_object(whole):
        raise ConfigError("it is not a table")
    for key, convert in _KEYS.items():
        if key in whole:
            return _convert_all(whole[key], convert)
    if form == "yaml" and "extensions" in whole:
        return _convert_all(whole["extensions"], _from_goose)
    if "mcp" in whole and (found := _find_opencode(whole["mcp"])):
        return found
    # some files have the servers at the top
    return {name: entry for name, entry in whole.items() if _is_server(entry)}


def _convert_all(found: Any, convert: _Convert) -> dict[str, dict[str, Any]]:
    if is_list(found) and found:  # Continue has a list, with names inside
        named = [one for one in found if is_object(one)]
        found = {str(one.get("name", number)): one for number, one in enumerate(named)}
    if not is_object(found):
        raise ConfigError("its servers are not a table of tables")
    return {
        name: convert(entry) if is_object(entry) else {UNSUPPORTED: "it is not a table"}
        for name, entry in found.items()
    }


def _is_server(entry: object) -> bool:
    return is_object(entry) and not _MARKS.isdisjoint(entry)


# -- texts ---------------------------------------------------------------------------------------


def _read_json(text: str) -> Any:
    """Read JSON, with the comments and trailing commas that editors allow."""
    try:
        return json.loads(text)
    except ValueError as error:
        plain = _NOISE.sub(lambda found: found[1] or " ", text)
        try:
            return json.loads(_COMMA.sub(lambda found: found[1] or "", plain))
        except ValueError:
            raise error from None


def _read_yaml(text: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise ConfigError("YAML needs a package: pip install 'handrail[cli]'") from None
    if len(text) > MAX_YAML_CHARS:
        raise ConfigError("it is too long")
    tokens: Any = yaml
    try:
        if any(isinstance(one, yaml.AliasToken) for one in tokens.scan(text, yaml.SafeLoader)):
            raise ConfigError("it has aliases, which are not read")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


_READERS: Mapping[Format, Callable[[str], Any]] = {
    "json": _read_json,
    "toml": tomllib.loads,
    "yaml": _read_yaml,
}


# -- entries -------------------------------------------------------------------------------------


_Convert: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def _replace(value: Any, pattern: re.Pattern[str]) -> Any:
    """Return a value whose variables are spelled as ``${NAME}``."""
    if isinstance(value, str):
        return pattern.sub(r"${\1}", value)
    if is_list(value):
        return [_replace(one, pattern) for one in value]
    if is_object(value):
        return {key: _replace(one, pattern) for key, one in value.items()}
    return value


def _from_zed(entry: dict[str, Any]) -> dict[str, Any]:
    command = entry.get("command")
    if is_object(command):  # its older form
        inner = {"command": command.get("path"), **command}
        named = ("command", "args", "env")
        return {**entry, **{key: inner[key] for key in named if inner.get(key)}}
    if "settings" in entry and _MARKS.isdisjoint(entry):
        return {UNSUPPORTED: "an extension of the editor starts it"}
    return entry


def _find_opencode(found: Any) -> dict[str, dict[str, Any]]:
    """Return the servers among other settings: each says whether it is here or elsewhere."""
    tables = found.items() if is_object(found) else ()
    return {
        name: _from_opencode(entry)
        for name, entry in tables
        if is_object(entry) and entry.get("type") in ("local", "remote")
    }


def _from_opencode(entry: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = _replace(entry, _BRACED)
    command = made.get("command")
    if is_list(command) and command:
        made |= {"command": command[0], "args": command[1:]}
    if "environment" in made:
        made["env"] = made.pop("environment")
    return made


def _from_continue(entry: dict[str, Any]) -> dict[str, Any]:
    if "uses" in entry:
        return {UNSUPPORTED: "it refers to a block of a registry"}
    made: dict[str, Any] = _replace(entry, _SECRET)
    options = made.get("requestOptions")
    if is_object(options) and "headers" in options:
        made["headers"] = options["headers"]
    return made


def _from_goose(entry: dict[str, Any]) -> dict[str, Any]:
    kind = entry.get("type", "stdio")
    if kind not in ("stdio", "streamable_http", "sse"):
        return {UNSUPPORTED: f"it is of the kind {kind!r}, which is part of another program"}
    names = {
        "cmd": "command",
        "uri": "url",
        "envs": "env",
        "env_keys": "env_vars",
        "timeout": "tool_timeout_sec",
        "available_tools": "enabled_tools",
    }
    return {names.get(key, key): value for key, value in entry.items() if value is not None}


def _same(entry: dict[str, Any]) -> dict[str, Any]:
    return entry


_KEYS: Mapping[str, _Convert] = {
    "mcpServers": _from_continue,
    "servers": _same,
    "mcp_servers": _same,
    "context_servers": _from_zed,
}
"""The field with the servers, in each program's files."""
