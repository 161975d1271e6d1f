"""Credentials of each principal: tables, functions, exchanged tokens; and what tools of one's own get."""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import anyio
import httpx2
import pytest

from handrail import (
    Call,
    Context,
    Executor,
    HandrailError,
    Hook,
    NeedsLogin,
    Refused,
    Result,
    Toolset,
    tool,
)
from handrail.agent import Agent
from handrail.credentials import Credentials, TokenExchange, TokenStore
from handrail.events import CredentialUsed
from handrail.messages import Reply, Request
from handrail.runs.lines import event_lines

REST = "Tell the user, and continue without this tool."
KEY, OTHER = b"k" * 32, b"o" * 40


@tool
async def look(context: Context) -> str:
    """Return the credential. No real tool does."""
    return await context.credential("github")


@tool
def look_in_thread(context: Context) -> str:
    """Return the credential. No real tool does."""
    return context.credential_sync("github")


@tool
async def look_again(context: Context) -> str:
    """Return another credential than the first one."""
    return await context.credential("github", refused=await context.credential("github"))


def make(source: Any, **options: Any) -> Executor:
    credentials = None if source is None else Credentials({"github": source})
    return Executor(Toolset(look, look_in_thread, look_again), credentials=credentials, **options)


async def run(executor: Executor, name: str, principal: str | None = "alice") -> str:
    async with executor:
        return (await executor.run(Call(name, {}), turn=executor.turn(principal=principal))).text


TABLE = {"alice": "secret-a", "bob": "secret-b", "odd": "line\nbreak", "wide": "sécret", "none": ""}


@pytest.mark.parametrize("name", ["look", "look_in_thread"])
@pytest.mark.parametrize(
    ("principal", "text"),
    [
        ("alice", "secret-a"),
        ("bob", "secret-b"),
        ("Alice", f"Not run: this user has no credential for 'github'. {REST}"),
        ("none", f"Not run: this user has no credential for 'github'. {REST}"),
        ("odd", f"Not run: the credential for 'github' cannot be used. {REST}"),
        ("wide", f"Not run: the credential for 'github' cannot be used. {REST}"),
        (
            None,
            f"Not run: 'github' needs each user's own credential, and it is not known who this call is for. {REST}",
        ),
    ],
)
async def test_a_table_has_one_credential_for_each(
    name: str, principal: str | None, text: str
) -> None:
    assert await run(make(TABLE), name, principal) == text


async def test_functions_get_the_call() -> None:
    async def later(context: Context) -> str:
        return f"async-{context.principal}"

    def login(context: Context) -> str:
        raise NeedsLogin("Sign in.", url="https://github.example.org/login")

    found = [
        await run(make(source), "look")
        for source in (lambda context: f"now-{context.principal}", later)
    ]
    async with make(login, approvals=None) as executor:
        denied = await executor.run(Call("look", {}), turn=executor.turn(principal="alice"))

    assert found == ["now-alice", "async-alice"]
    assert denied.failure is not None
    assert (
        await run(make(None), "look")
        == f"Not run: there is no credential for 'github' here. {REST}"
    )
    assert await run(Executor(Toolset(look), credentials=Credentials({})), "look") == (
        f"Not run: no credentials are set up for 'github'. {REST}"
    )


async def test_a_refused_credential_is_not_returned_again() -> None:
    made = iter(["first", "second"])
    refused = f"Not run: 'github' refused this user's credential. {REST}"

    assert await run(make(TABLE), "look_again") == refused
    assert await run(make(lambda _: "same"), "look_again") == refused
    assert await run(make(lambda _: next(made)), "look_again") == "second"


async def test_a_table_is_replaced_for_the_next_call() -> None:
    credentials = Credentials({"github": TABLE})
    async with Executor(Toolset(look), credentials=credentials) as executor:
        texts = []
        for tables in (TABLE, {"alice": "new"}, {}):
            credentials.replace({"github": tables})
            turn = executor.turn(principal="alice")
            texts.append((await executor.run(Call("look", {}), turn=turn)).text)

    assert texts == [
        "secret-a",
        "new",
        f"Not run: this user has no credential for 'github'. {REST}",
    ]
    assert "secret" not in repr(credentials)


async def test_an_event_says_whose_credential_was_used_and_not_which() -> None:
    seen: list[Any] = []
    hook = Hook(observe=lambda *facts: seen.append(facts[-1]))

    await run(make(TABLE, hooks=[hook], clock=lambda: 17.0), "look")
    await run(make(TABLE, hooks=[hook]), "look", "nobody")
    used = [event for event in seen if isinstance(event, CredentialUsed)]

    assert [(one.name, one.principal) for one in used] == [("github", "alice")]
    [line] = event_lines(used[0])
    assert line == {
        "event": "credential_used",
        "at": 17.0,
        "call_id": used[0].call_id,
        "name": "github",
        "principal": "alice",
    }


