"""Our server, driven by the official client: both eras, in process, over stdio and over HTTP."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version as handrail_version
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import ElicitResult, ToolListChangedNotification
from typing_extensions import TypedDict

from approvals.faces import PARTS, TEXTS, check_face
from handrail import (
    READ,
    Allow,
    Approvals,
    Ask,
    CheckedCall,
    Context,
    Decision,
    Executor,
    Hook,
    LongResults,
    Registry,
    StopRun,
    Toolset,
    tool,
)
from handrail.approvals import FileLedger, callback
from handrail.mcp._server import changes
from handrail.mcp._server.asking import ask
from handrail.mcp.server import make_server, serve_stdio
from handrail.permissions import Pending
from handrail.runs import open_runs
from mcp_served.served import (
    MODERN,
    Notes,
    answering,
    connect,
    executor,
    over_http,
    policy,
    text_of,
)
from tiny_server import untraced

pytestmark = pytest.mark.anyio


class Totals(TypedDict):
    """What a tool promises."""

    count: int


class Page(TypedDict):
    """What another tool promises."""

    text: str


ERAS = pytest.mark.parametrize("mode", ["legacy", MODERN])


@ERAS
async def test_a_call_is_shown_in_full_or_denied(mode: str) -> None:
    notes, seen = Notes(), list[str]()
    long = "\n".join(map(str, range(100)))
    given = answering("accept", seen=seen)
    async with executor(notes) as made:
        async with Client(make_server(made), mode=mode, elicitation_callback=given) as client:
            await client.call_tool("add_note", {"text": long})
            denied = await client.call_tool("add_note", {"text": "x" * 10_241})

    [question] = seen
    assert [one for one in long.split("\n") if f"\n│ {one}\n" not in f"{question}\n"] == []
    assert notes.said == [long]
    assert text_of(denied) == (
        "Not run: this call is too long to show to the user for approval. "
        "Split it into smaller calls."
    )


def message(pending: Pending) -> str:
    [request] = (ask(pending).input_requests or {}).values()
    return str(request.params.message)  # type: ignore[union-attr]


@given(st.sampled_from([*PARTS]), TEXTS, TEXTS)
def test_two_questions_never_look_alike(part: str, one: str, other: str) -> None:
    check_face(message, part, one, other)


@ERAS
async def test_tools_and_results(mode: str) -> None:
    notes = Notes()
    async with executor(notes) as made, Client(make_server(made), mode=mode) as client:
        listed = (await client.list_tools()).tools
        read = await client.call_tool("read_note", {"key": "b"})
        parts = await client.call_tool("show_parts", {})
        bug = await client.call_tool("break_down", {})
        wrong = await client.call_tool("read_note", {"kye": "b"})
        unknown = await client.call_tool("read_notes", {})
        denied = await client.call_tool("drop_notes", {})

    assert [tool.name for tool in listed] == [
        "add_note",
        "break_down",
        "drop_notes",
        "read_note",
        "show_parts",
        "wait_here",
    ]
    hints = {tool.name: tool.annotations for tool in listed}
    assert [hints[name].read_only_hint for name in ("read_note", "add_note")] == [True, False]
    assert (hints["drop_notes"].destructive_hint, hints["drop_notes"].idempotent_hint) == (
        True,
        True,
    )
    assert (text_of(read), read.is_error, read.structured_content) == ("b: ", False, None)
    assert [part.type for part in parts.content] == ["text", "image", "resource"]
    assert parts.content[2].resource.uri == "result:///a%20b.pdf"
    assert (bug.is_error, "/home" in text_of(bug)) == (True, False)
    assert (wrong.is_error, "kye: unknown field" in text_of(wrong)) == (True, True)
    assert (unknown.is_error, denied.is_error, text_of(denied)) == (True, True, "never")


@ERAS
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_the_person_at_the_client_is_asked(mode: str, action: str) -> None:
    notes, seen = Notes(), list[str]()
    ask = answering(action, seen=seen)
    async with executor(notes) as made:
        async with Client(make_server(made), mode=mode, elicitation_callback=ask) as client:
            result = await client.call_tool("add_note", {"text": "one\u202e"})
            again = await client.call_tool("add_note", {"text": "two"})

    assert len(seen) == 2
    assert "add_note" in seen[0]
    assert "\\u{202E}" in seen[0]
    if action == "accept":
        assert (result.structured_content, again.structured_content) == ({"count": 1}, {"count": 2})
        assert notes.said == ["one\u202e", "two"]
    else:
        assert (result.is_error, text_of(result)[:33]) == (
            True,
            "Not run: the user denied this cal",
        )
        assert notes.said == []


@ERAS
async def test_a_client_that_cannot_be_asked_gets_a_refusal(mode: str) -> None:
    notes = Notes()
    async with executor(notes) as made, Client(make_server(made), mode=mode) as client:
        result = await client.call_tool("add_note", {"text": "one"})

    assert (result.is_error, notes.said) == (True, [])
    assert text_of(result).startswith("Not run: this call needs approval, and this client cannot")


async def test_a_client_whose_form_breaks_gets_a_refusal() -> None:
    async def broken(_context: Any, _params: Any) -> Any:
        raise RuntimeError("no window")

    notes = Notes()
    async with executor(notes) as made:
        async with Client(make_server(made), mode="legacy", elicitation_callback=broken) as client:
            result = await client.call_tool("add_note", {"text": "one"})

    assert (result.is_error, notes.said) == (True, [])


@ERAS
async def test_an_approver_of_the_executor_comes_first(mode: str) -> None:
    async def approve(pending: Pending) -> Any:
        return Allow()

    notes = Notes()
    async with executor(notes, approvals=callback(approve)) as made:
        async with Client(make_server(made), mode=mode) as client:
            result = await client.call_tool("add_note", {"text": "one"})

    assert (result.is_error, notes.said) == (False, ["one"])


@ERAS
async def test_a_call_that_conflicts_with_an_open_question_waits_behind_it(mode: str) -> None:
    notes, asked, go = Notes(), anyio.Event(), anyio.Event()
    order: list[str] = []

    async def slow(context: Any, params: Any) -> Any:
        asked.set()
        await go.wait()
        return await answering("accept")(context, params)

    async with executor(notes) as made:
        async with (
            Client(make_server(made), mode=mode, elicitation_callback=slow) as client,
            anyio.create_task_group() as group,
        ):

            async def call(name: str, **args: Any) -> None:
                order.append(text_of(await client.call_tool(name, args)))

            with anyio.fail_after(30):
                group.start_soon(lambda: call("add_note", text="one"))
                await asked.wait()
                await call("read_note", key="b")  # does not conflict
                group.start_soon(lambda: call("read_note", key="a"))
                await anyio.wait_all_tasks_blocked()
                assert order == ["b: "]
                go.set()

    assert sorted(order[1:]) == ["a: one", '{"count":1}']


async def test_an_answer_that_is_cancelled_leaves_no_call_behind() -> None:
    from mcp_types import ElicitResult

    notes = Notes()

    def asking(call: Any) -> Any:
        return Ask("Wait?") if call.spec.name == "wait_here" else Allow()

    async with executor(notes, policy=asking) as made:
        server = make_server(made)
        async with Client(server, mode=MODERN, elicitation_callback=answering("accept")) as client:
            asked: Any = await client.session.call_tool("wait_here", {}, allow_input_required=True)
            yes = {"approval": ElicitResult(action="accept")}
            with anyio.fail_after(30):
                async with anyio.create_task_group() as group:

                    async def call() -> None:
                        await client.session.call_tool(
                            "wait_here",
                            {},
                            request_state=asked.request_state,
                            input_responses=yes,
                        )

                    group.start_soon(call)
                    await notes.open.wait()
                    group.cancel_scope.cancel()
                notes.go.set()
                result = await client.call_tool("read_note", {})

    assert text_of(result) == "a: "


async def test_idle_sessions_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.mcp._server.calls.MAX_SESSIONS", 1)
    notes = Notes()
    async with over_http(executor(notes)) as url:
        for _ in range(3):
            async with connect(url, mode="legacy") as client:
                assert text_of(await client.call_tool("read_note", {})) == "a: "


async def test_a_call_does_not_wait_behind_a_question_for_ever() -> None:
    notes = Notes()
    async with executor(notes) as made:
        server = make_server(made, answer_seconds=4)
        ask = answering("accept")
        async with Client(server, mode=MODERN, elicitation_callback=ask) as client:
            session = client.session
            first: Any = await session.call_tool(
                "add_note", {"text": "x"}, allow_input_required=True
            )
            second = await client.call_tool("read_note", {"key": "a"})
            third = await client.call_tool("read_note", {"key": "a"})

    assert first.result_type == "input_required"
    assert text_of(second).startswith("Not run: an earlier call that it depends on")
    assert (text_of(third), notes.said) == ("a: ", [])


async def test_an_answer_holds_for_its_arguments_and_once() -> None:
    from mcp_types import ElicitResult

    notes = Notes()
    yes = {"approval": ElicitResult(action="accept")}
    async with executor(notes) as made:
        async with Client(
            make_server(made), mode=MODERN, elicitation_callback=answering("accept")
        ) as client:
            session = client.session

            async def call(text: str, **more: Any) -> Any:
                return await session.call_tool(
                    "add_note", {"text": text}, allow_input_required=True, **more
                )

            asked = await call("one")
            with pytest.raises(Exception, match="Invalid or expired requestState"):
                await call("two", request_state=asked.request_state, input_responses=yes)
            with pytest.raises(Exception, match="Invalid or expired requestState"):
                await call(
                    "one", request_state=asked.request_state[:-4] + "AAAA", input_responses=yes
                )
            silent = await call("one", request_state=asked.request_state)
            asked = await call("one")
            good = await call("one", request_state=asked.request_state, input_responses=yes)
            replayed = await call("one", request_state=asked.request_state, input_responses=yes)

    assert (silent.is_error, good.structured_content) == (True, {"count": 1})
    assert notes.said == ["one"]
    assert replayed.result_type != "complete" or replayed.is_error or replayed == good


@pytest.mark.parametrize("kind", ["file", "sqlite"])
async def test_another_process_can_take_the_answer_and_one_of_them_uses_it(
    tmp_path: Path, kind: str
) -> None:
    """Both get the same answer at once. Each has its own object for the ledger on the disk."""
    from mcp_types import ElicitResult

    key = b"k" * 32
    first, second = Notes(), Notes()
    yes = {"approval": ElicitResult(action="accept")}
    ask: Any = {"mode": MODERN, "elicitation_callback": answering("accept")}
    results = list[Any]()

    def shared() -> Approvals:
        place = tmp_path / "used"
        if kind == "file":
            return Approvals(ledger=FileLedger(place))
        return Approvals(ledger=open_runs(place).ledger)

    async def answer(client: Client, state: str) -> None:
        results.append(
            await client.session.call_tool(
                "add_note",
                {"text": "x"},
                request_state=state,
                input_responses=yes,
                allow_input_required=True,
            )
        )

    async with (
        executor(first, approvals=shared()) as one,
        executor(second, approvals=shared()) as two,
        Client(make_server(one, keys=[key]), **ask) as a,
        Client(make_server(two, keys=[key]), **ask) as b,
    ):
        asked: Any = await a.session.call_tool("add_note", {"text": "x"}, allow_input_required=True)
        async with anyio.create_task_group() as group:
            for client in (a, b, a, b):
                group.start_soon(answer, client, asked.request_state)

    done = [one for one in results if getattr(one, "structured_content", None) == {"count": 1}]
    assert (first.said + second.said, len(results)) == (["x"], 4)
    assert 1 <= len(done) <= 2  # the process that used it may repeat its own result


def test_keys_without_a_shared_ledger_are_refused() -> None:
    with pytest.raises(ValueError, match="With keys") as refused:
        make_server(executor(Notes()), keys=[b"k" * 32])

    assert str(refused.value) == (
        "With keys, several processes accept the same approval, and each would use it once. Give "
        "their executors one ledger: Executor(..., approvals=Approvals(ledger=FileLedger(FOLDER)))."
    )


async def test_progress_and_cancellation() -> None:
    for mode in ("legacy", MODERN):
        notes = Notes()
        async with over_http(executor(notes)) as url, connect(url, mode=mode) as client:
            await check_progress(notes, client)


@ERAS
async def test_progress_of_a_call_that_the_user_has_approved(mode: str) -> None:
    notes, told = Notes(), list[Any]()
    notes.go.set()

    async def progress(*fact: Any) -> None:
        told.append(fact)

    def ask(_: CheckedCall) -> Decision:
        return Ask("Wait?")

    options: Any = {"mode": mode, "elicitation_callback": answering("accept")}
    async with over_http(executor(notes, policy=ask)) as url, connect(url, **options) as client:
        result = await client.call_tool("wait_here", {}, progress_callback=progress)

    assert text_of(result) == "waited for alice"
    assert told == [(0.5, 1.0, "waiting"), (0.0, None, "still")]


@ERAS
async def test_progress_reaches_a_client_in_this_process(mode: str) -> None:
    notes, told = Notes(), list[Any]()
    notes.go.set()

    async def progress(*fact: Any) -> None:
        told.append(fact)

    async with executor(notes) as made, Client(make_server(made), mode=mode) as client:
        await client.call_tool("wait_here", {}, progress_callback=progress)
        await client.call_tool("wait_here", {})

    assert told == [(0.5, 1.0, "waiting"), (0.0, None, "still")]


async def check_progress(notes: Notes, client: Client) -> None:
    told: list[Any] = []

    async def progress(*fact: Any) -> None:
        told.append(fact)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:

            async def call() -> None:
                await client.call_tool("wait_here", {}, progress_callback=progress)

            group.start_soon(call)
            await notes.open.wait()
            group.cancel_scope.cancel()
        notes.go.set()
        after = await client.call_tool("wait_here", {}, progress_callback=progress)

    assert text_of(after) == "waited for alice"
    assert (0.5, 1.0, "waiting") in told
    assert (0.0, None, "still") in told


async def test_too_many_calls_are_refused() -> None:
    notes = Notes()
    async with executor(notes) as made:
        async with (
            Client(make_server(made, max_calls=2), mode="legacy") as client,
            anyio.create_task_group() as group,
        ):
            with anyio.fail_after(30):
                group.start_soon(client.call_tool, "wait_here", {})
                group.start_soon(client.call_tool, "wait_here", {})
                await anyio.wait_all_tasks_blocked()
                refused = await client.call_tool("read_note", {})
                notes.go.set()
            served = None
        async with Client(make_server(made, max_calls=2), mode="legacy") as client:
            served = await client.call_tool("read_note", {})

    assert (
        text_of(refused) == "Not run: 2 calls of this server are waiting already. Call again later."
    )
    assert served.is_error is False


async def test_over_http_the_principal_comes_from_the_token() -> None:
    notes = Notes()
    notes.go.set()
    async with over_http(executor(notes)) as url:
        texts = []
        for token, mode in (("t-alice", "legacy"), ("t-bob", MODERN)):
            ask = answering("accept")
            async with connect(url, token, mode=mode, elicitation_callback=ask) as client:
                texts.append(text_of(await client.call_tool("wait_here", {})))
                await client.call_tool("add_note", {"text": mode})

    assert texts == ["waited for alice", "waited for bob"]
    assert notes.said == ["legacy", MODERN]


async def test_streams_are_served_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process; the next test has a real one."""
    to_server, incoming = anyio.create_memory_object_stream[Any](1)
    outgoing, from_server = anyio.create_memory_object_stream[Any](1)

    @asynccontextmanager
    async def streams() -> AsyncIterator[tuple[Any, Any]]:
        async with incoming, outgoing:
            yield incoming, outgoing

    monkeypatch.setattr("handrail.mcp.server.stdio_server", streams)
    async with to_server, from_server:
        to_server.close()
        with anyio.fail_after(30):
            await serve_stdio(executor(Notes()))


