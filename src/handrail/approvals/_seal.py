"""A question as text that can lie anywhere and come back unchanged, or not at all.

Whoever holds the text can read it; only who has the key can make or change it. A yes to a changed
question would be a yes to something that nobody saw.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from handrail import Access, Call, Effect, HandrailError
from handrail.judgement import Origin, Pending

_VERSION = "handrail-pending-1"
_SHORTEST_KEY = 32
_FIELDS = frozenset(Pending.__dataclass_fields__)
_T = TypeVar("_T")


class Tampered(HandrailError):
    """A sealed question is not as it was sealed, or was sealed with another key."""


def seal(pending: Pending, key: bytes) -> str:
    """A question as URL-safe text with a signature; the key has 32 bytes or more.

    It is signed, not encrypted. ValueError for one that text cannot hold, such as arguments that
    are no JSON.
    """
    _check(key)
    try:
        body = _written(pending_to_json(pending))
        same = pending_from_json(json.loads(body.decode("utf-8", "surrogatepass"))) == pending
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"this question cannot be written as JSON: {error}") from None
    if not same:
        raise ValueError("this question would not come back as it is; give its arguments as JSON")
    head = f"{_VERSION}.{_text(body)}"
    return f"{head}.{_signature(head, key)}"


def unseal(token: str, key: bytes) -> Pending:
    """The question that was sealed with this key; Tampered for everything else."""
    _check(key)
    head, _, signature = token.rpartition(".")
    if not hmac.compare_digest(_bytes(_signature(head, key)), _bytes(signature)):
        raise Tampered("the signature does not fit: it was changed, or sealed with another key")
    version, _, body = head.partition(".")
    if version != _VERSION:
        raise Tampered("it was sealed in a form that this version does not read")
    try:
        padded = body + "=" * (-len(body) % 4)
        text = base64.b64decode(padded, b"-_", validate=True).decode("utf-8", "surrogatepass")
        return pending_from_json(json.loads(text))
    except (TypeError, ValueError, KeyError, OverflowError, RecursionError):
        raise Tampered("what was sealed is no question") from None


def _check(key: bytes) -> None:
    if len(key) < _SHORTEST_KEY:
        raise ValueError(f"a key has {_SHORTEST_KEY} bytes or more, such as secrets.token_bytes()")


def _signature(head: str, key: bytes) -> str:
    return _text(hmac.new(key, _bytes(head), hashlib.sha256).digest())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _written(plain: object) -> bytes:
    """Canonical JSON. Half characters stay halves: two of them must not come back as one."""
    return _bytes(
        json.dumps(
            plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
    )


def pending_to_json(pending: Pending) -> dict[str, Any]:
    """A question as plain data, not signed; for whoever keeps it where nobody else can write."""
    call, origin = pending.call, pending.origin
    args = call.args if isinstance(call.args, str) else dict(call.args)
    return {
        "id": pending.id,
        "call": [call.name, args, call.id],
        "effect": pending.effect.name,
        "accesses": [[one.verb.name, one.resource] for one in pending.accesses],
        "question": pending.question,
        "fingerprint": pending.fingerprint,
        "asked_at": float(pending.asked_at).hex(),  # JSON has no word for "never ends"
        "expires_at": float(pending.expires_at).hex(),
        "origin": None if origin is None else [origin.rule, origin.file, origin.line],
        "once": pending.once,
        "after": list(pending.after),
        "first": pending.first,
    }


def pending_from_json(plain: Any) -> Pending:
    """The question of what ``pending_to_json`` gave; an error of Python's own for all else."""
    fields = _as(dict[str, Any], plain)
    if fields.keys() != _FIELDS:
        raise ValueError("not these fields")
    name, args, call_id = fields["call"]
    return Pending(
        id=_as(str, fields["id"]),
        call=Call(_as(str, name), _args(args), _as(str, call_id)),
        effect=Effect[_as(str, fields["effect"])],
        accesses=tuple(_access(one) for one in _as(list[Any], fields["accesses"])),
        question=_as(str, fields["question"]),
        fingerprint=_as(str, fields["fingerprint"]),
        asked_at=float.fromhex(fields["asked_at"]),
        expires_at=float.fromhex(fields["expires_at"]),
        origin=None if fields["origin"] is None else _origin(fields["origin"]),
        once=_as(bool, fields["once"]),
        after=tuple(_as(str, one) for one in _as(list[Any], fields["after"])),
        first=_as(str, fields["first"]),
    )


def _args(args: Any) -> Mapping[str, Any] | str:
    return args if isinstance(args, str) else _as(dict[str, Any], args)


def _access(plain: Any) -> Access:
    verb, resource = plain
    return Access(Effect[_as(str, verb)], _as(str, resource))


def _origin(plain: Any) -> Origin:
    rule, file, line = plain
    return Origin(_as(str, rule), _as(str, file), _as(int, line))


def _as(kind: type[_T], value: Any) -> _T:
    """The value, if it is of exactly this type: a bool is no number here."""
    if type(value) is not getattr(kind, "__origin__", kind):
        raise TypeError(f"{type(value).__name__} is not {kind.__name__}")
    typed: _T = value
    return typed
