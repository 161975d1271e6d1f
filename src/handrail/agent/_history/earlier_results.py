"""A tool that reads results which are no longer sent."""

from __future__ import annotations

from collections.abc import Sequence

from handrail import READ, Args, Call, Result, Tool, Toolset, tool
from handrail.messages import Message, ToolResults

_NAME = "read_earlier"
_MAX_CHARS = 15_000
_MAX_MATCHES = 20
_AROUND_CHARS = 200


class EarlierResults:
    """The tool, and the transcript that it reads. The loop answers its calls."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._tool: Tool[..., str] = tool(name=_NAME, effect=READ, description=_DESCRIPTION)(
            _read_earlier
        )

    def add_to(self, tools: Toolset) -> Toolset:
        """Return the tools with this one."""
        return Toolset(*tools, self._tool)

    def answer(self, call: Call) -> Result | None:
        """Return the result of a call, or None if it is a call of another tool."""
        if call.name != _NAME:
            return None
        args = self._tool.parse(call.args)
        if not isinstance(args, Args):
            return Result.fail(call.id, args.kind, args.message)
        values = args.values
        if values.get("search"):
            return Result(call.id, self._search(values["search"]))
        return Result(call.id, self._read(values.get("result", ""), values.get("start", 0)))

    def _results(self) -> dict[str, Result]:
        return {
            f"{at}.{n}": result
            for at, message in enumerate(self._messages)
            if isinstance(message, ToolResults)
            for n, result in enumerate(message.results)
        }

    def _read(self, name: str, start: int) -> str:
        result = self._results().get(name)
        if result is None:
            return f"[There is no result {name!r}. Pass search to find one.]"
        part = result.text[start : start + _MAX_CHARS]
        end = start + len(part)
        if end >= len(result.text):
            return part
        return (
            f"{part}\n[Characters {start:,} to {end:,} of {len(result.text):,}. Next: start={end}.]"
        )

    def _search(self, text: str) -> str:
        rows: list[str] = []
        for name, result in self._results().items():
            at = result.text.lower().find(text.lower())
            if at >= 0:
                around = result.text[max(at - _AROUND_CHARS, 0) : at + len(text) + _AROUND_CHARS]
                rows.append(f'result="{name}", at {at:,}: {around}')
        shown = "\n".join(rows[:_MAX_MATCHES])
        more = f"\n[{len(rows) - _MAX_MATCHES} more.]" if len(rows) > _MAX_MATCHES else ""
        return f"{shown}{more}" if rows else f"[No earlier result has {text!r}.]"


def _read_earlier(result: str = "", start: int = 0, search: str = "") -> str:
    """Read or search results of earlier calls.

    Args:
        result: The name of a result that was left out, such as "12.0".
        start: The first character to read.
        search: A text to find in all earlier results, instead of reading one.
    """
    raise NotImplementedError


_DESCRIPTION = "Read or search results of earlier calls that are no longer shown."