async def test_over_stdio(tmp_path: Path) -> None:
    script = tmp_path / "serve.py"
    script.write_text(
        "import anyio\n"
        "from handrail import READ, Executor, Toolset, tool\n"
        "from handrail.mcp.server import serve_stdio\n"
        "@tool(effect=READ)\n"
        "def add(a: int, b: int) -> int:\n"
        "    '''Add two integers.'''\n"
        "    print('not on the wire')\n"
        "    return a + b\n"
        "anyio.run(serve_stdio, Executor(Toolset(add)))\n",
        encoding="utf-8",
    )
    program = StdioServerParameters(
        command=sys.executable, args=[str(script)], env={**os.environ, **untraced()}
    )
    with anyio.fail_after(50):
        async with Client(program) as client:
            result = await client.call_tool("add", {"a": 1, "b": 2})

    assert text_of(result) == "3"


@tool(effect=READ)
def fresh() -> Totals:
    """Return totals."""
    return Totals(count=2)


@tool(effect=READ, name="read_note")
def read_another(key: str, more: int = 0) -> str:
    """Read another note."""
    return f"changed {key}"


def change_tools(registry: Registry) -> None:
    """Add a tool, and replace one."""
    registry.add(fresh)
    kept = [one for one in Notes().tools() if one.spec.name != "read_note"]
    registry.replace("notes", Toolset(*kept, read_another))


