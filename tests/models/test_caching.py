"""Prompt caching of Anthropic: what the requests of a run cost, computed from the bodies sent."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import pytest

from handrail import READ, Toolset, tool
from handrail.agent import Agent
from handrail.messages import (
    Message,
    Prompt,
    Reasoning,
    Reply,
    Request,
    Text,
)
from handrail.models import anthropic
from models.stage import Answer, provider
from models.talk import ANTHROPIC, CHAT, RESPONSES, Api

READ_PRICE, WRITE_PRICE = 0.1, 1.25
LOOK_BACK = 20
"""Blocks before a mark in which the provider looks for a prefix that it has."""
CHARS_PER_TOKEN = 4


@pytest.fixture
def anyio_backend() -> str:
    """The loops do not differ in what is sent."""
    return "asyncio"


class Piece(NamedTuple):
    """A block of a request, in the order of the cache: tools, system, messages."""

    text: str
    marked: bool

    @property
    def tokens(self) -> float:
        return len(self.text) / CHARS_PER_TOKEN


def pieces(body: dict[str, Any]) -> list[Piece]:
    blocks = [*body["tools"]]
    system = body["system"]
    blocks += [{"type": "text", "text": system}] if isinstance(system, str) else system
    for message in body["messages"]:
        blocks += [{"role": message["role"], **block} for block in message["content"]]
    assert sum("cache_control" in block for block in blocks) <= 4
    return [_piece(block) for block in blocks]


def _piece(block: dict[str, Any]) -> Piece:
    kept = {name: value for name, value in block.items() if name != "cache_control"}
    return Piece(json.dumps(kept), "cache_control" in block)


def cost(bodies: list[list[Piece]]) -> float:
    """The input cost of requests, as the provider computes it, in tokens of full price."""
    cached: set[tuple[Piece | str, ...]] = set()
    total = 0.0
    for body in bodies:
        texts = [piece.text for piece in body]
        marks = [at + 1 for at, piece in enumerate(body) if piece.marked]
        looked = [at for mark in marks for at in range(mark, max(mark - LOOK_BACK, 0), -1)]
        hit = max((at for at in looked if tuple(texts[:at]) in cached), default=0)
        last = max(marks, default=0)
        tokens = [piece.tokens for piece in body]
        total += sum(tokens[:hit]) * READ_PRICE + sum(tokens[hit:last]) * WRITE_PRICE
        total += sum(tokens[last:])
        cached |= {tuple(texts[:mark]) for mark in marks}
    return total


def best(bodies: list[list[Piece]]) -> float:
    """The least that is possible: everything is written once, and read in each later request."""
    total, before = 0.0, 0.0
    for number, body in enumerate(bodies, 1):
        tokens = sum(piece.tokens for piece in body)
        price = WRITE_PRICE if number < len(bodies) else 1.0
        total += before * READ_PRICE + (tokens - before) * price
        before = tokens
    return total


@tool(effect=READ)
def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}\n" + "x" * 7_500


def turn(number: int, calls: int) -> Answer:
    """A reply with so many calls."""
    head, *_, delta, end = ANTHROPIC.events
    blocks: list[dict[str, Any]] = []
    for index in range(calls):
        name = f"c{number}-{index}"
        use = {"type": "tool_use", "id": name, "name": "read_file", "input": {}}
        args = {"type": "input_json_delta", "partial_json": json.dumps({"path": name})}
        blocks += [
            {"type": "content_block_start", "index": index, "content_block": use},
            {"type": "content_block_delta", "index": index, "delta": args},
            {"type": "content_block_stop", "index": index},
        ]
    return Answer.stream(head, *blocks, delta, end)


def last_turn() -> Answer:
    head, *_, delta, end = ANTHROPIC.events
    start = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    }
    text = {"type": "text_delta", "text": "Done."}
    block = {"type": "content_block_delta", "index": 0, "delta": text}
    done = {**delta, "delta": {"stop_reason": "end_turn", "stop_sequence": None}}
    return Answer.stream(head, start, block, {"type": "content_block_stop", "index": 0}, done, end)


async def run(turns: int, calls: int, **options: Any) -> list[list[Piece]]:
    """The requests of a run that begins with 10,000 tokens, and adds 2,000 for each call."""
    answers = [turn(number, calls) for number in range(turns - 1)]
    with provider(*answers, last_turn()) as stage:
        async with anthropic("claude-opus-5", base_url=stage.url, **options) as model:
            agent = Agent(model, Toolset(read_file), system="y" * 39_000)
            done = await agent.run("Fix the bug.")

    assert (done.stop_reason, len(stage.asked)) == ("answer", turns)
    return [pieces(asked.body) for asked in stage.asked]


async def test_a_long_run_costs_little_more_than_the_least_possible() -> None:
    """The control has no marks."""
    bodies = await run(20, 1)
    uncached = [[piece._replace(marked=False) for piece in body] for body in bodies]

    assert cost(bodies) / best(bodies) <= 1.25
    assert cost(uncached) / cost(bodies) > 4.5


async def test_without_caching_the_same_is_sent_without_marks() -> None:
    bodies, unmarked = await run(3, 1), await run(3, 1, cache=False)

    assert [text_of(body) for body in bodies] == [text_of(body) for body in unmarked]
    assert not any(piece.marked for body in unmarked for piece in body)


def text_of(body: list[Piece]) -> list[str]:
    return [piece.text for piece in body]


async def test_the_prefix_of_a_run_never_changes() -> None:
    bodies = [text_of(body) for body in await run(4, 2)]

    for earlier, later in itertools.pairwise(bodies):
        assert later[: len(earlier)] == earlier


async def test_a_turn_with_many_calls_is_found_in_the_cache() -> None:
    """The provider looks back twenty blocks. The control has only the mark at the end."""
    bodies = await run(5, 15)
    control = [[*_unmarked(body)] for body in bodies]

    assert cost(bodies) / best(bodies) <= 1.25
    assert cost(control) / best(bodies) > 1.5


def _unmarked(body: list[Piece]) -> Iterator[Piece]:
    """A request without the mark at the end of the previous one."""
    marks = [at for at, piece in enumerate(body) if piece.marked]
    for at, piece in enumerate(body):
        yield piece._replace(marked=False) if len(marks) > 3 and at == marks[2] else piece


MARK = {"cache_control": {"type": "ephemeral"}}
WEB = {"type": "web_search_20250305", "name": "web_search"}


async def sent(request: Request, api: Api = ANTHROPIC, **options: Any) -> dict[str, Any]:
    with provider(api.streamed()) as stage:
        async for _ in cast("Any", api.model(stage.url, **options)(request)):
            pass
    body: dict[str, Any] = stage.asked[0].body
    return body


def marked(blocks: list[dict[str, Any]]) -> list[bool]:
    return [block.get("cache_control") == MARK["cache_control"] for block in blocks]


async def test_a_deferred_tool_is_not_marked() -> None:
    history: tuple[Message, ...] = (Prompt.of("Hi."),)
    rare = {**WEB, "defer_loading": True}
    both = await sent(Request(history, Toolset(read_file)), server_tools=[rare])
    deferred = await sent(Request(history), server_tools=[rare])

    assert (marked(both["tools"]), marked(deferred["tools"])) == ([True, False], [False])


async def test_reasoning_is_not_marked() -> None:
    """A request can end with a reply, if the provider has paused."""
    thought = Reasoning("Hm.", "sealed", "anthropic")
    paused = await sent(Request((Prompt.of("Hi."), Reply((thought, Text("Let me see."))))))

    assert [marked(message["content"]) for message in paused["messages"]] == [[True], [False, True]]


async def test_a_callers_own_mark_is_enough() -> None:
    request = Request((Prompt.of("Hi."),), Toolset(read_file), "Be brief.")
    of_tools = await sent(request, server_tools=[{**WEB, **MARK}])
    automatic = await sent(request, options=MARK)

    assert marked(of_tools["tools"]) == [False, True]
    assert (automatic["system"], marked(automatic["tools"])) == ("Be brief.", [False])
    assert automatic["cache_control"] == MARK["cache_control"]


BLOCK = {"type": "text", "text": "Be brief.", **MARK}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (1, 1, [True, False, True])),
        ({"server_tools": [{**WEB, **MARK}] * 2}, (2, 1, [False, False, True])),
        ({"server_tools": [{**WEB, **MARK}] * 3}, (3, 1, [False, False, False])),
        ({"server_tools": [{**WEB, **MARK}] * 4}, (4, 0, [False, False, False])),
        ({"options": {"system": [BLOCK, BLOCK]}}, (1, 2, [False, False, True])),
        ({"options": {"system": "Be brief."}}, (1, 0, [True, False, True])),
        ({"options": {"system": [BLOCK] * 4}}, (1, 4, [False, False, False])),
    ],
)
async def test_a_callers_own_marks_leave_room_for_fewer(
    options: dict[str, Any], expected: tuple[int, int, list[bool]]
) -> None:
    history: tuple[Message, ...] = (Prompt.of("Hi."), Reply((Text("Hi."),)), Prompt.of("Go."))
    body = await sent(Request(history, Toolset(read_file), "Be brief."), **options)

    counts = [repr(body[field]).count("cache_control") for field in ("tools", "system")]
    ends = [any(marked(message["content"])) for message in body["messages"]]
    assert (*counts, ends) == expected


async def test_without_messages_only_the_rest_is_marked() -> None:
    body = await sent(Request((), system="Be brief."))

    assert (marked(body["system"]), body["messages"]) == ([True], [])


@pytest.mark.parametrize("api", [CHAT, RESPONSES], ids=lambda api: api.name)
async def test_a_cache_key_of_openai_is_sent_by_choice(api: Api) -> None:
    request = Request((Prompt.of("Hi."),))

    assert (await sent(request, api, cache_key="team-1"))["prompt_cache_key"] == "team-1"
    assert "prompt_cache_key" not in await sent(request, api)


async def test_models_have_their_own_default_limit() -> None:
    limits = {
        name: (await sent_by(name))["max_tokens"]
        for name in (
            "claude-3-haiku-20240307",
            "anthropic/claude-3.5-haiku",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "claude-opus-5",
            "qwen3",
        )
    }

    assert list(limits.values()) == [4_096, 8_192, 32_000, 32_000, 4_096]


async def sent_by(name: str) -> dict[str, Any]:
    with provider(ANTHROPIC.streamed()) as stage:
        async for _ in cast("Any", anthropic(name, base_url=stage.url)(Request((Prompt.of("x"),)))):
            pass
    body: dict[str, Any] = stage.asked[0].body
    return body
