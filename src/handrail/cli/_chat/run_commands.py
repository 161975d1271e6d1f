"""Slash commands about a conversation's run: its changes, its jobs, its history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from handrail import HandrailError
from handrail.cli._base.columns import columns, quantity
from handrail.cli._base.exits import Halt
from handrail.cli._base.new_file import write_new_file
from handrail.cli._chat.changes import diff_rows, run_changes
from handrail.cli._chat.choices import find_prompts, format_age, other_runs
from handrail.cli._chat.conversation import Conversation, Rows, halt_rows
from handrail.cli._runs.saved import SavedRun, find_run
from handrail.cli._runs.transcript import write_transcript
from handrail.cli._runs.undone import note_for_model, undo_lines
from handrail.cli._screen.rows import Span
from handrail.cli._screen.rows import safe_line as safe
from handrail.messages import Message, Reply
from handrail.tools import UndoEntry, is_ignored, list_changes
from handrail.tools import undo as undo_change

_MAX_LISTED = 10
_MAX_PROMPT_CELLS = 50
_MAX_DIFF_ROWS = 200
"""Rows per file."""


def undo(chat: Conversation, _rest: str) -> Rows:
    """Undo the last change."""
    workspace = chat.session.kit.workspace
    try:
        if not list_changes(workspace):
            yield "nothing to undo"
            return
        report = undo_change(workspace)
    except (HandrailError, OSError) as error:
        yield safe(str(error))
        return
    chat.notes.append(note_for_model(report))
    yield from map(safe, undo_lines(report))


def diff(chat: Conversation, _rest: str) -> Rows:
    """Show changes by this conversation's calls, against the original."""
    workspace = chat.session.kit.workspace
    found, unknown = run_changes(workspace, _entries_of(chat, chat.session.state.messages))
    changes = [one for one in found if not one.is_binary and not is_ignored(workspace, one.path)]
    binary = [one.path for one in found if one.is_binary and not is_ignored(workspace, one.path)]
    left = len(found) - len(changes) - len(binary)
    if not found and not unknown:
        yield "nothing has changed"
    for change in changes:
        what = "Created" if change.before is None else "Changed"
        what = "Deleted" if change.after is None else what
        yield (Span(f"{what} "), Span(safe(change.path), "path"))
        yield from diff_rows(change, chat.screen.width, _MAX_DIFF_ROWS)
    yield from (f"Changed {safe(path)}: a binary file" for path in binary)
    yield from (f"Changed {safe(path)}: cannot be shown" for path in unknown)
    if left:
        yield f"{quantity(left, 'ignored file')} not shown"


def _entries_of(chat: Conversation, messages: Sequence[Message]) -> Sequence[UndoEntry]:
    """Return changes by calls. Models in other runs may have used the same call ids."""
    session = chat.session
    replies = [message for message in messages if isinstance(message, Reply)]
    ids = {call.id for reply in replies for call in reply.calls}
    began = datetime.fromisoformat(session.saved.about["began"]).timestamp()
    entries = list_changes(session.kit.workspace)
    return [entry for entry in entries if entry.call_id in ids and entry.when >= began]


def jobs(chat: Conversation, _rest: str) -> Rows:
    """List the commands that run in the background."""
    rows = list(chat.watcher.jobs.rows(chat.screen.width))
    if not rows:
        yield "no jobs: no command runs in the background"
    yield from rows


def save(chat: Conversation, rest: str) -> Rows:
    """Write the transcript to a new file."""
    session = chat.session
    saved, folder = session.saved, session.kit.app.workspace
    path = folder / Path(rest or f"{saved.id}.md").expanduser()
    text = write_transcript(saved.id, saved.about, session.state)
    try:
        write_new_file(path, text, "name another file: `/save FILE`")
    except Halt as halt:
        yield from halt_rows(halt)
        return
    inside = path.is_relative_to(folder)
    yield f"saved to {safe(str(path.relative_to(folder) if inside else path))}"


def resume(chat: Conversation, rest: str) -> Rows:
    """List the folder's runs, or resume one."""
    if not rest:
        yield from _list(chat)
        return
    try:
        found = _find_other(chat) if rest == "last" else find_run(rest)
        if found.id == chat.session.saved.id:
            yield "this is the run that you are in"
            return
        with found.hold():  # no other process works on it
            found.state()
        _check_folder(chat, found)
    except Halt as halt:
        yield from halt_rows(halt)
        return
    chat.over, chat.following = True, found.id


def _find_other(chat: Conversation) -> SavedRun:
    """Return the folder's last run other than this chat's."""
    others = other_runs(chat)
    if not others:
        raise Halt("there is no other run in this folder", code="no_run")
    return others[0]


def rewind(chat: Conversation, rest: str) -> Rows:
    """Go back to before a message: undo what calls changed since, and edit the message."""
    from handrail.cli._runs.timeline import fit_line  # seldom needed

    session = chat.session
    prompts = find_prompts(session.state.messages)
    if not rest:
        rows = [(str(number), fit_line(text, 60)) for number, (_, text) in enumerate(prompts, 1)]
        yield from map(safe, columns(rows)) if rows else ["there is no message to go back to"]
        return
    if not rest.isdecimal() or not 0 < int(rest) <= len(prompts):
        yield f"there is no message {safe(rest)}; type /rewind for a list"
        return
    at, text = prompts[int(rest) - 1]
    dropped = session.state.messages[at:]
    for entry in _entries_of(chat, dropped)[::-1]:
        try:
            yield from map(safe, undo_lines(undo_change(session.kit.workspace, entry.number)))
        except (HandrailError, OSError) as error:
            yield safe(str(error))
    session.rewind(at)
    chat.watcher.meter.forget_context()
    chat.next_text = text
    yield f"back before message {rest}: the model forgets it and what followed"


def _check_folder(chat: Conversation, found: SavedRun) -> None:
    folder = Path(found.about["workspace"])
    if folder != chat.session.kit.app.workspace:
        hint = f"leave this chat, and use `handrail chat --resume {found.id}`"
        raise Halt(f"run {found.id} is in another folder: {folder}", code="folder", hint=hint)


def _list(chat: Conversation) -> Rows:
    from handrail.cli._runs.timeline import fit_line, say_standing

    others = other_runs(chat)
    if not others:
        yield "no other runs in this folder"
        return
    rows = [
        (
            run.id,
            format_age(run.about["began"]),
            say_standing(run.standing),
            fit_line(run.about["prompt"], _MAX_PROMPT_CELLS),
        )
        for run in others[:_MAX_LISTED]
    ]
    yield from map(safe, columns(rows))
    yield "  resume one with /resume RUN; the start of its ID is enough"


def clear(chat: Conversation, _rest: str) -> Rows:
    """Start a new conversation."""
    chat.over, chat.following = True, ""
    yield from ()


def compact(chat: Conversation, _rest: str) -> Rows:
    """Let the model summarize the conversation."""

    async def compact() -> list[str]:
        count = await chat.session.compact()
        if not count:
            return ["nothing to compact"]
        noun = "message is" if count == 1 else "messages are"
        return [f"{count:,} earlier {noun} now sent as a summary; the saved run keeps them"]

    chat.step = compact
    yield "compacting: the model writes a summary"
