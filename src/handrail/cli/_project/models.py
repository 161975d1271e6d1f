"""Models by name: a provider's, or one that is written in Python."""

from __future__ import annotations

import os
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
)
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import urlsplit

from handrail import HandrailError, models
from handrail.cli._base.exits import Halt, unwrap_group
from handrail.cli._base.settings import Settings
from handrail.cli._project.sources import NoModule, load_source
from handrail.messages import Model, ModelError, Reply, Request, StreamItem
from handrail.models import find_credentials, suggest_name
from handrail.providers import PROVIDERS, Provider

BY_PREFIX = {provider.prefix: provider for provider in PROVIDERS.values()}
"""Providers by the first part of a model's name."""
KEY = "HANDRAIL_API_KEY"
"""The variable with the key for a ``base_url``. Providers' SDKs read their own variables."""
_NAMES = ", ".join(sorted(BY_PREFIX))
_FORMS = f"use PROVIDER:NAME with one of {_NAMES}; or FILE.py:NAME, or MODULE:NAME"
_Guard: TypeAlias = Callable[[], AbstractContextManager[None]]


def model_of(settings: Settings, workspace: Path, *, needs_key: bool = True) -> Model:
    """Return the model that the settings name; a Halt if it cannot be used.

    Pass ``needs_key=False`` to accept a provider's model without an API key.
    """
    named = settings["model"]
    if not named:
        hint = (
            "pass `--model PROVIDER:NAME`, such as `--model openai:NAME`, or set `HANDRAIL_MODEL`"
        )
        raise Halt("no model is set", code="no_model", hint=hint)
    provider, _, name = named.partition(":")
    if provider in BY_PREFIX:
        if not name:
            hint = f"add it: `{provider}:NAME`"
            raise Halt(f"{named!r} has no model name", code="no_model", hint=hint)
        if needs_key and not settings["base_url"]:
            _check_key(BY_PREFIX[provider])
        return _provider_model(BY_PREFIX[provider], name, settings["base_url"])
    if not name:
        raise _unknown_model(named)
    try:
        model: Any = load_source(named, workspace, settings.origins["model"])
    except NoModule:
        raise _unknown_model(named) from None
    if not callable(model):
        hint = f"define `async def {name}(request)`, and return a handrail.messages.Reply from it"
        raise Halt(f"{named} is not a model: it is not callable", code="no_model", hint=hint)
    return _wrap_model(cast("Model", model), partial(_as_model_error, named))


def _unknown_model(named: str) -> Halt:
    """Return an error for a name that means no model, with the name that was probably meant."""
    provider, colon, _ = named.partition(":")
    meant = suggest_name(named)
    if provider.endswith(".py"):
        hint = f"add the name of the model in that file: `{provider}:NAME`"
    elif meant:
        hint = f"did you mean `{meant}`?" + ("" if colon else " Use PROVIDER:NAME")
    else:
        hint = _FORMS
    return Halt(f"unknown model {named!r}", code="no_model", hint=hint)


def _provider_model(provider: Provider, name: str, base_url: str | None) -> Model:
    key = os.environ.get(KEY) or None if base_url else None  # not a provider's key
    make: Callable[..., Model] = getattr(models, provider.api)
    try:
        model = make(name, base_url=base_url, key=key)
    except HandrailError:
        raise Halt(
            f"the SDK for {provider.name} is not installed",
            code="no_model",
            hint=f"run `pip install 'handrail[{provider.extra}]'`",
        ) from None
    return _wrap_model(model, _in_cli_style)


def _check_key(provider: Provider) -> None:
    """Raise a Halt if there are no credentials."""
    if find_credentials(provider) is None:
        hint = f"set it: `export {provider.keys[0]}=...`"
        raise Halt(f"no API key for {provider.name}", code="no_key", hint=hint)


def _wrap_model(model: Model, guard: _Guard) -> Model:
    """Return a model that runs inside a guard, which translates exceptions."""

    def replies(request: Request) -> AsyncIterator[StreamItem] | Awaitable[Reply]:
        with guard():
            answer = model(request)
        if isinstance(answer, AsyncIterator):
            return _pieces(answer, guard)
        is_due = isinstance(cast("object", answer), Awaitable)  # it may be anything
        return _reply(answer, guard) if is_due else answer

    return replies


async def _reply(answer: Awaitable[Reply], guard: _Guard) -> Reply:
    with guard():
        return await answer


async def _pieces(answer: AsyncIterator[StreamItem], guard: _Guard) -> AsyncGenerator[StreamItem]:
    try:
        while True:
            with guard():
                piece = await anext(answer, None)
            if piece is None:
                return
            yield piece
    finally:
        if isinstance(answer, AsyncGenerator):
            with guard():
                await answer.aclose()


@contextmanager
def _as_model_error(named: str) -> Generator[None]:
    """Turn every exception into a ModelError. No signal raises anything while a model works."""
    try:
        yield
    except (ModelError, Halt):
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        cause = unwrap_group(error)
        what = f"{type(cause).__name__}: {cause}".removesuffix(": ")
        raise ModelError(f"{named} raised {what}") from error


@contextmanager
def _in_cli_style() -> Generator[None]:
    """Write the errors of a provider's model as commands do: lower case, without a full stop."""
    try:
        yield
    except ModelError as error:
        styled = copy(error)
        styled.reason = _in_lower_case(error.reason)
        styled.args = (styled.reason,)
        styled.hint = _in_lower_case(error.hint)  # shown by itself, not as part of the message
        raise styled from error


def _in_lower_case(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:].removesuffix('.')}"


def join_hints(first: str, second: str) -> str:
    """Join two hints into one line. The first can be a question, or empty."""
    return second if not first else f"{first}{'' if first.endswith('?') else ';'} {second}"


def address_of(url: str) -> tuple[str, int]:
    """Return the host and port of a URL; ValueError if it is not an HTTP URL."""
    parts, usual = urlsplit(url), {"http": 80, "https": 443}
    if not parts.hostname or parts.scheme not in usual:
        raise ValueError
    return parts.hostname, parts.port or usual[parts.scheme]
