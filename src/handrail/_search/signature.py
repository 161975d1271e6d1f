"""Signatures: a tool in one line, as a search shows it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from handrail._search.plain import first_sentence, one_line
from handrail._support import is_list, is_object
from handrail._values.names import api_name
from handrail._values.spec import Spec

MAX_ARGUMENTS = 80
"""Width of the arguments in a line. A found definition is sent whole."""
MAX_SIGNATURE = 2_000
"""Width of the arguments in a separate signature."""
MAX_SENTENCE = 72
"""Width of the sentence after them."""
_WIDE = 3
"""Width of a non-ASCII character: it costs a model about as much as three others."""
_MAX_ENUM_CHARS = 30
_MAX_DEPTH = 3
_MAX_CHOICES = 3
_MAX_PARTS = 16
"""Types read from a union, or values from an enumeration."""
_MAX_NAME = 64
"""Characters in an argument's name or type."""


def describe_tool(spec: Spec) -> str:
    """Return a line about a tool: its signature, and its description's first sentence."""
    shown = ", ".join(_fit(_arguments(spec.input_schema), MAX_ARGUMENTS))
    sentence = shorten(first_sentence(spec.description), MAX_SENTENCE)
    line = f"{api_name(spec.name)}({shown})"
    return f"{line} - {sentence}" if sentence else line


def write_signature(spec: Spec) -> str:
    """Return a tool's name and arguments, with their types, or only the first ones if many."""
    shown = ", ".join(_fit(_arguments(spec.input_schema), MAX_SIGNATURE))
    return f"{api_name(spec.name)}({shown})"


def width(text: str) -> int:
    """Return a text's length, by its cost to a model."""
    return len(text) if text.isascii() else sum(1 if char < "\x80" else _WIDE for char in text)


def shorten(text: str, most: int) -> str:
    """Return a text no wider than this. A cut text ends in an ellipsis, after a word."""
    if width(text) <= most:
        return text
    end = next(at for at in range(len(text)) if width(text[: at + 1]) >= most)
    whole, _, _ = text[:end].rpartition(" ")
    return f"{whole if 2 * len(whole) > end else text[:end]}…"


def _fit(arguments: Iterable[str], most: int) -> Iterator[str]:
    """Yield as many arguments as fit, and dots if there are more."""
    for number, argument in enumerate(arguments):
        most -= width(argument) + 2
        if number and most < 0:
            yield "..."
            return
        yield argument


def _arguments(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the arguments, required ones first."""
    known = schema.get("properties")
    properties: dict[str, Any] = known if is_object(known) else {}
    if not properties and (known is None or schema.get("additionalProperties")):
        yield "..."  # it says nothing about its arguments
    given = schema.get("required")
    required = {name for name in given if isinstance(name, str)} if is_list(given) else set[str]()
    for name in sorted(properties, key=lambda name: name not in required):
        mark = "" if name in required else "?"
        yield f"{one_line(name, _MAX_NAME)}{mark}: {_type(properties[name], schema)}"


def _type(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """Return a value's type in a word or two."""
    if not is_object(schema) or depth > _MAX_DEPTH:
        return "any"
    if (target := _find_target(schema, root)) is not None:
        return _type(target, root, depth + 1)
    parts = schema.get("anyOf", schema.get("oneOf"))
    if is_list(parts):
        known = [_type(part, root, depth + 1) for part in parts[:_MAX_PARTS]]
        return _union(known) if len(parts) <= _MAX_PARTS else "any"
    return _choices(schema) or _plain_type(schema, root, depth)


def _plain_type(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    kind = schema.get("type")
    if is_list(kind):
        return _union([one_line(str(one), _MAX_NAME) for one in kind[:_MAX_PARTS]])
    if kind == "array":
        items = _type(schema.get("items"), root, depth + 1)
        return f"({items})[]" if "|" in items else f"{items}[]"
    return one_line(kind, _MAX_NAME) if isinstance(kind, str) else "any"


def _find_target(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """Return the definition a schema refers to, if its root has it."""
    _, _, name = str(schema.get("$ref", "")).rpartition("/")
    defined = root.get("$defs") or root.get("definitions")
    return defined.get(name) if name and is_object(defined) else None


def _choices(schema: Mapping[str, Any]) -> str:
    """Return the possible values, if few and short."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if not is_list(values) or len(values) > _MAX_PARTS or any(map(_is_nested, values)):
        return ""
    shown = "|".join(json.dumps(value, ensure_ascii=False) for value in values)
    return shown if shown.isprintable() and len(shown) <= _MAX_ENUM_CHARS else ""


def _is_nested(value: object) -> bool:
    return isinstance(value, dict | list)


def _union(kinds: list[str]) -> str:
    """Return the types without null, which means an optional argument."""
    some = [kind for kind in dict.fromkeys(kinds) if kind not in ("null", "None")]
    return "|".join(some) if 0 < len(some) <= _MAX_CHOICES else "any"
