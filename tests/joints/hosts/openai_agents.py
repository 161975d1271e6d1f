"""An agent of the OpenAI Agents SDK, whose model streams. Answers go to another one, with the state as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from agents import Agent, RunHooks, Runner, RunState, set_tracing_disabled
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from handrail import Approvals, Deny
from handrail.adapters.openai_agents import run_config, tools
from handrail.approvals import callback
from handrail.permissions import Answer, Edit, MemoryLedger
from joints.case import Case, Seen, Shown
from joints.hosts.shared import make_executor, next_calls, to_text

set_tracing_disabled(True)


def _model(case: Case, replies: int) -> ScriptedModel:
    steps = []
    for number in range(replies, len(case.replies) + 1):
        calls = next_calls(case, number)
        made = [function_call(one.name, to_text(one), call_id=one.id) for one in calls]
        steps.append(ModelStep(output=made or [assistant_message("done")]))
    return ScriptedModel(steps)


def _answer(state: Any, said: Seen, request: Any, answer: Answer) -> None:
    if isinstance(answer, Deny):
        state.reject(request, rejection_message=answer.reason)
        said.results[request.call_id] = Shown(answer.reason, failed=True)
    else:
        state.approve(request)


class _Heard(RunHooks[Any]):
    """The SDK's own hooks."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    async def on_tool_start(self, *_: Any) -> None:
        self._seen.host.append("call")

    async def on_tool_end(self, *_: Any) -> None:
        self._seen.host.append("result")


def _with_approver(case: Case, answers: Iterator[Answer]) -> Case:
    """The SDK asks before a tool runs, for a yes or a no. The executor's approver answers the rest."""
    if not case.asks_inside and not any(isinstance(one, Edit) for one in case.answers):
        return case
    approver = callback(lambda _: next(answers))
    return replace(case, options={**case.options, "approvals": Approvals(approver=approver)})


async def door(case: Case) -> Seen:
    seen, said = Seen(), Seen()
    ledger, answers = MemoryLedger(), iter(case.answers)
    turn = dict(case.turn)
    context, saved, replies = turn.pop("deps", None), "", 0
    while True:
        watching = (seen.hook(), said.hook(results=True))
        async with make_executor(_with_approver(case, answers), ledger, *watching) as executor:
            model = _model(case, replies)
            made = tools(executor, run=lambda _: "R", **turn)
            agent: Any = Agent(name="a", tools=made, model=model)
            options: Any = {"run_config": run_config(), "context": context}
            prompt: Any = case.prompt
            if saved:
                prompt = await RunState.from_string(agent, saved)
                for one in prompt.get_interruptions():
                    _answer(prompt, said, one, next(answers))
            with case.inside():
                done = Runner.run_streamed(agent, prompt, hooks=_Heard(seen), **options)
                async for _event in done.stream_events():
                    pass
        replies += len(done.raw_responses)
        if not done.interruptions:
            _take(seen, said, done.to_input_list())
            return seen
        saved = done.to_state().to_string()


def _take(seen: Seen, said: Seen, items: list[Any]) -> None:
    """Keep what the model reads. The SDK has no mark for a failure: the executor has said it."""
    for item in items:
        if item.get("type") == "function_call_output":
            blocks = item["output"] if isinstance(item["output"], list) else []
            images = sum(one["type"] == "input_image" for one in blocks)
            texts = [one["text"] for one in blocks if one["type"] == "input_text"]
            text = "".join(texts) if blocks else str(item["output"])
            failed = said.results[item["call_id"]].failed
            seen.results[item["call_id"]] = Shown(text, failed, images)
