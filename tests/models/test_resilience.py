"""Models that retry, and models that ask others: what they pass on, and when they give up."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import virtual_time
from handrail import Call, Text
from handrail.messages import (
    Delta,
    Model,
    ModelError,
    ModelErrorKind,
    Prompt,
    Reply,
    Request,
    Restart,
    StreamItem,
    Usage,
)
from handrail.models import anthropic, fallback, retrying
from models.stage import Answer, provider
from models.talk import ANTHROPIC

REQUEST = Request((Prompt.of("Go."),))
CALL = Call("pay", "{}", "c1")
REPLY = Reply((Text("Hello."), CALL), "calls", Usage(input_tokens=10, output_tokens=5))
GOOD: list[StreamItem | ModelError] = [Delta("Hello."), CALL, REPLY]


def failure(kind: ModelErrorKind = "overloaded", **more: Any) -> ModelError:
    return ModelError(f"It is {kind}.", kind, **more)


def model_of(*attempts: list[StreamItem | ModelError]) -> tuple[Model, list[float]]:
    """A model that streams these items, one list for each request; and when it was asked."""
    asked: list[float] = []
    left = iter(attempts)

    async def replies(_request: Request) -> AsyncIterator[StreamItem]:
        asked.append(anyio.current_time())
        for item in next(left):
            if isinstance(item, ModelError):
                raise item
            yield item

    return replies, asked


async def collect(model: Model) -> list[StreamItem]:
    return [item async for item in cast("AsyncIterator[StreamItem]", model(REQUEST))]


def run(model: Model, backend: str = "asyncio") -> list[StreamItem]:
    return virtual_time.run(backend, collect, model)


def give_up(model: Model) -> ModelError:
    with pytest.raises(ModelError) as raised:
        run(model)
    return raised.value


@pytest.fixture(params=virtual_time.BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


def test_a_reply_passes_unchanged(backend: str) -> None:
    for wrap in (retrying, fallback):
        assert run(wrap(model_of(GOOD)[0]), backend) == GOOD


def test_a_failure_before_any_text_is_invisible(backend: str) -> None:
    model, asked = model_of([failure()], [failure("network")], GOOD)

    assert run(retrying(model), backend) == GOOD
    first, second, third = asked
    assert 1.0 <= second - first <= 1.25
    assert 2.0 <= third - second <= 2.5


def test_a_reply_that_fails_in_the_middle_starts_again(backend: str) -> None:
    """Calls are held back until the reply is complete: nothing has to be undone."""
    model, _ = model_of([Delta("Hel"), CALL, failure("network")], GOOD)

    assert run(retrying(model), backend) == [
        Delta("Hel"),
        Restart("It is network."),
        Delta("Hello."),
        CALL,
        REPLY,
    ]


def test_the_next_model_starts_again() -> None:
    first, _ = model_of([Delta("Hel"), CALL, failure("network")])
    second, _ = model_of(GOOD)

    assert run(fallback(first, second)) == [Delta("Hel"), Restart("It is network."), *GOOD]


def test_each_attempt_that_sent_text_has_one_restart() -> None:
    model, _ = model_of([Delta("a"), failure()], [failure()], [Delta("b"), failure()], GOOD)

    assert run(retrying(model, tries=4)) == [
        Delta("a"),
        Restart("It is overloaded."),
        Delta("b"),
        Restart("It is overloaded."),
        *GOOD,
    ]


def test_the_tokens_of_failed_attempts_are_counted() -> None:
    failed = failure()
    failed.usage = Usage(input_tokens=7, output_tokens=1)
    for wrapped in (
        retrying(model_of([failed], GOOD)[0]),
        fallback(model_of([failed])[0], model_of(GOOD)[0]),
    ):
        reply = cast("Reply", run(wrapped)[-1])
        assert reply.usage == Usage(input_tokens=17, output_tokens=6)


def test_the_tokens_of_a_broken_stream_are_known() -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Full."}}
    answers = Answer.stream(*ANTHROPIC.events[:4], overloaded), ANTHROPIC.streamed()

    async def ask() -> list[StreamItem]:
        with provider(*answers) as stage:
            async with anthropic("m-1", base_url=stage.url) as model:
                return await collect(retrying(model, wait=0))

    items = anyio.run(ask)

    reason = "Model 'm-1' failed (overloaded_error): Full."
    assert items[:3] == [Delta("Let me "), Delta("see."), Restart(reason)]
    assert cast("Reply", items[-1]).usage == ANTHROPIC.reply.usage + Usage(
        input_tokens=12, output_tokens=1, cached_tokens=4
    )


def test_the_providers_own_wait_is_kept() -> None:
    model, asked = model_of([failure("rate_limited", retry_after=30.0)], GOOD)

    assert run(retrying(model)) == GOOD
    assert 30.0 <= asked[1] - asked[0] <= 37.5


def test_a_wait_that_is_too_long_is_an_error() -> None:
    model, asked = model_of([failure("rate_limited", retry_after=3600.0)], GOOD)

    assert give_up(retrying(model)).retry_after == 3600.0
    assert len(asked) == 1


def test_waits_do_not_grow_over_the_maximum() -> None:
    model, asked = model_of(*[[failure()]] * 4, GOOD)

    assert run(retrying(model, tries=5, wait=10, max_wait=15)) == GOOD
    waits = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert all(10 <= wait <= 18.75 for wait in waits)


def test_the_last_error_is_raised() -> None:
    errors = [failure(), failure("network"), failure("rate_limited")]
    model, asked = model_of(*[[error] for error in errors])

    assert give_up(retrying(model)) is errors[2]
    assert len(asked) == 3


@pytest.mark.parametrize("kind", ["too_long", "refused", "auth", "not_found", "other"])
def test_an_error_that_stays_is_not_retried(kind: ModelErrorKind) -> None:
    model, asked = model_of([failure(kind)], GOOD)

    assert give_up(retrying(model)).kind == kind
    assert len(asked) == 1


@pytest.mark.parametrize("kind", ["refused", "other"])
def test_an_error_that_every_model_has_is_raised(kind: ModelErrorKind) -> None:
    other, asked = model_of(GOOD)

    assert give_up(fallback(model_of([failure(kind)])[0], other)).kind == kind
    assert asked == []


def test_the_kinds_can_be_chosen() -> None:
    refusing = model_of([failure("refused")], GOOD)[0]

    assert run(retrying(refusing, kinds={"refused"})) == GOOD
    assert (
        run(fallback(model_of([failure("other")])[0], model_of(GOOD)[0], kinds={"other"})) == GOOD
    )


def test_if_all_models_fail_the_last_error_is_raised() -> None:
    last = failure("rate_limited")

    assert give_up(fallback(model_of([failure("auth")])[0], model_of([last])[0])) is last


def test_models_without_a_stream_are_asked_too() -> None:
    replies = iter([failure(), REPLY])

    async def whole(_request: Request) -> Reply:
        reply = next(replies)
        if isinstance(reply, ModelError):
            raise reply
        return reply

    assert run(retrying(whole)) == [REPLY]


class Plain:
    """A stream that is not a generator."""

    def __init__(self) -> None:
        self._left = iter([Delta("Hello."), REPLY])

    def __aiter__(self) -> Plain:
        return self

    async def __anext__(self) -> StreamItem:
        try:
            return next(self._left)
        except StopIteration:
            raise StopAsyncIteration from None


def test_any_stream_can_be_wrapped() -> None:
    assert run(fallback(lambda _: Plain())) == [Delta("Hello."), REPLY]


def test_leaving_a_stream_closes_the_models_stream() -> None:
    ended: list[str] = []

    async def endless(_request: Request) -> AsyncIterator[StreamItem]:
        try:
            while True:
                yield Delta("x")
        finally:
            ended.append("closed")

    async def leave() -> None:
        stream: Any = retrying(fallback(endless))(REQUEST)
        await anext(stream)
        await stream.aclose()

    virtual_time.run("asyncio", leave)

    assert ended == ["closed"]


PIECES = st.lists(
    st.sampled_from([Delta("a"), Delta("b"), Delta("c", thought=True), CALL]), max_size=4
)
KINDS = st.sampled_from(["rate_limited", "overloaded", "network", "refused", "auth"])
FAILING = st.tuples(PIECES, KINDS)


@given(st.lists(FAILING, max_size=5), PIECES, st.sampled_from(["retrying", "fallback"]))
def test_a_reader_always_has_the_text_and_the_calls_of_one_reply(
    failing: list[tuple[list[StreamItem], ModelErrorKind]], last: list[StreamItem], how: str
) -> None:
    """Whatever fails: what follows the last restart is one reply, or the error is raised."""
    attempts: list[list[StreamItem | ModelError]] = [
        [*items, failure(kind)] for items, kind in failing
    ]
    text = "".join(item.text for item in last if isinstance(item, Delta) and not item.thought)
    calls = [item for item in last if isinstance(item, Call)]
    reply = Reply((Text(text), *calls), "calls")
    attempts.append([*last, reply])
    if how == "retrying":
        stays = any(kind in ("refused", "auth") for _, kind in failing)
        model = retrying(model_of(*attempts)[0], tries=len(attempts), wait=0)
    else:
        stays = any(kind == "refused" for _, kind in failing)
        model = fallback(*[model_of(attempt)[0] for attempt in attempts])
    items = partial_run(model)

    ended = isinstance(items[-1], Reply) if items else False
    assert ended is not stays
    restarts = [at for at, item in enumerate(items) if isinstance(item, Restart)]
    shown = items[restarts[-1] + 1 :] if restarts else items
    if ended:
        assert shown == [*[item for item in last if isinstance(item, Delta)], *calls, reply]
    assert [item for item in items if isinstance(item, Call)] == (calls if ended else [])


def partial_run(model: Model) -> list[StreamItem]:
    """The items of a stream, up to its end or its error."""
    items: list[StreamItem] = []

    async def read() -> None:
        with suppress(ModelError):
            async for item in cast("AsyncIterator[StreamItem]", model(REQUEST)):
                items.append(item)  # noqa: PERF401  those before an error are kept

    virtual_time.run("asyncio", read)
    return items


def test_wrong_arguments_are_errors() -> None:
    with pytest.raises(ValueError, match="tries must be at least 1, got 0"):
        retrying(model_of()[0], tries=0)
    with pytest.raises(ValueError, match="fallback needs at least one model"):
        fallback()
