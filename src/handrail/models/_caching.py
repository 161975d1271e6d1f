"""Anthropic prompt caching: where to mark the ends of cached prefixes in a request.

The API caches the request up to each marked block, in the order tools, system, messages, and reads
its longest known prefix. It searches back only twenty blocks from a mark. So the previous request's
end is marked too: whatever a turn adds, the next request finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from handrail.models._body import Options
from handrail.models._sdk_client import Body

_Block: TypeAlias = Mapping[str, Any]
_MARK = {"cache_control": {"type": "ephemeral"}}
_MAX_MARKS = 4
"""The API rejects requests with more."""
_UNMARKABLE = frozenset(("thinking", "redacted_thinking"))


def mark_prefixes(body: Body, options: Options) -> Body:
    """Return a body with at most four marks: tools, system, and the last two requests' ends.

    A caller's own marks, in tools or in options replacing body fields, come first.
    """
    marked = dict(body)
    if "tools" in body:
        marked["tools"] = _mark_tools(body["tools"])
    sent = {**marked, **options}
    left = _MAX_MARKS - sum(_count_marks(sent.get(field, ())) for field in ("tools", "system"))
    if "system" in body and "system" not in options and left > 0:
        marked["system"] = [{"type": "text", "text": body["system"], **_MARK}]
        left -= 1
    messages = list(body["messages"])
    for at in _ends(messages)[: max(left, 0)]:
        messages[at] = {**messages[at], "content": _mark_last(messages[at]["content"])}
    return {**marked, "messages": messages}


def _count_marks(blocks: Sequence[_Block] | str) -> int:
    return 0 if isinstance(blocks, str) else sum("cache_control" in block for block in blocks)


def _mark_tools(tools: Sequence[_Block]) -> list[_Block]:
    """Mark the last tool in the prefix. A caller's own mark is enough."""
    if any("cache_control" in tool for tool in tools):
        return list(tools)
    places = [at for at, tool in enumerate(tools) if not tool.get("defer_loading")]
    return _mark(tools, places)


def _mark_last(content: Sequence[_Block]) -> list[_Block]:
    places = [at for at, block in enumerate(content) if block.get("type") not in _UNMARKABLE]
    return _mark(content, places)


def _mark(blocks: Sequence[_Block], places: Sequence[int]) -> list[_Block]:
    """Mark the last position, if any."""
    return [{**block, **_MARK} if at in places[-1:] else block for at, block in enumerate(blocks)]


def _ends(messages: Sequence[_Block]) -> list[int]:
    """Return the positions of the last message and of the previous request's last one."""
    places = [at for at, message in enumerate(messages) if message["role"] == "user"]
    last = len(messages) - 1
    replies = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    earlier = [at for at in places if replies and at < replies[-1]]
    return [*([last] if last >= 0 else []), *earlier[-1:]]
