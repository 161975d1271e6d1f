"""Lists one folder for a model: folders with a slash, ignored entries marked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from handrail import Context, Refused, ToolFailed
from handrail.tools._files.ignore_rules import IgnoreRules
from handrail.tools._files.paths import quote_path
from handrail.tools._files.workspace import OpenPath, Workspace

_MAX_ENTRIES = 20_000
"""Entries read from a folder."""
_MAX_SHOWN = 1_000
"""Entries shown."""
_MAX_RULES_BYTES = 256 * 1024


class _Entry(NamedTuple):
    name: str
    is_folder: bool
    is_link: bool


def list_folder(workspace: Workspace, path: str, context: Context) -> str:
    """Return a folder's entries as text. Raises as ``Workspace.folder`` does."""
    with workspace.folder(path, context) as found:
        entries = _scan(found)
    above = f"{found.real}/" if found.real else ""
    rules = IgnoreRules(found.real, lambda place: read_rules(workspace, place))
    skipped = workspace.list_placeholders(found.real)
    shown = [
        entry
        for entry in entries
        if entry.name not in skipped and not workspace.is_hidden(f"{above}{entry.name}")
    ]
    lines = [_format(entry, above, rules) for entry in shown[:_MAX_SHOWN]]
    return "\n".join([*lines, *(f"[{note}]" for note in _notes(shown, rules))])


def _scan(found: OpenPath) -> list[_Entry]:
    with os.scandir(found.fd) as entries:
        some = [
            _Entry(entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink())
            for entry in islice(entries, _MAX_ENTRIES)
        ]
    return sorted(some)


def _format(entry: _Entry, above: str, rules: IgnoreRules) -> str:
    marks = [
        *(["link"] if entry.is_link else []),
        *(["ignored"] if rules.ignore(f"{above}{entry.name}", is_folder=entry.is_folder) else []),
    ]
    name = quote_path(f"{entry.name}{'/' * entry.is_folder}")
    return f"{name} ({', '.join(marks)})" if marks else name


def _notes(shown: Sequence[_Entry], rules: IgnoreRules) -> list[str]:
    folders = sum(entry.is_folder for entry in shown)
    count = f"{_count(folders, 'folder')} and {_count(len(shown) - folders, 'file')}"
    more = f"; the first {_MAX_SHOWN:,} are shown. Use glob for the others" * (
        len(shown) > _MAX_SHOWN
    )
    whole = ["Ignore rules exclude this whole folder."] if rules.ignores_all else []
    return [f"{count}{more}." if shown else "The folder is empty.", *whole]


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def read_rules(workspace: Workspace, path: str) -> str:
    """Return a file's text with ignore rules; empty if there is none."""
    try:
        os.close(workspace.open(path))  # most are missing, and ``file`` would suggest others
        with workspace.file(path) as found:
            return os.read(found.fd, _MAX_RULES_BYTES).decode("utf-8", "replace")
    except (OSError, Refused, ToolFailed):
        return ""
