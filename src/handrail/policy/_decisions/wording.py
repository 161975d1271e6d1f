"""Accesses and commands in plain language, for approval requests and denials."""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail import DESTROY, READ, WRITE, Access, Effect
from handrail.policy._rules.shell_command import MatchedCommand

_VERBS = {
    READ: ("read", "reading"),
    WRITE: ("change", "changing"),
    DESTROY: ("delete", "deleting"),
}
_NET_VERBS = {
    READ: ("fetch from", "fetching from"),
    WRITE: ("send data to", "sending data to"),
    DESTROY: ("delete data on", "deleting data on"),
}
_ANY_RESOURCE = {
    READ: ("read data", "reading data"),
    WRITE: ("make changes", "making changes"),
    DESTROY: ("make changes that cannot be undone", "making changes that cannot be undone"),
}
"""For ``*``, touched by every tool that does not declare its accesses."""
_WHOLE_SCHEMES = {"file": "the workspace", "net": "any host"}
_PLAIN_NAME = re.compile(r"[\w./:@%+=~#-]+", re.ASCII)
_DEFAULT_PORT = "/443"
_MAX_QUOTED_CHARS = 60
_MAX_NAMED_RESOURCES = 5


def describe_access(access: Access) -> str:
    """Return an access as a noun phrase, such as "changing src/a.py"."""
    if access.resource == "*":
        return _ANY_RESOURCE[access.verb][1]
    return f"{_verbs(access.resource)[access.verb][1]} {name_resource(access.resource)}"


def describe_accesses(accesses: Sequence[Access]) -> str:
    """Return what a call would do, such as "change src/a.py and read b.py".

    Each resource appears once, with its worst effect. The worst comes first.
    """
    effects: dict[str, Effect] = {}
    for access in accesses:
        effects[access.resource] = max(access.verb, effects.get(access.resource, READ))
    if "*" in effects:
        effects = {"*": max(effects.values())}
    worst = sorted(effects.items(), key=lambda item: -item[1])
    names: dict[str, list[str]] = {}
    for resource, effect in worst[:_MAX_NAMED_RESOURCES]:
        names.setdefault(_verbs(resource)[effect][0], []).append(name_resource(resource))
    left = len(worst) - _MAX_NAMED_RESOURCES
    last = ", " if left > 0 else " and "
    actions = [f"{verb} {join_names(several, last)}".rstrip() for verb, several in names.items()]
    if left > 0:
        actions[-1] += f" and {left} more"
    return join_names(actions, ", and " if len(worst) > len(actions) else " and ")


def quote_command(text: str) -> str:
    """Return a command in backticks, or as a Python string if backticks would mislead."""
    return f"`{text}`" if text.isprintable() and "`" not in text else repr(text)


def _verbs(resource: str) -> dict[Effect, tuple[str, str]]:
    if resource == "*":
        return _ANY_RESOURCE
    return _NET_VERBS if resource.startswith("net:") else _VERBS


def name_resource(resource: str) -> str:
    """Return a resource for a person: a file by its path, a host without the default port."""
    scheme, _, path = resource.partition(":")
    if scheme not in _WHOLE_SCHEMES:
        return _quote_name(resource) if resource != "*" else ""
    if scheme == "net":
        path = path.removesuffix(_DEFAULT_PORT).replace("/", ":", 1)
    return _quote_name(path) if path else _WHOLE_SCHEMES[scheme]


def _quote_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else repr(name)


def join_names(texts: Sequence[str], conjunction: str = " and ") -> str:
    """Return names as a list in a sentence."""
    *first, last = texts
    return f"{', '.join(first)}{conjunction}{last}" if first else last


def describe_unmatched(commands: Sequence[MatchedCommand]) -> str:
    """Return which simple commands no rule allows, or "" if there is only one command."""
    first = next((part.argv for part in commands if part.rule is None), ())
    if not first or len(commands) == 1:
        return ""
    return f"no rule allows {quote_command(' '.join(first)[:_MAX_QUOTED_CHARS])}"
