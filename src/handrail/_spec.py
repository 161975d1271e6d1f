"""What a model is told about a tool, and the tool's static promises: data without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from handrail._content import Json
from handrail._effect import READ, WRITE, Effect, Exposure
from handrail._errors import DefinitionError
from handrail._names import check_name

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema (2020-12) object. ``Any``, since reading one is a walk through unlike values."""

Strict: TypeAlias = Literal["auto", "on", "off"]
"""Whether a provider should enforce the schema: where that loses nothing, always, or never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Which waits lie between attempts: doubling from ``base`` to ``cap`` seconds, fully jittered.

    Only a failure that the tool calls transient is tried again, and only where the tool reads or
    is idempotent.
    """

    attempts: int = 3
    base: float = 0.5
    cap: float = 30.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.base < 0 or self.cap < self.base:
            raise ValueError(f"{self!r}: it takes attempts >= 1 and 0 <= base <= cap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What a model is told about a tool, and the tool's static promises.

    The defaults sit at the safe end: it may write, it is not idempotent, it is not retried.
    Treat the schemas as read-only, as you would any field of a frozen value.
    """

    name: str
    description: str
    input_schema: Schema
    output_schema: Schema | None = None
    effect: Effect = WRITE
    exposure: Exposure = Exposure.DIRECT
    aliases: tuple[str, ...] = ()
    idempotent: bool = False
    timeout: float | None = None
    """Seconds one attempt may take; the executor's own limit where it is None."""
    retry: Retry | None = None
    max_chars: int | None = None
    """Characters of a result that a model is shown; the executor's own limit where it is None."""
    search_hint: str = ""
    """Other words a model may look for the tool with."""
    examples: tuple[Mapping[str, Json], ...] = ()
    strict: Strict = "auto"
    tags: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in (self.name, *self.aliases):
            check_name(name)
        if self.name in self.aliases or len(set(self.aliases)) < len(self.aliases):
            raise DefinitionError(f"{self.name!r} names itself, or one alias twice, in its aliases")
        for option in ("timeout", "max_chars"):
            limit = getattr(self, option)
            if limit is not None and not limit > 0:
                raise DefinitionError(
                    f"{self.name!r} has {option}={limit!r}: it must be above zero"
                )
        if self.retry is not None and self.effect != READ and not self.idempotent:
            raise DefinitionError(
                f"{self.name!r} may not be retried: that could repeat its effect. "
                "Say effect=READ or idempotent=True if either is true, or drop retry."
            )
