"""Finds commands that print secrets from containers, settings or processes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from handrail.policy._consequences.table import Argv, Kind, operands_of, values_of
from handrail.policy._rules.shell_command import ShellCommand, read_shell_command
from handrail.policy._shell.wrappers import SHELLS, program_name

CONTAINERS = frozenset("docker podman nerdctl docker-compose podman-compose kubectl oc".split())
_LAUNCHES = frozenset("exec run debug rsh".split())
_PRINTERS = frozenset("env printenv export set declare".split())
"""Programs printing all variables, or named ones."""
_VALUED = frozenset(
    """
    -u -w -e -n -c -f -p -v --user --workdir --env --env-file --namespace --container --name
    --network --entrypoint --volume --publish --index --file --context --mount
    """.split()
)
"""Flags with a value, before a container's name."""
_SECRET_NAME = re.compile(
    r"\$\{?\w*(?:PASS|SECRET|TOKEN|KEY|CREDENTIAL)|/secrets\b|/environ\b|\bmaster\.key\b",
    re.IGNORECASE,
)
"""A variable whose value is a secret, by its name, or a file with secrets."""
_ENVIRONMENT = re.compile(r"/proc/[^/\s]+/environ\b")
_READ_ENVIRONMENT = re.compile(r"<\s*+[\"']?/proc/[^/\s]+/environ\b")
_CODE_ENVIRONMENT = re.compile(
    r"(?:print\w*|dumps?|inspect|puts|p|say|log|write|echo|var_dump|export|-p)\b[^;\n]{0,100}?"
    r"(?:os\.environ\b(?!\s*[\[.])|process\.env\b(?!\s*[\[.])|\bENV\b(?!\s*[\[.]\s*(?!to_|each|map|inspect))|getenv\(\s*\)"
    r"|\$_(?:ENV|SERVER)\b(?!\s*\[)|%ENV\b|System\.getenv\(\s*\)|os\.Environ\(|Deno\.env\.toObject)"
)
"""Code for printing all variables."""
LENDERS = frozenset(
    "aws-vault doppler op infisical chamber teller envchain direnv sops vaultenv".split()
)
"""Programs that pass secrets to the program they run."""
_SECRET_PLACE = re.compile(
    r"/run/secrets\b|/environ\b|(?:^|/)\.env\b|(?:^|/)\.(?:aws|ssh|kube|docker|gnupg)/"
)
_NOUN = re.compile(
    r"(?:[\w-]+[-:_.])?(?:tokens?|passwords?|secrets?|credentials?|(?:access|api|private|secret)-?keys?"
    r"|connection-?strings?|appsettings|kubeconfig)",
    re.IGNORECASE,
)
_SHOWS = re.compile(
    r"(?:show|get|print|reveal|export|decrypt|read|view|dump|display|access|describe)\b.*"
)
_MAKES = re.compile(r"(?:create|new|issue|generate|mint|list)\b.*")
_NOT_SECRET = re.compile(r"(?:[\w-]+[-:_.])?secrets?", re.IGNORECASE)
_JOINED = re.compile(
    r"(?:credentials|secrets?|tokens?|env):(?:show|edit|decrypt|print|get|reveal)|env:(?:decrypt|get|pull)"
    r"|(?:get|show|print|reveal|export)[-_:](?:\w+[-_:])?(?:tokens?|passwords?|secrets?|credentials?)"
    r"|connection-?strings?|show-connection-string|(?:api|access)-keys?"
)
"""A word naming a secret's display by itself."""
_ACCOUNT = re.compile(
    r"(?:github-oauth|gitlab-\w+|http-basic|bearer)\..*|[\w.-]+\.(?:com|org|net|io|dev)"
)
"""Settings with the token for a server."""
_HELPER = re.compile(r"(?:docker|git)-credential-[\w-]+")
_PLAIN_WORD = re.compile(r"[A-Za-z][\w:.-]*")
_WITH_ENVIRONMENT = re.compile(r"[a-df-zA-Z]*+e[a-zA-Z]*+")
"""``ps`` options without a dash, including the one for showing variables."""
_SHOWS_ALL = re.compile(r"Env|json\s*+(?:\.\s*+)?\}|\.Config\s*\}|range", re.IGNORECASE)
"""Format parts that make ``docker inspect`` show variables."""
_SELECTS = re.compile(
    r"\|\s*(?:jq\s[^|]*\.(?!Config)[A-Z]\w+|grep\s[^|]*(?:Status|Health|IPAddress|Mount|Image|Port))"
)
"""Selections with only other parts from the ``docker inspect`` output."""
_SHOWS_CHOSEN = re.compile(r"\.Env\b")
_NAMED_IN_CODE = re.compile(
    r"(?:environ|\bENV|\benv|getenv|_ENV)\b[\[.(]+(?:get\(|fetch\(?)?\s*['\"]?\w*"
    r"(?:PASS|SECRET|TOKEN|KEY|CREDENTIAL)",
    re.IGNORECASE,
)
_LOADS_SECRETS = re.compile(r"dotenv|--env-file|\bsource\s+\S*\.env\b|\.\s+\S*\.env\b")
_COMPUTED_ENVIRONMENT = re.compile(r"/proc/(?:\$\([^)\n]{0,200}\)|`[^`\n]{0,200}`)/environ\b")
_RUNS_WORD = re.compile(r"-\w*c")
_PASS_COMMANDS = frozenset("init ls list find insert add generate edit rm mv cp git help".split())
_SETTING = re.compile(r"auth|token|passw|secret|credential|_key", re.IGNORECASE)


