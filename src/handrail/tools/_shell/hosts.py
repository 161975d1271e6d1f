"""The hosts of one command: which it declares to reach, and which were opened for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from handrail import (
    DESTROY,
    READ,
    WRITE,
    Access,
    Args,
    Context,
    Failure,
    FailureKind,
    Refused,
    Tool,
    ToolFailed,
)
from handrail.sandbox import Sandbox
from handrail.tools._shell.known_hosts import guess_hosts

MAX_HOSTS = 20
"""Hosts that one command can ask for."""
_TOO_MANY = f"Not run: pass at most {MAX_HOSTS} hosts, got {{}}."
_EXAMPLE = 'Pass names such as "pypi.org".'
_SCHEME = "net:"
_EVERYTHING = Access(DESTROY, "*")


@dataclass(frozen=True, slots=True)
class CommandHosts:
    """Declares the hosts of commands, so that the policy decides about them."""

    sandbox: Sandbox

    def touches(self, *, command: str, hosts: Sequence[str], **_: object) -> list[Access]:
        """Return what a call touches: everything here, and hosts.

        A host that the model asked for is written to: the policy has to allow it. One that is only
        guessed from the command is read from: it is opened only if a person approves the call.
        """
        asked = self.sandbox.find_closed(hosts)
        guessed = (host for host in self._guess(command) if host not in asked)
        accesses = [Access(WRITE, _resource_of(host)) for host in asked]
        accesses += [Access(READ, _resource_of(host)) for host in guessed]
        return [_EVERYTHING, *accesses]

    def _guess(self, command: str) -> Iterator[str]:
        for host in guess_hosts(command, self.sandbox.root):
            with suppress(Refused, ToolFailed):  # it cannot be opened
                yield from self.sandbox.find_closed([host])

    def declare(self, bash: Tool[..., Any]) -> Tool[..., Any]:
        """Return a tool that declares hosts, and refuses those that cannot be opened."""
        return replace(bash, parse=self._checked(bash.parse), touches=self.touches)

    def _checked(
        self, parse: Callable[[Mapping[str, Any] | str], Args | Failure]
    ) -> Callable[[Mapping[str, Any] | str], Args | Failure]:
        def parse_and_check(given: Mapping[str, Any] | str) -> Args | Failure:
            args = parse(given)
            if not isinstance(args, Args):
                return args
            hosts = args.values.get("hosts", ())
            if len(hosts) > MAX_HOSTS:
                return Failure(FailureKind.BAD_ARGS, _TOO_MANY.format(len(hosts)))
            try:
                self.sandbox.find_closed(hosts)
            except Refused as error:
                return Failure(FailureKind.DENIED, str(error))
            except ToolFailed as error:
                return Failure(FailureKind.BAD_ARGS, f"Not run: {error} {_EXAMPLE}")
            return args

        return parse_and_check


def list_granted(context: Context) -> list[str]:
    """Return the hosts that are opened for a call: those that it was allowed to reach."""
    return [
        access.resource.removeprefix(_SCHEME)
        for access in context.accesses
        if access.resource.startswith(_SCHEME) and (access.verb >= WRITE or context.is_approved)
    ]


def list_declared(context: Context) -> list[str]:
    """Return the hosts that a call declared, opened or not."""
    named = (access.resource for access in context.accesses)
    return [name.removeprefix(_SCHEME) for name in named if name.startswith(_SCHEME)]


def _resource_of(host: str) -> str:
    return f"{_SCHEME}[{host}]" if ":" in host else f"{_SCHEME}{host}"
