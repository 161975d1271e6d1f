"""What each wire's schemas may say, from the provider's documentation and its SDK's types."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_ANY = re.compile(r".*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """What the outermost schema may say: it is an object everywhere."""

    banned: frozenset[str]
    """Keywords that may stand inside only, beside unions, which do so everywhere."""
    names: re.Pattern[str] = _ANY
    """The form of a parameter's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a wire that takes a part of JSON Schema takes."""

    keywords: frozenset[str]
    """The constraints that it knows, beside types, properties, items, unions and references."""
    formats: frozenset[str]
    closed: bool = False
    """Whether every object must refuse properties that it does not list."""
    all_required: bool = False
    """Whether every property must be required."""
    untyped: bool = False
    """Whether a schema may leave its type open."""
    type_lists: bool = True
    least_items: float = math.inf
    """The greatest ``minItems`` that it knows."""
    values: Literal["bare", "typed", "split"] = "typed"
    """How listed values are said: alone, with their types, or apart by type."""
    recursion: Literal["yes", "no", "optional"] = "yes"
    """Whether a definition may lead to itself; ``optional``: through optional properties only."""


_NUMBERS = frozenset("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf".split())
_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())

_VALUES = frozenset(("enum", "const"))

ANTHROPIC_ROOT = Root(banned=_VALUES, names=_NAME)
OPENAI_ROOT = Root(banned=_VALUES | {"not"})
GEMINI_ROOT = Root(banned=_VALUES, names=_WORD)

ANTHROPIC_STRICT = Rules(
    keywords=frozenset(("minItems",)),
    formats=_FORMATS | {"uri"},
    closed=True,
    type_lists=False,
    least_items=1,
    values="bare",
    recursion="no",
)
OPENAI_STRICT = Rules(
    keywords=_NUMBERS | {"pattern", "minItems", "maxItems"},
    formats=_FORMATS,
    closed=True,
    all_required=True,
)
GEMINI = Rules(
    keywords=frozenset(("minItems", "maxItems", "minimum", "maximum", "prefixItems")),
    formats=frozenset(("date-time", "date", "time")),
    untyped=True,
    values="split",
    recursion="optional",
)
