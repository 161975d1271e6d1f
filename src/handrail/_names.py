"""Tool names: which are allowed, how each fits every provider, which come close to a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from handrail._errors import DefinitionError

MAX_NAME = 256
"""Characters of a tool's own name."""
MAX_WIRE_NAME = 64
"""Characters that every provider takes."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_ESCAPED = re.compile(r"_u([0-9a-f]+)_")
_HASHED = re.compile(r"_h_[0-9a-f]{16}$")
_ODD = re.compile(r"[^A-Za-z0-9_-]|^[0-9-]|_(?=u)")


def check_name(name: str) -> None:
    """Refuse a name that people could not tell from another one, or that is no name at all."""
    if not 0 < len(name) <= MAX_NAME or not name.isprintable() or name != name.strip():
        raise DefinitionError(
            f"{name[:80]!r} is no tool name: use 1 to {MAX_NAME} printable characters, "
            "without white space at the ends"
        )


def wire_name(name: str) -> str:
    """The name as every provider takes it: a letter or ``_``, then up to 63 of ``A-Za-z0-9_-``.

    A name of that form stays as it is. Of any other, each odd character becomes ``_uHEX_``; what
    is then too long is cut and ends in a hash of the whole name. Different names give different
    wire names.
    """
    if _PLAIN.fullmatch(name) and not _ESCAPED.search(name) and not _HASHED.search(name):
        return name
    escaped = _ODD.sub(lambda odd: f"_u{ord(odd[0]):x}_", name)
    if len(escaped) <= MAX_WIRE_NAME and _ESCAPED.search(escaped):
        return escaped
    import hashlib  # noqa: PLC0415  loads OpenSSL, which few programs need

    head = re.sub(r"[^A-Za-z0-9_-]|^(?=[0-9-])", "_", name)[: MAX_WIRE_NAME - 19]
    return f"{head}_h_{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def closest(name: str, known: Iterable[str], most: int = 5) -> tuple[str, ...]:
    """The known names that come nearest to a wrong one, best first."""
    import difflib  # noqa: PLC0415  only a wrong name needs it

    folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.strip().casefold(), folded, n=most, cutoff=0.6)
    return tuple(folded[one] for one in near)
