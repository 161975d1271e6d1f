"""The invariants of the design, each proved by a test that carries its number.

Where it makes sense, the same check is also put to a weak stand-in: it must catch that one.
"""

import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from handrail import (
    DESTROY,
    READ,
    WRITE,
    Allow,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Context,
    Deny,
    Executor,
    FailureKind,
    Hook,
    Image,
    LongResults,
    Refused,
    Registry,
    Result,
    Retry,
    Text,
    ToolFailed,
    Toolset,
    Transient,
    reads_file,
    tool,
    writes_file,
)
from handrail.permissions import Pending
from virtual_time import Quick

Runner = Callable[[Sequence[Call]], Awaitable[list[Result]]]
"""What runs a batch: an executor's run_all, or a weak stand-in."""


def kind(result: Result) -> FailureKind | None:
    return result.failure.kind if result.failure else None


def caught(check: Callable[[], object]) -> bool:
    """Whether a check fails, as it must for the weak stand-in."""
    try:
        check()
    except AssertionError:
        return True
    return False


# ---------------------------------------------------------------- 1. one outcome per call, in call order


@tool(effect=READ)
async def fine(word: str = "fine") -> str:
    """Work."""
    return word


@tool(effect=READ)
async def late(word: str = "late") -> str:
    """Work, and wait."""
    for _ in range(3):
        await anyio.lowlevel.checkpoint()
    return word


@tool(effect=READ)
async def raises() -> str:
    """Break."""
    raise KeyError("x")


@tool(effect=READ)
async def raises_late() -> str:
    """Break, later."""
    await anyio.lowlevel.checkpoint()
    raise LookupError("x")


@tool(effect=READ)
async def leaves() -> str:
    """Leave the program."""
    raise SystemExit(3)


@tool(effect=READ, timeout=0.02)
async def hangs() -> str:
    """Hang."""
    await anyio.sleep_forever()
    return ""


@tool(effect=READ)
async def fails() -> str:
    """Fail on purpose."""
    raise ToolFailed("no")


@tool(effect=READ)
async def refuses() -> str:
    """Refuse."""
    raise Refused("never")


@tool(effect=READ)
async def busy() -> str:
    """Fail for now."""
    raise Transient("later")


@tool(effect=READ)
def threaded() -> str:
    """Break in a thread."""
    raise ValueError("x")


@tool(effect=READ)
async def lies() -> int:
    """Give what it did not promise."""
    return "words"  # type: ignore[return-value]


@tool(touches=lambda: 1 / 0)
async def cannot_say() -> str:
    """Not know what it touches."""
    return ""


@tool(effect=READ, touches=lambda: writes_file("a"))
async def oversteps() -> str:
    """Propose more than its effect allows."""
    return ""


EXPECTED: dict[str, FailureKind | None] = {
    "fine": None,
    "late": None,
    "raises": FailureKind.BUG,
    "raises_late": FailureKind.BUG,
    "leaves": FailureKind.BUG,
    "hangs": FailureKind.TIMEOUT,
    "fails": FailureKind.FAILED,
    "refuses": FailureKind.DENIED,
    "busy": FailureKind.TRANSIENT,
    "threaded": FailureKind.BUG,
    "lies": FailureKind.BUG,
    "cannot_say": FailureKind.BUG,
    "oversteps": FailureKind.BUG,
    "missing": FailureKind.UNKNOWN_TOOL,
}
ALL = Toolset(fine, late, raises, raises_late, leaves, hangs, fails, refuses, busy, threaded, lies, cannot_say, oversteps)  # fmt: skip
EVERY_WAY_TO_END = [Call(name, "{}", f"{n}-{name}") for n, name in enumerate([*EXPECTED] * 2)]


def check_one_outcome_each(calls: Sequence[Call], outcomes: Sequence[Result]) -> None:
    assert [one.call_id for one in outcomes] == [call.id for call in calls]


async def test_invariant_01_one_outcome_per_call_in_call_order_whatever_happens() -> None:
    async with Executor(ALL) as executor:
        batches = [await executor.run_all(EVERY_WAY_TO_END) for _ in range(2)]
        alone = [await executor.run(call) for call in EVERY_WAY_TO_END]

    for outcomes in [*batches, alone]:
        check_one_outcome_each(EVERY_WAY_TO_END, outcomes)
        assert [kind(one) for one in outcomes] == [*EXPECTED.values()] * 2

    dropped = [one for one in alone if one.failure is None]
    assert caught(lambda: check_one_outcome_each(EVERY_WAY_TO_END, dropped))
    assert caught(lambda: check_one_outcome_each(EVERY_WAY_TO_END, alone[::-1]))


