"""Models by name: a provider's, or any that somebody wrote in Python."""

from __future__ import annotations

import os
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Mapping,
)
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from handrail import HandrailError, models
from handrail.cli._exits import Halt, alone
from handrail.cli._settings import Settings
from handrail.cli._sources import at
from handrail.messages import Model, ModelFailed, Piece, Reply, Request

PROVIDERS: Mapping[str, Callable[..., Model]] = MappingProxyType(
    {
        "anthropic": models.anthropic,
        "openai": models.openai_responses,
        "openai-chat": models.openai_chat,
        "gemini": models.gemini,
    }
)
KEY = "HANDRAIL_API_KEY"
"""The variable with the key for a server of one's own; providers' SDKs have variables of theirs."""
_HINT = (
    'give --model, set HANDRAIL_MODEL, or write model = "..." into a settings file; such as '
    "anthropic:NAME, openai:NAME, gemini:NAME, openai-chat:NAME with a base_url, or FILE.py:NAME"
)


def model_of(settings: Settings, workspace: Path) -> Model:
    """The model that the settings name."""
    named = settings["model"]
    if not named:
        raise Halt("no model is set", code="no_model", hint=_HINT)
    provider, _, name = named.partition(":")
    if provider in PROVIDERS:
        return _provided(provider, name, settings["base_url"])
    if not name:
        raise Halt(f"{named!r} names no model", code="no_model", hint=_HINT)
    found: Any = at(named, workspace, settings.origins["model"])
    if not callable(found):
        raise Halt(f"{named} is no model", code="no_model", hint="see docs/guides/agents.md")
    return _told_as_theirs(cast("Model", found), named)


def _told_as_theirs(model: Model, named: str) -> Model:
    """A model that somebody wrote. What it raises is told as its mistake, and not as ours."""

    def replies(request: Request) -> AsyncIterator[Piece] | Awaitable[Reply]:
        with _theirs(named):
            said = model(request)
        if isinstance(said, AsyncIterator):
            return _pieces(said, named)
        is_due = isinstance(cast("object", said), Awaitable)  # it may be anything
        return _reply(said, named) if is_due else said

    return replies


async def _reply(said: Awaitable[Reply], named: str) -> Reply:
    with _theirs(named):
        return await said


async def _pieces(said: AsyncIterator[Piece], named: str) -> AsyncGenerator[Piece]:
    try:
        while True:
            with _theirs(named):
                piece = await anext(said, None)
            if piece is None:
                return
            yield piece
    finally:
        if isinstance(said, AsyncGenerator):
            with _theirs(named):
                await said.aclose()


@contextmanager
def _theirs(named: str) -> Generator[None]:
    """What is raised in here is a ModelFailed. No signal raises anything while a model works."""
    try:
        yield
    except (ModelFailed, Halt):
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        one = alone(error)
        raise ModelFailed(f"{named} raised {type(one).__name__}: {one}") from error


def _provided(provider: str, name: str, base_url: str | None) -> Model:
    if not name:
        raise Halt(f"no model of {provider} is named", code="no_model", hint=_HINT)
    key = os.environ.get(KEY) or None if base_url else None  # else it would go to another
    try:
        return PROVIDERS[provider](name, base_url=base_url, key=key)
    except HandrailError as error:  # its package is not there
        raise Halt(str(error), code="no_model", hint="see `handrail doctor`") from None
