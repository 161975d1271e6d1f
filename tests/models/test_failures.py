"""When a model gives no reply: the kind of the error, and its message without secrets."""

from __future__ import annotations

import errno
import os
import re
import socket
import traceback
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from anthropic import AsyncAnthropic
from google.genai import Client
from httpx2 import AsyncBaseTransport
from inline_snapshot import snapshot
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from handrail.messages import Model, ModelError, Prompt, Request
from handrail.models import anthropic, gemini, openai_chat, openai_responses
from models.stage import Answer, provider
from models.talk import (
    ANTHROPIC,
    APIS,
    CHAT,
    GEMINI,
    KEY,
    RESPONSES,
    Api,
    response,
    text_and_calls,
)


@pytest.fixture
def anyio_backend() -> str:
    """The loops differ in what stays open, which test_clients.py checks, not in messages."""
    return "asyncio"


every_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)

REQUEST = Request((Prompt.of("Hello."),))


@asynccontextmanager
async def once(api: Api, url: str, *, stream: bool = True) -> AsyncIterator[Model]:
    """A model whose client does not retry, and has the key."""
    if api is ANTHROPIC:
        async with AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as claude:
            yield anthropic("m-1", client=claude, stream=stream)
    elif api is GEMINI:
        google = Client(api_key=KEY, http_options={"base_url": url})
        yield gemini("m-1", client=google, stream=stream)
        await google.aio.aclose()
    else:
        make = openai_chat if api is CHAT else openai_responses
        async with AsyncOpenAI(base_url=url + "/v1", api_key=KEY, max_retries=0) as gpt:
            yield make("m-1", client=gpt, stream=stream)


async def finish(model: Model) -> None:
    answer = model(REQUEST)
    if isinstance(answer, Awaitable):
        await answer
    else:
        async for _ in answer:
            pass


async def failure(model: Model) -> tuple[str, str]:
    """The kind and the message of a failure; neither it nor its traceback has the key."""
    with pytest.raises(ModelError) as raised:
        await finish(model)
    assert KEY not in "".join(traceback.format_exception(raised.value))
    return raised.value.kind, str(raised.value)


async def failure_at(api: Api, url: str, *, stream: bool = True) -> tuple[str, str]:
    async with once(api, url, stream=stream) as model:
        return await failure(model)


def error(api: Api, status: int, code: str = "some_code") -> dict[str, Any]:
    """An error of a provider, with secrets in its message."""
    message = f"It does not  work with {KEY},\nnor with sk-proj-abc***xyz. "
    if api is ANTHROPIC:
        return {"type": "error", "error": {"type": code, "message": message}}
    if api is GEMINI:
        return {"error": {"code": status, "message": message, "status": code}}
    return {"error": {"message": message, "type": "some_type", "param": None, "code": code}}


STATUSES = {
    400: "other",
    401: "auth",
    402: "auth",
    403: "auth",
    404: "not_found",
    413: "too_long",
    429: "rate_limited",
    500: "overloaded",
    502: "overloaded",
    504: "overloaded",
    529: "overloaded",
}


@every_api
@pytest.mark.parametrize("stream", [True, False])
async def test_what_a_status_means(api: Api, *, stream: bool) -> None:
    answers = [Answer.plain(error(api, status), status) for status in STATUSES]
    with provider(*answers) as stage:
        async with once(api, stage.url, stream=stream) as model:
            failures = [await failure(model) for _ in STATUSES]

    assert [kind for kind, _ in failures] == list(STATUSES.values())
    for status, (_, message) in zip(STATUSES, failures, strict=True):
        assert message.startswith(f"Model 'm-1' failed with status {status} (some_code)")


@every_api
async def test_the_message_of_a_provider_is_shown_without_secrets(api: Api) -> None:
    answers = [Answer.plain(error(api, status), status) for status in (400, 401, 404, 429)]
    with provider(*answers) as stage:
        async with once(api, stage.url) as model:
            messages = [(await failure(model))[1] for _ in answers]

    assert messages == snapshot(
        [
            "Model 'm-1' failed with status 400 (some_code): It does not work with [secret], nor with [secret].",
            "Model 'm-1' failed with status 401 (some_code). Check the API key.",
            "Model 'm-1' failed with status 404 (some_code): It does not work with [secret], nor with [secret]. Check the model name and the base URL.",
            "Model 'm-1' failed with status 429 (some_code): It does not work with [secret], nor with [secret]. Retry later.",
        ]
    )