@pytest.mark.parametrize("after_steps", range(12))
async def test_invariant_01_holds_when_everything_is_cancelled_at_any_step(
    after_steps: int,
) -> None:
    @tool
    async def work(steps: int) -> str:
        """Work step by step."""
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        return "done"

    calls = [
        Call("work", {"steps": 2}, "1"),
        Call("late", "{}", "2"),
        Call("work", {"steps": 0}, "3"),
        Call("missing", "{}", "4"),
        Call("threaded", "{}", "5"),
    ]
    outcomes: list[Result] = []
    async with Executor(ALL | Toolset(work)) as executor:
        await executor.run(Call("late", "{}", "0"))

        async def turn() -> None:
            outcomes.extend(await executor.run_all(calls))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            for _ in range(after_steps):
                await anyio.lowlevel.checkpoint()
            executor.cancel()

    check_one_outcome_each(calls, outcomes)
    for one in outcomes:
        assert kind(one) in (
            None,
            FailureKind.CANCELLED,
            FailureKind.UNKNOWN,
            FailureKind.UNKNOWN_TOOL,
            FailureKind.BUG,
        )


# ---------------------------------------------------------------- 2. nothing changes a judged call


async def test_invariant_02_what_runs_is_what_was_judged() -> None:
    judged: list[Any] = []
    ran: list[list[str]] = []
    args: dict[str, Any] = {"lines": ["good"]}

    @tool(touches=lambda lines: [writes_file(line) for line in lines])
    async def save(lines: list[str]) -> str:
        """Save."""
        ran.append(lines)
        return "ok"

    def policy(call: CheckedCall) -> Allow:
        judged.append(call.accesses)
        args["lines"] = ["evil"]  # whoever sent it still holds the mapping
        return Allow()

    async with Executor(Toolset(save), policy=policy) as executor:
        await executor.run(Call("save", args, "c1"))

    assert judged == [(writes_file("good"),)]
    assert ran == [["good"]]


async def test_invariant_02_a_call_that_a_hook_rewrote_is_judged_anew() -> None:
    ran: list[str] = []

    @tool(touches=writes_file)
    async def save(path: str) -> str:
        """Save."""
        ran.append(path)
        return "ok"

    async def redirect(call: CheckedCall) -> Call:
        return Call(call.name, {"path": "secret"}, call.id)

    async def spoil(call: CheckedCall) -> Call:
        return Call(call.name, {"path": 5}, call.id)

    def policy(call: CheckedCall) -> Allow | Deny:
        return Deny("not there") if writes_file("secret") in call.accesses else Allow()

    async with Executor(Toolset(save), policy=policy, hooks=[Hook(before=redirect)]) as executor:
        judged = await executor.run(Call("save", {"path": "open"}, "c1"))
    async with Executor(
        Toolset(save), hooks=[Hook(before=redirect), Hook(before=spoil)]
    ) as executor:
        checked = await executor.run(Call("save", {"path": "open"}, "c1"))
    async with Executor(Toolset(save), hooks=[Hook(before=redirect)]) as executor:
        passed = await executor.run(Call("save", {"path": "open"}, "c1"))

    assert [kind(one) for one in (judged, checked, passed)] == [
        FailureKind.DENIED,
        FailureKind.BAD_ARGS,
        None,
    ]
    assert ran == ["secret"]


# ---------------------------------------------------------------- 3. judged before any effect


async def check_judged_before_effects(run: Callable[[Any, Toolset], Awaitable[object]]) -> None:
    log: list[str] = []

    @tool(touches=lambda n: writes_file(n))  # noqa: PLW0108  its parameter has another name
    async def save(n: int) -> str:
        """Save."""
        log.append(f"ran {n}")
        return "ok"

    def policy(call: CheckedCall) -> Allow:
        log.append(f"judged {call.id}")
        return Allow()

    await run(policy, Toolset(save))
    assert log[:3] == ["judged 0", "judged 1", "judged 2"]
    assert sorted(log[3:]) == ["ran 0", "ran 1", "ran 2"]


WRITES = [Call("save", {"n": n}, str(n)) for n in range(3)]


async def test_invariant_03_the_whole_batch_is_judged_before_any_of_it_has_an_effect() -> None:
    async def arriving() -> AsyncIterator[Call]:
        for call in WRITES:
            await anyio.wait_all_tasks_blocked()
            yield call

    async def at_once(policy: Any, tools: Toolset) -> None:
        async with Executor(tools, policy=policy) as executor:
            await executor.run_all(WRITES)

    async def streaming(policy: Any, tools: Toolset) -> None:
        async with Executor(tools, policy=policy) as executor:
            await executor.run_all(arriving())

    async def one_by_one(policy: Any, tools: Toolset) -> None:
        async with Executor(tools, policy=policy) as executor:
            for call in WRITES:
                await executor.run(call)

    await check_judged_before_effects(at_once)
    await check_judged_before_effects(streaming)
    with pytest.raises(AssertionError):
        await check_judged_before_effects(one_by_one)


async def test_invariant_03_calls_that_only_read_may_start_early() -> None:
    started = anyio.Event()

    @tool(effect=READ)
    async def look() -> str:
        """Look."""
        started.set()
        return "seen"

    async def arriving() -> AsyncIterator[Call]:
        yield Call("look", "{}", "1")
        with anyio.fail_after(2):
            await started.wait()
        yield Call("look", "{}", "2")

    async with Executor(Toolset(look)) as executor:
        outcomes = await executor.run_all(arriving())

    assert [one.text for one in outcomes] == ["seen", "seen"]


