"""Where system, user and workspace rules are stored."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

if sys.platform != "win32":
    import pwd


@dataclass(frozen=True, slots=True)
class RulePaths:
    """The files ``load`` reads. A path that is None or does not exist has no rules."""

    managed: Path | None = None
    """System rules, written by an administrator."""
    user: Path | None = None
    """The user's rules, for all workspaces."""
    project: Path | None = None
    """The workspace's rules. Until the user trusts the file, only its denies and asks apply."""
    remembered: Path | None = None
    """The user's remembered approvals for this workspace."""
    trust: Path | None = None
    """The file recording which workspace files the user trusts."""
    workspace: Path | None = None
    """The folder where commands start. Anything git's settings name in it is protected."""

    @classmethod
    def of(cls, workspace: Path | str, *, config: Path | str | None = None) -> RulePaths:
        """Return the default paths for a workspace. ``config`` replaces the settings folder."""
        workspace = Path(workspace)
        own = Path(config) if config is not None else _config_home() / "handrail"
        name = hashlib.sha256(os.fsencode(workspace.resolve())).hexdigest()[:32]
        return cls(
            managed=Path("/etc/handrail/rules.toml"),
            user=own / "rules.toml",
            project=workspace / ".handrail" / "rules.toml",
            remembered=own / "projects" / f"{name}.toml",
            trust=own / "trust.json",
            workspace=workspace,
        )


def _config_home() -> Path:
    """Return the settings folder. A relative path is ignored: a workspace could choose it."""
    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return given if given.is_absolute() else user_home() / ".config"


def user_home() -> Path:
    """Return the user's home folder.

    A relative ``HOME`` is ignored, since a workspace could choose it: the password database is used
    instead. Without an entry there, or with an empty ``HOME``, the result is ``/``. On
    Windows, Python finds the folder.
    """
    if sys.platform == "win32":
        return Path.home()
    given = os.environ.get("HOME", ".")
    if given and not given.startswith("/"):
        try:
            given = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            given = ""
    return Path("/", given)
