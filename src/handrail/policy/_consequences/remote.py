"""Finds containers and databases on other machines, by their options and variables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from handrail.policy._consequences.databases import (
    DATABASE_PROGRAMS,
    names_production,
    names_remote_database,
)
from handrail.policy._consequences.table import Argv, Kind
from handrail.policy._rules.shell_command import ShellCommand
from handrail.policy._shell.wrappers import program_name

_ENGINES = frozenset("docker docker-compose podman podman-compose nerdctl".split())
_NAMING = frozenset("-H --host -c --context --url --connection".split())
_VALUED = _NAMING | frozenset(
    "-l --log-level --config --tlscacert --tlscert --tlskey -n --namespace -a --address".split()
)
"""Options with values before a command's first word."""
_BY_VARIABLE = re.compile(
    r"\b(?:DOCKER_(?:HOST|CONTEXT)|CONTAINER_(?:HOST|CONNECTION))=[\"']?([^\s\"';&|]*)"
)
_HERE = re.compile(
    r"|(?:unix|npipe|fd)://.*|(?:(?:tcp|https?)://)?(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?/?"
    r"|default|desktop-\w+|rootless|colima\S*|orbstack|rancher-desktop|podman-machine-default\S*"
)
"""Addresses and names for the engine on this machine."""
_READING = frozenset(
    """
    ps images logs inspect version info top stats events diff port search history ls list context
    config
    """.split()
)
_IN_PRODUCTION = re.compile(
    r"\b(?:RAILS|RACK|NODE|APP|MIX|FLASK|DJANGO|LARAVEL|HANAMI|ENVIRONMENT)(?:_ENV)?=[\"']?"
    r"(?:prod|live|staging)|\s--env(?:ironment)?[= ](?:prod|live|staging)"
    r"|(?:DJANGO_SETTINGS_MODULE=|\s--settings[= ])[\"']?[\w.]*(?:prod|live|staging)"
    r"|\s--?(?:config|env-file|c|d|dataSource)[= ][\"']?[\w./-]{0,80}\b(?:prod|live|staging)",
    re.IGNORECASE,
)
_CHANGES_DATABASE = re.compile(
    r"[\s:](?:db:(?!version|migrate:status|abort_if)\w|migrate\b(?![\s:]+(?:status|list|diff)\b)"
    r"|ecto\.(?:migrate|rollback)|db\s+(?:push|upgrade|seed)|(?:alembic|migration:run|runner|tinker)\b"
    r"|shell\s+-c|mix\s+run\b)|^(?:alembic|flyway|liquibase|dbmate|goose|sqitch|migrate)\s"
    r"|\b(?:flyway|liquibase|dbmate|goose|sqitch|migrate)\s[^|;&\n]{0,300}\b(?:up|down|update|apply|deploy|reset|revert)\b"
)

_SAY = frozenset("echo printf test [ [[ export unset".split())


def find_remote_engines(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a command is for containers on another machine."""
    if program_name(argv[0]) not in _ENGINES:
        return
    named, words = _split_options(argv)
    named += _BY_VARIABLE.findall(command.text)
    if all(map(_HERE.fullmatch, named)):
        return
    verb = words[1:2] if words[:1] in (["compose"], ["container"], ["image"]) else words[:1]
    yield "hosts" if _READING.issuperset(verb) else "others"


def _split_options(argv: Argv) -> tuple[list[str], list[str]]:
    """Return the engines named by the first options, and the words after them."""
    named, words = list[str](), list(argv[1:])
    while words and words[0].startswith("-"):
        name, equals, value = words.pop(0).partition("=")
        if name in _VALUED and not equals and words:
            value = words.pop(0)
        if name in _NAMING:
            named.append(value)
        elif name.startswith("-H"):
            named.append(name[2:])
    return named, words


def find_production(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a text changes a production or staging database."""
    text = command.text
    elsewhere = _IN_PRODUCTION.search(text) is not None or names_remote_database(text)
    if elsewhere and _CHANGES_DATABASE.search(text):
        yield "others"
    elif names_production(text):
        programs = {program_name(argv[0]) for argv in command.possible}
        if programs.isdisjoint(DATABASE_PROGRAMS | _SAY):
            yield "others"
