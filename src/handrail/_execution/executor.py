"""Executor: runs calls through all stages, and returns exactly one result for each."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Self, overload

import anyio
import anyio.to_thread

from handrail._collection.registry import Registry
from handrail._collection.toolset import Toolset
from handrail._execution.running import make_requested
from handrail._execution.settings import (
    AN_APPROVER,
    Approvals,
    CallFoundBy,
    CallLimits,
    FindCredential,
    Hook,
    LongResults,
    check_approver,
    check_names,
    check_policy,
    check_tools,
    report_misnamed,
)
from handrail._execution.view import View
from handrail._permissions.checked_call import Policy
from handrail._turn.background import first_results
from handrail._turn.event_feed import EventFeed
from handrail._turn.heard_runs import follow
from handrail._turn.owner import stop_and_wait
from handrail._turn.record import EMPTY, CallRecords, make_options
from handrail._turn.turn import Turn
from handrail._values.approval import Answer, Approver, Ledger
from handrail._values.call import Call
from handrail._values.content import Json
from handrail._values.context import D
from handrail._values.result import Result

if TYPE_CHECKING:
    from handrail._execution.threads import InThread
    from handrail._permissions.explanation import Explanation
    from handrail._sources.heard import Heard
    from handrail.messages import Reply, StreamItem, ToolResults


class Executor:
    """Runs calls: checked, decided, ordered and bounded, with one result each, in call order.

    Use it as an async context manager: nothing it started outlives it. You can enter it many
    times, also at the same time; the last exit closes it. It belongs to the event loop that first
    uses it. Other threads use ``run_sync`` or ``in_thread``.

    Args:
        tools: The tools to run. With a registry, those of the last
            ``refresh_tools()``; calling one changed since then fails as stale.
        policy: Decides each call. Without one, every call is allowed.
        approvals: Who approves calls, and what an approval is tied to.
        hooks: Your code before, after and around calls.
        limits: Timeouts, retries, and how many calls can run at once.
        long_results: What happens to overlong results.
        clock: Returns the time, for events and for expiring approvals.
        call_found_by: How a model calls a deferred tool it has found: by its name, or with
            the tool ``call_tool``. Then the tools it is sent never change.
        credentials: Finds those of each principal, for ``Context.credential``.
    """

    def __init__(  # noqa: PLR0913  each is an option with a default
        self,
        tools: Toolset | Registry,
        *,
        policy: Policy | None = None,
        approvals: Approvals | Approver | None = None,
        hooks: Sequence[Hook] = (),
        limits: CallLimits = CallLimits(),  # noqa: B008  a frozen value
        long_results: LongResults = LongResults(),  # noqa: B008  a frozen value
        clock: Callable[[], float] = time.time,
        call_found_by: CallFoundBy = "name",
        credentials: FindCredential | None = None,
    ) -> None:
        # these load asyncio, which importing Executor does not
        from handrail._execution.pipeline import Pipeline
        from handrail._execution.tasks import Tasks
        from handrail._execution.threads import SharedPortal

        check_tools(tools)
        if call_found_by not in ("name", "call_tool"):
            raise ValueError(
                f"Executor(call_found_by={call_found_by!r}): must be 'name' or 'call_tool'."
            )
        check_policy("Executor(policy", policy)
        if not isinstance(approvals, Approvals):
            check_approver("Executor(approvals", approvals, f"{AN_APPROVER}, or an Approvals")
            approvals = Approvals(approver=approvals)
        self._pipeline = Pipeline(
            approvals=approvals,
            hooks=hooks,
            limits=limits,
            long_results=long_results,
            clock=clock,
            credentials=credentials,
        )
        check_names(limits.max_running_per_tool, tools)
        report_misnamed(policy, tools)
        self._view = View(tools, policy, long_results, call_found_by=call_found_by)
        self._view.is_guarded |= bool(self._pipeline.hooks.before)
        self._tasks = Tasks(self._pipeline, self._view)
        self._portal = SharedPortal()
        self._users = 0
        self._hooks = tuple(hooks)

    def run(self, call: Call, *, turn: Turn[Any] | None = None) -> Coroutine[Any, Any, Result]:
        """Run one call, in the caller's task unless there is an ``around`` hook. Await it."""
        if turn is not None:
            return self._own(turn).run(call)
        tasks, pipeline = self._tasks, self._pipeline
        record = make_requested(Turn(tasks), call, self._view)
        return tasks.run_hooked(record) if pipeline.is_hooked else pipeline.run(record)

    async def run_all(
        self,
        calls: Iterable[Call] | AsyncIterable[Call],
        *,
        turn: Turn[Any] | None = None,
        background: bool = False,
    ) -> list[Result]:
        """Run one reply's calls: in parallel if they do not conflict, in order if they do.

        Calls can arrive one by one: read-only ones start early, the others once all have
        arrived. Cancelling this cancels them all. With ``background``, calls of tools
        with ``background=True`` continue: see ``Turn.background``.
        """
        turn = self._own(turn) if turn is not None else self.turn()
        try:
            if isinstance(calls, AsyncIterable):
                await turn.add_from(calls)
            else:
                turn.add(*calls)
            return await (first_results(turn) if background else turn.results())
        except BaseException as error:
            await stop_and_wait(error, turn.cancel, turn.ended)
            raise

    async def run_reply(
        self,
        reply: Reply | AsyncIterable[StreamItem],
        *,
        turn: Turn[Any] | None = None,
        show: Callable[[StreamItem], object] | None = None,
    ) -> ToolResults:
        """Run a reply's calls, and return the message with their results, in call order.

        A truncated call does not run. Calls needing approval later are pending: see
        ``ToolResults.questions`` and ``resume``.

        Args:
            reply: The reply, or a model stream ending with it. Calls in a stream that
                only read start early.
            turn: The turn the calls belong to. Its ``reply`` is then the reply.
            show: Called with each item of a stream, such as a ``Delta`` to print.
        """
        from handrail._turn.replies import ReplyCalls  # loads messages

        turn = self._own(turn) if turn is not None else self.turn()
        calls = ReplyCalls(reply, turn, show)
        return calls.results(await self.run_all(calls.calls(), turn=turn))

    async def resume(
        self,
        saved: ToolResults,
        answers: Mapping[str, Answer],
        *,
        deps: Any = None,
        metadata: Mapping[str, Json] = EMPTY,
    ) -> ToolResults:
        """Run the answered pending calls in saved results, and return all results.

        Ended calls do not run again. Without an answer, a call stays pending, unless it
        only waits for others.

        Args:
            saved: What ``run_reply`` or ``resume`` returned, also in another process.
            answers: Answers by request id. Raises LookupError for a request that is not
                open.
            deps: Objects for the tools, such as a database.
            metadata: More facts for hooks, policies and tools.
        """
        from handrail._turn.replies import WaitingCalls  # loads messages

        waiting = WaitingCalls(saved, answers)
        if (first := waiting.first) is None:
            return saved
        about: dict[str, Any] = {"principal": first.principal, "metadata": metadata}
        turn = self.turn(first.turn_id, run=first.run_id, deps=deps, answers=answers, **about)
        waiting.answer(turn)
        return waiting.merge(await self.run_all((), turn=turn))

    def run_sync(self, call: Call, *, turn: Turn[Any] | None = None) -> Result:
        """Run one call from synchronous code, in any thread without an event loop."""
        return self._portal.run(self._pipeline.home, partial(self.run, call, turn=turn))

    def in_thread(self) -> AbstractContextManager[InThread]:
        """Open an event loop in a separate thread, so any thread can run calls."""
        return self._portal.share(self)

    @overload
    def turn(
        self,
        id: str | None = None,
        *,
        run: str | None = None,
        principal: str | None = None,
        metadata: Mapping[str, Json] = EMPTY,
        tools: Toolset | None = None,
        approver: Approver | None = None,
        credentials: FindCredential | None = None,
        known: Mapping[str, Result] = EMPTY,
        claimant: str | None = None,
        records: CallRecords | None = None,
        loaded: Iterable[str] = (),
        answers: Mapping[str, Answer] = EMPTY,
        said: Iterable[str] | None = None,
        heard: Heard | None = None,
    ) -> Turn[None]: ...
    @overload
    def turn(
        self,
        id: str | None = None,
        *,
        deps: D,
        run: str | None = None,
        principal: str | None = None,
        metadata: Mapping[str, Json] = EMPTY,
        tools: Toolset | None = None,
        approver: Approver | None = None,
        credentials: FindCredential | None = None,
        known: Mapping[str, Result] = EMPTY,
        claimant: str | None = None,
        records: CallRecords | None = None,
        loaded: Iterable[str] = (),
        answers: Mapping[str, Answer] = EMPTY,
        said: Iterable[str] | None = None,
        heard: Heard | None = None,
    ) -> Turn[D]: ...
    def turn(
        self,
        id: str | None = None,  # noqa: A002
        *,
        run: str | None = None,
        tools: Toolset | None = None,
        loaded: Iterable[str] = (),
        said: Iterable[str] | None = None,
        **options: Any,
    ) -> Turn[Any]:
        """Begin a turn: all calls in one reply.

        Args:
            id: The turn's id in its run. If you name both, keys are the same after a restart.
            run: The turn's run id.
            principal: The user or service on whose behalf the calls run.
            deps: Objects for the tools, such as a database.
            metadata: More facts for hooks, policies and tools.
            tools: The tools the model was sent. Default: the current ones.
            approver: This turn's approver, in place of the executor's.
            credentials: Finds credentials, if the executor has no ``credentials``.
            known: Results recorded before a restart, by call id.
            claimant: Who uses approvals. For a durable engine, the id of its execution.
            records: Stores texts for calls that a restart interrupts.
            loaded: The deferred tools that ``handrail.messages.find_loaded_tools`` has found.
            answers: Answers to calls tools of pending calls have made, by ``Pending.id``.
            said: What people wrote since the run's last turn, for ``CheckedCall.sources``.
            **options: The other options above.
        """
        options["heard"] = self._pipeline.heard.hear(run, said, options.get("heard"))
        turn = follow(Turn(self._tasks, id, run, make_options(options, loaded)))
        if tools is not None:
            turn.tools, turn.generation = tools, -1
        return turn

    def _own(self, turn: Turn[Any]) -> Turn[Any]:
        """Return this executor's turn. Another executor may be more permissive."""
        if turn.owner is not self._tasks:
            raise ValueError(
                "The turn belongs to another executor. Create it with the `turn()` of this one."
            )
        return turn

    @property
    def approver(self) -> Approver | None:
        """Answers approval requests, if anything does."""
        return self._pipeline.questions.approvals.approver

    @property
    def policy(self) -> Policy | None:
        """Decides each call, if anything does."""
        return self._view.policy

    @property
    def ledger(self) -> Ledger:
        """Where used approvals are recorded."""
        return self._pipeline.questions.approvals.ledger

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """Your code before, after and around calls."""
        return self._hooks

    @property
    def limits(self) -> CallLimits:
        """Timeouts, retries, and how many calls can run at once."""
        return self._pipeline.limits

    @property
    def tools(self) -> Toolset:
        """The tools to send to a model, with ``read_result`` and ``search_tools`` if needed."""
        return self._view.describe_tools()

    @property
    def registry(self) -> Registry | None:
        """The registry the tools come from, if there is one. Then they can change."""
        return self._view.registry

    def refresh_tools(self) -> Toolset:
        """Use the registry's current tools, and return them."""
        self._view.refresh()
        return self.tools

    async def prepare_tools(self) -> Toolset:
        """Use the registry's current tools, and return them. Many tools do not block the loop."""
        self._view.refresh()
        if self._view.finder is None:
            return self._view.tools
        return await anyio.to_thread.run_sync(self._view.describe_tools)

    def restrict(self, *names: str, policy: Policy | None = None) -> Executor:
        """Return an executor with only these tools, and the stricter of both policies.

        It shares everything else: schedule, limits, hooks, listeners, approvals, cleanup. Leaving
        it closes nothing. Raises UnknownName for a tool this executor does not have.
        """
        check_policy("restrict(policy", policy)
        made = object.__new__(Executor)
        made._pipeline, made._portal, made._users = self._pipeline, self._portal, 0
        made._view = self._view.restrict(names, policy)
        made._tasks = self._tasks.restrict(made._view)
        made._hooks = self._hooks
        return made

    def explain(self, call: Call, *, turn: Turn[Any] | None = None) -> Explanation:
        """Return what would happen to a call, and why, without running it."""
        from handrail._execution.explain import explain

        turn = self._own(turn) if turn is not None else self.turn()
        record = make_requested(turn, call, self._view)
        record.position = turn.next_position
        return explain(record, self._pipeline)

    def events(self) -> EventFeed:
        """Return the events from now on, until the executor is closed."""
        return self._tasks.listen()

    def cancel(self) -> None:
        """Stop all calls, also those not started or still to be streamed, from any thread."""
        self._tasks.cancel()

    @staticmethod
    def count_threads(count: Callable[[int], object]) -> AbstractContextManager[None]:
        """Count the threads for calls made inside, also by sub-agents.

        No one can stop a thread: it can outlive its call, and this block.

        Args:
            count: Gets 1 before a plain function starts, and -1 once it has ended, in any thread.
        """
        from handrail._execution.threads import count_threads

        return count_threads(count)

    async def __aenter__(self) -> Self:
        self._pipeline.bind()
        if self._view.parent is None:
            self._users += 1
            self._pipeline.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._view.parent is None:
            self._users -= 1
            if not self._users:
                await self.aclose()

    async def aclose(self, grace: float = 30.0) -> None:
        """Stop all calls, wait up to ``grace`` seconds for them, and run all cleanups."""
        with anyio.CancelScope(shield=True):
            await self._pipeline.close(grace)
