"""A session: a saved run with its executor, journal and agent.

``run``, ``runs resume``, ``chat`` and ``acp`` share it::

with saved.hold():
    async with open_session(kit, saved, model, approver=approver) as session:
        done = await session.finish(session.run("Fix the tests."))
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from anyio import to_thread

from handrail import Approvals, Executor, Text, Toolset
from handrail.agent import (
    Agent,
    OnEvent,
    Run,
    RunEvent,
    RunResult,
    RunState,
    Shortened,
)
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.settings import runs_folder
from handrail.cli._base.signals import Signals
from handrail.cli._project.kit import Kit
from handrail.cli._project.models import window_of
from handrail.cli._project.settings_hooks import SettingsHooks
from handrail.cli._runs.agent_parts import (
    all_tools,
    budgets_of,
    limits_of,
    make_system_prompt,
    read_stored_answer,
    read_trusted_instructions,
)
from handrail.cli._runs.saved import CANCEL, MAX_PROMPT_CHARS, WHY_CANCELLED, SavedRun
from handrail.coding import SystemPrompt, choose_tools, make_agent, retry_patiently
from handrail.events import Event
from handrail.messages import Content, Model, Prompt, Reply
from handrail.models import RetryWait
from handrail.permissions import Answer, Approver, Approvers, Pending
from handrail.runs import JournalError
from handrail.runs.lines import prompt_line, reply_line
from handrail.runs.record import record_events
from handrail.runs.statuses import CANCELLED, FAILED, INTERRUPTED, RUNNING, translate_stop

if TYPE_CHECKING:
    from handrail.tools import AnswerQuestion

OnExecutorEvent: TypeAlias = Callable[[Event], None]
"""Gets each executor event shortly after it happened. It must not block."""

OnWait: TypeAlias = Callable[[RetryWait], None]
APPROVAL_SECONDS = 7 * 24 * 3600.0
"""Seconds until an approval request expires: one week."""
CANCEL_POLL_SECONDS = 0.5
"""Seconds between two checks whether the run was cancelled."""
MAX_CONTINUED = 5
"""How often Stop hooks can continue a run after an answer."""


class Session:
    """An open saved run. Created by ``open_session``."""

    def __init__(
        self,
        kit: Kit,
        saved: SavedRun,
        model: Model,
        executor: Executor,
        *,
        hooks: SettingsHooks,
        signals: Signals | None = None,
    ) -> None:
        self.kit = kit
        self.saved = saved
        self.model = model
        """The model; it can be replaced between turns."""
        self.window: int | None = None
        """The model's context size in tokens, if known."""
        self.executor = executor
        self.system: SystemPrompt
        """Writes the system prompt. Set by ``open_session``."""
        self.instructions = read_trusted_instructions(kit)
        """The trusted instruction files' text."""
        self.ends_by = "other"
        """Why the session ends, for hooks."""
        self.hooks = hooks
        """The settings' hooks."""
        self.on_wait: OnWait | None = None
        """Shows when the model is asked again."""
        self._continued = 0
        """How often a hook has continued the run."""
        self._watch: OnEvent | None = None
        state = saved.state()
        self.state: RunState = state._replace(run_id=state.run_id or saved.id)
        """The state as it was last saved."""
        self.current: Run[Any] | None = None
        """The run in progress."""
        self._stopping = False
        self._signals = signals
        self._began_at = saved.head.entries
        self._cancelled = False
        self._asking = anyio.CancelScope()

    def read_instructions(self) -> None:
        """Read the instruction files again: one has changed, or is trusted now."""
        self.instructions = read_trusted_instructions(self.kit)
        self.system.read_again()

    async def admit(self, *prompt: str | Content) -> list[str | Content]:
        """Return a prompt with additions by hooks, or a Halt if one refuses it."""
        texts = [part if isinstance(part, str) else getattr(part, "text", "") for part in prompt]
        if not prompt:
            return []
        added = await self.hooks.submit("\n\n".join(filter(None, texts)))
        return [*filter(None, [added]), *prompt]

    async def admit_first(self) -> None:
        """Check a run's saved prompt, as ``admit`` does."""
        if not self.state.messages:
            inbox = [Prompt.of(*await self.admit(*one.parts)) for one in self.state.inbox]
            self.state = self.state._replace(inbox=tuple(inbox))

    def run(
        self,
        *prompt: str | Content,
        answers: Mapping[str, Answer] = {},
        watch: OnEvent | None = None,
        per_prompt: bool = False,
    ) -> Run[Any]:
        """Continue the run, with a prompt or answers if there are any. Pass it to ``finish``.

        Limits apply to the whole saved run. With ``per_prompt``, they apply from here.
        """
        self._watch = watch
        if prompt:
            message = Prompt.of(*prompt)
            if not self.saved.head.summary.get("prompt"):  # a chat begun without one
                said = [part.text for part in message.parts if isinstance(part, Text)]
                self.saved.record.set_status(prompt=said[-1][:MAX_PROMPT_CHARS] if said else "")
            self.state = self.state._replace(inbox=(*self.state.inbox, message))
            self.saved.record.put([prompt_line(time.time(), message)])
            self.saved.record.keep(self.state)
        if per_prompt:
            self.state = self.state.count_anew()
        run, recorder = self._agent().run_recorded, self.saved.record.recorder
        return run(self.state, recorder, answers=answers, on_event=self._watching(watch))

    def _agent(self) -> Agent[Any]:
        return make_agent(
            self.model,
            self.executor,
            rules=self.kit.rules,
            system=self.system,
            window=self.window,
            limits=limits_of(self.kit.app.settings),
            budget=budgets_of(self.kit.app.settings, self.saved.journal, self.model),
            save=self._save,
            max_tokens=self.kit.app.settings["max_tokens"],
            tries=self.kit.app.settings["model_tries"],
            on_wait=self._note_wait,
            before_summary=self.hooks.compact,
        )

    @property
    def offered(self) -> Toolset:
        """The tools the model can use now."""
        return choose_tools(self.executor.tools, self.model, self.kit.rules)

    def explore(self, tools: Toolset, *, system: str) -> Agent[Any]:
        """Return a sub-agent with some tools. Its calls are checked and recorded, too."""
        names = [tool.spec.name for tool in tools]
        tries = self.kit.app.settings["model_tries"]
        model = retry_patiently(self.model, tries=tries, on_wait=self._note_wait)
        return Agent(model, self.executor.restrict(*names), system=system)

    def _note_wait(self, wait: RetryWait) -> None:
        if self.on_wait is not None:
            self.on_wait(wait)

    def rewind(self, start: int) -> None:
        """Forget the messages from an index on. The journal keeps them."""
        state = self.state
        shortened = state.shortened if state.shortened.start <= start else Shortened()
        kept = shortened._replace(results_before=min(shortened.results_before, start))
        self.state = state._replace(
            messages=state.messages[:start],
            waiting=(),
            inbox=(),
            discarded=(),
            answers=(),
            shortened=kept,
        )
        self.saved.record.keep(self.state)

    async def compact(self) -> int:
        """Let the model summarize the conversation. Return how many messages this replaces."""
        before = self.state.shortened.start
        self.current = run = self._agent().resume(self.state)
        self.hooks.is_manual = True
        try:
            self.state = await run.compact()
        finally:
            self.current, self.hooks.is_manual = None, False
        self.saved.record.keep(self.state)
        return self.state.shortened.start - before

    async def finish(self, run: Run[Any]) -> RunResult[Any]:
        """Wait for a run to end, and save how it ended."""
        self.saved.put_standing(RUNNING)
        self.current = run
        if self.stopping:
            run.interrupt()
        try:
            done = await run
        except BaseException as error:
            self._note_failure(run, error)
            raise
        finally:
            self.current = None
        self.state = done.state
        self.saved.record.keep(done.state)
        if self._cancelled:
            self.saved.put_standing(CANCELLED, WHY_CANCELLED)
        else:
            self.saved.put_standing(translate_stop(done.stop_reason), done.stop_detail)
        why = await self._reason_to_continue(done)
        return await self.finish(self.run(why, watch=self._watch)) if why else done

    async def _reason_to_continue(self, done: RunResult[Any]) -> str:
        """Return why a hook lets the run continue after its answer; empty if it ends."""
        if done.stop_reason != "answer" or self.stopping or self._cancelled:
            return ""
        why = await self.hooks.end(is_again=self._continued > 0)
        if why and self._continued == MAX_CONTINUED:
            self.hooks.say(f"a Stop hook continued the run {MAX_CONTINUED} times; it ends now")
            why = ""
        self._continued = self._continued + 1 if why else 0
        return why

    async def answers(self, approver: Approver) -> dict[str, Answer]:
        """Return answers to the pending calls: saved ones, then an approver's."""
        waiting = {pending.id for pending in self.state.pending}
        stored = self.saved.record.answers
        given = {name: read_stored_answer(stored[name]) for name in stored.keys() & waiting}
        for pending in self.state.pending:
            is_asked = pending.kind != "waiting" and pending.approvers == Approvers()
            if is_asked and pending.id not in given:
                answer = await self._ask(approver, pending)
                if not isinstance(answer, Pending):
                    given[pending.id] = answer
        return given

    async def _ask(self, approver: Approver, pending: Pending) -> Answer | Pending:
        """Return an answer, or the pending call if there is none or the approver is interrupted."""
        with anyio.CancelScope() as self._asking:
            if self.stopping:
                self._asking.cancel()
            return await approver(pending)
        return pending

    @property
    def stopping(self) -> bool:
        """Whether the session was interrupted, or a signal came. Nothing new starts then."""
        return self._stopping or (self._signals is not None and self._signals.exits is not None)

    @stopping.setter
    def stopping(self, value: bool) -> None:
        self._stopping = value

    def interrupt(self) -> None:
        """Stop the run in progress, and everything after it."""
        self._stopping = True
        self._asking.cancel()
        if self.current is not None:
            self.current.interrupt()

    def _note_failure(self, run: Run[Any], error: BaseException) -> None:
        """Save a run's state after an exception."""
        with suppress(JournalError, ValueError):  # then the last saved state stays
            self.saved.record.keep(run.state)
            self.state = run.state
        broke = isinstance(error, Exception) and not isinstance(error, BrokenPipeError)
        failed = broke and not self.stopping
        with suppress(JournalError):  # the error itself is reported
            how = (FAILED, str(error)) if failed else (INTERRUPTED, "")
            self.saved.put_standing(*how)

    async def _save(self, state: RunState) -> None:
        try:
            await self.saved.record.save(state)
        except (JournalError, ValueError) as error:
            raise Halt(
                f"stopped, because the run cannot be saved: {error}",
                code="unsaved",
                hint=f"check free space and permissions: `ls -l {runs_folder()}`",
                exits=Exit.FAILED,
            ) from None
        self.state = state

    def _watching(self, watch: OnEvent | None) -> OnEvent:
        turns = count(self.state.turns + 1)

        def watching(event: RunEvent) -> None:
            if isinstance(event, Reply):
                self.saved.record.put([reply_line(time.time(), event, next(turns))])
            if watch is not None:
                watch(event)

        return watching

    async def obey_cancel(self) -> None:
        """Interrupt the run when `handrail runs cancel` asks for it."""
        seen = self._began_at
        while not self._cancelled:
            await anyio.sleep(CANCEL_POLL_SECONDS)
            with suppress(JournalError):
                news = self.saved.journal.read(self.saved.id, after=seen)
                for entry in await to_thread.run_sync(list, news):
                    seen, self._cancelled = entry.number, self._cancelled or entry.kind == CANCEL
        self.interrupt()

    async def obey(self, signals: Signals) -> None:
        """Interrupt the run when a signal comes."""
        await signals.wait()
        self.interrupt()


