"""What a model adds to its SDK: CPU time of requests and streams, beside the SDK's own.

Both use a kept client and take turns; each row is the median ratio. The server is another process.
What comes after the first token is not measured there. Streams go through an agent, as a screen
shows them.
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
from handrail import READ, Call, Result, Text, Toolset, tool
from handrail.agent import Agent
from handrail.messages import Delta, Message, Model, Prompt, Reply, Request, ToolResults
from handrail.models import anthropic, gemini, openai_chat
from handrail.models._body import Histories
from handrail.providers import anthropic as anthropic_format
from handrail.providers import gemini as gemini_format
from handrail.providers import openai_chat as chat_format
from handrail.providers import openai_responses as responses_format

Work = Callable[[], Awaitable[float]]
"""Does something, and returns the CPU time at which it was done."""
ROUNDS = 9
TURNS = 2_000
MAX_HISTORY_MS = 4.0
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
            spent = 0.0
            for _ in range(times):
                begun = time.process_time()
                spent += await work() - begun
                await asyncio.sleep(0.005)  # a connection that was left is closed
            if number:  # the first round opens the connections
                noted.append(spent / times * 1000)
    each = [one / other for one, other in zip(*took, strict=True)]
    return statistics.median(took[0]), statistics.median(took[1]), statistics.median(each)


def shown(model: Model, enough: Callable[[object], bool]) -> Work:
    """A stream as a screen shows it, through an agent."""
    agent = Agent(model, REQUEST.tools, system=REQUEST.system, max_tokens=REQUEST.max_tokens)

    async def work() -> float:
        async with agent.stream("Say hello.") as events:
            return await until(events, enough)

    return work


async def until(events: AsyncIterator[Any], enough: Callable[[Any], bool]) -> float:
    """Read events until it is enough."""
    async for event in events:
        if enough(event):
            break
    return time.process_time()


def is_text(item: object) -> bool:
    return isinstance(item, Delta)


def is_reply(item: object) -> bool:
    return isinstance(item, Reply)


def whole(model: Model) -> Work:
    async def work() -> float:
        await cast("Awaitable[Reply]", model(REQUEST))
        return time.process_time()

    return work


async def of_anthropic(url: str) -> list[Row]:
    tools: Any = anthropic_format.encode_tools(REQUEST.tools)
    body: Any = anthropic_format.encode_messages(REQUEST.messages, system=REQUEST.system)

    def asked(kind: str, enough: Callable[[Any], bool] | None) -> Work:
        client = AsyncAnthropic(base_url=f"{url}/anthropic/{kind}", api_key="k")

        async def work() -> float:
            made = client.messages.create(
                model="m", max_tokens=1000, tools=tools, **body, stream=enough is not None
            )
            if enough is None:
                await made
                return time.process_time()
            async with await made as stream:
                return await until(stream, enough)

        return work

    def ours(kind: str, **more: Any) -> Model:
        return anthropic("m", base_url=f"{url}/anthropic/{kind}", **more)

    return [
        await row(
            "anthropic: a request", whole(ours("whole", stream=False)), asked("whole", None), 1.2
        ),
        await row(
            "anthropic: first token",
            shown(ours("text"), is_text),
            asked("text", lambda event: event.type == "content_block_delta"),
            1.1,
        ),
        await row(
            "anthropic: 200 KB of arguments",
            shown(ours("args"), is_reply),
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

        async def work() -> float:
            made = client.chat.completions.create(
                model="m", tools=tools, **body, stream=enough is not None
            )
            if enough is None:
                await made
                return time.process_time()
            async with await made as stream:
                return await until(stream, enough)

        return work

    def ours(kind: str, **more: Any) -> Model:
        return openai_chat("m", base_url=f"{url}/chat/{kind}", **more)

    return [
        await row(
            "openai: a request", whole(ours("whole", stream=False)), asked("whole", None), 1.2
        ),
        await row(
            "openai: first token",
            shown(ours("text"), is_text),
            asked("text", lambda chunk: bool(chunk.choices[0].delta.content)),
            1.1,
        ),
        await row(
            "openai: 200 KB of arguments",
            shown(ours("args"), is_reply),
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

    async def first() -> float:
        stream = await texts.generate_content_stream(
            model="m", contents="Say hello.", config=config
        )
        done = await until(stream, lambda chunk: bool(chunk.text))
        await stream.aclose()
        return done

    async def all_args() -> float:
        stream = await args.generate_content_stream(model="m", contents="Say hello.", config=config)
        return await until(stream, lambda _: False)

    async def one() -> float:
        await wholes.generate_content(model="m", contents="Say hello.", config=config)
        return time.process_time()

    def ours(kind: str, **more: Any) -> Model:
        return gemini("m", base_url=f"{url}/gemini/{kind}", **more)

    return [
        await row("gemini: a request", whole(ours("whole", stream=False)), one, 1.2),
        await row("gemini: first token", shown(ours("text"), is_text), first, 1.1),
        await row(
            "gemini: 200 KB of arguments", shown(ours("args"), is_reply), all_args, 2, times=1
        ),
    ]


async def row(what: str, ours: Work, sdk: Work, limit: float, times: int = 10) -> Row:
    mine, theirs, found = await ratio(ours, sdk, times)
    said = f"ratio {found:.2f} <= {limit:g} of the SDK's own"
    return Row(what, mine, theirs, "ms CPU", said, found <= limit)


def of_histories() -> Iterator[Row]:
    """The history of one more request at 2,000 turns, of which all but the last were sent before."""
    messages: list[Message] = [Prompt.of("Look.")]
    for number in range(TURNS):
        call = Call("read", f'{{"path": "a{number}"}}', f"c{number}")
        messages += [Reply((Text("I look."), call)), ToolResults((Result(call.id, "text " * 20),))]
    for api in (anthropic_format, chat_format, responses_format, gemini_format):
        took: list[float] = []
        for _ in range(ROUNDS):
            histories = Histories(api.start_history, api.finish_history)
            histories.encode(messages[:-2], "", ())
            begun = time.process_time()
            histories.encode(messages, "", ())
            took.append((time.process_time() - begun) * 1000)
        fastest, name = min(took), api.__name__.rpartition(".")[2]
        said = f"<= {MAX_HISTORY_MS:g} ms at {TURNS:,} turns"
        yield Row(
            f"{name}: history", fastest, MAX_HISTORY_MS, "ms CPU", said, fastest <= MAX_HISTORY_MS
        )


async def measure() -> list[Row]:
    with server() as url:
        return [*await of_anthropic(url), *await of_openai(url), *await of_google(url)]


def rows() -> list[Row]:
    """Histories of four APIs, requests and streams of three SDKs."""
    return [*of_histories(), *asyncio.run(measure())]
