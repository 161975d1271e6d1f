"""Call ids: generated if an API sends none, rewritten if an API does not accept one."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

MAX_ID_CHARS = 64
"""The longest call id most APIs accept."""

_FITS = re.compile(r"[A-Za-z0-9_-]+")
_FITTED = re.compile(r"id_x[0-9a-f]{24}")


def make_id(seed: str, at: int, call: tuple[str, str], used: AbstractSet[str]) -> str:
    """Generate an id from a call's name, its arguments and its position in the reply.

    The same reply always gives the same ids, however it was split into events.
    """
    salt = 0
    while (call_id := f"call_{_digest(seed, str(at), *call, str(salt))}") in used:
        salt += 1
    return call_id


def fit_id(call_id: str, times: int, longest: int) -> str:
    """Return a valid id for an API: ``[A-Za-z0-9_-]``, at most ``longest`` characters.

    A valid id stays unchanged at its first use in a history. Different ids, and repeated uses, give
    different results.
    """
    fits = len(call_id) <= longest and _FITS.fullmatch(call_id) and not _FITTED.fullmatch(call_id)
    return call_id if fits and not times else f"id_x{_digest(call_id, str(times))}"


def _digest(*parts: str) -> str:
    import hashlib  # loads OpenSSL, which few programs need

    text = "\0".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]
