"""Hosts and folders opened for commands: what needs approval, and what rules open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from handrail import READ, WRITE, Access
from handrail.policy._decisions.opinions import PROTECTED, Opinion
from handrail.policy._decisions.safeguards import ProtectedFiles
from handrail.policy._decisions.tool_rules import ToolRules, make_shell_spec
from handrail.policy._decisions.wording import join_names, name_resource
from handrail.policy._rules.glob import is_glob
from handrail.policy._rules.rule import Level, Rule, Touch
from handrail.policy._rules.shell_command import Usable

_SCHEME = "net:"
_FILE = "file:"


def name_hosts(accesses: Iterable[Access]) -> str:
    """Return the hosts in accesses as a list for a person; empty if there are none."""
    names = dict.fromkeys(name_resource(access.resource) for access in _hosts_in(accesses))
    return join_names(list(names)) if names else ""


def name_folders(accesses: Iterable[Access]) -> str:
    """Return the folders a shell tool opens for a command, as a list for the user."""
    names = dict.fromkeys(name_resource(one.resource) for one in accesses if _opens_folder(one))
    return join_names(list(names)) if names else ""


def folder_safeguards(accesses: Iterable[Access], protected: ProtectedFiles) -> Iterator[Opinion]:
    """Yield asks for folders opened for a command, which no mode and no rule can allow."""
    for access in filter(_opens_folder, accesses):
        path = name_resource(access.resource)
        if path.split("/")[-2:-1] == ["node_modules"] or any(protected.find_reasons([access])):
            reason = f"programs run code from {path} outside the sandbox"
            yield Opinion("ask", Level.BUILT_IN, PROTECTED, reason, once=True)


def _opens_folder(access: Access) -> bool:
    return access.verb >= WRITE and access.resource.startswith(_FILE)


def with_sending(accesses: Sequence[Access]) -> list[Access]:
    """Return accesses plus those permitted by open hosts: an open host can be sent to."""
    reads = [access for access in _hosts_in(accesses) if access.verb == READ]
    return [*accesses, *(Access(WRITE, access.resource) for access in reads)]


def describe_unopened(tool: ToolRules, accesses: Sequence[Access], usable: Usable) -> str:
    """Return why a call asking for hosts needs approval, or "" if rules open all hosts."""
    asked = [access for access in _hosts_in(accesses) if access.verb >= WRITE]
    opened = {
        access
        for rule, pairs in tool.rules.candidates(asked).items()
        if _can_open(rule) and usable(rule)
        for touch, access in pairs
        if touch.pattern.startswith(_SCHEME) and touch.covers(access)
    }
    hosts = name_hosts(access for access in asked if access not in opened)
    return f"no rule lets commands reach {hosts}" if hosts else ""


def find_open_hosts(rules: Sequence[Rule], tools: Iterable[str], usable: Usable) -> list[str]:
    """Return hosts opened by rules to every command from these tools.

    A rule opens a host it names exactly, unless another rule denies it or asks about it.
    """
    specs = [make_shell_spec(name) for name in tools]

    def applies(rule: Rule) -> bool:
        return usable(rule) and any(map(rule.concerns, specs))

    hosts = dict.fromkeys(
        host
        for rule in rules
        if _can_open(rule) and not rule.args
        for touch in rule.touches
        if (host := _exact_host(touch)) and applies(rule)
    )
    if not hosts:  # as usual
        return []
    against = [
        touch
        for rule in rules
        if rule.decide != "allow" and applies(replace(rule, args={}))
        for touch in rule.touches
    ]
    return [host for host in hosts if not any(_may_meet(touch, host) for touch in against)]


def _hosts_in(accesses: Iterable[Access]) -> Iterator[Access]:
    return (access for access in accesses if access.resource.startswith(_SCHEME))


def _can_open(rule: Rule) -> bool:
    """Return whether a rule can open hosts. A workspace's rules do not answer for a person."""
    return rule.decide == "allow" and rule.level is not Level.PROJECT


def _exact_host(touch: Touch) -> str:
    """Return a touch's exact host, or "" if it is about more, or less."""
    host = touch.pattern.removeprefix(_SCHEME).removesuffix("/**")
    is_host = touch.pattern.startswith(_SCHEME) and "/" not in host and not is_glob(host)
    return host if is_host and WRITE in touch.verbs else ""


def _may_meet(touch: Touch, host: str) -> bool:
    accesses = [Access(verb, f"{_SCHEME}{host}") for verb in (READ, WRITE)]
    return any(touch.meets(access) or touch.may_meet(access) for access in accesses)
