"""Which files a search is for: by pattern, by type, with or without those usually left out."""

from __future__ import annotations

from collections.abc import Callable

from handrail.tools._pattern import Pattern
from handrail.tools._scope import Scope


class Wanted:
    """What a model wants searched of all that lies in a folder.

    With ``anywhere``, a pattern without a slash is for names in every folder, and a pattern with
    an exclamation mark before it is for all other files.
    """

    def __init__(
        self,
        glob: str,
        *,
        anywhere: bool = False,
        ignored: bool = False,
        hidden: bool = False,
        kind: str = "",
    ) -> None:
        self._glob = glob
        self._anywhere = anywhere
        self.ignored = ignored
        self.hidden = hidden
        self._kind = kind
        self._but = anywhere and glob.startswith("!")
        text = glob[1:] if self._but else glob
        pattern = (glob or None) and Pattern(text, anywhere=anywhere, hidden=hidden or self._but)
        self.scope = self._scope(pattern or None)
        """What to tell an engine: at least the files that are wanted."""
        self.picks = _picker(pattern or None, but=self._but)
        """Whether a file, by its path from the folder on, is one of them."""

    def _scope(self, pattern: Pattern | None) -> Scope:
        if pattern is None or self._but:
            return Scope(ignored=self.ignored, hidden=self.hidden, type=self._kind)
        return Scope(
            ignored=self.ignored,
            hidden=self.hidden or pattern.dotted,
            git=pattern.git,
            last=pattern.last,
            type=self._kind,
        )

    def wider(self) -> Wanted | None:
        """The same, with nothing left out; None if nothing is."""
        if self.ignored and self.hidden:
            return None
        return Wanted(
            self._glob, anywhere=self._anywhere, ignored=True, hidden=True, kind=self._kind
        )


def _picker(pattern: Pattern | None, *, but: bool) -> Callable[[str], object]:
    if pattern is None:
        return bool  # every file has a name
    means = pattern.means
    return (lambda name: not means(name)) if but else means