async def hear_change(client: Client, mode: str, registry: Registry, told: anyio.Event) -> None:
    """Change the tools, and wait until the client hears of it."""
    if mode == MODERN:
        async with client.listen(tools_list_changed=True) as changes:
            change_tools(registry)
            async for _ in changes:
                return
    await anyio.sleep(0.5)  # the client opens its stream without a sign
    change_tools(registry)
    await told.wait()


@ERAS
async def test_clients_are_told_that_the_tools_have_changed(mode: str) -> None:
    registry, told = Registry(), anyio.Event()
    registry.add(Notes().tools(), name="notes")

    async def hear(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async with over_http(Executor(registry, policy=policy)) as url:
        async with connect(url, mode=mode, message_handler=hear) as client:
            before = await client.session.list_tools()
            early = await client.call_tool("fresh", {})
            with anyio.fail_after(30):
                await hear_change(client, mode, registry, told)
            stale = await client.call_tool("read_note", {"key": "a"})
            after = {one.name: one for one in (await client.session.list_tools()).tools}
            late = await client.call_tool("fresh", {})
            read = await client.call_tool("read_note", {"key": "a"})
            capable = client.server_capabilities

    assert {one.name for one in before.tools} ^ set(after) == {"fresh"}
    assert (early.is_error, stale.is_error) == (True, True)
    assert "has changed" in text_of(stale)
    assert after["fresh"].output_schema is not None
    assert (late.structured_content, text_of(read)) == ({"count": 2}, "changed a")
    if mode == "legacy":  # the other client asks for no capabilities
        assert (capable.tools and capable.tools.list_changed) is True


async def test_a_server_with_fixed_tools_tells_of_no_changes() -> None:
    notes = Notes()
    async with executor(notes) as made, Client(make_server(made), mode="legacy") as client:
        capable = client.server_capabilities
        listed = {one.name: one.output_schema for one in (await client.list_tools()).tools}

    assert (capable.tools and capable.tools.list_changed) is False
    assert (listed["read_note"], listed["add_note"]) == (None, listed["add_note"])


async def test_a_server_that_is_gone_does_not_watch_a_registry_any_more() -> None:
    registry = Registry()
    make_server(Executor(registry))
    gc.collect()
    registry.add(Notes().tools(), name="notes")
    kept = make_server(Executor(registry))  # no client has come yet
    registry.remove("notes")

    assert kept.name == "handrail"
    assert registry.generation == 2


async def test_clients_get_the_name_and_the_version_of_a_server() -> None:
    made, got = Executor(Toolset()), list[Any]()
    for options in ({}, {"name": "shop", "version": "7.1"}):
        async with Client(make_server(made, **options), mode="legacy") as client:
            got.append((client.server_info.name, client.server_info.version))

    assert got == [("handrail", handrail_version("handrail")), ("shop", "7.1")]


class Tree(TypedDict):
    """A type that contains itself."""

    parts: list[Tree]


@ERAS
async def test_lists_and_numbers_are_structured_content_too(mode: str) -> None:
    @tool(effect=READ)
    def count() -> int:
        """Count."""
        return 3

    @tool(effect=READ)
    def find(name: str) -> Page | None:
        """Find a page."""
        return Page(text=name) if name else None

    @tool(effect=READ)
    def list_pages(size: int) -> list[Page]:
        """List pages."""
        return [Page(text="x" * size)]

    @tool(effect=READ)
    def list_trees() -> list[Tree]:
        """List trees."""
        return [Tree(parts=[Tree(parts=[])])]

    tools = Toolset(count, find, list_pages, list_trees)
    made = Executor(tools, long_results=LongResults(max_result_chars=1_000))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("count", {}),
        ("find", {"name": "a"}),
        ("find", {"name": ""}),
        ("list_pages", {"size": 2}),
        ("list_pages", {"size": 100_000}),
        ("list_pages", {"size": "many"}),
        ("list_trees", {}),
    ]
    async with made, Client(make_server(made), mode=mode) as client:
        listed = {one.name: one.output_schema for one in (await client.list_tools()).tools}
        results = [await client.call_tool(*call) for call in calls]  # the client checks the schemas

    assert listed["count"] == {"type": "object", "properties": {"result": {"type": "integer"}}}
    assert [(one.is_error, one.structured_content) for one in results] == [
        (False, {"result": 3}),
        (False, {"result": {"text": "a"}}),
        (False, {"result": None}),
        (False, {"result": [{"text": "xx"}]}),
        (False, {}),
        (True, None),
        (False, {"result": [{"parts": [{"parts": []}]}]}),
    ]
    assert "xxxx" in text_of(results[4])


