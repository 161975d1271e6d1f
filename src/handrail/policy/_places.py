"""Places: where the rules of a machine, a user and a workspace are kept."""

from __future__ import annotations

import hashlib
import os
import pwd
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    """Where rules are looked for; what is None, or not there, has no rules."""

    managed: Path | None = None
    """The machine's, written by whoever runs it."""
    user: Path | None = None
    project: Path | None = None
    """The workspace's own: untrusted until its user says otherwise."""
    remembered: Path | None = None
    """The user's, for this workspace, written by their answers."""
    trust: Path | None = None
    """Where trust in workspaces is kept."""

    @classmethod
    def of(cls, workspace: Path | str, *, config: Path | str | None = None) -> Places:
        """The usual places for a workspace."""
        workspace = Path(workspace)
        own = Path(config) if config is not None else _config_home() / "handrail"
        name = hashlib.sha256(os.fsencode(workspace.resolve())).hexdigest()[:32]
        return cls(
            managed=Path("/etc/handrail/rules.toml"),
            user=own / "rules.toml",
            project=workspace / ".handrail" / "rules.toml",
            remembered=own / "projects" / f"{name}.toml",
            trust=own / "trust.json",
        )


def _config_home() -> Path:
    """Where a user's settings lie; a relative path is none, or a workspace could choose it."""
    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return given if given.is_absolute() else home() / ".config"


def home() -> Path:
    """A user's home; a relative HOME is none, or a workspace could choose it.

    Then the one that the system knows counts. Where it knows none, or HOME is empty, it is the root
    of all files, as for other programs.
    """
    given = os.environ.get("HOME", ".")
    if given and not given.startswith("/"):
        try:
            given = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            given = ""
    return Path("/", given)
