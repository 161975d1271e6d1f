"""Shell lines that mean the same in bash, dash and zsh, taken apart; of all others nothing.

Whatever this module gives out is what any of the three shells would run, argument for argument. A
line is read whole or not at all, and what is left out is left out on purpose: a reader that knows
more of the language is a reader that can be wrong about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
          | (?<=[A-Za-z0-9_])~        # HEAD~1: no home stands behind a letter
          | '[^']*+' (?!')            # zsh may be told to read two quotes as one
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
"""What shows as nothing although Unicode calls it a letter, a mark or a symbol."""

_SYNTAX = frozenset(
    """
    ! [[ ]] { } ( ) - if then else elif fi do done case esac while until for in function select
    time coproc repeat foreach end nocorrect noglob always
    declare export float integer local private readonly typeset
    alias unalias set setopt unsetopt shopt emulate enable disable
    """.split()
)
"""Names that one of the shells reads as syntax, or after which it reads the rest otherwise.

In quotes too: a shell would then look for a program of that name, and there is none.
"""

_STATEFUL = frozenset(
    "cd chdir pushd popd read exit return exec eval . source unset trap umask ulimit builtin"
    " command".split()
)
"""What changes the shell itself: at the end of a pipe, zsh changes and the others do not."""


@dataclass(frozen=True, slots=True)
class Simple:
    """One simple command: what is run, and the operator that leads to it."""

    argv: tuple[str, ...]
    """The name and its arguments, as the program gets them."""
    operator: str = ""
    """``&&``, ``||``, ``;``, ``|`` or a newline; nothing before the first command."""

    @property
    def piped(self) -> bool:
        """Whether it is fed by the command before it."""
        return self.operator == "|"


@dataclass(slots=True)
class _Draft:
    """A command while it is read."""

    operator: str
    words: list[str]
    streams: set[str]


class _NotPlainError(Exception):
    """Inside this module only: one of the shells may read this otherwise."""


def lex(text: str) -> tuple[Simple, ...] | None:
    """The commands that any of the three shells would run, or None where one might differ."""
    if not _shows_all(text):
        return None
    try:
        return tuple(_commands(text))
    except _NotPlainError:
        return None


def _shows_all(text: str) -> bool:
    """Whether a reader of the line sees every character of it."""
    if not text.isprintable() and not text.replace("\n", "").replace("\t", "").isprintable():
        return False
    return text.isascii() or _HIDDEN.search(text) is None


def _commands(text: str) -> Iterator[Simple]:
    draft = _Draft("", [], set())
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "word":
            draft.words.append(_word(token["word"], first=not draft.words))
        elif kind == "operator":
            if draft.words or token["operator"] != "\n":
                yield _finished(draft, token["operator"])
                draft = _Draft(token["operator"], [], set())
        elif kind == "redirect":
            _redirect(draft, token)
        elif kind == "other":
            raise _NotPlainError
    if draft.words or draft.operator not in {";", "\n"}:
        yield _finished(draft, "")


def _finished(draft: _Draft, following: str) -> Simple:
    # With a pipe and a file for one stream, zsh serves both and the others the file alone.
    if not draft.words or (following == "|" and "1" in draft.streams):
        raise _NotPlainError
    if draft.operator == "|" and ("0" in draft.streams or draft.words[0] in _STATEFUL):
        raise _NotPlainError
    return Simple(tuple(draft.words), draft.operator)


def _redirect(draft: _Draft, token: re.Match[str]) -> None:
    stream = "0" if token["input"] else token["output"] or token["errors"] or "1"
    if not draft.words or stream in draft.streams:
        raise _NotPlainError
    draft.streams.add(stream)


def _word(raw: str, *, first: bool) -> str:
    """A word without its quotes."""
    value = raw
    if "'" in raw or '"' in raw:
        value = "".join(piece[piece.lastindex or 0] for piece in _PIECE.finditer(raw))
    if not raw.isascii() and not _letters_only(raw):
        raise _NotPlainError
    if first:
        _check_name(value)
    elif value.startswith("=") and (raw[0] == "=" or raw[:2] in {"''", '""'}):
        raise _NotPlainError  # zsh puts the path of a program here
    return value


def _check_name(name: str) -> None:
    """Refuse a name that is syntax, an assignment, a job, or an option of the shell itself."""
    if not name or name in _SYNTAX or name[0] in "%-+" or "=" in name:
        raise _NotPlainError


def _letters_only(raw: str) -> bool:
    """Whether what stands outside of quotes is ASCII or letters."""
    bare = "".join(piece[3] or "" for piece in _PIECE.finditer(raw))
    return all(char.isascii() or char.isalpha() for char in bare)
