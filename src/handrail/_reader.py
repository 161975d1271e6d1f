"""The tool that reads what was left out of a long result. Offered only once there is something."""

from __future__ import annotations

from handrail._access import Access
from handrail._define import tool
from handrail._effect import READ
from handrail._errors import ToolFailed
from handrail._output import READ_RESULT
from handrail._store import Store
from handrail._tool import AnyTool
from handrail._toolset import Toolset

_MOST = 15_000
"""Characters that are given at once."""
_HEADING = 80
"""Characters that the reader itself adds, at most."""


def _touches_nothing(**_: object) -> tuple[Access, ...]:
    return ()


def reader(store: Store, beside: Toolset, max_chars: int) -> AnyTool:
    """A tool over a store: with a name that the others leave free, its results shown whole."""
    most = max(1, min(_MOST, max_chars - _HEADING))
    name = READ_RESULT
    while beside.find(name) is not None:
        name += "_"

    def read_result(call_id: str, start: int = 0, end: int = most) -> str:
        """Read a part of an earlier result that was too long to be shown whole.

        Args:
            call_id: The id that the long result named.
            start: The first character to read, counted from 0.
            end: The character to stop before. Not more are given than fit in a result.
        """
        text = store.get(call_id)
        if text is None:
            kept = ", ".join(store.ids()[-5:])
            raise ToolFailed(f"No result of {call_id!r} is kept. Kept are: {kept or 'none'}.")
        first = max(0, min(start, len(text)))
        last = max(first, min(end, first + most, len(text)))
        return f"[characters {first} to {last} of {len(text)}]\n{text[first:last]}"

    return tool(name=name, effect=READ, touches=_touches_nothing)(read_result)
