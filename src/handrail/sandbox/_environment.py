"""The variables that a command sees: a short list, built anew, never the host's own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from handrail import HandrailError
from handrail.sandbox._protected import beneath

QUIET: Final = {
    "CI": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "EDITOR": "true",
    "GIT_ASKPASS": "false",
    "GIT_EDITOR": "true",
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
}
"""Nobody sits at the keyboard: no pager, no editor, no prompt, no colours."""
_FOLDERS: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where programs are, if the host's own PATH names no folder that can be trusted."""
_KEPT: Final = ("HOME", "LANG", "LOGNAME", "TZ", "USER")
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_STEERS: Final = (
    r"(?i)(AWS|BASH|CARGO|CURL|DOCKER|DYLD|GCONV|GIT|GLIBC|GRADLE|HANDRAIL|LD|LESS|LUA|MAVEN|NPM_CONFIG"
    r"|OPENSSL|PERL5?|PIP|PYTHON|RSYNC|RUBY|RUSTC|SSH|SSL|XDG)_?.*|.*_PROXY|AWKPATH|CLASSPATH|EXECIGNORE"
    r"|GOENV|GOFLAGS|GOPROXY|GOTOOLCHAIN|KUBECONFIG|LOCPATH|MAKEFILES|PHPRC|POSIXLY_CORRECT|TAR_OPTIONS"
    r"|WGETRC|BROWSER|CC|CDPATH|CI|CXX|EDITOR|ENV|GLOBIGNORE|HOME|IFS|JAVA_TOOL_OPTIONS"
    r"|JDK_JAVA_OPTIONS|MAKEFLAGS|MANPAGER|NODE_OPTIONS|NODE_PATH|PAGER|PATH|PROMPT_COMMAND|PS[0-4]"
    r"|RIPGREP_CONFIG_PATH|SHELL|SHELLOPTS|TERM|TMPDIR|VISUAL"
)
"""Variables that make some program run or load something else."""
_OPENS: Final = (
    r"gh[pousr]_\w{20}|github_pat_\w{20}|glpat-[\w-]{16}|sk-[\w-]{16}|xox[abeprs]-[\w-]{8}"
    r"|(AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30}|ya29\.[\w-]{16}|npm_\w{30}|pypi-[\w-]{16}"
    r"|eyJ[\w-]{8,500}\.[\w-]{8,}\.|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|[a-z][a-z0-9+.-]{0,30}://[^/\s:@]*:[^/\s@]+@"
)
"""Values that open a door somewhere."""
_LONGEST: Final = 4096
"""Characters of a value that is handed on. Longer ones would take long to look at."""


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """One of those above: the first command needs it, the making of a sandbox does not."""
    return re.compile(text)


def base(root: str, *, temporary: str, shell: str) -> dict[str, str]:
    """What every command sees, from the few of the host's variables that are harmless."""
    token = _pattern(_OPENS)
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    kept |= {name: value for name, value in os.environ.items() if re.fullmatch(r"LC_[A-Z]+", name)}
    return {
        "HOME": "/",
        "LANG": "C.UTF-8",
        **{name: value for name, value in kept.items() if not token.search(value)},
        "PATH": os.pathsep.join(folders(root)),
        "SHELL": shell,
        "TMPDIR": temporary,
        **QUIET,
    }


def folders(root: str) -> list[str]:
    """The folders of the host's PATH that no command can write: absolute, outside the workspace."""
    named = dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep))
    trusted = [
        one for one in named if one.startswith("/") and not beneath(os.path.realpath(one), root)
    ]
    return trusted or list(_FOLDERS)


def checked(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables from the host program: any, if they can be variables at all."""
    for name, value in variables.items():
        if not _pattern(_NAME).fullmatch(name):
            raise HandrailError(f"{name!r} cannot be the name of an environment variable")
        if "\0" in value:
            raise HandrailError(f"the environment variable {name} has a NUL character in it")
    return dict(variables)


def harmless(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that a command may hand on to the next: none that steers programs or opens doors."""
    named, steers, token = map(_pattern, (_NAME, _STEERS, _OPENS))
    return {
        name: value
        for name, value in variables.items()
        if len(name) + len(value) <= _LONGEST
        and named.fullmatch(name)
        and not steers.fullmatch(name)
        and not token.search(value)
        and "\0" not in value
    }
