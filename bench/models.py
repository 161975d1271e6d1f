"""What a model adds to its SDK: CPU time of requests and streams, beside the SDK's own.

Both use a kept client and take turns; each row is the median ratio. The server is another process.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from anthropic import AsyncAnthropic
from google.genai import Client
from openai import AsyncOpenAI

from definition import Row
from handrail import READ, Toolset, tool
from handrail.messages import Delta, Model, Prompt, Reply, Request, StreamItem
from handrail.models import anthropic, gemini, openai_chat
from handrail.providers import anthropic as anthropic_format
from handrail.providers import gemini as gemini_format
from handrail.providers import openai_chat as chat_format

Work = Callable[[], Awaitable[object]]
ROUNDS = 9
HERE = Path(__file__).parent


@tool(effect=READ)
def write(path: str, text: str) -> str:
    """Write a file."""
    return path + text


REQUEST = Request((Prompt.of("Say hello."),), Toolset(write), "Be brief.", 1000)


@contextmanager
def server() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, str(HERE / "model_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


async def ratio(ours: Work, sdk: Work, times: int) -> tuple[float, float, float]:
    """CPU milliseconds of one, of the other, and the median of their ratios."""
    took: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS + 1):
        for work, noted in zip((ours, sdk), took, strict=True):
            gc.collect()
            begun = time.process_time()
            for _ in range(times):
                await work()
            if number:  # the first round opens the connections
                noted.append((time.process_time() - begun) / times * 1000)
    each = [one / other for one, other in zip(*took, strict=True)]
    return statistics.median(took[0]), statistics.median(took[1]), statistics.median(each)


def streaming(model: Model, enough: Callable[[StreamItem], bool]) -> Work:
    async def work() -> None:
        stream: Any = cast("AsyncIterator[StreamItem]", model(REQUEST))
        async for item in stream:
            if enough(item):
                break
        await stream.aclose()

    return work


def is_text(item: StreamItem) -> bool:
    return isinstance(item, Delta)


def is_reply(item: StreamItem) -> bool:
    return isinstance(item, Reply)


def whole(model: Model) -> Work:
    return lambda: cast("Awaitable[Reply]", model(REQUEST))


async def of_anthropic(url: str) -> list[Row]:
    tools: Any = anthropic_format.encode_tools(REQUEST.tools)
    body: Any = anthropic_format.encode_messages(REQUEST.messages, system=REQUEST.system)

    def asked(kind: str, enough: Callable[[Any], bool] | None) -> Work:
        client = AsyncAnthropic(base_url=f"{url}/anthropic/{kind}", api_key="k")

        async def work() -> None:
            made = client.messages.create(
                model="m", max_tokens=1000, tools=tools, **body, stream=enough is not None
            )
            if enough is None:
                await made
                return
            async with await made as stream:
                async for event in stream:
                    if enough(event):
                        break

        return work

    def ours(kind: str, **more: Any) -> Model:
        return anthropic("m", base_url=f"{url}/anthropic/{kind}", **more)

    return [
        await row(
            "anthropic: a request", whole(ours("whole", stream=False)), asked("whole", None), 1.2
        ),
        await row(
            "anthropic: first token",
            streaming(ours("text"), is_text),
            asked("text", lambda event: event.type == "content_block_delta"),
            1.1,
        ),
        await row(
            "anthropic: 200 KB of arguments",
            streaming(ours("args"), is_reply),
            asked("args", lambda _: False),
            2,
            times=1,
        ),
    ]


async def of_openai(url: str) -> list[Row]:
    tools: Any = chat_format.encode_tools(REQUEST.tools)
    body: Any = chat_format.encode_messages(REQUEST.messages, system=REQUEST.system)

    def asked(kind: str, enough: Callable[[Any], bool] | None) -> Work:
        client = AsyncOpenAI(base_url=f"{url}/chat/{kind}", api_key="k")

        async def work() -> None:
            made = client.chat.completions.create(
                model="m", tools=tools, **body, stream=enough is not None
            )
            if enough is None:
                await made
                return
            async with await made as stream:
                async for event in stream:
                    if enough(event):
                        break

        return work

    def ours(kind: str, **more: Any) -> Model:
        return openai_chat("m", base_url=f"{url}/chat/{kind}", **more)

    return [
        await row(
            "openai: a request", whole(ours("whole", stream=False)), asked("whole", None), 1.2
        ),
        await row(
            "openai: first token",
            streaming(ours("text"), is_text),
            asked("text", lambda chunk: bool(chunk.choices[0].delta.content)),
            1.1,
        ),
        await row(
            "openai: 200 KB of arguments",
            streaming(ours("args"), is_reply),
            asked("args", lambda _: False),
            2,
            times=1,
        ),
    ]


async def of_google(url: str) -> list[Row]:
    declared = gemini_format.encode_tools(REQUEST.tools)
    config: Any = {
        "automatic_function_calling": {"disable": True},
        "system_instruction": REQUEST.system,
        "max_output_tokens": 1000,
        "tools": [
            {
                "function_declarations": [
                    {
                        "name": one["name"],
                        "description": one["description"],
                        "parameters_json_schema": one["parametersJsonSchema"],
                    }
                    for one in declared
                ]
            }
        ],
    }

    clients = [
        Client(api_key="k", http_options={"base_url": f"{url}/gemini/{kind}"}).aio
        for kind in ("text", "whole", "args")
    ]
    texts, wholes, args = [cast("Any", client.models) for client in clients]

    async def first() -> None:
        stream = await texts.generate_content_stream(
            model="m", contents="Say hello.", config=config
        )
        async for chunk in stream:
            if chunk.text:
                break
        await stream.aclose()

    async def all_args() -> None:
        stream = await args.generate_content_stream(model="m", contents="Say hello.", config=config)
        async for _ in stream:
            pass

    async def one() -> None:
        await wholes.generate_content(model="m", contents="Say hello.", config=config)

    def ours(kind: str, **more: Any) -> Model:
        return gemini("m", base_url=f"{url}/gemini/{kind}", **more)

    return [
        await row("gemini: a request", whole(ours("whole", stream=False)), one, 1.2),
        await row("gemini: first token", streaming(ours("text"), is_text), first, 1.1),
        await row(
            "gemini: 200 KB of arguments", streaming(ours("args"), is_reply), all_args, 2, times=1
        ),
    ]


async def row(what: str, ours: Work, sdk: Work, limit: float, times: int = 10) -> Row:
    mine, theirs, found = await ratio(ours, sdk, times)
    said = f"ratio {found:.2f} <= {limit:g} of the SDK's own"
    return Row(what, mine, theirs, "ms CPU", said, found <= limit)


async def measure() -> list[Row]:
    with server() as url:
        return [*await of_anthropic(url), *await of_openai(url), *await of_google(url)]


def rows() -> list[Row]:
    """Requests and streams of three SDKs."""
    return asyncio.run(measure())
