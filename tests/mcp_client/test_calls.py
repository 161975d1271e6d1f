"""Calls of a server's tools: results, failures, and what happens when the server dies."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from pathlib import Path

import anyio
import pytest

from handrail import (
    Allow,
    Call,
    Executor,
    Failure,
    FailureKind,
    File,
    HandrailError,
    Image,
    Result,
    Text,
)
from handrail.mcp import Effects, HttpServer, McpSource, NotConnected, StdioServer
from mcp_client.stage import PATIENCE, connected, raw
from unframed import UNFRAMED

LOST = (
    "The connection to the MCP server 'raw' was lost during the call. It may have taken effect: "
    "check before you call it again."
)
PICTURE = b64encode(b"\x89PNG").decode()


async def test_a_call_returns_the_text_and_only_the_first_answer() -> None:
    async with connected(raw("noisy")) as stage:
        result = await stage.call("echo", text="hello")

        assert result == Result(result.call_id, "hello")
        assert (stage.source.state, stage.source.problems) == ("open", ())
    assert stage.source.state == "closed"
    assert len(stage.registry.snapshot()) == 0


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"content": []}, Result("", "")),
        ({"content": [], "structuredContent": {"a": 1}}, Result("", '{"a": 1}', data='{"a": 1}')),
        (
            {"content": [{"type": "text", "text": "one"}], "structuredContent": {"a": 1}},
            Result("", "one", data='{"a": 1}'),
        ),
        (
            {
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image", "data": PICTURE, "mimeType": "image/png"},
                    {"type": "audio", "data": PICTURE, "mimeType": "audio/wav"},
                    {"type": "image", "data": "?", "mimeType": "image/png"},
                    {"type": "resource", "resource": {"uri": "file:///a/b.txt", "text": "inside"}},
                    {"type": "resource", "resource": {"uri": "file:///a/b.bin", "blob": PICTURE}},
                    {
                        "type": "resource",
                        "resource": {"uri": "x://", "blob": PICTURE, "mimeType": "image/gif"},
                    },
                    {"type": "resource_link", "name": "n", "uri": "http://169.254.169.254/"},
                ]
            },
            Result(
                "",
                "see\n[image/png content that cannot be decoded was left out]\ninside\n"
                "[A resource that was not fetched: n, http://169.254.169.254/]",
                (
                    Text("see"),
                    Image(b"\x89PNG", "image/png"),
                    File(b"\x89PNG", "audio/wav", "audio"),
                    Text("[image/png content that cannot be decoded was left out]"),
                    Text("inside"),
                    File(b"\x89PNG", "application/octet-stream", "b.bin"),
                    Image(b"\x89PNG", "image/gif"),
                    Text("[A resource that was not fetched: n, http://169.254.169.254/]"),
                ),
            ),
        ),
    ],
    ids=["nothing", "data", "text and data", "every kind"],
)
async def test_all_content_is_kept(sent: object, expected: Result) -> None:
    async with connected(raw()) as stage:
        result = await stage.call("odd", text=json.dumps(sent))

    assert result == expected._replace(call_id=result.call_id)


@pytest.mark.parametrize(
    ("sent", "kind", "message"),
    [
        (
            {"content": [{"type": "text", "text": "no ink"}], "isError": True},
            FailureKind.FAILED,
            "no ink",
        ),
        (
            {"content": [], "structuredContent": {"a": 1}, "isError": True},
            FailureKind.FAILED,
            "The tool failed, and the server gave no reason.",
        ),
        ({"a": 1}, FailureKind.FAILED, "The MCP server 'raw' sent an answer that is not a result."),
    ],
)
async def test_a_failure_says_why(sent: object, kind: FailureKind, message: str) -> None:
    async with connected(raw()) as stage:
        result = await stage.call("odd", text=json.dumps(sent))

    assert result.failure is not None
    assert (result.failure.kind, result.failure.message) == (kind, message)


async def test_an_error_of_the_protocol_is_a_failure_without_hidden_characters() -> None:
    async with connected(raw()) as stage:
        result = await stage.call("refuse")

    message = "The MCP server 'raw' refused the call: no\\x1b"
    assert result.failure == Failure(FailureKind.FAILED, message)


async def test_output_that_breaks_its_schema_is_withheld_and_other_output_is_not() -> None:
    async with connected(raw()) as stage:
        wrong = await stage.call("typed", text='{"n": "many"}')
        right = await stage.call("typed", text='{"n": 3}')

    assert wrong.failure is not None
    assert (wrong.failure.kind, right.data) == (FailureKind.BUG, '{"n": 3}')


@pytest.mark.parametrize("confined", [True, False])
async def test_a_call_in_flight_when_the_server_dies_is_unknown(
    tmp_path: Path, *, confined: bool
) -> None:
    async with connected(raw(inside=tmp_path if confined else None)) as stage:
        with anyio.fail_after(PATIENCE):
            died = await stage.call("die")
            again = await stage.call("echo", text="back")

    detail = "exit code 3. Its last words:\nno paper\nno ink"
    assert died.failure == Failure(FailureKind.UNKNOWN, LOST, detail)
    assert again.text == "back"


@pytest.mark.parametrize("effects", [Effects(reads=("die",)), Effects(idempotent=("die",))])
async def test_a_call_that_can_be_repeated_is_only_transient(effects: Effects) -> None:
    async with connected(raw(), effects=effects) as stage:
        died = await stage.call("die")

    assert died.failure is not None
    assert died.failure.kind is FailureKind.TRANSIENT


async def test_calls_beside_the_one_that_killed_the_server_end_too() -> None:
    effects = Effects(reads=("wait", "get_it", "die"))
    async with connected(raw(), effects=effects) as stage, anyio.create_task_group() as tasks:
        results: list[Result] = []

        async def wait() -> None:
            results.append(await stage.call("wait"))

        with anyio.fail_after(PATIENCE):
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await stage.executor.run(Call("mcp__raw__get_it", {}))
            died = await stage.call("die")

    kinds = [result.failure and result.failure.kind for result in (died, *results)]
    assert kinds == [FailureKind.TRANSIENT, FailureKind.TRANSIENT]


async def test_a_cancelled_call_is_cancelled_on_the_server() -> None:
    async with connected(raw()) as stage:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stage.call, "wait")
                await anyio.wait_all_tasks_blocked()
                stage.executor.cancel()
            died = await stage.call("die")

    assert died.failure is not None
    assert died.failure.detail.startswith("exit code 3. Its last words:\ncancelled ")


async def test_a_server_that_cannot_start_says_why() -> None:
    missing = StdioServer(name="no", command="/no/such/program", sandbox=False)
    with pytest.raises(NotConnected) as caught:
        async with connected(missing):
            raise AssertionError
    assert str(caught.value).startswith("The MCP server 'no' is not connected: [Errno 2]")


async def test_a_program_that_the_sandbox_hides_is_said(tmp_path: Path) -> None:
    hidden = StdioServer(name="no", command="/tmp/venv/bin/python", cwd=str(tmp_path))  # noqa: S108  not created
    with pytest.raises(NotConnected) as caught:
        async with connected(hidden):
            raise AssertionError
    assert str(caught.value) == (
        "The MCP server 'no' is not connected: exit code 127: the sandbox may hide the program. Keep it "
        "and its packages in `cwd`, and not in /tmp, or pass `sandbox=False`."
    )


async def test_a_reason_that_is_a_sentence_ends_with_one_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(NotConnected, match=r"your home folder.* to allow that\.$"):
        async with connected(StdioServer(name="no", command="true", cwd=str(tmp_path))):
            raise AssertionError


async def test_a_server_that_dies_at_once_leaves_its_last_words() -> None:
    dies = StdioServer(name="no", command="sh", args=("-c", "echo bye >&2; exit 4"), sandbox=False)
    with pytest.raises(NotConnected) as caught:
        async with connected(dies):
            raise AssertionError
    assert str(caught.value) == "The MCP server 'no' is not connected: exit code 4."
    assert caught.value.__notes__ == ["bye"]


async def test_a_server_that_a_signal_ends_says_which() -> None:
    dies = StdioServer(name="no", command="sh", args=("-c", "kill -9 $$"), sandbox=False)
    with pytest.raises(NotConnected, match=r"signal SIGKILL\.$"):
        async with connected(dies):
            raise AssertionError


async def test_a_server_that_closes_its_output_and_stays_is_stopped() -> None:
    async with connected(raw()) as stage:
        with anyio.fail_after(PATIENCE):
            lost = await stage.call("mute")
            back = await stage.call("echo", text="back")

    assert lost.failure is not None
    assert (lost.failure.kind, back.text) == (FailureKind.UNKNOWN, "back")
    assert lost.failure.detail in {"", "the connection ended."}  # it may not be known in time


async def test_a_tool_of_a_closed_source_does_not_connect_again() -> None:
    async with connected(raw()) as stage:
        tools = stage.registry.snapshot()
    async with Executor(tools, policy=lambda _: Allow(), hooks=UNFRAMED) as executor:
        result = await executor.run(Call("mcp__raw__echo", {}))

    assert result.failure is not None
    assert result.failure.message.startswith("The MCP server 'raw' is not connected.")


async def test_a_server_that_never_answers_is_given_up() -> None:
    with pytest.raises(NotConnected, match=r"it did not answer within 0.2 s\.$"):
        async with connected(raw("silent"), start_seconds=0.2):
            raise AssertionError


async def test_an_endless_message_ends_the_connection() -> None:
    with pytest.raises(NotConnected, match="it sent a message of more than 16 MiB"):
        async with connected(raw("endless_line")):
            raise AssertionError


async def test_a_flood_on_standard_error_is_cut() -> None:
    async with connected(raw("floods")) as stage:
        died = await stage.call("die")

    assert died.failure is not None
    assert died.failure.detail.endswith("the end\nno paper\nno ink")
    assert len(died.failure.detail) < 5_000


async def test_processes_of_a_server_end_with_it(tmp_path: Path) -> None:
    async with connected(raw("stays", inside=tmp_path)) as stage:
        child = await stage.call("fork")
        during = count_sleepers()
    assert (child.failure, during, count_sleepers()) == (None, 1, 0)


def count_sleepers() -> int:
    found = [path for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return sum(b"sleep\x0061917" in read(path) for path in found)


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def test_only_named_variables_reach_a_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SECRET_KEY", "of mine")
    for inside in (tmp_path, None):
        async with connected(raw(inside=inside, NAMED="yes")) as stage:
            seen = json.loads((await stage.call("env")).text)

        assert ("SECRET_KEY" in seen, seen["NAMED"]) == (False, "yes")


async def test_a_call_while_the_server_is_gone_is_transient() -> None:
    source = HttpServer(name="raw", url="http://127.0.0.1:9/")
    with pytest.raises(NotConnected):
        async with connected(source, start_seconds=2):
            raise AssertionError


async def test_an_error_in_the_block_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with connected(raw()):
            raise ZeroDivisionError


async def test_without_the_sdk_a_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "handrail.mcp._client.connection", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(HandrailError, match=r"pip install 'handrail\[mcp\]'"):
        async with McpSource(raw()).open(lambda _: None):
            raise AssertionError