def find_container_secrets(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a command shows a container's variables, or those in what starts it."""
    words = operands_of(argv)
    shows = "inspect" in words[:2] and _shows_variables(argv, command)
    shows |= "cp" in words[:2] and any(map(_SECRET_PLACE.search, words))
    shows |= words[:1] == ["top"] and any(map(_WITH_ENVIRONMENT.fullmatch, words[2:]))
    if shows or (not _LAUNCHES.isdisjoint(words[:2]) and _prints_variables(argv, command)):
        yield "secrets"


def _shows_variables(argv: Argv, command: ShellCommand) -> bool:
    formats = list(values_of(argv, ("-f", "--format")))
    if formats:
        return any(map(_SHOWS_ALL.search, formats))
    if _SHOWS_CHOSEN.search(command.text):
        return True
    others = ("network", "volume", "image", "node", "plugin")
    return _SELECTS.search(command.text) is None and argv[1:2][0] not in others


def _prints_variables(argv: Argv, command: ShellCommand) -> bool:
    """Return whether what runs in a container prints its variables."""
    run = _find_run(argv)
    return _says_so(command) or _only_prints(run) or any(map(_only_prints, _find_in_shell(run)))


@lru_cache(maxsize=8)
def _says_so(command: ShellCommand) -> bool:
    """Return whether a text prints variables, or names a secret."""
    others = (other for other in command.possible if other not in command.arguments)
    patterns = (_NAMED_IN_CODE, _SECRET_NAME, _CODE_ENVIRONMENT)
    return any(map(_only_prints, others)) or any(one.search(command.text) for one in patterns)


def _find_run(argv: Argv) -> Argv:
    """Return the command after a container or image name."""
    at = next(at for at, word in enumerate(argv) if word in _LAUNCHES) + 1
    before = 1
    while at < len(argv) and (before or argv[at].startswith("-")):
        if argv[at] in _VALUED:
            at += 1
        elif not argv[at].startswith("-"):
            before -= 1
        at += 1
    return argv[at:]


def _find_in_shell(argv: Argv) -> Iterable[Argv]:
    """Return the commands in ``sh -c``."""
    is_shell = program_name("".join(argv[:1])) in SHELLS
    if not is_shell or not _RUNS_WORD.fullmatch("".join(argv[1:2])):
        return ()
    return read_shell_command("".join(argv[2:3])).possible


def _only_prints(argv: Argv) -> bool:
    """Return whether a program prints variables and neither sets one nor runs another program."""
    if not argv or program_name(argv[0]) not in _PRINTERS:
        return False
    if program_name(argv[0]) == "printenv":
        return all(_SETTING.search(word) for word in argv[1:] if not word.startswith("-"))
    return all(word.startswith("-") for word in argv[1:])


def find_environments(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a text shows a process's variables, or those in a file with secrets."""
    text = command.text
    if (
        _READ_ENVIRONMENT.search(text)
        or _COMPUTED_ENVIRONMENT.search(text)
        or (
            _ENVIRONMENT.search(text)
            and any(
                _ENVIRONMENT.search(word)
                for argv in command.possible
                for word in (*argv, *command.files)
            )
        )
    ):
        yield "secrets"
    if _LOADS_SECRETS.search(text) and _CODE_ENVIRONMENT.search(text):
        yield "secrets"


def find_shown_passwords(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether ``pass NAME`` prints a password."""
    del command
    first = operands_of(argv)[:1]
    if first and first[0] not in _PASS_COMMANDS:
        yield "secrets"


def find_printed_settings(argv: Argv) -> Iterator[Kind]:
    """Yield whether a package manager prints a token from its settings."""
    words = operands_of(argv)
    if "get" in words[:2] and any(map(_SETTING.search, words[1:])):
        yield "secrets"


def find_shown_environments(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether ``ps e`` shows process variables."""
    del command
    if any(map(_WITH_ENVIRONMENT.fullmatch, argv[1:2])):
        yield "secrets"


def find_lent_secrets(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a program running with lent secrets only prints them."""
    del command
    inner = argv[argv.index("--") + 1 :] if "--" in argv else argv[-1:]
    if _only_prints(inner) or argv[1:3] == ("export", "json"):
        yield "secrets"


def find_named_secrets(argv: Argv) -> Iterator[Kind]:
    """Yield whether a program's words name a shown secret: ``x token create``."""
    if _HELPER.fullmatch(program_name(argv[0])) and argv[1:2] in (("get",), ("list",)):
        yield "secrets"
    words = [word for word in argv[1:6] if _PLAIN_WORD.fullmatch(word)]
    if words[:1] == ["config"] and any(map(_ACCOUNT.fullmatch, argv[2:])):
        yield "secrets"
    if any(map(_JOINED.fullmatch, words)) or any(map(_show_secret, words, words[1:])):
        yield "secrets"


def _show_secret(first: str, second: str) -> bool:
    for noun, verb in ((first, second), (second, first)):
        if _NOUN.fullmatch(noun) and (
            _SHOWS.fullmatch(verb) or (_MAKES.fullmatch(verb) and not _NOT_SECRET.fullmatch(noun))
        ):
            return True
    return False
