"""Programs running other programs, as data, and the commands inside such a command.

For deny and ask rules: a command that never runs may be found, but no running one is missed.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise

from handrail.policy._shell.editor_scripts import (
    EDITORS,
    commands_in_editor,
    commands_in_script,
    scripts_of,
)
from handrail.policy._shell.words import GLOB

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
    noglob nocorrect repeat - function alias set mapfile readarray . source ssh-agent faketime
    systemd-inhibit caffeinate eatmydata flatpak-spawn distrobox-host-exec su-exec spawn
    """.split()
)
_PREFIXES = SHELLS | frozenset(
    """
    env sudo doas nice nohup timeout gtimeout time stdbuf setsid ionice chrt taskset xargs command
    builtin exec unbuffer xvfb-run fakeroot strace ltrace valgrind npx bunx pnpx uvx faketime
    eatmydata caffeinate systemd-inhibit spawn distrobox-host-exec dbus-run-session
    """.split()
)
"""Wrappers whose first operand is a program, and whose further operands are its arguments."""
_RUNNERS = frozenset(
    "npm pnpm yarn bundle mise asdf uv poetry pipenv pdm rye pixi hatch conda mamba".split()
)
"""The same, after a word such as ``run``."""
_CONTAINERS = frozenset("docker podman nerdctl docker-compose kubectl oc".split())
"""The same, with a container's or image's name before the program."""
_SCRIPTS = frozenset(["npm", "pnpm"])
_BARE_FLAGS = frozenset("-- -y --yes -q --quiet -i -E -H -0 -r -v --rm --no-install".split())
"""Wrapper flags without a value."""
_PROGRAM = re.compile(r"[A-Za-z_][\w.+-]*|@?[\w.~+-]*/[\w./+@~-]*", re.ASCII)
"""Possible program names. A number, ``a.b=c`` and ``node@20`` are none."""
_BEFORE_ANOTHER = frozenset(["run", "tool", "exec"])
"""Words before another program."""
_BEFORE_PROGRAM = {"timeout": 1, "gtimeout": 1, "taskset": 1, "chrt": 1, "faketime": 1}
"""Wrappers with operands before the program: a duration, as ``infinity``, or a mask, as ``ff``."""
_READERS = SHELLS | _INTERPRETERS | frozenset("xargs parallel at batch crontab . source".split())
"""Programs that run their input."""
_MAKES = frozenset(["make", "gmake"])
_INPUT = re.compile(r" (?:-\w*f ?|--(?:make)?file[= ])(?:-|/dev/stdin)(?: |$)")
"""Flags with which ``make`` reads its input."""
_JOINING = frozenset("eval ssh mosh autossh rsh watch parallel at batch entr trap su".split())
"""Programs joining their arguments for a shell."""


def _table(text: str) -> dict[str, frozenset[str]]:
    """Read a table: names before the colon, words after it."""
    rows = (line.split(":") for line in text.split("\n") if ":" in line)
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
"""Words followed directly by another command."""
_OWN_BARE_FLAGS = _table("""
    timeout gtimeout: --foreground --preserve-status
    taskset: -c -a --cpu-list --all-tasks
    stdbuf: -oL -eL -iL -o0 -e0 -i0
    xvfb-run: -a --auto-servernum
    caffeinate: -d -i -m -s -u
    faketime: -f -m
""")
"""More flags without a value, or with an attached one, by wrapper."""
_LAUNCHED = _table("""
    docker podman nerdctl docker-compose lxc: run exec create
    kubectl oc: exec run debug
    npm pnpm yarn bundle mise asdf: exec x dlx run --
    uv poetry pipenv pdm rye pixi hatch conda mamba micromamba: run tool
    aws-vault op doppler flatpak snap heroku fly gcloud vagrant adb machinectl: exec run ssh shell
    nix: run shell develop
""")
"""Words followed by another command, with options in between."""

_LINE = re.compile(r"[\s;&|<>()$`{}'\"\\]")
"""Characters making a word a possible shell command."""
_SPACE = re.compile(r"\s")
_CARRIERS = tuple(
    """
    exec command program pager editor fsmonitor external askpass rsh pack pre hostname-bin html
    helper textconv clean smudge process cmd filter driver browser
    """.split()
)
"""Name endings for settings whose value some program runs."""
_CODE = re.compile(r"-\w*[ceEr]|--(?:eval|print|exec|execute|command|run)")
"""Interpreter options for a program as text."""
_SEDS = frozenset(["sed", "gsed", "ssed"])
_AWK_RUNS = re.compile(r"system|getline|\|")
_AWK_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_PLAIN = re.compile(r"[\w.+-]+")
_LOOKUPS = {("-v",), ("-V",)}
"""Arguments with which ``command`` only looks up a program."""
_MAX_GLOB_CHARS = 100
"""Limit on a word with a glob. A longer one may be any word."""
_RUN_OTHERS = _WRAPPERS | _INTERPRETERS
_RUNNING = _RUN_OTHERS | _LAUNCHED.keys() | _FOLLOWED.keys()
_MAX_SUFFIXES = 64
"""Suffixes kept in full. Later ones are cut to this length, or time would be quadratic."""
_MIN_OPTION_CHARS = 4
"""An abbreviated option is longer than this."""
_MAX_NESTED_SETTINGS = 3
"""Nested settings, as in ``--checkpoint-action=exec=...``."""
_MAX_JOINED_COMMANDS = 2
"""Commands made by joining one command's arguments."""


