"""Long histories: what is sent stays within the window, and the transcript stays whole."""

from __future__ import annotations

import json
import random
from typing import Any

import anyio
import pytest
from inline_snapshot import snapshot

from agent.stage import owed, says
from handrail import (
    READ,
    Access,
    Allow,
    Call,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    File,
    Image,
    Text,
    Toolset,
    tool,
    writes_file,
)
from handrail.agent import Agent, Compaction, Limits, RunState, Shortened
from handrail.messages import (
    Message,
    ModelError,
    Opaque,
    Prompt,
    Reply,
    Request,
    Stop,
    ToolResults,
    Usage,
)

CHARS_PER_TOKEN = 4


def size(request: Request) -> int:
    """The tokens of a request, as a server counts them."""
    return sum(len(repr(message)) for message in request.messages) // CHARS_PER_TOKEN


class Server:
    """A model with a small window. It refuses longer requests, as real servers do."""

    def __init__(self, window: int, turns: int, *, reports: bool = True) -> None:
        self.window = window
        self.turns = turns
        self.reports = reports
        self.requests: list[Request] = []
        self.summaries = 0
        self.refused = 0

    async def __call__(self, request: Request) -> Reply:
        tokens = size(request)
        if tokens > self.window:
            self.refused += 1
            raise ModelError("The prompt is too long.", "too_long")
        used = Usage(input_tokens=tokens, output_tokens=10) if self.reports else Usage()
        if request.tool_choice == "none" and "summary" in repr(request.messages[-1]):
            self.summaries += 1
            return Reply((says(f"Summary {self.summaries}.").parts[0],), "end", used)
        self.requests.append(request)
        number = len(self.requests)
        if number > self.turns:
            return Reply(says("done").parts, "end", used)
        return Reply((Call("fetch", {"page": str(number)}, "call_0"),), "calls", used)


def pages(chars: int) -> Toolset:
    @tool(effect=READ)
    async def fetch(page: str) -> str:
        """Fetch a page."""
        noise = random.Random(page).choices("abcdefgh \n", k=chars)  # noqa: S311
        return f"page {page} has the secret word word{page}word. {''.join(noise)}"

    return Toolset(fetch)


@pytest.mark.parametrize("reports", [True, False], ids=["usage", "no usage"])
async def test_many_turns_fit_a_small_window(*, reports: bool) -> None:
    server = Server(6_400, 60, reports=reports)
    agent = Agent(
        server, pages(5_000), compaction=Compaction(window=6_400), limits=Limits(turns=None)
    )

    done = await agent.run("Read all pages.")

    assert (done.stop_reason, len(server.requests)) == ("answer", 61)
    assert server.refused <= (0 if reports else 5), "without usage, tokens are a guess"
    assert server.summaries > 0
    owed(done.state.transcript())


async def test_what_is_sent_grows_only_at_its_end_between_two_cuts() -> None:
    server = Server(32_000, 60)
    agent = Agent(server, pages(3_000), compaction=Compaction(window=32_000))

    await agent.run("Read all pages.", limits=Limits(turns=None))

    cuts = [
        later
        for earlier, later in zip(server.requests, server.requests[1:], strict=False)
        if later.messages[: len(earlier.messages)] != earlier.messages
    ]
    assert 0 < len(cuts) < 10
    first = server.requests.index(cuts[0])
    offers = [request.tools.find("read_earlier") is not None for request in server.requests]
    assert offers == [at >= first for at in range(len(offers))]  # the first cut offers the reader


async def test_a_request_that_is_too_long_is_shortened_and_sent_again() -> None:
    server = Server(6_000, 5)
    agent = Agent(server, pages(8_000), compaction=Compaction(window=100_000))

    done = await agent.run("Read all pages.")

    assert (done.stop_reason, server.refused > 0) == ("answer", True)


async def test_without_compaction_a_request_that_is_too_long_fails() -> None:
    with pytest.raises(ModelError, match="too long"):
        await Agent(Server(6_000, 5), pages(8_000)).run("Read all pages.")


