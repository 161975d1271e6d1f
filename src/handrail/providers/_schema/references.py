"""Follow the references inside a schema, and give each target a short name."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from handrail._support import is_list, is_object
from handrail.providers._schema.data import Malformed

_ODD = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_NAME_CHARS = 48
_MAX_DIGITS = 8
"""Digits in a list index. No list is longer."""


class UnsupportedSchema(Exception):
    """A schema cannot be sent. The message says why."""


class References:
    """Reference targets and their names."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._id: Any = root.get("$id") if is_object(root) else None
        self._names: dict[str, str] = {}
        self._targets: dict[str, Any] = {}
        self._anchors: dict[str, Any] | None = None

    def names(self) -> list[str]:
        """Return the target names so far."""
        return list(self._targets)

    def target(self, name: str) -> Any:
        """Return the schema with a name."""
        return self._targets[name]

    def local(self, reference: Any) -> str:
        """Return a reference to ``$defs``. Raises UnsupportedSchema if the target is missing."""
        if not isinstance(reference, str):
            raise Malformed
        if isinstance(self._id, str) and self._id and reference.startswith(self._id):
            reference = reference.removeprefix(self._id) or "#"
        if not reference.startswith("#"):
            raise UnsupportedSchema(f"the external reference {reference[:120]!r} is not fetched")
        pointer = unquote(reference).rstrip("/") if reference != "#/" else "#"
        if pointer not in self._names:
            schema = self._find(pointer)
            name = self._free(pointer)
            self._names[pointer] = name
            self._targets[name] = schema
        return f"#/$defs/{self._names[pointer]}"

    def _free(self, pointer: str) -> str:
        last = pointer.rsplit("/", 1)[-1].lstrip("#")
        wanted = _ODD.sub("_", last)[:_MAX_NAME_CHARS].strip("_") or "root"
        name, number = wanted, 1
        while name in self._targets or (number > 1 and self._is_taken(name)):
            number += 1
            name = f"{wanted}_{number}"
        return name

    def _is_taken(self, name: str) -> bool:
        """Whether the schema defines this name, perhaps later."""
        groups = (self._root.get(group) for group in ("$defs", "definitions"))
        return any(is_object(group) and name in group for group in groups)

    def _find(self, pointer: str) -> Any:
        if pointer != "#" and not pointer.startswith("#/"):
            return self._find_anchor(pointer[1:])
        node = self._root
        for step in pointer.split("/")[1:]:
            node = _step_into(node, step.replace("~1", "/").replace("~0", "~"), pointer)
        if isinstance(node, bool) or is_object(node):
            return node
        raise UnsupportedSchema(f"the target of the reference {pointer[:120]!r} is not a schema")

    def _find_anchor(self, name: str) -> Any:
        if self._anchors is None:
            self._anchors = _anchors(self._root)
        if name not in self._anchors:
            raise UnsupportedSchema(f"the target of the reference '#{name[:120]}' does not exist")
        return self._anchors[name]


def _step_into(node: Any, step: str, pointer: str) -> Any:
    if is_object(node) and step in node:
        return node[step]
    place = int(step) if len(step) <= _MAX_DIGITS and step.isdecimal() else None
    if is_list(node) and place is not None and place < len(node):
        return node[place]
    raise UnsupportedSchema(f"the target of the reference {pointer[:120]!r} does not exist")


def _anchors(root: Any) -> dict[str, Any]:
    """Map each anchor to its schema. If two have the same name, the outermost is used."""
    anchors: dict[str, Any] = {}
    todo = [root]
    for node in todo:  # the list grows during the loop, so outer schemas come first
        if is_object(node):
            for kind in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(kind), str):
                    anchors.setdefault(node[kind], node)
            todo += node.values()
        elif is_list(node):
            todo += node
    return anchors
