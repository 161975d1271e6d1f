"""The executor by its front door: approvals, arrival, registries, hooks, limits, and time."""

import functools
import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import AfterValidator

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Context,
    Decision,
    Deny,
    Executor,
    Exposure,
    Failure,
    FailureKind,
    Hook,
    LongResults,
    Refused,
    Registry,
    Result,
    Retry,
    Spec,
    Tool,
    ToolFailed,
    Toolset,
    Transient,
    UnknownName,
    reads_file,
    tool,
    writes_file,
)
from handrail.permissions import Pending


def kind(result: Result) -> FailureKind | None:
    return result.failure.kind if result.failure else None


@tool(effect=READ)
async def echo(word: str) -> str:
    """Say it again."""
    return word


# ---------------------------------------------------------------- approvals


async def yes(_pending: Pending) -> Allow:
    return Allow()


async def no(_pending: Pending) -> Deny:
    return Deny("Not on a Sunday.")


async def crash(_pending: Pending) -> Allow:
    raise RuntimeError("hunter2")


async def mumble(_pending: Pending) -> Any:
    return True


def at_once(_pending: Pending) -> Any:
    return Allow()


@pytest.mark.parametrize(
    ("approver", "expected"),
    [
        (yes, Result("1", "erased")),
        (no, Result.fail("1", FailureKind.DENIED, "Not on a Sunday.")),
        (crash, Result.fail("1", FailureKind.DENIED, "Not run: the approval request failed (RuntimeError). Tell the user.")),
        (mumble, Result.fail("1", FailureKind.DENIED, "Not run: the approver returned an invalid answer. Tell the user.")),
    ],
)  # fmt: skip
async def test_an_approver_says_yes_or_everything_else_is_no(
    approver: Any, expected: Result
) -> None:
    asked: list[tuple[Call, str]] = []
    ran: list[str] = []

    @tool
    async def erase(path: str) -> str:
        """Erase."""
        ran.append(path)
        return "erased"

    async def listening(pending: Pending) -> Any:
        asked.append((pending.call, pending.question))
        return await approver(pending)

    call = Call("erase", '{"path":"a"}', "1")
    policy = lambda *_: Ask("Erase a?")  # noqa: E731  short
    async with Executor(Toolset(erase), policy=policy, approvals=listening) as executor:
        outcomes = [await executor.run(call), *await executor.run_all([call])]

    assert asked == [(call, "Erase a?")] * 2
    assert [(one.text, kind(one)) for one in outcomes] == [(expected.text, kind(expected))] * 2
    assert ran == ([] if expected.failure else ["a", "a"])


async def test_siblings_go_on_while_one_call_waits_for_an_answer() -> None:
    ended: list[str] = []
    all_others = anyio.Event()

    @tool(touches=lambda path: writes_file(path))  # noqa: PLW0108  as an author would write it
    async def save(path: str) -> str:
        """Save."""
        ended.append(path)
        if len(ended) == 2:
            all_others.set()
        return "saved"

    def policy(call: CheckedCall) -> Allow | Ask:
        return Ask("?") if writes_file("secret") in call.accesses else Allow()

    async def think(_pending: Pending) -> Allow:
        with anyio.fail_after(2):
            await all_others.wait()
        return Allow()

    paths = ["secret", "a", "b", "secret/inside"]
    async with Executor(Toolset(save), policy=policy, approvals=think) as executor:
        outcomes = await executor.run_all(Call("save", {"path": path}, path) for path in paths)

    assert [one.text for one in outcomes] == ["saved"] * 4
    assert sorted(ended[:2]) == ["a", "b"]
    assert ended[2:] == ["secret", "secret/inside"], "what conflicts waits for the answer too"


async def test_a_no_lets_those_pass_that_waited_behind_it() -> None:
    @tool
    async def save(path: str) -> str:
        """Save."""
        return "saved"

    def policy(call: CheckedCall) -> Allow | Ask:
        return Ask("?") if call.id == "1" else Allow()

    async with Executor(Toolset(save), policy=policy, approvals=no) as executor:
        outcomes = await executor.run_all(Call("save", {"path": "a"}, n) for n in "12")

    assert [kind(one) for one in outcomes] == [FailureKind.DENIED, None]


# ---------------------------------------------------------------- arrival


