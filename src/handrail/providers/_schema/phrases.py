"""Describe constraints in text, for APIs without a keyword for them. Models read this text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_MAX_QUOTED_CHARS = 300
"""Maximum characters quoted from a value or schema in a description."""

_SIMPLE: Mapping[str, str] = {
    "pattern": "must match the regular expression `{}`",
    "format": "must be in the format {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minContains": "at least {} items must match that schema",
    "maxContains": "at most {} items may match that schema",
    "minProperties": "must have at least {} properties",
    "maxProperties": "must have at most {} properties",
    "contentEncoding": "encoding: {}",
    "contentMediaType": "media type: {}",
    "default": "default: {}",
    "examples": "examples: {}",
    "const": "must be {}",
    "enum": "must be one of {}",
    "prefixItems": "the first items must match these JSON Schemas in order: {}",
    "contains": "at least one item must match the JSON Schema {}",
    "propertyNames": "property names must match the JSON Schema {}",
    "patternProperties": "properties whose names match these patterns must match: {}",
    "additionalProperties": "additional properties must match the JSON Schema {}",
    "unevaluatedProperties": "additional properties must match the JSON Schema {}",
    "unevaluatedItems": "additional items must match the JSON Schema {}",
    "not": "must not match the JSON Schema {}",
    "anyOf": "must match at least one of the JSON Schemas {}",
    "oneOf": "must match exactly one of the JSON Schemas {}",
    "dependentSchemas": "if a property is set, the object must match its JSON Schema: {}",
}
_ALONE = frozenset(
    "pattern format minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum "
    "multipleOf minItems maxItems not const enum".split()
)
"""Keywords whose description is complete without other keywords."""
_CHECKED_LATER = "valid combinations of arguments are checked when the tool is called"
_TOO_LONG = "(too long to show; checked when the tool is called)"
_UNQUOTED = frozenset(("pattern", "format", "contentEncoding", "contentMediaType"))


def compact(value: Any) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def quote(value: Any) -> str:
    """Return a value as JSON, or a placeholder if it is long."""
    text = compact(value)
    return text if len(text) <= _MAX_QUOTED_CHARS else _TOO_LONG


def phrase(keyword: str, value: Any) -> str:
    """Describe one constraint."""
    special = _SPECIAL.get(keyword)
    if special is not None:
        return special(value)
    short = isinstance(value, str) and keyword in _UNQUOTED and len(value) <= _MAX_QUOTED_CHARS
    phrased = _SIMPLE[keyword].format(value if short else quote(value))
    return _singular(phrased) if value == 1 else phrased


def also(part: Mapping[str, Any]) -> list[str]:
    """Describe a schema to match as well: keyword by keyword, or as a whole."""
    if part.keys() <= _ALONE:
        return [phrase(name, value) for name, value in part.items()]
    return [f"must also match the JSON Schema {quote(part)}"]


def _singular(phrased: str) -> str:
    for many, single in (("1 characters", "1 character"), ("1 items", "1 item"), ("ties", "ty")):
        phrased = phrased.replace(many, single)
    return phrased


def join_names(names: Iterable[str], last: str = "and") -> str:
    """Join names in plain language: ``a, b and c``."""
    *head, tail = list(names)
    return f"{', '.join(head)} {last} {tail}" if head else tail


def sentences(description: str, notes: Iterable[str]) -> str:
    """Append notes to a description, each as a sentence and only once."""
    text = description.rstrip()
    for note in dict.fromkeys(notes):
        sentence = note[:1].upper() + note[1:] + "."
        if sentence in text:
            continue
        stop = "" if not text else " " if text[-1] in ".!?:" else ". "
        text += stop + sentence
    return text


def branches(choices: Iterable[Mapping[str, Any]], *, exactly: bool) -> str:
    """Describe alternatives for all arguments, by the names each requires."""
    shown = [_describe_choice(choice) for choice in choices]
    head = "the arguments must match exactly one of: " if exactly else "the arguments must be: "
    text = head + "; or ".join(shown)
    return text if len(text) <= 4 * _MAX_QUOTED_CHARS else _CHECKED_LATER


def _describe_choice(choice: Mapping[str, Any]) -> str:
    required = choice.get("required", [])
    known = choice.get("properties", {})
    names = [name + _value(known.get(name)) for name in required]
    optional = [name for name in known if name not in required]
    needed = join_names(names) if names else "no required arguments"
    return f"{needed} (optional: {', '.join(optional)})" if optional else needed


def _value(schema: Any) -> str:
    if isinstance(schema, Mapping) and "const" in schema:
        return f" = {quote(schema['const'])}"
    return ""


def _condition(value: Mapping[str, Any]) -> str:
    then = f", it must match {quote(value['then'])}" if "then" in value else ""
    other = f", otherwise it must match {quote(value['else'])}" if "else" in value else ""
    return f"if it matches the JSON Schema {quote(value['if'])}{then}{other}"


def _needs(value: Mapping[str, list[str]]) -> str:
    needed = {name: join_names(more) for name, more in value.items() if more}
    return "; ".join(f"if {name} is set, also set {more}" for name, more in needed.items())


_SPECIAL: Mapping[str, Callable[[Any], str]] = {
    "uniqueItems": lambda _: "items must be unique",
    "deprecated": lambda _: "deprecated",
    "required": lambda names: f"must have {join_names(names)}",
    "dependentRequired": _needs,
    "if": _condition,
}
