"""A tool's schema in what a wire takes of JSON Schema: enforced, as it is, or in a part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from handrail.providers._limits import refuse_cycles, refuse_endless, refuse_size
from handrail.providers._loose import loosened
from handrail.providers._narrow import narrowed
from handrail.providers._neutral import Definitions, Schema, ordered, read
from handrail.providers._phrases import sentences
from handrail.providers._root import rooted
from handrail.providers._rules import (
    ANTHROPIC_ROOT,
    ANTHROPIC_STRICT,
    GEMINI,
    GEMINI_ROOT,
    OPENAI_ROOT,
    OPENAI_STRICT,
    Root,
    Rules,
)
from handrail.providers._unroll import unrolled


@dataclass(frozen=True, slots=True)
class Subset:
    """What one wire takes: at the top, where it enforces, and where it does not."""

    root: Root
    strict: Rules | None = None
    loose: Rules | None = None
    """None where it takes JSON Schema as it is."""
    filled: bool = False
    """Whether it wants what is open said in so many words."""
    sized: bool = False
    """Whether it limits the size of what it enforces."""


ANTHROPIC = Subset(ANTHROPIC_ROOT, strict=ANTHROPIC_STRICT)
OPENAI = Subset(OPENAI_ROOT, strict=OPENAI_STRICT, filled=True, sized=True)
GOOGLE = Subset(GEMINI_ROOT, loose=GEMINI)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A schema in a wire's words, and what is only described."""

    schema: Schema
    losses: tuple[str, ...]


def arguments(schema: Any, subset: Subset, *, strict: bool) -> Fitted:
    """A tool's arguments; raises Unfit where the wire has no words for them."""
    neutral, malformed = read(schema)
    made, notes, lost = rooted(neutral, subset.root)
    if notes:
        made = ordered({**made, "description": sentences(made.get("description", ""), notes)})
    lost = [*malformed, *lost, *(f"arguments: {note}" for note in notes)]
    rules = subset.strict if strict else subset.loose
    if rules is None:
        made, more = loosened(made, filled=subset.filled)
    else:
        made, more = narrowed(made, rules)
        if rules.recursion == "optional":
            made = unrolled(made, more)
        if strict:
            refuse_endless(made)
        if rules.recursion == "no":
            refuse_cycles(made)
        if subset.sized:
            refuse_size(made)
    return Fitted(made, tuple(dict.fromkeys([*lost, *more])))


def result(schema: Any) -> Fitted:
    """What a tool gives back, for a wire that takes JSON Schema as it is."""
    made, malformed = read(schema)
    loose, more = loosened(made, filled=True)
    return Fitted(loose, (*malformed, *more))


def definitions_of(schema: Schema) -> Definitions:
    """A schema's definitions, ready to be followed."""
    return Definitions(schema.get("$defs", {}))
