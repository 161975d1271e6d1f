"""Suggests what to do instead when a command needs something the sandbox does not have."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from handrail.tools._descriptions import CommandFacts, describe_hosts, join_words
from handrail.tools._files.paths import is_beneath

_MAX_LINE_CHARS = 4_000
"""Characters parsed in a command; a longer one is a script, and takes too long."""
_MAX_OUTPUT_CHARS = 20_000
"""Characters searched at the end of the output."""
_OPERATORS = "();<>|&\n"
_BEFORE_A_COMMAND = frozenset("env time command exec nohup then do else ! {".split())
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_READ_ONLY = re.compile(
    r"[\u2018']([^\u2018\u2019'\n]+)[\u2019']: Read-only|Read-only file system: '([^'\n]+)'"
    r"|EROFS(?:(?!EROFS)[^'\n])*+'([^'\n]+)'|\(os error 30\) at path \"([^\"\n]+)\""
    r"|(?<![^\s:'\u2018])([^\s:'\u2018]++): Read-only(?! file system \(os error)"
)
"""The path in an error message about a read-only file system."""
_BY_PIP = "Could not install packages"
"""In an error of pip, which names a file of the package, without its folder."""
_INSTALLED = frozenset([".venv", "venv"])
_BY_INSTALL = "An install can change it, alone on its line and approved by the user."
_SETTINGS = re.compile(
    r"could not (?:write|lock) config file [^\s:]*\.git/config: (?:Device|Read-only)"
)
_OWN_CODE = "this program imports code from there"
_DEFAULT_FACTS = CommandFacts()
_CLOSED = "is not an allowed host"
"""In the proxy's answer. Some programs take it for a page."""
_MAX_NAMED_HOSTS = 5
_Hint: TypeAlias = Callable[[str, CommandFacts], str]
"""Returns a hint from a command's output and the facts of its sandbox."""

_NO_INPUT = "{name!r} got no input: commands have no stdin. Pass a file, a pipe or a here-document."
_NO_SESSION = (
    "{name!r} got no program: commands have no stdin. Pass one in a file, with an option such as "
    "-c or -e, or in a here-document."
)
_NO_EDITOR = "There is no terminal for {name!r}. Change files with edit, or with sed."
_NO_SCREEN = "There is no terminal for {name!r}. Use a command that prints once and exits."
_NO_RIGHTS = "Commands cannot gain privileges. Continue without {name!r}, or tell the user."
_NO_DISTANCE = (
    "{name!r} cannot connect: there is no direct network access and no password prompt. Continue "
    "without it, or tell the user."
)

_EMPTY_INPUT = dict.fromkeys(
    "cat tac sort uniq tee head tail less more xxd od base64 md5sum sha256sum".split(), _NO_INPUT
) | dict.fromkeys(
    "python python3 ipython node deno ruby irb perl php lua bash sh zsh dash bc dc psql sqlite3 "
    "mysql R ghci".split(),
    _NO_SESSION,
)
"""Hints for commands that got no file and printed nothing."""
_FAILED = (
    dict.fromkeys("vi vim nvim view nano pico emacs ed".split(), _NO_EDITOR)
    | dict.fromkeys("less more most top htop watch tmux screen dialog whiptail".split(), _NO_SCREEN)
    | dict.fromkeys("sudo su doas pkexec passwd chsh".split(), _NO_RIGHTS)
    | dict.fromkeys("ssh scp sftp mosh telnet ftp".split(), _NO_DISTANCE)
    | {"read": _NO_INPUT, "select": _NO_INPUT}
)
"""Hints for commands that failed."""
_UNREACHED = {"curl": (5, 6), "wget": (4,)}
"""Exit codes of programs that could not reach a host; with -q or -s, they do not say so."""
_FEEDABLE = ("read", "select", "less", "more")
_WAITING = frozenset("vi vim view nvim rvim vimdiff".split())
"""Editors that wait for keys and print nothing."""
_BY_ITSELF = ("-e", "-E", "-s", "-c", "-S", "+", "--")
"""Options that make them non-interactive."""


