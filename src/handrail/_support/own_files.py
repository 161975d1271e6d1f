"""Files of this process itself: the code that it imports, and the databases of its runs.

A change of them runs code in this process, or changes what its runs did. So tools ask before they
change one, and the sandbox holds those in a workspace read-only for commands.
"""

from __future__ import annotations

import os
import sys
from typing import Final

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
MARK: Final = "pyvenv.cfg"
"""The file that makes a folder a Python environment."""


def list_code_folders() -> tuple[str, ...]:
    """Return the paths that this process imports code from, absolute and as they are spelled.

    These are its environment, the package handrail, and every entry of ``sys.path``.
    """
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    entries = [entry for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
    spelled = (os.path.abspath(path) for path in (*prefixes, _PACKAGE, *entries))  # noqa: PTH100
    return tuple(dict.fromkeys(spelled))


def find_code_folders(root: str) -> tuple[str, ...]:
    """Return the outermost of these paths inside a workspace, as real paths.

    A path that is or contains the workspace is left out: nothing in it could be changed otherwise.
    ``root`` is a real path.
    """
    outer: list[str] = []
    inside = {os.path.realpath(path) for path in list_code_folders()}
    for path in sorted(inside, key=len):
        if path.startswith(f"{root}/") and not any(path.startswith(f"{top}/") for top in outer):
            outer.append(path)
    return tuple(sorted(outer))


def find_environment(path: str, root: str) -> str:
    """Return the Python environment that an absolute path is, or is in; empty if there is none.

    The search ends at ``root``, usually the workspace.
    """
    while path and path != root:
        if os.path.lexists(f"{path}/{MARK}"):
            return path
        path = path.rpartition("/")[0]
    return ""
