"""A chat over HTTP: one agent in the process, or durable runs; streams, conversations, answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from handrail import READ, Call, Context, Text, tool
from handrail.agent import Agent
from handrail.approvals import defer
from handrail.messages import Delta, Reply, Request, ToolResults
from handrail.runs.durable import DurableRuns
from handrail.web import ChatApp
from handrail.web.conversations import Conversations
from web.chats import (
    ORIGIN,
    REFUNDS,
    as_person,
    client_of,
    identify,
    post_chat,
    read_events,
    shop_agent,
    text_of,
)


@pytest.fixture(params=["process", "workers"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def chatting(
    kind: str, database: str, *, name: str = "ada", agent: Any = None, **options: Any
) -> AsyncGenerator[httpx2.AsyncClient]:
    """Serve the shop's chat, with workers if its runs are durable."""
    agent = agent or shop_agent()
    if kind == "process":
        app = ChatApp(agent, identify, origins=[ORIGIN], database=database, **options)
        async with client_of(app, name) as client:
            yield client
        return
    runs = DurableRuns(database, {"shop": agent}, poll=0.05)
    app = ChatApp(runs, identify, origins=[ORIGIN], agent="shop", **options)
    async with runs, runs.work(interval=0.1), client_of(app, name) as client:
        yield client


@pytest.fixture(autouse=True)
def no_refunds() -> None:
    REFUNDS.clear()


async def test_a_message_is_answered_in_pieces(kind: str, database: str) -> None:
    async with chatting(kind, database) as client:
        events = await post_chat(client, {"text": "hello there"})
        begin = events[0].data
        shown = (await client.get(f"/conversations/{begin['conversation']}")).json()

    assert text_of(events) == "1: hello there "
    assert (events[0].event, events[-1].event) == ("begin", "end")
    assert events[-1].data == {"status": "done", "reason": "answer"}
    assert shown["messages"] == [
        {"role": "user", "text": "hello there"},
        {"role": "assistant", "text": "1: hello there "},
    ]


async def test_a_conversation_goes_on_where_it_ended(kind: str, database: str) -> None:
    async with chatting(kind, database) as client:
        first = await post_chat(client, {"text": "one"})
        name = first[0].data["conversation"]
        second = await post_chat(client, {"text": "two", "conversation": name})
        listed = (await client.get("/conversations")).json()["conversations"]
        other = await post_chat(client, {"text": "three"}, headers=as_person("bob"))

    assert text_of(second) == "3: two "
    assert text_of(other) == "1: three "
    assert [(one["id"], one["title"], one["state"]) for one in listed] == [(name, "one", "free")]


async def test_another_person_answers_and_the_open_stream_goes_on(kind: str, database: str) -> None:
    async with chatting(kind, database) as client:
        boss = as_person("boss")
        async with client.stream("POST", "/chat", json={"text": "refund o1 500"}) as response:
            events = read_events(response)
            seen = []
            async for event in events:
                seen.append(event)
                if event.event == "status" and event.data["status"] == "waiting":
                    break
            mine = (await client.get("/inbox")).json()["requests"]
            [request] = (await client.get("/inbox", headers=boss)).json()["requests"]
            path = f"/inbox/{request['pending']}"
            given = {"answer": "allow", "seen": request["seen"]}
            by_me = await client.post(path, json=given)
            unseen = await client.post(path, json={"answer": "allow"}, headers=boss)
            stale = await client.post(path, json={**given, "seen": "0" * 64}, headers=boss)
            by_boss = await client.post(path, json=given, headers=boss)
            again = await client.post(path, json=given, headers=boss)
            seen += [event async for event in events]

    [asked] = [event.data for event in seen if event.event == "approval"]
    assert asked == {"id": "c1", "name": "refund", "question": "Refund 500?"}
    assert (request["tool"], request["principal"], mine) == ("refund", "ada", [])
    assert request["args"] == {"order": "o1", "amount": 500}
    codes = [one.status_code for one in (by_me, unseen, stale, by_boss, again)]
    assert codes == [404, 400, 409, 200, 409]
    assert text_of(seen) == "One moment. Done: refunded 500 "
    assert seen[-1].data == {"status": "done", "reason": "answer"}
    assert [one[:2] for one in REFUNDS] == [("o1", 500)]


