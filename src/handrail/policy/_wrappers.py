"""Programs that run other programs, as data, and what such a command line may run in the end.

This is for rules that deny. It would rather name a command that never runs than miss one that does.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise

SHELLS = frozenset("sh bash dash zsh ksh mksh ash fish csh tcsh rbash busybox toybox".split())
_AWK = frozenset("awk gawk mawk nawk busybox".split())
_INTERPRETERS = _AWK | frozenset(
    """
    python pypy perl ruby node nodejs deno bun php lua tclsh osascript pwsh expect guile
    Rscript julia groovy elixir ipython
    """.split()
)
_WRAPPERS = SHELLS | frozenset(
    """
    env sudo doas su runuser gosu setpriv pkexec sg nice nohup timeout gtimeout time stdbuf setsid
    ionice chrt taskset numactl watch xargs parallel sem eval trap command builtin exec coproc
    chroot unshare nsenter strace ltrace gdb lldb perf valgrind script flock lockf ssh mosh
    autossh sshpass rsh entr at batch systemd-run start-stop-daemon daemon daemonize screen tmux
    rlwrap unbuffer xvfb-run dbus-run-session fakeroot proot bwrap firejail catchsegv cgexec
    prlimit choom cpulimit setarch linux32 linux64 torsocks torify proxychains proxychains4
    hyperfine watchexec nodemon concurrently npx bunx pnpx uvx pipx dotenv direnv lxc-attach
    distrobox toolbox wsl ifne chronic run-one tini dumb-init chpst envdir setuidgid softlimit
    noglob nocorrect repeat - function alias set mapfile readarray . source
    """.split()
)
_READERS = SHELLS | _INTERPRETERS | frozenset("xargs parallel at batch crontab . source".split())
"""Programs that run what they are fed."""
_JOINING = frozenset("eval ssh mosh autossh rsh watch parallel at batch entr trap su".split())
"""Programs that make one line of their arguments and have a shell read it."""


def _table(lines: str) -> dict[str, frozenset[str]]:
    """Names before the colon, words after it."""
    rows = (line.split(":") for line in lines.split("\n") if ":" in line)
    return {name: frozenset(words.split()) for names, words in rows for name in names.split()}


_FOLLOWED = _table("""
    find: -exec -execdir -ok -okdir
    fd fdfind: -x -X --exec --exec-batch
    git: run foreach -x --exec --upload-pack --receive-pack --extcmd -O --open-files-in-pager
    tar: -I --use-compress-program --to-command -F --info-script --rsh-command
    rsync: -e --rsh --rsync-path
    scp sftp: -S
    sort: --compress-program
    split: --filter
    rg: --pre --hostname-bin
    man: -P --pager -H --html
    cargo: -x -s
    nix-shell: --run --command
    ansible: -a
""")
"""The words after which another command follows at once."""
_LAUNCHED = _table("""
    docker podman nerdctl docker-compose lxc: run exec create
    kubectl oc: exec run debug
    npm pnpm yarn bundle mise asdf: exec x dlx run --
    uv poetry pipenv pdm rye pixi hatch conda mamba micromamba: run tool
    aws-vault op doppler flatpak snap heroku fly gcloud vagrant adb machinectl: exec run ssh shell
    nix: run shell develop
""")
"""The words after which another command follows sooner or later."""

_LINE = re.compile(r"[\s;&|<>()$`{}'\"\\]")
"""What makes one word a line of its own."""
_SPACE = re.compile(r"\s")
_CARRIERS = tuple(
    """
    exec command program pager editor fsmonitor external askpass rsh pack pre hostname-bin html
    helper textconv clean smudge process cmd filter driver browser
    """.split()
)
"""How the names of settings end whose value some program runs."""
_CODE = re.compile(r"-\w*[ceEr]|--(?:eval|print|exec|execute|command|run)")
"""The options after which an interpreter takes a program."""
_LOOKUPS = {("-v",), ("-V",)}
"""What makes ``command`` a question."""
_GLOB = re.compile(r"[*?\[]")
_RUNNING = _WRAPPERS | _INTERPRETERS | _LAUNCHED.keys() | _FOLLOWED.keys()
_MANY = 64
"""Suffixes that are kept in full; of later ones only so many words, or time would be squared."""
_SHORTEST = 4
"""Characters that an abbreviated option has more of."""
_NESTED = 3
"""Settings within a setting, as in ``--checkpoint-action=exec=...``."""
_JOINED = 2
"""Lines that are made of the arguments of one command, at most."""


@dataclass(slots=True)
class Unwrapped:
    """What one command may run: other commands, and lines that a shell would read again."""

    commands: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    lines: list[str] = field(default_factory=list[str])


def base(name: str) -> str:
    """The last part of a program's path; zsh reads ``=curl`` as the path of ``curl``."""
    return name.rpartition("/")[2].removeprefix("=")


