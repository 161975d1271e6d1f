"""Finds commands that print secrets: of a container, of a program's settings, or of a process."""

from __future__ import annotations

import re
from collections.abc import Iterator

from handrail.policy._consequences.table import Argv, Kind, operands_of, values_of
from handrail.policy._rules.shell_command import ShellCommand
from handrail.policy._shell.wrappers import program_name

CONTAINERS = frozenset("docker podman nerdctl docker-compose podman-compose kubectl oc".split())
_LAUNCHES = frozenset("exec run debug rsh".split())
_PRINTERS = frozenset("env printenv export set declare".split())
"""Programs that print all variables, or those that they name."""
_VALUED = frozenset(
    """
    -u -w -e -n -c -f -p -v --user --workdir --env --env-file --namespace --container --name
    --network --entrypoint --volume --publish --index --file --context --mount
    """.split()
)
"""Flags before the name of a container that have a value."""
_SECRET_NAME = re.compile(
    r"\$\{?\w*(?:PASS|SECRET|TOKEN|KEY|CREDENTIAL)|/run/secrets|/environ\b", re.IGNORECASE
)
"""A variable whose value is a secret, by its name, or a file with secrets."""
_ENVIRONMENT = re.compile(r"/proc/[^/\s]+/environ\b")
_SHOWS_ALL = re.compile(r"Env|json\s*+(?:\.\s*+)?\}|\.Config\s*\}|range", re.IGNORECASE)
"""Parts of a format with which ``docker inspect`` shows variables."""
_SELECTS = re.compile(
    r"\|\s*(?:jq\s[^|]*\.(?!Config)[A-Z]\w+|grep\s[^|]*(?:Status|Health|IPAddress|Mount|Image|Port))"
)
"""What takes only other parts out of what ``docker inspect`` shows."""
_PASS_COMMANDS = frozenset("init ls list find insert add generate edit rm mv cp git help".split())
_SETTING = re.compile(r"auth|token|passw|secret|credential|_key", re.IGNORECASE)


def find_container_secrets(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a command shows the variables of a container, or of what starts it."""
    words = operands_of(argv)
    shows = "inspect" in words[:2] and _shows_variables(argv, command)
    if shows or (not _LAUNCHES.isdisjoint(words[:2]) and _prints_variables(argv, command)):
        yield "secrets"


def _shows_variables(argv: Argv, command: ShellCommand) -> bool:
    formats = list(values_of(argv, ("-f", "--format")))
    if formats:
        return any(map(_SHOWS_ALL.search, formats))
    others = ("network", "volume", "image", "node", "plugin")
    return _SELECTS.search(command.text) is None and argv[1:2][0] not in others


def _prints_variables(argv: Argv, command: ShellCommand) -> bool:
    """Return whether what runs in a container prints its variables."""
    others = [other for other in command.possible if other not in command.arguments]
    return (
        any(map(_only_prints, others))
        or _only_prints(_find_run(argv))
        or _SECRET_NAME.search(command.text) is not None
    )


def _find_run(argv: Argv) -> Argv:
    """Return the command after the name of a container or an image."""
    at = next(at for at, word in enumerate(argv) if word in _LAUNCHES) + 1
    before = 1
    while at < len(argv) and (before or argv[at].startswith("-")):
        if argv[at] in _VALUED:
            at += 1
        elif not argv[at].startswith("-"):
            before -= 1
        at += 1
    return argv[at:]


def _only_prints(argv: Argv) -> bool:
    """Return whether a program prints variables and neither sets one nor runs another program."""
    if not argv or program_name(argv[0]) not in _PRINTERS:
        return False
    if program_name(argv[0]) == "printenv":
        return all(_SETTING.search(word) for word in argv[1:] if not word.startswith("-"))
    return all(word.startswith("-") for word in argv[1:])


def find_environments(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a text names the file with the variables of a process."""
    if _ENVIRONMENT.search(command.text) and any(
        _ENVIRONMENT.search(word) for argv in command.possible for word in (*argv, *command.files)
    ):
        yield "secrets"


def find_shown_passwords(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether ``pass NAME`` prints a password."""
    del command
    first = operands_of(argv)[:1]
    if first and first[0] not in _PASS_COMMANDS:
        yield "secrets"


def find_printed_settings(argv: Argv) -> Iterator[Kind]:
    """Yield whether a package manager prints a token out of its settings."""
    words = operands_of(argv)
    if "get" in words[:2] and any(map(_SETTING.search, words[1:])):
        yield "secrets"
