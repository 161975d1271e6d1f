"""Guesses which hosts a command reaches: from its URLs, its git remotes, and its program.

A guess opens nothing: a person sees the hosts and approves them, or the model asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from handrail import Refused, ToolFailed
from handrail.net import parse_url
from handrail.tools._shell.advice import RoughCommand, split_commands

_PYPI = ("pypi.org", "files.pythonhosted.org")
_NPM = ("registry.npmjs.org",)
_CRATES = ("index.crates.io", "static.crates.io")
_GO = ("proxy.golang.org", "sum.golang.org")
_GEMS = ("rubygems.org", "index.rubygems.org")
_PROGRAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "pip": ("install download wheel", _PYPI),
    "pip3": ("install download wheel", _PYPI),
    "uv": ("add sync lock pip tool", _PYPI),
    "uvx": ("", _PYPI),
    "pipx": ("install run upgrade", _PYPI),
    "poetry": ("add install lock update", _PYPI),
    "pdm": ("add install lock update", _PYPI),
    "npm": ("install i ci add update exec x create init", _NPM),
    "npx": ("", _NPM),
    "pnpm": ("install i add update dlx create", _NPM),
    "yarn": ("install add upgrade dlx create", ("registry.yarnpkg.com", *_NPM)),
    "bun": ("install add update x create", _NPM),
    "bunx": ("", _NPM),
    "cargo": ("add fetch update install", _CRATES),
    "go": ("get mod install", _GO),
    "gem": ("install update", _GEMS),
    "bundle": ("add install update", _GEMS),
}
"""The hosts of package managers by default, with the commands that reach them; empty for all."""
_FETCHERS = frozenset("curl wget http https xh aria2c".split())
_GIT_REMOTES = frozenset("fetch pull clone ls-remote remote submodule lfs".split())
_REMOTE = re.compile(r"^[ \t]*+url[ \t]*+=[ \t]*+(https?://\S++)[ \t\r]*+$", re.MULTILINE)
_OFFLINE = frozenset(["--no-index", "--offline"])
"""Options of package managers that reach no host."""
_MAX_CONFIG_CHARS = 100_000
_MAX_HOSTS = 10
_PYTHON = re.compile(r"python[\d.]*")


def guess_hosts(command: str, root: str) -> list[str]:
    """Return the hosts that a command reaches, as far as its text and its repository say so."""
    found = (host for simple in split_commands(command) for host in _hosts_of(simple, root))
    return list(dict.fromkeys(found))[:_MAX_HOSTS]


def _hosts_of(simple: RoughCommand, root: str) -> Iterator[str]:
    name, words = simple.name, simple.words
    if _PYTHON.fullmatch(name) and words[:2] == ("-m", "pip"):
        name, words = "pip", words[2:]
    if name in _FETCHERS:
        yield from _hosts_in(words)
    elif name == "git" and not _GIT_REMOTES.isdisjoint(words):
        named = list(_hosts_in(words))
        yield from named or _hosts_in(_list_remotes(root))
    elif name in _PROGRAMS and _OFFLINE.isdisjoint(words):
        commands, hosts = _PROGRAMS[name]
        if not commands or not set(commands.split()).isdisjoint(words):
            yield from hosts
            yield from _hosts_in(words)


def _hosts_in(words: tuple[str, ...] | list[str]) -> Iterator[str]:
    """Yield the hosts of URLs. A URL that can be read in two ways names none."""
    for word in words:
        with suppress(Refused, ToolFailed):
            host = parse_url(word.rpartition("=")[2] if word.startswith("-") else word).host
            yield f"[{host}]" if ":" in host else host


def _list_remotes(root: str) -> list[str]:
    """Return the URLs of the remotes of the repository in the workspace."""
    try:
        with Path(root, ".git/config").open(encoding="utf-8", errors="replace") as file:
            return _REMOTE.findall(file.read(_MAX_CONFIG_CHARS))
    except OSError:
        return []
