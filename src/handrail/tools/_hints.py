"""What to do instead, where a command wanted what is not there: by its words and its output."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

_MOST_LINE = 4_000
"""Characters of a line that is looked at: a longer one is a script, and takes too long to read."""
_MOST_READ = 20_000
"""Characters of the end of its output that are looked at."""
_OPERATORS = "();<>|&\n"
_BEFORE_A_COMMAND = frozenset("env time command exec nohup then do else ! {".split())
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)

_NO_INPUT = (
    "Nothing can be typed here: {name!r} found its standard input empty. Name a file, or hand the "
    "text over with a pipe or a here-document."
)
_NO_SESSION = (
    "Nothing can be typed here: {name!r} without a program to run ends at once. Put the program "
    "into a file, into an option such as -c or -e, or into a here-document."
)
_NO_EDITOR = "There is no terminal for {name!r}. Change files with the tools for that, or with sed."
_NO_SCREEN = "There is no terminal for {name!r}. Use a command that prints once and ends."
_NO_RIGHTS = "No rights beyond your own can be had here. Do it without {name!r}, or tell the user."
_NO_DISTANCE = (
    "{name!r} cannot ask for a password here, and reaches no host that was not allowed. Work with "
    "what is here, or tell the user."
)

_EMPTY_INPUT = dict.fromkeys(
    "cat tac sort uniq tee head tail less more xxd od base64 md5sum sha256sum".split(), _NO_INPUT
) | dict.fromkeys(
    "python python3 ipython node deno ruby irb perl php lua bash sh zsh dash bc dc psql sqlite3 "
    "mysql R ghci".split(),
    _NO_SESSION,
)
"""For commands that were given no file and said nothing."""
_FAILED = (
    dict.fromkeys("vi vim nvim view nano pico emacs ed".split(), _NO_EDITOR)
    | dict.fromkeys("less more most top htop watch tmux screen dialog whiptail".split(), _NO_SCREEN)
    | dict.fromkeys("sudo su doas pkexec passwd chsh".split(), _NO_RIGHTS)
    | dict.fromkeys("ssh scp sftp mosh telnet ftp".split(), _NO_DISTANCE)
    | {"read": _NO_INPUT, "select": _NO_INPUT}
)
"""For commands that failed."""
_FEEDABLE = ("read", "select", "less", "more")
_WAITING = frozenset("vi vim view nvim rvim vimdiff".split())
"""Editors that wait for keys where there are none, and say nothing."""
_BY_ITSELF = ("-e", "-E", "-s", "-c", "-S", "+", "--")
"""Options with which they work without keys."""
_SAID = {
    re.compile(pattern): " ".join(advice.split())
    for pattern, advice in {
        r"due to empty commit message|empty tag message|no tag message\?": """
            There is no editor here. Give the message with -m, or in a file with -F.
        """,
        r"terminal prompts disabled|could not read (?:Username|Password)|Host key verification"
        r"|a (?:terminal|tty|password) is required|[Nn]ot a (?:tty|terminal)|no tty present"
        r"|input device is not a TTY|EOFError: EOF when reading": """
            Nothing can be typed here. Give what it asks for with options, files or variables.
        """,
        r"[Cc]ould not resolve host|failure in name resolution|Name or service not known"
        r"|[Nn]etwork is unreachable|ENOTFOUND|EAI_AGAIN|ENETUNREACH": """
            No host can be reached from here but those that were allowed. Work with what is here,
            or tell the user which host is needed.
        """,
        r"Read-only file system|EROFS": """
            Only the workspace and $TMPDIR can be written, and not what is protected in it.
        """,
        r"Cannot allocate memory|MemoryError|std::bad_alloc|memory exhausted|ENOMEM": """
            There is a limit on memory. Work on less at a time.
        """,
        r"File size limit exceeded|File too large|EFBIG": """
            There is a limit on the size of a file. Write less, or to several.
        """,
        r"fork: (?:retry: )?Resource temporarily unavailable": """
            There is a limit on processes. Start fewer at a time.
        """,
    }.items()
}
"""For failed commands, by what they said."""


class Simple(NamedTuple):
    """One command of a line, roughly read."""

    name: str
    words: tuple[str, ...]
    """Behind the name."""
    fed: bool
    """Whether a pipe or a file is its standard input."""

    @property
    def idle(self) -> bool:
        """Whether it was given nothing to work on."""
        return not self.fed and all(one == "-" or one.startswith("--") for one in self.words)


def hint(command: str, output: str, code: int) -> str:
    """What to do instead; empty where neither the command nor what it said gives reason."""
    return next(_found(command, output[-_MOST_READ:], code), "")


def hopeless(command: str) -> str:
    """Why a command would only wait for keys, and what to do instead; empty where it would not."""
    for simple in commands(command):
        if simple.name in _WAITING and not any(one.startswith(_BY_ITSELF) for one in simple.words):
            return _NO_EDITOR.format(name=simple.name)
    return ""


def _found(command: str, output: str, code: int) -> Iterator[str]:
    for simple in commands(command):
        name = simple.name
        if code and name in _FAILED and not (simple.fed and name in _FEEDABLE):
            yield _FAILED[name].format(name=name)
        elif not output.strip() and simple.idle and name in _EMPTY_INPUT:
            yield _EMPTY_INPUT[name].format(name=name)
    if code:
        yield from (advice for pattern, advice in _SAID.items() if pattern.search(output))


def commands(line: str) -> list[Simple]:
    """The commands of a line, as far as that is easily told; none where it is not."""
    if len(line) > _MOST_LINE:
        return []
    lexer = shlex.shlex(line, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    try:
        tokens = list(lexer)
    except ValueError:
        return []
    return list(_split(tokens, fed="<" in line))


def _split(tokens: list[str], *, fed: bool) -> Iterator[Simple]:
    """What a redirection feeds is not worked out: where there is one, all count as fed."""
    words: list[str] = []
    piped = written = False
    for token in [*tokens, ";"]:
        if not token or not set(token) <= set(_OPERATORS):
            words += [] if written else [token]
            written = False
            continue
        if written := ">" in token:
            continue
        while words and (words[0] in _BEFORE_A_COMMAND or _ASSIGNMENT.fullmatch(words[0])):
            del words[0]
        if words:
            name = words[0].rpartition("/")[2]
            yield Simple(name, tuple(words[1:]), fed or piped)
        piped, words = token in ("|", "|&"), []
