"""LangChain: tools for ``create_agent`` and ToolNode. Approval requests are interrupts."""

from __future__ import annotations

import uuid
from typing import Any

from typing_extensions import Unpack

from handrail._support.lazy import name_extra

try:
    from langchain_core.messages import ToolMessage
    from langchain_core.runnables import RunnableConfig, ensure_config
    from langchain_core.tools import BaseTool
    from langgraph.func import task
    from langgraph.prebuilt import ToolRuntime
    from langgraph.types import interrupt
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "langchain") from error

from handrail import Call, Executor, Result
from handrail.adapters._calls._given import Given, TurnFacts
from handrail.adapters._calls.langchain import find_said, start_run, to_message
from handrail.adapters._replies import find_reply, find_stop, read_call, read_messages
from handrail.adapters._sources.langchain import source as source  # noqa: PLC0414  public here
from handrail.adapters._turns import OpenTurn, Turns, describe, offer_tools, read_word
from handrail.adapters.langgraph import to_requests
from handrail.messages import TruncatedCall
from handrail.permissions import Pending

_RUNTIME = "handrail_runtime"
_PLACE = "`langchain.tools`, or `context=` to the agent"


def tools(executor: Executor, **given: Unpack[Given[RunnableConfig]]) -> list[BaseTool]:
    """Return an executor's tools. They get the agent's context as deps.

    They need ``ainvoke`` or another async agent method. If the executor has no approver, a call
    needing approval interrupts the graph. Resume with a dict from call id to True, False, a reason
    for the denial, or other arguments. LangChain lists tools once: use
    ``LongResults(reader="always")`` to let a model read long results.
    """
    turns, facts = Turns(executor), TurnFacts[RunnableConfig](executor, _PLACE, given)
    return [
        ExecutorTool(
            name=name,
            description=spec.description,
            args_schema=dict(spec.input_schema),
            own_name=spec.name,
            turns=turns,
            facts=facts,
        )
        for name, spec in offer_tools(executor)
    ]


async def wants(handrail_runtime: ToolRuntime) -> None:
    """Say what a ToolNode has to pass: the messages, for what they say about the call."""


class ExecutorTool(BaseTool):
    """One of an executor's tools."""

    func: Any = wants
    own_name: str
    turns: Any
    facts: Any

    def _run(self, **_: Any) -> Any:
        raise NotImplementedError("This tool is async: use `ainvoke`.")

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        """Run one call, together with its reply's others."""
        is_call = isinstance(input, dict) and input.get("type") == "tool_call"
        args = dict(input["args"]) if is_call else input
        runtime = args.pop(_RUNTIME, None) if is_call else None
        call: Any = Call(self.own_name, args, *([input["id"]] if is_call else []))
        messages = [] if runtime is None else read_messages(runtime.state)
        if found := find_reply(messages, call):
            call = read_call(found[0], found[1], self.own_name, call.id)
        settings = ensure_config(config)
        deps = runtime and runtime.context
        given = self.facts.read(settings, deps=deps, said=find_said(messages))
        run = await start_run(settings, call, self)
        message = await run.tell(self._run_call(call, settings, given, find_stop(messages)))
        return message if is_call else message.content

    async def _run_call(
        self, call: Any, config: RunnableConfig, given: dict[str, Any], stop: str | None
    ) -> ToolMessage:
        if isinstance(call, TruncatedCall):
            return to_message(call.refuse(), self.name)
        thread = config.get("configurable", {}).get("thread_id")
        step = config.get("metadata", {}).get("langgraph_step")
        run, turn = (thread, step) if thread else (uuid.uuid4(), "")  # nothing else names a run
        opened: OpenTurn = self.turns.open(str(run), str(turn), given)
        if stop is not None:
            opened.turn.close(stop)

        async def begin() -> dict[str, Any]:
            return _save(await self.turns.settle(opened, await opened.run(call)), opened)

        async def answer(saved: dict[str, Any], word: Any) -> dict[str, Any]:
            if not opened.turn.pending:  # another process has asked
                opened.turn.adopt(*map(Pending.from_json, saved["waiting"]))
            opened.approved |= {one.call.id for one in opened.turn.pending}  # denials come too
            result = await opened.answer(Pending.from_json(saved["own"]), read_word(word))
            return _save(await self.turns.settle(opened, result), opened)

        if step is None:
            return to_message(await opened.run(call), self.name, opened.turn.stop_reason)
        # a resumed graph calls the tool again: tasks store what has happened
        saved = await task(begin)()
        while saved["waiting"]:
            words = interrupt(to_requests([saved["own"]]))
            saved = await task(answer)(saved, words.get(call.id))
        return to_message(Result.from_json(saved["done"]), self.name, saved["stop"])


def _save(result: Result, opened: OpenTurn) -> dict[str, Any]:
    """Return a result or a request, as the checkpointer stores it."""
    if result.pending is None:
        return {"done": result.to_json(), "waiting": [], "stop": opened.turn.stop_reason}
    waiting = describe(result.pending, opened)["handrail"]
    return {"own": result.pending.to_json(), "waiting": waiting}
