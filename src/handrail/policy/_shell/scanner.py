"""Scan one shell command from left to right for the commands in it, at any depth."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from handrail.policy._shell.words import GLOB, WordReader, spellings, strip_marks, strip_quotes

_MAX_VALUE_CHARS = 256
"""Limit on a variable's value, which can double with every assignment."""
_MAX_SPLITS = 2
"""Readings per command, if shells disagree on where it starts."""

_SPACES = re.compile(r"[ \t]*")
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
"""Variables whose value some program runs."""

_LOCATED = re.compile(
    r"(?:\$\(|`)\s*(?:which|command -v|type -[pP]|whereis|(?:npm|yarn|pnpm) (?:bin|root)|pwd|brew"
    r"|git rev-parse|realpath|readlink|dirname|basename|pyenv|rbenv|nodenv|asdf|mise|poetry|pipenv"
    r"|uv|conda|xcrun|mktemp|go env|bundle|rustup|echo [\w ./-]+[)`]|printf '?%s'? [\w./-]+[)`])"
    r"[^|;&]*(?:\|\|[^|;&]*)*"
)
"""Readable substitutions, or ones whose output is a program's path."""
_QUOTED = re.compile(r"""'[^']*+'|"(?:[^"\\]|\\.)*+"|\\.""", re.DOTALL)
_SUBSTITUTED = re.compile(r"\$\(|`")
_CUT = re.compile(r"\$\{(?:!|\w+(?:\[[^]]{0,99}\])?(?:[/^,#%@~]|:[\s\d(\-$]*\d))")
"""A parameter whose value is changed, as in ``${x:0:1}``: what comes out cannot be known."""
_USED = re.compile(r"\$\{?(\w+)")
_TRANSPARENT = frozenset(
    "sudo doas command exec builtin nohup time nice setsid -exec -execdir -ok xargs".split()
)
"""Words followed by a program's name."""
_OPENING = frozenset("if then else elif do while until ! { } fi done esac in always".split())
_CLOSING = frozenset("fi done esac".split())
_LOOPS = frozenset("for select foreach".split())
_DECLARING = frozenset("export declare local readonly typeset".split())
_SILENT = frozenset(": true echo printf cat".split())
"""Programs printing nothing, or only their arguments."""
_BLANK = frozenset(["''", '""', "/dev/null"])
"""Arguments making these programs print nothing."""


@dataclass(frozen=True, slots=True)
class ScannedCommand:
    """A command, and whether it reads another one's output."""

    argv: tuple[str, ...]
    piped: bool


@dataclass(slots=True, eq=False)
class _Heredoc:
    """A heredoc whose body follows."""

    delimiter: str
    quoted: bool
    tabs: bool
    certain: bool = True
    """Whether its body certainly starts at the next newline."""


@dataclass(slots=True)
class _Frame:
    """The whole text or one substitution in it, with the current command."""

    nested: bool = False
    arithmetic: int = 0
    words: list[str] = field(default_factory=list[str])
    fed: list[str] = field(default_factory=list[str])
    """Here-strings, which are not arguments but may be commands."""
    splits: list[int] = field(default_factory=list[int])
    """Positions where dash ends a command and bash does not."""
    piped: bool = False
    blank: bool = True
    """Whether nothing read so far could be printed by the command."""
    replaced: list[str] = field(default_factory=list[str])
    """Files the command overwrites with its output."""
    opened: list[str] = field(default_factory=list[str])
    heredocs: list[_Heredoc] = field(default_factory=list[_Heredoc])


