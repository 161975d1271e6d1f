"""Reads a YAML document as JSON values. The only module here importing PyYAML.

A plain scalar has a type only as JSON writes it: ``no`` and ``2026-01-01`` stay text.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import yaml

from handrail import DefinitionError

_COMPOSE: Any = vars(yaml)["compose"]
"""``yaml.compose``, which has no types."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,300})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_WORDS = {
    **dict.fromkeys(("null", "Null", "~", "")),
    **dict.fromkeys(("true", "True"), True),
    **dict.fromkeys(("false", "False"), False),
}


def read_yaml(text: str | bytes) -> Any:
    """Return a document's values. Raises DefinitionError."""
    try:
        node: Any = _COMPOSE(text, yaml.SafeLoader)
        return None if node is None else _read(node, set())
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DefinitionError(f"The document is neither JSON nor YAML: {error}") from None


def _read(node: Any, seen: set[int]) -> Any:
    """Return a node's value. A part used twice would grow without a limit."""
    if isinstance(node, yaml.ScalarNode):
        return _read_scalar(node)
    if id(node) in seen:
        raise DefinitionError(
            f"The document repeats a part by an alias, in line {node.start_mark.line + 1}. Use "
            "`$ref`, or convert it to JSON."
        )
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return [_read(item, seen) for item in node.value]
    pairs = [(_read(key, seen), _read(value, seen)) for key, value in node.value]
    return {key if isinstance(key, str) else json.dumps(key): value for key, value in pairs}


def _read_scalar(node: Any) -> Any:
    text: str = node.value
    if node.style is not None:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if not _NUMBER.fullmatch(text):
        return text
    number = json.loads(text)
    return number if math.isfinite(number) else text