@ERAS
async def test_a_result_without_its_promised_data_arrives_as_text(mode: str) -> None:
    @tool(effect=READ)
    def read_page(size: int) -> Page:
        """Read a page."""
        return Page(text="x" * size)

    made = Executor(Toolset(read_page), long_results=LongResults(max_result_chars=1_000))
    async with made, Client(make_server(made), mode=mode) as client:
        await client.list_tools()
        short = await client.call_tool("read_page", {"size": 5})
        long = await client.call_tool("read_page", {"size": 100_000})

    assert (short.is_error, short.structured_content) == (False, {"text": "xxxxx"})
    assert (long.is_error, long.structured_content) == (True, None)
    assert text_of(long).startswith("The call has run, but its result cannot be given in the form")
    assert "xxxx" in text_of(long)


async def test_only_the_latest_clients_hear_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_CLIENTS", 1)
    registry, told, first = Registry(), anyio.Event(), list[object]()
    registry.add(Notes().tools(), name="notes")

    async def hear(message: Any) -> None:
        told.set()

    async def hear_nothing(message: Any) -> None:
        first.append(message)

    async with over_http(Executor(registry, policy=policy)) as url:
        async with (
            connect(url, mode="legacy", message_handler=hear_nothing) as early,
            connect(url, mode="legacy", message_handler=hear) as late,
        ):
            await early.session.list_tools()
            await late.session.list_tools()
            with anyio.fail_after(30):
                await hear_change(late, "legacy", registry, told)

    assert first == []