class CommandScanner(WordReader):
    """Scans a shell command once, from left to right."""

    def __init__(self, text: str, values: dict[str, str]) -> None:
        super().__init__(text, values)
        self.scanned: list[ScannedCommand] = []
        self.targets: list[str] = []
        """Redirection files."""
        self.inputs: list[str] = []
        """Redirection files that are read."""
        self.emptied: list[str] = []
        """Files overwritten with nothing, as by ``: > file``."""
        self.created: list[str] = []
        """Files overwritten with a command's output."""
        self.naming: list[ScannedCommand] = []
        """Commands whose output names another command."""
        self.bodies: list[str] = []
        """Heredoc bodies: data, unless a command runs it."""
        self.globs: list[str] = []
        """Words with a pattern replaced by file names in the shell."""
        self.hidden = False
        """Whether a program's name is computed in an unknown way."""
        self._computed: set[str] = set()
        """Variables with output from a command that does not only locate a program."""
        self._pending: list[_Heredoc] = []

    def read(self) -> None:
        """Read the whole text."""
        self._commands(_Frame())

    @property
    def feeds(self) -> bool:
        """Whether one command may run another one's output."""
        return bool(self.bodies or self.targets) or any(command.piped for command in self.scanned)

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
            elif char == "#" and not frame.arithmetic:  # `16#ff` is a number
                self.at = self._end_of_line(self.at)
            elif char in "\n;|&":
                self._operator(frame)
            # `<(ls)` is an argument
            elif char in "<>" and not self.text.startswith("(", self.at + 1):
                self._redirect(frame)
            else:
                self._argument(frame)
        self._finish(frame)
        # the text ends before what it opened: shells may read other commands
        self.doubtful |= frame.nested or bool(frame.opened)

    def _end_of_line(self, start: int) -> int:
        end = self.text.find("\n", start)
        return len(self.text) if end < 0 else end

    def _closes(self, frame: _Frame, char: str) -> bool:
        """Read a parenthesis. Returns whether it ends the frame."""
        self._finish(frame)
        self.at += 1
        if char == "(":
            double = self.text.startswith("(", self.at)
            frame.opened.append("((" if double else "(")
            frame.arithmetic += double
        elif frame.opened and frame.opened[-1] != "case":  # in a `case`, it ends a pattern
            frame.arithmetic -= frame.opened.pop() == "(("
            frame.blank = False
        elif frame.nested and not frame.opened:
            self.doubtful |= bool(frame.heredocs)
            return True
        elif not frame.opened:
            self.doubtful = True
        return False

    def _operator(self, frame: _Frame) -> None:
        if self.text.startswith("&>", self.at) and len(frame.splits) < _MAX_SPLITS:
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
        blank = frame.blank and not (frame.fed or frame.piped or frame.heredocs)
        silent = next((word for word in frame.words if word not in _OPENING), ":") in _SILENT
        (self.emptied if blank and silent else self.created).extend(frame.replaced)
        frame.words, frame.fed, frame.replaced = [], [], []
        frame.splits, frame.piped, frame.blank = [], False, True

    def _emit(self, argv: list[str], *, piped: bool) -> None:
        """Record a command, without assignments and keywords before its name."""
        start = 0
        while start < len(argv) and (argv[start] in _OPENING or self._assigns(argv[start])):
            start += 1
        argv = argv[start:]
        if not argv:
            return
        if ("{" in argv[0]) != ("}" in argv[0]):
            argv[0] = argv[0].strip("{}")  # zsh needs no space here
        if argv[0] in _DECLARING:
            for word in argv:
                self._assigns(word)
        # in `for x in rm ls; do $x y; done`, the words are commands
        if argv[0] in _LOOPS and argv[1:2] and argv[1] in self._called:
            self.scanned += [ScannedCommand((word,), piped=False) for word in argv[3:]]
        self.scanned.append(ScannedCommand(tuple(argv), piped))

    @cached_property
    def _called(self) -> set[str]:
        """Variables used as a command's name."""
        return set(_CALLED.findall(self.text))

    def _assigns(self, word: str) -> bool:
        assignment = _ASSIGNMENT.match(word)
        if not assignment:
            return False
        name, more, value = assignment.groups()
        old = self.values.get(name, "") if more else ""
        self.values[name] = (old + value)[:_MAX_VALUE_CHARS]
        if _CARRIER.search(name):
            self.nested.append(value)
        return True

    def _argument(self, frame: _Frame) -> None:
        start = self.at
        first = not frame.words or frame.words[-1] in _OPENING
        inner, nested = len(self.scanned), len(self.nested)
        word = self._whole_word()
        raw = self.text[start : self.at]
        self._note_glob(raw, word)
        named_by = frame.words[-1:]  # `in` opens a word list, not a command
        self.hidden |= self._hides_name(raw, [] if first and named_by != ["in"] else named_by)
        if first and raw.startswith(("$(", '"$(')):
            self.naming += self.scanned[inner:]  # what it prints is run
        elif first and raw.startswith(("`", '"`')):
            # backticks are read later, as text, which has to show that their output is run
            self.nested += [f"{command} | sh" for command in self.nested[nested : nested + 1]]
        # `2>` redirects, and `2 >` has an argument
        if self.text.startswith(("<", ">"), self.at) and _DESCRIPTOR.fullmatch(raw):
            return
        # bash reads an index up to its end, over comments and newlines.
        self.doubtful |= first and "[" in raw[1:] and "]" not in raw
        if raw in {"{", "}"}:
            self._finish(frame)
            frame.blank = raw == "{"
            return
        if first and raw == "case":
            frame.opened.append("case")
        elif first and raw == "esac" and frame.opened[-1:] == ["case"]:
            frame.opened.pop()
        frame.blank &= raw not in _CLOSING if first else raw in _BLANK or raw.startswith("-")
        frame.words.append(word)

    def _note_glob(self, raw: str, word: str) -> None:
        """Note a word with a pattern outside quotes."""
        if GLOB.search(raw) and GLOB.search(_QUOTED.sub("", raw)):
            self.globs += [path for words in spellings([word]) for path in words]

    def _hides_name(self, raw: str, before: list[str]) -> bool:
        """Return whether a word is an unknown program name."""
        assigned = _ASSIGNMENT.match(raw)
        if assigned is not None:
            if _is_computed(assigned[3]):
                self._computed.add(assigned[1])
            return False
        tail = raw[max(raw.rfind(")"), raw.rfind("`"), raw.rfind("}")) + 1 :].rstrip('"')
        # not a name, or a known one in an unknown folder: `$(pwd)/run`
        if (before and before[0] not in _TRANSPARENT) or ("/" in tail and "$" not in tail):
            return False
        changed = _CUT.search(raw) is not None
        return changed or _is_computed(raw) or not self._computed.isdisjoint(_USED.findall(raw))

    def _whole_word(self) -> str:
        start = self.at
        word = self.word()
        if self._pending and "\n" in self.text[start : self.at]:
            # does the body begin inside the quotes, or behind them? shells differ
            for heredoc in self._pending:
                heredoc.certain = False
            self._pending.clear()
        return word

    def _redirect(self, frame: _Frame) -> None:
        sign = self.take(_REDIRECT)
        if sign in {"<<", "<<-"} and frame.arithmetic:
            return
        self.take(_SPACES)
        if sign in {"<<", "<<-"}:
            self._heredoc(frame, tabs=sign == "<<-")
            return
        start = self.at
        word = self._whole_word()
        target = strip_marks(word)
        self._note_glob(self.text[start : self.at], word)
        if sign == "<<<":
            frame.fed.append(word)
        elif target and not (sign in {">&", "<&"} and _DUPLICATE.fullmatch(target)):
            self.targets.append(target)
            self.inputs += [target] if sign in {"<", "<>", "<&"} else []
            frame.blank &= sign not in {"<", "<>"} or target in _BLANK
            if sign in {">", ">|", "&>"}:
                frame.replaced.append(target)

    def _heredoc(self, frame: _Frame, *, tabs: bool) -> None:
        # In an index << is a shift, and what then looks like a body is not one.
        self.doubtful |= "[" in self.text[self.text.rfind("\n", 0, self.at) + 1 : self.at]
        raw = self.take(_DELIMITER)
        if not raw:
            self.doubtful = True
            return
        delimiter = strip_quotes(raw)
        heredoc = _Heredoc(delimiter, quoted=delimiter != raw, tabs=tabs)
        frame.heredocs.append(heredoc)
        self._pending.append(heredoc)

    def _body(self, heredoc: _Heredoc) -> None:
        """Skip a heredoc's body. If it may not be one, read it as commands."""
        self._pending = [other for other in self._pending if other is not heredoc]
        start = line = self.at
        # a body holds no commands, so a wrong guess would hide some
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
        scanner = CommandScanner(body, self.values)
        scanner.depth = self.depth + 1
        scanner.expand()
        self.scanned += scanner.scanned
        self.nested += scanner.nested
        self.targets += scanner.targets
        self.inputs += scanner.inputs
        self.unknown = self.unknown or scanner.unknown
        if scanner.doubtful or "\\\n" in body:  # a continued line may hide the body's end
            self.nested.append(body)


def _is_computed(raw: str) -> bool:
    """Return whether a word has output from a command that does not only locate a program."""
    plain = raw.lstrip('"')
    return _SUBSTITUTED.search(raw) is not None and not (
        plain.startswith("$((") or _LOCATED.fullmatch(plain)
    )
