"""Models surviving the failures of others: they retry, or ask another model."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import anyio

from handrail import Call
from handrail._support import stream_items
from handrail.messages import (
    NO_USAGE,
    Model,
    ModelError,
    ModelErrorKind,
    Reply,
    Request,
    Restart,
    StreamItem,
    Usage,
    model_names,
)

_Kinds: TypeAlias = Collection[ModelErrorKind]
TEMPORARY: _Kinds = frozenset(("rate_limited", "overloaded", "network"))
"""Errors likely to be temporary."""
REPLACEABLE: _Kinds = frozenset((*TEMPORARY, "too_long", "auth", "not_found"))
"""Errors another model may not have."""
_JITTER = 0.25
"""Random addition to a wait, as a fraction, to keep clients from retrying at the same time."""


class RetryWait(NamedTuple):
    """A wait before another try."""

    error: ModelError
    """Why the last try failed."""
    seconds: float
    number: int
    """The next try's number, from 2."""
    tries: int
    """Maximum tries."""


class ModelOfModels:
    """A model asking other models."""

    __slots__ = ("_replies", "names")

    def __init__(
        self, replies: Callable[[Request], AsyncIterator[StreamItem]], names: Iterable[str]
    ) -> None:
        self._replies = replies
        self.names = tuple(dict.fromkeys(names))
        """The names of the models it asks, to find their prices."""

    def __call__(self, request: Request) -> AsyncIterator[StreamItem]:
        """Reply to a request."""
        return self._replies(request)


def retrying(
    model: Model,
    *,
    tries: int = 3,
    wait: float = 1.0,
    max_wait: float = 60.0,
    kinds: _Kinds = TEMPORARY,
    on_wait: Callable[[RetryWait], None] | None = None,
) -> Model:
    """Return a model retrying requests, also if a reply fails in the middle.

    Text is passed on as it arrives. If a reply fails after some text, a ``Restart`` follows. Calls
    are passed on when the reply is complete. The reply's usage includes failed tries.

    Args:
        model: The model to ask.
        tries: Maximum requests.
        wait: Seconds before the second try. Each further wait is twice as long. A wait requested by
            the provider is used instead.
        max_wait: Maximum seconds to wait. If the provider requires more, the error is raised.
        kinds: Error kinds to retry.
        on_wait: Gets each wait before it begins, to show it.
    """
    if tries < 1:
        raise ValueError(f"tries must be at least 1, got {tries}")

    async def replies(request: Request) -> AsyncIterator[StreamItem]:
        attempts, number = _Attempts(), 1
        while True:
            async with aclosing(attempts.ask(model, request)) as items:
                async for item in items:
                    yield item
            error = attempts.error
            if error is None:
                return
            seconds = _seconds(error, min(wait * 2 ** (number - 1), max_wait))
            if number == tries or error.kind not in kinds or seconds > max_wait * (1 + _JITTER):
                error.usage = attempts.used
                raise error
            number += 1
            if on_wait is not None:
                on_wait(RetryWait(error, seconds, number, tries))
            await anyio.sleep(seconds)

    return ModelOfModels(replies, model_names(model))


def fallback(*models: Model, kinds: _Kinds = REPLACEABLE) -> Model:
    """Return a model asking the first model, then after a failure the next one, and so on.

    Text is passed on as it arrives. If a reply fails after some text, a ``Restart`` follows. Calls
    are passed on when the reply is complete. The reply's usage includes failed models.

    Args:
        *models: The models, in order.
        kinds: Error kinds after which the next model is asked.
    """
    if not models:
        raise ValueError("fallback needs at least one model")

    async def replies(request: Request) -> AsyncIterator[StreamItem]:
        attempts, left = _Attempts(), list(models)
        while True:
            async with aclosing(attempts.ask(left.pop(0), request)) as items:
                async for item in items:
                    yield item
            error = attempts.error
            if error is None:
                return
            if not left or error.kind not in kinds:
                error.usage = attempts.used
                raise error

    return ModelOfModels(replies, [name for model in models for name in model_names(model)])


class _Attempts:
    """Attempts to get one reply."""

    def __init__(self) -> None:
        self.error: ModelError | None = None
        """Why the last attempt failed."""
        self.used = NO_USAGE
        """The failed attempts' tokens."""
        self._has_sent = False

    async def ask(self, model: Model, request: Request) -> AsyncGenerator[StreamItem]:
        """Yield one attempt's items: text immediately, calls and the reply when it is complete."""
        error, self.error = self.error, None
        if error is not None and self._has_sent:
            self._has_sent = False
            yield Restart(error.reason)
        calls: list[Call] = []
        try:
            async with aclosing(stream_items(model(request))) as items:
                async for item in items:
                    if isinstance(item, Reply):
                        for call in calls:
                            yield call
                        yield _add_usage(item, self.used)
                    elif isinstance(item, Call):
                        calls.append(item)
                    else:
                        self._has_sent = True
                        yield item
        except ModelError as failed:
            self.error = failed
            self.used += failed.usage


def _add_usage(reply: Reply, used: Usage) -> Reply:
    return replace(reply, usage=reply.usage + used) if used != NO_USAGE else reply


def _seconds(error: ModelError, wait: float) -> float:
    """Return how long to wait. The provider's own statement is never shortened."""
    least = wait if error.retry_after is None else error.retry_after
    return least * random.uniform(1, 1 + _JITTER)  # noqa: S311  no secret
