"""Servers that are written with the official SDK, on both transports and in both eras."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail import Call, Failure, FailureKind, Image, NeedsLogin, Result, Text
from handrail.events import Finished, Progressed
from handrail.mcp import Effects, HttpServer, NotConnected, StdioServer
from mcp_client.stage import PATIENCE, Stage, connected

SERVER = str(Path(__file__).parent / "sdk_server.py")
EFFECTS = Effects(reads=("add", "pid", "list_cancelled"))
LOST = "The connection to the MCP server 'sdk' was lost during the call."
CHECK = "It may have taken effect: check before you call it again."


@contextmanager
def serving(*words: str) -> Generator[tuple[HttpServer, subprocess.Popen[str]]]:
    """A server on a port of the loopback."""
    argv = [sys.executable, SERVER, "http", *words]
    with subprocess.Popen(  # noqa: S603  a file of ours
        argv, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            yield HttpServer(name="sdk", url=f"http://127.0.0.1:{port}/mcp"), process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def address() -> Generator[HttpServer]:
    with serving() as (server, _):
        yield server


def program() -> StdioServer:
    return StdioServer(name="sdk", command=sys.executable, args=(SERVER,), sandbox=False)


async def check_all(stage: Stage) -> None:
    """Check calls, content, progress, cancellation and changes."""
    added = await stage.call("add", a=1, b=2)
    shown = await stage.call("picture")
    heard: list[Progressed] = []
    async with stage.executor.events() as feed:
        stepped = await stage.call("steps")
        async for event in feed:
            heard += [event] if isinstance(event, Progressed) else []
            if isinstance(event, Finished):
                break
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(stage.call, "wait", label="wait"))
            await anyio.sleep(0.2)
            stage.executor.cancel()
        before = stage.registry.generation
        await stage.call("grow", name=f"new_{os.getpid()}", description="Grown.")
        await stage.generation(before + 1)
        cancelled = ""
        while "wait" not in cancelled:
            cancelled = (await stage.call("list_cancelled")).text

        flooded = await stage.call("flood")
    lying = stage.registry.snapshot()["mcp__sdk__lie"].spec

    assert (flooded.text, flooded.failure) == ("flooded", None)
    assert (lying.effect.name, lying.idempotent) == ("DESTROY", False)
    assert (added.text, added.data) == ("3", '{"result": 3}')
    assert shown.content[:2][0] == Text("a picture:")
    assert isinstance(shown.content[1], Image)
    assert stepped.text == "done"
    assert [(event.message, event.fraction) for event in heard] == [("half", 0.5), ("whole", 1.0)]
    assert f"mcp__sdk__new_{os.getpid()}" in stage.registry.snapshot()


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_server_on_a_port_does_all_of_it(address: HttpServer, era: Any) -> None:
    async with connected(address, effects=EFFECTS, era=era) as stage:
        await check_all(stage)
        assert stage.source.state == "open"


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_program_does_all_of_it_and_is_started_again_when_it_dies(era: Any) -> None:
    async with connected(program(), effects=EFFECTS, era=era) as stage:
        await check_all(stage)
        first = await stage.call("pid")
        died = await stage.call("die")
        with anyio.fail_after(PATIENCE):
            second = await stage.call("pid")

    detail = "exit code 3. Its last words:\nout of paper"
    assert died.failure == Failure(FailureKind.UNKNOWN, f"{LOST} {CHECK}", detail)
    assert (first.failure, second.failure, first.text == second.text) == (None, None, False)


async def test_a_call_does_not_wait_for_a_hundred_slow_ones(address: HttpServer) -> None:
    async with (
        connected(address, effects=Effects(reads=("add", "wait"))) as stage,
        anyio.create_task_group() as tasks,
    ):
        for number in range(110):
            tasks.start_soon(partial(stage.call, "wait", label=f"slow {number}"))
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(PATIENCE):
            result = await stage.call("add", a=1, b=2)
        stage.executor.cancel()

    assert (result.text, result.failure) == ("3", None)


async def test_an_expired_session_is_begun_again_once(address: HttpServer) -> None:
    async with connected(address, effects=EFFECTS, era="legacy") as stage:
        await stage.call("forget_sessions")
        with anyio.fail_after(PATIENCE):
            result = await stage.call("add", a=20, b=3)

    assert (result.text, result.failure) == ("23", None)


async def test_a_call_that_ran_in_an_expired_session_is_not_repeated(address: HttpServer) -> None:
    apart = Effects(touches={tool: f"own:{tool}" for tool in ("wait", "add", "forget_sessions")})
    async with (
        connected(address, effects=apart, era="legacy") as stage,
        anyio.create_task_group() as tasks,
    ):
        held: list[FailureKind | None] = []
        ended = anyio.Event()

        async def hold() -> None:
            result = await stage.call("wait", label="not repeated")
            held.append(result.failure and result.failure.kind)
            ended.set()

        tasks.start_soon(hold)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(PATIENCE):
            await stage.call("forget_sessions")
            result = await stage.call("add", a=20, b=3)
            await ended.wait()

    assert (result.text, held) == ("23", [FailureKind.UNKNOWN])


async def test_a_connection_that_is_lost_behind_an_expired_session_is_explained() -> None:
    with serving() as (server, _):
        async with connected(server, effects=EFFECTS, era="legacy") as stage:
            await stage.call("forget_sessions")
            with anyio.fail_after(PATIENCE):
                died = await stage.call("die")

    assert died.failure is not None
    assert (died.failure.kind, died.failure.message) == (FailureKind.UNKNOWN, f"{LOST} {CHECK}")


async def test_a_server_that_dies_in_the_middle_of_a_call_ends_only_that_call() -> None:
    with serving() as (server, process):
        async with connected(server, effects=EFFECTS) as stage:
            with anyio.fail_after(PATIENCE):
                died = await stage.call("die")
                await anyio.to_thread.run_sync(process.wait)
                gone = await stage.executor.run(Call("mcp__sdk__add", {"a": 1, "b": 2}))
            port = server.url.rpartition(":")[2].partition("/")[0]
            with serving(port):
                with anyio.fail_after(PATIENCE):
                    back = await stage.call("add", a=1, b=2)

    assert died.failure is not None
    assert (died.failure.kind, died.failure.message) == (FailureKind.UNKNOWN, f"{LOST} {CHECK}")
    assert gone.failure is not None
    assert gone.failure.kind is FailureKind.TRANSIENT
    assert back.text == "3"


ANSWERS = {
    "refuses": b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n",
    "floods": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + b" " * (17 << 20),
    "moves": b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n",
}


@contextmanager
def answering(kind: str) -> Generator[HttpServer]:
    """A server that gives every request the same answer."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                peer, _ = listening.accept()
            except OSError:
                return
            with peer:
                peer.recv(1 << 16)
                try:
                    peer.sendall(ANSWERS[kind])
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(1 << 16):
                        pass
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        port = listening.getsockname()[1]
        yield HttpServer(
            name="sdk", url=f"http://127.0.0.1:{port}/", headers={"Authorization": "x"}
        )
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