async def test_reads_start_while_the_stream_is_open_and_the_others_once_it_is_complete() -> None:
    log: list[str] = []
    looked = anyio.Event()

    @tool(effect=READ, touches=lambda path: reads_file(path))  # noqa: PLW0108
    async def look(path: str) -> str:
        """Look."""
        log.append(f"look {path}")
        looked.set()
        return path

    @tool(touches=lambda path: writes_file(path))  # noqa: PLW0108
    async def save(path: str) -> str:
        """Save."""
        log.append(f"save {path}")
        return path

    async def arriving() -> AsyncIterator[Call]:
        yield Call("save", {"path": "a"}, "1")
        yield Call("look", {"path": "b"}, "2")
        yield Call("look", {"path": "a"}, "3")
        await looked.wait()
        await anyio.wait_all_tasks_blocked()
        log.append("complete")

    async with Executor(Toolset(look, save)) as executor:
        outcomes = await executor.run_all(arriving())

    assert log == ["look b", "complete", "save a", "look a"]
    assert [one.text for one in outcomes] == ["a", "b", "a"]


async def test_no_calls_are_no_outcomes() -> None:
    async def none() -> AsyncIterator[Call]:
        return
        yield

    async with Executor(Toolset(echo)) as executor:
        assert await executor.run_all([]) == []
        assert await executor.run_all(none()) == []


async def test_calls_may_come_from_anything_that_can_be_iterated() -> None:
    class Source:
        def __init__(self) -> None:
            self.left = ["1", "2"]

        def __aiter__(self) -> "Source":
            return self

        async def __anext__(self) -> Call:
            if not self.left:
                raise StopAsyncIteration
            return Call("echo", {"word": "w"}, self.left.pop(0))

    async with Executor(Toolset(echo)) as executor:
        outcomes = await executor.run_all(Source())

    assert [one.call_id for one in outcomes] == ["1", "2"]


async def test_two_turns_at_once_keep_out_of_each_others_way() -> None:
    inside: list[str] = []
    most: list[int] = []

    @tool
    async def save(who: str) -> str:
        """Save."""
        inside.append(who)
        most.append(len(inside))
        await anyio.wait_all_tasks_blocked()
        inside.remove(who)
        return who

    outcomes: dict[str, list[Result]] = {}
    async with Executor(Toolset(save)) as executor:

        async def turn(name: str) -> None:
            outcomes[name] = await executor.run_all(
                Call("save", {"who": f"{name}{n}"}, f"{n}") for n in range(2)
            )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn, "a")
            tasks.start_soon(turn, "b")

    assert most == [1] * 4
    assert {name: [one.text for one in some] for name, some in outcomes.items()} == {
        "a": ["a0", "a1"],
        "b": ["b0", "b1"],
    }


@pytest.mark.parametrize("options", [{"max_running": 2}, {"max_running_per_tool": {"work": 2}}])
async def test_no_more_run_at_once_than_may(options: dict[str, Any]) -> None:
    inside = 0
    most: list[int] = []

    @tool(effect=READ)
    async def work(number: int) -> int:
        """Work."""
        nonlocal inside
        inside += 1
        most.append(inside)
        await anyio.wait_all_tasks_blocked()
        inside -= 1
        return number

    async with Executor(Toolset(work), limits=CallLimits(**options)) as executor:
        for _ in range(2):
            outcomes = await executor.run_all(
                Call("work", f'{{"number":{n}}}', f"{n}") for n in range(7)
            )

    assert max(most) == 2
    assert [one.text for one in outcomes] == [str(n) for n in range(7)]


# ---------------------------------------------------------------- registries


async def test_a_registry_can_change_and_the_executor_says_so() -> None:
    @tool(effect=READ, name="echo")
    async def louder(word: str) -> str:
        """Say it louder."""
        return word.upper()

    registry = Registry()
    registry.add(echo)
    call = Call("echo", '{"word":"a"}', "1")
    async with Executor(registry) as executor:
        outcomes = [await executor.run(call)]
        registry.replace("echo", louder)
        outcomes += [await executor.run(call), *await executor.run_all([call])]
        executor.refresh_tools()
        outcomes += [await executor.run(call), await executor.run(call)]

    assert [one.text for one in outcomes] == [
        "a",
        *["Not run: the tool 'echo' has changed since you received it. Read its new definition and call again."] * 2,
        "A",
        "A",
    ]  # fmt: skip


