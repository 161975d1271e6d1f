"""The tools of a request: the same bytes for the same tools, however they came together."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from handrail import READ, Exposure, Registry, Spec, Tool, Toolset, tool
from handrail.providers import Compiled
from providers.wires import WIRES


def made(name: str, *, exposure: Exposure = Exposure.DIRECT) -> Tool[..., Any]:
    @tool(name=name, effect=READ, exposure=exposure)
    def look(path: str, depth: int = 1, kinds: list[str] | None = None) -> str:
        """Look at a place.

        Args:
            path: Where.
            depth: How far down.
            kinds: What for.
        """
        return path

    return look


TOOLS = tuple(made(name) for name in ("zoo", "add", "fs.read", "größe", "x" * 80))


def block(wire: str, tools: Toolset | list[Spec]) -> bytes:
    return json.dumps(WIRES[wire].encode_tools(tools)).encode()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("at", range(len(TOOLS)))
def test_a_tool_block_is_the_same_bytes_whatever_the_order(wire: str, at: int) -> None:
    first = block(wire, Toolset(*TOOLS))
    tools = random.Random(at).sample(TOOLS, len(TOOLS))  # noqa: S311  an order, no secret
    registry = Registry()
    registry.add(Toolset(*tools[:at]), name="near")
    registry.add(Toolset(*tools[at:]), name="far")
    registry.remove("near")
    registry.add(Toolset(*tools[:at]), name="near again")

    assert block(wire, Toolset(*tools)) == first
    assert block(wire, [one.spec for one in tools]) == first
    assert block(wire, registry.snapshot()) == first


@pytest.mark.parametrize("wire", WIRES)
def test_hidden_tools_are_not_sent_and_names_fit_the_wire(wire: str) -> None:
    hidden = made("hidden", exposure=Exposure.HIDDEN)
    tools = Toolset(*TOOLS, hidden)
    names = [one.get("name") or one["function"]["name"] for one in WIRES[wire].encode_tools(tools)]

    assert [tools.wire_names[name] for name in names] == sorted(one.spec.name for one in TOOLS)


@pytest.mark.parametrize("wire", WIRES)
def test_a_tool_and_its_spec_compile_alike(wire: str) -> None:
    compiled = WIRES[wire].compile(TOOLS[0])

    assert isinstance(compiled, Compiled)
    assert compiled == WIRES[wire].compile(TOOLS[0].spec)
    assert [compiled.wire] == WIRES[wire].encode_tools([TOOLS[0].spec])
