"""When there is no reply: what kind of trouble it is, in words that give no secret away."""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from anthropic import AsyncAnthropic
from google.genai import Client
from inline_snapshot import snapshot
from openai import AsyncOpenAI

from handrail.messages import Model, ModelFailed, Prompt, Request
from handrail.models import anthropic, gemini, openai_chat, openai_responses
from models.stage import Answer, provider
from models.talk import ANTHROPIC, CHAT, GEMINI, KEY, RESPONSES, WIRES, Wire, response


@pytest.fixture
def anyio_backend() -> str:
    """The loops differ in what is left open, which test_clients.py looks at, and not in words."""
    return "asyncio"


every_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)

REQUEST = Request((Prompt.of("Hello."),))


@asynccontextmanager
async def once(wire: Wire, url: str, *, stream: bool = True) -> AsyncIterator[Model]:
    """A model whose client tries only once, and has the key."""
    if wire is ANTHROPIC:
        async with AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as claude:
            yield anthropic("m-1", client=claude, stream=stream)
    elif wire is GEMINI:
        google = Client(api_key=KEY, http_options={"base_url": url})
        yield gemini("m-1", client=google, stream=stream)
        await google.aio.aclose()
    else:
        make = openai_chat if wire is CHAT else openai_responses
        async with AsyncOpenAI(base_url=url + "/v1", api_key=KEY, max_retries=0) as gpt:
            yield make("m-1", client=gpt, stream=stream)


async def finish(model: Model) -> None:
    said = model(REQUEST)
    if isinstance(said, Awaitable):
        await said
    else:
        async for _ in said:
            pass


async def failure(model: Model) -> tuple[str, str]:
    """Why a model failed, and how it says so; nothing of it has the key."""
    with pytest.raises(ModelFailed) as found:
        await finish(model)
    assert KEY not in "".join(traceback.format_exception(found.value))
    return found.value.trouble, str(found.value)


async def trouble_of(wire: Wire, url: str, *, stream: bool = True) -> tuple[str, str]:
    async with once(wire, url, stream=stream) as model:
        return await failure(model)


def error(wire: Wire, status: int, code: str = "some_code") -> dict[str, Any]:
    """How a provider says that something is wrong, with a secret among its words."""
    words = f"It does not  work with {KEY},\nnor with sk-proj-abc***xyz. "
    if wire is ANTHROPIC:
        return {"type": "error", "error": {"type": code, "message": words}}
    if wire is GEMINI:
        return {"error": {"code": status, "message": words, "status": code}}
    return {"error": {"message": words, "type": "some_type", "param": None, "code": code}}


STATUSES = {400: "other", 401: "refused", 403: "refused", 429: "busy", 500: "other", 529: "busy"}


@every_wire
@pytest.mark.parametrize("stream", [True, False])
async def test_what_a_status_means(wire: Wire, *, stream: bool) -> None:
    answers = [Answer.plain(error(wire, status), status) for status in STATUSES]
    with provider(*answers) as stage:
        async with once(wire, stage.url, stream=stream) as model:
            found = [await failure(model) for _ in STATUSES]

    assert [trouble for trouble, _ in found] == list(STATUSES.values())
    for status, (_, words) in zip(STATUSES, found, strict=True):
        assert words.startswith(f"the model 'm-1' answered with status {status} (some_code)")


@every_wire
async def test_the_words_of_a_provider_are_shown_without_secrets(wire: Wire) -> None:
    answers = [Answer.plain(error(wire, status), status) for status in (400, 401, 429)]
    with provider(*answers) as stage:
        async with once(wire, stage.url) as model:
            said = [(await failure(model))[1] for _ in answers]

    assert said == snapshot(
        [
            "the model 'm-1' answered with status 400 (some_code): It does not work with [secret], nor with [secret]",
            "the model 'm-1' answered with status 401 (some_code); check the key, and what it may be used for",
            "the model 'm-1' answered with status 429 (some_code): It does not work with [secret], nor with [secret]; try again later",
        ]
    )


