"""Finds requests to other machines: those that fetch something, and those that change something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from handrail.policy._consequences.removals import is_made
from handrail.policy._consequences.table import (
    Argv,
    Kind,
    has_flag,
    is_about_itself,
    is_harmless,
    operands_of,
    values_of,
)
from handrail.policy._rules.shell_command import ShellCommand
from handrail.policy._shell.wrappers import program_name

FETCHERS = frozenset("curl wget fetch aria2c http https xh curlie lynx w3m".split())
CLOUDS = frozenset(
    """
    aws gcloud gsutil az doctl linode-cli hcloud oci ibmcloud aliyun s3cmd s5cmd mc b2 bq
    heroku fly flyctl vercel netlify wrangler firebase railway render surge now eas serverless sls
    jira linear slack twilio stripe sentry-cli argocd hub
    """.split()
)
"""Programs of which each command reaches a service."""
_READING = re.compile(
    r"(?:list|ls|show|describe|get|head|status|logs?|whoami|info|inspect|view|tail|ps|regions)"
    r"(?:-[\w-]+)?"
)
_CHANGING = re.compile(
    r"(?:create|delete|remove|rm|update|put|set|unset|deploy|apply|destroy|start|stop|restart|run"
    r"|push|publish|promote|scale|terminate|reboot|attach|detach|cp|mv|sync|rb|mb|up|down|ssh|exec"
    r"|invoke|rollback|release|add|enable|disable|import|login|configure)(?:[-:].*)?|(?:[^:\n]|:(?!\w))*+:\w.*"
)
"""Words of a service's command that only read, and words that change something."""
_SENDING = frozenset(
    """
    -d --data --data-raw --data-binary --data-urlencode --data-ascii --json -F --form --form-string
    -T --upload-file --post-data --post-file --body-data --body-file
    """.split()
)
_WITH_ITEMS = frozenset("http https xh xhs curlie".split())
_ITEM = re.compile(r"[\w.\[\]-]+(?:=(?!=)|:=|@)")
"""Data that HTTPie sends. ``name==value`` is a part of the address, ``name:value`` a header."""
_METHOD = re.compile(r"(POST|PUT|PATCH|DELETE)\b", re.IGNORECASE)
_HARMLESS_METHOD = re.compile(r"(GET|HEAD|OPTIONS)\b", re.IGNORECASE)
_LOCAL = re.compile(
    r"(?:[\w+]+://)?(?:[^/@\s]*@)?(?:localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[?::1?\]?|[\w-]+\.localhost"
    r"|host\.docker\.internal)?(?::[^/@\s]*)?(?:/|$)"
)
_ADDRESS = re.compile(
    r"^(?:[\w+]+://|[^/\s]+@|localhost\b|127\.|0\.0\.0\.0|\[::|:\d|:/)|^[\w-]+(?:\.[\w-]+)+(?:[:/]|$)"
)
_SQL_CHANGE = re.compile(
    r"\b(?:drop|truncate|delete|update|insert|alter|create|grant|flushall|flushdb|set|del)\b",
    re.IGNORECASE,
)
_IN_FILES = frozenset(["sqlite3", "duckdb"])
_BY_VARIABLE = re.compile(r"\$\{?[A-Za-z_]")
_URL = re.compile(r"https?://[^\s'\"`]+")
_CODE_SENDS = re.compile(
    r"\.(?:post|put|patch|delete)\(|urlopen\((?:(?!urlopen\()[^)])*(?:data\s*=|,)"
    r"|method['\"]?\s*[:=]\s*['\"](?!GET|HEAD)",
)
_CODE_FETCHES = re.compile(r"urlopen|urlretrieve|\bfetch\(|(?:requests|httpx|axios|https?)\.\w+\(")
_REMOTE_FILE = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!\\)|rsync://")
_INSTALLS = frozenset(("install", "i", "download"))
_DECLARED = ("-r", "--requirement", "-e", "--editable", "-c", "--constraint")
_OTHER_SOURCES = (
    *("--index-url", "--extra-index-url", "--registry", "--find-links", "--index"),
    *("--default-index", "--source", "--repository", "--repository-url", "--channel", "--repo"),
)
_ADDING = frozenset("install i add download wheel inject require get dlx".split())
"""Commands of package managers that take packages. Each may be given by its address."""
_RUNNERS = frozenset(["npx", "uvx", "bunx"])
_RUNNING = frozenset(["run", "exec", "test", "start"])
_RUNNER_FLAGS = ("--from", "--with", "-p", "--package")
_INTERPRETERS = frozenset(["python", "python3"])
_PACKAGE_ADDRESS = re.compile(
    r"(?:--?[\w-]+=)?(?:[^:/]*@\s*)?((?:(?!file:)[\w+]+:)?//.+|git@[\w.-]+:.+)", re.DOTALL
)
"""A package by its address: ``https://…``, ``git+ssh://…``, ``name @ https://…``."""
_SOURCE_LETTERS = {
    **dict.fromkeys(("pip", "pip3", "python", "python3", "uv"), ("-i", "-f")),
    "gem": ("-s",),
    **dict.fromkeys(("conda", "mamba"), ("-c",)),
}
"""Short flags for the address of an index."""
_IS_ADDRESS = re.compile(r"[\w+]+://|//")
_PUBLIC = re.compile(
    r"(?:\w+\+)?https://(?:pypi\.org|files\.pythonhosted\.org|download\.pytorch\.org"
    r"|registry\.npmjs\.org|registry\.yarnpkg\.com|rubygems\.org|index\.crates\.io|proxy\.golang\.org"
    r"|conda\.anaconda\.org)(?:[/,].*)?"
)
"""Indexes that package managers use by themselves, or whose packages are well known."""
_SET_SOURCE = re.compile(
    r"\b(?:PIP_(?:EXTRA_)?INDEX_URL|PIP_FIND_LINKS|npm_config_registry|UV_(?:DEFAULT_|EXTRA_)?INDEX"
    r"(?:_URL)?|YARN_NPM_REGISTRY_SERVER|CARGO_REGISTRIES_\w+|GOPROXY|BUNDLE_MIRROR\w*)="
    r"[\"']?([^\s\"';&|]*)",
    re.IGNORECASE,
)
"""Variables that decide where packages come from."""
INSTALLERS = frozenset(
    """
    pip pip3 python python3 uv uvx pipx poetry pdm pipenv npm npx yarn pnpm bun gem bundle cargo go
    conda mamba composer nuget dotnet helm
    """.split()
)
PROBES = frozenset("ping dig nslookup host traceroute whois".split())
_DELETING = ("--delete", "--remove-source-files")
_RSYNC_FLAGS = (
    "-a -v -z -r -l -p -t -g -o -D -u -h -P -i --delete --archive --verbose --progress".split()
)
"""Flags of ``rsync`` that have no value."""


