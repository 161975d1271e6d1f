"""Selects a search's files: by pattern and type, with or without ignored files."""

from __future__ import annotations

from collections.abc import Callable

from handrail.tools._files.glob_pattern import GlobPattern
from handrail.tools._search.query import SearchScope


class FileSelection:
    """The files of a folder a model wants to search.

    With ``anywhere``, a pattern without a slash matches names in every folder, and a pattern that
    starts with an exclamation mark excludes files.
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
        self.text = glob
        self._anywhere = anywhere
        self.ignored = ignored
        self.hidden = hidden
        self._kind = kind
        self._excludes = anywhere and glob.startswith("!")
        text = glob[1:] if self._excludes else glob
        pattern = (glob or None) and GlobPattern(
            text, anywhere=anywhere, hidden=hidden or self._excludes
        )
        self.scope = self._scope(pattern or None)
        """The files that ripgrep is to search; it may include more than are selected."""
        self.picks = _make_picker(pattern or None, excludes=self._excludes)
        """Returns whether a file is selected, by its path relative to the folder."""

    def _scope(self, pattern: GlobPattern | None) -> SearchScope:
        if pattern is None or self._excludes:
            return SearchScope(ignored=self.ignored, hidden=self.hidden, type=self._kind)
        return SearchScope(
            ignored=self.ignored,
            hidden=self.hidden or pattern.dotted,
            git=pattern.git,
            last=pattern.last,
            type=self._kind,
        )

    def wider(self) -> FileSelection | None:
        """Return the same selection with ignored and hidden files; None if it includes them."""
        if self.ignored and self.hidden:
            return None
        return FileSelection(
            self.text, anywhere=self._anywhere, ignored=True, hidden=True, kind=self._kind
        )


def _make_picker(pattern: GlobPattern | None, *, excludes: bool) -> Callable[[str], object]:
    if pattern is None:
        return bool  # every file has a name
    means = pattern.means
    return (lambda name: not means(name)) if excludes else means
