"""Words of a shell line while they are read: what may come of one once the shell has expanded it.

A word carries marks, characters of the private area to which no shell gives a meaning.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

MAYBE = "\ue000"
"""An expansion that nobody knows: nothing, or a gap between two words."""
GAP = "\ue001"
"""A gap between two words, for sure."""
HELD = str.maketrans("{},", "\ue002\ue003\ue004")
"""Braces and commas in quotes, which the shell leaves as they are."""
_FREED = str.maketrans("\ue002\ue003\ue004", "{},")

_MOST_CHARS = 4096
"""Of the words that one word with braces becomes: beyond, no further pair is opened."""
_MOST_WORDS = 256
"""Of one command: beyond, no further word is expanded."""
_SPECIAL = re.compile("[{\ue000-\ue004]")
_BRACES = re.compile(r"\{([^{}]*+)\}")
_RANGE = re.compile(r"(.)\.\.(.)", re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_NAMED = dict(zip("abefnrtvE", "\a\b\x1b\f\n\r\t\v\x1b", strict=True))
_QUOTES = re.compile(r"""'([^']*)'|"([^"]*)"|\\(.)""", re.DOTALL)

_DEEPEST = 24
"""Substitutions within one another, for the reader calls itself for each."""
_ARROWS = frozenset("<>")
_ENDS = frozenset(" \t\n;|&()<>")
_RUN = re.compile(r"[^ \t\n;|&()<>'\"\\$`]+")
_QUOTED_RUN = re.compile(r"[^\"\\$`]+")
_TEXT_RUN = re.compile(r"(?:[^\\$`]|\\.|\\\Z)+", re.DOTALL)
_PARAMETER_RUN = re.compile(r"[^}'\"\\$`<>]+")
_SPACE = re.compile(r"\s+")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!_-]", re.ASCII)
_PARAMETER = re.compile(
    r"[!#]?([A-Za-z_]\w*|[0-9]+|[@*#?$!_-])?(?:\[[^]$`]*\])?(:?[-=+?])?", re.ASCII
)
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*+)'", re.DOTALL)
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*+)`", re.DOTALL)
_BACKTICK_ESCAPE = re.compile(r"\\([`\\$\"])")


def spellings(words: list[str]) -> Iterator[list[str]]:
    """The argument lists that a shell may make of these words."""
    if words:
        yield _expanded(words, "")
    if any(MAYBE in word for word in words):
        yield _expanded(words, GAP)


def plain(word: str) -> str:
    """A word without its marks."""
    return word.replace(MAYBE, "").replace(GAP, " ").translate(_FREED)


def unquoted(word: str) -> str:
    """A word that has quotes and nothing to expand, without them."""
    return _QUOTES.sub(lambda quoted: quoted[quoted.lastindex or 0], word)


def unescaped(body: str) -> str:
    """What stands in ``$'...'``; a NUL ends it, as it does in bash."""
    return _ESCAPE.sub(_escape, body).partition("\0")[0].translate(HELD)


def _expanded(words: list[str], unknown: str) -> list[str]:
    made: list[str] = []
    for word in words:
        if not _SPECIAL.search(word):
            made.append(word)
        elif len(made) > _MOST_WORDS:
            made.append(plain(word))
        else:
            for part in word.replace(MAYBE, unknown).split(GAP):
                made += [one.translate(_FREED) for one in _braces(part) if one]
    return made


def _braces(word: str) -> list[str]:
    """The words that braces make of one, the innermost pair first."""
    done: list[str] = []
    waiting = [word]
    while waiting:
        word = waiting.pop()
        further = _opened(word) if (len(waiting) + len(done)) * len(word) < _MOST_CHARS else []
        waiting += reversed(further)
        done += [] if further else [word]
    return done


def _opened(word: str) -> list[str]:
    """A word with its first pair of braces opened, if it has one."""
    for pair in _BRACES.finditer(word):
        choices = _choices(pair[1])
        if choices:
            return [word[: pair.start()] + choice + word[pair.end() :] for choice in choices]
    return []


def _choices(inside: str) -> list[str]:
    if "," in inside:
        return inside.split(",")
    if ends := _RANGE.fullmatch(inside):
        first, last = sorted(map(ord, ends.groups()))
        return [chr(code) for code in range(first, min(last + 1, first + 128))]
    return []


def _escape(escape: re.Match[str]) -> str:
    two, four, eight, octal, control, other = escape.groups()
    if code := two or four or eight:
        return chr(min(int(code, 16), sys.maxunicode))
    if octal:
        return chr(int(octal, 8) & 0xFF)
    if control:
        return chr(ord(control) & 0x1F)
    return _NAMED.get(other, other)


