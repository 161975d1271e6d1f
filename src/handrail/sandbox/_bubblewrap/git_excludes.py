"""Names git ignores in a command: the user's, and the sandbox's mount points.

A missing protected name has an empty folder while a command runs. `git clean -d` would list it, and
fail to remove it. Git has a file with names to ignore, which is replaced here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from handrail.sandbox._home import HomeView, find_homes
from handrail.sandbox._protected import is_beneath, is_beneath_any


class GitExcludes:
    """The file git reads in the home folder, unless its settings name another."""

    def __init__(self, root: str, written: Sequence[str], file: Path) -> None:
        self._git = f"{root}/.git"
        self._file = file
        self._last: tuple[object, ...] = ()
        homes = find_homes()
        path = f"{homes[0]}/.config/git/ignore" if homes else ""
        self._path = "" if is_beneath_any(path, written) else path

    def show(self, view: HomeView, missing: Iterable[str]) -> HomeView:
        """Return the view with this file, if the home folder can have it.

        The user's file is read only if commands can read it, too.
        """
        others = tuple(pair for pair in view.shown if pair[0] != self._path)
        if not is_beneath_any(self._path, view.hidden) or any(
            is_beneath(self._path, shown) for shown, _ in others
        ):
            return view
        names = missing if os.path.lexists(self._git) else ()
        self._write(dict(view.shown).get(self._path), tuple(names))
        return HomeView(view.hidden, (*others, (self._path, str(self._file))))

    def _write(self, theirs: str | None, names: tuple[str, ...]) -> None:
        """Write the names if changed. They are folders at the top of a repository."""
        now = names, theirs and os.stat(theirs).st_mtime_ns  # noqa: PTH116  before every command
        if now != self._last:
            text = Path(theirs).read_bytes() if theirs else b""
            lines = "".join(f"/{name}/\n" for name in names)
            self._file.write_bytes(text.rstrip(b"\n") + b"\n" + lines.encode())
            self._last = now
