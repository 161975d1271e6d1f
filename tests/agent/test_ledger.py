"""Streams in any order, with failures, fallbacks and kills: effects and history agree.

Each call of a script changes a place of its own, so that an outside record of effects can be
compared with the history.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from agent.stage import owed, says
from conftest import PROFILE
from handrail import (  # fmt: skip
    READ,
    Call,
    Executor,
    FailureKind,
    Result,
    Toolset,
    reads_file,
    tool,
    writes_file,
)
from handrail.agent import Agent, Limits, RunState, dump_state, load_state
from handrail.messages import (  # fmt: skip
    Delta,
    Model,
    ModelError,
    Prompt,
    Reply,
    Request,
    StreamItem,
    ToolResults,
)
from handrail.models import fallback, retrying
from virtual_time import BACKENDS

RUNS = {"brief": 60, "soak": 20_000}.get(PROFILE, 300)
TURNS = 3
KINDS = ("killed", "early", "again", "killed_in_call", "whole", "retrying", "fallback")
"""What must be in the runs, each often enough."""


class Killed(BaseException):
    """The process ends here."""


@dataclass
class World:
    """Tools that record what they did, outside of any history."""

    did: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    paid: Callable[[str], None] = lambda _: None
    """Called when something is paid. The process may end there."""

    def tools(self) -> Toolset:
        @tool(effect=READ, touches=reads_file)
        async def look(path: str) -> str:
            """Look at something."""
            self.did.append(("look", path))
            await anyio.lowlevel.checkpoint()
            return f"seen {path}"

        @tool(touches=writes_file)
        async def pay(path: str) -> str:
            """Pay someone."""
            await anyio.lowlevel.checkpoint()
            self.did.append(("pay", path))
            self.paid(path)
            await anyio.lowlevel.checkpoint()
            return f"paid {path}"

        return Toolset(look, pay)


@dataclass
class Script:
    """What a model does in each turn, drawn from a seed."""

    seed: int
    faults: bool = True

    def turn(self, number: int, attempt: int) -> list[StreamItem | str]:
        """The items of one stream, with the faults between them."""
        dice = random.Random(f"{self.seed} {number} {attempt}")  # noqa: S311
        place = f"{number}.{attempt}"
        shared = dice.random() < 0.2
        calls = [
            Call(dice.choice(["look", "pay"]), {"path": f"{place}.{n}"}, "x" if shared else f"c{n}")
            for n in range(dice.randrange(1, 4))
        ]
        left_over = [
            Call(dice.choice(["look", "pay"]), {"path": f"{place}.old{n}"}, f"old{n}")
            for n in range(dice.choice([0, 0, 1, 2]))
        ]
        early = [call for call in calls if dice.random() < 0.7]
        dice.shuffle(early)
        items: list[StreamItem | str] = [*left_over, *early, Delta("Hm.")]
        items += ["wait"] * dice.randrange(4)
        if self.faults and dice.random() < 0.3:
            faults = ["fail", "interrupt", "kill"] if self.kills else ["fail", "interrupt"]
            items.append(dice.choice(faults))
        dice.shuffle(items)
        return [*items, Reply(tuple(calls), "calls")]

    @property
    def kills(self) -> bool:
        """Whether the process is killed now and then: what was only read may then be lost."""
        return self.faults and self.seed % 2 == 0

    @property
    def kind(self) -> str:
        """The kind of the model: it streams or not, retries, or is replaced by another."""
        return random.Random(f"{self.seed} kind").choice(["stream", "stream", "whole", "retrying", "fallback"])  # noqa: S311  # fmt: skip

    def kills_in(self, path: str) -> bool:
        """Whether the process is killed while something is paid."""
        return random.Random(f"{self.seed} pay {path}").random() < 0.15 and self.kills  # noqa: S311

    def kills_at(self, save: int) -> str:
        """Whether the process is killed at a save, before or after it is written."""
        if not self.kills:
            return ""
        return random.Random(f"{self.seed} save {save}").choice(["", "", "", "before", "after"])  # noqa: S311


def calls_and_results(state: RunState) -> dict[str, tuple[str, Result]]:
    """The tool and the result of each call in the record of a run, by its place."""
    told: dict[str, tuple[str, Result]] = {}
    for message, after in pairwise(state.messages):
        if isinstance(message, Reply) and isinstance(after, ToolResults):
            by_id = {result.call_id: result for result in after.results}
            told |= {place_of(call): (call.name, by_id[call.id]) for call in message.calls}
    return told | {place_of(call): (call.name, result) for call, result in state.discarded}


def place_of(call: Call) -> str:
    return str(cast("dict[str, Any]", call.args)["path"])


def problems(state: RunState, did: Sequence[tuple[str, str]], *, killed: bool) -> list[str]:
    """Where the record of effects and the history differ. A kill may lose what was only read."""
    told, found = calls_and_results(state), list[str]()
    for (name, path), times in Counter(did).items():
        known = told.get(path)
        if known is None:
            found += [] if killed and name == "look" else [f"{path} is not recorded"]
        elif known[1].failure and known[1].text.startswith("Not run"):
            found.append(f"{path} is said not to have run")
        if times > 1 and name == "pay":
            found.append(f"{path} was paid {times} times")
    return found


def is_killed(error: BaseException) -> bool:
    """Whether it is only the end of the process."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_killed(one) for one in error.exceptions)
    return isinstance(error, Killed)