async def test_questions_and_stored_results_belong_to_their_principal() -> None:
    @tool(effect=READ)
    def read_all(context: Context) -> str:
        """Read all."""
        return f"{context.principal}: " + "x" * 50_000

    notes = Notes()
    made = Executor(
        Toolset(read_all, *notes.tools()), policy=policy, long_results=LongResults(reader="always")
    )
    yes: Any = {"approval": ElicitResult(action="accept")}
    ask: Any = {"mode": MODERN, "elicitation_callback": answering("accept")}
    async with over_http(made) as url:
        async with connect(url, **ask) as alice, connect(url, "t-bob", **ask) as bob:
            text = text_of(await alice.call_tool("read_all", {}))
            [stored] = set(re.findall(r"[0-9]+-[0-9a-f]{16}", text))
            own = text_of(await alice.call_tool("read_result", {"call_id": stored}))
            other = text_of(await bob.call_tool("read_result", {"call_id": stored}))
            asked: Any = await alice.session.call_tool(
                "add_note", {"text": "x"}, allow_input_required=True
            )
            state = {"request_state": asked.request_state, "input_responses": yes}
            with pytest.raises(MCPError):
                await bob.session.call_tool("add_note", {"text": "x"}, **state)
            after = await alice.session.call_tool("add_note", {"text": "x"}, **state)

    assert ("xxx" in own, "xxx" in other, "alice" in other) == (True, False, False)
    assert (after.structured_content, notes.said) == ({"count": 1}, ["x"])


