"""The write tool: replaces a file's whole content, unless it was never read."""

from __future__ import annotations

from difflib import unified_diff
from itertools import islice
from typing import Any

from handrail import Access, Context, Refused, Tool, ToolFailed, tool
from handrail._support.visible import spell_out
from handrail.permissions import FileChange
from handrail.tools._descriptions import WRITE_DESCRIPTION
from handrail.tools._files.encoding import DecodedText, decode_text, media
from handrail.tools._files.read import MAX_FILE_BYTES
from handrail.tools._files.replace import LockedFile, open_for_change, peek
from handrail.tools._files.workspace import Workspace
from handrail.tools._habits import WRITE_INSTEAD_OF, WRITE_SYNONYMS

_MAX_DIFFERENCES = 40
"""Diff lines shown."""
_MAX_COMPARED_LINES = 2_000
"""Lines compared; comparing more similar lines takes too long."""


def write(workspace: Workspace) -> Tool[..., Any]:
    """Make a tool that writes whole files in a workspace."""

    def touches(file_path: str, **_: object) -> tuple[Access, ...]:
        return workspace.change(file_path)

    def preview(file_path: str, content: str, idempotency_key: str) -> FileChange | str:
        return _preview(workspace, file_path, content, idempotency_key)

    def headline(file_path: str, content: str) -> str:
        return f"Write {file_path}, {_size(content)}"

    @tool(
        description=WRITE_DESCRIPTION,
        touches=touches,
        preview=preview,
        headline=headline,
        idempotent=True,
        timeout=30.0,
        synonyms=WRITE_SYNONYMS,
        instead_of=WRITE_INSTEAD_OF,
    )
    def write(file_path: str, content: str, *, context: Context) -> str:
        """Create or overwrite a file.

        Args:
            file_path: Path of the file, relative to the workspace.
            content: The whole new content.
            context: The call's context.
        """
        with open_for_change(workspace, file_path, context, create=True) as change:
            workspace.shown.check(context, change.real, change.before)
            if change.before is None:
                change.write(content.encode(), context.call_id)
                return f"Created {change.real!r} with {_size(content)}."
            return _replace_content(workspace, change, content, context.call_id)

    return write


def _preview(workspace: Workspace, file_path: str, content: str, key: str) -> FileChange | str:
    """Return the exact change a call would make."""
    workspace.shown.note(key, {})  # if there can be no such file
    try:
        real, before = peek(workspace, file_path, create=True)
        workspace.shown.note(key, {real: before})
        if before is None:
            return FileChange(real, None, content)
        new, _ = _plan(workspace, real, before, content)
    except (ToolFailed, Refused) as error:
        return f"The call would fail. {error}"
    if media(before) != "text":
        return f"{real!r} is a binary file. All of its {len(before):,} bytes would be replaced."
    old = decode_text(before)
    return FileChange(real, old.text, old.decode(new))


def _plan(workspace: Workspace, real: str, before: bytes, content: str) -> tuple[bytes, str]:
    """Return an existing file's new bytes, and a note on kept properties."""
    old = decode_text(before)
    new, kept = _keep_format(old, content) if media(before) == "text" else (content.encode(), "")
    if new != before and not workspace.seen.current(real, before):
        raise ToolFailed(_describe_unread(workspace, real, old.text, content))
    return new, kept


def _replace_content(workspace: Workspace, change: LockedFile, content: str, call_id: str) -> str:
    before = change.before or b""
    new, kept = _plan(workspace, change.real, before, content)
    if new == before:
        workspace.seen.note(change.real, before)
        return f"{change.real!r} already has this content. Nothing was changed."
    change.write(new, call_id)
    return f"Overwrote {change.real!r} with {_size(content)}.{kept}"


def _keep_format(old: DecodedText, content: str) -> tuple[bytes, str]:
    """Return the new content in the file's encoding and line endings, and a note on those."""
    kept = list[str]()
    if old.newline == "\r\n" and "\r" not in content:
        content = content.replace("\n", "\r\n")
        kept.append("its line endings (CRLF)")
    if old.encoding != "utf-8" or old.bom:
        kept.append(f"its encoding ({old.encoding}{', with a byte order mark' * bool(old.bom)})")
    note = f" It keeps {' and '.join(kept)}." if kept else ""
    return old.encode(content), note


def _describe_unread(workspace: Workspace, real: str, old: str, new: str) -> str:
    if len(old) > MAX_FILE_BYTES:
        return f"Not written: {real!r} is too large to read in full, so it cannot be overwritten."
    why = (
        "changed since it was read"
        if workspace.seen.knows(real)
        else "already exists and was not read"
    )
    return f"Not written: {real!r} {why}. Read it, then write again.{_difference(old, new)}"


def _difference(old: str, new: str) -> str:
    now, yours = old.splitlines(), new.splitlines()
    if len(now) + len(yours) > _MAX_COMPARED_LINES:
        return ""
    lines = unified_diff(now, yours, "now", "yours", lineterm="", n=1)
    text = "\n".join(islice(lines, _MAX_DIFFERENCES))
    return f" It would have changed:\n{spell_out(text)}"


def _size(content: str) -> str:
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    return f"{lines:,} {'line' if lines == 1 else 'lines'}"
