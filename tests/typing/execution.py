"""What the type checkers must see of running calls: read by mypy and pyright, and run by nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, assert_type

from handrail import (
    READ,
    Allow,
    Approvals,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Context,
    Decision,
    Deny,
    Executor,
    Hook,
    Json,
    LongResults,
    Result,
    StopRun,
    Toolset,
    Turn,
    tool,
)
from handrail.approvals import callback, defer
from handrail.events import Event
from handrail.hooks import (
    audit,
    budget,
    cache,
    circuit_breaker,
    command,
    frame,
    limit_effect,
    loop_guard,
    rate_limit,
    redact,
)
from handrail.permissions import Answer, Explanation, Ledger, MemoryLedger, Pending, Policy


@dataclass
class Shop:
    name: str


# ---------------------------------------------------------------- tools


@tool(effect=READ)
async def query(sql: str, context: Context[Shop]) -> str:
    """Query the shop."""
    assert_type(context.deps, Shop)
    assert_type(context.principal, str | None)
    assert_type(context.metadata, Mapping[str, Json])
    context.progress("half")
    context.progress("half", 0.5)
    return f"{context.deps.name}: {sql} {context.deps.nothing}"  # type: ignore[attr-defined]


@tool
def note(text: str, context: Context) -> str:
    """Take a note, with any deps."""
    return f"{text} {context.call_id} {context.is_cancelled()}"


assert_type(Context(call_id="c", idempotency_key="k", deps=Shop("tea")), Context[Shop])
TOOLS = Toolset(query, note)


# ---------------------------------------------------------------- hooks


def passes(call: CheckedCall) -> CheckedCall:
    assert_type(call.args, Mapping[str, Any])
    assert_type(call.decision, Decision | None)
    assert_type(call.turn, Turn[Any])
    return call


def rewrites(call: CheckedCall) -> CheckedCall | Call:
    return call.with_args(sql="select 1") if call.name == "query" else call


async def refuses(call: CheckedCall) -> CheckedCall | Result:
    if call.turn.principal is None:
        raise StopRun("no one is signed in")
    return call.refuse("not now") if call.is_repeatable else call


def changes(call: CheckedCall | Call, result: Result) -> Result:
    return result._replace(text=f"{call.name} {call.id}: {result.text}")


async def changes_later(call: CheckedCall | Call, result: Result) -> Result:
    return changes(call, result)


async def timed(call: CheckedCall, run: Callable[[], Awaitable[Result]]) -> Result:
    result = await run()
    return result if result.failure is None else call.answer("nothing")


class Counter:
    """State in an object, and its methods as the sides of a hook."""

    def __init__(self) -> None:
        self.seen = 0

    def before(self, call: CheckedCall) -> CheckedCall:
        self.seen += 1
        return call

    @property
    def hook(self) -> Hook:
        return Hook(before=self.before)


HOOKS = [
    Hook(before=passes),
    Hook(before=rewrites),
    Hook(before=refuses, after=changes, around=timed),
    Hook(after=changes_later),
    Hook(before=lambda call: call),
    Hook(before=lambda call: call.refuse("never")),
    Hook(after=lambda call, result: result),  # noqa: ARG005
    Counter().hook,
]
assert_type(HOOKS, list[Hook])
READY_MADE = [
    audit(print),
    budget(calls=3),
    cache(),
    circuit_breaker(),
    command(["check"]),
    frame(),
    limit_effect(ceiling=READ),
    loop_guard(),
    rate_limit(3),
    redact(values=["secret"]),
]
assert_type(READY_MADE, list[Hook])


def no_result(call: CheckedCall | Call, result: Result) -> str:
    return f"{call.id} {result.text}"


async def plain_call(call: Call) -> Call:
    return call


def not_async(call: CheckedCall, run: Callable[[], Awaitable[Result]]) -> Result:
    return call.answer(str(run))


Hook(after=no_result)  # type: ignore[arg-type]
Hook(before=plain_call)  # type: ignore[arg-type]
Hook(around=not_async)  # type: ignore[arg-type]
Hook(passes)  # type: ignore[call-arg]


# ---------------------------------------------------------------- policies and approvers


def policy(call: CheckedCall) -> Decision:
    if call.name == "query" and call.args["sql"].startswith("drop"):
        return Ask(f"Run {call.args['sql']} for {call.turn.principal}?")
    return Allow() if call.spec.effect <= READ else Deny("read only")


async def approver(pending: Pending) -> Answer | Pending:
    return Allow() if pending.question else pending


async def always(_pending: Pending) -> Allow:
    return Allow()


ledger: Ledger = MemoryLedger()
as_a_policy: Policy = policy
Executor(TOOLS, policy=policy, approvals=approver, hooks=HOOKS)
Executor(TOOLS, policy=lambda call: Allow(), approvals=always)  # noqa: ARG005
Executor(TOOLS, approvals=defer, hooks=READY_MADE)
Executor(TOOLS, approvals=callback(lambda pending: bool(pending.accesses)))
Executor(
    TOOLS,
    approvals=Approvals(
        approver=approver, timeout=60.0, ledger=ledger, context=lambda call: call.name
    ),
    limits=CallLimits(timeout=5, max_running_per_tool={"query": 2}),
    long_results=LongResults(reader="always"),
    hooks=(limit_effect(),),
)
LongResults(reader="sometimes")  # type: ignore[arg-type]
Executor(TOOLS, approver=approver)  # type: ignore[call-arg]
Executor(TOOLS, hooks=[passes])  # type: ignore[list-item]


# ---------------------------------------------------------------- turns


async def arriving() -> AsyncIterator[Call]:
    yield Call("query", {"sql": "select 1"})


async def run() -> None:
    async with Executor(TOOLS, policy=policy) as executor:
        assert_type(executor.turn(), Turn[None])
        assert_type(executor.turn().deps, None)
        turn = executor.turn("3", run="r7", principal="ada", deps=Shop("tea"), metadata={"t": 1})
        assert_type(turn, Turn[Shop])
        assert_type(turn.deps, Shop)
        call = Call("query", {"sql": "select 1"}, "c1")
        turn.add(call, call)
        await turn.add_from(arriving())
        assert_type(await turn.result("c1"), Result)
        assert_type(await turn.results(), list[Result])
        assert_type(turn.cancel("c1"), tuple[str, ...])
        for pending in turn.pending:
            assert_type(pending, Pending)
            turn.answer(pending, Allow())
            turn.answer(pending)
        async with turn.events("c1") as events:
            async for event in events:
                assert_type(event, Event)
        assert_type(await executor.run(call, turn=turn), Result)
        assert_type(await executor.run_all([call], turn=turn), list[Result])
        assert_type(await executor.run_all(arriving()), list[Result])
        assert_type(executor.explain(call), Explanation)
        assert_type(executor.restrict("query", policy=policy), Executor)
        turn.answer(call)  # type: ignore[arg-type]


def in_threads(executor: Executor) -> list[Result]:
    with executor.in_thread() as run_call:
        assert_type(run_call(Call("query", {}), turn=executor.turn(deps=Shop("tea"))), Result)
        return run_call.run_all([Call("query", {})])


def with_any_turn(turn: Turn) -> str:
    assert_type(turn.deps, Any)
    return turn.id
