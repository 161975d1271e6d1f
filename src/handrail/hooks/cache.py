"""A cache: what a tool that only reads said lately, until something it read may have changed."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection
from typing import Any, NamedTuple, TypeAlias

from handrail import READ, Access, Args, Call, Registry, Result, Tool, Toolset
from handrail.hooks._hook import Clock, Hook, find

_Key: TypeAlias = tuple[str, bytes]
"""A tool's name, and its arguments in canonical form."""


def cache(
    tools: Toolset | Registry,
    *,
    ttl: float = 60.0,
    most: int = 1000,
    except_for: Collection[str] = (),
    clock: Clock = time.monotonic,
) -> Hook:
    """Answer calls of tools that read from memory, for so many seconds; keeps so many answers.

    An answer is dropped when a call that conflicts with it is asked for, and again when one has
    ended. Failures are not kept. Tools whose answer changes by itself are named in
    ``except_for``. Give it the executor's own tools. Use both sides.
    """
    if most < 1:
        raise ValueError("a cache keeps at least one answer")
    memory = _Memory(tools, frozenset(except_for), ttl=ttl, most=most, clock=clock)
    return Hook(memory.before, memory.after)


class _Seen(NamedTuple):
    """A call that may be answered from memory, or may change what is there."""

    call: Call
    key: _Key
    accesses: tuple[Access, ...]
    at: float
    reads: bool


class _Memory:
    def __init__(
        self,
        tools: Toolset | Registry,
        free: frozenset[str],
        *,
        ttl: float,
        most: int,
        clock: Clock,
    ) -> None:
        self._tools = tools
        self._free = free
        self._ttl = ttl
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[_Key, tuple[_Seen, Result]] = OrderedDict()
        self._asked: OrderedDict[str, _Seen] = OrderedDict()
        """By id: calls whose answers will be kept, unless something changes meanwhile."""

    async def before(self, call: Call) -> Call | Result:
        seen = self._look(call)
        if seen is None:
            return call
        if not seen.reads:
            self._drop(seen.accesses)
            return call
        kept = self._kept.get(seen.key)
        if kept is not None and seen.at - kept[0].at < self._ttl:
            self._kept.move_to_end(seen.key)
            return kept[1]._replace(call_id=call.id)
        _put(self._asked, call.id, seen, self._most)
        return call

    async def after(self, call: Call, result: Result) -> Result:
        asked = self._asked.pop(call.id, None)
        if asked is None or asked.call != call:  # a hook after this one may have rewritten it
            seen = self._look(call)
            if seen is not None and not seen.reads:
                self._drop(seen.accesses)
        elif result.failure is None and not _names_itself(result):
            _put(self._kept, asked.key, (asked, result), self._most)
        return result

    def _look(self, call: Call) -> _Seen | None:
        """What a call is to the cache; nothing, if it will be refused or may not be answered."""
        tool = find(self._tools, call)
        if tool is None:
            return None
        args = tool.parse(call.args)
        if not isinstance(args, Args):
            return None
        reads = tool.spec.effect == READ
        if reads and (args.repairs or call.name != tool.spec.name or call.name in self._free):
            return None  # the first two have a note in their result that is for them alone
        accesses = _touched(tool, args)
        return _Seen(call, (call.name, args.canonical), accesses, self._clock(), reads)

    def _drop(self, written: tuple[Access, ...]) -> None:
        for key in [key for key, (seen, _) in self._kept.items() if _meets(seen, written)]:
            del self._kept[key]
        for call_id in [one for one, seen in self._asked.items() if _meets(seen, written)]:
            del self._asked[call_id]


def _touched(tool: Tool[..., Any], args: Args) -> tuple[Access, ...]:
    try:
        return tool.accesses(args)
    except Exception:  # noqa: BLE001  the executor refuses the call, and says why
        return ()


def _meets(seen: _Seen, written: tuple[Access, ...]) -> bool:
    return any(one.conflicts(other) for one in written for other in seen.accesses)


def _names_itself(result: Result) -> bool:
    """Whether a result was shortened: then it says how to read more of this very call's."""
    return f'call_id "{result.call_id}"' in result.text


def _put(into: OrderedDict[Any, Any], key: object, value: object, most: int) -> None:
    into[key] = value
    into.move_to_end(key)
    if len(into) > most:
        into.popitem(last=False)
