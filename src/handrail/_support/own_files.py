"""This process's own files: the code it imports, and its run databases.

Changing one runs code in this process, or changes what its runs did. So tools ask before they
change one, and the sandbox makes those in a workspace read-only for commands.
"""

from __future__ import annotations

import os
import stat
import sys
from functools import lru_cache
from typing import Final

from handrail._support.systems import NO_FOLLOW, READ

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
MARK: Final = "pyvenv.cfg"
"""The file making a folder a Python environment."""
DATABASE_ENDS: Final = (".db", ".sqlite", ".sqlite3")
"""How a database's name usually ends."""
BESIDE_DATABASE: Final = ("-wal", "-shm", "-journal")
"""Suffixes for the files next to a SQLite database, from which SQLite restores content."""
_TABLES: Final = (b"handrail_schema", b"dbos_migrations")
"""Texts in a database with runs."""
_MAX_DATABASE_BYTES: Final = 1 << 19
"""Bytes searched for tables at the start of a database, and of the file next to it."""
_opened = set[str]()
"""The databases opened by this process, by their real paths."""


def list_code_folders() -> tuple[str, ...]:
    """Return the paths from which this process imports code, absolute and as spelled.

    These are its environment, the package handrail, and every entry of ``sys.path``.
    """
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    entries = [entry for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
    spelled = (os.path.abspath(path) for path in (*prefixes, _PACKAGE, *entries))  # noqa: PTH100
    return tuple(dict.fromkeys(spelled))


def find_code_folders(root: str) -> tuple[str, ...]:
    """Return the outermost of these paths inside a workspace, as real paths.

    A path equal to or around the workspace is omitted: nothing in it could be changed otherwise.
    ``root`` is a real path.
    """
    outer: list[str] = []
    inside = {os.path.realpath(path) for path in list_code_folders()}
    for path in sorted(inside, key=len):
        if path.startswith(f"{root}/") and not any(path.startswith(f"{top}/") for top in outer):
            outer.append(path)
    return tuple(sorted(outer))


def find_environment(path: str, root: str) -> str:
    """Return the Python environment at or around an absolute path, or "".

    The search ends at ``root``, usually the workspace.
    """
    while path and path != root:
        if os.path.lexists(f"{path}/{MARK}"):
            return path
        path = path.rpartition("/")[0]
    return ""


def note_database(path: str | os.PathLike[str]) -> None:
    """Record that this process stores runs in a database."""
    _opened.add(os.path.realpath(path))


def list_opened_databases(root: str) -> list[str]:
    """Return this process's run databases in a workspace, by their real paths."""
    return sorted(path for path in _opened if path.startswith(f"{root}/"))


def is_run_database(path: str) -> bool:
    """Return whether a file, or the one it belongs to, is a run database.

    It is one this process has opened, or one with a database's name and tables. The file is
    searched, not opened as a database: a command may have written it.
    """
    for end in BESIDE_DATABASE:
        path = path.removesuffix(end)
    if path in _opened:
        return True
    return path.endswith(DATABASE_ENDS) and (_has_tables(path) or _has_tables(f"{path}-wal"))


def _has_tables(path: str) -> bool:
    try:
        about = os.lstat(path)
        state = about.st_ino, about.st_mtime_ns, about.st_ctime_ns, about.st_size
        return stat.S_ISREG(about.st_mode) and _search_tables(path, state)
    except OSError:
        return False


@lru_cache(maxsize=1_000)
def _search_tables(path: str, _state: object) -> bool:
    fd = os.open(path, READ | NO_FOLLOW)
    try:
        text = os.read(fd, _MAX_DATABASE_BYTES)
    finally:
        os.close(fd)
    return any(table in text for table in _TABLES)