async def test_one_person_cannot_take_all_streams(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.web._application.MAX_STREAMS_EACH", 1)
    bob = as_person("bob")
    async with (
        chatting("process", sqlite) as client,
        client.stream("POST", "/chat", json={"text": "refund o1 500"}) as response,
    ):
        events = read_events(response)
        await anext(events)
        more = await client.post("/chat", json={"text": "one"})
        other = await post_chat(client, {"text": "one"}, headers=bob)
        again = await post_chat(client, {"text": "two"}, headers=bob)

    assert (more.status_code, more.json()) == (429, {"error": "You have too many open streams."})
    assert [text_of(one) for one in (other, again)] == ["1: one ", "1: two "]


async def test_arguments_some_browser_would_change_are_text(kind: str, database: str) -> None:
    amount = 2**53 + 1
    async with chatting(kind, database) as client:
        sent = {"text": f"refund o1 {amount}"}
        async with client.stream("POST", "/chat", json=sent) as response:
            async for event in read_events(response):
                if event.event == "status" and event.data["status"] == "waiting":
                    break
        answer = await client.get("/inbox", headers=as_person("boss"))
        [request] = answer.json()["requests"]

    assert request["args"] == f'{{"order":"o1","amount":{amount}}}'


async def test_a_denial_reaches_the_model(kind: str, database: str) -> None:
    async with chatting(kind, database) as client:
        async with client.stream("POST", "/chat", json={"text": "refund o1 500"}) as response:
            async for event in read_events(response):
                if event.event == "status" and event.data["status"] == "waiting":
                    break
                name = event.data.get("conversation", "") or name  # noqa: F821
        [request] = (await client.get("/inbox", headers=as_person("boss"))).json()["requests"]
        deny = {"answer": "deny", "reason": "Too much."}
        path = f"/inbox/{request['pending']}"
        answered = await client.post(path, json=deny, headers=as_person("boss"))
        async with client.stream("GET", f"/conversations/{name}/events") as response:
            rest = [event async for event in read_events(response)]
        shown = (await client.get(f"/conversations/{name}")).json()

    assert answered.status_code == 200
    assert rest[-1].data["status"] == "done"
    assert "Too much." in shown["messages"][-1]["text"]
    assert (shown["state"], shown["approvals"], REFUNDS) == ("free", [], [])


class Slow:
    """A model that replies when it is told to."""

    def __init__(self) -> None:
        self.go = anyio.Event()
        self.began = anyio.Event()
        self.stopped = anyio.Event()

    async def __call__(self, _request: Request) -> AsyncGenerator[Any]:
        try:
            yield Delta("Well, ")
            self.began.set()
            await self.go.wait()
            yield Delta("yes.")
        except BaseException:
            self.stopped.set()
            raise
        yield Reply(("Well, yes." and __import__("handrail").Text("Well, yes."),))


async def test_a_second_message_is_refused_while_the_first_is_answered(database: str) -> None:
    model = Slow()
    async with chatting("process", database, agent=shop_agent(model)) as client:
        async with client.stream("POST", "/chat", json={"text": "a", "conversation": "k"}) as first:
            await model.began.wait()
            second = await client.post("/chat", json={"text": "b", "conversation": "k"})
            model.go.set()
            rest = [event async for event in read_events(first)]
        third = await post_chat(client, {"text": "c", "conversation": "k"})
        shown = (await client.get("/conversations/k")).json()

    assert second.status_code == 409
    assert (text_of(rest), text_of(third)) == ("Well, yes.", "Well, yes.")
    assert [one["text"] for one in shown["messages"]] == ["a", "Well, yes.", "c", "Well, yes."]


async def test_a_second_message_can_wait(database: str) -> None:
    model = Slow()
    async with chatting("process", database, agent=shop_agent(model), wait=20) as client:
        async with anyio.create_task_group() as group:
            for text in ("a", "b", "c"):
                group.start_soon(post_chat, client, {"text": text, "conversation": "k"})
            await model.began.wait()
            model.go.set()
        shown = (await client.get("/conversations/k")).json()["messages"]

    assert sorted(one["text"] for one in shown if one["role"] == "user") == ["a", "b", "c"]
    assert [one["role"] for one in shown] == ["user", "assistant"] * 3


async def test_a_client_that_leaves_stops_the_run(database: str) -> None:
    model = Slow()
    async with chatting("process", database, agent=shop_agent(model), linger=0.1) as client:
        async with client.stream("POST", "/chat", json={"text": "a", "conversation": "k"}):
            await model.began.wait()
        with anyio.fail_after(10):
            await model.stopped.wait()
            while (await client.get("/conversations/k")).json()["state"] != "free":  # noqa: ASYNC110
                await anyio.sleep(0.02)
        model.go.set()
        after = await post_chat(client, {"text": "again", "conversation": "k"})

    assert text_of(after) == "Well, yes."


async def test_a_client_that_comes_back_gets_the_rest_once(kind: str, database: str) -> None:
    model = Slow()
    async with chatting(kind, database, agent=shop_agent(model)) as client:
        async with client.stream("POST", "/chat", json={"text": "a", "conversation": "k"}) as first:
            events, seen = read_events(first), []
            async for event in events:
                seen.append(event)
                if event.event == "text":
                    break
        last = {"last-event-id": seen[-1].id}
        async with client.stream("GET", "/conversations/k/events", headers=last) as second:
            model.go.set()
            rest = [event async for event in read_events(second)]
        async with client.stream("GET", "/conversations/k/events") as third:
            whole = [event async for event in read_events(third)]

    assert (text_of([*seen, *rest]), text_of(whole)) == ("Well, yes.", "Well, yes.")


async def test_a_run_can_be_cancelled(kind: str, database: str) -> None:
    model = Slow()
    async with chatting(kind, database, agent=shop_agent(model)) as client:
        async with client.stream("POST", "/chat", json={"text": "a", "conversation": "k"}) as first:
            events = read_events(first)
            async for event in events:
                if event.event == "text":
                    break
            stopped = (await client.post("/conversations/k/cancel", json={})).json()
            rest = [event async for event in events]
        model.go.set()
        after = await post_chat(client, {"text": "b", "conversation": "k"})

    assert stopped == {"stopped": True}
    assert rest[-1].event == "end"
    assert text_of(after) == "Well, yes."


async def test_a_process_that_died_frees_its_conversation(database: str) -> None:
    now = [1_000.0]
    store = Conversations(database, clock=lambda: now[0])
    from handrail.messages import Prompt

    head = await store.create("ada", "k")
    await store.claim(head, "run-of-a-dead-process", Prompt.of("lost"))
    async with chatting("process", database) as client:  # its clock is a thousand years later
        events = await post_chat(client, {"text": "next", "conversation": "k"})

    assert text_of(events) == "2: next "


async def test_values_that_do_not_fit_a_form_are_refused_and_can_be_corrected(
    kind: str, database: str
) -> None:
    @tool
    async def book(context: Context) -> str:
        """Book a seat."""
        form = {"type": "object", "properties": {"seat": {"type": "string"}}, "required": ["seat"]}
        return f"seat {(await context.ask('Which seat?', form) or {})['seat']}"

    async def model(request: Request) -> AsyncGenerator[Any]:
        if any(isinstance(one, Reply) for one in request.messages):
            yield Reply((Text("Booked."),))
        else:
            call = Call("book", {}, "c1")
            yield call
            yield Reply((call,), "calls")

    found, agent = list[Any](), Agent(model, [book], approvals=defer)
    async with chatting(kind, database, name="boss", agent=agent, details=True) as client:
        body = {"conversation": "k", "text": "Book."}
        async with client.stream("POST", "/chat", json=body) as response:
            async for event in read_events(response):
                if event.event == "approval":
                    path = f"/inbox/{event.data['pending']}"
                    for args in ({"row": 4}, {"seat": "4A"}):
                        sent = {"answer": "edit", "args": args, "seen": event.data["seen"]}
                        answer = await client.post(path, json=sent)
                        found.append((answer.status_code, answer.json().get("error")))
                elif event.event == "result":
                    found.append(event.data["text"])

    wrong = "The values do not fit the form: seat: required, missing; row: unknown field; known fields: seat."
    assert found == [(400, wrong), (200, None), "seat 4A"]


async def test_a_result_from_the_background_is_no_message_of_the_user(
    kind: str, database: str
) -> None:
    ended = anyio.Event()

    @tool(effect=READ, background=True)
    async def count() -> str:
        """Count."""
        await ended.wait()
        return "a secret number"

    async def model(request: Request) -> Reply:
        turn = sum(isinstance(one, Reply) for one in request.messages)
        if turn:
            ended.set()
        return Reply((Call("count", {}, "c1"),) if not turn else (Text(f"turn {turn}"),))

    async with chatting(kind, database, agent=Agent(model, [count])) as client:
        events = await post_chat(client, {"text": "count"})
        name = events[0].data["conversation"]
        shown = (await client.get(f"/conversations/{name}")).json()["messages"]

    assert shown[0] == {"role": "user", "text": "count"}
    assert {"role": "tool", "results": []} in shown
    assert [one["role"] for one in shown].count("user") == 1
    assert "secret" not in str(shown)


async def test_a_conversation_goes_on_with_the_calls_of_a_cancelled_run(
    kind: str, database: str
) -> None:
    hangs, told = anyio.Event(), list[str]()

    @tool
    async def pay() -> str:
        """Pay."""
        return "paid"

    @tool
    async def hang() -> None:
        """Hang."""
        hangs.set()
        await anyio.sleep_forever()

    async def model(request: Request) -> Reply:
        replies = [one for one in request.messages if isinstance(one, Reply)]
        if hangs.is_set():
            results = [one for one in request.messages if isinstance(one, ToolResults)]
            told.extend(str(one.failure or one.text) for each in results for one in each.results)
            return Reply((Text("Yes."),))
        return Reply((Call(("pay", "hang")[len(replies)], {}, f"c{len(replies)}"),))

    async with chatting(kind, database, agent=Agent(model, [pay, hang])) as client:
        body = {"text": "pay", "conversation": "k"}
        async with client.stream("POST", "/chat", json=body) as response:
            await hangs.wait()
            await client.post("/conversations/k/cancel", json={})
            assert [event.event async for event in read_events(response)][-1] == "end"
        await post_chat(client, {"text": "And?", "conversation": "k"})

    assert (told[0], "may have taken effect" in told[1]) == ("paid", True)


async def test_a_conversation_says_what_became_of_a_stopped_background_call(database: str) -> None:
    @tool(background=True)
    async def pay() -> None:
        """Pay."""
        await anyio.sleep_forever()

    async def model(request: Request) -> AsyncGenerator[Any]:
        turn = sum(isinstance(one, Reply) for one in request.messages)
        if not turn:
            yield Reply((Call("pay", {}, "c1"),))
            return
        text = f"{turn}: {'may have taken effect' in str(request.messages)}"
        yield Delta(text)
        yield Reply((Text(text),))

    async with chatting("process", database, agent=Agent(model, [pay])) as client:
        body = {"text": "pay", "conversation": "k"}
        async with client.stream("POST", "/chat", json=body) as response:
            first = list[Any]()
            async for event in read_events(response):
                first.append(event)
                if event.event == "text":
                    await client.post("/conversations/k/cancel", json={})
        after = await post_chat(client, {"text": "And?", "conversation": "k"})
        shown = (await client.get("/conversations/k")).json()["messages"]

    assert (text_of(first), text_of(after)) == ("1: False", "2: True")
    assert [one["role"] for one in shown[-3:]] == ["tool", "user", "assistant"]