async def test_an_error_that_retrying_cannot_fix_is_not_a_rate_limit() -> None:
    body = {"error": {"message": "You have no money.", "code": "insufficient_quota"}}
    with provider(Answer.plain(body, 429)) as stage:
        reason = await failure_at(CHAT, stage.url)

    assert reason == snapshot(
        (
            "auth",
            "Model 'm-1' failed with status 429 (insufficient_quota): You have no money. Check billing and quota.",
        )
    )


@every_api
async def test_a_long_message_is_truncated(api: Api) -> None:
    with provider(Answer(status=500, body=b"<p>" * 9_999, kind="text/html")) as stage:
        _, message = await failure_at(api, stage.url)

    assert message.startswith("Model 'm-1' failed with status 500")
    assert len(message) < 600


@every_api
@pytest.mark.parametrize("stream", [True, False])
async def test_a_refused_connection_names_the_address(api: Api, *, stream: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    reason = await failure_at(api, f"http://127.0.0.1:{free}", stream=stream)

    assert reason == (
        "network",
        f"Cannot connect to 127.0.0.1:{free}: connection refused. Is the server running?",
    )


@every_api
async def test_an_unknown_host_is_named(api: Api) -> None:
    assert await failure_at(api, "http://nowhere.invalid") == (
        "network",
        "Cannot connect to nowhere.invalid: the host name was not found. Check the base URL and your network.",
    )


@every_api
async def test_a_server_without_tls_is_named(api: Api) -> None:
    with provider() as stage:
        kind, message = await failure_at(api, stage.url.replace("http:", "https:"))

    address = stage.url.removeprefix("http://")
    assert kind == "network"
    assert re.fullmatch(
        rf"Cannot connect to {address}: TLS error \([A-Z_]+\). Check the base URL and the certificate.",
        message,
    )


@every_api
async def test_an_address_that_cannot_be_used_is_named(api: Api) -> None:
    kind, message = await failure_at(api, "http://255.255.255.255:9")

    assert kind == "network"
    assert re.fullmatch(
        r"Cannot connect to 255\.255\.255\.255:9: [a-z ]+. Check the base URL and your network.",
        message,
    )


@every_api
async def test_a_base_url_without_a_scheme_is_explained(api: Api) -> None:
    kind, message = await failure_at(api, "127.0.0.1:9")

    assert kind == "network"
    assert message.endswith(
        "failed: Request URL is missing an 'http://' or 'https://' protocol. "
        "Check the base URL and the server."
    )


async def test_a_server_that_does_not_answer_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "127.0.0.1:{1}".format(*silent.getsockname())
        async with AsyncOpenAI(
            base_url=f"http://{address}", api_key=KEY, max_retries=0, timeout=0.01
        ) as client:
            reason = await failure(openai_chat("m-1", client=client))

    assert reason == (
        "network",
        f"The request to {address} failed: timed out. Check the base URL and the server.",
    )


class TwoAddresses(AsyncBaseTransport):
    """Refuses connections as anyio does for a name with two addresses, such as localhost."""

    async def handle_async_request(self, _request: Any) -> Any:
        number = errno.ECONNREFUSED
        refused = [ConnectionRefusedError(number, at) for at in ("::1", "127.0.0.1")]
        raise OSError("All connection attempts failed") from ExceptionGroup("two", refused)


async def test_a_host_with_several_addresses_names_one_cause() -> None:
    http = DefaultAsyncHttpxClient(transport=TwoAddresses())
    async with AsyncOpenAI(api_key=KEY, max_retries=0, http_client=http) as client:
        reason = await failure(openai_chat("m-1", client=client))

    assert reason == (
        "network",
        "Cannot connect to model 'm-1': connection refused. Is the server running?",
    )


@every_api
@pytest.mark.parametrize("ending", ["cut", "unframed"])
async def test_an_incomplete_stream_is_not_a_reply(api: Api, ending: Any) -> None:
    with provider(api.streamed(ending, 3)) as stage:
        reason = await failure_at(api, stage.url)

    assert reason == (
        "network",
        "The connection to model 'm-1' closed before the reply was complete. Retry later.",
    )


@every_api
async def test_a_stream_of_invalid_json_is_not_a_reply(api: Api) -> None:
    name = b"event: message_stop\n" if api is ANTHROPIC else b""
    with provider(replace(api.streamed(), body=name + b"data: {]\n\n")) as stage:
        reason = await failure_at(api, stage.url)

    assert reason == (
        "other",
        "Model 'm-1' sent a response that is not valid JSON. Check the base URL.",
    )


MIDWAY: dict[str, Any] = {
    "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "Full."}},
    "openai_chat": {"error": {"message": "Full.", "code": "rate_limit_exceeded"}},
    "openai_responses": {"type": "error", "code": "rate_limit_exceeded", "message": "Full."},
    "gemini": {"error": {"code": 429, "message": "Full.", "status": "RESOURCE_EXHAUSTED"}},
}
KINDS = {api.name: "overloaded" if api is ANTHROPIC else "rate_limited" for api in APIS}


@every_api
async def test_a_provider_can_fail_in_the_middle_of_a_stream(api: Api) -> None:
    with provider(Answer.stream(*api.events[:2], MIDWAY[api.name])) as stage:
        kind, message = await failure_at(api, stage.url)

    assert kind == KINDS[api.name]
    assert message.endswith(": Full. Retry later.")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_response_that_failed_is_not_a_reply(*, stream: bool) -> None:
    failed = response("failed", error={"code": "server_error", "message": "It fell over."})
    event = {"type": "response.failed", "sequence_number": 1, "response": failed}
    answer = Answer.stream(event) if stream else Answer.plain(failed)
    with provider(answer) as stage:
        reason = await failure_at(RESPONSES, stage.url, stream=stream)

    assert reason == snapshot(
        ("overloaded", "Model 'm-1' failed (server_error): It fell over. Retry later.")
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (anthropic, "No API key for Anthropic. Set ANTHROPIC_API_KEY."),
        (gemini, "No API key for Gemini. Set GEMINI_API_KEY or GOOGLE_API_KEY."),
        (openai_chat, "No API key for OpenAI. Set OPENAI_API_KEY."),
        (openai_responses, "No API key for OpenAI. Set OPENAI_API_KEY."),
    ],
)
async def test_a_missing_key_names_the_variable(
    make: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefixes = ("ANTHR", "GEM", "GOOG", "OPENAI")
    for name in [name for name in os.environ if name.startswith(prefixes)]:
        monkeypatch.delenv(name)

    assert await failure(make("m-1")) == ("auth", message)


@every_api
@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_in_other_code_is_unchanged(api: Api, *, stream: bool) -> None:
    with provider(api.streamed()) as stage:
        model = api.model(stage.url, options={"x": object()}, stream=stream)
        with pytest.raises(TypeError, match="object"):
            await finish(model)


@every_api
async def test_an_sdk_retries(api: Api) -> None:
    """Clients that handrail creates retry, whatever the default of the SDK is."""
    with provider(Answer.plain(error(api, 503), 503), api.streamed()) as stage:
        items = [item async for item in cast("Any", api.model(stage.url)(REQUEST))]

    assert text_and_calls(items) == api.pieces
    assert len(stage.asked) == 2


TOO_LONG: list[tuple[Api, int, dict[str, Any]]] = [
    (
        ANTHROPIC,
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 210000 tokens > 200000 maximum",
            },
        },
    ),
    (
        ANTHROPIC,
        413,
        {"type": "error", "error": {"type": "request_too_large", "message": "Too large"}},
    ),
    (
        CHAT,
        400,
        {
            "error": {
                "message": "This model's maximum context length is 128000 tokens.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
    ),
    (
        CHAT,  # vLLM
        400,
        {
            "error": {
                "message": "This model's maximum context length is 8192 tokens. However, you "
                "requested 9000 tokens.",
                "type": "BadRequestError",
                "code": 400,
            }
        },
    ),
    (
        CHAT,  # llama.cpp
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size. try increasing it",
                "type": "exceed_context_size_error",
            }
        },
    ),
    (
        RESPONSES,
        400,
        {
            "error": {
                "message": "Your input exceeds the context window of this model.",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
    ),
    (
        GEMINI,
        400,
        {
            "error": {
                "code": 400,
                "message": "The input token count (1200000) exceeds the maximum number of tokens "
                "allowed (1048576).",
                "status": "INVALID_ARGUMENT",
            }
        },
    ),
]


@pytest.mark.parametrize(("api", "status", "body"), TOO_LONG)
async def test_a_conversation_that_is_too_long(api: Api, status: int, body: dict[str, Any]) -> None:
    with provider(Answer.plain(body, status)) as stage:
        kind, message = await failure_at(api, stage.url)

    assert kind == "too_long"
    assert message.endswith("Send a shorter conversation.")


OTHERS: list[tuple[Api, int, dict[str, Any], str]] = [
    (
        CHAT,  # Azure
        400,
        {
            "error": {
                "message": "The response was filtered due to the prompt triggering Azure OpenAI's "
                "content management policy.",
                "type": None,
                "param": "prompt",
                "code": "content_filter",
                "status": 400,
                "innererror": {"code": "ResponsibleAIPolicyViolation"},
            }
        },
        "refused",
    ),
    (
        CHAT,  # OpenRouter
        403,
        {"error": {"code": 403, "message": "The model requires moderation. It was flagged."}},
        "refused",
    ),
    (
        CHAT,  # Azure
        404,
        {"error": {"code": "DeploymentNotFound", "message": "The deployment does not exist."}},
        "not_found",
    ),
    (
        GEMINI,
        400,
        {
            "error": {
                "code": 400,
                "message": "Please pass a valid one.",
                "status": "INVALID_ARGUMENT",
                "details": [{"reason": "API_KEY_INVALID"}, "more"],
            }
        },
        "auth",
    ),
    (
        GEMINI,
        400,
        {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}},
        "auth",
    ),
]


