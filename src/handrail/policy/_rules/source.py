"""Rules about sources: who named a call's values, and what its run has read before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias, get_args

from handrail import Access, Effect
from handrail._support import is_list
from handrail.policy._rules.errors import InvalidRule
from handrail.sources import SourceKind, ValueSource

SourceRules: TypeAlias = bool | Literal["strict", "unattended"]
"""Whether the ready rules about sources apply. Strict ones also ask about addresses that were read;
those for unattended runs also ask before anything leaves after private data was read."""
SourceTest: TypeAlias = SourceKind | Literal["", "none"]
After: TypeAlias = Literal["read", "private"]


class Touches(Protocol):
    """An ``access`` entry in a rule."""

    def meets(self, access: Access, /) -> bool:
        """Return whether it is about an access."""
        ...


_KINDS = get_args(SourceKind)


@dataclass(frozen=True, slots=True)
class SourceMatch:
    """A rule's condition on sources."""

    kind: SourceTest = ""
    """The best matching source, ``none`` for a call that names nothing, or "" for any."""
    links: bool = False
    """Whether it is about links in texts, not destinations."""
    after: frozenset[After] = frozenset()
    """What the run must have read before."""

    def __bool__(self) -> bool:
        return bool(self.kind or self.after)

    @property
    def is_about_names(self) -> bool:
        """Whether it matches only calls that name something."""
        return self.kind not in ("", "none")

    def find(self, sources: Sequence[ValueSource], touches: Sequence[Touches]) -> list[ValueSource]:
        """Return matching sources. With touches, only those among them."""
        if not sources or not self.is_about_names:
            return []
        kind: Any = self.kind
        found = [one for one in sources if one.is_link is self.links and one.is_at_most(kind)]
        return [one for one in found if _is_named(one, touches)] if touches else found


def read_source_match(table: Mapping[str, Any]) -> SourceMatch:
    """Read a rule's keys about sources."""
    kind, links = table.get("source", ""), table.get("links", False)
    if "source" in table and kind not in (*_KINDS, "none"):
        raise InvalidRule("source must be 'person', 'own', 'read', 'nowhere' or 'none'")
    if not isinstance(links, bool) or (links and not kind):
        raise InvalidRule("links must be true or false, beside source; change it")
    after = table.get("after", [])
    if not is_list(after) or not set(after) <= set(get_args(After)):
        raise InvalidRule("after must be a list of 'read' and 'private'")
    if (kind or after) and table.get("decide") == "allow":
        raise InvalidRule("source and after can only restrict; remove them, or ask or deny")
    return SourceMatch(kind, links, frozenset(after))


def read_source_rules(value: object) -> SourceRules:
    """Read a rule file's key ``sources``."""
    if value == "strict":
        return "strict"
    if value == "unattended":
        return "unattended"
    if not isinstance(value, bool):
        raise InvalidRule("sources must be true, false, 'strict' or 'unattended'")
    return value


def _is_named(source: ValueSource, touches: Sequence[Touches]) -> bool:
    access = _access_of(source.verb, source.name, source.value)
    return access is not None and any(touch.meets(access) for touch in touches)


@lru_cache(64)  # several rules ask about the same value
def _access_of(verb: str, name: str, value: str) -> Access | None:
    """Return a destination as an access. An argument, or a link in a text, is none."""
    try:
        return Access(Effect[verb.upper()], f"{name}:{value}")
    except (KeyError, ValueError):
        return None
