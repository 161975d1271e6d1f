"""Constraints in words: what a model reads where a wire has no keyword for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_LONGEST = 300
"""Characters of a value or schema that a description quotes."""

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
    "minContains": "at least {} items must fit that",
    "maxContains": "at most {} items may fit that",
    "minProperties": "must have at least {} properties",
    "maxProperties": "must have at most {} properties",
    "contentEncoding": "is encoded as {}",
    "contentMediaType": "has the media type {}",
    "default": "default: {}",
    "examples": "examples: {}",
    "const": "must be {}",
    "enum": "must be one of {}",
    "prefixItems": "its first items must fit, one after the other, the JSON Schemas {}",
    "contains": "some item must fit the JSON Schema {}",
    "propertyNames": "its property names must fit the JSON Schema {}",
    "patternProperties": "properties whose names match these expressions must fit: {}",
    "additionalProperties": "its further properties must fit the JSON Schema {}",
    "unevaluatedProperties": "its further properties must fit the JSON Schema {}",
    "unevaluatedItems": "its further items must fit the JSON Schema {}",
    "not": "must not fit the JSON Schema {}",
    "anyOf": "must fit at least one of the JSON Schemas {}",
    "oneOf": "must fit exactly one of the JSON Schemas {}",
    "dependentSchemas": "where such a property is given, all must fit its JSON Schema: {}",
}
_ALONE = frozenset(
    "pattern format minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum "
    "multipleOf minItems maxItems not const enum".split()
)
"""Keywords that say in words all that they say."""
_TOGETHER = "which of the arguments go together is checked when the tool is called"
_UNQUOTED = frozenset(("pattern", "format", "contentEncoding", "contentMediaType"))


def compact(value: Any) -> str:
    """A value as JSON, as short as it can be."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def quoted(value: Any) -> str:
    """A value as JSON where that is short; what stands for it where it is long."""
    text = compact(value)
    return text if len(text) <= _LONGEST else "(a long one, checked when the tool is called)"


def phrase(keyword: str, value: Any) -> str:
    """One constraint, in words."""
    special = _SPECIAL.get(keyword)
    if special is not None:
        return special(value)
    short = isinstance(value, str) and keyword in _UNQUOTED and len(value) <= _LONGEST
    said = _SIMPLE[keyword].format(value if short else quoted(value))
    return _singular(said) if value == 1 else said


def also(part: Mapping[str, Any]) -> list[str]:
    """A schema that must be fitted too: its keywords one by one, or as a whole."""
    if part.keys() <= _ALONE:
        return [phrase(name, value) for name, value in part.items()]
    return [f"must also fit the JSON Schema {quoted(part)}"]


def _singular(said: str) -> str:
    for many, one in (("1 characters", "1 character"), ("1 items", "1 item"), ("ties", "ty")):
        said = said.replace(many, one)
    return said


def listed(words: Iterable[str], last: str = "and") -> str:
    """Words as people list them."""
    *head, tail = list(words)
    return f"{', '.join(head)} {last} {tail}" if head else tail


def sentences(description: str, notes: Iterable[str]) -> str:
    """A description with notes after it, each a sentence, none twice."""
    made = description.rstrip()
    for note in dict.fromkeys(notes):
        sentence = note[:1].upper() + note[1:] + "."
        if sentence in made:
            continue
        stop = "" if not made else " " if made[-1] in ".!?:" else ". "
        made += stop + sentence
    return made


def branches(choices: Iterable[Mapping[str, Any]], *, exactly: bool) -> str:
    """Alternatives for a whole object, by what each of them takes."""
    shown = [_taken(choice) for choice in choices]
    head = "the arguments must fit exactly one of these: " if exactly else "the arguments must be: "
    text = head + "; or ".join(shown)
    return text if len(text) <= 4 * _LONGEST else _TOGETHER


def _taken(choice: Mapping[str, Any]) -> str:
    required = choice.get("required", [])
    known = choice.get("properties", {})
    names = [name + _value(known.get(name)) for name in required]
    optional = [name for name in known if name not in required]
    words = listed(names) if names else "nothing that is required"
    return f"{words} (optional: {', '.join(optional)})" if optional else words


def _value(schema: Any) -> str:
    if isinstance(schema, Mapping) and "const" in schema:
        return f" = {quoted(schema['const'])}"
    return ""


def _condition(value: Mapping[str, Any]) -> str:
    then = f", must fit {quoted(value['then'])}" if "then" in value else ""
    other = f", otherwise must fit {quoted(value['else'])}" if "else" in value else ""
    return f"where it fits the JSON Schema {quoted(value['if'])}{then}{other}"


def _needs(value: Mapping[str, list[str]]) -> str:
    some = {name: listed(more) for name, more in value.items() if more}
    return "; ".join(f"where {name} is given, give {more} too" for name, more in some.items())


_SPECIAL: Mapping[str, Callable[[Any], str]] = {
    "uniqueItems": lambda _: "its items must all be different",
    "deprecated": lambda _: "deprecated",
    "required": lambda names: f"must have {listed(names)}",
    "dependentRequired": _needs,
    "if": _condition,
}
