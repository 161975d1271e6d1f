"""A command's environment variables: a short safe list, not your application's."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from handrail import HandrailError
from handrail.sandbox._protected import is_beneath

_GIT_SETTINGS: Final = {
    "core.fsmonitor": "false",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "log.showSignature": "false",
    "safe.bareRepository": "explicit",
    "diff.autoRefreshIndex": "false",  # the last one: see below
}
"""Overrides repository settings, which name programs, and may be workspace files."""
REFRESHES_INDEX: Final = {"GIT_CONFIG_COUNT": str(len(_GIT_SETTINGS) - 1)}
"""Omits the last setting.

`git diff` then recognizes a file with only a new time stamp, because it refreshes its index. That
runs the hook `post-index-change`, if there is one.
"""
QUIET: Final = {
    "CI": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "EDITOR": "true",
    "GIT_ASKPASS": "false",
    "GIT_EDITOR": "true",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "MANPAGER": "cat",
    "NO_COLOR": "1",
    "NPM_CONFIG_YES": "true",
    "PAGER": "cat",
    "PIP_NO_INPUT": "1",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "TERM": "dumb",
    "VISUAL": "true",
    "GIT_CONFIG_COUNT": str(len(_GIT_SETTINGS)),
    **{f"GIT_CONFIG_KEY_{index}": key for index, key in enumerate(_GIT_SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{index}": value for index, value in enumerate(_GIT_SETTINGS.values())},
}
"""Commands are non-interactive: no pager, no editor, no prompt, no color."""
OFFLINE: Final = {
    "BUNDLE_RETRY": "0",
    "CARGO_NET_RETRY": "0",
    "COMPOSER_DISABLE_NETWORK": "1",
    "NPM_CONFIG_AUDIT": "false",
    "NPM_CONFIG_FETCH_RETRIES": "0",
    "NPM_CONFIG_FUND": "false",
    "NPM_CONFIG_UPDATE_NOTIFIER": "false",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_RETRIES": "0",
    "UV_HTTP_RETRIES": "0",
    "YARN_HTTP_RETRY": "0",
}
"""Without a network, package managers fail at once: they do not try again, for a minute or more."""
_FOLDERS: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""A command's PATH if no folder in the application's PATH can be trusted."""
_PYTHONS: Final = re.compile(r"python|pip|pydoc|[Aa]ctivate")
_INHERITED: Final = ("HOME", "LANG", "LOGNAME", "TZ", "USER")
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_STEERS: Final = (
    r"(?i)(AWS|BASH|CARGO|CURL|DOCKER|DYLD|GCONV|GIT|GLIBC|GRADLE|HANDRAIL|LD|LESS|LUA|MAVEN|NPM_CONFIG"
    r"|OPENSSL|PERL5?|PIP|PYTHON|RSYNC|RUBY|RUSTC|SSH|SSL|XDG)_?.*|.*_PROXY|AWKPATH|CLASSPATH|EXECIGNORE"
    r"|GOENV|GOFLAGS|GOPROXY|GOTOOLCHAIN|KUBECONFIG|LOCPATH|MAKEFILES|PHPRC|POSIXLY_CORRECT|TAR_OPTIONS"
    r"|WGETRC|BROWSER|CC|CDPATH|CI|CXX|EDITOR|ENV|GLOBIGNORE|HOME|IFS|JAVA_TOOL_OPTIONS"
    r"|JDK_JAVA_OPTIONS|MAKEFLAGS|MANPAGER|NODE_OPTIONS|NODE_PATH|PAGER|PATH|PROMPT_COMMAND|PS[0-4]"
    r"|RIPGREP_CONFIG_PATH|SHELL|SHELLOPTS|TERM|TMPDIR|VISUAL"
    r"|(ANSIBLE|BUN|BUNDLE|CCACHE|CMAKE|COMPOSER|CONDA|COVERAGE|DENO|DOTNET|ERL|GEM|HG|JAVA|JUPYTER|MESON|MYPY"
    r"|NUGET|PDM|POETRY|PNPM|PYTEST|RUBYGEMS|RUFF|RUSTUP|SCCACHE|TOX|UV|VIRTUALENV|YARN)_.*"
    r"|.*(FLAGS|OPTIONS|OPTS|_LAUNCHER|_HOOKS?|_PLUGINS?|_STARTUP|_WRAPPER)|AR|AS|GNUPGHOME|GOBIN|GOCACHEPROG"
    r"|GOPATH|GOROOT|GOWORK|HGRCPATH|MAGIC|NM|ZDOTDIR"
)
"""Variables making some program run or load something else."""
_OPENS: Final = (
    r"gh[pousr]_\w{20}|github_pat_\w{20}|glpat-[\w-]{16}|sk-[\w-]{16}|xox[abeprs]-[\w-]{8}"
    r"|(AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30}|ya29\.[\w-]{16}|npm_\w{30}|pypi-[\w-]{16}"
    r"|eyJ[\w-]{8,500}\.[\w-]{8,}\.|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|[a-z][a-z0-9+.-]{0,30}://[^/\s:@]*:[^/\s@]+@"
)
"""Values resembling credentials."""
_MAX_VARIABLE_CHARS: Final = 4096
"""Maximum characters in a passed value. Checking longer ones would take long."""


