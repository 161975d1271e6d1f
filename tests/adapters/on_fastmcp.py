"""A FastMCP server as a host of the kit, bare and with handrail, with its own client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import fastmcp
import mcp_types as types
import pytest
from fastmcp.client.elicitation import ElicitResult

from handrail import (
    READ,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Executor,
    File,
    Text,
    Toolset,
    tool,
)
from handrail.adapters.fastmcp import FORM, provider
from conformance import Conversation, Read, Setup, Skipped

Run = Callable[[Conversation], Awaitable[None]]


def read_blocks(call_id: str, result: Any) -> Read:
    """Return what a model reads of one result."""
    texts = [one.text for one in result.content if one.type == "text"]
    return Read(call_id, "".join(texts), sum(one.type == "image" for one in result.content))


async def converse(setup: Setup, conversation: Conversation, server: Any, **options: Any) -> None:
    async def answer(message: str, *_: Any) -> Any:
        word = setup.ask("", message)
        return ElicitResult(action="accept", content={"approve": word})

    async with fastmcp.Client(server, elicitation_handler=answer, **options) as client:
        await client.list_tools()
        read: list[Read] = []

        async def run(call: Call) -> None:
            args: Any = call.args
            result = await client.call_tool(call.name, args, raise_on_error=False)
            read.append(read_blocks(call.id, result))

        while calls := conversation.reply(read):
            read = []
            async with anyio.create_task_group() as tasks:
                for call in calls:
                    tasks.start_soon(run, call)
            order = {call.id: number for number, call in enumerate(calls)}
            read.sort(key=lambda one: order[one.call_id])


async def append_text(path: str, text: str, ctx: fastmcp.Context) -> Any:
    """Append text to a file."""
    answers: Any = ctx.input_responses
    if answers is None:
        form = types.ElicitRequestFormParams(message="May it?", requested_schema=FORM)
        request = types.ElicitRequest(params=form)
        return types.InputRequiredResult(input_requests={"ask": request})
    if not answers["ask"].content["approve"]:
        return "denied"
    return await FUNCTIONS["append_text"](path, text)


FUNCTIONS: dict[str, Any] = {}


def require_words(setup: Setup) -> None:
    """Skip the provocation if the answer is neither yes nor no."""
    if not all(isinstance(word, bool) for word in setup.words.values()):
        raise Skipped("edited approvals")


def bare(setup: Setup) -> Run:
    setup.require("approvals", "streams")
    require_words(setup)
    server = fastmcp.FastMCP("bare")
    FUNCTIONS.update({fn.__name__: fn for fn in setup.world.functions()})
    for name, fn in FUNCTIONS.items():
        if name != "draw":
            server.tool(append_text if name in setup.needs_approval else fn)
    return lambda conversation: converse(setup, conversation, server)


def railed(setup: Setup, **given: Any) -> Run:
    require_words(setup)
    return make_railed(setup, setup.executor(), **given)


def make_railed(setup: Setup, executor: Executor, **given: Any) -> Run:
    server = fastmcp.FastMCP("railed", providers=[provider(executor, **given)])
    return lambda conversation: converse(setup, conversation, server)


def switched(setup: Setup) -> Run:
    return make_railed(setup, setup.executor(asks_person=True))


SWITCHED = ("approval edited", "a read behind a question")
"""What an approver of the executor makes right."""
GOES_ON = True
"""It does not say which calls are of one run."""
HOST_DECIDES = {"approval edited": "n/a", "a read behind a question": "overtakes"}
BARE = {
    "a tool raises": "leaks",
    "two writers": "lost update",
    "a long result": "whole",
    "approval expired": "runs",
    "approval edited": "n/a",
    "a read behind a question": "overtakes",
    "a hang": "hangs",
    "two turns at once": "lost update",
    "an image": "n/a",
    "a stream": "not read",
    "the rest of a long result": "whole",
    "a stale tool": "n/a",
    "an unknown outcome": "not said",
}


@tool(effect=READ)
async def whoami(context: Context[dict[str, Any]]) -> list[Text | File]:
    """Say who calls."""
    return [Text(f"{context.principal} {context.deps}"), File(b"1", "text/csv", "one.csv")]


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def careful(call: CheckedCall) -> Decision:
    return Ask(f"Pay {call.args['amount']}?") if call.name == "pay" else Allow()


def make_server() -> fastmcp.FastMCP:
    made = provider(Executor(Toolset(whoami, pay), policy=careful), principal=lambda _: "alice")
    return fastmcp.FastMCP("s", providers=[made])


async def call(name: str, args: dict[str, Any], **options: Any) -> Any:
    async with fastmcp.Client(make_server(), **options) as client:
        return await client.call_tool(name, args, raise_on_error=False)


def test_the_tools_get_the_principal_and_the_lifespan_and_return_files() -> None:
    text, file = anyio.run(call, "whoami", {}).content

    assert text.text == "alice {}"
    assert (file.resource.mime_type, file.resource.blob) == ("text/csv", "MQ==")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize(
    ("action", "approve", "read"),
    [("accept", True, "paid 5"), ("accept", False, "Not run"), ("decline", None, "Not run")],
)
def test_both_versions_of_the_protocol_ask(mode: str, action: Any, approve: Any, read: str) -> None:
    asked: list[str] = []

    async def answer(message: str, *_: Any) -> Any:
        asked.append(message)
        return ElicitResult(
            action=action, content=None if approve is None else {"approve": approve}
        )

    run = partial(call, "pay", {"amount": 5}, mode=mode, elicitation_handler=answer)
    result = anyio.run(run)

    assert asked == ["Pay 5?"]
    assert result.content[0].text.startswith(read)
    assert result.is_error == (read != "paid 5")


def test_a_client_that_cannot_ask_gets_a_denial() -> None:
    assert anyio.run(call, "pay", {"amount": 5}).content[0].text.startswith("Not run")


def test_a_server_without_a_client_denies() -> None:
    result = anyio.run(make_server().call_tool, "pay", {"amount": 5})

    assert result.content[0].text.startswith("Not run")


def test_tools_have_hints() -> None:
    async def list_tools() -> Any:
        async with fastmcp.Client(make_server()) as client:
            return await client.list_tools()

    hints = {one.name: one.annotations.read_only_hint for one in anyio.run(list_tools)}
    assert hints == {"whoami": True, "pay": False}