def ends_at(name: str) -> Hook:
    def before(call: CheckedCall) -> CheckedCall:
        if call.name == name:
            raise StopRun("The shop is closed.")
        return call

    return Hook(before=before)


ENDED = "Not run: a check ended the run. The shop is closed."


@ERAS
async def test_a_hook_ends_the_session_of_a_client(mode: str) -> None:
    notes = Notes()
    hooked = executor(notes, policy=None, hooks=[ends_at("drop_notes")])
    async with hooked as made, Client(make_server(made), mode=mode) as client:
        first = await client.call_tool("add_note", {"text": "x"})
        stopped = await client.call_tool("drop_notes", {})
        later = await client.call_tool("add_note", {"text": "y"})

    assert (first.is_error, notes.said) == (False, ["x"])
    assert [text_of(stopped), text_of(later)] == [ENDED, ENDED]


async def test_without_sessions_a_hook_ends_the_calls_that_are_under_way() -> None:
    """Over HTTP, the newer era has no sessions: one for good would shut out a principal."""
    notes = Notes()
    hooked = executor(notes, policy=asks_to_add, hooks=[ends_at("drop_notes")])
    asked: Any = {"name": "add_note", "arguments": {"text": "x"}}
    yes = {"approval": ElicitResult(action="accept")}
    options: Any = {"mode": MODERN, "elicitation_callback": answering("accept")}
    async with hooked as made, over_http(made) as url, connect(url, **options) as client:
        question: Any = await client.session.call_tool(**asked, allow_input_required=True)
        stopped = await client.call_tool("drop_notes", {})
        behind = await client.call_tool("read_note", {"key": "b"})
        state = {"request_state": question.request_state, "input_responses": yes}
        answered = await client.session.call_tool(**asked, **state)
        again = await client.call_tool("read_note", {"key": "b"})

    assert [text_of(one) for one in (stopped, behind, answered)] == [ENDED, ENDED, ENDED]
    assert (text_of(again), notes.said) == ("b: ", [])


