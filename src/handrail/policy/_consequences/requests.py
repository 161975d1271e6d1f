"""Finds requests to other machines: those for fetching, and those for changing something."""

from __future__ import annotations

import re
from collections.abc import Iterator
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

FETCHERS = frozenset("curl wget fetch aria2c http https httpie xh xhs curlie lynx w3m".split())
CLOUDS = frozenset(
    """
    aws gcloud gsutil az doctl linode-cli hcloud oci ibmcloud aliyun s3cmd s5cmd mc b2 bq
    heroku fly flyctl vercel netlify wrangler firebase railway render surge now eas serverless sls
    jira linear slack twilio stripe sentry-cli argocd hub neonctl pscale turso upstash databricks
    """.split()
)
"""Programs whose every command reaches a service."""
_READING = re.compile(
    r"(?:list|ls|show|describe|get|head|status|logs?|whoami|info|inspect|view|tail|ps|regions)"
    r"(?:-[\w-]+)?"
)
_CHANGING = re.compile(
    r"(?:create|delete|remove|rm|update|put|set|unset|deploy|apply|destroy|start|stop|restart|run"
    r"|push|publish|promote|scale|terminate|reboot|attach|detach|cp|mv|sync|rb|mb|up|down|ssh|exec"
    r"|invoke|rollback|release|add|enable|disable|import|login|configure)(?:[-:].*)?|(?:[^:\n]|:(?!\w))*+:\w.*"
)
"""Read-only words in a service's command, and changing ones."""
_SENDING = frozenset(
    """
    -d --data --data-raw --data-binary --data-urlencode --data-ascii --json -F --form --form-string
    -T --upload-file --post-data --post-file --body-data --body-file
    """.split()
)
_WITH_ITEMS = frozenset("http https httpie xh xhs curlie".split())
_ITEM = re.compile(r"[\w.\[\]-]+(?:=(?!=)|:=|@)")
"""Data sent by HTTPie. ``name==value`` is a part of the address, ``name:value`` a header."""
_METHOD = re.compile(r"(POST|PUT|PATCH|DELETE)\b", re.IGNORECASE)
_HARMLESS_METHOD = re.compile(r"(GET|HEAD|OPTIONS)\b", re.IGNORECASE)
_LOCAL = re.compile(
    r"(?:[\w+]+://)?(?:[^/@\s]*@)?(?:localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[?::1?\]?|[\w-]+\.localhost"
    r"|host\.docker\.internal)?(?::[^/@\s]*)?(?:/|$)"
)
_ADDRESS = re.compile(
    r"^(?:[\w+]+://|[^/\s]+@|localhost\b|127\.|0\.0\.0\.0|\[::|:\d|:/)|^[\w-]+(?:\.[\w-]+)+(?:[:/]|$)"
)
_URL = re.compile(r"https?://[^\s'\"`]+")
_CODE_SENDS = re.compile(
    r"\.(?:post|put|patch|delete)\(|urlopen\((?:(?!urlopen\()[^)])*(?:data\s*=|,)"
    r"|method['\"]?\s*(?:=>|[:=])\s*['\"](?!GET|HEAD)|\.request\(\s*['\"](?!GET|HEAD|OPTIONS)[A-Z]"
    r"|\b(?:sendmail|send_message|storbinary|sendto)\(",
)
_CODE_CONNECTS = re.compile(
    r"\b(?:requests|httpx|aiohttp|urllib3?|axios|http\.client|HTTPS?Connection|smtplib|ftplib|paramiko"
    r"|boto3|Net::\w+)\b|\bfetch\(|\.connect\(\(|create_connection\(|createConnection\("
)
_LOCAL_NAME = re.compile(r"localhost|127\.0\.0\.1|\[?::1\]?['\"]|0\.0\.0\.0")
_CONNECTS_THERE = re.compile(
    r"\bconnect\(\s*\d+\s*,\s*['\"](?!localhost|127\.)|(?:\.connect|create_connection)\(\(\s*['\"](?!localhost|127\.|['\"])|\b(?:SMTP|FTP)(?:_SSL)?\(\s*['\"](?!localhost|127\.)"
)
_CODE_FETCHES = re.compile(r"urlopen|urlretrieve|\bfetch\(|(?:requests|httpx|axios|https?)\.\w+\(")
_NO_ADDRESS = (
    *("-H", "--header", "-A", "--user-agent", "-b", "--cookie", "-u", "--user", "-e", "--referer"),
    *("-o", "--output", "-w", "--write-out", *sorted(_SENDING)),
)
"""Flags whose value is not an address."""
_SOCKET = re.compile(r"[<>][&|]?\s*+[\"']?/dev/(?:tcp|udp)/([^/\s]+)/")
_SENT_BY_TLS = re.compile(
    r"\bopenssl\s+s_client\b[^|;&\n]{0,300}<\s*(?!/dev/null)\S"
    r"|\b(?:cat|tar|base64|gzip|xxd)\b[^|;&\n]{0,300}\|\s*openssl\s+s_client\b"
)
_READS_DATA = (
    r"(?:\$\(|`)\s*(?:cat|head|tail|base(?:32|64)|basenc|xxd|od|hexdump|gzip|tar|env|printenv|openssl|jq"
    r"|sed|awk|cut|grep|tr|strings|sort|find|ls|rev|git\s+(?:show|diff|log|config)|<)(?=[\s)`])"
    r"|(?:\$\(|`)[^)`\n]{0,200}\|\s*(?:base(?:32|64)|xxd|od|hexdump|gzip|jq)\b|\$\(\s*<"
)
_DATA = re.compile(_READS_DATA)
_AFTER_ADDRESS = re.compile(
    r"(?::(?=//(?!localhost|127\.|0\.0\.0\.0|\[::1))|\.\w{1,60}/)((?:[^'\";&\n]|&(?!&))*+)"
)
_SENT_DATA = re.compile(
    rf"\s(?:-[HAbeu]|--(?:header|user-agent|cookie|referer|user))[ =]?[\"']?[^\"'\n$`]{{0,100}}"
    rf"(?:{_READS_DATA})|(?:{_READS_DATA})[^)`\n]{{0,200}}[)`][\"']?\.[\w-]{{1,60}}\.\w"
)
"""A file, or a program's print of it, in an address."""
_HOLDS_DATA = re.compile(rf"\b([A-Za-z_]\w*)=[\"']?(?:{_READS_DATA})", re.ASCII)
_SENT_VARIABLE = re.compile(
    r"(?:://|\.\w{1,60}/)[^\s'\"|;&]{0,300}?\$\{?([A-Za-z_]\w{0,60})"
    r"|\$\{?([A-Za-z_]\w{0,60})\}?\.[\w-]{1,60}\.\w"
)
MESSENGERS = frozenset(
    """
    kcat kafkacat kafka-console-producer kafka-console-producer.sh kafka-topics kafka-topics.sh
    kafka-configs kafka-configs.sh kafka-consumer-groups kafka-consumer-groups.sh mosquitto_pub nats
    rabbitmqadmin amqp-publish grpcurl evans websocat wscat pulsar-client stomp etcdctl
    """.split()
)
"""Programs sending messages to a named server."""
_SERVERS = (
    "-b -H -h -s -u -L --host --server --servers --broker --broker-list --bootstrap-server"
    " --brokers --url --uri --endpoints --connect"
).split()
_HOST_AND_PORT = re.compile(r"[\w.-]+:\d+(?:/.*)?")
_REMOTE_FILE = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!\\)|rsync://")
_INSTALLS = frozenset(("install", "i", "download"))
_DECLARED = ("-r", "--requirement", "-e", "--editable", "-c", "--constraint")
_OTHER_SOURCES = (
    *("--index-url", "--extra-index-url", "--registry", "--find-links", "--index"),
    *("--default-index", "--source", "--repository", "--repository-url", "--channel", "--repo"),
)
_ADDING = frozenset("install i add download wheel inject require get dlx".split())
"""Package manager commands for getting packages. Each may be given by its address."""
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
"""Short flags for an index address."""
_IS_ADDRESS = re.compile(r"[\w+]+://|//")
_OF_NODE = frozenset("npm pnpm yarn bun".split())
_NODE_RUNNERS = frozenset("npx bunx pnpx".split())
_KNOWN_CODE = re.compile(r"https://(?:deno\.land|jsr\.io|esm\.sh)/")
_REPOSITORY = re.compile(r"(?:github|gitlab|bitbucket|gist):.+|(?![./~@])[\w-]+/[\w.-]+(?:#.*)?")
_PUBLIC = re.compile(
    r"(?:\w+\+)?https://(?:pypi\.org|files\.pythonhosted\.org|download\.pytorch\.org"
    r"|registry\.npmjs\.org|registry\.yarnpkg\.com|rubygems\.org|index\.crates\.io|proxy\.golang\.org"
    r"|conda\.anaconda\.org)(?:[/,].*)?"
)
"""Default indexes of package managers, or ones with well-known packages."""
_SET_SOURCE = re.compile(
    r"\b(?:PIP_(?:EXTRA_)?INDEX_URL|PIP_FIND_LINKS|npm_config_registry|UV_(?:DEFAULT_|EXTRA_)?INDEX"
    r"(?:_URL)?|YARN_NPM_REGISTRY_SERVER|CARGO_REGISTRIES_\w+|GOPROXY|BUNDLE_MIRROR\w*)="
    r"[\"']?([^\s\"';&|]*)",
    re.IGNORECASE,
)
"""Variables deciding where packages come from."""
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
"""``rsync`` flags without a value."""