# ---------------------------------------------------------------- 4. model order where it matters


async def check_order(run: Callable[[Toolset, list[Call]], Awaitable[object]]) -> list[str]:
    """Writers of one file and a reader of it keep their order; returns who began first."""
    log: list[str] = []

    @tool(touches=lambda path, **_: writes_file(path))
    async def save(path: str, who: str) -> str:
        """Save."""
        log.append(f"{who} in")
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        log.append(f"{who} out")
        return "ok"

    @tool(effect=READ, touches=lambda path, **_: reads_file(path))
    async def load(path: str, who: str) -> str:
        """Load."""
        log.append(f"{who} in")
        await anyio.lowlevel.checkpoint()
        log.append(f"{who} out")
        return "ok"

    calls = [
        Call("save", {"path": "d/a", "who": "first"}, "1"),
        Call("save", {"path": "d/b", "who": "other"}, "2"),
        Call("load", {"path": "d", "who": "reader"}, "3"),
        Call("save", {"path": "d/a", "who": "last"}, "4"),
    ]
    await run(Toolset(save, load), calls)
    at = {entry: place for place, entry in enumerate(log)}
    assert len(at) == 8
    assert at["first out"] < at["reader in"]
    assert at["other out"] < at["reader in"]
    assert at["reader out"] < at["last in"]
    return log


async def test_invariant_04_conflicting_calls_keep_the_models_order_the_rest_run_side_by_side() -> (
    None
):
    async def run_all(tools: Toolset, calls: list[Call]) -> None:
        async with Executor(tools) as executor:
            await executor.run_all(calls)

    async def all_at_once(tools: Toolset, calls: list[Call]) -> None:
        async with anyio.create_task_group() as tasks:
            for call in calls:
                tasks.start_soon(lambda call=call: tools[call.name](**call.args))

    log = await check_order(run_all)
    assert sorted(log[:2]) == ["first in", "other in"], "two files are written side by side"
    with pytest.raises(AssertionError):
        await check_order(all_at_once)


async def test_invariant_04_a_tool_that_declares_nothing_conflicts_with_everything_unless_it_reads() -> (
    None
):
    inside = 0
    most: list[int] = []

    async def work() -> str:
        nonlocal inside
        inside += 1
        most.append(inside)
        await anyio.wait_all_tasks_blocked()
        inside -= 1
        return "ok"

    @tool
    async def undeclared() -> str:
        """Do who knows what."""
        return await work()

    @tool(effect=READ)
    async def look() -> str:
        """Look."""
        return await work()

    async with Executor(Toolset(undeclared, look)) as executor:
        await executor.run_all(Call("undeclared", {}, str(n)) for n in range(3))
        writers, most = most, []
        await executor.run_all(Call("look", {}, str(n)) for n in range(3))

    assert writers == [1, 1, 1]
    assert most == [1, 2, 3]


# ---------------------------------------------------------------- 5. advertised is dispatched


async def test_invariant_05_a_tool_that_changed_since_it_was_advertised_is_refused_as_stale() -> (
    None
):
    @tool(effect=READ)
    async def price() -> str:
        """Say a price in euros."""
        return "1 euro"

    @tool(effect=READ, name="price")
    async def price_in_cents() -> str:
        """Say a price in cents."""
        return "100 cents"

    registry = Registry()
    registry.add(price)
    registry.add(fine)
    async with Executor(registry) as executor:
        told = executor.refresh_tools()
        before = await executor.run(Call("price", "{}", "1"))
        registry.replace("price", price_in_cents)
        after = await executor.run_all([Call("price", "{}", "2"), Call("fine", "{}", "3")])
        assert executor.tools == told, "what was told does not change under a model's feet"
        again = executor.refresh_tools()
        fresh = await executor.run(Call("price", "{}", "4"))
        registry.remove("fine")
        gone = await executor.run(Call("fine", "{}", "5"))

    assert before.text == "1 euro"
    assert [kind(one) for one in after] == [FailureKind.STALE, None]
    assert again != told
    assert fresh.text == "100 cents"
    assert kind(gone) is FailureKind.STALE


async def test_invariant_05_a_toolset_never_changes_and_a_new_tool_is_unknown_until_advertised() -> (
    None
):
    registry = Registry()
    registry.add(fine)
    async with Executor(registry) as executor:
        registry.add(late)
        unknown = await executor.run(Call("late", "{}", "1"))
        executor.refresh_tools()
        known = await executor.run(Call("late", "{}", "2"))

    assert [kind(unknown), kind(known)] == [FailureKind.UNKNOWN_TOOL, None]


# ---------------------------------------------------------------- 6. when in doubt, deny


async def _raise(*_: object) -> Any:
    raise RuntimeError("broken")


