"""An editor: the protocol package's own client, which answers questions by a list."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from acp import RequestError, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

import forked
from cli_harness import Handrail

PROGRAM = """\
from pathlib import Path

from handrail import READ, Call, Context, Text, tool
from handrail.messages import Delta, ModelError, Prompt, Reply, Restart
from handrail.testing import ScriptedModel

SCRIPTS = {
    "answer": ["Hello from the model."],
    "edit": [
        ["I will change it.", Call("write", {"file_path": "a.txt", "content": "new\\n"}, "c")],
        "Done.",
    ],
    "edits": [
        [Call("write", {"file_path": "a.txt", "content": "1\\n"}, "c")],
        [Call("write", {"file_path": "b.txt", "content": "2\\n"}, "c")],
        "Both.",
    ],
    "pay": [[Call("pay", {"number": 1}, "c")], "Paid."],
    "programs": [
        [Call("run_program", {"code": "await pay(number=1)"}, "c1")],
        [Call("run_program", {"code": "await glob(pattern='*')\\nawait pay(number=2)"}, "c2")],
        "Paid both.",
    ],
    "plan": [
        [
            Call(
                "todo",
                {"todos": [{"content": "Look", "status": "in_progress"}, {"content": "Fix", "status": "pending"}]},
                "c",
            )
        ],
        "Planned.",
    ],
    "long": [[Call("note", {"text": "x" * 200_000}, "c")], "Not noted."],
    "padded": [[Call("note", {"text": "send the secret" + "\\x7f" * 9_000}, "c")], "Not noted."],
    "job": [[Call("bash", {"command": "echo started; sleep 60"}, "c")], "Never."],
    "ask": [
        [Call("ask_user", {"question": "Which one?", "choices": ["red", "blue"]}, "c")],
        [Call("ask_user", {"question": "Why?"}, "c")],
        "Blue, then.",
    ],
    "finish": [["I will write it.", Call("finish_plan", {}, "c")], "Now in edits."],
    "values": [
        [Call("choose", {"kind": "colour"}, "c1"), Call("choose", {"kind": "gift"}, "c2"), Call("choose", {"kind": "sure"}, "c3")],
        "Chosen.",
    ],
    "text": [[Call("choose", {"kind": "name"}, "c1")], "Named."],
    "away": [ModelError("The server is away.", "network", hint="Start it.")],
    "again": [[Delta("Half of"), Restart("The connection was lost."), Delta("All of it."), Reply((Text("All of it."),))]],
}


@tool(metadata={"program": "also"})
async def pay(number: int) -> str:
    '''Pay.'''
    with Path("paid").open("a", encoding="utf-8") as file:
        file.write(f"{number}\\n")
    print("a tool that prints to stdout")
    return f"paid {number} ```"


FIELDS = {
    "colour": {"enum": ["red", "blue"], "title": "Which colour"},
    "gift": {"type": "boolean"},
    "name": {"type": "string"},
}


@tool(effect=READ, touches=lambda **_: ())
async def choose(kind: str, context: Context) -> str:
    '''Choose.'''
    fields = {name: one for name, one in FIELDS.items() if name == kind}
    form = {"type": "object", "properties": fields, "required": [*fields]}
    return f"chosen: {await context.ask('Please choose.', form)}"


@tool(headline=lambda text: f'Note {text[:15]}{text[-1]}')
async def note(text: str) -> str:
    '''Note a text.'''
    return "noted"


async def model(request):
    '''Follow the script that the last prompt names.'''
    at = max(number for number, one in enumerate(request.messages) if isinstance(one, Prompt))
    script = SCRIPTS[request.messages[at].parts[0].text]
    turn = sum(isinstance(one, Reply) for one in request.messages[at:])
    step = script[turn]
    if isinstance(step, ModelError):
        raise step
    if isinstance(step, list) and isinstance(step[0], Delta):
        for item in step:
            yield item
        return
    async for item in ScriptedModel(step)(request):
        yield item
"""


class Editor:
    """What an editor shows and is asked."""

    def __init__(self, *answers: str) -> None:
        self.updates: list[Any] = []
        self.questions: list[Any] = []
        self._answers = list(answers)
        self.asked = anyio.Event()
        self._updated = anyio.Event()

    def on_connect(self, conn: Any) -> None:
        """Nothing to keep."""

    async def session_update(self, update: Any, **_more: Any) -> None:
        self.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))
        self._updated.set()
        self._updated = anyio.Event()

    async def request_permission(
        self, tool_call: Any, options: Sequence[Any], **_more: Any
    ) -> RequestPermissionResponse:
        self.questions.append((tool_call, {one.option_id: one.name for one in options}))
        self.asked.set()
        known = {"never", "cancelled", *(one.option_id for one in options)}
        answer = next((one for one in self._answers if one in known), self._answers[0])
        self._answers.remove(answer)
        if answer == "never":
            await anyio.sleep_forever()
        if answer == "cancelled":
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        outcome = AllowedOutcome(outcome="selected", option_id=answer)
        return RequestPermissionResponse(outcome=outcome)

    async def ext_method(self, method: str, _params: dict[str, Any]) -> dict[str, Any]:
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        pass

    async def until(self, text: str) -> None:
        """Wait until a text is shown."""
        while text not in str([one.get("content") for one in self.updates]):
            await self._updated.wait()

    def kinds(self) -> list[str]:
        """The kinds of all updates, in their order."""
        return [update["sessionUpdate"] for update in self.updates]

    def text(self) -> str:
        """What the model has said."""
        return "".join(
            update["content"]["text"]
            for update in self.updates
            if update["sessionUpdate"] == "agent_message_chunk"
        )

    def calls(self) -> dict[str, dict[str, Any]]:
        """The calls as they are shown at the end."""
        shown: dict[str, dict[str, Any]] = {}
        for update in self.updates:
            if update["sessionUpdate"] in {"tool_call", "tool_call_update"}:
                shown.setdefault(update["toolCallId"], {}).update(update)
        return shown


@asynccontextmanager
async def editing(
    handrail: Handrail, editor: Editor, *options: str, env: Mapping[str, str | None] = {}
) -> AsyncGenerator[ClientSideConnection]:
    """Start the agent as an editor does."""
    handrail.write("m.py", PROGRAM)
    tools = ("--tools", "coding", "--tools", "m.py")
    command = [forked.program(), "acp", "-m", "m.py:model", *tools, *options]
    async with spawn_agent_process(
        editor,
        *command,
        env=handrail.environment(env),
        cwd=handrail.workspace,
        use_unstable_protocol=True,
    ) as (connection, _process):
        await connection.initialize(protocol_version=1)
        yield connection


async def say(connection: ClientSideConnection, session_id: str, text: str) -> str:
    """Send a prompt, and return why the turn ended."""
    done = await connection.prompt(session_id=session_id, prompt=[text_block(text)])
    return str(done.stop_reason)
