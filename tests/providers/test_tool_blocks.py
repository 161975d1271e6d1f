"""The tools of a request: the same bytes for the same tools in any order."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from handrail import READ, Exposure, Registry, Spec, Tool, Toolset, tool
from handrail.providers import CompiledTool
from providers.apis import APIS


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


def block(api: str, tools: Toolset | list[Spec]) -> bytes:
    return json.dumps(APIS[api].encode_tools(tools)).encode()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("at", range(len(TOOLS)))
def test_a_tool_block_has_the_same_bytes_in_any_order(api: str, at: int) -> None:
    first = block(api, Toolset(*TOOLS))
    tools = random.Random(at).sample(TOOLS, len(TOOLS))  # noqa: S311  an order, no secret
    registry = Registry()
    registry.add(Toolset(*tools[:at]), name="near")
    registry.add(Toolset(*tools[at:]), name="far")
    registry.remove("near")
    registry.add(Toolset(*tools[:at]), name="near again")

    assert block(api, Toolset(*tools)) == first
    assert block(api, [one.spec for one in tools]) == first
    assert block(api, registry.snapshot()) == first


@pytest.mark.parametrize("api", APIS)
def test_hidden_tools_are_not_sent_and_names_fit_the_api(api: str) -> None:
    hidden = made("hidden", exposure=Exposure.HIDDEN)
    tools = Toolset(*TOOLS, hidden)
    names = [one.get("name") or one["function"]["name"] for one in APIS[api].encode_tools(tools)]

    assert [tools.api_names[name] for name in names] == sorted(one.spec.name for one in TOOLS)


@pytest.mark.parametrize("api", APIS)
def test_a_tool_and_its_spec_compile_alike(api: str) -> None:
    compiled = APIS[api].compile(TOOLS[0])

    assert isinstance(compiled, CompiledTool)
    assert compiled == APIS[api].compile(TOOLS[0].spec)
    assert [compiled.definition] == APIS[api].encode_tools([TOOLS[0].spec])


@pytest.mark.parametrize("api", APIS)
def test_application_data_is_never_sent_to_a_model(api: str) -> None:
    spec = Spec(name="pay", description="Pay.", input_schema={"type": "object"})
    marked = replace(spec, needs_approval=True, exclusive=True, metadata={"team": "money"})

    assert APIS[api].encode_tools([marked]) == APIS[api].encode_tools([spec])
