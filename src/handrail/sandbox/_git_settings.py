"""The user's git settings visible to commands: an identity, but no tokens, helpers or aliases."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

_SHOWN: Final = (
    r"^(user\.(name|email)|init\.defaultbranch|safe\.directory|merge\.conflictstyle"
    r"|core\.(attributesfile|autocrlf|eol|excludesfile|quotepath|safecrlf)"
    r"|diff\.algorithm|pull\.(ff|rebase)|push\.default)$"
)
_FOUND_BY: Final = ("GIT_CONFIG_GLOBAL", "HOME", "XDG_CONFIG_HOME")
_MAX_SECONDS: Final = 5.0
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def write_git_settings(file: Path, *, root: str, path: str) -> str:
    """Write a reduced copy of the user's git configuration, and return its path.

    Args:
        file: The file, which is empty without git or settings.
        root: The workspace. An ``includeIf`` may depend on it.
        path: The PATH to find git in.
    """
    file.write_text(_read_git_settings(root, path), encoding="utf-8")
    return str(file)


def _read_git_settings(root: str, path: str) -> str:
    program = shutil.which("git", path=path)
    if program is None:
        return ""
    found_by = {name: os.environ[name] for name in _FOUND_BY if name in os.environ}
    words = [program, "config", "--null", "--includes", "--get-regexp", _SHOWN]
    with suppress(subprocess.TimeoutExpired, OSError):
        done = subprocess.run(  # noqa: S603  an absolute path outside the workspace
            words,
            cwd=root,
            env={**found_by, "GIT_CONFIG_NOSYSTEM": "1", "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_MAX_SECONDS,
            check=False,
        )
        entries = done.stdout.decode(errors="replace").split("\0")[:-1]
        return "".join(_format(*entry.partition("\n")) for entry in entries)
    return ""


def _format(key: str, separator: str, value: str) -> str:
    """Return a setting as configuration file lines. Without a value it means true."""
    section, _, name = key.partition(".")
    given = f' = "{value.translate(_ESCAPES)}"' if separator else ""
    return f"[{section}]\n\t{name}{given}\n"
