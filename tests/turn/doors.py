"""Every way in to an executor, with calls that arrive one after another, and a hook that ends it.

A door takes the calls of one reply and returns their results. In between two pieces of a reply, all
tasks run as far as they can: as with a real model, a call can end before the next one arrives.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias

import anyio
import anyio.lowlevel

from handrail import (
    READ,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Executor,
    Hook,
    Result,
    StopRun,
    Text,
    Tool,
    Toolset,
    tool,
)
from handrail.agent import Agent, RunState
from handrail.approvals import defer
from handrail.messages import ArgsDelta, Delta, Reply, Request, StreamItem, ToolResults

Side: TypeAlias = Literal["before", "around", "after"]
REASON = "The budget is spent."
STOP = "stop"


async def let_all_run() -> None:
    """Let all other tasks run as far as they can. None of them waits for time or a thread."""
    for _ in range(25):
        await anyio.lowlevel.checkpoint()


class Stage:
    """Two tools that note when they start, and a hook that ends the run at one call."""

    def __init__(self, side: Side, at: str) -> None:
        self.log: list[str] = []
        self.at = at
        self.hook = Hook(**{side: getattr(self, f"_{side}")})
        self.chunk: int | None = None
        """If set: at which piece of the reply the call ``at`` goes on."""
        self._goes_on: anyio.Event | None = None

    def tools(self) -> Toolset:
        @tool(effect=READ)
        async def look(n: str) -> str:
            """Look."""
            self.log.append(n)
            if n == self.at and self.chunk is not None:
                await self.goes_on.wait()
            return f"saw {n}"

        @tool(touches=lambda **_: ())
        async def pay(n: str) -> str:
            """Pay."""
            self.log.append(n)
            return f"paid {n}"

        return Toolset(look, pay)

    @property
    def goes_on(self) -> anyio.Event:
        if self._goes_on is None:
            self._goes_on = anyio.Event()
        return self._goes_on

    def executor(self, **options: Any) -> Executor:
        return Executor(self.tools(), hooks=[self.hook], **options)

    def agent(self, calls: Sequence[Call], **options: Any) -> Agent[str]:
        tools: list[Tool[..., Any]] = list(self.tools())
        return Agent(self.model(calls), tools, hooks=[self.hook], **options)

    def model(self, calls: Sequence[Call]) -> Callable[[Request], AsyncIterator[StreamItem]]:
        """A model that streams: some text, each call in pieces, then the reply."""

        async def model(request: Request) -> AsyncIterator[StreamItem]:
            has_called = any(calls[0] in one.calls for one in request.messages if _is_reply(one))
            reply = Reply((Text("done"),)) if has_called else Reply(tuple(calls), "calls")
            for number, piece in enumerate(_pieces(reply)):
                await let_all_run()
                if number == self.chunk and not has_called:
                    self.goes_on.set()
                    await let_all_run()
                yield piece
                await let_all_run()
            yield reply

        return model

    def _stop(self, call: Any) -> None:
        if call.id == self.at:
            self.log.append(STOP)
            raise StopRun(REASON)

    def _before(self, call: CheckedCall) -> CheckedCall:
        self._stop(call)
        return call

    async def _around(self, call: CheckedCall, run: Callable[[], Awaitable[Result]]) -> Result:
        self._stop(call)
        return await run()

    def _after(self, call: CheckedCall | Call, result: Result) -> Result:
        if result.pending is None:
            self._stop(call)
        return result


def _is_reply(message: object) -> bool:
    return isinstance(message, Reply)


def _pieces(reply: Reply) -> list[StreamItem]:
    pieces: list[StreamItem] = [Delta("I ", thought=True), Delta("call.")]
    for part in reply.parts:
        if isinstance(part, Call):
            text = str(part.args)
            pieces += [ArgsDelta(part.id, part.name, text[:4]), ArgsDelta(part.id, part.name, "")]
            pieces.append(part)
    return pieces


def count_pieces(calls: Sequence[Call]) -> int:
    return len(_pieces(Reply(tuple(calls), "calls")))


async def _slowly(calls: Sequence[Call]) -> AsyncIterator[Call]:
    for call in calls:
        yield call
        await let_all_run()


Door: TypeAlias = Callable[[Stage, Sequence[Call]], list[Result]]


def _inside(work: Callable[[Stage, Sequence[Call]], Awaitable[list[Result]]]) -> Door:
    def door(stage: Stage, calls: Sequence[Call]) -> list[Result]:
        return anyio.run(work, stage, calls)

    return door


async def _run(stage: Stage, calls: Sequence[Call]) -> list[Result]:
    async with stage.executor() as executor:
        turn = executor.turn()
        return [await executor.run(call, turn=turn) for call in calls]


async def _run_in_view(stage: Stage, calls: Sequence[Call]) -> list[Result]:
    async with stage.executor() as executor:
        view = executor.restrict("look", "pay")
        turn = view.turn()
        return [await view.run(call, turn=turn) for call in calls]


async def _run_all(stage: Stage, calls: Sequence[Call]) -> list[Result]:
    async with stage.executor() as executor:
        return await executor.run_all(calls)


async def _run_stream(stage: Stage, calls: Sequence[Call]) -> list[Result]:
    async with stage.executor() as executor:
        return await executor.run_all(_slowly(calls))


async def _add(stage: Stage, calls: Sequence[Call]) -> list[Result]:
    async with stage.executor() as executor:
        turn = executor.turn()
        for call in calls:
            turn.add(call)
            await let_all_run()
        return await turn.results()


async def _answer(stage: Stage, calls: Sequence[Call]) -> list[Result]:
    """All calls wait for approval, and are answered one after another."""

    def asks(call: CheckedCall) -> Decision:
        return Ask(f"Allow {call.id}?")

    async with stage.executor(policy=asks, approvals=defer) as executor:
        turn = executor.turn()
        turn.add(*calls)
        await turn.results()
        for pending in turn.pending:
            turn.answer(pending, Allow())
            await let_all_run()
        return await turn.results()


def _run_sync(stage: Stage, calls: Sequence[Call]) -> list[Result]:
    executor = stage.executor()
    turn = executor.turn()
    return [executor.run_sync(call, turn=turn) for call in calls]


def _in_thread(stage: Stage, calls: Sequence[Call]) -> list[Result]:
    executor = stage.executor()
    with executor.in_thread() as run:
        turn = executor.turn()
        return [run(call, turn=turn) for call in calls]


def _in_thread_all(stage: Stage, calls: Sequence[Call]) -> list[Result]:
    with stage.executor().in_thread() as run:
        return run.run_all(calls)


async def _agent(stage: Stage, calls: Sequence[Call]) -> list[Result]:
    done = await stage.agent(calls).run("go")
    assert (done.stop_reason, done.stop_detail) == ("stopped", REASON)
    return results_of(done.state)


def _agent_sync(stage: Stage, calls: Sequence[Call]) -> list[Result]:
    return results_of(stage.agent(calls).run_sync("go").state)


async def _agent_stream(stage: Stage, calls: Sequence[Call]) -> list[Result]:
    async with stage.agent(calls).stream("go") as events:
        async for _ in events:
            pass
        return results_of(events.result.state)


async def _agent_resumed(stage: Stage, calls: Sequence[Call]) -> list[Result]:
    """The run stops before its first reply has results, and continues in another agent."""
    first = Reply((Text("I am paused."),), "paused")
    done = await stage.agent(calls).resume(RunState((first,), run_id="r1"), "go on")
    return results_of(done.state)


async def _sub_agent(stage: Stage, calls: Sequence[Call]) -> list[Result]:
    inner: list[Result] = []

    def note(call: CheckedCall | Call, result: Result) -> Result:
        inner.append(result)
        return result

    tools: list[Tool[..., Any]] = list(stage.tools())
    agent = Agent(stage.model(calls), tools, hooks=[Hook(after=note), stage.hook])
    order = Call("helper", '{"task": "go"}', "outer")

    async def model(request: Request) -> Reply:
        is_new = not any(map(_is_reply, request.messages))
        return Reply((order,), "calls") if is_new else Reply((Text("done"),))

    done = await Agent(model, [agent.as_tool("helper", "Helps.")]).run("go")
    assert done.stop_reason == "answer"  # only the helper was stopped
    return sorted(inner, key=lambda result: result.call_id)


def results_of(state: RunState) -> list[Result]:
    """The results of the last reply's calls."""
    last = [one for one in state.messages if isinstance(one, ToolResults)][-1]
    return list(last.results)


AT_ONCE: dict[str, Door] = {
    "run_all of a list": _inside(_run_all),
    "in_thread.run_all": _in_thread_all,
}
"""All calls are there before the first one runs."""
ONE_BY_ONE: dict[str, Door] = {
    "run": _inside(_run),
    "run in a view": _inside(_run_in_view),
    "run_all of a stream": _inside(_run_stream),
    "Turn.add": _inside(_add),
    "run_sync": _run_sync,
    "in_thread": _in_thread,
}
AGENTS: dict[str, Door] = {
    "Agent.run": _inside(_agent),
    "Agent.run_sync": _agent_sync,
    "Agent.stream": _inside(_agent_stream),
    "Agent.resume": _inside(_agent_resumed),
    "Agent.as_tool": _inside(_sub_agent),
}
ANSWERED: dict[str, Door] = {"Turn.answer": _inside(_answer)}
