"""One shell line, read from left to right for the commands in it, however deep they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from handrail.policy._words import Words, plain, spellings, unquoted

_LONGEST = 256
"""Characters of a variable's value, for values can double with every assignment."""
_SPLITS = 2
"""Readings of one command, where shells disagree on its beginning."""

_BLANKS = re.compile(r"[ \t]*")
_OPERATOR = re.compile(r"\|\||&&|\|&|[\n;|&]")
_REDIRECT = re.compile(r"&>>?|<<<|<<-?|<>|>>|>\||>&|<&|[<>]")
_DESCRIPTOR = re.compile(r"[0-9]+|\{\w+\}")
_DUPLICATE = re.compile(r"[0-9]*-?")
_DELIMITER = re.compile(
    r"""(?:'[^'\n]*'|"[^"\n\\$`]*"|\\[^\n]|[^ \t\n'"\\$`;|&()<>])++(?=[ \t\n;|&()<>]|\Z)"""
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?(\+?)=(.*)", re.ASCII | re.DOTALL)
_CALLED = re.compile(r"(?:^|[;&|\n({]|\b(?:do|then|else)\b)\s{0,9}\"?\$\{?(\w+)")
_CARRIER = re.compile(
    r"COMMAND|PAGER|EDITOR|VISUAL|ASKPASS|SHELL|RSH|_SSH|BROWSER|LESSOPEN|^PS[0-4]$|_DIFF"
    r"|CONFIG_VALUE"
)
"""The variables whose value some program runs."""

_OPENING = frozenset("if then else elif do while until ! { } fi done esac in always".split())
_LOOPS = frozenset("for select foreach".split())
_DECLARING = frozenset("export declare local readonly typeset".split())


@dataclass(frozen=True, slots=True)
class Found:
    """A command, and whether another one feeds it."""

    argv: tuple[str, ...]
    piped: bool


@dataclass(slots=True, eq=False)
class _Heredoc:
    """A body that is to come."""

    delimiter: str
    quoted: bool
    tabs: bool
    certain: bool = True
    """Whether its body is sure to begin at the next newline."""


@dataclass(slots=True)
class _Frame:
    """The line itself, or one substitution in it, and the command that is read there."""

    nested: bool = False
    arithmetic: int = 0
    words: list[str] = field(default_factory=list[str])
    fed: list[str] = field(default_factory=list[str])
    """Here-strings, which are no arguments but may be commands."""
    splits: list[int] = field(default_factory=list[int])
    """Where dash ends a command and bash does not."""
    piped: bool = False
    opened: list[str] = field(default_factory=list[str])
    heredocs: list[_Heredoc] = field(default_factory=list[_Heredoc])


class Reader(Words):
    """One line, read once from left to right."""

    def __init__(self, text: str, values: dict[str, str]) -> None:
        super().__init__(text, values)
        self.found: list[Found] = []
        self.targets: list[str] = []
        """The files of redirections."""
        self.naming: list[Found] = []
        """Those whose output is the name of another command."""
        self.bodies: list[str] = []
        """Data, unless something here runs it."""
        self._pending: list[_Heredoc] = []

    def read(self) -> None:
        """Read the whole line."""
        self._commands(_Frame())

    @property
    def feeds(self) -> bool:
        """Whether one command may run what another one writes."""
        return bool(self.bodies or self.targets) or any(one.piped for one in self.found)

    def commands(self) -> None:
        """Read a substitution, up to its end."""
        self._commands(_Frame(nested=True, arithmetic=self.text.startswith("(", self.at)))

    def _commands(self, frame: _Frame) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t":
                self.at += 1
            elif char in "()":
                if self._closes(frame, char):
                    return
            elif char == "#" and not frame.arithmetic:
                self.at = self._end_of_line(self.at)
            elif char in "\n;|&":
                self._operator(frame)
            elif char in "<>" and not self.text.startswith("(", self.at + 1):
                self._redirect(frame)
            else:
                self._argument(frame)
        self._finish(frame)
        self.doubtful |= frame.nested or bool(frame.opened)

    def _end_of_line(self, start: int) -> int:
        end = self.text.find("\n", start)
        return len(self.text) if end < 0 else end

    def _closes(self, frame: _Frame, char: str) -> bool:
        """A parenthesis; gives whether it ends the frame."""
        self._finish(frame)
        self.at += 1
        if char == "(":
            double = self.text.startswith("(", self.at)
            frame.opened.append("((" if double else "(")
            frame.arithmetic += double
        elif frame.opened and frame.opened[-1] != "case":
            frame.arithmetic -= frame.opened.pop() == "(("
        elif frame.nested and not frame.opened:
            self.doubtful |= bool(frame.heredocs)
            return True
        elif not frame.opened:
            self.doubtful = True
        return False

    def _operator(self, frame: _Frame) -> None:
        if self.text.startswith("&>", self.at) and len(frame.splits) < _SPLITS:
            frame.splits.append(len(frame.words))
            self._redirect(frame)
            return
        self._finish(frame)
        sign = self.take(_OPERATOR)
        frame.piped = sign in {"|", "|&"}
        if sign == "\n":
            for heredoc in frame.heredocs:
                self._body(heredoc)
            frame.heredocs = []

    def _finish(self, frame: _Frame) -> None:
        if words := frame.words + frame.fed:
            for start in (0, *frame.splits):
                for argv in spellings(words[start:]):
                    self._emit(argv, piped=frame.piped)
            frame.words, frame.fed = [], []
        frame.splits, frame.piped = [], False

    def _emit(self, argv: list[str], *, piped: bool) -> None:
        """Note a command, without what may stand before its name."""
        start = 0
        while start < len(argv) and (argv[start] in _OPENING or self._assigns(argv[start])):
            start += 1
        argv = argv[start:]
        if not argv:
            return
        if ("{" in argv[0]) != ("}" in argv[0]):
            argv[0] = argv[0].strip("{}")  # zsh needs no blank here
        if argv[0] in _DECLARING:
            for word in argv:
                self._assigns(word)
        if argv[0] in _LOOPS and argv[1:2] and argv[1] in self._called:
            self.found += [Found((word,), piped=False) for word in argv[3:]]
        self.found.append(Found(tuple(argv), piped))

    @cached_property
    def _called(self) -> set[str]:
        """The variables that stand where a command's name does."""
        return set(_CALLED.findall(self.text))

    def _assigns(self, word: str) -> bool:
        assignment = _ASSIGNMENT.match(word)
        if not assignment:
            return False
        name, more, value = assignment.groups()
        old = self.values.get(name, "") if more else ""
        self.values[name] = (old + value)[:_LONGEST]
        if _CARRIER.search(name):
            self.lines.append(value)
        return True

    def _argument(self, frame: _Frame) -> None:
        start = self.at
        first = not frame.words or frame.words[-1] in _OPENING
        inner, lines = len(self.found), len(self.lines)
        word = self._whole_word()
        raw = self.text[start : self.at]
        if first and raw.startswith(("$(", '"$(')):
            self.naming += self.found[inner:]
        elif first and raw.startswith(("`", '"`')):
            self.lines += [f"{line} | sh" for line in self.lines[lines : lines + 1]]
        if self.text.startswith(("<", ">"), self.at) and _DESCRIPTOR.fullmatch(raw):
            return
        # bash reads an index up to its end, over comments and newlines.
        self.doubtful |= first and "[" in raw[1:] and "]" not in raw
        if raw in {"{", "}"}:
            self._finish(frame)
            return
        if first and raw == "case":
            frame.opened.append("case")
        elif first and raw == "esac" and frame.opened[-1:] == ["case"]:
            frame.opened.pop()
        frame.words.append(word)

    def _whole_word(self) -> str:
        start = self.at
        word = self.word()
        if self._pending and "\n" in self.text[start : self.at]:
            for heredoc in self._pending:
                heredoc.certain = False
            self._pending.clear()
        return word

    def _redirect(self, frame: _Frame) -> None:
        sign = self.take(_REDIRECT)
        if sign in {"<<", "<<-"} and frame.arithmetic:
            return
        self.take(_BLANKS)
        if sign in {"<<", "<<-"}:
            self._heredoc(frame, tabs=sign == "<<-")
            return
        word = self._whole_word()
        target = plain(word)
        if sign == "<<<":
            frame.fed.append(word)
        elif target and not (sign in {">&", "<&"} and _DUPLICATE.fullmatch(target)):
            self.targets.append(target)

    def _heredoc(self, frame: _Frame, *, tabs: bool) -> None:
        # In an index << is a shift, and what then looks like a body is not one.
        self.doubtful |= "[" in self.text[self.text.rfind("\n", 0, self.at) + 1 : self.at]
        raw = self.take(_DELIMITER)
        if not raw:
            self.doubtful = True
            return
        delimiter = unquoted(raw)
        heredoc = _Heredoc(delimiter, quoted=delimiter != raw, tabs=tabs)
        frame.heredocs.append(heredoc)
        self._pending.append(heredoc)

    def _body(self, heredoc: _Heredoc) -> None:
        """Step over a body that surely is one; what is doubtful is read as commands."""
        self._pending = [one for one in self._pending if one is not heredoc]
        start = line = self.at
        while heredoc.certain and not self.doubtful and line <= len(self.text):
            end = self._end_of_line(line)
            text = self.text[line:end]
            if (text.lstrip("\t") if heredoc.tabs else text) == heredoc.delimiter:
                self._data(self.text[start:line], quoted=heredoc.quoted)
                self.at = min(end + 1, len(self.text))
                return
            line = end + 1
        self.doubtful = True

    def _data(self, body: str, *, quoted: bool) -> None:
        self.bodies.append(body)
        if quoted:
            return
        reader = Reader(body, self.values)
        reader.depth = self.depth + 1
        reader.expand()
        self.found += reader.found
        self.lines += reader.lines
        self.targets += reader.targets
        if reader.doubtful or "\\\n" in body:  # a line that goes on may hide where the body ends
            self.lines.append(body)
