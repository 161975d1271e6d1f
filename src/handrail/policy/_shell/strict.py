"""Split a shell command into simple commands, if bash, dash and zsh certainly agree on them.

The result is exactly what each shell would run, argument for argument. A command is read completely
or not at all. Much syntax is missing on purpose: a reader that knows more can be wrong about more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""
    [ \t]*+ (?:
        (?<=[ \t]) (?P<redirect>
            (?: (?P<output> [12]?+ ) >{1,2} [ \t]*+ /dev/null
              | (?P<input> < ) [ \t]*+ /dev/null
              | (?P<errors> 2 ) >& [ \t]*+ 1
              | 1?+ >& [ \t]*+ 2
            ) (?= [ \t\n;|&] | \Z )
        )
      | (?P<word> (?:
            [A-Za-z0-9_./:,@%+=\-\u0080-\U0010ffff]++
          | (?<=[A-Za-z0-9_])~        # HEAD~1: after a letter, it is not a home
          | '[^']*+' (?!')            # an option of zsh reads two quotes as one
          | "(?:[^"$`\\!]|\\[^"$`\\!\n])*+"
        )++ )
      | (?P<operator> && | \|\| | [;|\n] )
      | (?P<end> \Z )
      | (?P<other> . )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_PIECE = re.compile(r"""'([^']*)'|"([^"]*)"|([^'"]+)""")

_HIDDEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00011070-\U0001107f\U00013430-\U00013455\U00016fe4\U0001d159\U000e0000-\U000e0fff]"
)
"""Invisible characters classified by Unicode as letters, marks or symbols."""

_SYNTAX = frozenset(
    """
    ! [[ ]] { } ( ) - if then else elif fi do done case esac while until for in function select
    time coproc repeat foreach end nocorrect noglob always
    declare export float integer local private readonly typeset
    alias unalias set setopt unsetopt shopt emulate enable disable
    """.split()
)
"""Names a shell reads as syntax, or after which it parses the rest differently.

Quoted names are excluded too: a shell would look for a program with this name.
"""

_STATEFUL = frozenset(
    "cd chdir pushd popd read exit return exec eval . source unset trap umask ulimit builtin"
    " command".split()
)
"""Builtins changing the shell itself: at the end of a pipe, they do so only in zsh."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One simple command, and the operator before it."""

    argv: tuple[str, ...]
    """The program's name and arguments."""
    operator: str = ""
    """``&&``, ``||``, ``;``, ``|`` or a newline; empty for the first command."""
    start: int = field(default=0, compare=False, repr=False)
    end: int = field(default=0, compare=False, repr=False)
    """Its place in the text."""

    @property
    def piped(self) -> bool:
        """Whether it reads the previous command's output."""
        return self.operator == "|"


@dataclass(slots=True)
class _CommandDraft:
    """A command while it is read."""

    operator: str
    words: list[str]
    streams: set[str]
    start: int = 0
    end: int = 0


class _NotSimpleError(Exception):
    """Internal: a shell may read this differently."""


def lex(text: str) -> tuple[SimpleCommand, ...] | None:
    """Return the commands all three shells would run, or None if one might differ."""
    if not _shows_all(text):
        return None
    try:
        return tuple(_commands(text))
    except _NotSimpleError:
        return None


def _shows_all(text: str) -> bool:
    """Return whether all characters in the command are visible."""
    if not text.isprintable() and not text.replace("\n", "").replace("\t", "").isprintable():
        return False
    return text.isascii() or _HIDDEN.search(text) is None


def _commands(text: str) -> Iterator[SimpleCommand]:
    draft = _CommandDraft("", [], set())
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "word":
            draft.start = draft.start if draft.words else token.start("word")
            draft.end = token.end()
            draft.words.append(_word(token["word"], first=not draft.words))
        elif kind == "operator":
            if draft.words or token["operator"] != "\n":
                yield _finish(draft, token["operator"])
                draft = _CommandDraft(token["operator"], [], set())
        elif kind == "redirect":
            _redirect(draft, token)
        elif kind == "other":
            raise _NotSimpleError
    if draft.words or draft.operator not in {";", "\n"}:
        yield _finish(draft, "")


def _finish(draft: _CommandDraft, following: str) -> SimpleCommand:
    # With a pipe and a file for one stream, zsh writes to both, the others only to the file.
    if not draft.words or (following == "|" and "1" in draft.streams):
        raise _NotSimpleError
    if draft.operator == "|" and ("0" in draft.streams or draft.words[0] in _STATEFUL):
        raise _NotSimpleError
    return SimpleCommand(tuple(draft.words), draft.operator, draft.start, draft.end)


def _redirect(draft: _CommandDraft, token: re.Match[str]) -> None:
    stream = "0" if token["input"] else token["output"] or token["errors"] or "1"
    if not draft.words or stream in draft.streams:
        raise _NotSimpleError
    draft.streams.add(stream)
    draft.end = token.end()


def _word(raw: str, *, first: bool) -> str:
    """Return a word without its quotes."""
    value = raw
    if "'" in raw or '"' in raw:
        value = "".join(piece[piece.lastindex or 0] for piece in _PIECE.finditer(raw))
    if not raw.isascii() and not _letters_only(raw):
        raise _NotSimpleError
    if first:
        _check_name(value)
    elif value.startswith("=") and (raw[0] == "=" or raw[:2] in {"''", '""'}):
        raise _NotSimpleError  # zsh replaces this with a program's path
    return value


def _check_name(name: str) -> None:
    """Reject a name for syntax, an assignment, a job, or a shell option."""
    if not name or name in _SYNTAX or name[0] in "%-+" or "=" in name:
        raise _NotSimpleError


def _letters_only(raw: str) -> bool:
    """Return whether everything outside quotes is ASCII or a letter."""
    bare = "".join(piece[3] or "" for piece in _PIECE.finditer(raw))
    return all(char.isascii() or char.isalpha() for char in bare)
