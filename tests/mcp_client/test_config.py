"""Configurations of servers, as people have them for other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handrail.mcp import (
    ConfigError,
    Effects,
    HttpServer,
    Offer,
    ServerConfig,
    StdioServer,
    find_servers,
    parse_servers,
    read_entry,
    read_servers,
    store_entry,
)

ENV = {"KEY": "k", "EMPTY": "", "TOKEN": "t"}


def read(entry: dict[str, Any]) -> ServerConfig | None:
    return read_entry("a", entry, ENV, "/ws")


def stdio(**options: Any) -> StdioServer:
    return StdioServer(**{"name": "a", "command": "run", "cwd": "/ws", **options})


@pytest.mark.parametrize(
    ("entry", "server", "offer"),
    [
        (
            {"command": "run", "args": ["${KEY}", "${NO:-x}", "${EMPTY:-y}", "${NO:-}"]},
            stdio(args=("k", "x", "y", "")),
            Offer(),
        ),
        (  # VS Code
            {
                "type": "stdio",
                "command": "run",
                "args": ["${workspaceFolder}/a"],
                "env": {"A": "${env:KEY}"},
            },
            stdio(args=("/ws/a",), env={"A": "k"}),
            Offer(),
        ),
        (  # Codex
            {
                "command": "run",
                "cwd": "/there",
                "env_vars": ["KEY"],
                "tool_timeout_sec": 9,
                "enabled_tools": ["x"],
                "disabled_tools": ["y"],
            },
            stdio(env={"KEY": "k"}, cwd="/there"),
            Offer(only=("x",), without=("y",), timeout=9),
        ),
        (
            {
                "url": "https://a.example/mcp",
                "http_headers": {"A": "1"},
                "env_http_headers": {"B": "KEY"},
                "bearer_token_env_var": "TOKEN",
            },
            HttpServer(
                name="a",
                url="https://a.example/mcp",
                headers={"A": "1", "B": "k", "Authorization": "Bearer t"},
            ),
            Offer(),
        ),
        (  # Gemini
            {
                "httpUrl": "https://a.example/mcp",
                "timeout": 5000,
                "includeTools": ["i"],
                "excludeTools": ["e"],
                "trust": True,
            },
            HttpServer(name="a", url="https://a.example/mcp"),
            Offer(only=("i",), without=("e",), timeout=5),
        ),
        (  # ours
            {
                "command": "run",
                "reads": ["get_*"],
                "writes": ["put_*"],
                "idempotent": ["put_*"],
                "touches": {"x": "y:{z}"},
                "hosts": ["a.example"],
                "readable": ["~/r"],
                "writable": ["/w"],
                "sandbox": False,
                "defer_over": 5,
            },
            stdio(hosts=("a.example",), readable=("~/r",), writable=("/w",), sandbox=False),
            Offer(
                effects=Effects(
                    reads=("get_*",),
                    writes=("put_*",),
                    idempotent=("put_*",),
                    touches={"x": "y:{z}"},
                ),
                defer_over=5,
            ),
        ),
    ],
    ids=["portable", "vs code", "codex", "codex http", "gemini", "own"],
)
def test_an_entry_of_each_program_is_read(
    entry: dict[str, Any], server: StdioServer | HttpServer, offer: Offer
) -> None:
    assert read(entry) == ServerConfig(server=server, offer=offer)


def test_a_known_server_brings_its_effects() -> None:
    config = read({"command": "uvx", "args": ["mcp-server-time"], "startup_timeout_sec": 3})

    assert config is not None
    assert config.offer.effects.reads == ("get_current_time", "convert_time")
    assert config.known.endswith("/src/time/README.md")
    assert (config.name, config.start_seconds) == ("a", 3)


@pytest.mark.parametrize("entry", [{"disabled": True}, {"enabled": False}])
def test_an_entry_that_is_turned_off_is_no_server(entry: dict[str, Any]) -> None:
    assert read({"command": "run", **entry}) is None


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"command": "${NO}"}, "the variable 'NO' is not set"),
        ({"command": "${input:key}"}, "it asks for the input 'key': set a variable instead"),
        ({"command": "run", "env_vars": ["NO"]}, "the variable 'NO' is not set"),
        ({"url": "https://a.example", "type": "sse"}, "the older transport SSE"),
        ({}, "neither a command nor a url"),
        ({"command": 1}, "`command` must be text"),
        ({"command": "run", "args": "x"}, "`args` must be a list of texts"),
        ({"command": "run", "env": {"A": 1}}, "`env` must be a table of texts"),
        ({"command": "run", "timeout": "soon"}, "`timeout` must be a number greater than 0"),
    ],
)
def test_an_entry_that_cannot_be_used_says_why(entry: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read(entry)


@pytest.mark.parametrize(
    ("content", "toml", "names"),
    [
        ('{"mcpServers": {"a": {"command": "x"}}, "other": 1}', False, ["a"]),
        ('{"servers": {"a": {"command": "x"}}, "inputs": []}', False, ["a"]),
        ('{"a": {"command": "x"}, "b": 1, "c": {"url": "y"}}', False, ["a", "c"]),
        ('model = "x"\n[mcp_servers.a]\ncommand = "x"\n', True, ["a"]),
        ('{"theme": "dark"}', False, []),
    ],
)
def test_the_servers_of_a_file_are_found(content: str, names: list[str], *, toml: bool) -> None:
    assert list(parse_servers(content.encode(), toml=toml)) == names


@pytest.mark.parametrize("content", ["{", "[]", '{"mcpServers": []}', '{"mcpServers": {"a": 1}}'])
def test_a_file_that_is_no_configuration_is_refused(content: str) -> None:
    with pytest.raises(ConfigError):
        parse_servers(content.encode(), toml=False)


def write(file: Path, **servers: Any) -> Path:
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return file


def test_the_first_file_counts_and_options_are_added(tmp_path: Path) -> None:
    own = write(tmp_path / "own.json", a={"reads": ["get_*"]}, b={"command": "mine"})
    theirs = write(tmp_path / "theirs.json", a={"command": "x"}, b={"command": "theirs"}, c={})
    found = find_servers([(own, None), (theirs, None), (tmp_path / "none.json", None)])

    assert list(found.servers) == ["a", "b"]
    assert found.servers["a"].offer.effects == Effects(reads=("get_*",))
    assert (found.servers["a"].origin, found.servers["b"].origin) == (str(theirs), str(own))
    assert found.problems == (
        f"{theirs}: ignoring the MCP server 'c': it has neither a command nor a url",
    )


def test_a_file_without_trust_is_not_used_and_one_without_servers_needs_none(
    tmp_path: Path,
) -> None:
    file = write(tmp_path / ".mcp.json", a={"command": "x"})
    empty = write(tmp_path / "empty.json")
    seen: list[tuple[Path, bytes]] = []

    def distrust(path: Path, content: bytes) -> bool:
        seen.append((path, content))
        return False

    found = find_servers([(file, distrust), (empty, distrust)])

    assert (dict(found.servers), found.problems) == (
        {},
        (f"ignoring {file}: not trusted, or changed since you trusted it",),
    )
    assert seen == [(file, file.read_bytes())]
    assert list(find_servers([(file, lambda *_: True)]).servers) == ["a"]


def test_a_file_that_cannot_be_read_is_a_problem_and_stays_as_it_is(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(write(tmp_path / "real.json", a={"command": "x", "disabled": True}))

    assert read_servers(link).problems == (
        f"ignoring {link}: it is a link, and links are not followed",
    )
    assert dict(read_servers(tmp_path / "real.json").servers) == {}


def test_an_entry_is_stored_beside_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"kept": 1}', encoding="utf-8")
    first = store_entry(file, "a", {"command": "x"})
    second = store_entry(file, "a", {"command": "y"})
    stored = json.loads(file.read_text(encoding="utf-8"))
    removed = store_entry(file, "a", None), store_entry(file, "a", None)

    assert (first, second, removed) == (False, True, (True, False))
    assert stored == {"kept": 1, "mcpServers": {"a": {"command": "y"}}}
    assert not store_entry(tmp_path / "new.json", "a", {"command": "x"})
    file.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be read"):
        store_entry(file, "a", None)
