"""Reads a rule's accesses."""

from __future__ import annotations

from handrail import READ, Access, Effect
from handrail.policy._rules.errors import InvalidRule
from handrail.policy._rules.paths import user_home
from handrail.policy._rules.rule import Touch


def parse_touch(text: str) -> Touch:
    """Read a rule's access: ``write file:src/**``, ``read|write net:*``, ``* db:**``."""
    verbs, _, resource = text.strip().partition(" ")
    if not resource:
        raise InvalidRule(
            f"invalid access {text!r}; write a verb and a resource, as 'write file:src/**'"
        )
    if resource.startswith("file:~/"):
        resource = f"file:{user_home()}{resource.removeprefix('file:~')}"
    named = list(Effect) if verbs == "*" else [parse_effect(name) for name in verbs.split("|")]
    try:
        return Touch(frozenset(named), Access(READ, _with_plain_host(resource.strip())).resource)
    except ValueError as error:
        raise InvalidRule(str(error)) from None


def _with_plain_host(resource: str) -> str:
    """Return a resource with its host in lower case, as in call accesses."""
    if not resource.startswith("net:"):
        return resource
    host, slash, path = resource.removeprefix("net:").partition("/")
    if not host.isascii():
        raise InvalidRule(
            f"invalid host {host!r}; write an international name in its ASCII form, as 'xn--...'"
        )
    return f"net:{host.lower()}{slash}{path}"


def parse_effect(name: str) -> Effect:
    try:
        return Effect[name.upper()]
    except KeyError:
        raise InvalidRule(f"unknown effect {name!r}; use read, write or destroy") from None
