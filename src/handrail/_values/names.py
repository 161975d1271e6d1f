"""Tool names: which are valid, how APIs receive them, and which are close to a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from handrail._values.errors import DefinitionError

MAX_NAME = 256
"""Characters of a tool's own name."""
MAX_WIRE_NAME = 64
"""Characters of a name every API accepts."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_ESCAPED = re.compile(r"_u([0-9a-f]+)_")
_HASHED = re.compile(r"_h_[0-9a-f]{16}$")
_ODD = re.compile(r"[^A-Za-z0-9_-]|^[0-9-]|_(?=u)")


def check_name(name: str) -> None:
    """Raise DefinitionError for an empty or long name, or one with characters that mislead."""
    if not 0 < len(name) <= MAX_NAME or not name.isprintable() or name != name.strip():
        raise DefinitionError(
            f"{name[:80]!r} is not a valid tool name. Use 1 to {MAX_NAME} printable characters, "
            "without whitespace at the ends."
        )


def api_name(name: str) -> str:
    """Return a name every API accepts: a letter or ``_``, then up to 63 of ``A-Za-z0-9_-``.

    A name of that form stays unchanged. In any other, each invalid character becomes ``_uHEX_``. A
    name that is then too long is cut, and ends in a hash of the whole name. Different names give
    different API names.
    """
    if _PLAIN.fullmatch(name) and not _ESCAPED.search(name) and not _HASHED.search(name):
        return name
    escaped = _ODD.sub(lambda odd: f"_u{ord(odd[0]):x}_", name)
    if len(escaped) <= MAX_WIRE_NAME and _ESCAPED.search(escaped):
        return escaped
    import hashlib  # loads OpenSSL, which few programs need

    head = re.sub(r"[^A-Za-z0-9_-]|^(?=[0-9-])", "_", name)[: MAX_WIRE_NAME - 19]
    return f"{head}_h_{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def closest(name: str, known: Iterable[str], most: int = 5, cutoff: float = 0.6) -> tuple[str, ...]:
    """Return the known names that are close to a wrong one, best first."""
    import difflib  # needed only for a wrong name

    folded = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(name.strip().casefold(), folded, n=most, cutoff=cutoff)
    return tuple(folded[name] for name in near)


def join_or(names: Sequence[str]) -> str:
    """Return names as a list that ends in "or"."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
