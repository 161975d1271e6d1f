"""Proposes a new server's tool effects, for a person to check."""

from __future__ import annotations

import re
from collections.abc import Iterable

from handrail import DESTROY
from handrail.mcp._client.definition import ListedTool
from handrail.mcp._client.effects import Effects

_READS = re.compile(
    r"(?:get|list|search|read|find|query|fetch|describe|show|count|lookup|view|status)(?:[_.-]|$)"
)
_WRITES = re.compile(r"(?:add|create|update|set|edit|write|append|insert|send|post|put)(?:[_.-]|$)")


def propose_effects(definitions: Iterable[ListedTool], known: Effects) -> dict[str, list[str]]:
    """Return patterns for unknown tools: ``reads``, ``writes``, ``idempotent``.

    They rest on names and on the server's own claims, so a person must check them.
    """
    found: dict[str, list[str]] = {"reads": [], "writes": [], "idempotent": []}
    for definition in definitions:
        said, name = definition.annotations, definition.name
        if known.find_effect(definition) is not DESTROY or said.get("destructiveHint") is True:
            continue
        if said.get("readOnlyHint") is True or (
            said.get("readOnlyHint") is None and _READS.match(name)
        ):
            found["reads"].append(name)
        elif said.get("destructiveHint") is False or _WRITES.match(name):
            found["writes"].append(name)
        if said.get("idempotentHint") is True:
            found["idempotent"].append(name)
    return {key: sorted(names) for key, names in found.items() if names}