@dataclass
class Play:
    """One run of a script to its answer, through failures, interruptions and kills."""

    script: Script
    world: World = field(default_factory=World)
    attempts: Counter[int] = field(default_factory=Counter[int])
    saved: RunState | None = None
    saves: int = 0
    killed: bool = False
    killed_in_call: bool = False
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    run: Any = None

    async def model(self, request: Request) -> AsyncIterator[StreamItem]:
        number = sum(isinstance(message, Reply) for message in request.messages)
        if number >= TURNS:
            yield says("done")
            return
        self.attempts[number] += 1
        for item in self.script.turn(number, self.attempts[number]):
            if item == "fail":
                raise ModelError("reset", "network")
            if item == "interrupt":
                self.run.interrupt()
            if item == "kill":
                self.die()
            if isinstance(item, str):
                await anyio.lowlevel.checkpoint()
            else:
                yield item

    async def save(self, state: RunState) -> None:
        if self.scope.cancel_called:
            raise Killed
        self.saves += 1
        kill = self.script.kills_at(self.saves)
        if kill != "before":
            self.saved = load_state(dump_state(state))
        if kill:
            self.die()

    def die(self) -> None:
        self.killed = True
        raise Killed

    def die_while_paying(self, path: str) -> None:
        """A tool cannot raise what ends the process: nothing goes on from here."""
        if self.script.kills_in(path):
            self.killed = self.killed_in_call = True
            self.scope.cancel()

    async def whole(self, request: Request) -> Reply:
        """The same model, without a stream."""
        items = [item async for item in self.model(request)]
        return cast("Reply", items[-1])

    @property
    def any_model(self) -> Model:
        match self.script.kind:
            case "whole":
                return self.whole
            case "retrying":
                return retrying(self.model, tries=2, wait=0)
            case "fallback":
                return fallback(self.model, self.model)
            case _:
                return self.model

    async def to_the_end(self) -> RunState:
        self.world.paid = self.die_while_paying
        for _ in range(200):
            async with Executor(self.world.tools()) as executor:
                agent = Agent(self.any_model, executor, save=self.save, limits=Limits(turns=None))
                self.run = agent.run("go") if self.saved is None else agent.resume(self.saved)
                self.scope, done = anyio.CancelScope(), None
                try:
                    with self.scope:
                        done = await self.run
                except ModelError as error:
                    self.saved = cast("RunState", error.state)
                    continue
                except BaseException as error:
                    if not is_killed(error):
                        raise
                    continue
            if done is None:
                continue
            self.saved = done.state
            if done.stop_reason == "answer":
                return done.state
        raise AssertionError("the run does not end")


@pytest.mark.parametrize("backend", BACKENDS)
def test_effects_and_history_agree(backend: str) -> None:
    async def play_all() -> Counter[str]:
        seen: Counter[str] = Counter()
        for seed in range(RUNS // 2):
            play = Play(Script(seed))
            state = await play.to_the_end()
            assert problems(state, play.world.did, killed=play.killed) == [], seed
            owed(state.transcript())
            seen += Counter(killed=play.killed, early=bool(state.discarded))
            seen += Counter(again=max(play.attempts.values()) > 1)
            seen[play.script.kind] += 1
            seen += Counter(killed_in_call=play.killed_in_call)
        return seen

    seen = anyio.run(play_all, backend=backend)
    assert min(seen[kind] for kind in KINDS) >= RUNS // 20, seen


async def by_position(play: Play) -> RunState:
    """A loop that matches calls and results by their positions."""
    messages: list[Any] = [Prompt.of("go")]
    async with Executor(play.world.tools()) as executor:
        while True:
            early: list[Call] = []
            replies: list[Reply] = []

            async def calls_in(early: list[Call], replies: list[Reply]) -> AsyncIterator[Call]:
                async for item in play.model(Request(tuple(messages))):
                    if isinstance(item, Call):
                        early.append(item)
                        yield item
                    elif isinstance(item, Reply):
                        replies.append(item)
                        for call in item.calls[len(early) :]:
                            yield call

            ran = await executor.run_all(calls_in(early, replies))
            messages.append(replies[0])
            if not replies[0].calls:
                return RunState(messages=tuple(messages))
            pairs = zip(replies[0].calls, ran, strict=False)
            told = {
                call.id: Result(call.id, result.text, failure=result.failure)
                for call, result in pairs
            }
            missing = [Result.fail(call.id, FailureKind.CANCELLED, "Not run: lost.") for call in replies[0].calls]  # fmt: skip
            told = {result.call_id: result for result in missing} | told
            messages.append(ToolResults(tuple(told.values())))


def test_a_loop_that_matches_by_position_is_caught() -> None:
    async def play_all() -> int:
        caught = 0
        for seed in range(60):
            play = Play(Script(seed, faults=False))
            state = await by_position(play)
            caught += bool(problems(state, play.world.did, killed=False))
        return caught

    assert anyio.run(play_all) > 20