def _describe_network(_output: str, facts: CommandFacts) -> str:
    if facts.opens_hosts:
        return _describe_opening(facts)
    if not facts.network:
        return "No network access. Work offline, or tell the user which host you need."
    hosts = describe_hosts(facts.network)
    return f"Only {hosts} can be reached. Tell the user if you need another host."


def _describe_opening(facts: CommandFacts) -> str:
    """Explain how to ask for hosts, with those that the command has already."""
    closed = facts.refused or [host for host in facts.needed if host not in facts.granted]
    if not closed and facts.granted:
        hosts = join_words(facts.granted)
        return f"The command can reach {hosts}. Check the name, and whether the host answers."
    if not closed:
        return "No network access. Call again, with the hosts that it needs in hosts."
    named = closed[:_MAX_NAMED_HOSTS]
    wanted = list(dict.fromkeys([*facts.needed, *facts.granted, *named]))
    return f"No access to {join_words(named)}. Call again, with hosts {json.dumps(wanted)}."


def _describe_unfound(output: str, facts: CommandFacts) -> str:
    """Explain why pip finds nothing: without retries, it does not mention the network."""
    return "" if facts.network and not facts.refused else _describe_network(output, facts)


def _describe_refused(_output: str, facts: CommandFacts) -> str:
    """Explain why a server of another command cannot be reached."""
    if facts.granted:
        return "A command with hosts has its own localhost. Call the server without hosts."
    if facts.shares_loopback or not facts.has_loopback:
        return ""
    return "Each command has its own localhost: start the server and call it in one command."


def _describe_read_only(output: str, facts: CommandFacts) -> str:
    """Name the path a command could not write."""
    match = _READ_ONLY.search(output)
    path = next(filter(None, match.groups()), "") if match else ""
    if _BY_PIP in output and "/" not in path:
        path = next((folder.removesuffix("/bin") for folder in facts.own_programs), ".venv")
    if facts.root and is_beneath(path, facts.root):
        path = path[len(facts.root) :].lstrip("/")
    if not path or path.startswith("/"):
        what = f"{path} is read-only: commands" if path else "Commands"
        return f"{what} can write only {facts.written}."
    if own := next((name for name in facts.own_code if is_beneath(path, name)), ""):
        return f"{own} is read-only for commands: {_OWN_CODE}. Tell the user if it must change."
    name = next((name for name in facts.protected if f"/{name}/" in f"/{path}/"), path)
    what = _BY_INSTALL if name in _INSTALLED else "Tell the user if it must change."
    return f"{name} is read-only for commands. {what}"


def _describe_denied(output: str, facts: CommandFacts) -> str:
    """Name a file a rule hides, if an error is about it, or what Landlock cannot allow."""
    if facts.own_code and not facts.has_loopback:
        return (
            f"Commands cannot change {join_words(facts.own_code)}, and cannot create or remove "
            f"anything beside it: {_OWN_CODE}. Use write, or tell the user."
        )
    path = next((path for path in facts.hidden if path.rpartition("/")[2] in output), "")
    if not path:
        return ""
    return (
        f"A rule hides {path} from commands that do not name it. A command that does may need "
        "approval."
    )


def _always(text: str) -> _Hint:
    return lambda _output, _facts: text