async def test_an_agent_has_the_credentials_of_the_run() -> None:
    from handrail import Text

    async def model(request: Request) -> Reply:
        results = [one for message in request.messages for one in getattr(message, "results", ())]
        return Reply((Text(results[0].text),)) if results else Reply((Call("look", {}, "c1"),))

    agent: Agent[Any] = Agent(model, [look], credentials=Credentials({"github": TABLE}))
    answers = [(await agent.run("Look.", principal=name)).output for name in ("alice", "bob")]

    assert answers == ["secret-a", "secret-b"]


def test_a_context_of_your_own_has_no_credentials() -> None:
    with pytest.raises(RuntimeError, match="no executor"):
        Context(call_id="c", idempotency_key="k").credential_sync("github")
    with pytest.raises(RuntimeError, match="no executor"):
        anyio.run(Context(call_id="c", idempotency_key="k").credential, "github")


# -- the store -----------------------------------------------------------------------------------


async def test_tokens_are_sealed_for_one_service_and_one_person(tmp_path: Path) -> None:
    file = tmp_path / "own" / "tokens.db"
    store = TokenStore(file, keys=[KEY])
    for name in ("alice", "bob"):
        await store.put("github", name, {"access": f"secret-{name}"})

    assert [await store.get("github", name) for name in ("alice", "bob", "carol")] == [
        {"access": "secret-alice"},
        {"access": "secret-bob"},
        {},
    ]
    assert await store.get("other", "alice") == {}
    assert file.stat().st_mode & 0o777 == 0o600
    assert b"secret" not in file.read_bytes()
    assert "k" * 32 not in repr(store)


async def test_an_entry_that_was_moved_or_changed_cannot_be_opened(tmp_path: Path) -> None:
    """The control swaps two people in the file, and is caught."""
    store = TokenStore(tmp_path / "tokens.db", keys=[KEY])
    for name in ("alice", "bob"):
        await store.put("github", name, {"access": name})
    with sqlite3.connect(tmp_path / "tokens.db") as connection:
        rows = dict(connection.execute("SELECT principal, body FROM handrail_token").fetchall())
        connection.execute(
            "UPDATE handrail_token SET body = ? WHERE principal = 'alice'", (rows["bob"],)
        )
        connection.execute(
            "UPDATE handrail_token SET body = ? WHERE principal = 'bob'", (rows["bob"][:-1] + b"x",)
        )
        connection.execute("INSERT INTO handrail_token VALUES ('github', 'short', x'00')")
    connection.close()

    for name in ("alice", "bob", "short"):
        with pytest.raises(
            HandrailError, match="cannot be opened: its key is missing, or it was changed"
        ):
            await store.get("github", name)


async def test_keys_can_be_rotated(tmp_path: Path) -> None:
    file = tmp_path / "tokens.db"
    await TokenStore(file, keys=[KEY]).put("github", "alice", {"n": 1})
    both = TokenStore(file, keys=[OTHER, KEY])

    assert await both.get("github", "alice") == {"n": 1}
    await both.put("github", "alice", {"n": 2})
    assert await TokenStore(file, keys=[OTHER]).get("github", "alice") == {"n": 2}
    with pytest.raises(HandrailError, match="its key is missing"):
        await TokenStore(file, keys=[KEY]).get("github", "alice")
    with pytest.raises(ValueError, match="at least 32 bytes"):
        TokenStore(file, keys=[b"short"])


async def test_a_file_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    file = tmp_path / "tokens.db"
    file.touch()
    file.chmod(0o666)

    with pytest.raises(HandrailError, match="other users can write it"):
        await TokenStore(file, keys=[KEY]).get("github", "alice")


async def test_one_holds_a_lease_and_a_killed_process_loses_it(tmp_path: Path) -> None:
    now = [1000.0]
    stores = [
        TokenStore(tmp_path / "tokens.db", keys=[KEY], clock=lambda: now[0]) for _ in range(2)
    ]
    order: list[str] = []

    async def second() -> None:
        async with stores[1].lease("github", "alice"):
            order.append("second")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks, stores[0].lease("github", "alice"):
            tasks.start_soon(second)
            async with stores[1].lease("github", "bob"):
                order.append("first")
        killed = stores[0].lease("github", "alice")
        await killed.__aenter__()
        now[0] += 41  # its process does not come back
        await second()

    assert order == ["first", "second", "second"]


# -- exchanged tokens ----------------------------------------------------------------------------