def runs_others(program: str) -> bool:
    """Whether a program is there to run other commands, or any program text."""
    name = base(program)
    return bool({name, _language(name)} & (_WRAPPERS | _INTERPRETERS))


def feeds_on_lines(command: tuple[str, ...]) -> bool:
    """Whether a command runs what stands in a file or comes out of a pipe."""
    name = base(command[0])
    return name in _READERS or _language(name) in _READERS or command[0].startswith(("./", "/"))


def unwrap(argv: tuple[str, ...], *, opened: bool = False) -> Unwrapped:
    """What may run inside of a command; if opened, whatever its words could be taken for."""
    found = Unwrapped()
    name = base(argv[0])
    if _SPACE.search(argv[0]):
        found.lines.append(argv[0])
    if opened or (name in _WRAPPERS and argv[1:2] not in _LOOKUPS):
        _open(argv, found)
    elif _language(name) in _INTERPRETERS:
        found.lines += _programs(argv, everywhere=name in _AWK)
    elif name in _LAUNCHED:
        at = next((at for at, word in enumerate(argv) if word in _LAUNCHED[name]), len(argv))
        _open(argv[at:], found)
    elif name in _FOLLOWED:
        _follow(argv, _FOLLOWED[name], found)
    found.lines += _values(argv)
    return found


def _values(argv: tuple[str, ...]) -> Iterator[str]:
    """The parts of arguments that a program is known to run."""
    for word in argv[1:]:
        head, sign, value = word.partition("=")
        for _ in range(_NESTED):
            if sign and (value.startswith("!") or head.lower().endswith(_CARRIERS)):
                yield value.lstrip("!")
            head, sign, value = value.partition("=")
        if "ext::" in word:
            yield word.partition("ext::")[2]
        if "[" in word and ("$(" in word or "`" in word):
            yield word  # bash evaluates an index even where the word was quoted


def _language(name: str) -> str:
    """An interpreter without its version."""
    return name.rstrip("0123456789.")


def _open(argv: tuple[str, ...], found: Unwrapped) -> None:
    """Every suffix, and every word that could be a line."""
    for start in range(1, len(argv)):
        found.commands.append(argv[start:] if start <= _MANY else argv[start : start + _MANY])
    for word in argv[1:]:
        if _LINE.search(word):
            found.lines.append(word)
        if "=" in word:
            found.lines.append(word.partition("=")[2])
        if word.startswith("-"):
            found.lines.append(word[2:])
    joining = (at for at, word in enumerate(argv) if base(word) in _JOINING)
    found.lines += [" ".join(argv[at + 1 :]) for at in islice(joining, _JOINED)]


def _programs(argv: tuple[str, ...], *, everywhere: bool) -> Iterator[str]:
    """The words that an interpreter reads as a program."""
    for before, word in pairwise(argv):
        if (everywhere or _CODE.fullmatch(before)) and _LINE.search(word):
            yield word


def _follow(argv: tuple[str, ...], markers: frozenset[str], found: Unwrapped) -> None:
    """What follows each marker; all that follows the first one that another wrapper follows."""
    for command in _after(argv, markers):
        found.commands.append(command)
        if _SPACE.search(command[0]):
            found.lines.append(command[0])
        if base(command[0]) in _RUNNING or _language(base(command[0])) in _RUNNING:
            _open(command, found)
            return


def _after(argv: tuple[str, ...], markers: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """The commands that follow a marker, or that are glued to one."""
    for at, word in islice(enumerate(argv), _MANY):
        option, _, value = word.partition("=")
        rest = argv[at + 1 :]
        if len(option) > _SHORTEST and any(marker.startswith(option) for marker in markers):
            yield (value, *rest) if value else rest or ("",)
        elif word in markers:
            yield rest or ("",)
        elif word[:2] in markers:
            yield (word[2:], *rest)


def matches(argv: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Whether a command may be the one that a rule names.

    The program's path does not count, and options between the words do not, each with one value
    or without. A pattern counts as all that it could stand for.
    """
    if not argv or not words or not _may_be(base(argv[0]), words[0]):
        return False
    last = len(words) - 1
    seen = {0}  # how many of the further words may have been seen by now
    valued = set[int]()  # the same, where an option has just been skipped
    for token in argv[1:]:
        if last in seen:
            return True
        further = {n + 1 for n in seen if _may_be(token, words[n + 1])}
        if token.startswith("-"):
            seen, valued = further | seen, seen
        else:
            seen, valued = further | valued, set[int]()
    return last in seen


def _may_be(token: str, word: str) -> bool:
    if token == word or not (glob := _GLOB.search(token)):
        return token == word
    if not word.startswith(token[: glob.start()]):
        return False
    return re.match(fnmatch.translate(token.replace("[^", "[!")), word) is not None
