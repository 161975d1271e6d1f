"""Listed tools: a tool as its server lists it, with a fingerprint and differences for people."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import unified_diff
from typing import Any

from handrail._support import is_list, is_object
from handrail._support.visible import list_unseen, spell_out

_FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
_SHOWN = ("title", "icons", "_meta")
_ORDERS = re.compile(
    r"<\s*+(?:/\s*+)?(?:important|system|instructions?|secret)\b"
    r"|\b(?:ignore|disregard|forget)\b.{0,40}\b(?:previous|prior|above|earlier|other)\b"
    r"|\bdo not (?:tell|mention|show|inform|reveal)\b"
    r"|\b(?:before|instead of) (?:using|calling) (?:this|any|other)\b"
    r"|\.ssh\b|\bid_rsa\b|\.aws/|\.env\b|/etc/passwd|\bapi[ _-]?keys?\b",
    re.IGNORECASE | re.DOTALL,
)
_MAX_QUOTED = 60
_MAX_SHOWN = 20_000
"""Characters shown to a user from one definition."""


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its server lists it."""

    listed: Mapping[str, Any]
    """The fields used: name, title, description, schemas and annotations."""
    shown: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    """What programs show to their users, such as icons. It is not pinned, and no model reads it."""

    @classmethod
    def read(cls, listed: Mapping[str, Any]) -> ListedTool:
        """Read a definition from a ``tools/list`` entry."""
        used, shown = (
            {name: listed[name] for name in names if listed.get(name) is not None}
            for names in (_FIELDS, _SHOWN)
        )
        return cls(used, shown if len(json.dumps(shown)) <= _MAX_SHOWN else {})

    @property
    def name(self) -> str:
        """The tool's name on its server."""
        return str(self.listed.get("name", ""))

    @property
    def description(self) -> str:
        """The description as the server sent it."""
        return str(self.listed.get("description", ""))

    @property
    def annotations(self) -> Mapping[str, Any]:
        """The server's own claims about the tool."""
        claims: Any = self.listed.get("annotations", {})
        return claims if is_object(claims) else {}

    def fingerprint(self, identity: Mapping[str, Any]) -> str:
        """Return the definition's and its server identity's common SHA-256.

        Key order and white space between keys do not change it. Everything else does.
        """
        return hashlib.sha256(canonical({"server": identity, "tool": self.listed})).hexdigest()

    def to_text(self) -> str:
        """Return the definition for a person, with invisible characters spelled out.

        A text over 20,000 characters is truncated, with a note.
        """
        text = self._to_whole_text()
        if (more := len(text) - _MAX_SHOWN) <= 0:
            return text
        return f"{text[:_MAX_SHOWN]}\n[{more:,} more characters are not shown]"

    def _to_whole_text(self) -> str:
        text = json.dumps(self.listed, indent=2, sort_keys=True, ensure_ascii=False)
        return spell_out(re.sub(r"(?<!\\)((?:\\\\)*)\\n", r"\1\n    ", text))

    def find_warnings(self) -> tuple[str, ...]:
        """Return what a person should check: too much to read, invisible characters, and orders.

        A text without warnings can still be hostile.
        """
        return tuple(dict.fromkeys(self._warn()))

    def _warn(self) -> Iterator[str]:
        if (length := len(self._to_whole_text())) > _MAX_SHOWN:
            yield f"the definition has {length:,} characters: the first {_MAX_SHOWN:,} are shown"
        for where, text in _texts(self.listed, ""):
            if unseen := list_unseen(text):
                yield f"{where} has invisible characters: {unseen}"
            if found := _ORDERS.search(text):
                quoted = spell_out(found[0])[:_MAX_QUOTED]
                yield f"{where} may give orders to a model: {quoted!r}"


def canonical(value: object) -> bytes:
    """Return JSON with sorted keys and no white space: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def describe_change(old: ListedTool, new: ListedTool) -> str:
    """Return what changed in a definition, as lines with + and -. Empty if nothing did."""
    before, after = old.to_text().splitlines(), new.to_text().splitlines()
    lines = "\n".join(unified_diff(before, after, "approved", "now", lineterm="", n=2))
    if not lines and old.listed != new.listed:
        return f"It changed after the first {_MAX_SHOWN:,} characters, which are the same."
    return lines


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield every text in a JSON value with its path, including field names."""
    if isinstance(value, str):
        yield path or "the name", value
    elif is_object(value):
        for key, inner in value.items():
            name = f"{path}.{spell_out(str(key))}".removeprefix(".")
            yield f"the name of {name}", str(key)
            yield from _texts(inner, name)
    for index, inner in enumerate(value if is_list(value) else ()):
        yield from _texts(inner, f"{path}[{index}]")
