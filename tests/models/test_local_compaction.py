"""A real model server with a small window: a conversation is shortened before it is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, Literal, cast

import pytest

import tiny_server
from handrail import READ, Toolset, tool
from handrail.agent import Agent, Compaction, RunState
from handrail.messages import Model, ModelError, Prompt, Reply, Request, StreamItem
from handrail.models import openai_chat

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
WINDOW = 1_024
"""Tokens. The definitions of the tools take a quarter of it."""
CALL = {
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "chat_template_kwargs": {"call_first": True},
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with tiny_server.running(tmp_path_factory.mktemp("small"), WINDOW) as server:
        yield f"{server.url}/v1"


@pytest.fixture
def anyio_backend() -> str:
    """The loops do not differ in what is sent."""
    return "asyncio"


@tool(effect=READ)
def paint(color: Literal["red", "blue"]) -> str:
    """Find paints of a color."""
    return f"Paints in {color}: " + ", ".join(f"number {n} of {color}" for n in range(30))


def watched(url: str, seen: Counter[str]) -> Model:
    """A model that calls a tool after a prompt, and talks after its result."""
    fixed = {"temperature": 0}
    calling = openai_chat("tiny", base_url=url, max_tokens=64, options={**fixed, **CALL})
    talking = openai_chat("tiny", base_url=url, max_tokens=8, options=fixed)

    async def ask(request: Request) -> AsyncIterator[StreamItem]:
        is_summary = request.tool_choice == "none"
        calls = isinstance(request.messages[-1], Prompt) and not is_summary
        try:
            async for item in cast("Any", (calling if calls else talking)(request)):
                if isinstance(item, Reply):
                    seen["summaries" if is_summary else "turns"] += 1
                yield replace(item, stop="end") if isinstance(item, Reply) and not calls else item
        except ModelError as error:
            seen[error.kind] += 1
            raise

    return ask


async def talk(agent: Agent, prompts: int) -> tuple[RunState, int]:
    """Ask one question after the other. Returns how often the history was shortened."""
    state, cuts = RunState(), set[object]()
    for number in range(prompts):
        done = await agent.run(f"Question {number}: which paint?", history=state)
        assert done.stop_reason == "answer"
        state = done.state
        cuts.add(state.shortened)
    return state, len(cuts) - 1


async def test_twenty_turns_are_shortened_and_never_refused(url: str) -> None:
    """The control has no compaction."""
    seen, control = Counter[str](), Counter[str]()
    compaction = Compaction(window=WINDOW, keep_turns=1)

    state, cuts = await talk(Agent(watched(url, seen), Toolset(paint), compaction=compaction), 10)
    with pytest.raises(ModelError):
        await Agent(watched(url, control), Toolset(paint)).run("And now?", history=state)

    assert (seen["turns"], seen["too_long"], control["too_long"]) == (20, 0, 1)
    assert min(cuts, seen["summaries"]) >= 2, (cuts, seen)
