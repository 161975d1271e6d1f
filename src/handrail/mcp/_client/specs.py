"""Turns a server's definition into a spec, as a model receives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handrail import Spec
from handrail._support import is_list, is_object
from handrail._support.visible import spell_out
from handrail.mcp._client.definition import ListedTool
from handrail.mcp._client.effects import Effects
from handrail.mcp._client.servers import join_names

_PROSE = frozenset({"description", "title", "$comment"})
"""Keywords whose text a model only reads."""


def make_spec(
    server: str, definition: ListedTool, effects: Effects, timeout: float | None = None
) -> Spec:
    """Return a spec for a server's tool."""
    listed = definition.listed
    description = definition.description or str(listed.get("title", ""))
    schema: Any = listed.get("inputSchema")
    output: Any = listed.get("outputSchema")
    return Spec(
        name=join_names(server, definition.name),
        description=spell_out(description),
        input_schema=_show_hidden(schema) if is_object(schema) else {"type": "object"},
        output_schema=output if is_object(output) else None,
        effect=effects.find_effect(definition),
        idempotent=effects.is_idempotent(definition),
        timeout=timeout,
        tags=frozenset({"mcp"}),
        framed=True,
        metadata={"namespace": server, "mcp_tool": definition.name, **_keep_shown(definition)},
    )


def _keep_shown(definition: ListedTool) -> dict[str, Any]:
    """Return what a gateway passes on unchanged, for the programs of its users."""
    return {"mcp_shown": dict(definition.shown)} if definition.shown else {}


def _show_hidden(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema whose prose has invisible characters spelled out."""
    return {
        key: spell_out(value) if key in _PROSE and isinstance(value, str) else _show_in(value)
        for key, value in schema.items()
    }


def _show_in(value: Any) -> Any:
    if is_object(value):
        return _show_hidden(value)
    if is_list(value):
        return [_show_in(item) for item in value]
    return value