@cache
def _compile(text: str) -> re.Pattern[str]:
    """Compile a pattern above, when the first command needs it."""
    return re.compile(text)


def base_variables(
    root: str, *, temporary: str, shell: str, offline: bool, own: Sequence[str] = ()
) -> dict[str, str]:
    """Return the variables for every command, with your application's few safe ones.

    ``own`` has the workspace's program folders in front of PATH.
    """
    token = _compile(_OPENS)
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    inherited |= {
        name: value for name, value in os.environ.items() if re.fullmatch(r"LC_[A-Z]+", name)
    }
    python = next((folder for folder in own if folder.endswith("/bin")), "")
    return {
        "HOME": "/",
        "LANG": "C.UTF-8",
        **{name: value for name, value in inherited.items() if not token.search(value)},
        "PATH": os.pathsep.join([*own, *program_folders(root)]),
        "SHELL": shell,
        "TMPDIR": temporary,
        **({"VIRTUAL_ENV": python.removesuffix("/bin")} if python else {}),
        "UV_CACHE_DIR": f"{temporary}/uv-cache",  # it needs a writable one
        **QUIET,
        **(OFFLINE if offline else {"NPM_CONFIG_CACHE": f"{temporary}/npm-cache"}),
    }


def program_folders(root: str) -> list[str]:
    """Return the PATH folders no command can write: absolute, outside the workspace."""
    trusted = [
        folder
        for folder in _listed_folders()
        if folder.startswith("/") and not is_beneath(os.path.realpath(folder), root)
    ]
    return trusted or list(_FOLDERS)


def find_own_folders(root: str) -> list[str]:
    """Return the workspace's program folders used by commands if they cannot write them.

    These are `.venv/bin`, and from the application's PATH those in its `VIRTUAL_ENV` and in
    `node_modules`. A folder behind a link is not used: a command could replace the link.
    """
    listed = _listed_folders()
    active = os.environ.get("VIRTUAL_ENV", "").rstrip("/")
    wanted = [f"{active}/bin"] if active and f"{active}/bin" in listed else []
    wanted += [f"{root}/.venv/bin"]
    wanted += [folder for folder in listed if folder.endswith("/node_modules/.bin")]
    return [
        folder
        for folder in dict.fromkeys(wanted)
        if is_beneath(folder, root)
        and os.path.realpath(folder) == folder
        and os.path.isdir(folder)  # noqa: PTH112  before every command
        and (folder in listed or not _replaces_programs(folder, Path(folder).stat().st_mtime_ns))
    ]


def _listed_folders() -> list[str]:
    return list(dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep)))


_USUAL_NAMES = frozenset(
    """
    [ ag awk b2sum basename bash bat cat cksum cmp column comm cp cut date df diff dirname du echo
    egrep env expr false fd fgrep file find fold git grep gunzip gzip head hexdump hostname id jq
    join less ln ls make md5sum mkdir more mv nl nproc od paste printenv printf ps pwd readlink
    realpath rev rg rm rmdir sed seq sh sha1sum sha256sum sha512sum shasum shuf sleep sort stat
    strings sudo tac tail tar tee test tokei tr tree true tsort tty type uname uniq unzip wc which
    whoami xargs xxd yes yq zcat zip zsh
    """.split()
)
"""Programs commands expect from the system, even where it does not have them."""


@lru_cache
def _replaces_programs(folder: str, _changed_at: int) -> bool:
    """Return whether a folder outside PATH has system programs, such as `ls`.

    Rules allow those by name. Python's own programs, and scripts, are what it is there for.
    """
    names = {"sh"}  # for an unreadable folder
    with suppress(OSError):
        names = {entry.name for entry in Path(folder).iterdir()}
    return not names.isdisjoint(_USUAL_NAMES) or any(
        _is_compiled(f"{system}/{name}")
        for name in names
        if not _PYTHONS.match(name)
        for system in _FOLDERS
    )


def _is_compiled(path: str) -> bool:
    """Return whether a file is a compiled program."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123  there are many
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def check_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return your application's variables. Raises HandrailError for an invalid one."""
    for name, value in variables.items():
        if not _compile(_NAME).fullmatch(name):
            raise HandrailError(
                f"{name!r} is not a valid environment variable name. Use letters, digits and _."
            )
        if "\0" in value:
            raise HandrailError(f"The environment variable {name} contains a NUL character.")
    return dict(variables)


def safe_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Drop variables steering programs or holding credentials, before the next command."""
    valid_name, steers, token = map(_compile, (_NAME, _STEERS, _OPENS))
    return {
        name: value
        for name, value in variables.items()
        if len(name) + len(value) <= _MAX_VARIABLE_CHARS
        and valid_name.fullmatch(name)
        and not steers.fullmatch(name)
        and not token.search(value)
        and "\0" not in value
    }