async def test_a_summary_has_denials_and_changed_files_as_facts() -> None:
    @tool(touches=writes_file)
    async def put(path: str) -> str:
        """Put something somewhere."""
        return f"put {path} " + "x" * 3_000

    def policy(call: CheckedCall) -> Decision:
        return (
            Deny("not this one") if call.accesses == (Access("write", "file:secret"),) else Allow()
        )

    steps = ["a", "secret", *[f"f{n}" for n in range(6)]]
    seen: list[tuple[Message, ...]] = []

    async def model(request: Request) -> Reply:
        if request.tool_choice == "none":
            return says("We put things.")
        seen.append(request.messages)
        if len(seen) > len(steps):
            return says("done")
        args: dict[str, Any] = {"path": steps[len(seen) - 1]}
        return Reply((Call("put", json.dumps(args), "1"),), "calls")

    compaction = Compaction(window=1_000, keep_turns=1)
    async with Executor(Toolset(put), policy=policy) as executor:
        done = await Agent(model, executor, compaction=compaction).run("go")

    first = seen[-1][0]
    assert isinstance(first, Prompt)
    assert first.parts[0].text == snapshot("""\
This is a summary of the conversation so far.

We put things.

Prompts so far:
- go

Denied, do not try again:
- put({"path": "secret"}): not this one

Touched so far:
- write file:a
- write file:f0
- write file:f1
- write file:f2
- write file:f3
- write file:f4

Earlier messages and results can be searched with read_earlier(search="text"). Continue.\
""")  # type: ignore[union-attr]
    assert done.state.messages[0] == Prompt.of("go"), "the transcript stays whole"


async def test_an_earlier_result_is_read_in_pages_or_searched() -> None:
    texts: list[str] = []
    calls = [
        Call("fetch", {"page": "1"}, "1"),
        Call("read_earlier", {"result": "2.0"}, "2"),
        Call("read_earlier", {"result": "2.0", "start": 15_000}, "3"),
        Call("read_earlier", {"result": "9.9"}, "4"),
        Call("read_earlier", {"search": "WORD1word"}, "5"),
        Call("read_earlier", {"search": "nowhere"}, "6"),
        Call("read_earlier", {"results": 1}, "7"),
        Call("read_earlier", {"result": "2.0", "start": -5}, "8"),
        Call("read_earlier", {"result": "2.0", "start": 30_000}, "9"),
    ]

    async def model(request: Request) -> Reply:
        last = request.messages[-1]
        if isinstance(last, ToolResults):
            texts.append(last.results[0].text)
        return Reply((calls[len(texts)],), "calls") if len(texts) < len(calls) else says("done")

    await Agent(model, pages(20_000), compaction=Compaction(window=100_000)).run("go")

    whole = texts[0]
    assert texts[1].removeprefix(whole[:15_000]) == snapshot("""\

[Characters 0 to 15,000 of 20,117. Next: start=15000.]\
""")
    assert texts[2] == whole[15_000:]
    assert texts[3] == snapshot("[There is no result '9.9'. Pass search to find one.]")
    assert texts[4].startswith('result="2.0", at 27: page 1 has the secret word word1word.')
    assert texts[7:] == [texts[1], ""]
    assert texts[5:7] == snapshot(
        [
            "[No earlier message or result has 'nowhere'.]",
            """\
Not run: invalid arguments.
- results: unknown field; did you mean result?
Fix these and call again.\
""",
        ]
    )


async def test_messages_can_be_read_and_searched_too() -> None:
    """But not what the tool itself was asked, or has found."""
    texts: list[str] = []
    calls = [
        Call("fetch", {"page": "blue"}, "1"),
        Call("read_earlier", {"search": "BLUE"}, "2"),
        Call("read_earlier", {"search": "blue"}, "3"),
        Call("read_earlier", {"result": "0"}, "4"),
        Call("read_earlier", {"result": "1"}, "5"),
        Call("read_earlier", {"result": "3"}, "6"),
        Call("read_earlier", {"result": "4.0"}, "7"),
    ]

    async def model(request: Request) -> Reply:
        last = request.messages[-1]
        if isinstance(last, ToolResults):
            texts.append(last.results[0].text)
        if len(texts) == len(calls):
            return says("done")
        return Reply((*says(f"Step {len(texts)}.").parts, calls[len(texts)]), "calls")

    agent = Agent(model, pages(0), compaction=Compaction(window=100_000))
    await agent.run("Paint it blue.", Image(b"\0", "image/png"))

    fetched = "Step 0.\nfetch({'page': 'blue'})"
    found = f'result="0", at 9: Paint it blue.\nresult="1", at 24: {fetched}'
    assert texts[1:3] == [f'{found}\nresult="2.0", at 5: {texts[0]}'] * 2
    assert texts[3:] == [
        "Paint it blue.\n[Images and files that cannot be shown again: 1.]",
        fetched,
        "Step 1.",
        texts[1],
    ]


