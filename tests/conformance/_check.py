"""Run provocations against a host, and write down what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import anyio

from conformance._provocations import OK, PROVOCATIONS, Provocation
from conformance._setup import Conversation, Host, Setup, Skipped
from conformance._world import CALLER, OVERLAP_SECONDS, World

PATIENCE_SECONDS = 15.0
"""How long a host gets for one provocation: much more than a tool may run."""
SKIPPED = "n/a"


class Observation(NamedTuple):
    """How one provocation ended."""

    word: str
    """``ok``, ``n/a``, or in one or two words what went wrong."""
    detail: str = ""
    """The model's input, or the error ending the run."""


async def check(
    host: Host,
    provocations: Sequence[Provocation] = PROVOCATIONS,
    *,
    patience: float = PATIENCE_SECONDS,
) -> dict[str, Observation]:
    """Run provocations against a host, one after the other. Returns what happened, by name.

    Args:
        host: The tools' host.
        provocations: The provocations to run.
        patience: Seconds for each.
    """
    return {one.name: await _observe(host, one, patience) for one in provocations}


async def _observe(host: Host, provocation: Provocation, patience: float) -> Observation:
    setup = Setup(
        world=World(),
        words=provocation.words,
        is_late=provocation.is_late,
        needs=provocation.needs,
        withdrawn=provocation.withdrawn,
        tool_timeout=provocation.tool_timeout,
    )
    talks = [Conversation(provocation.reply, setup.withdraw) for _ in provocation.callers]
    try:
        with anyio.fail_after(min(patience, provocation.patience)):
            await _run_all(host(setup), provocation, setup, talks)
    except TimeoutError:
        return Observation("hangs")
    except Exception as error:  # noqa: BLE001  the host's own
        return _died(error)
    read = " | ".join([read.text for talk in talks for read in talk.read])
    return Observation(provocation.judge(setup, talks), _clip(read))


def _unwrap(error: Exception) -> Exception:
    """Return a group's only exception."""
    if not isinstance(error, ExceptionGroup):
        return error
    group = cast("ExceptionGroup[Exception]", error)
    return _unwrap(group.exceptions[0]) if len(group.exceptions) == 1 else group


def _died(error: Exception) -> Observation:
    error = _unwrap(error)
    if isinstance(error, Skipped):
        return Observation(SKIPPED, f"The host has no {error}.")
    return Observation("dies", _clip(f"{type(error).__name__}: {error}"))


async def _run_all(
    run: Callable[[Conversation], Any],
    provocation: Provocation,
    setup: Setup,
    talks: Sequence[Conversation],
) -> None:
    """Run all callers' conversations, each in its own context."""

    async def talk(caller: str, conversation: Conversation) -> None:
        CALLER.set(caller)
        await run(conversation)

    async with anyio.create_task_group() as tasks:
        for caller, conversation in zip(provocation.callers, talks, strict=True):
            tasks.start_soon(talk, caller, conversation)
        if provocation.is_cancelled:
            await setup.world.begun.wait()
            await anyio.sleep(OVERLAP_SECONDS)  # no caller cancels in the very same moment
            tasks.cancel_scope.cancel()


def _clip(text: str) -> str:
    return text if len(text) <= _MAX_DETAIL_CHARS else f"{text[:_MAX_DETAIL_CHARS]}…"


_MAX_DETAIL_CHARS = 300


def is_good(observation: Observation) -> bool:
    """Return whether a host did the right thing, or was not tried."""
    return observation.word in {OK, SKIPPED}
