"""A durable runs worker's own measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

Values: TypeAlias = Iterable[tuple[Mapping[str, str], float]]
"""A value for each set of attributes."""


class Measured(Protocol):
    """One number."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def kind(self) -> str:
        """Whether it is a counter or a gauge."""
        ...

    @property
    def unit(self) -> str:
        """Its unit."""
        ...

    @property
    def text(self) -> str:
        """A sentence about it."""
        ...

    @property
    def values(self) -> Values:
        """Its values now."""
        ...


class MeasuredWorker(Protocol):
    """A worker: a ``DurableWorker``."""

    def measures(self) -> Iterable[Measured]:
        """Return all numbers."""
        ...
