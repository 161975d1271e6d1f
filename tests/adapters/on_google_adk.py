"""Google ADK as a host of the kit, bare and with handrail; and approvals across processes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.tools import FunctionTool, ToolContext, google_search
from google.adk.tools.base_tool import BaseTool
from google.genai import types

from handrail import DESTROY, READ, Call, Context, Executor, Toolset, tool
from handrail.adapters.google_adk import source, toolset
from handrail.programs import program_tool
from conformance import Conversation, Read, Setup, World
from conformance._setup import Word
from processes import Asked, Outcome, make_executor

Run = Callable[[Conversation], Awaitable[None]]
Script = Callable[[Sequence[Any]], Sequence[Call]]
ASK = "adk_request_confirmation"


class Scripted(BaseLlm):
    """Replies with the calls that a function returns."""

    model: str = "scripted"
    script: Any

    async def generate_content_async(
        self,
        llm_request: Any,
        stream: bool = False,  # noqa: FBT001, FBT002
    ) -> AsyncIterator[LlmResponse]:
        made = [
            types.Part(function_call=types.FunctionCall(name=call.name, args=call.args, id=call.id))
            for call in self.script(llm_request.contents)
        ]
        parts = made or [types.Part(text="done")]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def read_contents(contents: Sequence[Any]) -> list[Read]:
    """Return what the model reads since its last reply."""
    new: list[Read] = []
    for content in contents:
        for part in content.parts or ():
            if part.function_call:
                new = []
            elif part.function_response:
                given = part.function_response.response
                text = str(given.get("result", given.get("error", given)))
                new.append(Read(part.function_response.id, text))
    return new


def make_runner(script: Script, made: Any, service: Any) -> Runner:
    agent = LlmAgent(name="a", model=Scripted(script=script), tools=made)
    return Runner(agent=agent, app_name="a", session_service=service)


async def run_parts(runner: Runner, session: str, parts: list[types.Part]) -> list[Any]:
    """Run the agent, and return the confirmations that it requests."""
    message = types.Content(role="user", parts=parts)
    asked: list[Any] = []
    async for event in runner.run_async(user_id="u", session_id=session, new_message=message):
        asked += [one for one in event.get_function_calls() if one.name == ASK]
    return asked


def confirm(request_id: str, word: Any) -> types.Part:
    given: dict[str, Any] = {"confirmed": word is not False and not isinstance(word, tuple)}
    if not isinstance(word, bool):
        given["payload"] = word[1] if isinstance(word, tuple) else word
    answer = types.FunctionResponse(id=request_id, name=ASK, response=given)
    return types.Part(function_response=answer)


async def converse(setup: Setup, conversation: Conversation, made: Any) -> None:
    service = InMemorySessionService()
    runner = make_runner(lambda it: conversation.reply(read_contents(it)), made, service)
    session = await service.create_session(app_name="a", user_id="u")
    asked = await run_parts(runner, session.id, [types.Part(text="go")])
    while asked:
        parts = [
            confirm(
                one.id,
                setup.ask(
                    one.args["originalFunctionCall"]["id"], one.args["toolConfirmation"]["hint"]
                ),
            )
            for one in asked
        ]
        asked = await run_parts(runner, session.id, parts)


def bare(setup: Setup) -> Run:
    setup.require("approvals", "streams")
    functions = [fn for fn in setup.world.functions() if fn.__name__ != "draw"]
    made = [
        FunctionTool(fn, require_confirmation=fn.__name__ in setup.needs_approval)
        for fn in functions
    ]
    return lambda conversation: converse(setup, conversation, made)


def railed(setup: Setup, **given: Any) -> Run:
    setup.require("approvals", "changes", "streams")
    made = [toolset(setup.executor(), **given)]
    return lambda conversation: converse(setup, conversation, made)


def asking(setup: Setup) -> Run:
    made = [toolset(setup.executor(asks_person=True))]
    return lambda conversation: converse(setup, conversation, made)


PROGRAMS_ASK = asking
"""ADK asks once for each call."""
HOST_DECIDES: dict[str, str] = {"an image": "n/a"}
BARE = {
    "a tool raises": "dies",
    "wrong type": "runs",
    "two writers": "lost update",
    "a long result": "whole",
    "approval expired": "runs",
    "approval edited": "edit ignored",
    "a read behind a question": "overtakes",
    "a hang": "hangs",
    "two turns at once": "lost update",
    "an image": "n/a",
    "a stream": "dies",
    "the rest of a long result": "whole",
    "a stale tool": "n/a",
    "an unknown outcome": "dies",
}


def open_service(store: Path) -> DatabaseSessionService:
    return DatabaseSessionService(f"sqlite+aiosqlite:///{store / 'db'}")


async def ask(executor: Executor, calls: Sequence[Call], store: Path) -> Asked:
    """Run until the agent needs confirmations. The session saves what another process needs."""
    service = open_service(store)
    await service.create_session(app_name="a", user_id="u", session_id="s1")
    runner = make_runner(
        lambda it: () if read_contents(it) else calls, [toolset(executor)], service
    )
    requests = await run_parts(runner, "s1", [types.Part(text="go")])
    ids = {one.args["originalFunctionCall"]["id"]: one.id for one in requests}
    (store / "asked.json").write_text(json.dumps(ids), encoding="utf-8")
    hints = [one.args["toolConfirmation"]["hint"] for one in requests]
    return list(zip(ids, hints, strict=True))


async def resume(executor: Executor, store: Path, words: dict[str, bool]) -> Outcome:
    """Continue in another process."""
    seen: dict[str, str] = {}

    def script(contents: Sequence[Any]) -> Sequence[Call]:
        seen.update({one.call_id: one.text for one in read_contents(contents)})
        return ()

    ids = json.loads((store / "asked.json").read_text(encoding="utf-8"))
    runner = make_runner(script, [toolset(executor)], open_service(store))
    answers = [confirm(ids[name], word) for name, word in words.items()]
    asked = await run_parts(runner, "s1", answers)
    again = [one.args["originalFunctionCall"]["id"] for one in asked]
    return again, sorted(seen.items())


@tool(effect=READ)
async def whoami(context: Context[Any]) -> str:
    """Say who calls."""
    return f"{context.principal} {context.deps['db']}"


def test_the_tools_get_the_state_and_the_principal() -> None:
    seen: list[Read] = []

    def script(contents: Sequence[Any]) -> Sequence[Call]:
        seen.extend(read_contents(contents))
        return () if seen else [Call("whoami", {}, "c1")]

    async def run() -> None:
        service = InMemorySessionService()
        await service.create_session(
            app_name="a", user_id="u", session_id="s", state={"db": "notes"}
        )
        made = [toolset(Executor(Toolset(whoami)), principal=lambda context: context.user_id)]
        await run_parts(make_runner(script, made, service), "s", [types.Part(text="go")])

    anyio.run(run)

    assert seen == [Read("c1", "u notes")]


def test_a_refusal_with_a_payload_stays_a_refusal(tmp_path: Path) -> None:
    """A payload must not turn a refusal into an edited call."""

    async def run() -> Outcome:
        calls = [Call("append", {"path": "a", "text": "1"}, "c1")]
        await ask(make_executor(tmp_path), calls, tmp_path)
        words: Any = {"c1": ("no", {"path": "a", "text": "2"})}
        return await resume(make_executor(tmp_path), tmp_path, words)

    again, read = anyio.run(run)

    assert (again, dict(read)["c1"].startswith("Not run: the user denied this call.")) == ([], True)
    assert not (tmp_path / "log").exists()


def count(number: int, tool_context: ToolContext) -> dict[str, Any]:
    """Count."""
    tool_context.state["count"] = number
    return {"call": tool_context.function_call_id, "count": number}


def fail(kind: str) -> dict[str, str]:
    """Fail."""
    if kind == "hard":
        raise OSError("cannot open /srv/secret")
    return {"error": "Try 7."}


class Old(BaseTool):
    """A tool that declares its arguments in the API's own schema."""

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = types.Schema(type="OBJECT", properties={"word": types.Schema(type="STRING")})
        parameters = schema if self.name == "old" else None
        return types.FunctionDeclaration(name=self.name, parameters=parameters)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        return sorted(args)


