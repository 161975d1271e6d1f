"""A server's questions: put to the user of the call, in both eras, now or later."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Allow, Call, Deny, Executor, Registry, Result
from handrail.approvals import defer
from handrail.mcp import Effects, HttpServer, McpSource, Offer
from handrail.mcp._questions.questions import refuse_address, refuse_form
from handrail.messages import ToolResults
from handrail.permissions import Answer, Approvals, Edit, Pending
from mcp_client.asking_server import FORM, URL
from unframed import UNFRAMED
from virtual_time import Quick

SERVER = str(Path(__file__).parent / "asking_server.py")
MODERN = "2026-07-28"
ERAS = ("legacy", MODERN)
Shop: TypeAlias = Callable[[Any], McpSource]
SAID = "The MCP server 'shop' asks: Which order?"
OPEN = (
    "The MCP server 'shop' asks: Pay. "
    f"Open this address, and agree when you have finished there: {URL}"
)


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    argv = [sys.executable, SERVER, "http"]
    with subprocess.Popen(  # noqa: S603  a file of ours
        argv, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        finally:
            process.kill()


@pytest.fixture
def shop(url: str) -> Callable[[Any], McpSource]:
    return lambda era: McpSource(
        HttpServer(name="shop", url=url), offer=Offer(effects=Effects(reads=("order",))), era=era
    )


@asynccontextmanager
async def shopping(source: McpSource, approver: Any) -> AsyncGenerator[Executor]:
    registry, approvals = Registry(), Approvals(approver=approver) if approver else None
    async with (
        registry.connect(source),
        Executor(
            registry, policy=Quick(lambda _: Allow()), approvals=approvals, hooks=UNFRAMED
        ) as executor,
    ):
        yield executor


class Person:
    """Gives these answers, the last one again and again, and notes what was asked."""

    def __init__(self, *answers: Answer | Pending | None) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, str]] = []

    async def __call__(self, pending: Pending) -> Answer | Pending:
        self.asked.append((pending.kind, pending.question, pending.headline))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return pending if answer is None else answer


def call(tool: str) -> Call:
    return Call(f"mcp__shop__{tool}", {}, "c1")


@pytest.mark.parametrize("era", ERAS)
async def test_a_form_and_an_address_reach_the_person_and_the_answer_the_server(
    shop: Shop, era: str
) -> None:
    person = Person(Edit({"size": 3}), Allow(), Deny.by_user(), Allow())
    async with shopping(shop(era), person) as executor:
        texts = [
            (await executor.run(call(tool))).text for tool in ("order", "pay", "order", "order")
        ]

    assert texts == [
        "order: accept {'size': 3}",
        "pay: accept None",
        "order: decline None",
        "order: decline None",  # no value for what is required
    ]
    about = "Answer the MCP server 'shop'"
    asked = ("form", SAID, about)
    assert person.asked == [asked, ("form", OPEN, about), asked, asked]


@pytest.mark.parametrize("era", ERAS)
async def test_a_form_for_a_secret_is_declined_and_never_shown(
    shop: Shop, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    person = Person(Edit({"apiKey": "k"}))
    with caplog.at_level(logging.WARNING, "handrail.mcp"):
        async with shopping(shop(era), person) as executor:
            result = await executor.run(call("steal"))

    assert (result.text, person.asked) == ("steal: decline None", [])
    assert "'apiKey' is for a secret, which must never go into a form" in caplog.text


@pytest.mark.parametrize("era", ERAS)
async def test_without_anyone_to_ask_the_question_is_declined(shop: Shop, era: str) -> None:
    async with shopping(shop(era), None) as executor:
        result = await executor.run(call("order"))

    assert result.text == "order: decline None"


async def test_an_older_server_waits_for_its_answer_so_it_is_declined_if_none_comes_now(
    shop: Shop,
) -> None:
    person = Person(None)
    async with shopping(shop("legacy"), person) as executor:
        result = await executor.run(call("order"))

    assert (result.text, result.pending, len(person.asked)) == (
        "order: decline None",
        None,
        1,
    )


async def test_a_question_is_answered_later_by_another_executor_each_round_once(shop: Shop) -> None:
    """Each round is answered in a new process of ours, and the server's state comes back."""
    source = shop(MODERN)
    async with shopping(source, defer) as executor:
        turn = executor.turn("t", run="r")
        waiting = await turn.run(call("twice"))
        saved = ToolResults((waiting,))
        questions = [turn.questions[0].question]
        while saved.questions:
            saved = ToolResults(tuple(Result.from_json(one.to_json()) for one in saved.results))
            async with shopping(source, defer) as another:
                [asked] = saved.questions
                saved = await another.resume(saved, {asked.id: Edit({"size": 9})})
                questions += [one.question for one in saved.questions]

    assert questions == [SAID, SAID]
    assert saved.results == (Result("c1", "twice: accept {'size': 9}"),)