class Endpoint(BaseHTTPRequestHandler):
    answer: tuple[int, Any] = 200, {}
    forms: list[dict[str, str]] = []  # noqa: RUF012  one server a test
    headers_seen: list[str] = []  # noqa: RUF012

    def do_POST(self) -> None:
        form = dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
        type(self).forms.append(form)
        type(self).headers_seen.append(self.headers.get("authorization", ""))
        status, body = self.answer
        if body == {}:
            body = {
                "access_token": f"for-{form['subject_token']}-{len(self.forms)}",
                "token_type": "N_A",
                "expires_in": 100,
            }
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def endpoint(status: int = 200, body: Any = None) -> Iterator[tuple[str, type[Endpoint]]]:
    handler = type(
        "One", (Endpoint,), {"answer": (status, body or {}), "forms": [], "headers_seen": []}
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token", handler
        finally:
            server.shutdown()


async def test_a_token_is_exchanged_once_for_each_principal_and_subject() -> None:
    now = [0.0]
    own = {"alice": "jwt-a", "bob": "jwt-b"}
    with endpoint() as (url, seen):
        source = TokenExchange(
            token_url=url,
            client_id="gateway",
            client_secret="s",
            subject=lambda context: own[context.principal or ""],
            audience="github",
            clock=lambda: now[0],
        )
        async with make(source) as executor:

            async def get(name: str, tool_name: str = "look") -> str:
                turn = executor.turn(principal=name)
                return (await executor.run(Call(tool_name, {}), turn=turn)).text

            texts = [await get("alice"), await get("bob"), await get("alice")]
            now[0] = 80.0  # less than 30 s are left
            texts.append(await get("alice"))
            own["alice"] = "jwt-new"
            texts += [await get("alice"), await get("alice", "look_again")]

    assert texts == [
        "for-jwt-a-1",
        "for-jwt-b-2",
        "for-jwt-a-1",
        "for-jwt-a-3",
        "for-jwt-new-4",
        "for-jwt-new-5",
    ]
    assert seen.forms[0] == {
        "client_id": "gateway",
        "client_secret": "s",
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": "jwt-a",
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "audience": "github",
    }
    assert "jwt" not in repr(source)


@contextmanager
def counting_certificates() -> Iterator[list[str]]:
    """Note each time that this thread reads the trusted certificates, which takes 50 ms."""
    read: list[str] = []

    def note(_frame: object, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ == "load_verify_locations":
            read.append(called.__name__)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield read
    finally:
        sys.setprofile(before)


async def test_the_requests_for_tokens_read_the_certificates_once() -> None:
    with endpoint() as (url, seen):
        source = TokenExchange(token_url=url, client_id="g", subject=lambda one: str(one.principal))
        async with make(source) as executor:
            with counting_certificates() as read:
                for name in ("alice", "bob", "carol"):
                    await executor.run(Call("look", {}), turn=executor.turn(principal=name))
    with counting_certificates() as control:
        async with httpx2.AsyncClient():
            pass

    assert (len(seen.forms), len(control)) == (3, 1)
    assert len(read) <= 1


@pytest.mark.parametrize(
    ("status", "body", "kind", "why"),
    [
        (400, {"error": "invalid_grant"}, "denied", "127.0.0.1 refused to give a token"),
        (500, {"error": "x"}, "transient", "127.0.0.1 did not give a token (status 500)"),
        (429, {"error": "x"}, "transient", "status 429"),
        (302, {"error": "x"}, "transient", "status 302"),
        (200, b"[]", "denied", "an answer without a token"),
        (200, b"{", "denied", "an answer without a token"),
        (200, {"access_token": 7}, "denied", "an answer without a token"),
        (200, {"access_token": "x", "token_type": "DPoP"}, "denied", "a token of another kind"),
        (200, b"x" * (1 << 21), "failed", "sent more than"),
    ],
)
async def test_what_no_token_endpoint_should_answer(
    status: int, body: Any, kind: str, why: str
) -> None:
    with endpoint(status, body) as (url, _):
        source = TokenExchange(
            token_url=url, client_id="g", client_secret="s", basic=True, subject=lambda _: "jwt"
        )
        async with make(source) as executor:
            result: Result = await executor.run(
                Call("look", {}), turn=executor.turn(principal="alice")
            )

    assert result.failure is not None
    assert (str(result.failure.kind), why in result.text) == (kind, True)


async def test_no_own_token_and_no_endpoint() -> None:
    def make_source(own: str) -> TokenExchange:
        return TokenExchange(
            token_url="http://127.0.0.1:9/token", client_id="g", subject=lambda _: own
        )

    texts = [await run(make(make_source(own)), "look") for own in ("", "jwt")]

    assert texts[0] == "Not run: this user's own token is not known. Tell the user."
    assert "127.0.0.1 did not give a token" in texts[1]
    with pytest.raises(Refused, match="not encrypted"):
        TokenExchange(
            token_url="http://auth.example.org/token", client_id="g", subject=lambda _: "x"
        )
