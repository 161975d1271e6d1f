"""Spec: the definition of a tool a model receives, and the tool's declarations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from handrail._values.content import Json, estimate_tokens
from handrail._values.effect import READ, WRITE, Effect, Exposure
from handrail._values.errors import DefinitionError
from handrail._values.names import check_name
from handrail._values.strict_json import canonical

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema (2020-12) object. Its values have too many types to be worth naming."""

Strict: TypeAlias = Literal["auto", "on", "off"]
"""Whether a provider enforces the schema: if nothing is lost, always, or never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How many attempts a call gets, and how long to wait between them.

    The waits double from ``base`` to ``cap`` seconds, with full jitter. Only a ``Transient``
    failure is retried, and only if the tool reads or is idempotent.
    """

    attempts: int = 3
    base: float = 0.5
    cap: float = 30.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.base < 0 or self.cap < self.base:
            raise ValueError(f"{self!r} is not valid: use attempts >= 1 and 0 <= base <= cap.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The definition of a tool a model receives, and the tool's declarations.

    The defaults are safe: the tool may write, is not idempotent, and is not retried. Treat the
    schemas as read-only, like any field of a frozen value.
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
    """Seconds for one attempt. None means the executor's limit."""
    retry: Retry | None = None
    max_chars: int | None = None
    """Characters of a result a model receives. None means the executor's limit."""
    search_hint: str = ""
    """Other words a model may search for."""
    instead_of: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools models know from elsewhere, and the purpose for which to use this one."""
    examples: tuple[Mapping[str, Json], ...] = ()
    strict: Strict = "auto"
    tags: frozenset[str] = frozenset()
    needs_approval: bool = False
    """Whether every call needs approval, whatever the policy allows."""
    private: bool = False
    """Whether its results are private: a rule can ask before anything leaves after them."""
    framed: bool = False
    """Whether a model sees where its results begin and end, and that they are data: others may have
    written them."""
    exclusive: bool = False
    """Whether a call runs alone, even if the tool only reads."""
    background: bool = False
    """Whether an agent continues while a call runs, and reads its result later."""
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Facts for your application and its policies. A model sees `namespace` alone, in a search."""

    def __post_init__(self) -> None:
        for name in (self.name, *self.aliases):
            check_name(name)
        if self.name in self.aliases or len(set(self.aliases)) < len(self.aliases):
            raise DefinitionError(
                f"The aliases of {self.name!r} have its own name, or one alias twice: "
                f"{', '.join(self.aliases)}."
            )
        for option in ("timeout", "max_chars"):
            limit = getattr(self, option)
            if limit is not None and not limit > 0:
                raise DefinitionError(
                    f"{self.name!r} has {option}={limit!r}, which must be greater than 0."
                )
        if self.retry is not None and self.effect != READ and not self.idempotent:
            raise DefinitionError(
                f"{self.name!r} cannot be retried: that could repeat a side effect. "
                "Set effect=READ or idempotent=True if either is true, or remove retry."
            )
        if self.metadata:
            _check_metadata(self.name, self.metadata)

    @property
    def tokens(self) -> int:
        """About how many tokens the definition costs a model: a quarter of its characters."""
        sent = json.dumps([self.name, self.description, self.input_schema], ensure_ascii=False)
        return estimate_tokens(sent)


def _check_metadata(name: str, metadata: Mapping[str, Any]) -> None:
    plain = dict(metadata)
    try:
        same = json.loads(canonical(plain)) == plain
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise DefinitionError(
            f"{name!r} has metadata that JSON cannot represent. "
            "Use strings, finite numbers, booleans, None, lists and dicts with string keys."
        )