async def test_a_server_that_asks_without_end_or_for_what_is_not_offered_is_given_up(
    shop: Shop,
) -> None:
    person = Person(Edit({"size": 1}))
    async with shopping(shop(MODERN), person) as executor:
        endless = await executor.run(call("endless"))
        sample = await executor.run(call("sample"))

    assert endless.text == "The MCP server 'shop' asks without end. The call was given up."
    assert len(person.asked) == 10
    assert sample.text == "The MCP server 'shop' needs what is not offered here: roots/list."


async def test_an_address_that_an_older_server_wants_opened_first_is_a_login(shop: Shop) -> None:
    person = Person(Allow())
    async with shopping(shop("legacy"), person) as executor:
        result = await executor.run(call("open_first"))

    said = f"The MCP server 'shop' asks you to open an address. {URL}"
    assert person.asked[0] == ("login", said, "")
    assert result.text == "open_first: decline None"


async def test_questions_of_several_people_at_once_are_put_to_none_of_them(shop: Shop) -> None:
    """An older server does not say which call it asks about."""
    person = Person(Edit({"size": 1}))
    both = anyio.Event()
    asked: list[str | None] = []

    async def wait(pending: Pending) -> Answer | Pending:
        asked.append(pending.principal)
        await both.wait()
        return await person(pending)

    texts = dict[str, str]()
    async with shopping(shop("legacy"), wait) as executor:

        async def order(name: str) -> None:
            turn = executor.turn("t", run=name, principal=name)
            texts[name] = (await turn.run(call("order"))).text
            both.set()

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(order, "ada")
                while not asked:  # noqa: ASYNC110  no event tells of it
                    await anyio.sleep(0.01)
                group.start_soon(order, "ben")

    assert asked == ["ada"]
    assert texts == {
        "ada": "order: accept {'size': 1}",
        "ben": "order: cancel None",
    }


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("password", {"type": "string"}),
        ("apiKey", {"type": "string"}),
        ("x", {"type": "string", "title": "Access token"}),
        ("x", {"type": "string", "description": "Your PIN"}),
        ("card_number", {"type": "string"}),
        ("x", {"type": "string", "format": "password"}),
    ],
)
def test_fields_for_secrets_are_refused(name: str, field: dict[str, Any]) -> None:
    refused = f"its field {name!r} is for a secret, which must never go into a form"
    assert refuse_form("m", {"type": "object", "properties": {name: field}}) == refused


def test_a_description_that_warns_against_a_secret_does_not_ask_for_it() -> None:
    field = {"type": "integer", "description": "A number (do not enter your pin)"}
    assert refuse_form("m", {"type": "object", "properties": {"a": field}}) == ""


NESTED = {"type": "object", "properties": {"a": {"type": "object"}}}
LIST = {"type": "object", "properties": {"a": {"type": "array", "items": {"properties": {}}}}}
MANY = {"type": "object", "properties": {str(n): {"type": "string"} for n in range(21)}}
LONG = {"type": "object", "properties": {"a": {"type": "string", "title": "x" * 4001}}}
CHOICES = {"type": "object", "properties": {"a": {"enum": [str(n) for n in range(101)]}}}


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (FORM, ""),
        ({"type": "array"}, "its form is not an object"),
        ({"properties": []}, "its form is not an object"),
        (NESTED, "its field 'a' is not a text, number, boolean or choice"),
        (LIST, "its field 'a' is nested"),
        (MANY, "it asks for too much"),
        (LONG, "its field 'a' is too long"),
        (CHOICES, "its field 'a' is too long"),
    ],
)
def test_forms_are_flat_and_bounded(form: dict[str, Any], why: str) -> None:
    assert refuse_form("m", form) == why


@given(st.text(max_size=30))
def test_no_address_is_shown_that_is_not_plain_and_encrypted(text: str) -> None:
    assert refuse_address(text) != "" or text.startswith(("http:", "https:"))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (URL, ""),
        ("http://127.0.0.1:80/x", ""),
        ("http://127.0.0.2/x", ""),
        ("http://example.org", "its address is not encrypted"),
        ("https://a@b.example", "its address is not valid"),
        ("https://[", "its address is not valid"),
        ("https://a.example/\u202e", "its address is not valid"),
        ("javascript:alert(1)", "its address is not valid"),
    ],
)
def test_addresses(url: str, why: str) -> None:
    assert refuse_address(url) == why
