"""JSON Schemas for an operation's arguments, small enough for a model.

OpenAPI 3.0 and 3.1 schemas become JSON Schema 2020-12, without references. A property set only by
the server is omitted. Below a depth, an object lists only its fields: the server validates again.
"""

from __future__ import annotations

from typing import Any

from handrail._support import is_list
from handrail._support.visible import spell_out
from handrail.openapi._document import Document, Node, get_list, get_node, is_node

_KEPT = tuple(
    "const format pattern minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum "
    "multipleOf minItems maxItems uniqueItems minProperties maxProperties default".split()
)
_UNIONS = ("anyOf", "oneOf")
_MAX_FIELDS_SHOWN = 12
_MAX_MERGED = 200
"""Parts in one ``allOf``, including nested ones."""


class TooLarge(Exception):
    """A schema has more parts than a model should get."""


class Schemas:
    """Converts one operation's schemas, within a depth and a maximum of parts."""

    def __init__(self, document: Document, *, depth: int, text: int, parts: int) -> None:
        self._document = document
        self._depth = depth
        self._text = text
        self._parts_left = parts
        self._is_old = document.version.startswith("3.0")

    def convert(self, value: object, depth: int = 1) -> dict[str, Any]:
        """Return a schema as JSON Schema. Raises TooLarge if it has too many parts."""
        self._parts_left -= 1
        if self._parts_left < 0:
            raise TooLarge
        node = merge(self._document, value)
        made: dict[str, Any] = {}
        kinds = self._find_kinds(node)
        if kinds:
            made["type"] = kinds[0] if len(kinds) == 1 else kinds
        if words := describe(node, self._text):
            made["description"] = words
        made |= self._convert_values(node, is_nullable="null" in kinds)
        if depth >= self._depth:
            return _summarize(made, node)
        self._convert_children(made, node, depth)
        return made

    def _find_kinds(self, node: Node) -> list[str]:
        kind = node.get("type")
        kinds = [each for each in (kind if is_list(kind) else [kind]) if isinstance(each, str)]
        if not kinds and is_node(node.get("properties")):
            kinds = ["object"]
        if kinds and self._is_old and node.get("nullable") is True:
            kinds.append("null")
        return kinds

    def _convert_values(self, node: Node, *, is_nullable: bool) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if is_list(node.get("enum")):
            made["enum"] = list(node["enum"])
            if is_nullable and None not in made["enum"]:
                made["enum"].append(None)
        made |= {key: node[key] for key in _KEPT if key in node}
        for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(made.get(bound), bool):  # as in version 3.0
                is_exclusive = made.pop(bound)
                if is_exclusive and limit in made:
                    made[bound] = made.pop(limit)
        return made

    def _convert_children(self, made: dict[str, Any], node: Node, depth: int) -> None:
        properties = writable(self._document, get_node(node, "properties"))
        if properties:
            made["properties"] = {
                name: self.convert(schema, depth + 1) for name, schema in properties.items()
            }
            if required := [name for name in _items(node.get("required")) if name in properties]:
                made["required"] = required
        # an object is open unless the document closes it
        more = node.get("additionalProperties", True if properties else None)
        if isinstance(more, bool):
            made["additionalProperties"] = more
        for key, child in (("additionalProperties", more), ("items", node.get("items"))):
            if is_node(child):
                made[key] = self.convert(child, depth + 1)
        for union in _UNIONS:
            if choices := get_list(node, union):
                made["anyOf"] = [self.convert(choice, depth + 1) for choice in choices]


def writable(document: Document, properties: Node) -> dict[str, Any]:
    """Return the properties allowed in a request: all but those set only by the server."""
    return {
        name: schema
        for name, schema in properties.items()
        if merge(document, schema).get("readOnly") is not True
    }


def describe(node: Node, most: int) -> str:
    """Return a description in one line, with invisible characters spelled out."""
    return shorten(node.get("description"), most)


def shorten(text: object, most: int) -> str:
    """Return a text in one line, cut after a sentence or a word if it is too long."""
    line = " ".join(spell_out(text).split()) if isinstance(text, str) else ""
    if len(line) <= most or not most:
        return line[:most]
    cut = line[:most]
    sentence = max(cut.rfind(". "), cut.rfind("! "), cut.rfind("? "))
    if sentence > most // 3:
        return cut[: sentence + 1]
    return cut[: max(cut.rfind(" "), most // 2)].rstrip(" ,;:") + " ..."


def _summarize(made: dict[str, Any], node: Node) -> dict[str, Any]:
    """Return a schema without its children. Its description names them."""
    fields = [str(name) for name in get_node(node, "properties")]
    if fields:
        shown = ", ".join(fields[:_MAX_FIELDS_SHOWN])
        more = ", ..." if len(fields) > _MAX_FIELDS_SHOWN else ""
        words = f"Fields: {spell_out(shown)}{more}."
        made["description"] = " ".join(filter(None, [made.get("description"), words]))
    return made


def merge(document: Document, value: object) -> Node:
    """Return a schema with the parts of ``allOf`` merged into it.

    If two parts differ about one keyword, neither is kept, to accept everything the server accepts.
    """
    node = document.resolve(value)
    if not get_list(node, "allOf"):
        return node
    merged: dict[str, Any] = {}
    for part in _find_parts(document, node):
        _add(merged, part)
    return {key: item for key, item in merged.items() if item is not _CONFLICT}


def _find_parts(document: Document, node: Node) -> list[Node]:
    """Return a schema and all its ``allOf`` parts, each once, in their order."""
    found: dict[int, Node] = {}
    waiting: list[object] = [node]
    while waiting and len(found) < _MAX_MERGED:
        part = document.resolve(waiting.pop())
        if id(part) not in found:
            found[id(part)] = part
            waiting += reversed(get_list(part, "allOf")[:_MAX_MERGED])
    return list(found.values())


def _add(merged: dict[str, Any], part: Node) -> None:
    for key, value in part.items():
        if key == "allOf":
            continue
        if key not in merged:
            merged[key] = value
        elif key == "required":
            merged[key] = list(dict.fromkeys([*_items(merged[key]), *_items(value)]))
        elif key == "properties" and is_node(merged[key]) and is_node(value):
            merged[key] = _merge_properties(merged[key], value)
        elif key != "description" and merged[key] != value:
            merged[key] = _CONFLICT


def _merge_properties(first: Node, second: Node) -> dict[str, Any]:
    both = {
        name: {"allOf": [first[name], second[name]]}
        for name in first
        if name in second and first[name] != second[name]
    }
    return {**first, **second, **both}


def _items(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if is_list(value) else []


_CONFLICT = object()
