"""Read requests back into histories, based on the providers' request types.

There is a reader for each API. It knows the API, and the texts that replace missing features. It
shares no code with the writers.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable
from itertools import groupby
from typing import Any

from handrail import Call, Failure, FailureKind, File, Image, Result, Text
from handrail.messages import Message, Opaque, Prompt, Reasoning, Reply, ToolResults

Body = dict[str, Any]
FAILED = "Failed: "
SHOWN = re.compile(r"\[Images and files of call (\S+):\]")
FOLLOWS = re.compile(r"\n?\[Images and files follow in the next message\.\]$")
UNSIGNED = "skip_thought_signature_validator"


def result(call_id: str, parts: list[Text | Image | File], *, failed: bool) -> Result:
    """A result of these parts. No API has the kind of a failure."""
    text = "".join(part.text for part in parts if isinstance(part, Text))
    media = any(not isinstance(part, Text) for part in parts)
    failure = Failure(FailureKind.FAILED, text) if failed else None
    return Result(call_id, text, tuple(parts) if media else (), failure=failure)


def unread(value: Body, api: str, kind: Any = "part") -> Opaque:
    return Opaque(json.dumps(value, separators=(",", ":"), ensure_ascii=False), api, kind)


def fields(value: Body, api: str, *read: str) -> list[Any]:
    more = {key: item for key, item in value.items() if key not in read}
    return [unread(more, api, "fields")] if more else []


def unwrapped(url: str) -> tuple[str, bytes]:
    head, data = url.removeprefix("data:").split(";base64,")
    return head, b64decode(data, validate=True)


# ---------------------------------------------------------------- Anthropic


def anthropic(body: Body) -> list[Message]:
    messages: list[Message] = []
    for message in body["messages"]:
        blocks = message["content"]
        if message["role"] == "assistant":
            messages.append(
                Reply(tuple(one for block in blocks for one in anthropic_reply_part(block)))
            )
        elif blocks[0]["type"] == "tool_result":
            messages.append(ToolResults(tuple(map(anthropic_result, blocks))))
        else:
            messages.append(Prompt(tuple(map(anthropic_part, blocks))))
    return messages


def anthropic_reply_part(block: Body) -> list[Any]:
    match block["type"]:
        case "text":
            return [*fields(block, "anthropic", "type", "text"), Text(block["text"])]
        case "thinking":
            return [Reasoning(block["thinking"], block["signature"], "anthropic")]
        case "redacted_thinking":
            return [Reasoning("", f"redacted:{block['data']}", "anthropic")]
        case "tool_use":
            call = Call(block["name"], json.dumps(block["input"]), block["id"])
            return [*fields(block, "anthropic", "type", "id", "name", "input"), call]
    return [unread(block, "anthropic")]


def anthropic_result(block: Body) -> Result:
    content = block["content"]
    parts = [Text(content)] if isinstance(content, str) else [*map(anthropic_part, content)]
    return result(block["tool_use_id"], parts, failed=block.get("is_error", False))


def anthropic_part(block: Body) -> Any:
    match block:
        case {"type": "text", "text": text}:
            return Text(text)
        case {"type": "image", "source": source}:
            return Image(b64decode(source["data"]), source["media_type"])
        case {"type": "document", "source": {"type": "base64"} as source, "title": title}:
            return File(b64decode(source["data"]), source["media_type"], title)
        case {"type": "document", "source": source, "title": title, "context": kind}:
            return File(source["data"].encode(), kind, title)


# ---------------------------------------------------------------- OpenAI Chat


def openai_chat(body: Body) -> list[Message]:
    messages: list[Message] = []
    for role, group in groupby(body["messages"], key=lambda one: one["role"]):
        for message in [list(group)] if role == "tool" else [[one] for one in group]:
            match role:
                case "tool":
                    messages.append(ToolResults(tuple(map(chat_result, message))))
                case "assistant":
                    messages.append(chat_reply_part(message[0]))
                case "user" if chat_shows(message[0]):
                    assert isinstance(messages[-1], ToolResults)
                    messages[-1] = chat_showing(messages[-1], message[0]["content"])
                case "user":
                    content = message[0]["content"]
                    parts = (
                        [Text(content)] if isinstance(content, str) else [*map(chat_part, content)]
                    )
                    messages.append(Prompt(tuple(parts)))
    return messages


def chat_reply_part(message: Body) -> Reply:
    parts: list[Any] = []
    if "reasoning_content" in message:
        parts.append(Reasoning(message["reasoning_content"], "", "openai_chat"))
    if message["content"]:
        parts.append(Text(message["content"]))
    for call in message.get("tool_calls", ()):
        parts += fields(call, "openai_chat", "id", "type", "function")
        parts.append(Call(call["function"]["name"], call["function"]["arguments"], call["id"]))
    read = ("role", "content", "reasoning_content", "tool_calls")
    return Reply((*parts, *fields(message, "openai_chat", *read)))


def chat_result(message: Body) -> Result:
    text = message["content"]
    failed = text.startswith(FAILED)
    return result(message["tool_call_id"], [Text(text.removeprefix(FAILED))], failed=failed)


def chat_shows(message: Body) -> bool:
    content = message["content"]
    return not isinstance(content, str) and bool(SHOWN.fullmatch(content[0].get("text", "")))


def chat_showing(results: ToolResults, content: list[Body]) -> ToolResults:
    """The results with their images and files from the message after them."""
    shown: dict[str, list[Any]] = {}
    for part in content:
        if part["type"] == "text" and (lead := SHOWN.fullmatch(part["text"])):
            here = shown.setdefault(lead[1], [])
        else:
            here.append(chat_part(part))
    made = []
    for one in results.results:
        text = [Text(FOLLOWS.sub("", one.text))] if one.call_id in shown else [Text(one.text)]
        parts = text + shown.get(one.call_id, [])
        made.append(result(one.call_id, parts, failed=one.failure is not None))
    return ToolResults(tuple(made))


def chat_part(part: Body) -> Any:
    match part:
        case {"type": "text", "text": text}:
            return Text(text)
        case {"type": "image_url", "image_url": {"url": url}}:
            kind, data = unwrapped(url)
            return Image(data, kind)
        case {"type": "file", "file": {"filename": name, "file_data": url}}:
            kind, data = unwrapped(url)
            return File(data, kind, name)


# ---------------------------------------------------------------- OpenAI Responses


def openai_responses(body: Body) -> list[Message]:
    messages: list[Message] = []
    for who, group in groupby(body["input"], key=responses_who):
        items = list(group)
        match who:
            case "user":
                messages += [Prompt(tuple(map(responses_part, one["content"]))) for one in items]
            case "model":
                messages.append(
                    Reply(tuple(one for item in items for one in responses_reply_part(item)))
                )
            case "tools":
                messages.append(ToolResults(tuple(map(responses_result, items))))
    return messages


def responses_who(item: Body) -> str:
    if item.get("type") == "function_call_output":
        return "tools"
    return "user" if item.get("role") == "user" else "model"


def responses_reply_part(item: Body) -> list[Any]:
    api = "openai_responses"
    match item:
        case {"role": "assistant", "content": text}:
            return [*fields(item, api, "type", "role", "content"), Text(text)]
        case {"type": "function_call"}:
            call = Call(item["name"], item["arguments"], item["call_id"])
            return [*fields(item, api, "type", "name", "arguments", "call_id"), call]
        case {"type": "reasoning"}:
            text = "\n\n".join(one["text"] for one in item["summary"])
            return [Reasoning(text, unread(item, api).data, api)]
    return [unread(item, api)]


def responses_result(item: Body) -> Result:
    output = item["output"]
    parts = [Text(output)] if isinstance(output, str) else [*map(responses_part, output)]
    failed = isinstance(parts[0], Text) and parts[0].text.startswith(FAILED)
    if failed:
        parts[0] = Text(parts[0].text.removeprefix(FAILED))
    return result(item["call_id"], parts, failed=failed)


def responses_part(part: Body) -> Any:
    match part:
        case {"type": "input_text", "text": text}:
            return Text(text)
        case {"type": "input_image", "image_url": url}:
            kind, data = unwrapped(url)
            return Image(data, kind)
        case {"type": "input_file", "filename": name, "file_data": url}:
            kind, data = unwrapped(url)
            return File(data, kind, name)


# ---------------------------------------------------------------- Gemini


def gemini(body: Body) -> list[Message]:
    messages: list[Message] = []
    for content in body["contents"]:
        parts = content["parts"]
        if content["role"] == "model":
            messages.append(Reply(tuple(one for part in parts for one in gemini_reply_part(part))))
        elif "functionResponse" in parts[0]:
            messages.append(
                ToolResults(tuple(gemini_result(one["functionResponse"]) for one in parts))
            )
        else:
            messages.append(Prompt(tuple(map(gemini_part, parts))))
    return messages


def gemini_reply_part(part: Body) -> list[Any]:
    if not part.keys() & {"text", "functionCall", "inlineData"}:
        return [unread(part, "gemini")]
    signature = part.get("thoughtSignature", "")
    if part.get("thought"):
        return [Reasoning(part["text"], signature, "gemini")]
    signed = [Reasoning("", signature, "gemini")] if signature not in ("", UNSIGNED) else []
    if "functionCall" in part:
        call = part["functionCall"]
        more = fields(part, "gemini", "functionCall", "thoughtSignature")
        return [*signed, *more, Call(call["name"], json.dumps(call["args"]), call["id"])]
    return [*signed, gemini_part(part)]


def gemini_result(response: Body) -> Result:
    [(key, text)] = response["response"].items()
    shown = [gemini_part(part) for part in response.get("parts", ())]
    return result(response["id"], [Text(text), *shown], failed=key == "error")


def gemini_part(part: Body) -> Any:
    match part:
        case {"text": text}:
            return Text(text)
        case {"inlineData": {"mimeType": kind, "data": data}}:
            return Image(b64decode(data), kind)


READERS: dict[str, Callable[[Body], list[Message]]] = {
    "anthropic": anthropic,
    "gemini": gemini,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
