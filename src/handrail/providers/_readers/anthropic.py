"""Read stored Anthropic Messages conversations."""

from __future__ import annotations

from collections.abc import Iterable

from handrail import File, Text
from handrail.messages import Content, Message
from handrail.providers._formats.stored import (
    OnLoss,
    StoredConversation,
    ignore_loss,
    read_media,
)
from handrail.providers._formats.tolerant import (
    NO_NAMES,
    Data,
    Names,
    object_at,
    objects_at,
    text_at,
)
from handrail.providers._streams.anthropic import decode


def decode_messages(
    messages: Iterable[Data], *, names: Names = NO_NAMES, on_loss: OnLoss = ignore_loss
) -> tuple[Message, ...]:
    """Convert a request's ``messages``, for example from a stored conversation.

    Args:
        messages: The request body's messages.
        names: Your tools' names, by their names in the messages.
        on_loss: Receives one line for everything left unconverted.
    """
    stored = StoredConversation(names, on_loss)
    for message in stored.read(messages):
        blocks = _blocks(message)
        role = text_at(message, "role")
        if role == "assistant":
            calls = any(block.get("type") == "tool_use" for block in blocks)
            stop = "tool_use" if calls else "end_turn"
            stored.add_reply(decode({"content": blocks, "stop_reason": stop}, names=names))
        elif role == "user":
            _read_user(blocks, stored)
        else:
            stored.lose(f"the message with the role {role!r} is omitted")
    return tuple(stored.messages)


def _blocks(message: Data) -> list[Data]:
    text = message.get("content")
    if isinstance(text, str):
        return [{"type": "text", "text": text}]
    return list(objects_at(message, "content"))


def _read_user(blocks: list[Data], stored: StoredConversation) -> None:
    """Read a user message: results come before everything else."""
    parts: list[Content] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            inner = _blocks(block)
            found = [one for one in inner if one.get("type") == "tool_reference"]
            content = [part for one in inner if one not in found for part in _part(one, stored)]
            failed, call_id = bool(block.get("is_error")), text_at(block, "tool_use_id")
            names = [text_at(one, "tool_name") for one in found]
            if names and not stored.may_find(call_id):
                stored.lose(f"what {call_id!r} found is omitted: its tool does not search")
                names = []
            stored.add_result(call_id, "", content, failed=failed, found=names)
        else:
            parts += _part(block, stored)
    stored.add_prompt(parts)


def _part(block: Data, stored: StoredConversation) -> list[Content]:
    source, kind = object_at(block, "source"), block.get("type")
    if kind == "text":
        return [Text(text_at(block, "text"))]
    if kind not in ("image", "document"):
        return stored.omit(block)
    title, media = text_at(block, "title"), text_at(source, "media_type")
    if source.get("type") == "text":
        data = text_at(source, "data").encode(errors="replace")
        return [File(data, text_at(block, "context") or "text/plain", title)]
    if address := text_at(source, "url") or text_at(source, "file_id"):
        return stored.refer(str(kind), address)
    part = read_media(source.get("data"), media or "image/png", title)
    return [part] if part else stored.omit(block)
