"""For whom something is counted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Literal, TypeAlias

from handrail.agent import Spender
from handrail.runs.records import as_holder

Per: TypeAlias = Literal["principal", "tenant"] | Callable[[Spender], str | None]
"""For whom something is counted. A function returns None for a spender without a limit."""


def find_holder(per: Per, spender: Spender) -> str | None:
    """Return the key for whom something is counted, or None without a limit."""
    if callable(per):
        holder = per(spender)
    elif per == "principal":
        holder = spender.principal or ""
    else:
        holder = str(spender.metadata.get("tenant", ""))
    return None if holder is None else as_holder(holder)


def check_per(what: str, per: object) -> None:
    """Raise ValueError for an unknown word."""
    if per not in ("principal", "tenant") and not callable(per):
        raise ValueError(f"{what}(per={per!r}): pass 'principal', 'tenant' or a function.")


def name_function(what: str, per: Callable[..., object]) -> str:
    """Return a function's name. Raises ValueError for one without its own, such as a lambda."""
    name = getattr(per, "__name__", "<lambda>")
    if name == "<lambda>":
        raise ValueError(f"{what}(per=...): a lambda has no name: pass `name`, or a function.")
    return str(name)


def digest(*texts: str) -> str:
    """Return a digest of texts."""
    return hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
