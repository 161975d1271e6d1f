"""What the fuzzers share: how many scenarios, on which loop, and how one is repeated by its seed.

A scenario is made from a seed and nothing else. The clock is virtual, and trio's scheduler draws
from the seed too, so that a failing seed fails again; only threads have a will of their own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from typing import Any, TypeVar

import pytest
import trio

import virtual_time
from handrail.events import Answered, Asked, Event, Finished, Lost, Requested

T = TypeVar("T")

PROFILE = os.environ.get("HANDRAIL_PROFILE", "quick")
SCENARIOS = {"brief": 60, "soak": 10_000}.get(PROFILE, 200)
AS_LONG_AS_IT_TAKES = pytest.mark.timeout(SCENARIOS * 3)

WHO: ContextVar[str] = ContextVar("who", default="nobody")
"""Whose call it is; a tool or a hook that sees another value was given another caller's context."""


class Found(AssertionError):
    """A scenario that went wrong."""


def check_all(check: Callable[[int], None], seeds: Iterable[int]) -> None:
    """Check scenarios; the first that goes wrong is named by its seed."""
    for seed in seeds:
        try:
            check(seed)
        except Exception as error:
            raise Found(f"seed {seed}: {type(error).__name__}: {error}") from error


def finds(check: Callable[[int], None], seeds: Iterable[int]) -> bool:
    """Return whether one of these scenarios goes wrong, as it should with a broken core."""
    for seed in seeds:
        try:
            check(seed)
        except Exception:  # noqa: BLE001  a broken core may fail in any way
            return True
    return False


def run(backend: str, seed: int, main: Callable[[], Awaitable[T]], *, idle: float = 0.0) -> T:
    """Run a scenario in virtual time; with threads, time stands still until they were idle."""
    with same_every_time(seed), quiet():
        return virtual_time.run(backend, main, idle=idle)


@contextmanager
def quiet() -> Iterator[None]:
    """Log nothing: what breaks here, breaks on purpose."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@contextmanager
def same_every_time(seed: int) -> Iterator[None]:
    """Let trio choose which task goes first by the seed, as its plugin for hypothesis does."""
    scheduler: Any = trio._core._run  # noqa: SLF001
    before = scheduler._ALLOW_DETERMINISTIC_SCHEDULING  # noqa: SLF001
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True  # noqa: SLF001
    scheduler._r.seed(seed)  # noqa: SLF001
    try:
        yield
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING = before  # noqa: SLF001


def call_id_of(event: Event) -> str:
    """Return the id of the call that an event is about."""
    match event:
        case Requested():
            return event.call.id
        case Asked():
            return event.pending.call.id
        case Finished():
            return event.result.call_id
        case Lost():
            raise Found("a listener lost events")
        case Answered():
            return event.call_id
    return event.call_id


def dice(seed: int) -> Random:
    """Return what makes all choices of a scenario."""
    return Random(seed)  # noqa: S311  it keeps no secrets


def some(rng: Random, chance: float) -> bool:
    """Return True so often."""
    return rng.random() < chance
