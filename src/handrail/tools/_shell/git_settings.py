"""Finds commands that only change settings of the repository, and none that names a program."""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail.tools._shell.simple_commands import split_simple

GIT_SETTINGS = ".git/config"
_SETTING = (
    r"user\.(?:name|email)|init\.defaultbranch|commit\.gpgsign|fetch\.prune|rerere\.enabled"
    r"|core\.(?:autocrlf|eol|ignorecase|filemode|quotepath|longpaths)|pull\.(?:rebase|ff)"
    r"|push\.(?:default|autosetupremote|followtags)|merge\.(?:ff|conflictstyle)"
    r"|rebase\.(?:autosquash|autostash|updaterefs)|diff\.(?:algorithm|renames|colormoved)"
    r"|advice\.\w+|color\.\w+|column\.\w+|branch\.[\w./-]+\.(?:remote|merge|rebase|description)"
)
"""Settings that name no program, no other file and no credentials. Compiled only when needed."""
_HOW = frozenset("--local --add --replace-all --unset --unset-all --bool --int".split())
_REMOTES = frozenset("add remove rm rename set-url set-branches".split())
_OF_URL = frozenset(["--add", "--push"])
_OF_BRANCHES = (
    r"-[dDmMrqu]{1,2}|--(?:delete|move|force|quiet|remotes|unset-upstream|set-upstream-to(?:=.*)?)"
)
_CHANGES_BRANCHES = r"-[rq]?[dDmMu][rq]?|--(?:delete|move|unset-upstream|set-upstream-to.*)"
_READS = frozenset([("remote",), ("remote", "-v"), ("branch",), ("branch", "-a"), ("status",)])


def changes_git_settings(command: str) -> bool:
    """Return whether a command only changes such settings, remotes or branches.

    Git writes all of them into ``.git/config``.
    """
    parts = split_simple(command)
    changes = [_is_change(words) for operator, *words in parts if operator != "|"]
    return len(changes) == len(parts) and True in changes and None not in changes


def _is_change(words: Sequence[str]) -> bool | None:
    """Return whether a simple command changes settings; None if it may do anything else."""
    if words[0] != "git" or len(words) == 1:
        return None
    verb, *rest = words[1:]
    if (verb, *rest) in _READS:
        return False
    flags = [word for word in rest if word.startswith("-")]
    names = [word for word in rest if not word.startswith("-")]
    if verb == "config":
        safe = (
            names
            and re.fullmatch(_SETTING, names[0], re.IGNORECASE | re.ASCII)
            and _HOW.issuperset(flags)
        )
        return (len(names) > 1 or "--unset" in flags or "--unset-all" in flags) if safe else None
    if verb == "remote" and names[:1] and names[0] in _REMOTES:
        return True if _OF_URL.issuperset(flags) else None
    if verb == "branch" and all(re.fullmatch(_OF_BRANCHES, flag) for flag in flags):
        return any(re.fullmatch(_CHANGES_BRANCHES, flag) for flag in flags) or None
    return None
