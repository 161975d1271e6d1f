"""A long run under a small window: facts from its way are still sent, or can be read again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from agent.stage import owed, results, says
from conftest import PROFILE
from handrail import READ, Call, Text, ToolFailed, Toolset, tool
from handrail.agent import Agent, Compaction, Limits, Run, RunState, dump_state, load_state
from handrail.messages import ModelError, Prompt, Reply, Request, ToolResults, Usage


class Scale(NamedTuple):
    """How long a run is, and how much of it fits the window."""

    turns: int
    window: int
    chars: int = 5_200
    """Of each result."""


SCALE = Scale(400, 32_000) if PROFILE == "soak" else Scale(60, 6_400)
CHARS_PER_TOKEN = 4
PLACES = ("prompt", "sent later", "said", "asked for", *["found"] * 5, "failed")
"""Where each of the ten facts is planted: by the user, by the model, and in results."""


class Fact(NamedTuple):
    """A name and a number, planted in one turn."""

    turn: int
    place: str
    name: str
    value: str

    @property
    def text(self) -> str:
        return f"The number of {self.name} is {self.value}."


def facts() -> list[Fact]:
    dice = random.Random(7)  # noqa: S311
    turns = sorted(dice.sample(range(1, SCALE.turns - 5), len(PLACES)))
    turns[0] = 0
    return [
        Fact(turn, place, f"gate{n}", str(dice.randrange(10**9, 10**10)))
        for n, (turn, place) in enumerate(zip(turns, PLACES, strict=True))
    ]


FACTS = facts()


def planted(turn: int, place: str) -> str:
    return "".join(fact.text for fact in FACTS if (fact.turn, fact.place) == (turn, place))


@dataclass
class Traveller:
    """A model that reads a page in each turn, and refuses requests over its window."""

    run: Run[Any] | None = None
    turn: int = 0
    seen: Counter[str] = field(default_factory=Counter[str])

    async def __call__(self, request: Request) -> Reply:
        tokens = len(repr(request.messages)) // CHARS_PER_TOKEN
        if tokens > SCALE.window:
            self.seen["refused"] += 1
            raise ModelError("The prompt is too long.", "too_long")
        used = Usage(input_tokens=tokens, output_tokens=10)
        if request.tool_choice == "none":
            self.seen["summaries"] += 1
            return Reply((Text("We read pages."),), "end", used)
        self.turn += 1
        if self.turn > SCALE.turns:
            return Reply((Text("done"),), "end", used)
        if (later := planted(self.turn, "sent later")) and self.run is not None:
            self.run.send(later)
        said = Text(f"Next page. {planted(self.turn, 'said')}")
        page = {"page": self.turn, "note": planted(self.turn, "asked for")}
        return Reply((said, Call("fetch", page, "call_0")), "calls", used)


def book() -> Toolset:
    @tool(effect=READ)
    async def fetch(page: int, note: str) -> str:
        """Fetch a page."""
        dice = random.Random(page)  # noqa: S311
        noise = "".join(dice.choices("abcdefgh \n", k=SCALE.chars))
        cut = dice.randrange(SCALE.chars)
        if failed := planted(page, "failed"):
            raise ToolFailed(f"{noise[:cut]}{failed}{noise[cut:]}")
        return f"{noise[:cut]}{planted(page, 'found')}{noise[cut:]}"

    return Toolset(fetch)


async def travel(**options: Any) -> tuple[RunState, Counter[str]]:
    model = Traveller()
    agent = Agent(model, book(), limits=Limits(turns=None), **options)
    model.run = agent.run(f"Read all pages. {planted(0, 'prompt')}")
    done = await model.run
    assert done.stop_reason == "answer"
    owed(done.state.transcript())
    return done.state, model.seen


async def recall(fact: Fact, state: RunState, **options: Any) -> str:
    """How a model that is asked for a fact gets it."""

    async def model(request: Request) -> Reply:
        if request.tool_choice == "none":
            return says("We read pages.")
        last = request.messages[-1]
        if isinstance(last, ToolResults):
            return says("read" if fact.value in last.results[0].text else "lost")
        if fact.value in repr(request.messages):
            return says("sent")
        if request.tools.find("read_earlier") is None:
            return says("lost")
        return Reply((Call("read_earlier", {"search": f"number of {fact.name} is"}, "r"),), "calls")

    agent = Agent(model, book(), **options)
    return (await agent.run(f"Which one was at {fact.name}?", history=state)).text


COMPACTION = Compaction(window=SCALE.window)


async def test_no_planted_fact_is_lost() -> None:
    state, seen = await travel(compaction=COMPACTION)
    saved = load_state(dump_state(state))
    found = {fact.name: await recall(fact, saved, compaction=COMPACTION) for fact in FACTS}

    assert (seen["refused"], seen["summaries"] > 1) == (0, True)
    assert sum(len(one.text) for one in results(state.messages)) > SCALE.turns * 5_000
    assert [name for name, how in found.items() if how == "lost"] == []
    assert Counter(found.values())["read"] >= 5, "most of them are no longer sent"


def keep_last(request: Request) -> Request:
    """A simple way to save tokens: only the last turns are sent."""
    return request._replace(messages=(Prompt.of("Read all pages."), *request.messages[-6:]))


@pytest.mark.parametrize(
    ("options", "drop"),
    [
        ({"prepare": keep_last}, lambda state: state),
        ({"compaction": COMPACTION}, lambda state: state._replace(messages=state.messages[-7:])),
    ],
    ids=["messages that are not sent", "a transcript that is cut"],
)
async def test_a_compaction_that_drops_is_caught(
    options: dict[str, Any], drop: Callable[[RunState], RunState]
) -> None:
    state, _ = await travel(**options)
    kept = drop(state)._replace(shortened=RunState().shortened)

    found = [await recall(fact, kept, **options) for fact in FACTS]

    assert found.count("lost") >= 9
