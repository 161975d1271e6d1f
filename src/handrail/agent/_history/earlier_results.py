"""A tool for reading messages and results left out of requests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from handrail import READ, Args, Call, Result, Text, Tool, Toolset, tool
from handrail.agent._history.compaction import describe_media
from handrail.messages import Message, Prompt, Reply, ToolResults

_NAME = "read_earlier"
_MAX_CHARS = 15_000
_MAX_MATCHES = 20
_AROUND_CHARS = 200


class EarlierResults:
    """The tool, and the transcript it reads. The loop answers its calls."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._tool: Tool[..., None] = tool(name=_NAME, effect=READ, description=_DESCRIPTION)(
            _read_earlier
        )

    def add_to(self, tools: Toolset) -> Toolset:
        """Return the tools with this one."""
        return Toolset(*tools, self._tool)

    def answer(self, call: Call) -> Result | None:
        """Return a call's result, or None if it calls another tool."""
        if call.name != _NAME:
            return None
        args = self._tool.parse(call.args)
        if not isinstance(args, Args):
            return Result.fail(call.id, args.kind, args.message)
        values = args.values
        if values.get("search"):
            return Result(call.id, self._search(values["search"]))
        return Result(call.id, self._read(values.get("result", ""), values.get("start", 0)))

    def _texts(self) -> dict[str, str]:
        """Return all message and result texts, by their names."""
        texts: dict[str, str] = {}
        for at, message in enumerate(self._messages):
            if isinstance(message, ToolResults):
                texts |= {f"{at}.{n}": result.text for n, result in enumerate(message.results)}
            else:
                texts[str(at)] = _text_of(message)
        return texts

    def _read(self, name: str, start: int) -> str:
        text = self._texts().get(name)
        if text is None:
            return f"[There is no result {name!r}. Pass search to find one.]"
        start = max(start, 0)
        part = text[start : start + _MAX_CHARS]
        end = start + len(part)
        if end < len(text):
            return f"{part}\n[Characters {start:,} to {end:,} of {len(text):,}. Next: start={end}.]"
        media = describe_media(self._parts(name))
        return "\n".join([*([part] if part else []), f"[{media}]"]) if media else part

    def _parts(self, name: str) -> Sequence[object]:
        """Return an existing message's or result's parts."""
        at, _, number = name.partition(".")
        message = self._messages[int(at)]
        if isinstance(message, ToolResults):
            return message.results[int(number)].parts
        return message.parts

    def _search(self, text: str) -> str:
        rows: list[str] = []
        own = self._own_results()
        for name, whole in self._texts().items():
            at = whole.lower().find(text.lower())
            if at >= 0 and name not in own:
                around = whole[max(at - _AROUND_CHARS, 0) : at + len(text) + _AROUND_CHARS]
                rows.append(f'result="{name}", at {at:,}: {around}')
        shown = "\n".join(rows[:_MAX_MATCHES])
        more = f"\n[{len(rows) - _MAX_MATCHES} more.]" if len(rows) > _MAX_MATCHES else ""
        return f"{shown}{more}" if rows else f"[No earlier message or result has {text!r}.]"

    def _own_results(self) -> set[str]:
        """Return this tool's result names. They repeat others."""
        return {
            f"{at}.{n}"
            for at, (reply, results) in enumerate(pairwise(self._messages), 1)
            if isinstance(reply, Reply) and isinstance(results, ToolResults)
            for n, result in enumerate(results.results)
            if any(call.name == _NAME and call.id == result.call_id for call in reply.calls)
        }


def _text_of(message: Prompt | Reply) -> str:
    """Return a message's text, with its call arguments."""
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    calls = message.calls if isinstance(message, Reply) else ()
    return "\n".join(
        [*texts, *(f"{call.name}({call.args})" for call in calls if call.name != _NAME)]
    )


def _read_earlier(result: str = "", start: int = 0, search: str = "") -> None:
    """Read or search earlier messages and results.

    Args:
        result: A result's name or a message left out, such as "12.0" or "12".
        start: The first character to read.
        search: A text to find in all earlier messages and results, instead of reading one.
    """


_DESCRIPTION = "Read or search earlier messages and results that are no longer shown."
