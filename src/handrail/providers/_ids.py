"""Ids of calls: minted where a wire has none, fitted where another wire takes no such id."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

_FITS = re.compile(r"[A-Za-z0-9_-]+")
_FITTED = re.compile(r"id_x[0-9a-f]{24}")


def minted(seed: str, at: int, call: tuple[str, str], used: AbstractSet[str]) -> str:
    """An id for the call of this name and these arguments, at this place of the reply.

    The same reply gives the same ids, however it was cut into pieces.
    """
    salt = 0
    while (made := f"call_{_digest(seed, str(at), *call, str(salt))}") in used:
        salt += 1
    return made


def fitted(call_id: str, times: int, longest: int) -> str:
    """An id as a wire takes it: one of ``[A-Za-z0-9_-]``, no longer than that wire allows.

    What fits stays as it is, where it is the first of its name in a history. Different ids, and
    different times of one id, give different ones.
    """
    fits = len(call_id) <= longest and _FITS.fullmatch(call_id) and not _FITTED.fullmatch(call_id)
    return call_id if fits and not times else f"id_x{_digest(call_id, str(times))}"


def _digest(*words: str) -> str:
    import hashlib  # noqa: PLC0415  loads OpenSSL, which few programs need

    told = "\0".join(f"{len(word)}:{word}" for word in words)
    return hashlib.sha256(told.encode(errors="surrogatepass")).hexdigest()[:24]
