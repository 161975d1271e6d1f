"""Fingerprint: what an approval is tied to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Any

from handrail._values.access import Access
from handrail._values.call import Args, Call
from handrail._values.spec import Spec
from handrail._values.strict_json import canonical


def fingerprint(
    call: Call, spec: Spec, args: Args, accesses: tuple[Access, ...], *, circumstances: str
) -> str:
    """Return what an approval is tied to: any other call, spec, access or policy differs in it."""
    import hashlib  # loads OpenSSL, which only programs with approvals need

    plain_spec = {field.name: _plain(getattr(spec, field.name)) for field in fields(spec)}
    plain_spec["metadata"] = canonical(dict(spec.metadata)).decode()
    # everything a person saw: an answer to another call is worse than none: decision 017
    parts = [
        call.id,
        call.name,
        plain_spec,
        args.canonical.decode(),
        [str(access) for access in accesses],
        circumstances,
    ]
    return hashlib.sha256(canonical(parts, "surrogatepass")).hexdigest()


def _plain(value: Any) -> Any:
    """Return a field of a spec as JSON, the same for equal values."""
    if isinstance(value, Enum):
        return value.name
    several: Any = value
    if isinstance(value, frozenset):
        return sorted(several)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in several.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in several]
    return value if isinstance(value, str | int | None) else repr(value)