async def _exit(*_: object) -> Any:
    raise SystemExit


async def _hang(*_: object) -> Any:
    await anyio.sleep_forever()


async def _nonsense(*_: object) -> Any:
    return "yes"


async def _nothing(*_: object) -> Any:
    return None


def _crash(*_: object) -> Any:
    raise RuntimeError("broken")


def _quit(*_: object) -> Any:
    raise SystemExit


@pytest.mark.parametrize(
    "options",
    [
        {"policy": _crash},
        {"policy": lambda *_: None},
        {"policy": lambda *_: Ask("?")},
        {"policy": lambda *_: Ask("?"), "approvals": _raise},
        {"policy": lambda *_: Ask("?"), "approvals": _nonsense},
        {"policy": lambda *_: Ask("?"), "approvals": _nothing},
        {"policy": lambda *_: Ask("?"), "approvals": _crash},
        *({"hooks": [Hook(before=hook)]} for hook in (_raise, _hang, _nonsense, _nothing, _crash)),
    ],
)
async def test_invariant_06_whatever_breaks_on_the_way_denies_says_why_and_ends_nothing(
    options: dict[str, Any],
) -> None:
    ran: list[str] = []

    @tool
    async def erase(path: str) -> str:
        """Erase."""
        ran.append(path)
        return "gone"

    calls = [Call("erase", '{"path":"a"}', str(n)) for n in range(2)]
    async with Executor(Toolset(erase), limits=CallLimits(hook_timeout=0.2), **options) as executor:
        outcomes = [*await executor.run_all(calls), await executor.run(calls[0])]

    assert ran == []
    assert [kind(one) for one in outcomes] == [FailureKind.DENIED] * 3
    for one in outcomes:
        assert "Not run: " in one.text
        assert "broken" not in one.text, "what an exception says is not for the model"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    "options",
    [
        {"policy": _quit},
        {"policy": lambda *_: Ask("?"), "approvals": _exit},
        {"hooks": [Hook(before=_exit)]},
    ],
    ids=["policy", "approver", "before"],
)
def test_invariant_06_a_check_that_leaves_the_program_denies_too(
    options: dict[str, Any], backend: str
) -> None:
    ran: list[int] = []

    @tool
    async def erase() -> str:
        """Erase."""
        ran.append(1)
        return "gone"

    async def main() -> list[Result]:
        async with Executor(Toolset(erase), **options) as executor:
            return await executor.run_all([Call("erase", {}, "1"), Call("erase", {}, "2")])

    outcomes = anyio.run(main, backend=backend)

    assert [kind(one) for one in outcomes] == [FailureKind.DENIED] * 2
    assert ran == []


async def test_invariant_06_defaults_sit_at_the_safe_end() -> None:
    tries: list[int] = []

    @tool
    async def act() -> str:
        """Act."""
        tries.append(1)
        raise Transient("later")

    async with Executor(Toolset(act)) as executor:
        await executor.run(Call("act", {}, "1"))

    spec = act.spec
    assert (spec.effect, spec.idempotent, spec.retry) == (WRITE, False, None)
    assert tries == [1]


# ---------------------------------------------------------------- 7. deny > ask > allow


async def test_invariant_07_a_yes_by_an_approver_never_undoes_a_deny_and_hooks_only_tighten() -> (
    None
):
    asked: list[str] = []

    @tool(effect=DESTROY)
    async def erase(path: str) -> str:
        """Erase."""
        return "gone"

    async def yes(pending: Pending) -> Allow:
        asked.append(pending.question)
        return Allow()

    async def wave_through(call: CheckedCall) -> Call:
        return Call(call.name, call.args, call.id)

    call = Call("erase", '{"path":"a"}', "c")
    outcomes: dict[str, Result] = {}
    decisions = {"deny": Deny("no"), "ask": Ask("Erase?"), "allow": Allow()}
    for name, decision in decisions.items():
        async with Executor(
            Toolset(erase),
            policy=lambda *_, decision=decision: decision,
            hooks=[Hook(before=wave_through)],
            approvals=yes,
        ) as executor:
            outcomes[name] = await executor.run(call)

    assert kind(outcomes["deny"]) is FailureKind.DENIED
    assert (outcomes["ask"].text, outcomes["allow"].text) == ("gone", "gone")
    assert asked == ["Erase?"]


# ---------------------------------------------------------------- 8. an approval is for these bytes


async def test_invariant_08_a_yes_is_for_the_call_that_was_shown_and_for_one_run_of_it() -> None:
    shown: list[tuple[str, Any]] = []
    ran: list[str] = []

    @tool
    async def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    async def rewrite(call: CheckedCall) -> Call:
        return Call(call.name, '{"to":"alice"}', call.id)

    async def only_once(pending: Pending) -> Allow | Deny:
        shown.append((pending.call.id, pending.call.args))
        return Allow() if len(shown) == 1 else Deny("once is enough")

    async with Executor(
        Toolset(pay),
        policy=lambda *_: Ask("Pay?"),
        hooks=[Hook(before=rewrite)],
        approvals=only_once,
    ) as executor:
        outcomes = await executor.run_all([Call("pay", '{"to":"bob"}', "1")])
        outcomes += await executor.run_all([Call("pay", '{"to":"bob"}', "1")])

    assert shown == [("1", '{"to":"alice"}')] * 2, "the approver sees what would run, each time"
    assert ran == ["alice"]
    assert [kind(one) for one in outcomes] == [None, FailureKind.DENIED]