async def test_what_no_waiting_helps_against_is_refused() -> None:
    body = {"error": {"message": "You have no money.", "code": "insufficient_quota"}}
    with provider(Answer.plain(body, 429)) as stage:
        found = await trouble_of(CHAT, stage.url)

    assert found == snapshot(
        (
            "refused",
            "the model 'm-1' answered with status 429 (insufficient_quota): You have no money; check the key, and what it may be used for",
        )
    )


@every_wire
async def test_words_without_end_are_cut(wire: Wire) -> None:
    with provider(Answer(status=500, body=b"<p>" * 9_999, kind="text/html")) as stage:
        _, words = await trouble_of(wire, stage.url)

    assert words.startswith("the model 'm-1' answered with status 500")
    assert len(words) < 600


@every_wire
@pytest.mark.parametrize("stream", [True, False])
async def test_nobody_is_there(wire: Wire, *, stream: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    found = await trouble_of(wire, f"http://127.0.0.1:{free}", stream=stream)

    assert found == (
        "unreachable",
        "the model 'm-1' could not be reached; check the address and the network",
    )


@every_wire
@pytest.mark.parametrize("ending", ["cut", "unframed"])
async def test_a_stream_that_breaks_off_is_no_reply(wire: Wire, ending: Any) -> None:
    with provider(wire.streamed(ending, 3)) as stage:
        found = await trouble_of(wire, stage.url)

    assert found == ("unreachable", "the reply of the model 'm-1' broke off before its end")


@every_wire
async def test_a_stream_of_something_else_is_no_reply(wire: Wire) -> None:
    name = b"event: message_stop\n" if wire is ANTHROPIC else b""
    with provider(replace(wire.streamed(), body=name + b"data: {]\n\n")) as stage:
        found = await trouble_of(wire, stage.url)

    assert found == ("other", "the model 'm-1' sent what is no reply")


MIDWAY: dict[str, Any] = {
    "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "Full."}},
    "openai_chat": {"error": {"message": "Full.", "code": "rate_limit_exceeded"}},
    "openai_responses": {"type": "error", "code": "rate_limit_exceeded", "message": "Full."},
    "gemini": {"error": {"code": 429, "message": "Full.", "status": "RESOURCE_EXHAUSTED"}},
}


@every_wire
async def test_a_provider_may_change_its_mind_in_the_middle(wire: Wire) -> None:
    with provider(Answer.stream(*wire.events[:2], MIDWAY[wire.name])) as stage:
        found = await trouble_of(wire, stage.url)

    assert found[0] == "busy"
    assert found[1].endswith("Full; try again later")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_response_that_failed_is_no_reply(*, stream: bool) -> None:
    told = response("failed", error={"code": "server_error", "message": "It fell over."})
    event = {"type": "response.failed", "sequence_number": 1, "response": told}
    answer = Answer.stream(event) if stream else Answer.plain(told)
    with provider(answer) as stage:
        found = await trouble_of(RESPONSES, stage.url, stream=stream)

    assert found == snapshot(
        ("other", "the model 'm-1' answered with an error (server_error): It fell over")
    )


@pytest.mark.parametrize("make", [anthropic, gemini, openai_chat, openai_responses])
async def test_a_provider_without_a_key_says_so(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in os.environ if one.startswith(("ANTHR", "GEM", "GOOG", "OPENAI"))]:
        monkeypatch.delenv(name)

    assert await failure(make("m-1")) == snapshot(
        (
            "refused",
            "the model 'm-1' needs a key, and none was found; give one, or set the variable of its provider",
        )
    )


@every_wire
@pytest.mark.parametrize("stream", [True, False])
async def test_a_mistake_in_somebodys_code_stays_what_it_is(wire: Wire, *, stream: bool) -> None:
    with provider(wire.streamed()) as stage:
        model = wire.model(stage.url, options={"x": object()}, stream=stream)
        with pytest.raises(TypeError, match="object"):
            await finish(model)


@every_wire
async def test_an_sdk_tries_again_by_itself(wire: Wire) -> None:
    """A client of ours is made to, whatever its SDK does by default."""
    with provider(Answer.plain(error(wire, 503), 503), wire.streamed()) as stage:
        said = [one async for one in cast("Any", wire.model(stage.url)(REQUEST))]

    assert said == wire.pieces
    assert len(stage.asked) == 2
