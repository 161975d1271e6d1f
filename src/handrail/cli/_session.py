"""A session: a saved run that is worked on, with its executor, its journal and its agent.

``run``, ``runs resume`` and ``chat`` share it::

    with saved.held():
        async with opened(kit, saved, model, approver=approver) as session:
            done = await session.finish(session.run("Mend the roof."))
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

from handrail import Allow, Deny, Executor, HandrailError, Toolset
from handrail.agent import (
    Agent,
    Done,
    Happening,
    Limits,
    Remark,
    Run,
    State,
    Watch,
    find_skills,
    read_instructions,
)
from handrail.approvals import FileLedger
from handrail.cli._app import App
from handrail.cli._exits import Exit, Halt
from handrail.cli._journal import event_line, prompt_line, reply_line
from handrail.cli._kit import Kit
from handrail.cli._saved import Saved
from handrail.cli._settings import Settings
from handrail.cli._signals import Signals
from handrail.cli._trusted import trusts
from handrail.events import Event
from handrail.judgement import Answer, Approver, Pending
from handrail.messages import Model, Prompt, Reply
from handrail.policy import home

Tell: TypeAlias = Callable[[Event], None]
"""Is told each event of the executor, soon after it happened; must not wait."""

ANSWER_WITHIN = 7 * 24 * 3600.0
"""Seconds for which a question waits: people come back after a weekend."""
SYSTEM = (
    "You work in a folder of the user's, with tools. Paths are relative to that folder. Look "
    "before you change something. Where a call is denied, do not look for a way around it: go on "
    "without it, and say so. At the end, say in a few words what you did and what you found."
)
"""What a model is told where no setting says otherwise."""
_NO_ANSWERS: Mapping[str, Answer] = MappingProxyType({})


class Session:
    """A run that is worked on. Made by ``opened``."""

    def __init__(
        self,
        kit: Kit,
        saved: Saved,
        model: Model,
        executor: Executor,
        *,
        signals: Signals | None = None,
    ) -> None:
        self.kit = kit
        self.saved = saved
        self.model = model
        """May be another one for the next turn."""
        self.executor = executor
        self.system = ""
        self.state: State = saved.state()
        """As it was last written down."""
        self.current: Run[Any] | None = None
        """What goes on now."""
        self._stopping = False
        self._signals = signals
        self._asking = anyio.CancelScope()

    def run(
        self,
        *prompt: str,
        answers: Mapping[str, Answer] = _NO_ANSWERS,
        watch: Watch | None = None,
        anew: bool = False,
    ) -> Run[Any]:
        """Go on: with a prompt, with answers, or as it is. Give this to ``finish``.

        Limits are for all of a saved run together; ``anew`` counts them from here.
        """
        if prompt:
            said = Prompt.of(*prompt)
            self.state = self.state._replace(inbox=(*self.state.inbox, said))
            self.saved.keep(self.state)
            self.saved.note([prompt_line(time.time(), said)])
        agent: Agent[Any] = Agent(
            self.model,
            self.executor,
            system=self.system,
            limits=_limits(self.kit.app.settings, self.state if anew else State()),
            save=self._save,
            max_tokens=self.kit.app.settings["max_tokens"],
        )
        return agent.resume(self.state, answers=answers, watch=self._watching(watch))

    async def finish(self, run: Run[Any]) -> Done[Any]:
        """Wait until a run has ended, and write down how."""
        self.saved.ends("running")
        self.current = run
        if self.stopping:
            run.interrupt()
        try:
            done = await run
        except BaseException as error:
            self._left(run, error)
            raise
        finally:
            self.current = None
        self.state = done.state
        self.saved.keep(done.state)
        self.saved.ends(done.stop, done.why)
        self._forget_answers(done.state)
        return done

    def _forget_answers(self, state: State) -> None:
        """Drop answers to what is no longer asked."""
        waits = {one.id for one in state.pending}
        given = self.saved.answers
        if not given.keys() <= waits:
            self.saved.keep_answers({name: given[name] for name in given.keys() & waits})

    async def answers(self, approver: Approver) -> dict[str, Answer]:
        """Answers to what waits: those that were given before, and those of an approver now."""
        given = {name: _answer(one) for name, one in self.saved.answers.items()}
        for one in self.state.pending:
            if one.question and one.id not in given:
                answer = await self._asked(approver, one)
                if not isinstance(answer, Pending):
                    given[one.id] = answer
        return given

    async def _asked(self, approver: Approver, pending: Pending) -> Answer | Pending:
        """An answer; the question itself, where there is none, or where that is interrupted."""
        with anyio.CancelScope() as self._asking:
            if self.stopping:
                self._asking.cancel()
            return await approver(pending)
        return pending

    @property
    def stopping(self) -> bool:
        """Whether it was interrupted, or a signal came: then nothing more is begun."""
        return self._stopping or (self._signals is not None and self._signals.exits is not None)

    @stopping.setter
    def stopping(self, value: bool) -> None:
        self._stopping = value

    def interrupt(self) -> None:
        """Stop what goes on, and whatever would follow."""
        self._stopping = True
        self._asking.cancel()
        if self.current is not None:
            self.current.interrupt()

    def _left(self, run: Run[Any], error: BaseException) -> None:
        """Write down what there is of a run that an exception ended."""
        with suppress(OSError, ValueError):  # then what was written down last counts
            self.saved.keep(run.state)
            self.state = run.state
        broke = isinstance(error, Exception) and not isinstance(error, BrokenPipeError)
        if broke and not self.stopping:
            self.saved.ends("failed", str(error))
        else:
            self.saved.ends("interrupted")

    async def _save(self, state: State) -> None:
        try:
            await self.saved.save(state)
        except (OSError, ValueError) as error:
            raise Halt(
                f"the run cannot be saved, and so does not go on: {error}",
                code="unsaved",
                hint=f"see {self.saved.folder}",
                exits=Exit.FAILED,
            ) from None
        self.state = state

    def _watching(self, watch: Watch | None) -> Watch:
        def watching(happening: Happening) -> None:
            if isinstance(happening, Reply):
                self.saved.note([reply_line(time.time(), happening)])
            if watch is not None:
                watch(happening)

        return watching

    async def listen(self, events: AsyncIterator[Event], tell: Tell | None) -> None:
        """Write events down as they come, to the last; whatever else ends meanwhile."""
        with anyio.CancelScope(shield=True):
            async for event in events:
                self.saved.note([event_line(event)])
                if tell is not None:
                    tell(event)

    async def obey(self, signals: Signals) -> None:
        """Interrupt what goes on when a signal comes."""
        await signals.wait()
        self.interrupt()


@asynccontextmanager
async def opened(
    kit: Kit,
    saved: Saved,
    model: Model,
    *,
    approver: Approver | None = None,
    tell: Tell | None = None,
    signals: Signals | None = None,
) -> AsyncGenerator[Session]:
    """A session; when it is closed, nothing that it started goes on, and all is written down.

    Args:
        kit: Tools, rules, settings.
        saved: Where the run is; hold it meanwhile.
        model: What replies.
        approver: Answers questions; without one they are denied.
        tell: Is told the executor's events.
        signals: Interrupt what goes on.
    """
    system, tools = _told(kit)
    executor = Executor(
        tools,
        policy=kit.rules,
        approver=approver,
        run_id=saved.id,
        ledger=FileLedger(saved.ledger),
        answer_within=ANSWER_WITHIN,
        bound_to=lambda _call: str(kit.app.workspace),
    )
    session = Session(kit, saved, model, executor, signals=signals)
    session.system = system
    failed: BaseException | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(session.listen, executor.events(), tell)
        if signals is not None:
            group.start_soon(session.obey, signals)
        try:
            async with executor:
                yield session
        except Exception as error:  # noqa: BLE001  raised below, and not as one of a group
            failed = error
        group.cancel_scope.cancel()
    if failed is not None:
        raise failed


def _answer(kept: Mapping[str, str]) -> Answer:
    """An answer as it was written down; whatever is no yes is a no."""
    if kept.get("answer") == "allow":
        return Allow()
    reason = kept.get("reason", "")
    return Deny(f"The user said no, and nothing was run.{reason and f' They said: {reason}'}")


def taken_up(app: App, saved: Saved) -> App:
    """The App for going on with a saved run: its workspace, and what its command line gave.

    What the command line says now wins over that; all else is read as it is now.
    """
    about = saved.about
    workspace = Path(about["workspace"])
    if not workspace.is_dir():
        raise Halt(
            f"run {saved.id} worked in {str(workspace)!r}, which is no folder any more",
            code="no_workspace",
            hint="put it back there, or begin a new run",
        )
    given = {name: one for name, one in about["settings"].items() if name in about["given"]}
    return replace(app, workspace=workspace, flags={**given, **app.flags})


def given(settings: Settings) -> list[str]:
    """Which settings the command line gave."""
    return [name for name, origin in settings.origins.items() if origin.level == "flag"]


def _limits(settings: Settings, used: State) -> Limits:
    """What may be used, on top of what was."""

    def most(name: str, before: int) -> int | None:
        value: int | None = settings[name]
        return None if value is None else value + before

    return Limits(
        turns=most("max_turns", used.turns),
        calls=most("max_calls", used.calls),
        tokens=most("max_usage", used.usage.sent + used.usage.received),
        seconds=settings["max_seconds"],
    )


def _told(kit: Kit) -> tuple[str, Toolset]:
    """What the model is told first, and all its tools: a workspace's own words where trusted."""
    workspace = kit.app.workspace
    trusted = trusts(workspace)
    instructions = read_instructions(workspace, trusted=trusted)
    skills = find_skills(workspace, trusted=trusted, user=[home() / ".agents" / "skills"])
    for remark in (*instructions.remarks, *skills.remarks):
        kit.app.say(_remarked(remark))
    own = kit.app.settings["system"] or SYSTEM
    system = "\n\n".join(filter(None, (own, instructions.text, skills.catalogue)))
    try:
        return system, Toolset(*kit.tools, *skills.tools)
    except HandrailError as error:
        raise Halt(str(error), code="tools", hint="leave one of them out") from None


def _remarked(remark: Remark) -> str:
    look = "; look at it with `handrail trust`" if remark.rule == "untrusted" else ""
    return f"{remark.path}: {remark.message}{look}"