@dataclass(slots=True)
class InnerCommands:
    """The commands one command may run, and its texts for a shell."""

    commands: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    nested: list[str] = field(default_factory=list[str])
    arguments: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    """Commands starting with another program's argument."""


def program_name(name: str) -> str:
    """Return the last part in a program's path.

    In zsh, ``=curl`` is the path to ``curl``. In a makefile, ``@curl`` is not printed.
    """
    return name.rpartition("/")[2].lstrip("=@")


def runs_others(program: str) -> bool:
    """Return whether a program runs other commands or program text."""
    name = program_name(program)
    return name in _RUN_OTHERS or without_version(name) in _RUN_OTHERS


def runs_text(argv: tuple[str, ...]) -> bool:
    """Return whether an interpreter runs program text from the command or its input."""
    if without_version(program_name(argv[0])) not in _INTERPRETERS - _AWK:
        return False
    return all(word.startswith("-") or _CODE.fullmatch(before) for before, word in pairwise(argv))


def program_texts(argv: tuple[str, ...]) -> frozenset[str]:
    """Return an interpreter's program words, unless it is a shell."""
    name = program_name(argv[0])
    if without_version(name) not in _INTERPRETERS or name in SHELLS:
        return frozenset()
    return frozenset(_program_texts(argv, everywhere=name in _AWK))


def runs_its_input(command: tuple[str, ...]) -> bool:
    """Return whether a command may run a file's or a pipe's content."""
    name = program_name(command[0])
    return (
        name in _READERS
        or without_version(name) in _READERS
        or command[0].startswith(("./", "/"))
        or reads_makefile(command)
    )


def reads_makefile(argv: tuple[str, ...]) -> bool:
    """Return whether ``make`` runs its input, as ``make -f -`` does."""
    return program_name(argv[0]) in _MAKES and _INPUT.search(" ".join(argv)) is not None


def is_bare_shell(argv: tuple[str, ...]) -> bool:
    """Return whether a command is a shell running its input."""
    return program_name(argv[0]) in SHELLS and all(
        word.startswith("-") and "c" not in word for word in argv[1:]
    )


def feeds_arguments(argv: tuple[str, ...]) -> bool:
    """Return whether a command uses its input as a program's arguments, as ``xargs wc`` does."""
    if program_name(argv[0]) != "xargs":
        return False
    program = program_name((*argv, "sh")[_find_program(argv)])
    return not (runs_others(program) or program in _RUNNING or not _PLAIN.fullmatch(program))


def unwrap(argv: tuple[str, ...], *, opened: bool = False) -> InnerCommands:
    """Return what a command may run. With ``opened``, every word can start a command."""
    inner = InnerCommands()
    name = program_name(argv[0])
    if _SPACE.search(argv[0]):
        inner.nested.append(argv[0])
    if opened or (name in _WRAPPERS and argv[1:2] not in _LOOKUPS):
        _add_all_inner(argv, inner)
        if name in _PREFIXES and not opened:
            _mark_arguments(argv, inner)
    elif without_version(name) in _INTERPRETERS:
        inner.nested += _program_texts(argv, everywhere=name in _AWK)
    elif name in _SEDS or name in EDITORS:
        inner.nested += _texts_in_script(argv)
    elif name in _LAUNCHED:
        _add_launched(argv, inner)
    elif name in _FOLLOWED:
        _add_followers(argv, _FOLLOWED[name], inner)
    inner.nested += _commands_in_values(argv)
    return inner


def _texts_in_script(argv: tuple[str, ...]) -> Iterator[str]:
    """Yield texts passed to a shell by a ``sed`` or editor script."""
    if program_name(argv[0]) in EDITORS:
        yield from commands_in_editor(argv)
    else:
        for script in scripts_of(argv):
            yield from commands_in_script(script)


def _add_launched(argv: tuple[str, ...], inner: InnerCommands) -> None:
    """Add what follows a word such as ``run``."""
    name = program_name(argv[0])
    at = next((at for at, word in enumerate(argv) if word in _LAUNCHED[name]), len(argv))
    _add_all_inner(argv[at:], inner)
    if name in _RUNNERS:
        _mark_arguments(argv[at:], inner, scripts=name in _SCRIPTS)
    elif name in _CONTAINERS:
        _mark_arguments(argv[at:], inner, before=1)


