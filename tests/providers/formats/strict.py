"""Providers on the loopback that refuse what the real ones are documented to refuse.

Each checks a second request against the response that it sent before.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

from providers.formats.tool_rules import refuse_tools

Body = dict[str, Any]
Rule = Callable[[Body, Body], bool]
"""Whether a request is refused after a response."""


def items(body: Body, kind: str) -> list[Body]:
    return [item for item in body["input"] if item.get("type") == kind]


def ends_with_reasoning(request: Body, _: Body) -> bool:
    """A reasoning item must be followed by another item of the model."""
    ours = ("function_call_output", "user")
    kinds = [item.get("role") or item["type"] for item in request["input"]] + ["user"]
    return any(kind == "reasoning" and after in ours for kind, after in pairwise(kinds))


def refers_to_the_store(request: Body, _: Body) -> bool:
    stored = ("rs_", "msg_", "fc_")
    return not request.get("store", True) and any(
        item.get("id", "").startswith(stored) for item in request["input"]
    )


def lacks_its_reasoning(request: Body, response: Body) -> bool:
    """The encrypted reasoning before a call must be the one that was sent."""
    sent = [one["encrypted_content"] for one in response["output"] if one["type"] == "reasoning"]
    back = [one.get("encrypted_content") for one in items(request, "reasoning")]
    return bool(items(request, "function_call")) and back != sent


def model_parts(body: Body) -> list[list[Body]]:
    return [content["parts"] for content in body["contents"] if content["role"] == "model"]


def lacks_a_signature(request: Body, _: Body) -> bool:
    """The first call of each step needs a signature."""
    first = [[one for one in parts if "functionCall" in one][:1] for parts in model_parts(request)]
    return any("thoughtSignature" not in call for calls in first for call in calls)


def lacks_the_signature_of_an_image(request: Body, _: Body) -> bool:
    images = [one for parts in model_parts(request) for one in parts if "inlineData" in one]
    return any("thoughtSignature" not in image for image in images)


def has_an_unknown_signature(request: Body, response: Body) -> bool:
    sent = json.dumps(response)
    signatures = [
        part["thoughtSignature"]
        for parts in model_parts(request)
        for part in parts
        if "thoughtSignature" in part
    ]
    dummy = "skip_thought_signature_validator"
    return any(one != dummy and json.dumps(one) not in sent for one in signatures)


def blocks(body: Body) -> list[Body]:
    replies = [one["content"] for one in body["messages"] if one["role"] == "assistant"]
    return [block for content in replies for block in content]


def has_no_message(request: Body, _: Body) -> bool:
    return not request["messages"]


def lacks_thinking(request: Body, _: Body) -> bool:
    """A reply with calls must begin with its reasoning."""
    replies = [one["content"] for one in request["messages"] if one["role"] == "assistant"]
    return any(
        content[0]["type"] not in ("thinking", "redacted_thinking")
        for content in replies
        if any(block["type"] == "tool_use" for block in content)
    )


def changes_thinking(request: Body, response: Body) -> bool:
    kinds = ("thinking", "redacted_thinking")
    back = [block for block in blocks(request) if block["type"] in kinds]
    return any(block not in response["content"] for block in back)


def lacks_a_server_result(request: Body, _: Body) -> bool:
    used = [one["id"] for one in blocks(request) if one["type"] == "server_tool_use"]
    results = [one.get("tool_use_id") for one in blocks(request)]
    return any(use not in results for use in used)


def lacks_its_container(request: Body, _: Body) -> bool:
    called = any("caller" in block for block in blocks(request))
    return called and not request.get("container")


def lacks_extra_content(request: Body, _: Body) -> bool:
    """Gemini behind Chat Completions: the first call of a step needs its signature."""
    calls = [one["tool_calls"][0] for one in request["messages"] if one.get("tool_calls")]
    return any("extra_content" not in call for call in calls)


RULES: dict[str, dict[str, Rule]] = {
    "anthropic": {
        "messages: at least one message is required": has_no_message,
        "Expected `thinking` or `redacted_thinking`, but found `text`": lacks_thinking,
        "`thinking` blocks in the latest assistant message cannot be modified": changes_thinking,
        "tool use without a corresponding tool result block": lacks_a_server_result,
        "container_id is required": lacks_its_container,
    },
    "gemini": {
        "Function call is missing a thought_signature": lacks_a_signature,
        "Image part is missing a thought_signature": lacks_the_signature_of_an_image,
        "Thought signature is not valid": has_an_unknown_signature,
    },
    "openai_chat": {"Function call is missing a thought_signature": lacks_extra_content},
    "openai_responses": {
        "Item of type 'reasoning' without its required following item": ends_with_reasoning,
        "Item not found. Items are not persisted": refers_to_the_store,
        "Item 'function_call' without its required 'reasoning' item": lacks_its_reasoning,
    },
}


def refusal(api: str, request: Body, response: Body) -> str:
    """The first reason to refuse a request, or nothing."""
    return next((why for why, broken in RULES[api].items() if broken(request, response)), "")


@contextmanager
def strict_provider(api: str, first: Body, second: Body) -> Iterator[str]:
    """Yield the address of a server that sends the first response once, then the second."""
    sent: list[Body] = []

    def answer(request: Body) -> tuple[str, Body]:
        sent.append(request)
        return ("", first) if len(sent) == 1 else (refusal(api, request, first), second)

    with serve(answer) as url:
        yield url


@contextmanager
def tool_provider(api: str, response: Body) -> Iterator[str]:
    """Yield the address of a server that refuses wrong tools, and sends the same response."""
    with serve(lambda request: (refuse_tools(api, request), response)) as url:
        yield url


@contextmanager
def serve(answer: Callable[[Body], tuple[str, Body]]) -> Iterator[str]:
    """Yield the address of a server that refuses a request for a reason, or sends a response."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            why, response = answer(request)
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": why}}
            body = json.dumps(error if why else response).encode()
            self.send_response(400 if why else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base's name
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
