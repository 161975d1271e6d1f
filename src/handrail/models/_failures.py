"""Convert SDK exceptions to ModelError. The messages contain no secrets."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from json import JSONDecodeError
from math import isfinite
from time import time
from typing import Any, NamedTuple, cast

from handrail import HandrailError
from handrail._support import is_list
from handrail.messages import ModelError
from handrail.models._kinds import kind_of
from handrail.providers import PROVIDERS

_TRANSPORTS = frozenset(("aiohttp", "httpx", "httpx2"))
"""HTTP libraries used by SDKs. Some SDKs do not wrap their exceptions."""
_CHECK_KEY = "Check the API key."
_CHECK_BILLING = "Check billing and quota."
_CHECK_NETWORK = "Check the base URL and your network."
_CHECK_ACCESS = "Check that the API key has access to this model."
_HINTS: Mapping[str | int, str] = {
    401: _CHECK_KEY,
    402: _CHECK_BILLING,
    403: _CHECK_ACCESS,
    "auth": _CHECK_KEY,
    "billing_error": _CHECK_BILLING,
    "insufficient_quota": _CHECK_BILLING,
    "not_found": "Check the model name and the base URL.",
    "overloaded": "Retry later.",
    "permission_error": _CHECK_ACCESS,
    "rate_limited": "Retry later.",
    "too_long": "Send a shorter conversation.",
}
"""Hints by error code, status or kind."""
_UNAUTHORIZED = 401
"""Providers often repeat the wrong key in this error."""
_MIN_ERROR_STATUS = 400
_MAX_MESSAGE_CHARS = 500
_NO_KEY = re.compile(r"authentication method|credentials")
_SECRET_HEADER = re.compile(r"auth|cookie|key|secret|token", re.IGNORECASE)
_SECRET = re.compile(r"\b(?:sk-|AIza)[\w*.-]{6,}")
_MIN_SECRET_CHARS = 8
"""Shorter header words are ones such as Bearer."""
_INVALID_JSON = (JSONDecodeError, UnicodeDecodeError)
_REQUEST_IDS = ("request-id", "x-request-id", "x-amzn-requestid", "apim-request-id")
_RETRY_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")
"""How Google writes the seconds to wait."""


class Errors(NamedTuple):
    """An SDK's exceptions."""

    api: str
    unreachable: tuple[type[Exception], ...]
    """Raised if the server does not answer."""
    reported: tuple[type[Exception], ...]
    """Raised for errors reported by the provider, and for everything else."""


class Reported(NamedTuple):
    """A provider's facts about an error."""

    status: int = 0
    codes: tuple[str, ...] = ()
    """Its codes for the error, the most specific one first."""
    message: str = ""
    retry_after: float | None = None
    request_id: str = ""


def missing_sdk(api: str) -> HandrailError:
    """Return the error for a missing SDK."""
    provider = PROVIDERS[api]
    return HandrailError(
        f"The SDK for {provider.name} is not installed. "
        f"Run: pip install 'handrail[{provider.extra}]'"
    )


def missing_key(api: str) -> ModelError:
    """Return the error for a provider without an API key."""
    provider = PROVIDERS[api]
    hint = f"Set {' or '.join(provider.keys)}."
    return ModelError(f"No API key for {provider.name}.", "auth", hint=hint)


@contextmanager
def as_model_errors(model: str, errors: Errors) -> Generator[None]:
    """Raise an SDK's exceptions as ModelError. Other exceptions pass unchanged."""
    try:
        yield
    except Exception as error:
        converted = to_model_error(error, model, errors)
        if converted is error:
            raise
        raise converted from error


def to_model_error(
    error: Exception, model: str, errors: Errors, *, midway: bool = False
) -> Exception:
    """Return the ModelError for an SDK exception, and any other exception unchanged.

    Secrets are removed from the SDK's exception too: tracebacks show it as the cause.
    """
    converted = _convert(error, model, errors, midway=midway)
    if converted is not error:
        for cause in _causes(error):
            hidden = [_hide(part, error) if isinstance(part, str) else part for part in cause.args]
            cause.args = tuple(hidden)
    return converted


def _convert(error: Exception, model: str, errors: Errors, *, midway: bool) -> Exception:
    if _is_transport_error(error) or isinstance(error, errors.unreachable):
        return incomplete_reply(model) if midway else _unreachable(model, error)
    if isinstance(error, errors.reported):
        reported = _read(error)
        if not reported.status and _NO_KEY.search(str(error)):
            return missing_key(errors.api)
        return provider_error(model, reported)
    if isinstance(error, TypeError) and _NO_KEY.search(str(error)):
        return missing_key(errors.api)
    if isinstance(error, _INVALID_JSON) or isinstance(error.__cause__, _INVALID_JSON):
        reason = f"Model {model!r} sent a response that is not valid JSON."
        return ModelError(reason, hint="Check the base URL.")
    return error


def provider_error(model: str, reported: Reported) -> ModelError:
    """Return an error reported by the provider, with its message but without secrets."""
    status, codes = reported.status, reported.codes
    kind = kind_of(status, codes, reported.message)
    text = f"Model {model!r} failed"
    if status:
        text += f" with status {status}"
    if codes and codes[0] != str(status):
        text += f" ({codes[0]})"
    if reported.message and status != _UNAUTHORIZED:
        text += f": {_make_safe(reported.message)}"
    keys: list[str | int] = [*codes, status, kind]
    hints = [hint for key in keys if (hint := _HINTS.get(key))]
    return ModelError(
        f"{text}.",
        kind,
        hint="" if kind == "refused" or not hints else hints[0],
        status=status or None,
        code=codes[0] if codes else "",
        retry_after=reported.retry_after,
        request_id=reported.request_id,
    )


