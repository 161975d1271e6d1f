"""Models by name: a provider's, or one written in Python."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
)
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias, cast
from urllib.parse import urlsplit

from handrail import models
from handrail._support import close_generator
from handrail.cli._base.exits import Exit, Halt, unwrap_group
from handrail.cli._base.local_servers import window_at
from handrail.cli._base.redact import redact_setting
from handrail.cli._base.settings import OWN, Settings
from handrail.cli._project.sources import NoModule, load_source
from handrail.messages import Model, ModelError, Reply, Request, StreamItem, model_names
from handrail.models import (
    RetryWait,
    find_credentials,
    find_window,
    known_prices,
    suggest_name,
)
from handrail.net import is_loopback
from handrail.providers import PROVIDERS, Provider

BY_PREFIX = {provider.prefix: provider for provider in PROVIDERS.values()}
"""Providers by the first part in a model's name."""
KEY = "HANDRAIL_API_KEY"
"""The variable with the key for a ``base_url``. Providers' SDKs read their own variables."""
CONNECT_SECONDS = 1.0
"""Seconds to wait for a server on this machine."""
_TROUBLES = {
    "overloaded": "overloaded",
    "rate_limited": "over the rate limit",
    "network": "no connection",
}
"""Temporary errors, in a few words."""
_NAMES = ", ".join(sorted(BY_PREFIX))
_FORMS = (
    f"use PROVIDER:NAME with one of {_NAMES}; or FILE.py:NAME, or MODULE:NAME; "
    "`handrail models list` lists names"
)
_SDKS = {"google": "google.genai"}
"""An SDK's package, if the extra has another name."""
_Guard: TypeAlias = Callable[[], AbstractContextManager[None]]


def model_of(
    settings: Settings,
    workspace: Path,
    *,
    needs_key: bool = True,
    say: Callable[[str], None] | None = None,
) -> Model:
    """Return the model named in the settings, or a Halt if it cannot be used.

    Pass ``needs_key=False`` to accept a provider's model without an API key and without a server,
    and ``say`` to show when a key is not sent.
    """
    named = settings["model"]
    if not named:
        hint = "choose one with `handrail init`, or pass `--model PROVIDER:NAME`"
        raise Halt("no model is set", code="no_model", hint=hint)
    check_name(named)
    provider, _, name = named.partition(":")
    if provider in BY_PREFIX:
        require_encryption(settings)
        if say is not None and (withheld := describe_withheld_key(settings)):
            say(withheld)
        if needs_key:
            _check_key(BY_PREFIX[provider], settings)
            check_server(settings)
        return _provider_model(BY_PREFIX[provider], name, settings)
    try:
        model: Any = load_source(named, workspace, settings.origins["model"])
    except NoModule:
        raise _unknown_model(named) from None
    if not callable(model):
        hint = f"define `async def {name}(request)`, and return a handrail.messages.Reply from it"
        raise Halt(f"{named} is not a model: it is not callable", code="no_model", hint=hint)
    return _GuardedModel(cast("Model", model), partial(_as_model_error, named))


def window_of(settings: Settings) -> int | None:
    """Return the model's context size in tokens, if known.

    A server on this machine is asked. One elsewhere is not: it gets nothing but the requests.
    """
    provider, _, name = (settings["model"] or "").partition(":")
    url = settings["base_url"]
    if provider not in BY_PREFIX:
        return None
    here = window_at(url, name) if url and is_loopback(address_of(url)[0]) else None
    return here or find_window(name)


def describe_known_models() -> Iterator[tuple[str, str]]:
    """Yield names of models with known prices and available credentials, and the prices."""
    for known in known_prices():
        prefix = known.provider.lower()
        if find_credentials(BY_PREFIX[prefix]) is not None:
            for name, price in known.prices.items():
                yield f"{prefix}:{name}", f"${price.input} in, ${price.output} out"


def check_name(named: str) -> None:
    """Raise a Halt if a text cannot be a model's name."""
    provider, _, name = named.partition(":")
    if not name and provider in BY_PREFIX:
        hint = f"add it: `{provider}:NAME`"
        raise Halt(f"{named!r} has no model name", code="no_model", hint=hint)
    if not name:
        raise _unknown_model(named)


def _unknown_model(named: str) -> Halt:
    """Return an error for an unknown model name, with the name probably meant."""
    provider, colon, _ = named.partition(":")
    meant = suggest_name(named)
    if provider.endswith(".py"):
        hint = f"add the name of the model in that file: `{provider}:NAME`"
    elif meant:
        hint = f"did you mean `{meant}`?" + ("" if colon else " Use PROVIDER:NAME")
    else:
        hint = _FORMS
    return Halt(f"unknown model {named!r}", code="no_model", hint=hint)


def _provider_model(provider: Provider, name: str, settings: Settings) -> Model:
    base_url = settings["base_url"]
    variable = key_variable(settings) or (KEY if has_own_address(settings) else "")
    key = os.environ.get(variable) or None
    if not _is_installed(_SDKS.get(provider.extra, provider.extra)):
        hint = f"run `pip install 'handrail[{provider.extra}]'`"
        raise Halt(f"the SDK for {provider.name} is not installed", code="no_model", hint=hint)
    make: Callable[..., Model] = getattr(models, provider.api)
    return LateModel(partial(make, name, base_url=base_url, key=key, retries=0), name)


def _is_installed(package: str) -> bool:
    with suppress(ModuleNotFoundError):  # from the package around it
        return find_spec(package) is not None
    return False