async def test_the_reader_of_long_results_works_with_a_registry_that_changes() -> None:
    @tool(effect=READ)
    async def dump() -> str:
        """Dump."""
        return "x" * 30_000

    @tool(effect=READ)
    async def read_result() -> str:
        """Something else of the same name."""
        return "mine"

    registry = Registry()
    registry.add(dump)
    read = {"call_id": "1", "start": 0, "end": 3}
    async with Executor(registry) as executor:
        await executor.run(Call("dump", {}, "1"))
        registry.add(echo)
        part = await executor.run(Call("read_result", read, "2"))
        registry.add(read_result)
        names = [one.spec.name for one in executor.refresh_tools()]
        mine = await executor.run(Call("read_result", {}, "3"))
        theirs = await executor.run(Call("read_result_", read, "4"))

    assert part.text == theirs.text == "[characters 0 to 3 of 30000]\nxxx"
    assert names == ["dump", "echo", "read_result", "read_result_"]
    assert mine.text == "mine"


async def test_an_executor_with_a_toolset_has_nothing_to_advertise_anew() -> None:
    tools = Toolset(echo)
    async with Executor(tools) as executor:
        assert executor.refresh_tools() == executor.tools == tools


async def test_hidden_tools_are_unknown_to_a_model_and_deferred_ones_are_not() -> None:
    @tool(effect=READ, exposure=Exposure.HIDDEN)
    async def secret() -> str:
        """Hide."""
        return "hidden"

    @tool(effect=READ, exposure=Exposure.DEFERRED)
    async def secrets() -> str:
        """Be found by search."""
        return "found"

    async with Executor(Toolset(secret, secrets)) as executor:
        outcomes = await executor.run_all([Call("secret", {}, "1"), Call("secrets", {}, "2")])

    assert [one.text for one in outcomes] == [
        "There is no tool 'secret'. Did you mean secrets?",
        "found",
    ]


# ---------------------------------------------------------------- hooks


async def test_hooks_before_a_call_go_in_order_and_each_sees_what_the_last_one_left() -> None:
    seen: list[str] = []

    def hook(name: str, word: str | None) -> Any:
        async def before(call: CheckedCall) -> CheckedCall | Call:
            seen.append(f"{name} {call.args['word']}")
            return call if word is None else call.with_args(word=word)

        return before

    hooks = [hook("first", "b"), hook("second", None), hook("third", "c")]
    async with Executor(Toolset(echo), hooks=[Hook(before=one) for one in hooks]) as executor:
        outcomes = [await executor.run(Call("echo", '{"word":"a"}', "1")) for _ in range(2)]

    assert seen == ["first a", "second b", "third b"] * 2
    assert [one.text for one in outcomes] == ["c", "c"]


async def test_a_hook_that_answers_is_the_last_that_is_asked() -> None:
    seen: list[str] = []

    async def answer(call: CheckedCall) -> Result:
        return Result(call.id, "from the cache")

    async def never(call: CheckedCall) -> CheckedCall:
        seen.append(call.id)
        return call

    async def wrong(call: CheckedCall) -> Result:
        return Result("another", "call's result")

    call = Call("echo", '{"word":"a"}', "1")
    async with Executor(Toolset(echo), hooks=[Hook(before=answer), Hook(before=never)]) as executor:
        answered = [await executor.run(call), *await executor.run_all([call])]
    async with Executor(Toolset(echo), hooks=[Hook(before=wrong), Hook(before=never)]) as executor:
        refused = await executor.run(call)

    assert answered == [Result("1", "from the cache")] * 2
    assert kind(refused) is FailureKind.DENIED
    assert seen == []


async def test_hooks_may_wait_at_any_point_and_the_result_is_the_same() -> None:
    async def wait_before(call: Call) -> Call:
        await anyio.lowlevel.checkpoint()
        return call

    async def wait_after(_call: Call, result: Result) -> Result:
        await anyio.lowlevel.checkpoint()
        return result._replace(text=f"<{result.text}>")

    async def pass_before(call: Call) -> Call:
        return call

    async def pass_after(_call: Call, result: Result) -> Result:
        return result._replace(text=f"({result.text})")

    call = Call("echo", '{"word":"a"}', "1")
    before, after = [pass_before, wait_before, pass_before], [pass_after, wait_after, pass_after]
    async with Executor(
        Toolset(echo),
        hooks=[
            *[Hook(before=one) for one in before],
            *[Hook(after=one) for one in reversed(after)],
        ],
    ) as executor:
        outcomes = [await executor.run(call) for _ in range(3)]
        outcomes += await executor.run_all([call, call])

    assert outcomes == [Result("1", "(<(a)>)")] * 5