_HINTS = {
    re.compile(pattern): hint
    for pattern, hint in {
        r"due to empty commit message|empty tag message|no tag message\?": _always(
            "There is no editor. Pass the message with -m, or in a file with -F."
        ),
        r"terminal prompts disabled|could not read (?:Username|Password)|Host key verification"
        r"|a (?:terminal|tty|password) is required|[Nn]ot a (?:tty|terminal)|no tty present"
        r"|input device is not a TTY|EOFError: EOF when reading": _always(
            "Commands have no stdin. Pass the input with options, files or variables."
        ),
        r"[Cc]ould not resolve host|failure in name resolution|Name or service not known"
        r"|[Nn]etwork is unreachable|ENOTFOUND|EAI_AGAIN|ENETUNREACH|failed to lookup address"
        r"|dial tcp: lookup": _describe_network,
        r"No matching distribution found": _describe_unfound,
        r"(?:127\.0\.0\.1|localhost|::1)[^\n]{0,99}(?:refused|t connect)"
        r"|ECONNREFUSED (?:127|::1)": _describe_refused,
        r"[Pp]ermission denied|EACCES": _describe_denied,
        r"Read-only file system|EROFS": _describe_read_only,
        _SETTINGS.pattern: _always(
            ".git/config is read-only for commands: git runs commands from it. Tell the user which "
            "setting is needed."
        ),
        r"Device or resource busy|EBUSY": _always(
            "Names such as .vscode and .mcp.json are placeholders here, if the workspace does not "
            "have them: commands cannot create or remove them."
        ),
        r"Cannot allocate memory|MemoryError|std::bad_alloc|memory exhausted|ENOMEM": _always(
            "Memory is limited. Process less at a time."
        ),
        r"File size limit exceeded|File too large|EFBIG": _always(
            "The size of a file is limited. Write less, or several files."
        ),
        r"fork: (?:retry: )?Resource temporarily unavailable": _always(
            "The number of processes is limited. Start fewer at a time."
        ),
    }.items()
}
"""Hints for failed commands, by their output."""


_FAILED_BEFORE = re.compile(rf"{_SETTINGS.pattern}|{_READ_ONLY.pattern}")
"""Errors that matter even if the last command of a line succeeds."""


class RoughCommand(NamedTuple):
    """One simple command, parsed roughly."""

    name: str
    words: tuple[str, ...]
    """The arguments."""
    fed: bool
    """Whether a pipe or a file is its standard input."""

    @property
    def idle(self) -> bool:
        """Whether it got neither input nor a file."""
        return not self.fed and all(word == "-" or word.startswith("--") for word in self.words)


def find_advice(command: str, output: str, code: int, facts: CommandFacts = _DEFAULT_FACTS) -> str:
    """Return what to do instead, by the command and its output; empty if there is no hint."""
    return next(_iterate_advice(command, output[-_MAX_OUTPUT_CHARS:], code, facts), "")


def describe_wait(command: str) -> str:
    """Return why a command would only wait for keys; empty if it would not."""
    for simple in split_commands(command):
        if simple.name in _WAITING and not any(
            word.startswith(_BY_ITSELF) for word in simple.words
        ):
            return _NO_EDITOR.format(name=simple.name)
    return ""


def _iterate_advice(command: str, output: str, code: int, facts: CommandFacts) -> Iterator[str]:
    simples = split_commands(command)
    several = sum(simple.name != "cd" and not simple.fed for simple in simples) > 1
    if facts.opens_hosts and facts.refused and (code or several or _CLOSED in output):
        yield _describe_network(output, facts)
    for simple in simples:
        name = simple.name
        if code and name in _FAILED and not (simple.fed and name in _FEEDABLE):
            yield _FAILED[name].format(name=name)
        elif not output.strip() and simple.idle and name in _EMPTY_INPUT:
            yield _EMPTY_INPUT[name].format(name=name)
        elif code in _UNREACHED.get(name, ()):
            yield _describe_network(output, facts)
    if code or (several and _FAILED_BEFORE.search(output)):
        hints = (hint for pattern, hint in _HINTS.items() if pattern.search(output))
        yield from filter(None, (hint(output, facts) for hint in hints))


def split_commands(line: str) -> list[RoughCommand]:
    """Return the simple commands of a shell command; empty if it cannot be parsed roughly."""
    if len(line) > _MAX_LINE_CHARS:
        return []
    lexer = shlex.shlex(line, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:
        return []
    return list(_parse_tokens(tokens, fed="<" in line))


def _parse_tokens(tokens: list[str], *, fed: bool) -> Iterator[RoughCommand]:
    """Yield the commands. With any input redirection, all of them are treated as fed."""
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
            yield RoughCommand(name, tuple(words[1:]), fed or piped)
        piped, words = token in ("|", "|&"), []