class LateModel:
    """A provider's model. Its SDK takes a second to import: it is loaded when it is needed."""

    def __init__(self, make: Callable[[], Model], name: str) -> None:
        self.names = (name,)
        """The model's name, for its price and its habits."""
        self._make = make
        self._model: Model | None = None
        self._lock = Lock()

    def load(self) -> Model:
        """Load the SDK, unless it is loaded. Any thread may do so."""
        with self._lock:
            if self._model is None:
                self._model = _GuardedModel(self._make(), _in_cli_style)
            return self._model

    def __call__(self, request: Request) -> AsyncIterator[StreamItem] | Awaitable[Reply]:
        """Reply to a request."""
        return self.load()(request)


def _check_key(provider: Provider, settings: Settings) -> None:
    """Raise a Halt if there are no credentials."""
    variable = key_variable(settings)
    if variable:
        missing = not os.environ.get(variable)
    else:
        variable = provider.keys[0]
        missing = not settings["base_url"] and find_credentials(provider) is None
    if missing:
        hint = f"set it: `export {variable}=...`, or choose another model with `handrail init`"
        raise Halt(f"no API key for {provider.name}", code="no_key", hint=hint)


def key_variable(settings: Settings) -> str:
    """Return the variable with the model's key, if the settings name one.

    A variable in a file is for the model and the address in this file: if one of these is set
    elsewhere, its server does not get the key.
    """
    level = settings.origins["key_variable"].level
    used = [name for name in ("model", "base_url") if settings[name] is not None]
    is_for_it = level == "flag" or all(settings.origins[name].level == level for name in used)
    return settings["key_variable"] or "" if is_for_it else ""


def has_own_address(settings: Settings) -> bool:
    """Return whether ``base_url`` is set, and not by the workspace: HANDRAIL_API_KEY is for it."""
    level = settings.origins["base_url"].level
    return bool(settings["base_url"]) and level in {"flag", "environment", *OWN}


def describe_withheld_key(settings: Settings) -> str:
    """Return a message if HANDRAIL_API_KEY is set and not sent to the workspace's address."""
    elsewhere = settings["base_url"] and not has_own_address(settings)
    if not elsewhere or not os.environ.get(KEY) or key_variable(settings):
        return ""
    file = Path(settings.origins["base_url"].where.rpartition(":")[0]).name
    return (
        f"the key in {KEY} is not sent to the address in {file}; name it with `key_variable` there"
    )


def require_encryption(settings: Settings) -> None:
    """Raise a Halt if the address is on another machine, and without encryption."""
    with suppress(ValueError):  # see check_server
        url = settings["base_url"] or ""
        host, _ = address_of(url)
        if url.lower().startswith("http:") and not is_loopback(host):
            where = settings.origins["base_url"].where
            message = f"base_url has no encryption: {redact_setting('base_url', url)}"
            hint = f"use https, or a server on this machine, in {where}"
            raise Halt(message, code="config", hint=hint)


def check_server(settings: Settings) -> None:
    """Raise a Halt if the address is invalid, or is on this machine and nothing listens there.

    This is known at once, before an SDK is loaded, which would retry, and before a run is saved.
    """
    url = settings["base_url"]
    if not url:
        return
    where = settings.origins["base_url"].where
    try:
        host, port = address_of(url)
    except ValueError:
        message = f"base_url is not an HTTP URL: {redact_setting('base_url', url)}"
        raise Halt(message, code="config", hint=f"use http://HOST:PORT/v1 in {where}") from None
    if not is_loopback(host) or any(map(os.environ.get, ("HTTP_PROXY", "http_proxy"))):
        return
    with suppress(TimeoutError):  # a busy server is not down
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
        except ConnectionRefusedError:
            message = f"cannot connect to {host}:{port}: connection refused"
            hint = f"is the server running? The address is from {where}"
            raise Halt(message, code="model_network", hint=hint, exits=Exit.UNREACHABLE) from None


class _GuardedModel:
    """A model running inside a guard, which translates exceptions."""

    def __init__(self, model: Model, guard: _Guard) -> None:
        self.names = model_names(model)
        self._model = model
        self._guard = guard

    def __call__(self, request: Request) -> AsyncIterator[StreamItem] | Awaitable[Reply]:
        with self._guard():
            answer = self._model(request)
        if isinstance(answer, AsyncIterator):
            return _pieces(answer, self._guard)
        is_due = isinstance(cast("object", answer), Awaitable)  # it may be anything
        return _reply(answer, self._guard) if is_due else answer


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
        with guard():
            await close_generator(answer)


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
    """Write a provider model's errors as commands do: lower case, without a full stop."""
    try:
        yield
    except ModelError as error:
        styled = copy(error)
        styled.reason = _in_lower_case(error.reason)
        styled.args = (styled.reason,)
        styled.hint = _in_lower_case(error.hint)  # shown by itself, not in the message
        raise styled from error


def _in_lower_case(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:].removesuffix('.')}"


def describe_retry(wait: RetryWait, seconds: float) -> str:
    """Return why the model is asked again, and when."""
    when = f"next try in {math.ceil(seconds)} s" if seconds > 0 else "trying again"
    return f"{_TROUBLES[wait.error.kind]}, {when} ({wait.number} of {wait.tries})"


def join_hints(first: str, second: str) -> str:
    """Join two hints into one line. The first can be a question, or empty."""
    return second if not first else f"{first}{'' if first.endswith('?') else ';'} {second}"


def address_of(url: str) -> tuple[str, int]:
    """Return an HTTP URL's host and port, or raise ValueError."""
    parts, usual = urlsplit(url), {"http": 80, "https": 443}
    if not parts.hostname or parts.scheme not in usual:
        raise ValueError
    return parts.hostname, parts.port or usual[parts.scheme]