async def test_a_hook_may_be_a_plain_function_or_give_any_awaitable() -> None:
    class Later:
        def __init__(self, value: Any) -> None:
            self.value = value

        def __await__(self) -> Any:
            yield from anyio.lowlevel.checkpoint().__await__()
            return self.value

    call = Call("echo", '{"word":"a"}', "1")
    async with Executor(
        Toolset(echo),
        hooks=[
            Hook(before=lambda call: call),
            Hook(before=Later),
            Hook(after=lambda _call, result: Later(result)),
            Hook(after=lambda _call, result: result),
        ],
    ) as executor:
        outcomes = [await executor.run(call) for _ in range(3)]

    assert outcomes == [Result("1", "a")] * 3


async def test_a_hook_that_crashes_or_takes_too_long_after_it_waited_denies() -> None:
    mode = "pass"

    async def moody(call: CheckedCall) -> CheckedCall:
        await anyio.lowlevel.checkpoint()
        if mode == "crash":
            raise RuntimeError("hunter2")
        if mode == "hang":
            await anyio.sleep_forever()
        return call

    call = Call("echo", '{"word":"a"}', "1")
    async with Executor(
        Toolset(echo), hooks=[Hook(before=moody)], limits=CallLimits(hook_timeout=0.2)
    ) as executor:
        outcomes = [await executor.run(call)]
        mode = "crash"
        outcomes += [await executor.run(call)]
        mode = "hang"
        outcomes += [await executor.run(call), *await executor.run_all([call])]

    crashed = "Not run: a check before the call failed (RuntimeError). Tell the user."
    late = "Not run: a check before the call timed out after 0.2 s. Tell the user."
    assert [one.text for one in outcomes] == ["a", crashed, late, late]
    assert outcomes[1].failure is not None
    assert "hunter2" in outcomes[1].failure.detail


@pytest.mark.parametrize(
    "given", [None, "words", Result("another", "call's")], ids=["nothing", "words", "another"]
)
async def test_a_hook_after_a_call_that_gives_no_result_of_it_withholds_it(given: Any) -> None:
    async def after(_call: CheckedCall | Call, _result: Result) -> Any:
        return given

    call = Call("echo", '{"word":"a"}', "1")
    async with Executor(Toolset(echo), hooks=[Hook(after=after)]) as executor:
        outcomes = [await executor.run(call) for _ in range(2)]
        outcomes += await executor.run_all([call])

    for one in outcomes:
        assert one.call_id == "1"
        assert kind(one) is FailureKind.BUG
        assert "withheld" in one.text


# ---------------------------------------------------------------- policies


async def test_a_policy_sees_the_call_the_spec_and_what_will_be_touched() -> None:
    seen: list[Any] = []

    @tool(touches=lambda path, **_: [reads_file("b"), writes_file(path)])
    async def save(path: str = "default") -> str:
        """Save."""
        return "saved"

    def policy(call: CheckedCall) -> Allow:
        seen.append((call.call, call.spec, call.accesses, call.args, call.decision))
        return Allow()

    async with Executor(Toolset(save), policy=policy) as executor:
        await executor.run(Call("save", {}, "1"))

    touched = (reads_file("b"), writes_file("default"))
    assert seen == [(Call("save", "{}", "1"), save.spec, touched, {"path": "default"}, None)]


@pytest.mark.parametrize("decision", [Allow(), Deny("no"), Ask("?"), None])
async def test_a_policy_judges_every_call_alike_the_first_and_the_next(decision: Any) -> None:
    answers = [Allow()]

    call = Call("echo", '{"word":"a"}', "1")
    async with Executor(Toolset(echo), policy=lambda *_: answers[-1], approvals=no) as executor:
        outcomes: list[Result] = []
        for answer in [Allow(), decision, decision, Allow()]:
            answers.append(answer)
            outcomes.append(await executor.run(call))
            outcomes += await executor.run_all([call, call])

    allowed = isinstance(decision, Allow)
    assert [kind(one) for one in outcomes] == [
        *[None] * 3, *[None if allowed else FailureKind.DENIED] * 6, *[None] * 3,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "touches",
    [
        lambda **_: 1 / 0,
        lambda path: f"file:{path}",
        lambda **_: None,
        lambda path: [path],
        lambda **_: writes_file("x"),
    ],
    ids=["crashes", "a text", "nothing", "texts", "more than its effect"],
)
async def test_a_tool_that_cannot_say_what_it_touches_is_not_run(touches: Any) -> None:
    ran: list[str] = []

    @tool(effect=READ, touches=touches)
    async def look(path: str) -> str:
        """Look."""
        ran.append(path)
        return ""

    async with Executor(Toolset(look, echo)) as executor:
        outcomes = await executor.run_all(
            [Call("look", {"path": "a"}, "1"), Call("echo", {"word": "b"}, "2")]
        )

    assert ran == []
    assert outcomes[1].text == "b"
    assert outcomes[0].text == (
        "Not run: the tool 'look' is broken: it failed to declare what it would touch. Calling again will not help; tell the user."
    )
    assert kind(outcomes[0]) is FailureKind.BUG
    assert outcomes[0].failure is not None
    assert outcomes[0].failure.detail


