"""A provider for the bench: it sends the same bytes to every request of a path, kept alive.

Runs in a process of its own, so that its work is not measured. Prints its port.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

Answers = dict[str, tuple[str, bytes]]
"""By the last part of a path: the content type and the body."""
PIECE = '{"text":"' + "abcdefghij" * 20_000 + '"}'


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(
        (f"event: {event['type']}\n" if "type" in event else "").encode()
        + f"data: {json.dumps(event)}\n\n".encode()
        for event in events
    )


def pieces() -> list[str]:
    """200 KB of arguments, forty characters at a time."""
    return [PIECE[at : at + 40] for at in range(0, len(PIECE), 40)]


USAGE = {"input_tokens": 8, "output_tokens": 7}
HEAD = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": []}
END = {"stop_reason": None, "stop_sequence": None, "usage": USAGE}


def anthropic(*blocks: tuple[dict[str, Any], list[dict[str, Any]]]) -> bytes:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**HEAD, **END}}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    events += [{"type": "message_delta", "delta": stop, "usage": USAGE}, {"type": "message_stop"}]
    return sse(*events)


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }


def chat(*deltas: dict[str, Any]) -> bytes:
    chunks = [*map(chunk, deltas), chunk({}, "stop")]
    return sse(*chunks) + b"data: [DONE]\n\n"


def call_piece(text: str, **more: Any) -> dict[str, Any]:
    function = {"arguments": text, **({"name": "write"} if more else {})}
    return {"tool_calls": [{"index": 0, "function": function, **more}]}


def gemini(part: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, **more}]}


def gemini_call(**more: Any) -> dict[str, Any]:
    return gemini({"functionCall": {"willContinue": True, **more}})


def gemini_pieces() -> list[dict[str, Any]]:
    """The same arguments in 500 pieces: an event costs this SDK many times more than the others."""
    return [
        gemini_call(
            partialArgs=[
                {"jsonPath": "$.text", "stringValue": "abcdefgh" * 50, "willContinue": True}
            ]
        )
        for _ in range(500)
    ]


TOOL_USE = {"type": "tool_use", "id": "t1", "name": "write", "input": {}}
WORDS = [f"word {number} " for number in range(50)]
ANSWERS: Answers = {
    "anthropic/text": (
        "text/event-stream",
        anthropic(
            ({"type": "text", "text": ""}, [{"type": "text_delta", "text": word} for word in WORDS])
        ),
    ),
    "anthropic/args": (
        "text/event-stream",
        anthropic(
            (TOOL_USE, [{"type": "input_json_delta", "partial_json": text} for text in pieces()])
        ),
    ),
    "anthropic/whole": (
        "application/json",
        json.dumps(
            {
                **HEAD,
                **END,
                "content": [{"type": "text", "text": "Hello."}],
                "stop_reason": "end_turn",
            }
        ).encode(),
    ),
    "chat/text": ("text/event-stream", chat(*[{"content": word} for word in WORDS])),
    "chat/args": (
        "text/event-stream",
        chat(call_piece("", id="t1", type="function"), *map(call_piece, pieces())),
    ),
    "chat/whole": (
        "application/json",
        json.dumps(
            {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "stop",
                        "message": {"role": "assistant", "content": "Hello."},
                    }
                ],
            }
        ).encode(),
    ),
    "gemini/text": (
        "text/event-stream",
        sse(*[gemini({"text": word}) for word in WORDS], gemini({"text": ""}, finishReason="STOP")),
    ),
    "gemini/args": (
        "text/event-stream",
        sse(
            gemini_call(name="write", id="t1"),
            *gemini_pieces(),
            gemini({"functionCall": {}}, finishReason="STOP"),
        ),
    ),
    "gemini/whole": (
        "application/json",
        json.dumps(gemini({"text": "Hello."}, finishReason="STOP")).encode(),
    ),
}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while request := await reader.readline():
        length = 0
        while (line := await reader.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        await reader.readexactly(length)
        kind, body = ANSWERS["/".join(request.split()[1].decode().split("/")[1:3])]
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