async def test_a_result_of_images_and_files_says_that_they_are_left_out() -> None:
    @tool(effect=READ)
    async def shoot() -> list[Image | File]:
        """Take a picture."""
        return [Image(b"\0", "image/png"), File(b"\0", "application/pdf", "a.pdf")]

    seen: list[tuple[Message, ...]] = []
    steps = [
        Call("shoot", {}, "1"),
        *[Call("fetch", {"page": str(page)}, "1") for page in range(3)],
        Call("read_earlier", {"result": "2.0"}, "1"),
    ]

    async def model(request: Request) -> Reply:
        if request.tool_choice == "none":
            return Reply((), "refused")
        seen.append(request.messages)
        return Reply((steps[len(seen) - 1],), "calls") if len(seen) <= len(steps) else says("done")

    compaction = Compaction(window=3_000, keep_turns=1)
    await Agent(model, Toolset(shoot) | pages(300), compaction=compaction).run("go")

    texts = [one.results[0].text for one in seen[-1] if isinstance(one, ToolResults)]
    note = "Images and files that cannot be shown again: 2."
    read = 'To read them again: read_earlier(result="2.0").'
    assert (texts[0], texts[-1]) == (f"[Left out: 0 characters. {read} {note}]", f"[{note}]")


async def test_a_long_prompt_is_quoted_from_its_beginning() -> None:
    server = Server(2_000, 6)
    task = "Read all pages. " + "Be careful. " * 60
    await Agent(server, pages(3_000), compaction=Compaction(window=2_000, keep_turns=1)).run(task)

    first = server.requests[-1].messages[0]
    assert isinstance(first, Prompt)
    quoted = first.parts[0].text.partition("Prompts so far:\n")[2].partition("\n\n")[0]  # type: ignore[union-attr]
    assert quoted == f'- {task[:500]}… [To read all of it: read_earlier(result="0").]'


async def test_the_latest_prompts_are_quoted_as_far_as_there_is_room() -> None:
    seen: list[tuple[Message, ...]] = []

    async def model(request: Request) -> Reply:
        if request.tool_choice != "none":
            seen.append(request.messages)
        return says("Fine.")

    agent = Agent(model, Toolset(), compaction=Compaction(window=600, keep_turns=1))
    state = RunState()
    for number in range(30):
        state = (await agent.run(f"question {number} {'?' * 50}", history=state)).state

    first = seen[-1][0]
    assert isinstance(first, Prompt)
    quoted = first.parts[0].text.partition("Prompts so far:\n")[2].partition("\n\n")[0]  # type: ignore[union-attr]
    numbers = [int(line.split()[2]) for line in quoted.splitlines()]
    assert (numbers[0], len(numbers)) == (0, 4), "the first one, and three in 200 characters"
    assert numbers[1:] == list(range(numbers[-1] - 2, numbers[-1] + 1))


async def test_a_run_that_stopped_after_results_knows_its_size() -> None:
    server = Server(6_400, 12)
    agent = Agent(server, pages(5_000), compaction=Compaction(window=6_400))

    state, prompt = RunState(), "Read all pages."
    for _ in range(12):
        limits = Limits(turns=1, last_word=False)
        done = await agent.resume(state, prompt, limits=limits)
        state, prompt = done.state, "Go on."

    assert (done.limit, server.refused, server.summaries > 0) == ("turns", 0, True)


