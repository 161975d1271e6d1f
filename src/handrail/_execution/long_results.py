"""Truncate long results, leave out media without room, and add notes on their calls."""

from __future__ import annotations

import logging
from dataclasses import replace

import anyio
from anyio import to_thread

from handrail._definition.repairs import OMITTED
from handrail._execution.output import truncate
from handrail._execution.running import RunningCall
from handrail._execution.settings import LongResults
from handrail._execution.view import View
from handrail._permissions.checked_call import CheckedCall
from handrail._turn.event_feed import Listeners
from handrail._values.content import Content, File, Image, Text
from handrail._values.result import FailureKind, Result
from handrail._values.strict_json import clip
from handrail.events import Stored

log = logging.getLogger("handrail")
MAX_WHOLE_CHARS = 1_000_000
"""The longest result for code, in characters."""
_TOO_LONG = "The call ran, but its result has {:,} characters. Code can read {:,}: ask for less."


async def fit_in_thread(
    running: RunningCall, result: Result, limits: LongResults, listeners: Listeners
) -> Result:
    """Return a result as ``fit_result`` does. A store of your own may block: it has a thread."""
    stored, most = None, running.checked.spec.max_chars or limits.max_result_chars
    record = running.record
    if len(result.text) > most and not record.turn.options.whole:
        with anyio.CancelScope(shield=True):  # the call has run
            stored = await to_thread.run_sync(_store, running, result)
    return fit_result(running, result, limits, listeners, stored=stored)


def fit_result(
    running: RunningCall,
    result: Result,
    limits: LongResults,
    listeners: Listeners,
    *,
    stored: int | None = None,
) -> Result:
    """Return a result truncated if it is too long, with notes on its call."""
    if running.record.turn.options.whole:
        return _check_whole(result)
    checked = running.checked
    spec = checked.spec
    most = spec.max_chars or limits.max_result_chars
    if len(result.text) > most:
        stored = _store(running, result) if stored is None else stored
        listeners.emit(running.record, Stored, result.call_id, stored)
        result = _cut(result, most, running.record.view, stored)
    if result.parts:
        result = _fit_media(result, limits.max_media_bytes)
    if running.notes or checked.parsed.repairs or checked.call.name != spec.name:
        ran = running.record.begun or result.failure is None
        return _with_notes(result, checked, running.notes if ran else ())
    return result


def _check_whole(result: Result) -> Result:
    """Return a result for code, or a failure if it is too long. It is never truncated."""
    size = len(result.text if result.data is None else result.data)
    if size <= MAX_WHOLE_CHARS:
        return result
    message = _TOO_LONG.format(size, MAX_WHOLE_CHARS)
    return Result.fail(result.call_id, FailureKind.FAILED, message)


def _store(running: RunningCall, result: Result) -> int:
    """Store an overlong result if it can be read, and return how many characters were stored."""
    if not running.record.view.reader_name:
        return 0
    try:
        return running.record.view.keep(result, running.record.turn.principal)
    except Exception:
        log.exception("the result of call %r could not be stored", result.call_id)
        return 0


def _cut(result: Result, most: int, view: View, stored: int) -> Result:
    """Return a long result's head and tail, with a note on how to read the rest."""

    def how_to_read(start: int, end: int) -> str:
        if stored <= start:
            return "They were not stored."
        limit = f" Only the first {stored:,} were stored." if stored < end else ""
        return (
            f'To read on: {view.reader_name}(call_id="{result.call_id}", start={start}), up to '
            f'{view.max_read_chars:,} characters per call. To search: search="text".{limit}'
        )

    text = truncate(result.text, most, how_to_read)
    failure = replace(result.failure, message=text) if result.failure else None
    shown = [part for part in result.parts if not isinstance(part, Text)]
    parts = (Text(text), *shown) if result.parts else ()
    return result._replace(text=text, parts=parts, data=None, failure=failure)


def _fit_media(result: Result, max_bytes: int) -> Result:
    """Return a result with as many images and files as fit, and a note on the rest."""
    kept: list[Content] = []
    omitted: list[Image | File] = []
    left = max_bytes
    for part in result.parts:
        if isinstance(part, Text):
            kept.append(part)
        elif len(part.data) <= left:
            left -= len(part.data)
            kept.append(part)
        else:
            omitted.append(part)
    if not omitted:
        return result
    media = sum(not isinstance(part, Text) for part in result.parts)
    names = [_name_media(part) for part in omitted[:_MAX_NAMED]]
    if len(omitted) > _MAX_NAMED:
        names.append(f"and {len(omitted) - _MAX_NAMED} more")
    note = _OMITTED_MEDIA.format(len(omitted), media, max_bytes, ", ".join(names))
    text = f"{result.text}\n{note}".lstrip("\n")
    return result._replace(text=text, parts=(*kept, Text(note)))


def _name_media(part: Image | File) -> str:
    name = f"{clip(part.name)!r}" if isinstance(part, File) else clip(part.media_type)
    return f"{name} ({len(part.data):,} bytes)"


_MAX_NAMED = 10
"""Omitted images and files a note names."""
_OMITTED_MEDIA = (
    "[{} of {} images and files omitted: a result has room for {:,} bytes of them. Omitted: {}. "
    "Ask for fewer or smaller ones.]"
)


def _with_notes(result: Result, checked: CheckedCall, earlier: tuple[str, ...]) -> Result:
    """Return a result with notes on its arguments and on its tool's new name."""
    every = (*earlier, *checked.parsed.repairs)
    notes = tuple(note for note in every if not note.endswith(OMITTED))
    if checked.call.name != checked.spec.name:
        notes = (f"{checked.call.name!r} is now called {checked.spec.name!r}", *notes)
    if not notes:
        return result
    note = f"[Note: {'; '.join(notes)}.]"
    parts = (*result.parts, Text(note)) if result.parts else ()
    return result._replace(text=f"{result.text}\n{note}", parts=parts)
