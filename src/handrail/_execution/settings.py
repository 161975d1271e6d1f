"""An executor's options: hooks, limits, approvals and long results."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from types import FunctionType
from typing import Any, Literal, Protocol, TypeAlias, cast

from handrail._collection.registry import Registry
from handrail._collection.toolset import Toolset
from handrail._definition.tool import is_tool
from handrail._permissions.checked_call import CheckedCall
from handrail._support import get_log
from handrail._values.approval import Approver, Ledger, MemoryLedger
from handrail._values.call import Call
from handrail._values.context import Context
from handrail._values.effect import Exposure
from handrail._values.errors import ToolFailed
from handrail._values.names import closest
from handrail._values.result import Result
from handrail._values.spec import Retry
from handrail._values.strict_json import clip
from handrail.events import Event

Before: TypeAlias = Callable[
    [CheckedCall], CheckedCall | Call | Result | Awaitable[CheckedCall | Call | Result]
]
"""Returns the call unchanged, another call (which is checked again), or a result."""
After: TypeAlias = Callable[[CheckedCall | Call, Result], Result | Awaitable[Result]]
"""Returns the result, unchanged or rewritten. A call that failed the check is a ``Call``."""
Next: TypeAlias = Callable[[], Awaitable[Result]]
"""Runs the call. Await it at most once."""
Around: TypeAlias = Callable[[CheckedCall, Next], Awaitable[Result]]
"""Wraps a call's run: a cache, a tracer, a journal."""
Observe: TypeAlias = Callable[[str, CheckedCall | Call, Event], None]
"""Gets each call event as it happens: the call's key, the call, the event."""


FindCredential: TypeAlias = Callable[[str, Context[Any], str], str | Awaitable[str]]
"""Returns the credential that a call's principal has for a service: its name, the call's Context,
and the credential that the service has refused, or an empty text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Your code before a call, after it, or around its run; or for each event.

    With several hooks, ``before`` runs in the listed order, ``after`` in reverse, and ``around`` is
    nested with the first one outermost.
    """

    before: Before | None = None
    after: After | None = None
    around: Around | None = None
    observe: Observe | None = None
    """Runs in the caller's context when a call is requested, then in that of the call. It must
    return quickly. If it raises, the error is logged, and nothing else happens."""
    frames: bool = True
    """Whether results of tools with ``framed=True`` get frames. One hook without turns all off."""


