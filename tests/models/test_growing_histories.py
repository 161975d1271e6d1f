"""Histories that grow: each request has what a model sends for messages that it sees first."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from itertools import chain, zip_longest
from typing import Any, cast

import pytest

from handrail import READ, Call, Image, Result, Toolset, tool
from handrail.messages import Message, Prompt, Reply, Request, Text, ToolResults
from models.stage import provider
from models.talk import APIS, Api


@pytest.fixture
def anyio_backend() -> str:
    """The loops do not differ in what is sent."""
    return "asyncio"


every_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
TURNS = 4
MORE_THAN_ARE_KEPT = 10


@tool(effect=READ)
def look(at: str) -> str:
    """Look at something."""
    return at


TOOLS = Toolset(look)


def turn(number: int, text: str = "seen") -> tuple[Message, Message]:
    """A reply with two calls, one of which has the same id in every turn, and their results."""
    calls = (Call("look", {"at": f"a{number}"}, "same"), Call("look", {"at": "b"}, f"c{number}"))
    results = (Result("same", text), Result(f"c{number}", "", (Image(b"x", "image/png"),)))
    return Reply((Text(f"Turn {number}."), *calls)), ToolResults(results)


def growing(topic: str, turns: int = TURNS) -> list[Request]:
    """The requests of a run: each has the messages of the one before, and a turn."""
    messages: list[Message] = [Prompt.of(topic)]
    made: list[Request] = []
    for number in range(turns):
        made.append(Request(tuple(messages), TOOLS, "Be brief."))
        messages += turn(number)
    return made


async def sent(api: Api, requests: Sequence[Request]) -> list[Any]:
    """The bodies of these requests to one model; None for one that it refused."""
    bodies: list[Any] = []
    with provider(api.streamed()) as stage:
        async with cast("Any", api.model(stage.url)) as model:
            for request in requests:
                before = len(stage.asked)
                with suppress(ValueError):
                    async for _ in model(request):
                        pass
                bodies.append(stage.asked[-1].body if len(stage.asked) > before else None)
    return bodies


def copied(request: Request) -> Request:
    """An equal request, whose messages no model has seen."""
    return request._replace(messages=tuple(map(copy, request.messages)))


async def assert_equal(api: Api, requests: Sequence[Request]) -> list[Any]:
    bodies = await sent(api, requests)

    assert bodies == await sent(api, [*map(copied, requests)])
    return bodies


@every_api
async def test_each_request_has_the_whole_history(api: Api) -> None:
    bodies = await assert_equal(api, growing("Hi."))

    assert len({str(body) for body in bodies}) == TURNS


@every_api
async def test_conversations_take_turns(api: Api) -> None:
    both = zip_longest(growing("One."), growing("Two.", TURNS + 1))
    more = [growing(f"{number}.", 1)[0] for number in range(MORE_THAN_ARE_KEPT)]

    await assert_equal(api, [one for one in chain(*both, more, growing("One.")) if one])


@every_api
async def test_a_branch_and_a_changed_message_are_converted_anew(api: Api) -> None:
    first, *_, last = growing("Hi.")
    other = Request((*first.messages, *turn(7)), TOOLS, "Be brief.")
    changed = Request((*last.messages[:2], turn(0, "shortened")[1], *last.messages[3:]), TOOLS)

    bodies = await assert_equal(api, [first, last, other, last, changed, first])

    assert "shortened" in str(bodies[4])
    assert "shortened" not in str(bodies[3])


@every_api
async def test_a_history_that_cannot_be_converted_spoils_no_later_one(api: Api) -> None:
    first, second, *_ = growing("Hi.")
    wrong = Request((*first.messages, *turn(0), turn(1)[0]), TOOLS, "Be brief.")

    bodies = await assert_equal(api, [first, wrong, second, wrong, *growing("Hi.")])

    assert [body is None for body in bodies[:4]] == [False, True, False, True]
