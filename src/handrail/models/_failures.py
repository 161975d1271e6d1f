"""What goes wrong between a client and its provider, as ModelFailed, in words without secrets."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from json import JSONDecodeError
from typing import Any, NamedTuple, cast

from handrail import HandrailError
from handrail.messages import ModelFailed, Trouble

_TRANSPORTS = frozenset(("aiohttp", "httpx", "httpx2"))
"""What SDKs talk HTTP with; some let its exceptions through."""
_STATUSES: Mapping[int, Trouble] = {
    401: "refused",
    402: "refused",
    403: "refused",
    429: "busy",
    503: "busy",
    529: "busy",
}
_CODES: Mapping[str, Trouble] = {
    "authentication_error": "refused",
    "billing_error": "refused",
    "insufficient_quota": "refused",  # comes as a 429, and no waiting helps
    "overloaded_error": "busy",
    "permission_error": "refused",
    "rate_limit_error": "busy",
    "rate_limit_exceeded": "busy",
}
_ADVICE: Mapping[Trouble, str] = {
    "busy": "; try again later",
    "other": "",
    "refused": "; check the key, and what it may be used for",
    "unreachable": "; check the address and the network",
}
_HUSHED = 401
"""Providers like to repeat a wrong key to whoever sent it."""
_LOWEST_STATUS = 400
_MOST_WORDS = 500
_NO_KEY = re.compile(r"authentication method|credentials")
_SECRET_HEADER = re.compile(r"auth|cookie|key|secret|token", re.IGNORECASE)
_SECRET = re.compile(r"\b(?:sk-|AIza)[\w*.-]{6,}")
_SHORTEST_SECRET = 8
"""Shorter pieces are words, as Bearer is."""
_GARBLED = (JSONDecodeError, UnicodeDecodeError)


class Errors(NamedTuple):
    """The exceptions of an SDK."""

    lost: tuple[type[Exception], ...]
    """Nobody was there."""
    told: tuple[type[Exception], ...]
    """All others."""


def missing(extra: str) -> HandrailError:
    """What to say where an SDK is not installed."""
    return HandrailError(
        f"this model needs the package of its provider: pip install 'handrail[{extra}]'"
    )


@contextmanager
def in_words(who: str, errors: Errors, *, midway: bool = False) -> Generator[None]:
    """What a client raises in here is a ModelFailed; what somebody's code raises stays as it is."""
    try:
        yield
    except Exception as error:
        if _transport(error) or isinstance(error, errors.lost):
            raise broken_off(who) if midway else _unreachable(who) from None
        if isinstance(error, errors.told):
            raise _told(error, who) from None
        if isinstance(error, TypeError) and _NO_KEY.search(str(error)):
            raise without_key(who) from None
        if isinstance(error, _GARBLED) or isinstance(error.__cause__, _GARBLED):
            raise ModelFailed(f"{who} sent what is no reply") from None
        raise


def failed(who: str, *, status: int = 0, code: str = "", words: str = "") -> ModelFailed:
    """What a provider says went wrong, in its own words as far as they can be shown."""
    trouble = _CODES.get(code) or _STATUSES.get(status, "other")
    told = f" with status {status}" if status >= _LOWEST_STATUS else " with an error"
    if code and code != str(status):
        told += f" ({code})"
    if words and status != _HUSHED:
        told += f": {' '.join(_SECRET.sub('[secret]', words).split())[:_MOST_WORDS].rstrip('.')}"
    return ModelFailed(f"{who} answered{told}{_ADVICE[trouble]}", trouble)


def broken_off(who: str) -> ModelFailed:
    """A reply of which there is only the beginning."""
    return ModelFailed(f"the reply of {who} broke off before its end", "unreachable")


def without_key(who: str) -> ModelFailed:
    """Nothing to prove with who asks."""
    return ModelFailed(
        f"{who} needs a key, and none was found; give one, or set the variable of its provider",
        "refused",
    )


def _unreachable(who: str) -> ModelFailed:
    return ModelFailed(f"{who} could not be reached{_ADVICE['unreachable']}", "unreachable")


def _transport(error: Exception) -> bool:
    names = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, OSError) or bool(names & _TRANSPORTS)


def _told(error: Any, who: str) -> ModelFailed:
    """From what the exceptions of all SDKs have, each under names of its own."""
    status = _first(error, int, "status_code", "code")
    if not status and _NO_KEY.search(str(error)):
        return without_key(who)
    return failed(
        who,
        status=status or 0,
        code=_first(error, str, "code", "type", "status") or "",
        words=_hushed(_words(error), _headers(error)),
    )


def _words(error: Any) -> str:
    """The provider's own, not those that an SDK makes of them."""
    body = getattr(error, "body", None)
    told = cast("Mapping[str, Any]", body).get("message") if isinstance(body, Mapping) else None
    return str(_first(error, str, "api_message") or told or _first(error, str, "message") or "")


def _first(error: Any, kind: type[Any], *names: str) -> Any:
    found = (getattr(error, name, None) for name in names)
    return next((one for one in found if isinstance(one, kind) and one), None)


def _headers(error: Any) -> Mapping[str, str]:
    """Those of the request: what was sent to prove who asks is not to be shown."""
    answered = getattr(error, "response", None)
    asked = getattr(error, "request", None) or getattr(answered, "request", None)
    return getattr(asked, "headers", {})


def _hushed(words: str, headers: Mapping[str, str]) -> str:
    for name, value in headers.items():
        for piece in value.split() if _SECRET_HEADER.search(name) else ():
            if len(piece) >= _SHORTEST_SECRET:
                words = words.replace(piece, "[secret]")
    return words
