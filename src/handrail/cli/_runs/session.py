"""A session: a saved run with its executor, journal and agent.

``run``, ``runs resume`` and ``chat`` share it::

    with saved.hold():
        async with open_session(kit, saved, model, approver=approver) as session:
            done = await session.finish(session.run("Fix the tests."))
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import anyio

from handrail import Allow, Approvals, Deny, Executor, HandrailError, Toolset
from handrail.agent import (
    Agent,
    Limits,
    Notice,
    OnEvent,
    Run,
    RunEvent,
    RunResult,
    RunState,
    read_instructions,
)
from handrail.approvals import FileLedger
from handrail.cli._base.app import App
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.settings import Settings
from handrail.cli._base.signals import Signals
from handrail.cli._project.kit import Kit
from handrail.cli._project.trusted import make_trust_check
from handrail.cli._runs.journal import event_lines, prompt_line, reply_line
from handrail.cli._runs.saved import SavedRun
from handrail.events import Event
from handrail.messages import Model, Prompt, Reply
from handrail.permissions import Answer, Approver, Pending

OnExecutorEvent: TypeAlias = Callable[[Event], None]
"""Gets each event of the executor shortly after it happened. It must not block."""

APPROVAL_SECONDS = 7 * 24 * 3600.0
"""Seconds until an approval request expires: one week."""
SYSTEM = (
    "You work in the user's folder with tools. Paths are relative to that folder. Read a file "
    "before you change it. If a call is denied, do not work around it: continue without it, and "
    "say so. At the end, summarize in a few sentences what you did and what you found."
)
"""The default system prompt."""
_NO_ANSWERS: Mapping[str, Answer] = MappingProxyType({})


class Session:
    """A saved run that is open. Created by ``open_session``."""

    def __init__(
        self,
        kit: Kit,
        saved: SavedRun,
        model: Model,
        executor: Executor,
        *,
        signals: Signals | None = None,
    ) -> None:
        self.kit = kit
        self.saved = saved
        self.model = model
        """The model. It can be replaced between turns."""
        self.executor = executor
        self.system = ""
        state = saved.state()
        self.state: RunState = state._replace(run_id=state.run_id or saved.id)
        """The state as it was last saved."""
        self.current: Run[Any] | None = None
        """The run in progress."""
        self._stopping = False
        self._signals = signals
        self._asking = anyio.CancelScope()

    def run(
        self,
        *prompt: str,
        answers: Mapping[str, Answer] = _NO_ANSWERS,
        watch: OnEvent | None = None,
        per_prompt: bool = False,
    ) -> Run[Any]:
        """Continue the run, with a prompt or answers if there are any. Pass it to ``finish``.

        Limits apply to the whole saved run. With ``per_prompt``, they apply from here.
        """
        if prompt:
            message = Prompt.of(*prompt)
            self.state = self.state._replace(inbox=(*self.state.inbox, message))
            self.saved.keep(self.state)
            self.saved.note([prompt_line(time.time(), message)])
        if per_prompt:
            self.state = self.state.count_anew()
        agent: Agent[Any] = Agent(
            self.model,
            self.executor,
            system=self.system,
            limits=_limits(self.kit.app.settings),
            save=self._save,
            max_tokens=self.kit.app.settings["max_tokens"],
        )
        return agent.resume(self.state, answers=answers, on_event=self._watching(watch))

    async def finish(self, run: Run[Any]) -> RunResult[Any]:
        """Wait for a run to end, and save how it ended."""
        self.saved.ends("running")
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
        self.saved.keep(done.state)
        self.saved.ends(done.stop_reason, done.stop_detail)
        self._forget_answers(done.state)
        return done

    def _forget_answers(self, state: RunState) -> None:
        """Delete answers to calls that are no longer pending."""
        waiting = {pending.id for pending in state.pending}
        given = self.saved.answers
        if not given.keys() <= waiting:
            self.saved.keep_answers({name: given[name] for name in given.keys() & waiting})

    async def answers(self, approver: Approver) -> dict[str, Answer]:
        """Return answers to the pending calls: saved ones, then those of an approver."""
        given = {name: _answer(answer) for name, answer in self.saved.answers.items()}
        for pending in self.state.pending:
            if pending.question and pending.id not in given:
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
        """Stop the run in progress, and everything that would follow."""
        self._stopping = True
        self._asking.cancel()
        if self.current is not None:
            self.current.interrupt()

    def _note_failure(self, run: Run[Any], error: BaseException) -> None:
        """Save the state of a run that an exception ended."""
        with suppress(OSError, ValueError):  # then the last saved state stays
            self.saved.keep(run.state)
            self.state = run.state
        broke = isinstance(error, Exception) and not isinstance(error, BrokenPipeError)
        if broke and not self.stopping:
            self.saved.ends("failed", str(error))
        else:
            self.saved.ends("interrupted")

    async def _save(self, state: RunState) -> None:
        try:
            await self.saved.save(state)
        except (OSError, ValueError) as error:
            raise Halt(
                f"stopped, because the run cannot be saved: {error}",
                code="unsaved",
                hint=f"check free space and permissions: `ls -ld {self.saved.folder}`",
                exits=Exit.FAILED,
            ) from None
        self.state = state

    def _watching(self, watch: OnEvent | None) -> OnEvent:
        def watching(event: RunEvent) -> None:
            if isinstance(event, Reply):
                self.saved.note([reply_line(time.time(), event)])
            if watch is not None:
                watch(event)

        return watching

    async def listen(self, events: AsyncIterator[Event], on_event: OnExecutorEvent | None) -> None:
        """Write every event to the journal, even while the session is cancelled."""
        with anyio.CancelScope(shield=True):
            async for event in events:
                self.saved.note(event_lines(event))
                if on_event is not None:
                    on_event(event)

    async def obey(self, signals: Signals) -> None:
        """Interrupt the run when a signal comes."""
        await signals.wait()
        self.interrupt()


@asynccontextmanager
async def open_session(
    kit: Kit,
    saved: SavedRun,
    model: Model,
    *,
    approver: Approver | None = None,
    on_event: OnExecutorEvent | None = None,
    signals: Signals | None = None,
) -> AsyncGenerator[Session]:
    """Open a session. When it closes, everything it started has ended and is saved.

    Args:
        kit: Tools, rules and settings.
        saved: The run, which the caller must hold.
        model: The model.
        approver: Answers approval requests; without one, calls that need approval are denied.
        on_event: Gets the executor's events.
        signals: Signals that interrupt the run.
    """
    system, tools = _system_and_tools(kit)
    executor = Executor(
        tools,
        policy=kit.rules,
        approvals=Approvals(
            approver=approver,
            timeout=APPROVAL_SECONDS,
            ledger=FileLedger(saved.ledger),
            context=lambda _call: str(kit.app.workspace),
        ),
    )
    session = Session(kit, saved, model, executor, signals=signals)
    session.system = system
    failed: BaseException | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(session.listen, executor.events(), on_event)
        if signals is not None:
            group.start_soon(session.obey, signals)
        try:
            async with executor:
                yield session
        except Exception as error:  # noqa: BLE001  raised below, outside the task group
            failed = error
        group.cancel_scope.cancel()
    if failed is not None:
        raise failed


def _answer(stored: Mapping[str, str]) -> Answer:
    """Return a saved answer; anything but an approval is a denial."""
    if stored.get("answer") == "allow":
        return Allow()
    return Deny.by_user(stored.get("reason", ""))


def app_to_resume(app: App, saved: SavedRun) -> App:
    """Return the App to resume a saved run: its workspace, and the options of its first command.

    Options of the current command line win. Other settings are read from the files again.
    """
    about = saved.about
    workspace = Path(about["workspace"])
    if not workspace.is_dir():
        raise Halt(
            f"the workspace of run {saved.id} no longer exists: {workspace}",
            code="no_workspace",
            hint="restore that folder, or start a new run",
        )
    given = {name: value for name, value in about["settings"].items() if name in about["given"]}
    return replace(app, workspace=workspace, flags={**given, **app.flags})


def flag_settings(settings: Settings) -> list[str]:
    """Return the settings that the command line gave."""
    return [name for name, origin in settings.origins.items() if origin.level == "flag"]


def _limits(settings: Settings) -> Limits:
    return Limits(
        turns=settings["max_turns"],
        calls=settings["max_calls"],
        tokens=settings["max_total_tokens"],
        seconds=settings["max_seconds"],
    )


def _system_and_tools(kit: Kit) -> tuple[str, Toolset]:
    """Return the system prompt and all tools, with the instructions and skills that are trusted."""
    workspace = kit.app.workspace
    instructions = read_instructions(workspace, trusted=make_trust_check(workspace))
    skills = kit.skills
    for notice in (*instructions.notices, *skills.notices):
        kit.app.say(_format_notice(notice))
    own = kit.app.settings["system"] or SYSTEM
    system = "\n\n".join(filter(None, (own, instructions.text, skills.catalog)))
    try:
        return system, Toolset(*kit.tools, *skills.tools)
    except HandrailError as error:
        hint = "rename the skill, or exclude the tool with `--without NAME`"
        raise Halt(str(error), code="tools", hint=hint) from None


def _format_notice(notice: Notice) -> str:
    if notice.kind != "untrusted":
        return f"{notice.path}: {notice.message}"
    return (
        f"ignoring {notice.path}: not trusted, or changed since you trusted it; "
        f"review it with `handrail trust {notice.path}`"
    )
