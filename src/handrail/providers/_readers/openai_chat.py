"""Read stored OpenAI Chat Completions messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from handrail import Result, Text
from handrail.messages import Content, Message, ToolResults
from handrail.providers._formats.stored import (
    OnLoss,
    StoredConversation,
    ignore_loss,
    read_data_url,
    read_failure,
)
from handrail.providers._formats.tolerant import (
    NO_NAMES,
    Data,
    Names,
    object_at,
    objects_at,
    text_at,
)
from handrail.providers._streams.openai_chat import decode

SHOWN_BELOW: Final = "[Images and files follow in the next message.]"
"""Text for a result whose images and files are in the message after all results."""
_SHOWN = re.compile(r"\[Images and files of call (\S+):\]")


def decode_messages(
    messages: Iterable[Data], *, names: Names = NO_NAMES, on_loss: OnLoss = ignore_loss
) -> tuple[Message, ...]:
    """Convert a request's ``messages``, for example from a stored conversation.

    Args:
        messages: The request body's messages. System prompts are omitted: pass yours as ``system``
            to ``encode_messages``.
        names: Your tools' names, by their names in the messages.
        on_loss: Receives one line for everything left unconverted.
    """
    stored = StoredConversation(names, on_loss)
    for message in stored.read(messages):
        match text_at(message, "role"):
            case "assistant":
                calls = message.get("tool_calls") or message.get("function_call")
                choice = {"message": message, "finish_reason": "tool_calls" if calls else "stop"}
                stored.add_reply(decode({"choices": [choice]}, names=names))
            case "tool" | "function":
                parts, failed = read_failure(_parts(message, stored))
                call_id, name = text_at(message, "tool_call_id"), text_at(message, "name")
                stored.add_result(call_id, name, parts, failed=failed)
            case "user":
                _read_user(_parts(message, stored), stored)
            case role:
                stored.lose(f"the message with the role {role!r} is omitted")
    return tuple(stored.messages)


def _parts(message: Data, stored: StoredConversation) -> list[Content]:
    text = message.get("content")
    if isinstance(text, str):
        return [Text(text)] if text else []
    return [part for one in objects_at(message, "content") for part in _part(one, stored)]


def _part(part: Data, stored: StoredConversation) -> list[Content]:
    kind = part.get("type")
    if kind == "text":
        return [Text(text_at(part, "text"))]
    file = object_at(part, "file")
    url = text_at(object_at(part, "image_url"), "url") or text_at(file, "file_data")
    content = read_data_url(url, text_at(file, "filename"))
    if content is None and (address := url or text_at(file, "file_id")):
        return stored.refer("image" if kind == "image_url" else "file", address)
    return [content] if content else stored.omit(part)


def _read_user(parts: list[Content], stored: StoredConversation) -> None:
    """Read a user message, or the images and files for the results before it."""
    results = stored.messages[-1] if stored.messages else None
    first = parts[0] if parts else None
    is_shown = isinstance(first, Text) and _SHOWN.fullmatch(first.text)
    if not (is_shown and isinstance(results, ToolResults)):
        stored.add_prompt(parts)
        return
    shown: dict[str, list[Content]] = {}
    here: list[Content] = []
    for part in parts:
        if isinstance(part, Text) and (heading := _SHOWN.fullmatch(part.text)):
            here = shown.setdefault(heading[1], [])
        else:
            here.append(part)
    stored.messages[-1] = ToolResults(
        tuple(_with_shown(result, shown.get(result.call_id, [])) for result in results.results)
    )


def _with_shown(result: Result, shown: list[Content]) -> Result:
    if not shown:
        return result
    text = result.text.removesuffix(SHOWN_BELOW).removesuffix("\n")
    first = [Text(text)] if text else []
    return Result(result.call_id, text, (*first, *shown), failure=result.failure)
