"""Credentials that a function makes for each call, and the login that they can need."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import Call, Context, Executor, NeedsLogin
from handrail.approvals import defer
from handrail.openapi import tools
from openapi.service import Answer, Service, call, document
from unframed import UNFRAMED

pytestmark = pytest.mark.anyio
KEYED: Any = {
    **document(components={"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}}),
    "security": [{"key": []}],
}


def token_of(context: Context[Any]) -> str:
    return f"{context.principal} {context.deps} {dict(context.metadata)}"


async def await_token(context: Context[Any]) -> str:
    return token_of(context)


@pytest.mark.parametrize("function", [token_of, await_token])
async def test_a_function_makes_the_credentials_of_a_call(function: Any) -> None:
    service = Service()
    async with Executor(
        tools(KEYED, service.client, credentials={"key": function}), hooks=UNFRAMED
    ) as executor:
        for principal in ("ada", "bob"):
            turn = executor.turn(principal=principal, deps="shop", metadata={"tenant": "t1"})
            await executor.run(Call("call_it", {}, "c1"), turn=turn)

    assert [one.headers["authorization"] for one in service.received] == [
        "Bearer ada shop {'tenant': 't1'}",
        "Bearer bob shop {'tenant': 't1'}",
    ]


async def test_a_function_without_credentials_sends_nothing() -> None:
    service = Service()
    result = await call(tools(KEYED, service.client, credentials={"key": lambda _: ""}), {})

    assert service.received == []
    assert result.text == (
        "Not sent: the application has no usable credentials. Tell the user, and continue without "
        "this tool."
    )


def sign_in(_: Context[Any]) -> str:
    raise NeedsLogin("Sign in.", url="https://id.example/")


@pytest.mark.parametrize(
    ("function", "question"),
    [
        (sign_in, "Sign in. https://id.example/"),
        (token_of, "Sign in at api.test: it refused the credentials."),
    ],
)
async def test_a_call_waits_for_a_login_where_a_function_makes_credentials(
    function: Any, question: str
) -> None:
    service = Service(Answer(401), Answer(401))
    made = tools(KEYED, service.client, credentials={"key": function})
    async with Executor(made, approvals=defer, hooks=UNFRAMED) as executor:
        result = await executor.run(Call("call_it", {}, "c1"))

    assert result.pending is not None
    assert (result.pending.kind, result.pending.question) == ("login", question)


async def test_a_service_that_refuses_a_variable_asks_no_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KEY", "old")
    service = Service(Answer(401, b"", {}))
    made = tools(KEYED, service.client, credentials={"key": "KEY"})
    async with Executor(made, approvals=defer, hooks=UNFRAMED) as executor:
        result = await executor.run(Call("call_it", {}, "c1"))

    assert (result.pending, "401 Unauthorized" in result.text) == (None, True)


async def test_a_tool_has_the_timeout_that_the_application_gives() -> None:
    service = Service()
    specs = [one.spec.timeout for one in tools(document(), service.client, timeout=7.0)]

    assert specs == [7.0]
    assert [one.spec.timeout for one in tools(document(), service.client)] == [None]