def incomplete_reply(model: str) -> ModelError:
    """Return the error for a reply ending too early."""
    reason = f"The connection to model {model!r} closed before the reply was complete."
    return ModelError(reason, "network", hint="Retry later.")


def _unreachable(model: str, error: Exception) -> ModelError:
    """Return the error for an unreachable server, with its address and the cause."""
    causes = list(_causes(error))
    addresses = [address for cause in causes if (address := _address(cause))]
    address = addresses[0] if addresses else f"model {model!r}"
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno:
            reason, hint = _explain(cause)
            return ModelError(f"Cannot connect to {address}: {reason}.", "network", hint=hint)
    timed_out = any("Timeout" in type(cause).__name__ for cause in causes)
    detail = "timed out" if timed_out else _make_safe(str(causes[-1]))
    hint = "Check the base URL and the server."
    return ModelError(f"The request to {address} failed: {detail}.", "network", hint=hint)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes, from the outermost to the innermost."""
    while error is not None:
        yield error
        cause: BaseException | None = error.__cause__ or error.__context__
        attempts: tuple[BaseException, ...] = getattr(cause, "exceptions", ())  # of a group
        error = attempts[0] if attempts else cause


def _address(error: Any) -> str:
    """Return the request's host and port, if the exception has them."""
    try:
        netloc: bytes = error.request.url.netloc
    except (AttributeError, RuntimeError):  # an HTTP library raises one if there is no request
        return ""
    return netloc.decode()


def _explain(error: OSError) -> tuple[str, str]:
    """Return why there is no connection, and a hint."""
    if isinstance(error, socket.gaierror):
        return "the host name was not found", _CHECK_NETWORK
    if isinstance(error, ssl.SSLError):
        return f"TLS error ({error.reason})", "Check the base URL and the certificate."
    reason = os.strerror(error.errno or 0).lower()
    is_refused = error.errno == errno.ECONNREFUSED
    return reason, "Is the server running?" if is_refused else _CHECK_NETWORK


def _is_transport_error(error: Exception) -> bool:
    names = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, OSError) or bool(names & _TRANSPORTS)


def _read(error: Any) -> Reported:
    """Read the fields all SDK exceptions have under different names."""
    body = _error_of(getattr(error, "body", None) or getattr(error, "details", None))
    numbers = (_first(error, int, "status_code", "code"), body.get("code"), body.get("status"))
    status = next((one for one in numbers if type(one) is int and one >= _MIN_ERROR_STATUS), 0)
    codes = (
        *(getattr(error, name, None) for name in ("code", "type", "status")),
        body.get("type"),
        _object(body, "innererror").get("code"),
        *(detail.get("reason") for detail in _details(body)),
    )
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", None) or {}
    found = [headers[name] for name in _REQUEST_IDS if name in headers]
    return Reported(
        status=status,
        codes=tuple(dict.fromkeys(code for code in codes if isinstance(code, str) and code)),
        message=_hide(_message(error, body), error),
        retry_after=_retry_after(headers, body),
        request_id=_first(error, str, "request_id") or (found[0] if found else ""),
    )


def _error_of(body: Any) -> Mapping[str, Any]:
    """Return the error in a response. Some SDKs return the whole response, some only the error."""
    whole = _object({"body": body}, "body")
    return _object(whole, "error") or whole


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = value.get(key)
    return cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else {}


def _details(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return an error's details as Google writes them."""
    details = body.get("details")
    return [one for one in details if isinstance(one, Mapping)] if is_list(details) else []


def _message(error: Any, body: Mapping[str, Any]) -> str:
    """Return the provider's own message, not the SDK's version."""
    message = body.get("message")
    return str(_first(error, str, "api_message") or message or _first(error, str, "message") or "")


def _retry_after(headers: Mapping[str, str], body: Mapping[str, Any]) -> float | None:
    """Return the seconds to wait, from the headers or from Google's error details."""
    delays = [str(detail.get("retryDelay", "")) for detail in _details(body)]
    for text, unit in (
        (headers.get("retry-after-ms"), 1000),
        (headers.get("retry-after"), 1),
        *((match[1], 1) for delay in delays if (match := _RETRY_DELAY.fullmatch(delay))),
    ):
        if text is not None and (seconds := _seconds(text)) is not None:
            return max(seconds / unit, 0.0)
    return None


def _seconds(text: str) -> float | None:
    """Return a number in seconds, or the seconds until a date."""
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        return seconds if isfinite(seconds) else None
    try:
        return parsedate_to_datetime(text).timestamp() - time()
    except ValueError:
        return None


def _first(error: Any, kind: type[Any], *names: str) -> Any:
    values = (getattr(error, name, None) for name in names)
    return next((value for value in values if isinstance(value, kind) and value), None)


def _headers(error: Any) -> Mapping[str, str]:
    """Return the request's headers. They contain credentials, which must not be shown."""
    try:
        request = getattr(error, "request", None) or getattr(error.response, "request", None)
    except (AttributeError, RuntimeError):  # an HTTP library raises one if there is no request
        return {}
    return getattr(request, "headers", {})


def _hide(message: str, error: Any) -> str:
    """Return a message without the request's credentials and other API keys."""
    for name, value in _headers(error).items():
        for piece in value.split() if _SECRET_HEADER.search(name) else ():
            if len(piece) >= _MIN_SECRET_CHARS:
                message = message.replace(piece, "[secret]")
    return _SECRET.sub("[secret]", message)


def _make_safe(message: str) -> str:
    """Return a message on one line, without API keys, truncated."""
    safe = " ".join(_SECRET.sub("[secret]", message).split())
    return safe[:_MAX_MESSAGE_CHARS].rstrip(".")