class Moody(BaseHTTPRequestHandler):
    """Lists a tool, and asks for a login when it is called."""

    refusal = 401

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, reply = request["method"], {"jsonrpc": "2.0", "id": request.get("id")}
        info = {"name": "moody", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}
        tools = {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
        results = {"initialize": hello, "tools/list": tools}
        error = {"error": {"code": -32601, "message": "what?"}}
        body = json.dumps(
            {**reply, **({"result": results[method]} if method in results else error)}
        )
        self.send_response(
            self.refusal if method == "tools/call" else 200 if "id" in request else 202
        )
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


class Forgetful(Moody):
    """Lists a tool, and has forgotten the session when it is called."""

    refusal = 404

    def end_headers(self) -> None:
        self.send_header("mcp-session-id", "s")
        super().end_headers()


async def act(kind: type[Moody]) -> tuple[Result, str]:
    """Call the tool of a server. Returns its address too."""
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        async with connected(HttpServer(name="sdk", url=url)) as stage:
            result = await stage.call("act")
        server.shutdown()
    return result, url


async def test_a_call_is_repeated_for_one_expired_session_only() -> None:
    result, _ = await act(Forgetful)

    assert result.failure is not None
    assert result.failure.kind is FailureKind.TRANSIENT
    assert result.failure.message.startswith("The MCP server 'sdk' forgets its sessions.")


async def test_a_call_that_needs_a_login_says_so() -> None:
    result, url = await act(Moody)

    assert result.failure is not None
    assert result.failure.kind is FailureKind.DENIED  # no one is there to log in
    assert f"The MCP server 'sdk' needs a login. {url}" in result.text


async def test_a_server_that_takes_requests_and_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = HttpServer(name="sdk", url=f"http://127.0.0.1:{silent.getsockname()[1]}/")
        with pytest.raises(NotConnected, match=r"did not answer within 0\.3 s"):
            async with connected(server, start_seconds=0.3):
                raise AssertionError


async def test_a_server_that_asks_for_a_login_needs_one() -> None:
    with answering("refuses") as server, pytest.raises(NeedsLogin) as caught:
        async with connected(server):
            raise AssertionError
    assert (str(caught.value), caught.value.url) == (
        "The MCP server 'sdk' needs a login.",
        server.url,
    )


@pytest.mark.parametrize(
    ("kind", "why"), [("floods", "the answer has more than 16777216 bytes"), ("moves", "Redirect")]
)
async def test_an_answer_that_is_too_long_or_leads_elsewhere_is_refused(
    kind: str, why: str
) -> None:
    with answering(kind) as server, pytest.raises(NotConnected) as caught:
        async with connected(server, start_seconds=20):
            raise AssertionError
    assert why in str(caught.value)
