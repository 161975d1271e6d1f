"""The hosts and folders of one command: what it declares, and what was opened for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from handrail import (
    DESTROY,
    READ,
    WRITE,
    Access,
    Args,
    Context,
    Failure,
    FailureKind,
    Refused,
    Tool,
    ToolFailed,
    writes_file,
)
from handrail.net import parse_url
from handrail.sandbox import Sandbox
from handrail.tools._shell.advice import RoughCommand, split_commands
from handrail.tools._shell.simple_commands import (
    GIT_SETTINGS,
    changes_git_settings,
    find_installed_into,
)

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
    """Return the hosts a command reaches, as far as its text and its repository say so."""
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


MAX_HOSTS = 20
"""Hosts one command can ask for."""
_TOO_MANY = f"Not run: pass at most {MAX_HOSTS} hosts, got {{}}."
_EXAMPLE = 'Pass names such as "pypi.org".'
_SCHEME = "net:"
_FILE = "file:"
_EVERYTHING = Access(DESTROY, "*")


@dataclass(frozen=True, slots=True)
class CommandAccesses:
    """Declares the hosts and folders of commands, so the policy decides about them."""

    sandbox: Sandbox

    def touches(self, *, command: str, hosts: Sequence[str] = (), **_: object) -> list[Access]:
        """Return what a call touches: everything commands can change, hosts and folders.

        A host the model asked for is written to: the policy has to allow it. One that is only
        guessed from the command is read from: it is opened only if a person approves the call. So
        is a folder the command installs packages into, and so are git's settings.
        """
        opened = find_installed_into(command, self.sandbox)
        # else git fails, and models look for ways around: decision 147
        if changes_git_settings(command) and self.sandbox.can_open(GIT_SETTINGS):
            opened = [GIT_SETTINGS]
        return [_EVERYTHING, *map(writes_file, opened), *self._find_hosts(command, hosts)]

    def _find_hosts(self, command: str, hosts: Sequence[str]) -> list[Access]:
        if not self.sandbox.opens_hosts:
            return []
        asked = self.sandbox.find_closed(hosts)
        guessed = (host for host in self._guess(command) if host not in asked)
        accesses = [Access(WRITE, _resource_of(host)) for host in asked]
        # the text of a command is only a guess at its hosts: decision 054
        accesses += [Access(READ, _resource_of(host)) for host in guessed]
        return accesses

    def _guess(self, command: str) -> Iterator[str]:
        for host in guess_hosts(command, self.sandbox.root):
            with suppress(Refused, ToolFailed):  # it cannot be opened
                yield from self.sandbox.find_closed([host])

    def declare(self, bash: Tool[..., Any]) -> Tool[..., Any]:
        """Return a tool that declares what it opens, and refuses what cannot be opened."""
        return replace(bash, parse=self._checked(bash.parse), touches=self.touches)

    def _checked(
        self, parse: Callable[[Mapping[str, Any] | str], Args | Failure]
    ) -> Callable[[Mapping[str, Any] | str], Args | Failure]:
        def parse_and_check(given: Mapping[str, Any] | str) -> Args | Failure:
            args = parse(given)
            if not isinstance(args, Args):
                return args
            hosts = args.values.get("hosts", ())
            if len(hosts) > MAX_HOSTS:
                return Failure(FailureKind.BAD_ARGS, _TOO_MANY.format(len(hosts)))
            try:
                self.sandbox.find_closed(hosts)
            except Refused as error:
                return Failure(FailureKind.DENIED, str(error))
            except ToolFailed as error:
                return Failure(FailureKind.BAD_ARGS, f"Not run: {error} {_EXAMPLE}")
            return args

        return parse_and_check


def list_granted(context: Context) -> list[str]:
    """Return the hosts opened for a call: those that it was allowed to reach."""
    return [
        access.resource.removeprefix(_SCHEME)
        for access in context.accesses
        if access.resource.startswith(_SCHEME) and (access.verb >= WRITE or context.is_approved)
    ]


def list_opened_folders(context: Context) -> list[str]:
    """Return the folders opened for a call, because a person approved exactly this."""
    return [
        access.resource.removeprefix(_FILE)
        for access in context.accesses
        if access.resource.startswith(_FILE) and context.is_approved
    ]


def list_declared(context: Context) -> list[str]:
    """Return the hosts a call declared, opened or not."""
    named = (access.resource for access in context.accesses)
    return [name.removeprefix(_SCHEME) for name in named if name.startswith(_SCHEME)]


def _resource_of(host: str) -> str:
    return f"{_SCHEME}[{host}]" if ":" in host else f"{_SCHEME}{host}"