async def test_a_reply_is_not_separated_from_the_paused_one_that_it_continues() -> None:
    """A provider's own tool was called in the one, and its result is in the other."""
    use = Opaque('{"type": "server_tool_use", "id": "s1"}', "anthropic", "part")
    got = Opaque('{"type": "web_search_tool_result", "tool_use_id": "s1"}', "anthropic", "part")
    seen: list[tuple[Message, ...]] = []
    script = [
        Reply((Call("fetch", {"page": "1"}, "1"),), "calls"),
        Reply((Text("p" * 6_000), use), "paused"),
        Reply((Text("q" * 6_000), got), "paused"),
        Reply((Text("r" * 6_000), Call("fetch", {"page": "2"}, "2")), "calls"),
        says("done"),
    ]

    async def model(request: Request) -> Reply:
        if request.tool_choice == "none":
            return says("We searched.")
        seen.append(request.messages)
        return script[len(seen) - 1]

    compaction = Compaction(window=4_000, keep_turns=1)
    done = await Agent(model, pages(10), compaction=compaction).run("go")

    assert done.state.shortened.start == 3
    assert seen[-1][1:] == done.state.messages[3:-1]
    assert seen[-1][1:4] == tuple(script[1:4])


async def test_a_summary_of_paused_replies_alone_is_not_divided() -> None:
    """They are one turn, so there is no shorter part to summarize."""
    asked: list[int] = []

    async def model(request: Request) -> Reply:
        asked.append(len(request.messages))
        raise ModelError("The prompt is too long.", "too_long")

    paused = Reply((Text("p" * 6_000),), "paused")
    state = RunState((Prompt.of("go"), paused, paused, says("so far")))
    compaction = Compaction(window=100_000, keep_turns=1)
    with pytest.raises(ModelError):
        await Agent(model, Toolset(), compaction=compaction).run("And now?", history=state)

    assert asked == [5]


@pytest.mark.parametrize("stop", ["refused", "length", "calls", "other"])
async def test_a_summary_that_is_refused_or_incomplete_shortens_nothing(stop: Stop) -> None:
    seen: list[tuple[Message, ...]] = []

    async def model(request: Request) -> Reply:
        if request.tool_choice == "none":
            return Reply(says("I can't help with that.").parts, stop, Usage(input_tokens=3))
        seen.append(request.messages)
        args = {"page": str(len(seen))}
        return says("done") if len(seen) > 3 else Reply((Call("fetch", args, "1"),), "calls")

    compaction = Compaction(window=300, keep_turns=1)
    done = await Agent(model, pages(300), compaction=compaction).run("Read all pages.")

    assert (done.stop_reason, done.state.shortened) == ("answer", Shortened(results_before=5))
    assert seen[-1] == done.state.messages[:-1]
    assert done.state.usage.input_tokens >= 3, "it is paid all the same"


async def test_a_model_that_refuses_is_asked_again_when_the_history_has_grown_by_a_tenth() -> None:
    asked: list[int] = []

    async def model(request: Request) -> Reply:
        turns = sum(isinstance(message, Reply) for message in request.messages)
        if request.tool_choice == "none":
            asked.append(turns)
            return Reply(says("I can't help with that.").parts, "refused")
        size = 500 if turns < 4 else 10
        return Reply((Text("t" * size), Call("fetch", {"page": str(turns)}, "1")), "calls")

    limits = Limits(turns=24, last_word=False)
    compaction = Compaction(window=500, keep_turns=1)
    await Agent(model, pages(5), compaction=compaction, limits=limits).run("Read.")

    assert asked == [1, 2, 3, 6, 9, 12, 15, 18, 21]  # every turn adds 17 tokens in the end


async def test_an_earlier_summary_stays_if_the_next_one_is_refused() -> None:
    summaries = [says("We read."), Reply(says("I can't help with that.").parts, "refused")]
    asked: list[Request] = []

    async def model(request: Request) -> Reply:
        if request.tool_choice == "none":
            asked.append(request)
            return summaries[min(len(asked), 2) - 1]
        page = str(sum(isinstance(message, Reply) for message in request.messages))
        return Reply((Call("fetch", {"page": page}, "1"),), "calls")

    compaction = Compaction(window=300, keep_turns=1)
    limits = Limits(turns=6, last_word=False)
    done = await Agent(model, pages(300), compaction=compaction, limits=limits).run("Read.")

    assert len(asked) > 1
    assert done.state.shortened.summary.splitlines()[2] == "We read."


