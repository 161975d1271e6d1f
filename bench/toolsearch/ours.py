"""Handrail's index, asked as the peers are."""

from __future__ import annotations

from catalogues import Tool

from handrail import Spec
from handrail._search.index import ToolIndex


def spec(tool: Tool) -> Spec:
    about = {"namespace": tool["namespace"]} if tool.get("namespace") else {}
    return Spec(
        name=tool["name"],
        description=tool["description"],
        input_schema=tool["parameters"],
        metadata=about,
    )


def index(tools: list[Tool]) -> ToolIndex:
    return ToolIndex.of(map(spec, tools))