class Words:
    """A line, the place up to which it has been read, and how to read a word from there."""

    def __init__(self, text: str, values: dict[str, str]) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.values = values
        """What the variables are known to hold."""
        self.lines: list[str] = []
        """What a shell reads by itself."""
        self.doubtful = False
        """Whether something did not come out even."""

    def commands(self) -> None:
        """Read the commands of a substitution, up to its end; here as if there were none."""

    def take(self, pattern: re.Pattern[str]) -> str:
        """Read what matches here, if anything does."""
        match = pattern.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return match[0]

    def expand(self) -> None:
        """Read text that is no command, for the commands in its expansions."""
        while self.at < len(self.text):
            if run := _TEXT_RUN.match(self.text, self.at):
                self.at = run.end()
            else:
                self._expansion(self.text[self.at], quoted=True)

    def word(self) -> str:
        """One word without its quotes, and with marks."""
        parts: list[str] = []
        while True:
            if run := _RUN.match(self.text, self.at):
                parts.append(run[0])
                self.at = run.end()
            char = self.text[self.at : self.at + 1]
            if char and char not in _ENDS:
                parts.append(self._quoting(char))
            elif char in _ARROWS and self.text.startswith("(", self.at + 1):
                parts.append(self._substitution())
            else:
                break
        return "".join(parts)

    def _quoting(self, char: str) -> str:
        if char == "'":
            end = self.text.find("'", self.at + 1)
            self.doubtful |= end < 0
            end = len(self.text) if end < 0 else end
            quoted = self.text[self.at + 1 : end]
            self.at = end + 1
            return quoted.translate(HELD)
        if char == '"':
            self.at += 1
            return self._double()
        if char == "\\":
            escaped = self.text[self.at + 1 : self.at + 2]
            self.at += 2
            return "" if escaped == "\n" else escaped.translate(HELD)
        return self._expansion(char, quoted=False)

    def _double(self) -> str:
        """What stands in double quotes, after the first of them."""
        parts: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if run := _QUOTED_RUN.match(self.text, self.at):
                parts.append(run[0].translate(HELD))
                self.at = run.end()
            elif char == '"':
                self.at += 1
                return "".join(parts)
            elif char == "\\":
                parts.append(self._escaped())
            else:
                parts.append(self._expansion(char, quoted=True))
        self.doubtful = True
        return "".join(parts)

    def _escaped(self) -> str:
        """A backslash in double quotes, which stays before most characters."""
        escaped = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if escaped == "\n":
            return ""
        return escaped if escaped in '$`"\\' else ("\\" + escaped).translate(HELD)

    def _expansion(self, char: str, *, quoted: bool) -> str:
        start = self.at
        following = self.text[self.at + 1 : self.at + 2]
        if char == "`":
            value = self._backticks()
        elif following == "(":
            value = self._substitution()
        elif following == "{":
            value = self._parameter(quoted=quoted)
        elif following == "'" and not quoted:
            return self._ansi()
        elif following == '"' and not quoted:
            self.at += 2
            return self._double()
        elif name := _NAME.match(self.text, self.at + 1):
            self.at = name.end()
            value = self.values.get(name[0], MAYBE).translate(HELD)
        else:
            self.doubtful |= following == "["  # old arithmetic, in which << is no heredoc
            self.at += 1
            return "$"
        # "$@" may be no word at all, the quotes notwithstanding.
        if quoted and "@" not in self.text[start : self.at]:
            return value.replace(MAYBE, "")
        return _SPACE.sub(GAP, value)

    def _substitution(self) -> str:
        """Commands in parentheses, after a dollar or an arrow."""
        self.at += 2
        if self.depth >= _DEEPEST:
            self.doubtful = True
        else:
            self.depth += 1
            self.commands()
            self.depth -= 1
        return MAYBE

    def _backticks(self) -> str:
        body = _BACKTICKS.match(self.text, self.at)
        if body:
            self.lines.append(_BACKTICK_ESCAPE.sub(r"\1", body[1]))
            self.at = body.end()
        else:
            self.doubtful = True
            self.at += 1
        return MAYBE

    def _ansi(self) -> str:
        body = _ANSI.match(self.text, self.at)
        if not body:
            self.doubtful = True
            self.at += 2
            return ""
        self.at = body.end()
        return unescaped(body[1])

    def _parameter(self, *, quoted: bool) -> str:
        """A parameter in braces: its value, or else what stands there for the case of none."""
        self.at += 2
        head = _PARAMETER.match(self.text, self.at)
        if not head or self.depth >= _DEEPEST:
            self.doubtful = True
            return MAYBE
        self.at = head.end()
        self.depth += 1
        rest = self._up_to_brace(quoted=quoted)
        self.depth -= 1
        value = self.values.get(head[1] or "")
        if value is not None:
            return value.translate(HELD)
        return rest if head[2] and rest else MAYBE

    def _up_to_brace(self, *, quoted: bool) -> str:
        parts: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if run := _PARAMETER_RUN.match(self.text, self.at):
                parts.append(run[0])
                self.at = run.end()
            elif char == "}":
                self.at += 1
                return "".join(parts)
            elif char in "<>":
                inner = self.text.startswith("(", self.at + 1)
                parts.append(self._substitution() if inner else char)
                self.at += not inner
            elif char == "'" and quoted:
                parts.append(char)
                self.at += 1
            else:
                parts.append(self._quoting(char))
        self.doubtful = True
        return "".join(parts)