# ---------------------------------------------------------------- whatever a tool does


@tool(effect=READ)
async def behave(  # noqa: C901  one case for each way to end
    how: str, items: list[dict[str, int]] | None = None
) -> dict[str, Any]:
    """Behave as told."""
    if how.startswith("late"):
        await anyio.lowlevel.checkpoint()
    match how.removeprefix("late "):
        case "fail":
            raise ToolFailed("no luck")
        case "refuse":
            raise Refused("never")
        case "busy":
            raise Transient("try later")
        case "break":
            raise RuntimeError("hunter2")
        case "leave":
            raise SystemExit(1)
        case "long":
            return {"text": "x" * 30_000}
        case "lie":
            return [how]  # type: ignore[return-value]
        case "opaque":
            return {"it": object()}
    return {"how": how, "items": items}


@tool
async def change(how: str) -> str:
    """Behave as told, and change something."""
    return "changed " + str(await behave(how)).partition(" object at ")[0]


BEHAVIOURS = [
    *(f"{late}{how}" for late in ("", "late ") for how in ("fine", "fail", "refuse", "busy", "break", "leave", "long", "lie", "opaque")),
]  # fmt: skip
ARGS = [
    *(json.dumps({"how": how}) for how in BEHAVIOURS),
    '{"how":"fine","items":[{"a":1},{"b":2}]}',
    '{"how":"fine: with colons"}',
    '{"how":"with \\"quotes\\" and \\u00e9"}',
    '{"how":"fine","how":"fail"}',
    '{"how":"nul \\u0000"}',
    '{"how":"fine","items":"[]"}',
    '{"how":5}',
    '{"how":"fine","extra":1}',
    '{"how":"fi',
    "{}",
    "",
    "null",
    json.dumps({"how": "y" * 300_000}),
]


@pytest.mark.parametrize("args", ARGS, ids=lambda args: args[:40])
@pytest.mark.parametrize("name", ["behave", "change"])
async def test_the_first_call_the_next_ones_and_a_batch_give_the_same(name: str, args: str) -> None:
    call = Call(name, args, "1")
    warm = Call(name, '{"how":"fine"}', "0")
    tools = Toolset(behave, change)
    async with Executor(tools) as executor:
        first = await executor.run(call)
    async with Executor(tools) as executor:
        await executor.run(warm)
        outcomes = [await executor.run(call) for _ in range(2)]
        outcomes += await executor.run_all([call, call])
        outcomes += [await executor.run(Call(name, args, "1"))]
    async with Executor(tools, policy=lambda *_: Allow()) as executor:
        await executor.run(warm)
        outcomes += [await executor.run(call), *await executor.run_all([call])]
    try:
        mapping = json.loads(args)
    except ValueError:
        mapping = None
    if isinstance(mapping, dict) and args.count('"how"') == 1:
        async with Executor(tools) as executor:
            outcomes.append(await executor.run(Call(name, mapping, "1")))

    def comparable(result: Result) -> tuple[Any, ...]:
        return (*result[:4], kind(result), result.failure and result.failure.message)

    assert {comparable(one) for one in outcomes} == {comparable(first)}
    for one in outcomes:
        assert "hunter2" not in one.text