def find_requests(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield what a request does on a server, unless it is on this machine."""
    del command
    methods = [*values_of(argv, ("-X", "--request", "--method")), *argv[1:2]]
    sends = has_flag(argv, _SENDING) and not any(map(_HARMLESS_METHOD.fullmatch, methods))
    changes = sends or any(map(_METHOD.fullmatch, methods)) or _has_items(argv)
    given = {*values_of(argv, _NO_ADDRESS)}
    addresses = [
        word for word in argv[1:] if word not in given and (_ADDRESS.match(word) or "$" in word)
    ]
    if program_name(argv[0]) == "curl" and has_flag(argv, ("-K", "--config")):
        changes = True  # a file says what is sent, and where
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
    """Yield what program text asks from named servers."""
    addresses = _URL.findall(text)
    is_local = all(map(_LOCAL.match, addresses)) if addresses else _LOCAL_NAME.search(text)
    if addresses and not is_local:
        if _CODE_SENDS.search(text):
            yield "others"
        elif _CODE_FETCHES.search(text):
            yield "hosts"
    elif not is_local and _CODE_CONNECTS.search(text) and _CODE_SENDS.search(text):
        yield "others"  # where to, only the program knows
    if _CONNECTS_THERE.search(text):
        yield "others"


def find_sockets(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether bash itself connects to another machine."""
    hosts = _SOCKET.findall(command.text)
    if any(not _LOCAL.match(host) for host in hosts) or _SENT_BY_TLS.search(command.text):
        yield "others"


def find_sent_in_addresses(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a request has file data in its address or headers."""
    programs = {program_name(argv[0]) for argv in command.possible}
    if programs.isdisjoint(FETCHERS | PROBES):
        return
    if not any(_names_other(argv) for argv in command.possible):
        return
    text = command.text
    sent = {name for found in _SENT_VARIABLE.findall(text) for name in found if name}
    if (
        _SENT_DATA.search(text)
        or any(map(_DATA.search, _AFTER_ADDRESS.findall(text)))
        or not sent.isdisjoint(_HOLDS_DATA.findall(text))
    ):
        yield "others"


def _names_other(argv: Argv) -> bool:
    """Return whether a request goes to another machine, as far as is known."""
    if program_name(argv[0]) not in FETCHERS | PROBES:
        return False
    given = {*values_of(argv, _NO_ADDRESS)}
    words = [word for word in operands_of(argv) if word not in given]
    return not words or not all(map(_LOCAL.match, words))


def find_messages(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a program sends messages to a server on another machine."""
    del command
    named = [*values_of(argv, _SERVERS), *operands_of(argv)]
    hosts = [word for word in named if "://" in word or _HOST_AND_PORT.fullmatch(word)]
    hosts += [word for word in values_of(argv, ("-h", "-H", "--host")) if word]
    if any(not _LOCAL.match(host) for host in hosts):
        yield "others"


def find_connections(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a program such as ``nc`` connects to another machine."""
    del command
    names = [word for word in operands_of(argv) if not word.isdecimal()]
    if not names or not all(map(_LOCAL.match, names)):
        yield "hosts" if program_name(argv[0]) in PROBES else "others"


def find_service_calls(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a service command reads there, or may change something."""
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
        if any(word.rstrip("/") in (".", "..", "~") for word in operands[-1:]):
            yield "workspace"


def find_installs(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a package manager installs an undeclared package."""
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
    """Yield whether a package manager command has an index or package address."""
    flags = (*_OTHER_SOURCES, *_SOURCE_LETTERS.get(program_name(argv[0]), ()))
    others = any(map(_is_other_source, values_of(argv, flags))) or any(_find_repositories(argv))
    if others or not all(map(_PUBLIC.fullmatch, _find_package_addresses(argv))):
        yield "sources"


def _find_repositories(argv: Argv) -> Iterator[str]:
    """Yield repositories npm and its kin install from: ``owner/name``, ``github:...``."""
    program, words = program_name(argv[0]), operands_of(argv)
    if program in _OF_NODE and not _ADDING.isdisjoint(words[:1]):
        yield from filter(_REPOSITORY.fullmatch, words[1:])
    elif program in _NODE_RUNNERS:
        yield from filter(_REPOSITORY.fullmatch, words[:1])


def _find_package_addresses(argv: Argv) -> list[str]:
    """Return the addresses a command installs from, or runs a package from."""
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
    """Yield whether a text sets a variable deciding where packages come from."""
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
    return (
        word in (".", "-")
        or word.startswith(("file:", "./", "../", ".[", "/"))
        or word.endswith(".whl")
    )


def find_packages_run(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a package is downloaded to be run: its name has a version, or it creates."""
    del command
    named = operands_of(argv)
    first = named[:1] if program_name(argv[0]) == "npx" else named
    if any("@" in word[1:] or word.startswith(("create-", "https://")) for word in first):
        yield "hosts"
    if program_name(argv[0]) == "deno":
        addresses = [word for word in named if word.startswith(("https://", "http://"))]
        if not all(map(_KNOWN_CODE.match, addresses)):
            yield "sources"