async def test_invariant_08_a_yes_for_one_call_is_none_for_its_sibling() -> None:
    ran: list[str] = []

    @tool(touches=lambda to: writes_file(to))  # noqa: PLW0108  its parameter has another name
    async def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    async def alice_only(pending: Pending) -> Allow | Deny:
        return (
            Allow() if json.loads(str(pending.call.args))["to"] == "alice" else Deny("not to him")
        )

    async with Executor(
        Toolset(pay), policy=lambda *_: Ask("Pay?"), approvals=alice_only
    ) as executor:
        outcomes = await executor.run_all(
            Call("pay", json.dumps({"to": who}), "same id") for who in ("bob", "alice", "bob")
        )

    assert ran == ["alice"]
    assert [kind(one) for one in outcomes] == [FailureKind.DENIED, None, FailureKind.DENIED]


# ---------------------------------------------------------------- 9. a retry never repeats an effect silently


@pytest.mark.parametrize(
    ("effect", "idempotent", "attempts"),
    [
        (READ, False, 3),
        (WRITE, False, 1),
        (WRITE, True, 3),
        (DESTROY, False, 1),
        (DESTROY, True, 3),
    ],
)
async def test_invariant_09_only_what_may_be_repeated_is(
    effect: Any, idempotent: Any, attempts: int
) -> None:
    keys: list[str] = []

    @tool(effect=effect, idempotent=idempotent)
    async def act(context: Context) -> str:
        """Act."""
        keys.append(context.idempotency_key)
        raise Transient("later")

    retry = Retry(attempts=3, base=0, cap=0)
    async with Executor(Toolset(act), limits=CallLimits(retry=retry)) as executor:
        outcome = await executor.turn("1", run="run").run(Call("act", {}, "c"))

    assert keys == ["run/1/c"] * attempts
    assert kind(outcome) is FailureKind.TRANSIENT


@pytest.mark.parametrize("way", ["timeout", "cancel"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"effect": READ}, None),
        ({"effect": WRITE, "idempotent": True}, None),
        ({"effect": WRITE}, FailureKind.UNKNOWN),
        ({"effect": DESTROY}, FailureKind.UNKNOWN),
    ],
)
async def test_invariant_09_a_call_that_may_have_happened_ends_as_unknown(
    way: str, options: dict[str, Any], expected: FailureKind | None
) -> None:
    begun = anyio.Event()

    @tool(**options, timeout=0.02 if way == "timeout" else 30.0)
    async def act() -> str:
        """Act."""
        begun.set()
        await anyio.sleep_forever()
        return ""

    outcomes: list[Result] = []
    async with Executor(
        Toolset(act), limits=CallLimits(retry=Retry(attempts=5, base=0, cap=0))
    ) as executor:
        turn = executor.turn()
        turn.add(Call("act", {}, "c"))
        await begun.wait()
        if way == "cancel":
            assert turn.cancel("c") == ("c",)
        outcomes += await turn.results()

    assert kind(outcomes[0]) is (expected or FailureKind(way if way == "timeout" else "cancelled"))
    assert ("check before you call it again" in outcomes[0].text) is (
        expected is FailureKind.UNKNOWN
    )


async def test_invariant_09_a_key_is_stable_between_runs_and_different_for_each_call() -> None:
    keys: list[str] = []

    @tool
    async def act(context: Context) -> str:
        """Act."""
        keys.append(context.idempotency_key)
        return ""

    calls = [Call("act", {}, "a"), Call("act", {}, "b"), Call("act", {}, "a")]
    for turn_id, run in (("1", "r"), ("1", "r"), ("2", "r"), ("1", "s")):
        async with Executor(Toolset(act)) as executor:
            await executor.run_all(calls, turn=executor.turn(turn_id, run=run))
    async with Executor(Toolset(act)) as executor:
        await executor.run(Call("act", {}, "a"))

    assert keys[:3] == keys[3:6] == ["r/1/a", "r/1/b", "r/1/a#2"]
    assert len(set(keys)) == 10


# ---------------------------------------------------------------- 10. After sees every Result


async def check_audit(audit: list[str], calls: Sequence[Call]) -> None:
    assert sorted(audit) == sorted(call.id for call in calls)


