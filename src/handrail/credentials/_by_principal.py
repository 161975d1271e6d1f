"""Credentials by service and principal. No one gets the credential of another principal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, TypeAlias

from handrail import Context, ToolFailed

CredentialSource: TypeAlias = Mapping[str, str] | Callable[[Context[Any]], str | Awaitable[str]]
"""Where a service's credentials come from: a table by principal, or a function of a call's Context.
A function can raise NeedsLogin."""

Renew: TypeAlias = Callable[[Context[Any], str], Awaitable[str]]
"""A source's method ``renew``: returns another credential than the refused one."""
_REST = "Tell the user, and continue without this tool."


class Credentials:
    """Credentials by service and principal, for ``Executor(credentials=...)``.

    Tools get one with ``context.credential(NAME)``: always that of their call's principal.

    Args:
        sources: Where the credentials of each service come from, by the service's name.
    """

    def __init__(self, sources: Mapping[str, CredentialSource]) -> None:
        self._sources = dict(sources)

    def __repr__(self) -> str:
        return f"Credentials({sorted(self._sources)})"

    def replace(self, sources: Mapping[str, CredentialSource]) -> None:
        """Use other sources from now on. Calls under way keep what they have."""
        self._sources = dict(sources)

    def __call__(self, name: str, context: Context[Any], refused: str) -> str | Awaitable[str]:
        """Return the credential of a call's principal."""
        source = self._sources.get(name)
        if source is None:
            raise ToolFailed(f"Not run: no credentials are set up for {name!r}. {_REST}")
        if context.principal is None:
            raise ToolFailed(
                f"Not run: {name!r} needs each user's own credential, and it is not known who "
                f"this call is for. {_REST}"
            )
        if not callable(source):
            return _find(name, source, context.principal, refused)
        if not refused:
            return source(context)
        renew: Renew | None = getattr(source, "renew", None)
        if renew is not None:
            return renew(context, refused)
        return _call_again(name, source, context, refused)


def _find(name: str, table: Mapping[str, str], principal: str, refused: str) -> str:
    found = table.get(principal, "")
    if not found:
        raise ToolFailed(f"Not run: this user has no credential for {name!r}. {_REST}")
    return _check_new(name, found, refused)


async def _call_again(
    name: str,
    source: Callable[[Context[Any]], str | Awaitable[str]],
    context: Context[Any],
    refused: str,
) -> str:
    found: object = source(context)
    return _check_new(name, str(await found if isawaitable(found) else found), refused)


def _check_new(name: str, found: str, refused: str) -> str:
    """Return a credential, unless it was refused."""
    if found == refused:
        raise ToolFailed(f"Not run: {name!r} refused this user's credential. {_REST}")
    return found