def find_requests(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield what a request to a server that is not this machine does there."""
    del command
    methods = [*values_of(argv, ("-X", "--request", "--method")), *argv[1:2]]
    sends = has_flag(argv, _SENDING) and not any(map(_HARMLESS_METHOD.fullmatch, methods))
    changes = sends or any(map(_METHOD.fullmatch, methods)) or _has_items(argv)
    addresses = [word for word in argv[1:] if _ADDRESS.match(word) or "$" in word]
    if any(value.startswith("@") for value in values_of(argv, tuple(_SENDING))):
        changes = True  # a file is sent, whatever the method is
    if not is_about_itself(argv) and not (addresses and all(map(_LOCAL.match, addresses))):
        yield "others" if changes else "hosts"


def _has_items(argv: Argv) -> bool:
    """Return whether a program such as HTTPie sends data: ``http example.com name=value``."""
    words = operands_of(argv)
    reads = any(map(_HARMLESS_METHOD.fullmatch, words[:1]))
    return program_name(argv[0]) in _WITH_ITEMS and not reads and any(map(_ITEM.match, words[1:]))


def find_requests_in_code(text: str) -> Iterator[Kind]:
    """Yield what program text asks of the servers that it names."""
    addresses = _URL.findall(text)
    if any(not _LOCAL.match(address) for address in addresses):
        if _CODE_SENDS.search(text):
            yield "others"
        elif _CODE_FETCHES.search(text):
            yield "hosts"


def find_connections(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a program such as ``nc`` connects to another machine."""
    del command
    names = [word for word in operands_of(argv) if not word.isdecimal()]
    if not names or not all(map(_LOCAL.match, names)):
        yield "hosts" if program_name(argv[0]) in PROBES else "others"


def find_database_hosts(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a client of a database connects to another machine."""
    hosts = [*values_of(argv, ("-h", "--host", "-H", "--uri"))]
    hosts += [word for word in operands_of(argv) if "://" in word]
    changes = _changes_data(command.text)
    if any(not _LOCAL.match(host) and not host.startswith("/") for host in hosts):
        yield "others" if changes else "hosts"
    elif changes and program_name(argv[0]) not in _IN_FILES and _BY_VARIABLE.search(command.text):
        yield "others"  # only the shell knows where the database is


@lru_cache(maxsize=8)
def _changes_data(text: str) -> bool:
    return _SQL_CHANGE.search(text) is not None


def find_service_calls(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a command of a service reads there, or may change something."""
    del command
    words = operands_of(argv)[:4]
    reads = any(map(_READING.fullmatch, words)) and not any(map(_CHANGING.fullmatch, words))
    if not is_about_itself(argv):
        yield "hosts" if reads else "others"


def find_synchronized(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a copy goes to another machine, or deletes what is not in its source."""
    del command
    operands = operands_of(argv)
    if is_harmless(argv, ("-n", "--dry-run"), _RSYNC_FLAGS):
        return
    if any(_REMOTE_FILE.match(word) for word in operands):
        yield "others"
    deletes = any(word.startswith(_DELETING) for word in argv)
    if deletes and not all(map(is_made, operands[-1:])):
        yield "files"


def find_installs(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a package manager installs a package that the project does not declare."""
    del command
    words = argv[1:]
    commands = [at for at, word in enumerate(words) if word in _INSTALLS or words[:1] == ("init",)]
    after = words[commands[0] + 1 :] if commands else ()
    declared = [
        word for flag, word in pairwise(("", *after)) if flag in _DECLARED and "://" not in word
    ]
    named = [word for word in operands_of(("", *after)) if word not in declared]
    if any(not _is_local_package(word) for word in named) or "--with" in words:
        yield "hosts"
    if commands and any(word.partition("=")[0] in _OTHER_SOURCES for word in words):
        yield "credentials"


def find_named_sources(argv: Argv) -> Iterator[Kind]:
    """Yield whether a command of a package manager has the address of an index or a package."""
    flags = (*_OTHER_SOURCES, *_SOURCE_LETTERS.get(program_name(argv[0]), ()))
    others = any(map(_is_other_source, values_of(argv, flags)))
    if others or not all(map(_PUBLIC.fullmatch, _find_package_addresses(argv))):
        yield "sources"


def _find_package_addresses(argv: Argv) -> list[str]:
    """Return the addresses that a command installs from, or runs a package from."""
    program, words = program_name(argv[0]), argv[1:]
    if program in _INTERPRETERS and "pip" not in words:
        return []
    if program in _RUNNERS or _RUNNING.issuperset(words[:1]):
        run = operands_of(argv)[: 1 if program in _RUNNERS else 2]
        words = (*values_of(argv, _RUNNER_FLAGS), *run)
    else:
        verb = next((at for at, word in enumerate(words) if word in _ADDING), len(words))
        words = words[verb:]
    return [found[1] for word in words if (found := _PACKAGE_ADDRESS.match(word))]


def find_set_sources(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a text sets a variable that decides where packages come from."""
    addresses = [found[1] for found in _SET_SOURCE.finditer(command.text)]
    if addresses:
        yield "credentials"
    if any(map(_is_other_source, addresses)):
        yield "sources"


def _is_other_source(value: str) -> bool:
    return _IS_ADDRESS.match(value) is not None and _PUBLIC.fullmatch(value) is None


def _is_local_package(word: str) -> bool:
    if "://" in word:
        return word.startswith("file://")
    return word in (".", "-") or word.startswith(("./", "../", ".[", "/")) or word.endswith(".whl")


def find_packages_run(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a package is downloaded to be run: its name has a version, or it creates."""
    del command
    named = operands_of(argv)
    first = named[:1] if program_name(argv[0]) == "npx" else named
    if any("@" in word[1:] or word.startswith(("create-", "https://")) for word in first):
        yield "hosts"
