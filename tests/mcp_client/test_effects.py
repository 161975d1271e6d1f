"""What a server's tools can do, and who may say so."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from handrail import DESTROY, READ, WRITE, Access, DefinitionError, Effect
from handrail.mcp import (
    Effects,
    HttpServer,
    ListedTool,
    McpSource,
    Offer,
    Pins,
    StdioServer,
    find_known,
    propose_effects,
)

SAID = Effects(
    reads=("get_*",), writes=("put_*",), idempotent=("*_it",), touches={"get_x": "x:{a}/{b}"}
)


def definition(name: str, **annotations: Any) -> ListedTool:
    return ListedTool.read({"name": name, "inputSchema": {}, "annotations": annotations})


@pytest.mark.parametrize(
    ("name", "annotations", "effect", "idempotent"),
    [
        ("other", {}, DESTROY, False),
        ("other", {"readOnlyHint": True}, DESTROY, False),  # a claim alone counts for nothing
        ("other_it", {"idempotentHint": True}, DESTROY, True),
        ("get_it", {}, READ, True),
        ("get_it", {"idempotentHint": False}, READ, False),
        ("get_it", {"readOnlyHint": False}, WRITE, True),
        ("get_it", {"destructiveHint": True}, DESTROY, True),
        ("get_it", {"readOnlyHint": True, "destructiveHint": True}, READ, True),
        ("put_it", {}, WRITE, True),
        ("put_it", {"destructiveHint": True}, DESTROY, True),
        ("put_it", {"destructiveHint": False, "readOnlyHint": True}, WRITE, True),
    ],
)
def test_a_server_can_only_make_it_worse(
    name: str, annotations: dict[str, bool], effect: Effect, *, idempotent: bool
) -> None:
    listed = definition(name, **annotations)

    assert (SAID.find_effect(listed), SAID.is_idempotent(listed)) == (effect, idempotent)


def test_a_call_touches_its_server_unless_the_configuration_says_what() -> None:
    usual = SAID.find_touches("s", definition("get_it"))
    named = SAID.find_touches("s", definition("get_x"))

    assert usual(a=1) == Access(READ, "mcp:s")
    assert named(a="p", b=7) == (Access(READ, "x:p/7"),)
    assert named(a="p", b=["q", "r"]) == (Access(READ, "x:p/q"), Access(READ, "x:p/r"))
    assert named(a="p", b=["q"] * 1_001) == named(a=[], b="q") == (Access(READ, "*"),)
    with pytest.raises(DefinitionError, match="needs the argument 'b' as text"):
        named(a="p", b=True)


def test_two_opinions_become_one() -> None:
    both = Effects(reads=("a",), touches={"t": "x:1"}) | Effects(reads=("b",), touches={"t": "x:2"})

    assert both == Effects(reads=("a", "b"), touches={"t": "x:1"})


@pytest.mark.parametrize(
    ("server", "name"),
    [
        (StdioServer(name="a", command="npx", args=("-y", "@playwright/mcp@latest")), "playwright"),
        (StdioServer(name="a", command="uvx", args=("mcp-server-git",)), "git"),
        (StdioServer(name="a", command="/bin/mcp-server-time"), "time"),
        (HttpServer(name="a", url="https://mcp.context7.com/mcp/"), "context7"),
        (HttpServer(name="git", url="https://example.org/mcp"), ""),
        (StdioServer(name="git", command="uvx", args=("mcp-server-git-evil",)), ""),
    ],
)
def test_known_servers_are_known_by_their_package_not_by_their_name(
    server: StdioServer | HttpServer, name: str
) -> None:
    known = find_known(server)

    assert (known.name if known else "") == name


def test_the_list_of_known_servers_says_where_each_entry_was_read() -> None:
    text = files("handrail.mcp").joinpath("known_servers.json").read_text(encoding="utf-8")
    servers = json.loads(text)["servers"]

    assert len(servers) == 20
    for name, entry in servers.items():
        assert entry["source"].startswith("https://"), name
        assert entry["packages"], name
        both = set(entry["reads"]) & set(entry.get("writes", ()))
        assert (both, entry.keys() - {"packages", "source", "reads", "writes", "idempotent"}) == (
            set(),
            set(),
        )


def test_a_review_proposes_what_names_and_claims_suggest() -> None:
    listed = [
        definition("get_a"),
        definition("getaway"),
        definition("list"),
        definition("get_b", readOnlyHint=False),
        definition("delete_a"),
        definition("peek", readOnlyHint=True),
        definition("create_a", idempotentHint=True),
        definition("move", destructiveHint=False),
        definition("get_c", destructiveHint=True),
        definition("known"),
    ]

    assert propose_effects(listed, Effects(reads=("known",))) == {
        "reads": ["get_a", "list", "peek"],
        "writes": ["create_a", "move"],
        "idempotent": ["create_a"],
    }
    assert propose_effects([definition("known")], Effects(reads=("known",))) == {}


@pytest.mark.parametrize(
    "name", ["", "test&calc", "a__b", "_a", "a_", "x" * 41, "é", "a b", "../x"]
)
def test_a_server_needs_a_name_that_cannot_mislead(name: str) -> None:
    with pytest.raises(DefinitionError, match="is not a valid name of a server"):
        StdioServer(name=name, command="x")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.org/", "without encryption"),
        ("http://169.254.169.254/", "without encryption"),
        ("javascript:1", "no valid address"),
        ("https://me:secret@example.org/", "no valid address"),
        ("https://[", "no valid address"),
        ("", "no valid address"),
    ],
)
def test_an_address_is_encrypted_or_on_this_machine(url: str, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        HttpServer(name="a", url=url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://localhost/", "http://[::1]/"])
def test_an_address_of_this_machine_needs_no_encryption(url: str) -> None:
    assert HttpServer(name="a", url=url, headers={"B": "x"}).identity == {
        "url": url,
        "headers": ["b"],
    }


@pytest.mark.parametrize("words", [("",), ("a\0b",), ("a", "b\0")])
def test_a_command_must_be_one(words: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError, match="has no valid command"):
        StdioServer(name="a", command=words[0], args=words[1:])


def test_names_of_servers_and_tools_never_meet() -> None:
    servers = ["a", "a_b", "a-b", "a_b_c"]
    tools = ["b", "_b", "__b", "b_c", "b-c", "c", "b.c"]
    pins = Pins()
    names = []
    for server in (StdioServer(name=name, command="x") for name in servers):
        pins.approve(server, [definition(tool) for tool in tools])
        source = McpSource(server, pins=pins, offer=Offer())
        names += [one.spec.name for one in source.offline()]

    assert len(set(names)) == len(servers) * len(tools)
