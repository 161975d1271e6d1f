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
    find_known,
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


OPENCODE = """{
  // local and remote
  "mcp": {
    "a": {"type": "local", "command": ["npx", "-y", "x"], "environment": {"K": "{env:KEY}"},},
    "b": {"type": "remote", "url": "https://b.example", /* off */ "enabled": false},
  }, "theme": "http://x//y, }",
}"""
ZED = """{"context_servers": {
  "a": {"command": {"path": "npx", "args": ["-y", "x"], "env": {"K": "k"}}},
  "b": {"settings": {}},
  "c": {"source": "custom", "command": "npx", "args": ["x"]},
}}"""
CONTINUE = """
mcpServers:
  - name: a
    command: npx
    args: [-y, x]
    env:
      K: ${{ secrets.KEY }}
  - name: b
    type: streamable-http
    url: https://b.example
    requestOptions:
      headers: {X-Key: "${{ secrets.KEY }}"}
  - uses: me/block
"""
GOOSE = """
extensions:
  a: {type: stdio, cmd: npx, args: [-y, x], envs: {K: k}, enabled: true, timeout: 300}
  developer: {type: builtin, name: developer, enabled: true}
  b: {type: streamable_http, uri: "https://b.example", enabled: true, description: null}
  c: {type: stdio, cmd: npx, enabled: false}
"""


@pytest.mark.parametrize(
    ("content", "suffix", "names"),
    [
        ('{"mcpServers": {"a": {"command": "x"}}, "other": 1}', ".json", ["a"]),
        ('{"servers": {"a": {"command": "x"}}, "inputs": []}', ".json", ["a"]),
        ('{"a": {"command": "x"}, "b": 1, "c": {"url": "y"}}', "", ["a", "c"]),
        ('model = "x"\n[mcp_servers.a]\ncommand = "x"\n', ".toml", ["a"]),
        ('{"theme": "dark", "mcp": {"allowed": ["x"]}, "extensions": {"a": {}}}', "", []),
        ('// VS Code\n{"servers": {"a": {"command": "x//y", "args": ["/*,}"],},},}', "", ["a"]),
        (OPENCODE, ".json", ["a", "b"]),
        (ZED, ".json", ["a", "b", "c"]),
        (CONTINUE, ".yaml", ["a", "b", "2"]),
        (GOOSE, ".yml", ["a", "developer", "b", "c"]),
    ],
)
def test_the_servers_of_a_file_are_found(content: str, suffix: str, names: list[str]) -> None:
    assert list(parse_servers(content.encode(), suffix=suffix)) == names


@pytest.mark.parametrize(
    ("name", "content", "servers", "problems"),
    [
        ("opencode.json", OPENCODE, {"a": "npx -y x K=k"}, []),
        (
            "settings.json",
            ZED,
            {"a": "npx -y x K=k", "c": "npx x"},
            ["'b': an extension of the editor starts it"],
        ),
        (
            "config.yaml",
            CONTINUE,
            {"a": "npx -y x K=k", "b": "https://b.example X-Key=k"},
            ["'2': it refers to a block of a registry"],
        ),
        (
            "goose.yaml",
            GOOSE,
            {"a": "npx -y x K=k", "b": "https://b.example"},
            ["'developer': it is of the kind 'builtin', which is part of another program"],
        ),
        ("mcp.json", '{"mcpServers": {"a": 1}}', {}, ["'a': it is not a table"]),
    ],
)
def test_what_other_programs_write_is_read_entry_by_entry(  # noqa: PLR0917
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: str,
    servers: dict[str, str],
    problems: list[str],
) -> None:
    def describe(server: Any) -> str:
        if isinstance(server, HttpServer):
            return " ".join(
                [server.url, *(f"{key}={value}" for key, value in server.headers.items())]
            )
        env = [f"{key}={value}" for key, value in server.env.items()]
        return " ".join([server.command, *server.args, *env])

    monkeypatch.setenv("KEY", "k")
    file = tmp_path / name
    file.write_text(content, encoding="utf-8")
    found = read_servers(file)

    assert {key: describe(one.server) for key, one in found.servers.items()} == servers
    said = [one.removeprefix(f"{file}: ignoring the MCP server ") for one in found.problems]
    assert said == problems


@pytest.mark.parametrize(
    ("content", "suffix", "why"),
    [
        ("{", ".json", "not valid JSON"),
        ("[]", "", "it is not a table"),
        ('{"mcpServers": []}', "", "its servers are not a table of tables"),
        ("a: [", ".yaml", "not valid YAML"),
        ("a: &x 1\nb: *x", ".yaml", "it has aliases"),
        ("a" * 1_000_001, ".yaml", "it is too long"),
        ("a = ", ".toml", "not valid TOML"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(content: str, suffix: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_servers(content.encode(), suffix=suffix)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("npx", "-y", "@modelcontextprotocol/server-filesystem@1.0", "/data"), "filesystem"),
        (
            ("node", "/a/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"),
            "filesystem",
        ),
        (("deno", "run", "npm:@modelcontextprotocol/server-memory"), "memory"),
        (("/venv/bin/mcp-server-git",), "git"),
        (("python", "-m", "mcp_server_git"), "git"),
        (("python", "mcp_server_git"), None),
        (("node", "/a/node_modules/other/@modelcontextprotocol/server-memory.js"), None),
    ],
)
def test_a_known_server_is_recognized_whatever_starts_it(
    words: tuple[str, ...], name: str | None
) -> None:
    known = find_known(StdioServer(name="x", command=words[0], args=words[1:]))
    assert (known.name if known else None) == name


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
