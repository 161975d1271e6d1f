"""Executor: takes calls through all stages, and gives each exactly one outcome."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Any, Self

import anyio

from handrail._arguments import proven
from handrail._batch import raised, ready_in
from handrail._call import Call
from handrail._decision import Allow
from handrail._desk import Desk
from handrail._event import Event
from handrail._explanation import Explanation, explained
from handrail._feed import Feed
from handrail._glider import went_on
from handrail._hook import After, Answer, Approver, Before, Ledger, MemoryLedger
from handrail._hooked import passed_back, swiftly
from handrail._invoke import Limits, all_over
from handrail._loop import closed_after, on_asyncio, resumed
from handrail._output import rendered
from handrail._pending import Pending
from handrail._policy import ALLOW, Both, Policy, judge
from handrail._questions import in_order
from handrail._reader import reader
from handrail._registry import Registry
from handrail._result import Result
from handrail._schedule import MAX_RUNNING, Schedule
from handrail._spec import Retry
from handrail._store import MAX_STORED, Store
from handrail._toolset import Toolset
from handrail._traffic import Traffic

MAX_CHARS = 20_000
TIMEOUT = 120.0
HOOK_TIMEOUT = 30.0
ANSWER_WITHIN = 24 * 3600.0
"""Seconds for which a question may wait for its answer."""
_QUICK = 250_000
"""Characters of arguments that the fast lane takes; no character is more than four bytes."""
_new: Callable[..., Any] = vars(tuple)["__new__"]


class Executor:
    """Runs calls: checked, judged, ordered, bounded; one outcome each, in call order.

    Use it as an async context manager: nothing that it started outlives it. With a registry, it
    works on the tools that ``advertise()`` last gave, and refuses those that have changed since.
    """

    def __init__(  # noqa: PLR0913  each is an option with a default
        self,
        tools: Toolset | Registry,
        *,
        policy: Policy | None = None,
        before: Sequence[Before] = (),
        after: Sequence[After] = (),
        approver: Approver | None = None,
        timeout: float = TIMEOUT,
        hook_timeout: float = HOOK_TIMEOUT,
        retry: Retry | None = None,
        max_chars: int = MAX_CHARS,
        max_stored: int = MAX_STORED,
        max_running: int = MAX_RUNNING,
        max_running_of: Mapping[str, int] = MappingProxyType({}),
        run_id: str = "",
        answer_within: float = ANSWER_WITHIN,
        ledger: Ledger | None = None,
        bound_to: Callable[[Call], str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        registry = tools if isinstance(tools, Registry) else None
        offered = tools.snapshot() if isinstance(tools, Registry) else tools
        store = Store(max_stored)
        self._desk = desk = Desk(
            offered=offered,
            registry=registry,
            reader=reader(store, offered, max_chars),
            policy=policy,
            before=tuple(before),
            after=tuple(after),
            approver=approver,
            limits=Limits(timeout=timeout, retry=retry, max_chars=max_chars, stored=max_stored),
            hook_timeout=hook_timeout,
            store=store,
            run_id=run_id or uuid.uuid4().hex,
            clock=clock,
            ledger=ledger if ledger is not None else MemoryLedger(),
            answer_within=answer_within,
            bound_to=bound_to,
            generation=registry.generation if registry is not None else 0,
        )
        self._narrowed: list[Executor] = []
        self._schedule = Schedule(most=max_running, most_of=max_running_of)
        self._traffic = Traffic(desk, self._schedule)
        self._lanes = self._traffic.lanes
        self._feeds = desk.feeds
        self._closed = False

    async def __aenter__(self) -> Self:
        self._desk.native = on_asyncio()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()
        with anyio.CancelScope(shield=True):
            for one in self._narrowed:
                await one.__aexit__(kind, error, trace)
            await self._traffic.all_ended()
            await all_over(self._desk.limits, self._desk.hook_timeout)
        self._closed = True
        for feed in self._feeds:
            feed.close()

    @property
    def tools(self) -> Toolset:
        """What a model may call: the tools offered, and the reader once a result was too long."""
        return self._desk.tools

    def advertise(self) -> Toolset:
        """Take the registry's tools as they are now, and work on them from here on."""
        desk = self._desk
        if desk.registry is not None:
            offered, desk.generation = desk.registry.snapshot(), desk.registry.generation
            if desk.only is not None:
                offered = offered.only(*(name for name in desk.only if name in offered))
            desk.offered = offered
            desk.reader = reader(desk.store, desk.offered, desk.limits.max_chars)
        return desk.tools

    # Every single call passes through here: what would read better as functions of its own costs
    # more than it does.
    async def run(self, call: Call) -> Result:  # noqa: C901, PLR0911, PLR0912, PLR0915
        """Run one call."""
        lane = self._lanes.get(call.name)
        if lane is None or self._schedule.open:
            return await self._traffic.alone(call)
        desk = self._desk
        if desk.before and (passed := swiftly(call, desk.before)) is not call:
            return await self._traffic.alone(call, passed)
        validate, pairs, words, fn, exact, dump, most, spec, accesses, tool, _ = lane
        args: Any = call.args
        try:
            values = validate(args)
        except Exception:  # noqa: BLE001  looked at again, and told, the long way
            return await self._traffic.alone(call, call)
        decision = judge(desk.policy, call, spec, accesses) if desk.policy else ALLOW
        doubtful = args.count(":") != pairs(values) or (words and "\\" in args)
        if (
            len(args) > _QUICK
            or (doubtful and not proven(args, values, pairs))
            or (desk.policy and type(decision) is not Allow)
        ):
            return await self._traffic.alone(call, call)
        began = desk.clock() if self._feeds else 0.0
        coroutine, scope = fn(**values), copy_context()
        try:
            rest = resumed(coroutine, scope.run(coroutine.send, None), scope)
        except StopIteration as stop:
            value = stop.value
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  told in the same words as any other
            ready = ready_in(call, lane, values, decision)
            return await went_on(self._traffic, ready, raised(error))
        else:
            return await went_on(self._traffic, ready_in(call, lane, values, decision), rest)
        try:
            text = dump(value).decode() if type(value) is exact else None
        except Exception:  # noqa: BLE001  looked at again, and told, below
            text = None
        if text is None:
            result = rendered(call.id, value, tool)
            text = result.text
        else:
            result = _new(Result, (call.id, text, (), text, None, None))
        stored = 0
        if len(text) > most:
            result, stored = desk.shortened(result, most)
        try:
            if desk.after:
                result = await passed_back(call, result, desk.after, desk.hook_timeout, native=True)
        finally:
            if self._feeds:
                desk.tell((began, desk.clock(), call, accesses, decision, result, stored))
        return result

    def run_sync(self, call: Call) -> Result:
        """Run one call from synchronous code; not from inside an event loop."""
        return anyio.run(self.run, call)

    async def run_all(self, calls: Iterable[Call] | AsyncIterable[Call]) -> list[Result]:
        """Run a batch of calls: as parallel as is safe, in the model's order where it matters.

        Calls may arrive one by one: those that only read start early, the others once the batch is
        complete. Cancelling this cancels them all.
        """
        async with self._traffic.batch() as batch:
            if isinstance(calls, AsyncIterable):
                async with closed_after(calls):
                    async for call in calls:
                        await self._traffic.take(batch, call)
            else:
                for call in calls:
                    await self._traffic.take(batch, call)
        return [batch.outcomes[place] for place in range(len(batch.calls))]

    async def resume(
        self, pending: Iterable[Pending], answers: Mapping[str, Answer]
    ) -> list[Result]:
        """Go on with calls that waited, in their order; answers are by the id of each Pending.

        What is not answered yet, and what has to wait for that, stays pending. Each answer counts
        once, for exactly what was asked.
        """
        given = list(pending)
        order = in_order(given)
        async with self._traffic.batch() as batch:
            for place in order:
                one = given[place]
                await self._traffic.take_up(batch, one, answers.get(one.id))
        results = dict(zip(order, range(len(order)), strict=True))
        return [batch.outcomes[results[place]] for place in range(len(given))]

    def narrow(self, *names: str, policy: Policy | None = None) -> Executor:
        """An executor with fewer rights: only these tools, and judged by both policies.

        Hooks, approver, ledger and limits are the same. It ends with this one, and so does what it
        leaves running. Raises UnknownName for a tool that this one does not offer.
        """
        desk, limits = self._desk, self._desk.limits
        made = Executor(
            desk.offered.only(*names),
            policy=Both(desk.policy, policy) if policy is not None else desk.policy,
            before=desk.before,
            after=desk.after,
            approver=desk.approver,
            hook_timeout=desk.hook_timeout,
            max_chars=limits.max_chars,
            max_stored=limits.stored,
            max_running=self._schedule.most,
            max_running_of=self._schedule.most_of,
            answer_within=desk.answer_within,
            ledger=desk.ledger,
            bound_to=desk.bound_to,
            clock=desk.clock,
        )
        child = made._desk
        child.limits, child.native = limits, desk.native
        child.registry, child.generation, child.only = desk.registry, desk.generation, names
        self._narrowed.append(made)
        return made

    def explain(self, call: Call) -> Explanation:
        """What would become of a call, and why, without running anything: no hook, no tool."""
        return explained(call, self._desk, self._traffic.in_the_way)

    def cancel(self, *call_ids: str) -> None:
        """Stop these calls, or all: those that run, and those that have not started."""
        self._traffic.cancel(call_ids)

    def events(self) -> AsyncIterator[Event]:
        """Everything that happens from here on, until the executor is closed."""
        feed = Feed()
        self._feeds.append(feed)
        if self._closed:
            feed.close()
        return feed.events(partial(self._feeds.remove, feed))