@asynccontextmanager
async def open_session(  # noqa: PLR0913  each is an option with a default
    kit: Kit,
    saved: SavedRun,
    model: Model,
    *,
    approver: Approver | None = None,
    on_event: OnExecutorEvent | None = None,
    signals: Signals | None = None,
    ask: AnswerQuestion | None = None,
) -> AsyncGenerator[Session]:
    """Open a session. When it closes, everything it started has ended and is saved.

    Args:
        kit: Tools, rules and settings.
        saved: The run, which the caller must hold.
        model: The model.
        approver: Answers approval requests; without one, calls that need approval are denied.
        on_event: Gets the executor's events.
        signals: Signals that interrupt the run.
        ask: Asks the person a question of the model; without it, the model cannot ask.
    """
    opened: list[Session] = []

    def explore(tools: Toolset, *, system: str) -> Agent[Any]:
        return opened[0].explore(tools, system=system)

    tools = all_tools(kit, explore, ask)
    hooks = kit.make_hooks(saved.id)
    kit.report_misnamed(tools)
    executor = Executor(
        tools,
        policy=hooks.limit(kit.rules),
        hooks=(*hooks.hooks, saved.record.recorder.hook),
        limits=hooks.limits,
        approvals=Approvals(
            approver=hooks.request(approver),
            timeout=APPROVAL_SECONDS,
            ledger=saved.journal.ledger,
            context=lambda _call: str(kit.app.workspace),
        ),
    )
    session = Session(kit, saved, model, executor, hooks=hooks, signals=signals)
    session.window = await to_thread.run_sync(window_of, kit.app.settings)
    said = await hooks.start(is_resumed=bool(session.state.messages))
    session.system = make_system_prompt(kit, tools, lambda: session.instructions, said)
    opened.append(session)
    failed: BaseException | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(record_events, saved.record, executor.events(), on_event)
        group.start_soon(session.obey_cancel)
        if signals is not None:
            group.start_soon(session.obey, signals)
        try:
            async with executor:
                yield session
        except Exception as error:  # noqa: BLE001  raised below, outside the task group
            failed = error
        await hooks.close(session.ends_by)
        group.cancel_scope.cancel()
    if failed is not None:
        raise failed
