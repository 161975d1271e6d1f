"""Read a model's reply, and whether a hook has ended the run, from a framework's messages.

For LangChain messages. Nothing here imports it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from handrail import Call, Executor
from handrail.adapters._turns import own_name
from handrail.messages import TruncatedCall

STOP = "handrail_stop"
"""The key in a tool message's artifact for why a hook has ended the run."""
_FACTS = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")
_CUT = ("length", "max_tokens", "incomplete", "context_window", "content_filter")


def was_cut_off(facts: Mapping[str, Any]) -> bool:
    """Return whether the provider reports an incomplete reply: at its limit, or by a filter."""
    said = " ".join([str(facts.get(key, "")) for key in _FACTS]).lower()
    return any(word in said for word in _CUT)


def read_calls(reply: Any, executor: Executor) -> list[Call | TruncatedCall]:
    """Return a message's calls, including those with invalid JSON. Ids are unique."""
    calls = dict[str, Call | TruncatedCall]()
    for one in [*reply.tool_calls, *reply.invalid_tool_calls]:
        call_id = one["id"] or ""
        while call_id in calls:
            call_id += "+"
        calls[call_id] = read_call(reply, one, own_name(executor, one["name"] or ""), call_id)
    return list(calls.values())


def read_call(reply: Any, listed: Any, name: str, call_id: str) -> Call | TruncatedCall:
    """Return a call listed in a message, marked as truncated if it was.

    LangChain completes the JSON of a truncated stream, making half a text look whole. The text
    actually sent is the best evidence. Without it, a reply's last call is not trusted if its
    provider reports the reply as incomplete.
    """
    args, cut = listed["args"] or "{}", was_cut_off(reply.response_metadata)
    if isinstance(listed["args"], str):  # it is not JSON
        return TruncatedCall(name, call_id, args) if cut else Call(name, args, call_id)
    sent = _find_sent(reply, listed["id"])
    if not sent:
        is_last = reply.tool_calls[-1]["id"] == listed["id"]
        return TruncatedCall(name, call_id) if cut and is_last else Call(name, args, call_id)
    has_ended = not cut and getattr(reply, "chunk_position", "last") == "last"
    whole = [text for text in sent if _is_json(text) or (not text.strip() and has_ended)]
    same = [text for text in whole if text.strip() and json.loads(text) == listed["args"]]
    if same:
        return Call(name, same[0], call_id)
    if whole == sent:  # other code has changed the arguments
        return Call(name, args, call_id)
    return Call(name, sent[-1], call_id) if has_ended else TruncatedCall(name, call_id, sent[-1])


def _find_sent(reply: Any, call_id: str) -> list[str]:
    """Return a call's arguments as a model sent them, if the message still has them.

    They are in the chunks of a stream. Some APIs' clients store them in the content too, which
    stays when a stream becomes one message.
    """
    chunks = [one for one in getattr(reply, "tool_call_chunks", ()) if one["id"] == call_id]
    if chunks:
        return [one["args"] or "" for one in chunks]
    content: Any = getattr(reply, "content", ())
    blocks: list[Any] = [one for one in content if isinstance(one, Mapping)]
    own = [one for one in blocks if call_id in (one.get("call_id"), one.get("id"))]
    texts = [one.get("partial_json", one.get("arguments")) for one in own]
    return [text for text in texts if isinstance(text, str)]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def find_reply(messages: Sequence[Any], call: Call) -> Any:
    """Return the message with a call, and the call as listed there, or None."""
    for message in reversed(messages):
        for listed in getattr(message, "tool_calls", ()):
            if (listed["id"], listed["args"]) == (call.id, call.args):
                return message, listed
    return None


def find_stop(messages: Sequence[Any]) -> str | None:
    """Return why a hook has ended the run, if it has since the user's last message."""
    for message in reversed(messages):
        if message.type == "human":
            return None
        artifact = getattr(message, "artifact", None)
        if isinstance(artifact, Mapping) and STOP in artifact:
            return str(cast("Mapping[str, Any]", artifact)[STOP])
    return None


def read_messages(state: Any) -> Sequence[Any]:
    """Return the messages in a graph's state, if they are in their usual position."""
    found: Any = getattr(state, "messages", ())
    if isinstance(state, Mapping):
        found = cast("Mapping[str, Any]", state).get("messages", ())
    return state if isinstance(state, list) else found  # pyright: ignore[reportUnknownVariableType]