def asks_to_add(call: CheckedCall) -> Decision:
    return Ask("Add it?") if call.name == "add_note" else Allow()


FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"size": {"type": "integer"}, "gift": {"type": "boolean"}},
    "required": ["size"],
}


@tool(effect=READ)
async def order(context: Context) -> str:
    """Order."""
    size = await context.ask("Which size?", FORM)
    sure = None if size is None else await context.ask("Sure?", name="sure")
    return f"{size} {sure}"


@pytest.mark.parametrize("mode", ["legacy", MODERN])
async def test_a_question_of_a_tool_is_a_form_at_the_client(mode: Any) -> None:
    asked: list[tuple[str, Any]] = []
    contents: list[Any] = [{"size": 3}, {}, None]

    async def answer(_context: Any, params: Any) -> ElicitResult:
        await anyio.lowlevel.checkpoint()
        asked.append(
            (params.message.split("question: ")[1].split("\n")[0], params.requested_schema)
        )
        content = contents.pop(0)
        action: Any = "decline" if content is None else "accept"
        return ElicitResult(action=action, content=content)

    async with (
        Executor(Toolset(order), policy=lambda _: Allow()) as made,
        Client(make_server(made), mode=mode, elicitation_callback=answer) as client,
    ):
        texts = [text_of(await client.call_tool("order", {})) for _ in range(2)]

    nothing = {"type": "object", "properties": {}}
    assert texts == ["{'size': 3} {}", "None None"]
    assert asked == [("Which size?", FORM), ("Sure?", nothing), ("Which size?", FORM)]
