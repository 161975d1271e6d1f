"""For whom something is counted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Literal, TypeAlias

from handrail.agent import Spender

Per: TypeAlias = Literal["principal", "tenant"] | Callable[[Spender], str | None]
"""For whom something is counted. A function returns None for a spender without a limit."""
_MAX_CHARS = 200


def find_holder(per: Per, spender: Spender) -> str | None:
    """Return the key for whom something is counted, or None without a limit."""
    if callable(per):
        holder = per(spender)
    elif per == "principal":
        holder = spender.principal or ""
    else:
        holder = str(spender.metadata.get("tenant", ""))
    return None if holder is None else as_key(holder)


def check_per(what: str, per: object) -> None:
    """Raise ValueError for an unknown word."""
    if per not in ("principal", "tenant") and not callable(per):
        raise ValueError(f"{what}(per={per!r}): pass 'principal', 'tenant' or a function.")


def as_key(holder: str) -> str:
    """Return a text every database can store."""
    return holder if holder.isprintable() and len(holder) <= _MAX_CHARS else digest(holder)


def digest(*texts: str) -> str:
    """Return a digest of texts."""
    return hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