@pytest.mark.parametrize(("api", "status", "body", "kind"), OTHERS)
async def test_errors_that_only_their_text_or_code_tells_apart(
    api: Api, status: int, body: dict[str, Any], kind: str
) -> None:
    with provider(Answer.plain(body, status)) as stage:
        assert (await failure_at(api, stage.url))[0] == kind


async def test_a_gateway_can_report_a_status_inside_a_stream() -> None:
    error = {"code": 429, "message": "Rate limited upstream."}
    with provider(Answer.stream(CHAT.events[0], {"error": error, "choices": []})) as stage:
        async with once(CHAT, stage.url) as model:
            raised = await error_of(model)

    assert (raised.kind, raised.status) == ("rate_limited", 429)


async def error_of(model: Model) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await finish(model)
    return raised.value


HEADERS: dict[str, tuple[dict[str, str], float | None, str]] = {
    "seconds": ({"retry-after": "12", "request-id": "r1"}, 12.0, "r1"),
    "milliseconds": ({"retry-after-ms": "1500", "x-request-id": "r2"}, 1.5, "r2"),
    "past": ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT", "apim-request-id": "r3"}, 0.0, "r3"),
    "nonsense": ({"retry-after": "soon"}, None, ""),
    "not a number": ({"retry-after-ms": "nan", "retry-after": "7"}, 7.0, ""),
    "forever": ({"retry-after": "1e400"}, None, ""),
    "nothing": ({}, None, ""),
}


