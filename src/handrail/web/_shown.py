"""Conversations as pages see them."""

from __future__ import annotations

from typing import Any

from handrail import Call, File, Image, Text
from handrail.messages import Message, Prompt, Reply, ToolResults
from handrail.web.conversations import ConversationHead, SavedConversation


def describe_head(head: ConversationHead) -> dict[str, Any]:
    """Return a conversation without its messages."""
    working = "free" if not head.lease else "working"
    return {"id": head.id, "title": head.title, "changed": head.changed, "state": working}


def describe_conversation(saved: SavedConversation, *, details: bool) -> dict[str, Any]:
    """Return a conversation with its messages."""
    messages = [_describe(one, details=details) for one in saved.messages]
    return {**describe_head(saved.head), "run": saved.head.run, "messages": messages}


def _describe(message: Message, *, details: bool) -> dict[str, Any]:
    match message:
        case Prompt((Text(quoted=True) as result, *_)):  # of a call in the background
            return {"role": "tool", "results": [], **({"text": result.text} if details else {})}
        case Prompt(parts):
            files = [_name(part) for part in parts if isinstance(part, Image | File)]
            text = "".join(part.text for part in parts if isinstance(part, Text))
            return {"role": "user", "text": text, **({"files": files} if files else {})}
        case Reply():
            calls = [_call(one, details=details) for one in message.calls]
            return {
                "role": "assistant",
                "text": message.text,
                **({"calls": calls} if calls else {}),
            }
        case ToolResults(results):
            failures = [str(one.failure.kind) if one.failure else "" for one in results]
            found: list[dict[str, Any]] = [
                {"id": one.call_id, "failure": failure, **({"text": one.text} if details else {})}
                for one, failure in zip(results, failures, strict=True)
            ]
            return {"role": "tool", "results": found}


def _name(part: Image | File) -> str:
    return part.name if isinstance(part, File) else part.media_type


def _call(call: Call, *, details: bool) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, **({"args": call.args} if details else {})}
