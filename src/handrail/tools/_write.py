"""write: give a file its whole content, unless it holds something that nobody has looked at."""

from __future__ import annotations

from difflib import unified_diff
from itertools import islice
from typing import Any

from handrail import Access, Context, Tool, ToolFailed, tool
from handrail.tools._change import Change, changing
from handrail.tools._read import WHOLE
from handrail.tools._shown import shown
from handrail.tools._text import Decoded, decoded, media
from handrail.tools._workspace import Workspace

_MOST_DIFFERENCES = 40
"""Lines of a difference that are shown."""
_MOST_COMPARED = 2_000
"""Lines that are compared; with more, those that are much alike take too long."""


def write(workspace: Workspace) -> Tool[..., Any]:
    """A tool that writes whole files in a workspace."""

    def touches(file_path: str, **_: object) -> tuple[Access, ...]:
        return workspace.change(file_path)

    @tool(touches=touches, idempotent=True, timeout=30.0)
    def write(file_path: str, content: str, *, context: Context) -> str:
        """Create a file, or replace all that is in one; missing folders are created.

        Use it for new files and for complete rewrites. To change a part of a file, use edit: it
        cannot lose the rest. A file that is there already has to be read first, and it is
        left alone if it changed since.

        Args:
            file_path: The path, relative to the workspace.
            content: The whole new content.
            context: Of the call.
        """
        with changing(workspace, file_path, context, create=True) as change:
            if change.before is None:
                change.write(content.encode(), context.call_id)
                return f"Created {change.real!r} with {_size(content)}."
            return _replaced(workspace, change, content, context.call_id)

    return write


def _replaced(workspace: Workspace, change: Change, content: str, call_id: str) -> str:
    before = change.before or b""
    old = decoded(before)
    new, kept = _as_before(old, content) if media(before) == "text" else (content.encode(), "")
    if new == before:
        workspace.seen.note(change.real, before)
        return f"{change.real!r} has exactly this content already. Nothing was changed."
    if not workspace.seen.current(change.real, before):
        raise ToolFailed(_unseen(workspace, change.real, old.text, content))
    change.write(new, call_id)
    return f"Replaced the content of {change.real!r} with {_size(content)}.{kept}"


def _as_before(old: Decoded, content: str) -> tuple[bytes, str]:
    """The new content in the file's own encoding and line ends, and what was kept of them."""
    kept = list[str]()
    if old.newline == "\r\n" and "\r" not in content:
        content = content.replace("\n", "\r\n")
        kept.append("its line ends (CRLF)")
    if old.encoding != "utf-8" or old.bom:
        kept.append(f"its encoding ({old.encoding}{', with a byte order mark' * bool(old.bom)})")
    said = f" It keeps {' and '.join(kept)}." if kept else ""
    return old.encode(content), said


def _unseen(workspace: Workspace, real: str, old: str, new: str) -> str:
    if len(old) > WHOLE:
        return f"{real!r} is too large to be read as a whole, and so to be replaced unseen."
    why = (
        f"{real!r} changed since it was read"
        if workspace.seen.knows(real)
        else f"{real!r} is there already, and was not read"
    )
    return f"{why}. Nothing was written. Read it, then write again.{_difference(old, new)}"


def _difference(old: str, new: str) -> str:
    now, yours = old.splitlines(), new.splitlines()
    if len(now) + len(yours) > _MOST_COMPARED:
        return ""
    lines = unified_diff(now, yours, "now", "yours", lineterm="", n=1)
    text = "\n".join(islice(lines, _MOST_DIFFERENCES))
    return f" This is what would have changed:\n{shown(text)}"


def _size(content: str) -> str:
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    return f"{lines:,} {'line' if lines == 1 else 'lines'}"