async def test_invariant_10_an_audit_hook_misses_nothing() -> None:  # noqa: C901  every way in
    audit: list[str] = []
    begun = anyio.Event()

    async def record(call: CheckedCall | Call, result: Result) -> Result:
        assert result.call_id == call.id
        audit.append(call.id)
        return result

    async def answer(call: CheckedCall) -> Call | Result:
        if call.id == "answered":
            return Result(call.id, "from a cache")
        if call.id == "crash":
            raise RuntimeError
        return call

    def policy(call: CheckedCall) -> Any:
        return {"denied": Deny("no"), "asked": Ask("?"), "bad": 5}.get(call.id, Allow())

    async def no(_pending: Pending) -> Deny:
        return Deny("no")

    @tool
    async def forever() -> str:
        """Work forever."""
        begun.set()
        await anyio.sleep_forever()
        return ""

    calls = [
        *EVERY_WAY_TO_END,
        *(Call("fine", "{}", name) for name in ("answered", "crash", "denied", "asked", "bad")),
        Call("fine", "{", "bad args"),
        Call("forever", "{}", "running"),
        Call("forever", "{}", "waiting"),
    ]
    async with Executor(
        ALL | Toolset(forever),
        policy=policy,
        hooks=[Hook(before=answer), Hook(after=record)],
        approvals=no,
    ) as executor:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(executor.run_all, calls)
            await begun.wait()
            executor.cancel()
        await check_audit(audit, calls)
        audit.clear()
        for call in calls[:-2]:
            await executor.run(call)
        await check_audit(audit, calls[:-2])

    with pytest.raises(AssertionError):
        await check_audit(audit[1:], calls[:-2])


async def test_invariant_10_what_one_hook_withholds_the_next_one_sees_as_withheld() -> None:
    seen: list[FailureKind | None] = []

    async def crash(_call: CheckedCall | Call, _result: Result) -> Result:
        raise RuntimeError

    async def record(_call: CheckedCall | Call, result: Result) -> Result:
        seen.append(kind(result))
        return result

    async with Executor(
        ALL, hooks=[Hook(after=record), Hook(after=crash), Hook(after=record)]
    ) as executor:
        outcomes = [await executor.run(Call("fine", "{}", "c")) for _ in range(2)]

    assert seen == [None, FailureKind.BUG] * 2
    assert [kind(one) for one in outcomes] == [FailureKind.BUG] * 2


# ---------------------------------------------------------------- 11. model-visible text


def check_text(text: str) -> None:
    for leak in ("Traceback", 'File "', ".py", "https://", "pydantic", "site-packages", "0x"):
        assert leak not in text


async def test_invariant_11_no_traceback_library_or_machine_path_reaches_a_model() -> None:
    async with Executor(ALL) as executor:
        outcomes = [
            *await executor.run_all(EVERY_WAY_TO_END),
            await executor.run(Call("fine", '{"word": 5}', "wrong")),
            await executor.run(Call("fine", "{", "cut")),
        ]

    for outcome in outcomes:
        check_text(outcome.text)
        if outcome.failure is not None:
            assert outcome.failure.message == outcome.text
            assert outcome.text[0].isupper() or kind(outcome) in (
                FailureKind.FAILED, FailureKind.DENIED, FailureKind.TRANSIENT,
            )  # fmt: skip
    with pytest.raises(AssertionError):
        check_text(
            next(one.failure.detail for one in outcomes if one.failure and one.failure.detail)
        )


# ---------------------------------------------------------------- 12. bounded output, free loop, nothing outlives


@pytest.mark.parametrize("most", [1, 2, 3, 10, 1000, 20_000])
async def test_invariant_12_a_result_is_cut_at_the_cap_with_head_and_tail_and_all_of_it_is_readable(
    most: int,
) -> None:
    whole = "".join(f"{n:06}\n" for n in range(20_000))

    @tool(effect=READ)
    async def dump() -> str:
        """Dump."""
        return whole

    @tool(effect=READ)
    def drip() -> Any:
        """Dump piece by piece."""
        yield whole[:70_000]
        yield whole[70_000:]

    @tool(effect=READ)
    async def show() -> list[Text | Image]:
        """Dump beside a picture."""
        return [Text(whole), Image(b"png")]

    @tool(effect=READ)
    async def fail() -> str:
        """Dump as a failure."""
        raise ToolFailed(whole)

    names = ["dump", "drip", "show", "fail"]
    async with Executor(
        Toolset(dump, drip, show, fail), long_results=LongResults(max_result_chars=most)
    ) as executor:
        outcomes = await executor.run_all(Call(name, "{}", name) for name in names)
        outcomes += [await executor.run(Call("dump", "{}", "dump"))]
        async with Executor(Toolset(dump)) as other:
            untouched = await other.run(Call("dump", "{}", "x"))

    notice = 250
    for outcome in outcomes:
        assert len(outcome.text) <= most + notice
        assert "characters omitted" in outcome.text
        shown = sum(len(part.text) for part in outcome.content if isinstance(part, Text))
        assert shown <= most + notice
    assert len(untouched.text) > 19_000