async def test_methods_remote_tools_contexts_and_wrapped_functions_all_run() -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        @tool
        async def add(self, by: int) -> int:
            """Add."""
            self.count += by
            return self.count

    async def send(args: dict[str, Any], context: Context) -> Any:
        return {"sent": args, "by": context.call_id}

    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @tool(effect=READ)
    @logged
    async def wrapped(word: str) -> str:
        """Hide that it is async."""
        await anyio.lowlevel.checkpoint()
        return word

    @tool(effect=READ)
    def ordered(word: str, /, *, again: str = "") -> str:
        """Take what comes first by its place."""
        return word + again

    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    remote = Tool.remote(
        Spec(name="remote", description="Far away.", input_schema=schema, effect=READ), send
    )
    tools = Toolset.from_object(Counter()) | Toolset(remote, wrapped, ordered)
    calls = [
        Call("add", '{"by":2}', "1"),
        Call("add", '{"by":3}', "2"),
        Call("remote", '{"q":"x"}', "3"),
        Call("wrapped", '{"word":"w"}', "4"),
        Call("ordered", '{"word":"o","again":"p"}', "5"),
    ]
    async with Executor(tools) as executor:
        outcomes = await executor.run_all(calls)
        again = await executor.run(Call("add", '{"by":1}', "6"))

    assert [one.text for one in [*outcomes, again]] == [
        "2", "5", '{"sent":{"q":"x"},"by":"3"}', "w", "op", "6",
    ]  # fmt: skip


# ---------------------------------------------------------------- time


async def test_pauses_between_attempts_grow_within_their_cap_and_a_longer_wish_ends_it() -> None:
    wishes: list[float | None] = [None, 0.0, -1.0, 0.02]
    tries: list[int] = []

    @tool(effect=READ, retry=Retry(attempts=6, base=0.001, cap=0.02))
    async def flaky() -> str:
        """Fail."""
        tries.append(1)
        raise Transient("busy", retry_after=wishes.pop(0) if wishes else 3600.0)

    with anyio.fail_after(3):
        async with Executor(Toolset(flaky)) as executor:
            outcome = await executor.run(Call("flaky", {}, "1"))

    assert len(tries) == 5
    assert kind(outcome) is FailureKind.TRANSIENT


async def test_every_attempt_has_its_own_deadline() -> None:
    @tool(effect=READ, timeout=0.6, retry=Retry(attempts=3, base=0, cap=0))
    async def slow(context: Context) -> str:
        """Take time, twice."""
        if context.attempt < 3:
            await anyio.sleep(0.35)
            raise Transient("again")
        return "in time"

    async with Executor(Toolset(slow)) as executor:
        outcome = await executor.run(Call("slow", {}, "1"))

    assert outcome.text == "in time"


async def test_a_tools_own_timeout_error_is_its_own_fault() -> None:
    @tool(effect=READ)
    async def impatient() -> str:
        """Give up by itself."""
        with anyio.fail_after(0.01):
            await anyio.sleep_forever()
        return ""

    async with Executor(Toolset(impatient)) as executor:
        outcomes = [await executor.run(Call("impatient", "{}", "1")) for _ in range(2)]

    assert [kind(one) for one in outcomes] == [FailureKind.BUG, FailureKind.BUG]
    assert "TimeoutError" in outcomes[0].text


async def test_a_tool_may_catch_what_it_waits_for() -> None:
    @tool(effect=READ)
    async def careful() -> str:
        """Handle its own failure."""

        async def fail() -> None:
            await anyio.lowlevel.checkpoint()
            raise KeyError

        try:
            await fail()
        except KeyError:
            await anyio.lowlevel.checkpoint()
        return "handled"

    async with Executor(Toolset(careful)) as executor:
        outcomes = [await executor.run(Call("careful", "{}", "1")) for _ in range(2)]

    assert [one.text for one in outcomes] == ["handled"] * 2


def test_a_script_can_run_a_call() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    executor = Executor(Toolset(add, echo))

    assert executor.run_sync(Call("add", {"a": 1, "b": 2}, "1")).text == "3"
    assert executor.run_sync(Call("echo", {"word": "w"}, "2")).text == "w"
    assert kind(executor.run_sync(Call("add", {"a": 1}, "3"))) is FailureKind.BAD_ARGS


async def test_an_idempotency_key_names_the_run_the_turn_and_the_call() -> None:
    keys: list[str] = []

    @tool(effect=WRITE)
    async def pay(context: Context) -> str:
        """Pay."""
        keys.append(context.idempotency_key)
        return context.call_id

    async with Executor(Toolset(pay)) as executor:
        turn = executor.turn("t1", run="run-1")
        outcomes = await executor.run_all((Call("pay", {}, n) for n in ("a", "b", "a")), turn=turn)

    assert keys == ["run-1/t1/a", "run-1/t1/b", "run-1/t1/a#2"]
    assert [one.text for one in outcomes] == ["a", "b", "a"]