def test_tools_of_adk_run_under_the_rules_of_an_executor() -> None:
    made = [FunctionTool(count, require_confirmation=True), fail]
    made += [Old(name="old", description=""), Old(name="plain", description="")]
    theirs = source(made, effects={"count": READ})
    executor, state = Executor(theirs), dict[str, Any]()
    calls = [
        Call("count", {"number": 2}, "c1"),
        Call("count", {"number": "two"}, "c2"),
        Call("fail", {"kind": "soft"}, "c3"),
        Call("fail", {"kind": "hard"}, "c4"),
        Call("old", {"word": "a"}, "c5"),
        Call("plain", {}, "c6"),
    ]
    turn = executor.turn(deps=state, principal="alice")
    results = anyio.run(partial(executor.run_all, calls, turn=turn))
    kinds = [one.failure and one.failure.kind.value for one in results]

    assert [spec.effect for spec in theirs.specs] == [READ, DESTROY, DESTROY, DESTROY]
    assert kinds == [None, "bad_args", "failed", "bug", None, None]
    assert json.loads(results[0].text) == {"call": "c1", "count": 2}
    assert results[2].text == "Try 7."
    assert "secret" not in results[3].text
    assert [results[one].text for one in (4, 5)] == ["word", "[]"]


def test_a_tool_that_only_the_api_can_run_is_refused() -> None:
    with pytest.raises(ValueError, match="only the API"):
        source([google_search])


STOPPED = """\
Stopped before its end: it needs the user first. Append '2' to a? Tell the user, and call again after that.
It had begun, and these calls inside it have ended. Do not repeat them:
- append_text({"path":"a","text":"1"})"""


@pytest.mark.parametrize("first", [True, {"path": "a", "text": "1"}], ids=["allowed", "edited"])
def test_a_second_approval_inside_a_call_is_not_given_by_the_first(first: Word) -> None:
    setup = Setup(world=World(), words={"c1": first}, is_late=False, needs=frozenset())
    append = setup.world.toolset()["append_text"]
    setup.registry.add(program_tool([append]))
    code = "for text in '12':\n    await append_text(path='a', text=text)"
    calls = [Call("run_program", {"code": code}, "c1")]
    talk = Conversation(lambda read: () if read else calls, lambda: None)
    anyio.run(railed(setup), talk)

    assert [one.text for one in talk.read] == [STOPPED]
    assert (setup.world.log, setup.asked) == (["appended 1"], [("c1", "Append '1' to a?")])