async def test_invariant_12_what_was_left_out_can_be_read_in_full() -> None:
    whole = "".join(f"{n:06}\n" for n in range(10_000))

    @tool(effect=READ)
    async def dump() -> str:
        """Dump."""
        return whole

    async with Executor(Toolset(dump)) as executor:
        await executor.run(Call("dump", "{}", "d"))
        read = ""
        while len(read) < len(whole):
            part = await executor.run(
                Call("read_result", {"call_id": "d", "start": len(read), "end": len(whole)}, "r")
            )
            assert part.failure is None
            header, _, text = part.text.partition("\n")
            assert header.startswith(f"[characters {len(read)} to ")
            read += text

    assert read == whole


async def test_invariant_12_a_sync_tool_never_blocks_the_event_loop() -> None:
    """The tool waits for what only a free event loop can do."""
    go = threading.Event()

    @tool(effect=READ)
    def wait() -> str:
        """Wait."""
        return "released" if go.wait(5) else "stuck"

    outcomes: list[Result] = []
    async with Executor(Toolset(wait)) as executor:

        async def turn() -> None:
            outcomes.extend(await executor.run_all(Call("wait", {}, str(n)) for n in range(60)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await anyio.wait_all_tasks_blocked()
            go.set()

    assert {one.text for one in outcomes} == {"released"}


async def test_invariant_12_nothing_outlives_the_executor_that_started_it() -> None:
    in_thread, go = threading.Event(), threading.Event()
    ended: list[str] = []
    outcomes: list[Result] = []

    @tool(effect=READ)
    def thread() -> str:
        """Work in a thread."""
        in_thread.set()
        go.wait(5)
        ended.append("thread")
        return ""

    @tool(effect=READ)
    async def task() -> str:
        """Work in a task that takes a while to stop."""
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
            ended.append("task")
        return ""

    async with anyio.create_task_group() as tasks:
        async with Executor(Toolset(thread, task)) as executor:

            async def turn() -> None:
                outcomes.extend(
                    await executor.run_all([Call("thread", {}, "1"), Call("task", {}, "2")])
                )

            tasks.start_soon(turn)
            await anyio.wait_all_tasks_blocked()
            await anyio.to_thread.run_sync(in_thread.wait)
            timer = threading.Timer(0.1, go.set)
            timer.start()
        assert sorted(ended) == ["task", "thread"]
    timer.join()

    assert [kind(one) for one in outcomes] == [FailureKind.CANCELLED, FailureKind.CANCELLED]


# ---------------------------------------------------------------- 13. a call runs in its caller's context

user: ContextVar[str] = ContextVar("user", default="nobody")


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("waits_for", ["a conflict", "a slot", "a question", "nothing"])
async def test_invariant_13_a_call_runs_in_its_callers_context(
    waits_for: str, *, together: bool
) -> None:
    @tool(effect=WRITE if waits_for == "a conflict" else READ)
    async def whoami(context: Context[str]) -> str:
        """Say whom it works for."""
        await anyio.wait_all_tasks_blocked()
        seen = f"{user.get()} {context.principal} {context.deps}"
        user.set("whoever came first")
        return seen

    @tool(effect=READ)
    def in_a_thread(context: Context[str]) -> str:
        """Say whom it works for, in a thread."""
        return f"{user.get()} {context.principal} {context.deps}"

    async def later(_pending: Pending) -> Allow:
        await anyio.wait_all_tasks_blocked()
        return Allow()

    seen: dict[str, list[str]] = {}
    async with Executor(
        Toolset(whoami, in_a_thread),
        policy=Quick(lambda _: Ask("?")) if waits_for == "a question" else None,
        approvals=later,
        limits=CallLimits(max_running=1 if waits_for == "a slot" else 128),
    ) as executor:

        async def request(name: str) -> None:
            user.set(name)
            turn = executor.turn(principal=name, deps=name)
            calls = [Call(one, {}, f"{name} {one}") for one in ("whoami", "in_a_thread")]
            if together:
                results = await executor.run_all(calls, turn=turn)
            else:
                results = [await turn.run(call) for call in calls]
            seen[name] = [*(one.text for one in results), user.get()]

        async with anyio.create_task_group() as tasks:
            for name in ("alice", "bob", "carol"):
                tasks.start_soon(request, name)

    assert seen == {
        name: [f"{name} {name} {name}"] * 2 + [name] for name in ("alice", "bob", "carol")
    }


async def test_invariant_13_a_plain_run_does_so_too() -> None:
    @tool
    async def whoami() -> str:
        """Say whom it works for."""
        await anyio.wait_all_tasks_blocked()
        seen = user.get()
        user.set("whoever came first")
        return seen

    seen: dict[str, tuple[str, str]] = {}
    async with Executor(Toolset(whoami)) as executor:

        async def request(name: str) -> None:
            user.set(name)
            result = await executor.run(Call("whoami", {}, name))
            seen[name] = (result.text, user.get())

        async with anyio.create_task_group() as tasks:
            for name in ("alice", "bob", "carol"):
                tasks.start_soon(request, name)

    assert seen == {name: (name, name) for name in ("alice", "bob", "carol")}


# ---------------------------------------------------------------- 15. one event loop; any thread


class Guarded:
    """A place for one at a time."""

    def __init__(self) -> None:
        self.inside = 0
        self.seen: list[tuple[int, int]] = []

    @tool(touches=lambda **_: writes_file("one"))
    async def save(self, who: int, n: int) -> int:
        """Be alone."""
        self.inside += 1
        assert self.inside == 1
        await anyio.lowlevel.checkpoint()
        self.seen.append((who, n))
        self.inside -= 1
        return n

    def check(self, threads: int, calls: int) -> None:
        """All were here, and those of each thread in their order."""
        assert len(self.seen) == threads * calls
        for who in range(threads):
            assert [n for one, n in self.seen if one == who] == list(range(calls))


def in_threads(work: Callable[[int], None], count: int) -> None:
    errors: list[BaseException] = []

    def noting(who: int) -> None:
        try:
            work(who)
        except BaseException as error:  # noqa: BLE001  to be shown by the test
            errors.append(error)

    threads = [threading.Thread(target=noting, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "somebody hangs"
    assert errors == []


def test_invariant_15_an_executor_runs_calls_from_any_thread_and_keeps_their_order() -> None:
    place = Guarded()
    executor = Executor(Toolset.from_object(place))

    def work(who: int) -> None:
        for n in range(200):
            result = executor.run_sync(Call("save", {"who": who, "n": n}, f"{who}-{n}"))
            assert result.text == str(n)

    in_threads(work, 8)
    place.check(8, 200)


def test_invariant_15_a_loop_in_a_thread_of_its_own_serves_all_threads() -> None:
    place = Guarded()
    executor = Executor(Toolset.from_object(place))
    with executor.in_thread() as run:

        def work(who: int) -> None:
            calls = [Call("save", {"who": who, "n": n}, f"{who}-{n}") for n in range(50)]
            first = [run(call) for call in calls[:25]]
            assert [one.text for one in first + run.run_all(calls[25:])] == [
                str(n) for n in range(50)
            ]

        in_threads(work, 8)
    after = executor.run_sync(Call("save", {"who": 0, "n": 0}, "after"))

    place.check(8, 50)
    assert after.text == "Not run: the tools were shut down before the call."


async def test_invariant_15_an_executor_in_use_is_reached_from_threads_and_not_from_other_loops() -> (
    None
):
    place = Guarded()

    def elsewhere(executor: Executor) -> tuple[str, str]:
        result = executor.run_sync(Call("save", {"who": 0, "n": 0}, "1"))
        with pytest.raises(RuntimeError) as caught:
            anyio.run(executor.run, Call("save", {"who": 0, "n": 1}, "2"))
        return result.text, str(caught.value)

    async with Executor(Toolset.from_object(place)) as executor:
        text, said = await anyio.to_thread.run_sync(elsewhere, executor)
        with pytest.raises(RuntimeError) as caught:
            executor.run_sync(Call("save", {"who": 0, "n": 1}, "3"))

    assert (text, place.seen) == ("0", [(0, 0)])
    assert said == (
        "This executor is already used in another event loop. Make one executor per loop, or share one between "
        "threads: `with executor.in_thread() as run:`."
    )
    assert (
        str(caught.value) == "run_sync was called in an event loop. Use `await executor.run(call)`."
    )


def test_invariant_15_threads_may_come_and_go() -> None:
    place = Guarded()
    executor = Executor(Toolset.from_object(place))

    def work(who: int) -> None:
        for n in range(60):
            result = executor.run_sync(Call("save", {"who": who, "n": n}, f"{who}-{n}"))
            assert result.text == str(n)
            threading.Event().wait(0.001 * ((who + n) % 4))  # often the last one is gone by then

    in_threads(work, 4)
    place.check(4, 60)


async def test_invariant_15_a_plain_function_may_use_the_executor_that_runs_it() -> None:
    place = Guarded()

    @tool
    def outer() -> str:
        """Run another call, from a thread."""
        return executor.run_sync(Call("save", {"who": 0, "n": 0}, "inner")).text

    async with Executor(Toolset.from_object(place) | Toolset(outer)) as executor:
        results = [
            await executor.run(Call("outer", {}, "1")),
            *await executor.run_all(
                [Call("outer", {}, "2"), Call("save", {"who": 0, "n": 1}, "3")]
            ),
        ]

    assert [one.text for one in results] == ["0", "0", "1"]
    assert [n for _, n in place.seen] == [0, 0, 1]


def test_invariant_15_and_so_may_one_that_run_sync_runs() -> None:
    place = Guarded()

    @tool
    def outer() -> str:
        """Run another call, from a thread."""
        return executor.run_sync(Call("save", {"who": 0, "n": 0}, "inner")).text

    executor = Executor(Toolset.from_object(place) | Toolset(outer))

    assert executor.run_sync(Call("outer", {}, "1")).text == "0"
    with executor.in_thread() as run:
        assert run(Call("outer", {}, "2")).text == "0"
    assert place.seen == [(0, 0)] * 2