async def test_a_tool_knows_what_its_call_was_judged_by() -> None:
    judged: list[tuple[Access, ...]] = []

    @tool(touches=lambda path, **_: writes_file(path))
    async def save(path: str, context: Context) -> None:
        """Save."""
        judged.append(context.accesses)

    async with Executor(Toolset(save)) as executor:
        await executor.run(Call("save", {"path": "./a"}, "1"))

    assert judged == [(writes_file("a"),)]


async def test_what_goes_on_after_a_call_ends_with_the_executor() -> None:
    ended: list[str] = []

    @tool
    async def leave(name: str, context: Context) -> str:
        """Leave something running."""

        async def end() -> None:
            if name == "hangs":
                await anyio.sleep_forever()
            if name == "breaks":
                raise ValueError(name)
            ended.append(name)

        context.on_close(end)
        return name

    async with Executor(Toolset(leave), limits=CallLimits(hook_timeout=0.05)) as executor:
        await executor.run_all(
            Call("leave", {"name": name}, name) for name in ("first", "breaks", "hangs", "last")
        )
        assert ended == []

    assert ended == ["last", "first"]
    assert Context(call_id="c1", idempotency_key="k1").on_close(anyio.aclose_forcefully) is None


async def test_nothing_runs_once_the_executor_is_closed() -> None:
    ran: list[int] = []

    @tool(effect=READ)
    async def look(n: int) -> int:
        """Look."""
        ran.append(n)
        return n

    async with Executor(Toolset(look)) as executor:
        await executor.run(Call("look", '{"n":1}', "a"))
        await executor.run(Call("look", '{"n":2}', "b"))
    after = await executor.run(Call("look", '{"n":3}', "c"))

    assert (ran, after.failure) == (
        [1, 2],
        Failure(FailureKind.CANCELLED, "Not run: the tools were shut down before the call."),
    )


async def test_a_validator_that_breaks_in_a_batch_is_told_and_ends_nothing_else() -> None:
    def picky(value: str) -> str:
        return {"a": "A", "http://x": "X"}[value]

    @tool(effect=READ)
    async def look(word: Annotated[str, AfterValidator(picky)]) -> str:
        """Look."""
        return word

    words = ["a", "http://x", "unknown"]
    calls = [Call("look", json.dumps({"word": word}), word) for word in words]
    async with Executor(Toolset(look)) as executor:
        for _ in range(2):
            outcomes = await executor.run_all(calls)
            alone = [await executor.run(call) for call in calls]

            assert [one.text for one in outcomes[:2]] == ["A", "X"]
            assert outcomes[2].failure is not None
            assert outcomes[2].failure.kind is FailureKind.BUG
            assert outcomes == alone


# ---------------------------------------------------------------- hooks may only tighten


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (Allow(), "from the hook"),
        (Deny("no"), "no"),
        (
            Ask("Sure?"),
            "Not run: this needs the user's approval, and no one is available to give it. Do what you can without it, and report it at the end. Request: Sure?",
        ),
        (None, "from the hook"),
    ],
)
async def test_a_hook_answers_only_for_a_call_that_the_policy_allows(
    decision: Any, expected: str
) -> None:
    async def forge(call: CheckedCall) -> Result:
        return Result(call.id, "from the hook")

    policy = (lambda *_: decision) if decision is not None else None
    async with Executor(Toolset(echo), policy=policy, hooks=[Hook(before=forge)]) as executor:
        results = [await executor.run(Call("echo", '{"word":"a"}', "1")) for _ in range(2)]

    assert [one.text for one in results] == [expected] * 2


async def test_a_hook_may_refuse_what_the_policy_denies_and_never_sees_what_there_is_not() -> None:
    seen: list[str] = []

    async def refuse(call: CheckedCall) -> Result:
        seen.append(call.id)
        return call.refuse("mine")

    async with Executor(
        Toolset(echo), policy=lambda *_: Deny("no"), hooks=[Hook(before=refuse)]
    ) as executor:
        calls = [
            Call("nothing", "{}", "1"),
            Call("echo", "{}", "2"),
            Call("echo", '{"word":"a"}', "3"),
        ]
        results = await executor.run_all(calls)

    assert seen == ["3"]
    assert results[2].text == "mine"
    assert [kind(one) for one in results] == [
        FailureKind.UNKNOWN_TOOL, FailureKind.BAD_ARGS, FailureKind.DENIED,
    ]  # fmt: skip