def _commands_in_values(argv: tuple[str, ...]) -> Iterator[str]:
    """Yield argument parts run by some program."""
    for word in argv[1:]:
        head, sign, value = word.partition("=")
        for _ in range(_MAX_NESTED_SETTINGS):
            if sign and (value.startswith("!") or head.lower().endswith(_CARRIERS)):
                yield value.lstrip("!")
            head, sign, value = value.partition("=")
        if "ext::" in word:
            yield word.partition("ext::")[2]
        if "[" in word and ("$(" in word or "`" in word):
            yield word  # bash evaluates an index even where the word was quoted


def without_version(name: str) -> str:
    """Return an interpreter's name without its version."""
    return name.rstrip("0123456789.")


def _add_all_inner(argv: tuple[str, ...], inner: InnerCommands) -> None:
    """Add every suffix, and every word that could be a shell command."""
    for start in range(1, len(argv)):
        inner.commands.append(
            argv[start:] if start <= _MAX_SUFFIXES else argv[start : start + _MAX_SUFFIXES]
        )
    for word in argv[1:]:
        if _LINE.search(word):
            inner.nested.append(word)
        if "=" in word:
            inner.nested.append(word.partition("=")[2])
        if word.startswith("-"):
            inner.nested.append(word[2:])
    joining = (at for at, word in enumerate(argv) if program_name(word) in _JOINING)
    inner.nested += [" ".join(argv[at + 1 :]) for at in islice(joining, _MAX_JOINED_COMMANDS)]


def _mark_arguments(
    argv: tuple[str, ...], inner: InnerCommands, *, scripts: bool = False, before: int = 0
) -> None:
    """Mark everything after the first word that certainly is a wrapper's program.

    ``before`` other words come before the program. With ``scripts``, ``run`` is followed by a
    script's name instead, and ``--`` by its arguments.
    """
    at = 0 if scripts and argv[:1] in (("run",), ("--",)) else _find_program(argv) + before
    inner.arguments += [command for command in inner.commands if 0 < len(command) < len(argv) - at]


def _find_program(argv: tuple[str, ...]) -> int:
    wrapper, may_be_value = program_name("".join(argv[:1])), False
    before = _BEFORE_PROGRAM.get(wrapper, 0)
    for at, word in enumerate(argv[1:], 1):
        if word.startswith("-"):
            bare = word in _BARE_FLAGS or word in _OWN_BARE_FLAGS.get(wrapper, ())
            may_be_value = not bare and "=" not in word
        elif may_be_value:
            may_be_value = False
        elif before > 0:
            before -= 1
        elif program_name(word) in _PREFIXES:
            wrapper = program_name(word)
            before = _BEFORE_PROGRAM.get(wrapper, 0)
        elif word not in _BEFORE_ANOTHER and _PROGRAM.fullmatch(word):
            return at
    return len(argv)


def _program_texts(argv: tuple[str, ...], *, everywhere: bool) -> Iterator[str]:
    """Yield the words an interpreter reads as a program."""
    for before, word in pairwise(argv):
        if (everywhere or _CODE.fullmatch(before)) and _LINE.search(word):
            yield word
            if everywhere and _AWK_RUNS.search(word):
                yield from _AWK_STRING.findall(word)


def _add_followers(argv: tuple[str, ...], markers: frozenset[str], inner: InnerCommands) -> None:
    """Add the command after each marker. If it is a wrapper, add everything in it, and stop."""
    for command in _commands_after(argv, markers):
        inner.commands.append(command)
        if _SPACE.search(command[0]):
            inner.nested.append(command[0])
        if (
            program_name(command[0]) in _RUNNING
            or without_version(program_name(command[0])) in _RUNNING
        ):
            _add_all_inner(command, inner)
            return


def _commands_after(argv: tuple[str, ...], markers: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Yield the commands following a marker, or attached to one."""
    for at, word in islice(enumerate(argv), _MAX_SUFFIXES):
        option, _, value = word.partition("=")
        rest = argv[at + 1 :]
        if len(option) > _MIN_OPTION_CHARS and any(marker.startswith(option) for marker in markers):
            yield (value, *rest) if value else rest or ("",)
        elif word in markers:
            yield rest or ("",)
        elif word[:2] in markers:
            yield (word[2:], *rest)


def matches(argv: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Return whether a command may be the one named by a rule.

    The program's path is ignored, and so are options between the words, each with or without a
    value. A pattern matches every word it could expand to.
    """
    if not argv or not words or not _may_be(program_name(argv[0]), words[0]):
        return False
    last = len(words) - 1
    seen = {0}  # how many further words may have been seen by now
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
    if token == word or not (glob := GLOB.search(token)):
        return token == word
    return word.startswith(token[: glob.start()]) and may_expand(token, word)


def may_expand(glob: str, name: str) -> bool:
    """Return whether a shell may replace a pattern by a name. A very long one may be any name."""
    if len(glob) > _MAX_GLOB_CHARS:  # to compile it takes quadratic time
        return True
    return fnmatch.fnmatchcase(name, glob.replace("[^", "[!"))