class ResultStore(Protocol):
    """Stores overlong results, so a model can read them in parts."""

    def put(self, call_id: str, text: str) -> int:
        """Store what fits from a text, and return how many characters were stored."""
        ...

    def get(self, call_id: str) -> str | None:
        """Return a call's text, if it is still stored."""
        ...

    def ids(self) -> tuple[str, ...]:
        """Return the ids of calls with stored texts, oldest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Timeouts, retries, and how many calls can run at once."""

    timeout: float = 120.0
    """Seconds for one attempt, unless the tool sets its own timeout."""
    hook_timeout: float = 30.0
    """Seconds for one hook, and for one policy decision."""
    retry: Retry | None = None
    """Retries for tools that set none, if they read or are idempotent."""
    max_running: int = 128
    max_running_per_tool: Mapping[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        _check_positive(self, "timeout", "hook_timeout")
        _check_count(self, "max_running")
        for name, most in self.max_running_per_tool.items():
            if type(most) is not int or most < 1:
                raise ValueError(
                    f"CallLimits(max_running_per_tool={{{name!r}: {most!r}}}): "
                    "must be an integer of at least 1."
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvals:
    """Who approves calls, for how long a request is valid, and what an approval is tied to."""

    approver: Approver | None = None
    """Answers approval requests. Without one, a call needing approval is denied."""
    timeout: float = 86_400.0
    """Seconds until an approval request expires."""
    ledger: Ledger = field(default_factory=MemoryLedger)
    """Records which approvals were used."""
    context: Callable[[CheckedCall], str] | None = None
    """Returns what else an approval is tied to. If it changes, the call needs approval again."""

    def __post_init__(self) -> None:
        _check_positive(self, "timeout")
        check_approver("Approvals(approver", self.approver, AN_APPROVER)


CallFoundBy: TypeAlias = Literal["name", "call_tool"]
"""How a model calls a deferred tool it has found: by its name, or with ``call_tool``."""
Reader: TypeAlias = Literal["always", "when_needed", "never"]
"""When to offer the reader for truncated results: always, once there is one, or never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongResults:
    """Limits for results, and where to store overlong ones."""

    max_result_chars: int = 20_000
    """Characters a model receives, unless the tool sets ``max_chars``."""
    max_media_bytes: int = 10 * 1024 * 1024
    """Image and file bytes in one result. Those without room are named, and left out."""
    max_stored_chars: int = 8 * 1024 * 1024
    """Characters of all stored results. The oldest results are dropped first."""
    reader: Reader = "when_needed"
    store: ResultStore | None = None
    """Stores long results. Default: in memory."""

    def __post_init__(self) -> None:
        _check_count(self, "max_result_chars")
        _check_count(self, "max_media_bytes")
        _check_count(self, "max_stored_chars")
        if self.reader not in ("always", "when_needed", "never"):
            raise ValueError(
                f"LongResults(reader={self.reader!r}): must be 'always', 'when_needed' or 'never'."
            )


A_POLICY = "a function that decides about a CheckedCall, or a Rulebook"
AN_APPROVER = "an async function that answers a Pending, such as terminal()"


def check_function(where: str, value: object, wanted: str) -> None:
    """Refuse an option that cannot be called, or a class in place of an instance."""
    if isinstance(value, type) and not hasattr(value, "__await__"):
        raise TypeError(
            f"{where}={value.__name__}): this is a class. "
            f"Pass an instance, such as {value.__name__}(...)."
        )
    if value is not None and not callable(value):
        raise TypeError(f"{where}={clip(repr(value))}): must be {wanted}.")


def check_policy(where: str, policy: object) -> None:
    """Refuse a policy that cannot be called, or that would have to be awaited."""
    check_function(where, policy, A_POLICY)
    called: object = getattr(policy, "__call__", None)  # noqa: B004  of an object of its own class
    if inspect.iscoroutinefunction(policy) or inspect.iscoroutinefunction(called):
        name = getattr(policy, "__name__", type(policy).__name__)
        raise TypeError(
            f"{where}={clip(name)}): this is async, but a policy decides at once. Use `def`, and "
            "do what must wait in a `before` hook."
        )


def check_approver(where: str, approver: object, wanted: str) -> None:
    """Refuse an approver not callable with a request."""
    check_function(where, approver, wanted)
    if not callable(approver):
        return
    with suppress(ValueError):  # some callables have no signature
        try:
            inspect.signature(approver).bind(None)
        except TypeError:
            name = getattr(approver, "__name__", repr(approver))
            raise TypeError(f"{where}={clip(name)}): must take one argument, a Pending.") from None


def _check_positive(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
            kind = type(owner).__name__
            raise ValueError(f"{kind}({name}={value!r}): must be a finite number greater than 0.")


def _check_count(owner: object, name: str) -> None:
    value = getattr(owner, name)
    if type(value) is not int or value < 1:
        kind = type(owner).__name__
        raise ValueError(f"{kind}({name}={value!r}): must be an integer of at least 1.")


def check_tools(tools: object) -> None:
    """Refuse anything but a tool collection, and two search tools."""
    if isinstance(tools, Toolset | Registry):
        _check_search(tools.snapshot() if isinstance(tools, Registry) else tools)
        return
    name = tools.__name__ if isinstance(tools, type) else type(tools).__name__
    if is_tool(tools) or isinstance(tools, FunctionType):
        inside = tools.__name__
    else:
        inside = "*tools" if isinstance(tools, list | tuple | set | frozenset) else "..."
    raise TypeError(f"Executor({name}): pass a Toolset, as in `Executor(Toolset({inside}))`.")


def _check_search(tools: Toolset) -> None:
    """Refuse a second search tool: models get only one."""
    if tools.has_search_tool:
        found = [spec.name for spec in tools.specs if spec.exposure is Exposure.SEARCH]
        if len(found) > 1:
            raise ValueError(
                f"Executor(tools): {found[0]!r} and {found[1]!r} both have "
                "exposure=Exposure.SEARCH. A model gets only one tool that searches."
            )


def report_misnamed(policy: object, tools: Toolset | Registry) -> None:
    """Log rules with almost a tool's name. They never decide its calls."""
    named: object = getattr(policy, "named_tools", None)
    if not isinstance(named, Mapping):
        return
    offered = tools.snapshot() if isinstance(tools, Registry) else tools
    for name, rule in cast("Mapping[str, object]", named).items():
        if meant := offered.meant_by(name):
            _warn_once(f"{rule}: no tool is named {name!r}. Closest: {meant}.")


@lru_cache(maxsize=256)
def _warn_once(message: str) -> None:
    get_log().warning("%s", message)


def check_names(limited: Mapping[str, int], tools: Toolset | Registry) -> None:
    """Refuse a limit for an unknown tool. A registry may still get it."""
    offered = tools.snapshot() if isinstance(tools, Registry) else tools
    for name in limited:
        if name not in offered:
            near = ", ".join(closest(name, [tool.spec.name for tool in offered]))
            hint = f" Closest: {near}." if near else ""
            message = f"max_running_per_tool has {name!r}, but no tool has this name.{hint}"
            if offered is tools:
                raise ValueError(message)
            if near:
                get_log().warning("%s", message)


async def find_credential(
    find: FindCredential | None, name: str, context: Context[Any], refused: str
) -> str:
    """Return a usable credential. Raises ToolFailed if there is none."""
    if find is None:
        raise ToolFailed(f"Not run: there is no credential for {name!r} here. {_TELL}")
    found: Any = find(name, context, refused)
    secret: Any = await found if inspect.isawaitable(found) else found
    if not isinstance(secret, str) or not secret or not (secret.isascii() and secret.isprintable()):
        raise ToolFailed(f"Not run: the credential for {name!r} cannot be used. {_TELL}")
    return secret


_TELL = "Tell the user, and continue without this tool."