@pytest.mark.parametrize("side", ["before", "after"])
async def test_hooks_that_call_their_own_executor_without_end_are_stopped(side: str) -> None:
    count = [0]

    async def again(call: CheckedCall | Call, *result: Result) -> Any:
        count[0] += 1
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(executor.run, Call("wait", "{}", f"{count[0]}"))
        return result[0] if result else call

    @tool
    async def wait() -> str:
        """Wait a little."""
        await anyio.lowlevel.checkpoint()
        return "done"

    async with Executor(Toolset(wait), hooks=[Hook(**{side: again})]) as executor:
        await executor.run(Call("wait", "{}", "1"))

    assert count[0] == 20


async def test_a_narrowed_executor_has_fewer_tools_and_two_policies() -> None:
    @tool(effect=READ)
    async def look(n: int) -> int:
        """Look."""
        return n

    @tool
    async def save(n: int) -> int:
        """Save."""
        return n

    def asks(call: CheckedCall) -> Decision:
        return Ask("may it?") if call.name == "save" else Allow()

    def denies(call: CheckedCall) -> Decision:
        return Deny("no") if call.args == {"n": 1} else Allow()

    async with Executor(
        Toolset(look, save), policy=asks, long_results=LongResults(max_result_chars=100)
    ) as executor:
        same = executor.restrict("look", "save")
        less = executor.restrict("look", "save", policy=denies)
        decisions = [
            type(one.explain(Call(name, {"n": n}, "1")).decision)
            for one in (same, less)
            for name in ("look", "save")
            for n in (1, 2)
        ]
        with pytest.raises(UnknownName):
            executor.restrict("other")

    assert decisions == [Allow, Allow, Ask, Ask, Deny, Allow, Deny, Ask]
    assert Executor(Toolset(look)).restrict("look").tools == Toolset(look)


async def test_what_a_narrowed_executor_leaves_running_ends_with_the_first() -> None:
    ended: list[str] = []

    @tool
    async def leave(context: Context) -> None:
        """Leave something running."""

        async def end() -> None:
            ended.append(context.call_id)

        context.on_close(end)

    async with Executor(Toolset(leave)) as executor:
        await executor.restrict("leave").run(Call("leave", {}, "c1"))

    assert ended == ["c1"]


async def test_a_policy_made_of_two_has_a_version_that_changes_with_either() -> None:
    class Versioned:
        version = "1"

        def __call__(self, *_: object) -> Decision:
            return Ask("may it?")

    @tool
    async def save() -> str:
        """Save."""
        return "saved"

    async def later(pending: Pending) -> Pending:
        return pending

    second = Versioned()
    parent = Executor(Toolset(save), policy=lambda *_: Allow(), approvals=later)
    async with parent.restrict("save", policy=second) as executor:
        pending = (await executor.run(Call("save", {}, "c1"))).pending
        assert pending is not None
        second.version = "2"
        turn = executor.turn(pending.turn_id, run=pending.run_id)
        turn.answer(pending, Allow())
        [again] = await turn.results()
        assert again.pending is not None
        turn.answer(again.pending, Allow())
        [saved] = await turn.results()

    assert saved.text == "saved"


async def test_a_narrowed_executor_ends_with_the_first() -> None:
    @tool(effect=READ)
    async def look() -> str:
        """Look."""
        return "seen"

    async with Executor(Toolset(look)) as executor:
        child = executor.restrict("look")
        seen = await child.run(Call("look", {}, "1"))
    after = await child.run(Call("look", {}, "2"))

    assert (seen.text, kind(after)) == ("seen", FailureKind.CANCELLED)


async def test_a_narrowed_executor_follows_the_registry_within_its_names() -> None:
    @tool(effect=READ)
    async def look() -> str:
        """Look."""
        return "seen"

    @tool(effect=READ)
    async def count() -> int:
        """Count."""
        return 1

    registry = Registry()
    registry.add(Toolset(look, count), name="mine")
    async with Executor(registry) as executor:
        child = executor.restrict("look", "count")
        registry.replace("mine", Toolset(look, tool(name="other", effect=READ)(look.fn)))
        stale = await child.run(Call("count", {}, "1"))

        assert kind(stale) is FailureKind.STALE
        assert child.refresh_tools() == Toolset(look)