async def test_a_summary_quotes_the_beginning_of_long_arguments() -> None:
    """Calls over a limit are no denials: the model may make them again."""

    @tool
    async def put(text: str) -> str:
        """Put something somewhere."""
        raise AssertionError(text)

    def policy(_: CheckedCall) -> Decision:
        return Deny("not this one")

    texts = ["y" * 20_000, "z" * 20_000]
    replies = [
        Reply(tuple(Call("put", {"text": text}, text[0]) for text in texts), "calls"),
        *[Reply((Call("fetch", {"page": str(at)}, "1"),), "calls") for at in range(3)],
        says("done"),
    ]
    turns: list[Request] = []

    async def model(request: Request) -> Reply:
        if request.tool_choice == "none":
            return says("We tried.")
        turns.append(request)
        return replies[len(turns) - 1]

    compaction = Compaction(window=4_000, keep_turns=1)
    async with Executor(Toolset(put) | pages(300), policy=policy) as executor:
        agent = Agent(model, executor, compaction=compaction)
        done = await agent.run("go", limits=Limits(calls=1, last_word=False))
        done = await agent.resume(done.state)

    facts = done.state.shortened.summary.partition("Denied, do not try again:\n")[2]
    start = "{'text': '"
    assert facts.partition("\n\n")[0] == f"- put({start}{'y' * (200 - len(start))}…): not this one"


@pytest.mark.parametrize("turns", [0, -1])
def test_at_least_one_turn_is_kept(turns: int) -> None:
    with pytest.raises(ValueError, match="must be at least 1") as failure:
        Compaction(window=1_000, keep_turns=turns)

    assert str(failure.value) == f"Compaction(keep_turns={turns}): must be at least 1."


async def test_an_interrupted_summary_shortens_nothing() -> None:
    async def model(request: Request) -> Reply:
        if request.tool_choice == "none":
            run.interrupt()
            await anyio.sleep_forever()
        page = str(sum(isinstance(message, Reply) for message in request.messages))
        return Reply((Call("fetch", {"page": page}, "call_0"),), "calls")

    compaction = Compaction(window=300, keep_turns=1)
    run = Agent(model, pages(300), compaction=compaction).run("Read all pages.")
    done = await run

    assert (done.stop_reason, done.state.shortened.summary) == ("interrupted", "")
    owed(done.state.transcript())


async def test_a_person_can_have_the_conversation_summarized_at_any_time() -> None:
    server = Server(100_000, turns=2)
    agent = Agent(server, pages(10), compaction=Compaction(window=100_000), system=lambda _: "Do.")
    state = (await agent.run("Read two pages.")).state

    shorter = await agent.resume(state).compact()
    again = await agent.resume(shorter).compact()
    await agent.resume(again, "Go on.")

    assert (server.summaries, again) == (1, shorter)
    assert shorter.messages == state.messages
    assert shorter.shortened.start == len(state.messages) - 1
    assert shorter.usage.total > state.usage.total
    first, *others = server.requests[-1].messages
    assert "Summary 1." in repr(first)
    assert others == [state.messages[-1], Prompt.of("Go on.")]


async def test_without_compaction_nothing_is_summarized() -> None:
    server = Server(100_000, turns=2)
    agent = Agent(server, pages(10))
    state = (await agent.run("Read two pages.")).state

    assert (await agent.resume(state).compact(), server.summaries) == (state, 0)


async def test_a_summary_that_is_interrupted_changes_nothing() -> None:
    async def stops(request: Request) -> Reply:
        run.interrupt()
        await anyio.sleep_forever()
        raise AssertionError

    server = Server(100_000, turns=2)
    agent = Agent(server, pages(10), compaction=Compaction(window=100_000))
    state = (await agent.run("Read two pages.")).state
    run = agent.resume(state, model=stops)

    assert (await run.compact())._replace(shortened=state.shortened) == state
