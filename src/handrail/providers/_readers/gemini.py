"""Read stored Gemini contents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from handrail import Text
from handrail.messages import Content, Message, Reasoning, Reply
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
    dump_opaque,
    object_at,
    objects_at,
    text_at,
)
from handrail.providers._streams.gemini import UNSIGNED, camel_case, decode


def decode_messages(
    messages: Iterable[Data], *, names: Names = NO_NAMES, on_loss: OnLoss = ignore_loss
) -> tuple[Message, ...]:
    """Convert a request's ``contents``, for example from a stored conversation.

    Args:
        messages: The request body's contents. A result without an id belongs to its tool's first
            call without a result.
        names: Your tools' names, by their names in the contents.
        on_loss: Receives one line for everything left unconverted.
    """
    stored = StoredConversation(names, on_loss)
    for content in stored.read(messages):
        if content.get("role") == "model":
            candidate = {"content": content, "finishReason": "STOP"}
            stored.add_reply(_without_placeholder(decode({"candidates": [candidate]}, names=names)))
        else:
            _read_user([camel_case(part) for part in objects_at(content, "parts")], stored)
    return tuple(stored.messages)


def _without_placeholder(reply: Reply) -> Reply:
    """Remove the placeholder for a signature, which is added again where it is needed."""
    return replace(
        reply,
        parts=tuple(
            part
            for part in reply.parts
            if not (isinstance(part, Reasoning) and part.signature == UNSIGNED)
        ),
    )


def _read_user(parts: list[Data], stored: StoredConversation) -> None:
    """Read a user message: results come before everything else."""
    prompt: list[Content] = []
    for part in parts:
        if response := camel_case(object_at(part, "functionResponse")):
            _read_result(response, stored)
        else:
            prompt += _part(part, stored)
    stored.add_prompt(prompt)


def _read_result(result: Data, stored: StoredConversation) -> None:
    response = object_at(result, "response")
    failed = [*response] == ["error"]
    value = next(iter(response.values()), "")
    alone = [*response] in (["output"], ["error"], ["result"])
    text = value if alone and isinstance(value, str) else dump_opaque(dict(response))
    parts: list[Content] = [Text(text)] if text else []
    for part in objects_at(result, "parts"):
        parts += _part(camel_case(part), stored)
    stored.add_result(text_at(result, "id"), text_at(result, "name"), parts, failed=failed)


def _part(part: Data, stored: StoredConversation) -> list[Content]:
    if isinstance(part.get("text"), str):
        return [Text(part["text"])] if part["text"] else []
    blob, file = (camel_case(object_at(part, key)) for key in ("inlineData", "fileData"))
    if address := text_at(file, "fileUri"):
        return stored.refer("file", address)
    content = read_media(blob.get("data"), text_at(blob, "mimeType"), text_at(blob, "displayName"))
    return [content] if content else stored.omit(part)