@pytest.mark.parametrize(("headers", "retry_after", "request_id"), HEADERS.values(), ids=HEADERS)
async def test_an_error_has_the_facts_of_the_response(
    headers: dict[str, str], retry_after: float | None, request_id: str
) -> None:
    answer = replace(Answer.plain(error(CHAT, 429, "slow"), 429), headers=headers)
    with provider(answer) as stage:
        async with once(CHAT, stage.url) as model:
            raised = await error_of(model)

    assert (raised.kind, raised.status, raised.code) == ("rate_limited", 429, "slow")
    assert (raised.retry_after, raised.request_id, raised.state) == (retry_after, request_id, None)
    assert type(raised.__cause__).__name__ == "RateLimitError"


async def test_google_says_how_long_to_wait_in_the_body() -> None:
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"},
        {"retryDelay": "later"},
    ]
    body = {
        "error": {
            "code": 429,
            "message": "Quota.",
            "status": "RESOURCE_EXHAUSTED",
            "details": details,
        }
    }
    with provider(Answer.plain(body, 429)) as stage:
        async with once(GEMINI, stage.url) as model:
            raised = await error_of(model)

    assert (raised.kind, raised.code, raised.retry_after) == (
        "rate_limited",
        "RESOURCE_EXHAUSTED",
        34.5,
    )
