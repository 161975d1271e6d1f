"""References of a schema, followed within it and nowhere else; each target gets one short name."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from handrail.providers._data import Malformed, is_list, is_object

_ODD = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 48
_DIGITS = 9
"""Of a place in a list: one with more is not there."""


class Unfit(Exception):
    """A schema that cannot be carried, and why."""


class References:
    """Where references lead, and what their targets are called."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._id: Any = root.get("$id") if is_object(root) else None
        self._names: dict[str, str] = {}
        self._targets: dict[str, Any] = {}
        self._anchors: dict[str, Any] | None = None

    def names(self) -> list[str]:
        """The names of all targets so far."""
        return list(self._targets)

    def target(self, name: str) -> Any:
        """What a name stands for."""
        return self._targets[name]

    def local(self, reference: Any) -> str:
        """A reference to a definition of its own; raises Unfit where it leads out, or nowhere."""
        if not isinstance(reference, str):
            raise Malformed
        if isinstance(self._id, str) and self._id and reference.startswith(self._id):
            reference = reference.removeprefix(self._id) or "#"
        if not reference.startswith("#"):
            raise Unfit(f"it refers to {reference[:120]!r}, which is elsewhere and is not fetched")
        pointer = unquote(reference).rstrip("/") if reference != "#/" else "#"
        if pointer not in self._names:
            found = self._find(pointer)
            name = self._free(pointer)
            self._names[pointer] = name
            self._targets[name] = found
        return f"#/$defs/{self._names[pointer]}"

    def _free(self, pointer: str) -> str:
        last = pointer.rsplit("/", 1)[-1].lstrip("#")
        wanted = _ODD.sub("_", last)[:_LONGEST].strip("_") or "root"
        name, number = wanted, 1
        while name in self._targets or (number > 1 and self._is_taken(name)):
            number += 1
            name = f"{wanted}_{number}"
        return name

    def _is_taken(self, name: str) -> bool:
        """Whether the schema itself has a definition of that name, which may come later."""
        groups = (self._root.get(group) for group in ("$defs", "definitions"))
        return any(is_object(group) and name in group for group in groups)

    def _find(self, pointer: str) -> Any:
        if pointer != "#" and not pointer.startswith("#/"):
            return self._anchored(pointer[1:])
        node = self._root
        for step in pointer.split("/")[1:]:
            node = _entered(node, step.replace("~1", "/").replace("~0", "~"), pointer)
        if isinstance(node, bool) or is_object(node):
            return node
        raise Unfit(f"its reference {pointer[:120]!r} leads to no schema")

    def _anchored(self, name: str) -> Any:
        if self._anchors is None:
            self._anchors = _anchors(self._root)
        if name not in self._anchors:
            raise Unfit(f"its reference '#{name[:120]}' leads nowhere")
        return self._anchors[name]


def _entered(node: Any, step: str, pointer: str) -> Any:
    if is_object(node) and step in node:
        return node[step]
    place = int(step) if len(step) < _DIGITS and step.isdecimal() else None
    if is_list(node) and place is not None and place < len(node):
        return node[place]
    raise Unfit(f"its reference {pointer[:120]!r} leads nowhere")


def _anchors(node: Any) -> dict[str, Any]:
    """Every place that has a name of its own; the outermost, where two have the same."""
    found: dict[str, Any] = {}
    todo = [node]
    for one in todo:  # it grows while it is walked: outer places come first
        if is_object(one):
            for kind in ("$anchor", "$dynamicAnchor"):
                if isinstance(one.get(kind), str):
                    found.setdefault(one[kind], one)
            todo += one.values()
        elif is_list(one):
            todo += one
    return found
