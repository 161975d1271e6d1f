"""Commands read strictly: installs of packages, and changes of git's settings alone."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

from handrail.sandbox import Sandbox

_TOKEN = re.compile(
    r"""
    [ \t]*+ (?:
        (?P<ignored> [12]?>[ \t]*+/dev/null (?![^\s;|&]) | 2>&1 (?![^\s;|&]) )
      | (?P<word> (?: [\w./:,@%+=\[\]-]++ | '[^'\n]*+' | "[^"$`\\!\n]*+" )++ )
      | (?P<operator> && | \|\| | ; | \| | \n )
      | (?P<end> \Z )
      | (?P<other> . )
    )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_MAX_CHARS = 4_000


def split_simple(command: str) -> list[list[str]]:
    """Return the simple commands, each after its operator; none if a shell could read others."""
    if len(command) > _MAX_CHARS:
        return []
    parts = [[""]]
    for token in _TOKEN.finditer(command):
        if token.lastgroup == "other":
            return []
        if token.lastgroup == "word":
            parts[-1] += shlex.split(token["word"])
        elif token.lastgroup == "operator":
            parts.append([token["operator"]])
    whole = [part for part in parts if len(part) > 1 or part[0] not in ("", ";", "\n")]
    return whole if all(len(part) > 1 for part in whole) else []


_VERBS = {
    "pip": "install uninstall",
    "uv": "add remove sync",
    "uv pip": "install uninstall sync",
    "poetry": "add install remove sync update",
    "pdm": "add install remove sync update",
    "pipenv": "install uninstall sync update",
    "npm": "install i ci add uninstall remove rm update",
    "pnpm": "install i add remove rm update",
    "yarn": "install add remove upgrade",
    "bun": "install i add remove rm update",
}
"""Package managers that fill a folder of the project, with their commands that change it."""
_ANYWHERE = frozenset(["pip", "uv pip"])
"""Those that install into the environment in PATH, from every folder."""
_OF_NODE = frozenset(["npm", "pnpm", "yarn", "bun"])
_ELSEWHERE = frozenset(
    """
    -t --target --prefix --root --user --dry-run -h --help -g --global --location --cwd --dir
    --project --directory
    """.split()
)
"""Options of installs that change nothing here."""
_FILTERS = frozenset(["tail", "head", "cat", "grep"])
"""Programs a pipe may lead to: they write nothing."""
_ACTIVATE = frozenset(["source", "."])
_SCRIPT = re.compile(r"(?:\./)?(?P<folder>\.?venv)/bin/activate")
_BY_PATH = re.compile(r"(?:\./)?(?P<folder>\.?venv)/bin/(?P<name>pip[\d.]*|python[\d.]*)", re.ASCII)
_PYTHON = re.compile(r"python[\d.]*", re.ASCII)
_PIP = re.compile(r"pip[\d.]*", re.ASCII)
_DEFAULT = ".venv"
_PROGRAMS = "node_modules/.bin"


def find_installed_into(command: str, sandbox: Sandbox) -> list[str]:
    """Return the folder a command installs packages into, if it can be opened for it.

    None if a part of the command is anything else than an install into this folder, or a step
    before or after one that can change nothing.
    """
    folders, moved, installs = set[str | None](), False, False
    for operator, *words in split_simple(command):
        if operator == "|":
            folders |= set[str | None]() if words[0] in _FILTERS else {None}
        elif words[0] == "cd":
            moved = True
        elif words[0] in _ACTIVATE:
            folders.add(_find_activated(words, moved=moved))
        else:
            folders.add(_find_folder(words, sandbox, moved=moved))
            installs = True
    found = [folder for folder in folders if folder and sandbox.can_open(folder)]
    return found if installs and len(folders) == 1 else []


def _find_activated(words: list[str], *, moved: bool) -> str | None:
    """Return the environment a command activates; None if it runs another script."""
    script = _SCRIPT.fullmatch(" ".join(words[1:]))
    return script["folder"] if script and not moved else None


def _find_folder(words: list[str], sandbox: Sandbox, *, moved: bool) -> str | None:
    """Return the folder a command installs into; None if it is not an install.

    After a ``cd`` (``moved``), a path and a project are those of another folder.
    """
    name, rest, folder = _read_program(words)
    is_module = "-m" in words[1:2]
    if moved and (folder or is_module or name not in _ANYWHERE):
        return None
    if not _is_install(name, rest) or (is_module and _has_own_pip(sandbox.root)):
        return None
    return _PROGRAMS if name in _OF_NODE else folder or _find_environment(sandbox)


def _read_program(words: list[str]) -> tuple[str, list[str], str]:
    """Return a package manager, its arguments, and the environment its path names."""
    name, *rest = words
    by_path = _BY_PATH.fullmatch(name)
    name, folder = (by_path["name"], by_path["folder"]) if by_path else (name, "")
    if _PYTHON.fullmatch(name) and rest[:2] == ["-m", "pip"]:
        return "pip", rest[2:], folder
    if _PIP.fullmatch(name):
        return "pip", rest, folder
    return ("uv pip", rest[1:], folder) if [name, *rest[:1]] == ["uv", "pip"] else (name, rest, "")


def _has_own_pip(root: str) -> bool:
    """Return whether Python would take a file of the workspace for pip."""
    return any(os.path.lexists(f"{root}/{name}") for name in ("pip", "pip.py"))


def _is_install(name: str, words: list[str]) -> bool:
    verb = next((word for word in words if not word.startswith("-")), "")
    named = verb in _VERBS.get(name, "").split() or (name == "yarn" and not verb)
    return named and _ELSEWHERE.isdisjoint(word.partition("=")[0] for word in words)


def _find_environment(sandbox: Sandbox) -> str:
    """Return the environment whose programs commands use."""
    own = (name.removesuffix("/bin") for name in sandbox.own_programs if name.endswith("/bin"))
    return next(own, _DEFAULT)


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
