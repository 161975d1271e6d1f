"""The part of JSON Schema each API supports, from its documentation and its SDK's types."""

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
    """Rules for the outermost schema. It must be an object in every API."""

    banned: frozenset[str]
    """Keywords allowed only inside, in addition to unions."""
    names: re.Pattern[str] = _ANY
    """Pattern for valid parameter names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDialect:
    """The part of JSON Schema an API supports."""

    keywords: frozenset[str]
    """Supported constraints, in addition to types, properties, items, unions and references."""
    formats: frozenset[str]
    closed: bool = False
    """Whether every object must reject unlisted properties."""
    all_required: bool = False
    """Whether every property must be required."""
    untyped: bool = False
    """Whether a schema may omit its type."""
    type_lists: bool = True
    least_items: float = math.inf
    """The greatest supported ``minItems``."""
    values: Literal["bare", "typed", "split"] = "typed"
    """How allowed values are written: alone, with their types, or split by type."""
    recursion: Literal["yes", "no", "optional"] = "yes"
    """Whether definitions may be recursive. ``optional``: only through optional properties."""


_NUMBERS = frozenset("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf".split())
_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())

_VALUES = frozenset(("enum", "const"))

ANTHROPIC_ROOT = Root(banned=_VALUES, names=_NAME)
OPENAI_ROOT = Root(banned=_VALUES | {"not"})
GEMINI_ROOT = Root(banned=_VALUES, names=_WORD)

ANTHROPIC_STRICT = SchemaDialect(
    keywords=frozenset(("minItems",)),
    formats=_FORMATS | {"uri"},
    closed=True,
    type_lists=False,
    least_items=1,
    values="bare",
    recursion="no",
)
OPENAI_STRICT = SchemaDialect(
    keywords=_NUMBERS | {"pattern", "minItems", "maxItems"},
    formats=_FORMATS,
    closed=True,
    all_required=True,
)
GEMINI = SchemaDialect(
    keywords=frozenset(("minItems", "maxItems", "minimum", "maximum", "prefixItems")),
    formats=frozenset(("date-time", "date", "time")),
    untyped=True,
    values="split",
    recursion="optional",
)


@dataclass(frozen=True, slots=True)
class SchemaSupport:
    """The JSON Schema one API supports: at the root, in strict mode, and otherwise."""

    root: Root
    strict: SchemaDialect | None = None
    loose: SchemaDialect | None = None
    """None if it supports all of JSON Schema."""
    explicit: bool = False
    """Whether every object must list its properties and every array its items."""
    size_limited: bool = False
    """Whether it limits the strict schemas' size."""


ANTHROPIC = SchemaSupport(ANTHROPIC_ROOT, strict=ANTHROPIC_STRICT)
OPENAI = SchemaSupport(OPENAI_ROOT, strict=OPENAI_STRICT, explicit=True, size_limited=True)
GOOGLE = SchemaSupport(GEMINI_ROOT, loose=GEMINI)
