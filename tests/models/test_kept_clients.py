"""Clients are kept between requests, one for each event loop, and closed without help."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
import pytest

from handrail.messages import Prompt, Reply, Request, StreamItem
from models.stage import Answer, Stage, provider
from models.talk import ANTHROPIC, APIS, CHAT, Api

# trio warns about what SDKs leave to the garbage collector; what handrail leaves fails the test
pytestmark = pytest.mark.filterwarnings(
    "ignore:Async generator '(anthropic|google|httpcore2|httpx2|openai):ResourceWarning"
)

every_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
REQUEST = Request((Prompt.of("What is 1 + 2?"),))


async def ask(model: Any) -> Reply:
    items = [item async for item in cast("AsyncIterator[StreamItem]", model(REQUEST))]
    return cast("Reply", items[-1])


async def closed(stage: Stage) -> bool:
    """Whether the client closes a connection."""
    return await anyio.to_thread.run_sync(stage.gone.wait, 20)


@every_api
@pytest.mark.parametrize("stream", [True, False])
async def test_requests_share_a_connection(api: Api, *, stream: bool) -> None:
    with provider(api.streamed() if stream else Answer.plain(api.whole)) as stage:
        async with cast("Any", api.model(stage.url, stream=stream)) as model:
            for _ in range(3):
                reply = await ask(model) if stream else await model(REQUEST)
                assert reply == api.reply

    assert (len(stage.asked), stage.connections) == (3, 1)


@every_api
async def test_a_model_is_closed_and_can_be_used_again(api: Api) -> None:
    with provider(api.streamed()) as stage:
        async with cast("Any", api.model(stage.url)) as model:
            await ask(model)
        assert await closed(stage)
        await ask(model)
        await model.aclose()
        await model.aclose()

    assert stage.connections == 2


@every_api
async def test_a_model_that_is_dropped_closes_its_client(api: Api) -> None:
    with provider(api.streamed()) as stage:
        model = api.model(stage.url)
        await ask(model)
        del model
        gc.collect()
        assert await closed(stage)


async def test_a_model_that_is_dropped_in_another_thread_closes_its_client() -> None:
    with provider(CHAT.streamed()) as stage:
        kept = [CHAT.model(stage.url)]
        await ask(kept[0])
        await anyio.to_thread.run_sync(kept.clear)
        gc.collect()
        assert await closed(stage)


def test_each_event_loop_has_its_own_client() -> None:
    with provider(CHAT.streamed()) as stage:
        model = CHAT.model(stage.url)
        for backend in ("asyncio", "trio", "asyncio"):
            assert anyio.run(ask, model, backend=backend) == CHAT.reply
        threads = [
            threading.Thread(target=anyio.run, args=(ask, model), kwargs={"backend": backend})
            for backend in ("asyncio", "trio")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert (len(stage.asked), stage.connections) == (5, 5)


def test_a_client_of_a_loop_that_ended_is_not_kept() -> None:
    with provider(CHAT.streamed()) as stage:
        model = CHAT.model(stage.url)
        for _ in range(3):
            anyio.run(ask, model)
        del model
        gc.collect()

    assert stage.connections == 3


@every_api
def test_nothing_warns_if_a_model_is_never_closed(api: Api) -> None:
    """A warning would fail the test: a connection that is left open warns when it is collected."""
    with provider(api.streamed()) as stage:
        model = api.model(stage.url)
        replies = [anyio.run(ask, model, backend=backend) for backend in ("asyncio", "trio")]
        del model
        gc.collect()

    assert replies == [api.reply] * 2


@pytest.mark.parametrize("api", [ANTHROPIC, CHAT], ids=lambda api: api.name)
def test_a_loop_may_end_while_a_dropped_model_closes_its_client(api: Api) -> None:
    problems: list[str] = []

    async def leave(model: Any) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(context["message"]))
        async for _ in model(REQUEST):
            break

    with provider(api.streamed()) as stage:
        asyncio.run(leave(api.model(stage.url)))
        gc.collect()

    assert problems == []


FORKS = """
import asyncio, gc, os
from handrail.messages import Prompt, Request
from handrail.models import openai_chat

model = openai_chat("m-1", base_url={url!r})

async def ask():
    items = [item async for item in model(Request((Prompt.of("What is 1 + 2?"),)))]
    return items[-1].stop

async def drop():
    global model
    model = None
    gc.collect()
    for _ in range(50):
        await asyncio.sleep(0)

def in_child(work):
    child = os.fork()
    if child == 0:
        print("child", asyncio.run(work()), flush=True)
        os._exit(0)
    return os.waitpid(child, 0)[1]

async def main():
    print("parent", await ask(), flush=True)
    print(in_child(ask), in_child(drop), flush=True)
    print("parent", await ask())

asyncio.run(main())
"""


def test_parent_and_child_have_their_own_clients_after_a_fork() -> None:
    """The parent's connection survives a child that drops the model."""
    with provider(CHAT.streamed()) as stage:
        ran = subprocess.run(  # noqa: S603  our own code
            [sys.executable, "-W", "error", "-c", FORKS.format(url=f"{stage.url}/v1")],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    expected = "parent calls\nchild calls\nchild None\n0 0\nparent calls\n"
    assert (ran.stdout, ran.stderr) == (expected, "")
    assert (len(stage.asked), stage.connections) == (3, 2)


async def test_a_model_has_a_name() -> None:
    assert repr(ANTHROPIC.model("http://x")) == "<model 'm-1'>"
