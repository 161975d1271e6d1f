"""Cache: recent results from read-only tools, until their data may have changed."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Collection
from typing import Any, NamedTuple, TypeAlias

from handrail import READ, Access, Call, CheckedCall, Hook, Result
from handrail.hooks._shared import Clock, Next, canonical

_Key: TypeAlias = tuple[Any, ...]
"""The tool, its arguments in canonical form, and the principal."""
_MAX_CHARS = 20_000
"""Longer results are not cached: a thousand of them must fit into memory."""


def cache(
    *,
    ttl: float = 60.0,
    most: int = 1000,
    except_for: Collection[str] = (),
    clock: Clock = time.monotonic,
) -> Hook:
    """Cache read-only tools' results for ``ttl`` seconds, at most ``most`` results.

    The hook wraps the run of a call: rules and approvals come first, and conflicting calls still
    wait for each other. A result is dropped when a conflicting call begins, and again when it has
    ended. It is used only for the same principal and, if the tool takes a Context, for the same
    deps and metadata. Failures, results over 20,000 characters, and results from calls asking for
    more access while running are not cached. List tools in ``except_for`` whose results change by
    themselves, or depend on something else, such as a context variable.
    """
    if most < 1:
        raise ValueError(f"cache(most={most}): must be at least 1.")
    results = _CachedResults(frozenset(except_for), ttl=ttl, most=most, clock=clock)
    return Hook(around=results.around, after=results.after)


class _Entry(NamedTuple):
    result: Result
    accesses: tuple[Access, ...]
    asked_at: float
    owners: tuple[object, ...]
    """The objects identified by id in the key.

    Held to keep other objects from getting their ids.
    """


class _CachedResults:
    def __init__(self, free: frozenset[str], *, ttl: float, most: int, clock: Clock) -> None:
        self._free = free
        self._ttl = ttl
        self._most = most
        self._clock = clock
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._running: dict[object, tuple[Access, ...]] = {}
        """Running calls whose results will be cached, unless a conflicting call begins."""

    async def around(self, call: CheckedCall, run: Next) -> Result:
        if call.spec.effect != READ:
            self._drop(call.accesses)
            try:
                return await run()
            finally:
                self._drop(call.accesses)
        if call.name in self._free:
            return await run()
        return self._recall(call) or await self._run(call, run)

    def after(self, call: CheckedCall | Call, result: Result) -> Result:
        """Drop everything changed or read by a call asking for more access."""
        if isinstance(call, CheckedCall):
            if call.spec.effect != READ:
                self._drop(call.accesses)
            elif call.name not in self._free:
                key, _ = _key(call)
                entry = self._entries.get(key)
                if entry is not None and entry.accesses != call.accesses:
                    del self._entries[key]
        return result

    def _recall(self, call: CheckedCall) -> Result | None:
        key, _ = _key(call)
        entry = self._entries.get(key)
        if entry is None or self._clock() - entry.asked_at >= self._ttl:
            return None
        self._entries.move_to_end(key)
        return entry.result._replace(call_id=call.id, seconds=None)

    async def _run(self, call: CheckedCall, run: Next) -> Result:
        this, asked_at = object(), self._clock()
        self._running[this] = call.accesses
        try:
            result = await run()
        finally:
            is_current = self._running.pop(this, None) is not None
        if is_current and result.failure is None and len(result.text) <= _MAX_CHARS:
            key, owners = _key(call)
            self._entries[key] = _Entry(result, call.accesses, asked_at, owners)
            self._entries.move_to_end(key)
            if len(self._entries) > self._most:
                self._entries.popitem(last=False)
        return result

    def _drop(self, written: tuple[Access, ...]) -> None:
        for key in [key for key, entry in self._entries.items() if _meet(entry.accesses, written)]:
            del self._entries[key]
        for this in [this for this, read in self._running.items() if _meet(read, written)]:
            del self._running[this]


def _key(call: CheckedCall) -> tuple[_Key, tuple[object, ...]]:
    """Return the key shared by calls with the same result, and the objects it identifies."""
    tool, turn = call.tool, call.turn
    key = (id(tool), canonical(call), turn.principal)
    if tool is None or not tool.takes_context:
        return key, (tool,)
    metadata = json.dumps(dict(turn.metadata), sort_keys=True, default=repr)
    return (*key, id(turn.deps), metadata), (tool, turn.deps)


def _meet(read: tuple[Access, ...], written: tuple[Access, ...]) -> bool:
    return any(write.conflicts(other) for write in written for other in read)
