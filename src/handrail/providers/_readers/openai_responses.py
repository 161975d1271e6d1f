"""Read stored OpenAI Responses input items."""

from __future__ import annotations

from collections.abc import Iterable

from handrail import Text
from handrail.messages import Content, Message
from handrail.providers._formats.stored import (
    OnLoss,
    StoredConversation,
    ignore_loss,
    read_data_url,
    read_failure,
)
from handrail.providers._formats.tolerant import NO_NAMES, Data, Names, objects_at, text_at
from handrail.providers._streams.openai_responses import decode

SEARCH_TEXT = "[Result of the tool search {}:]"
"""How a message with a search's text begins. The search's own output has only tools."""


def decode_messages(
    messages: Iterable[Data], *, names: Names = NO_NAMES, on_loss: OnLoss = ignore_loss
) -> tuple[Message, ...]:
    """Convert a request's ``input``, for example from a stored conversation.

    Consecutive model items become one reply.

    Args:
        messages: The request body's items. System and developer messages are omitted: pass yours as
            ``system`` to ``encode_messages``.
        names: Your tools' names, by their names in the items.
        on_loss: Receives one line for everything left unconverted.
    """
    stored = StoredConversation(names, on_loss)
    output: list[Data] = []
    for item in stored.read(messages):
        kind, role = text_at(item, "type") or "message", text_at(item, "role")
        if kind == "item_reference":
            stored.omit(item)
        elif not _is_input(kind, item) or role == "assistant":
            output.append(_output(item) if kind == "message" else item)
        else:
            stored.add_reply(decode({"output": output}, names=names))
            output = []
            _read_input(item, role, stored)
    stored.add_reply(decode({"output": output}, names=names))
    return tuple(stored.messages)


def _is_input(kind: str, item: Data) -> bool:
    """Whether an item is input, not model output. A provider can run searches too."""
    if kind == "tool_search_output":
        return item.get("execution") == "client"
    return kind in ("message", "function_call_output")


def _output(item: Data) -> Data:
    """Return a model message as the API sends it: its text in a list."""
    text = item.get("content")
    content = [{"type": "output_text", "text": text}] if isinstance(text, str) else text
    return {**item, "type": "message", "content": content}


def _read_input(item: Data, role: str, stored: StoredConversation) -> None:
    call_id = text_at(item, "call_id")
    if role == "user":
        _read_prompt(_parts(item, "content", stored), stored)
    elif role:
        stored.lose(f"the message with the role {role!r} is omitted")
    elif item.get("type") == "tool_search_output":
        stored.add_result(call_id, "", [], failed=False, found=found_names(item))
    else:
        parts, failed = read_failure(_parts(item, "output", stored))
        stored.add_result(call_id, "", parts, failed=failed)


def found_names(item: Data) -> list[str]:
    """Return the tool names in a search's output, including those in a namespace."""
    tools = list(objects_at(item, "tools")) if item.get("type") == "tool_search_output" else []
    tools += [inner for tool in tools for inner in objects_at(tool, "tools")]
    return [text_at(tool, "name") for tool in tools if tool.get("type") == "function"]


def _read_prompt(parts: list[Content], stored: StoredConversation) -> None:
    """Read a user message, or a search's text."""
    first = parts[0] if parts else None
    for result in stored.last_results if isinstance(first, Text) else ():
        if first == Text(SEARCH_TEXT.format(result.call_id)):
            text, failed = read_failure(parts[1:])
            stored.fill_result(result.call_id, text, failed=failed)
            return
    stored.add_prompt(parts)


def _parts(item: Data, key: str, stored: StoredConversation) -> list[Content]:
    text = item.get(key)
    if isinstance(text, str):
        return [Text(text)] if text else []
    return [part for one in objects_at(item, key) for part in _part(one, stored)]


def _part(part: Data, stored: StoredConversation) -> list[Content]:
    kind = text_at(part, "type")
    if kind in ("input_text", "output_text", "text"):
        return [Text(text_at(part, "text"))]
    url = text_at(part, "image_url") or text_at(part, "file_data")
    content = read_data_url(url, text_at(part, "filename"))
    address = url or text_at(part, "file_url") or text_at(part, "file_id")
    if content is None and address:
        return stored.refer("image" if kind == "input_image" else "file", address)
    return [content] if content else stored.omit(part)
