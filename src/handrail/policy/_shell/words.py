"""Words in a shell command: what each can become once the shell has expanded it.

While it is read, a word contains marks: private-use characters without a meaning in a shell.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

MAYBE = "\ue000"
"""An unknown expansion: nothing, or a gap between two words."""
GAP = "\ue001"
"""A certain gap between two words."""
HELD = str.maketrans("{},", "\ue002\ue003\ue004")
"""Braces and commas in quotes, which the shell does not expand."""
_FREED = str.maketrans("\ue002\ue003\ue004", "{},")

GLOB = re.compile(r"[*?\[]")
"""Finds the first sign of a pattern for file names."""
_MAX_BRACE_CHARS = 4096
"""Total characters in all words made from one by braces. Beyond it, braces stay."""
_MAX_EXPANDED_WORDS = 256
"""Words per command. Beyond it, words are not expanded."""
_SPECIAL = re.compile("[{\ue000-\ue004]")
_BRACES = re.compile(r"\{([^{}]*+)\}")
_RANGE = re.compile(r"(.)\.\.(.)", re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_NAMED = dict(zip("abefnrtvE", "\a\b\x1b\f\n\r\t\v\x1b", strict=True))
_QUOTES = re.compile(r"""'([^']*)'|"([^"]*)"|\\(.)""", re.DOTALL)

_MAX_DEPTH = 24
"""Nested substitutions: the reader recurses into each."""
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
    """Yield the argument lists a shell may make from these words."""
    if words:
        yield _expand(words, "")
    if any(MAYBE in word for word in words):
        yield _expand(words, GAP)


def strip_marks(word: str) -> str:
    """Return a word without its marks."""
    return word.replace(MAYBE, "").replace(GAP, " ").translate(_FREED)


def strip_quotes(word: str) -> str:
    """Return a word without its quotes, if it has nothing to expand."""
    return _QUOTES.sub(lambda quoted: quoted[quoted.lastindex or 0], word)


def unescape(body: str) -> str:
    """Return the value in ``$'...'``. A NUL ends it, as in bash."""
    return _ESCAPE.sub(_read_escape_code, body).partition("\0")[0].translate(HELD)


def _expand(words: list[str], unknown: str) -> list[str]:
    expanded: list[str] = []
    for word in words:
        if not _SPECIAL.search(word):
            expanded.append(word)
        elif len(expanded) > _MAX_EXPANDED_WORDS:
            expanded.append(strip_marks(word))
        else:
            for part in word.replace(MAYBE, unknown).split(GAP):
                expanded += [choice.translate(_FREED) for choice in _braces(part) if choice]
    return expanded


def _braces(word: str) -> list[str]:
    """Return the words braces make from one, the innermost pair first."""
    done: list[str] = []
    waiting = [word]
    while waiting:
        word = waiting.pop()
        further = (
            _open_braces(word) if (len(waiting) + len(done)) * len(word) < _MAX_BRACE_CHARS else []
        )
        waiting += reversed(further)
        done += [] if further else [word]
    return done


def _open_braces(word: str) -> list[str]:
    """Return the words made by the first pair of braces, or none."""
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


def _read_escape_code(escape: re.Match[str]) -> str:
    two, four, eight, octal, control, other = escape.groups()
    if code := two or four or eight:
        return chr(min(int(code, 16), sys.maxunicode))
    if octal:
        return chr(int(octal, 8) & 0xFF)
    if control:
        return chr(ord(control) & 0x1F)
    return _NAMED.get(other, other)


class WordReader:
    """A shell command, the current position in it, and how to read a word from there."""

    def __init__(self, text: str, values: dict[str, str]) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.values = values
        """Known variable values."""
        self.nested: list[str] = []
        """Nested commands, as text."""
        self.doubtful = False
        """Whether quotes or brackets are unbalanced, or something else is unclear."""
        self.unknown = ""
        """The first expansion without a known value."""

    def commands(self) -> None:
        """Read a substitution's commands, up to its end. Does nothing here."""

    def take(self, pattern: re.Pattern[str]) -> str:
        """Read and return what matches at the current position; empty if nothing does."""
        match = pattern.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return match[0]

    def expand(self) -> None:
        """Read text that is not a command, to find commands in its expansions."""
        while self.at < len(self.text):
            if run := _TEXT_RUN.match(self.text, self.at):
                self.at = run.end()
            else:
                self._expansion(self.text[self.at], quoted=True)

    def word(self) -> str:
        """Read one word: without its quotes, and with marks."""
        parts: list[str] = []
        while True:
            if run := _RUN.match(self.text, self.at):
                parts.append(run[0])
                self.at = run.end()
            char = self.text[self.at : self.at + 1]
            if char and char not in _ENDS:
                parts.append(self._quoting(char))
            elif char in _ARROWS and self.text.startswith("(", self.at + 1):
                self.unknown = self.unknown or f"{char}(...)"
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
        """Read the rest of a double-quoted text, after the opening quote."""
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
                parts.append(self._read_escape())
            else:
                parts.append(self._expansion(char, quoted=True))
        self.doubtful = True
        return "".join(parts)

    def _read_escape(self) -> str:
        """Read a backslash in double quotes, which stays before most characters."""
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
            self.doubtful |= following == "["  # old arithmetic, in which << is not a heredoc
            self.at += 1
            return "$"
        return self._split_value(value, self.text[start : self.at], quoted=quoted)

    def _split_value(self, value: str, raw: str, *, quoted: bool) -> str:
        """Return an expanded value, with gaps where it becomes several words."""
        if MAYBE in value:
            self.unknown = self.unknown or raw
        if quoted and "@" not in raw:  # "$@" may be no word at all, even in quotes
            return value.replace(MAYBE, "")
        return _SPACE.sub(GAP, value)

    def _substitution(self) -> str:
        """Read commands in parentheses, after a dollar or an arrow."""
        self.at += 2
        if self.depth >= _MAX_DEPTH:
            self.doubtful = True
        else:
            self.depth += 1
            self.commands()
            self.depth -= 1
        return MAYBE

    def _backticks(self) -> str:
        body = _BACKTICKS.match(self.text, self.at)
        if body:
            self.nested.append(_BACKTICK_ESCAPE.sub(r"\1", body[1]))
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
        return unescape(body[1])

    def _parameter(self, *, quoted: bool) -> str:
        """Read a parameter in braces. Returns its value, or the default written there."""
        self.at += 2
        head = _PARAMETER.match(self.text, self.at)
        if not head or self.depth >= _MAX_DEPTH:
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
