"""Convert the exceptions of SDKs to ModelError. The messages contain no secrets."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from json import JSONDecodeError
from typing import Any, NamedTuple, cast

from handrail import HandrailError
from handrail.messages import ModelError, ModelErrorKind
from handrail.providers import PROVIDERS

_TRANSPORTS = frozenset(("aiohttp", "httpx", "httpx2"))
"""HTTP libraries of SDKs. Some SDKs do not wrap their exceptions."""
_STATUSES: Mapping[int, ModelErrorKind] = {
    401: "refused",
    402: "refused",
    403: "refused",
    429: "busy",
    503: "busy",
    529: "busy",
}
_CODES: Mapping[str, ModelErrorKind] = {
    "authentication_error": "refused",
    "billing_error": "refused",
    "insufficient_quota": "refused",  # sent with status 429, but retrying does not help
    "overloaded_error": "busy",
    "permission_error": "refused",
    "rate_limit_error": "busy",
    "rate_limit_exceeded": "busy",
}
_CHECK_KEY = "Check the API key."
_CHECK_BILLING = "Check billing and quota."
_CHECK_NETWORK = "Check the base URL and your network."
_CHECK_ACCESS = "Check that the API key has access to this model."
_HINTS: Mapping[str | int, str] = {
    401: _CHECK_KEY,
    402: _CHECK_BILLING,
    403: _CHECK_ACCESS,
    404: "Check the model name and the base URL.",
    "authentication_error": _CHECK_KEY,
    "billing_error": _CHECK_BILLING,
    "busy": "Retry later.",
    "insufficient_quota": _CHECK_BILLING,
    "permission_error": _CHECK_ACCESS,
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
"""Shorter parts of a header are words such as Bearer."""
_INVALID_JSON = (JSONDecodeError, UnicodeDecodeError)


class Errors(NamedTuple):
    """The exceptions of an SDK."""

    api: str
    unreachable: tuple[type[Exception], ...]
    """Raised if the server does not answer."""
    reported: tuple[type[Exception], ...]
    """Raised for errors that the provider reports, and for everything else."""


def missing_sdk(api: str) -> HandrailError:
    """Return the error for an SDK that is not installed."""
    provider = PROVIDERS[api]
    return HandrailError(
        f"The SDK for {provider.name} is not installed. "
        f"Run: pip install 'handrail[{provider.extra}]'"
    )


def missing_key(api: str) -> ModelError:
    """Return the error for a provider without an API key."""
    provider = PROVIDERS[api]
    hint = f"Set {' or '.join(provider.keys)}."
    return ModelError(f"No API key for {provider.name}.", "refused", hint=hint)


@contextmanager
def as_model_errors(model: str, errors: Errors, *, midway: bool = False) -> Generator[None]:
    """Raise the exceptions of an SDK as ModelError. Other exceptions pass unchanged."""
    try:
        yield
    except Exception as error:
        if _is_transport_error(error) or isinstance(error, errors.unreachable):
            raise incomplete_reply(model) if midway else _unreachable(model, error) from None
        if isinstance(error, errors.reported):
            raise _reported(error, model, errors.api) from None
        if isinstance(error, TypeError) and _NO_KEY.search(str(error)):
            raise missing_key(errors.api) from None
        if isinstance(error, _INVALID_JSON) or isinstance(error.__cause__, _INVALID_JSON):
            reason = f"Model {model!r} sent a response that is not valid JSON."
            raise ModelError(reason, hint="Check the base URL.") from None
        raise


def provider_error(model: str, *, status: int = 0, code: str = "", message: str = "") -> ModelError:
    """Return an error that the provider reports, with its message but without secrets."""
    kind = _CODES.get(code) or _STATUSES.get(status, "other")
    text = f"Model {model!r} failed"
    if status >= _MIN_ERROR_STATUS:
        text += f" with status {status}"
    if code and code != str(status):
        text += f" ({code})"
    if message and status != _UNAUTHORIZED:
        text += f": {_make_safe(message)}"
    hint = _HINTS.get(code) or _HINTS.get(status) or _HINTS.get(kind, "")
    return ModelError(f"{text}.", kind, hint=hint)


def incomplete_reply(model: str) -> ModelError:
    """Return the error for a reply that ended too early."""
    reason = f"The connection to model {model!r} closed before the reply was complete."
    return ModelError(reason, "unreachable", hint="Retry later.")


def _unreachable(model: str, error: Exception) -> ModelError:
    """Return the error for a server that does not answer, with its address and the cause."""
    causes = list(_causes(error))
    addresses = [address for cause in causes if (address := _address(cause))]
    address = addresses[0] if addresses else f"model {model!r}"
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno:
            reason, hint = _explain(cause)
            return ModelError(f"Cannot connect to {address}: {reason}.", "unreachable", hint=hint)
    timed_out = any("Timeout" in type(cause).__name__ for cause in causes)
    detail = "timed out" if timed_out else _make_safe(str(causes[-1]))
    hint = "Check the base URL and the server."
    return ModelError(f"The request to {address} failed: {detail}.", "unreachable", hint=hint)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes, from the outermost to the innermost."""
    while error is not None:
        yield error
        cause: BaseException | None = error.__cause__ or error.__context__
        attempts: tuple[BaseException, ...] = getattr(cause, "exceptions", ())  # of a group
        error = attempts[0] if attempts else cause


def _address(error: Any) -> str:
    """Return the host and port that a request was sent to, if the exception has them."""
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


def _reported(error: Any, model: str, api: str) -> ModelError:
    """Read the fields that the exceptions of all SDKs have under different names."""
    status = _first(error, int, "status_code", "code")
    if not status and _NO_KEY.search(str(error)):
        return missing_key(api)
    return provider_error(
        model,
        status=status or 0,
        code=_first(error, str, "code", "type", "status") or "",
        message=_hide_headers(_message(error), _headers(error)),
    )


def _message(error: Any) -> str:
    """Return the provider's own message, not the one that the SDK makes of it."""
    body = getattr(error, "body", None)
    message = cast("Mapping[str, Any]", body).get("message") if isinstance(body, Mapping) else None
    return str(_first(error, str, "api_message") or message or _first(error, str, "message") or "")


def _first(error: Any, kind: type[Any], *names: str) -> Any:
    values = (getattr(error, name, None) for name in names)
    return next((value for value in values if isinstance(value, kind) and value), None)


def _headers(error: Any) -> Mapping[str, str]:
    """Return the headers of the request. They contain credentials, which must not be shown."""
    response = getattr(error, "response", None)
    request = getattr(error, "request", None) or getattr(response, "request", None)
    return getattr(request, "headers", {})


def _hide_headers(message: str, headers: Mapping[str, str]) -> str:
    for name, value in headers.items():
        for piece in value.split() if _SECRET_HEADER.search(name) else ():
            if len(piece) >= _MIN_SECRET_CHARS:
                message = message.replace(piece, "[secret]")
    return message


def _make_safe(message: str) -> str:
    """Return a message on one line, without API keys, truncated."""
    safe = " ".join(_SECRET.sub("[secret]", message).split())
    return safe[:_MAX_MESSAGE_CHARS].rstrip(".")
