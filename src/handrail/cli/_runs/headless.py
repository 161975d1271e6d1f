"""Non-interactive runs: start or resume a run, and return an exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, cast

import anyio
import click

from handrail.agent import Limits, RunEvent, RunResult, RunState
from handrail.approvals import defer, terminal
from handrail.cli._base.columns import quantity
from handrail.cli._base.exits import Exit, Halt, report_error
from handrail.cli._base.signals import Signals, leave, listen_for_signals, run_alone
from handrail.cli._base.stdout import Outlet
from handrail.cli._project.kit import Kit
from handrail.cli._project.models import join_hints
from handrail.cli._runs.denials import Denials, on_one_line
from handrail.cli._runs.saved import SavedRun, open_journal, open_run
from handrail.cli._runs.session import open_session
from handrail.cli._runs.stream import RunPrinter, cost_of, end_document
from handrail.cli._runs.timeline import say_standing
from handrail.events import Event
from handrail.messages import Model, ModelError
from handrail.models import RetryWait
from handrail.permissions import Approver
from handrail.runs import JournalError
from handrail.runs.statuses import INTERRUPTED, Standing, translate_stop

OnDenied: TypeAlias = Literal["fail", "continue", "suspend"]
_STOPS: Mapping[str, Exit] = {
    "answer": Exit.DONE,
    "pending": Exit.SUSPENDED,
    "limit": Exit.LIMIT,
    "interrupted": Exit.INTERRUPTED,
    "stopped": Exit.FAILED,
    "truncated": Exit.FAILED,
    "refused": Exit.FAILED,
    "empty": Exit.FAILED,
    "invalid": Exit.FAILED,
}
_LIMIT_OPTIONS: Mapping[str, str] = {
    "turns": "--max-turns",
    "calls": "--max-calls",
    "tokens": "--max-total-tokens",
    "seconds": "--max-seconds",
    "budget": "--max-cost-per-day or --max-cost-per-month",
}
"""The option for raising each limit."""
_HANDLER_SECONDS = 0.2
"""Seconds a signal handler waits for the journal."""


class Face(Protocol):
    """Draws a run at a terminal."""

    def begin(self, run_id: str) -> None:
        """Start."""
        ...

    def know(self, state: RunState, window: int | None) -> None:
        """Take the state to continue from, and the context size if known."""
        ...

    def watch(self, event: RunEvent) -> None:
        """Show an agent event."""
        ...

    def on_wait(self, wait: RetryWait) -> None:
        """Show a delayed retry with the model."""
        ...

    def on_event(self, event: Event) -> None:
        """Show an executor event."""
        ...

    def end(self, document: dict[str, Any]) -> None:
        """Show the end."""
        ...

    async def tick(self) -> None:
        """Draw elapsed time until cancelled."""
        ...


@dataclass(frozen=True, kw_only=True)
class Task:
    """A run to start or resume."""

    kit: Kit
    saved: SavedRun
    model: Model
    data: Outlet
    prompt: tuple[str, ...] = ()
    on_denied: OnDenied = "fail"
    asks: bool = False
    """Whether to prompt for approval at the terminal."""
    face: Face | None = None
    """Draws the run at a terminal, in place of the output for pipes."""


def on_denied(default: OnDenied) -> Callable[[Any], Any]:
    """Return the option for calls needing approval."""
    return click.option(
        "--on-denied",
        type=click.Choice(["fail", "continue", "suspend"]),
        default=default,
        show_default=True,
        help="Calls that need approval: deny and exit 3 (fail), deny and exit 0 (continue), or "
        "wait and exit 4 (suspend).",
    )


def run_task(task: Task) -> Exit:
    """Run a task in this process, which must hold the run, and return the exit code."""
    run = _HeadlessRun(task)
    with listen_for_signals(run.note_interruption, run.report_late) as run.signals:
        return run.run()


class _HeadlessRun:
    signals: Signals

    def __init__(self, task: Task) -> None:
        self._app = task.kit.app
        self._task = task
        self._saved = task.saved
        self._denials = Denials(task.kit, task.saved.record.lines(), new_prompt=bool(task.prompt))
        self._stream = task.face or RunPrinter(self._app, task.data)
        self._outcome: RunResult[Any] | Exception | None = None
        self._done: RunResult[Any] | None = None
        """The outcome, as soon as it is known; tools may still be running."""

    def run(self) -> Exit:
        self._stream.begin(self._saved.id)
        try:
            run_alone(self._run)
            done = self._take_outcome()
        except ModelError as error:
            self.signals.rest()
            return self._report_failure(error)
        except (KeyboardInterrupt, SystemExit) as error:
            self.signals.rest()
            leave(self._report_exit(error))
        self.signals.rest()
        return self._report_end(done)

    async def _run(self) -> None:
        async with anyio.create_task_group() as group:
            if self._task.face is not None:
                group.start_soon(self._task.face.tick)
            try:
                self._outcome = await self._run_session()
            except Exception as error:  # noqa: BLE001  raised outside the task group
                self._outcome = error
            group.cancel_scope.cancel()

    def _take_outcome(self) -> RunResult[Any]:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return cast("RunResult[Any]", self._outcome)

    def _on_event(self, event: Event) -> None:
        self._denials.on_event(event)
        self._stream.on_event(event)

    async def _run_session(self) -> RunResult[Any]:
        approver = self._approver()
        seconds = self._app.settings["max_seconds"]
        async with open_session(
            self._task.kit,
            self._saved,
            self._task.model,
            approver=approver,
            on_event=self._on_event,
            signals=self.signals,
        ) as session:
            self._stream.know(session.state, session.window)
            session.on_wait = self._stream.on_wait
            answers = await session.answers(approver)
            await session.admit_first()
            prompt = await session.admit(*self._task.prompt)
            run = session.run(*prompt, answers=answers, watch=self._stream.watch)
            if seconds is not None:
                self.signals.within(seconds)
            self._done = await session.finish(run)
            if self._done.stop_reason in {"limit", "interrupted"}:
                self.signals.within(0)
            return self._done

    def _report_exit(self, error: BaseException) -> Exit:
        """Report code that tried to end the program; Python would wait for its threads."""
        self.note_interruption()
        self._stream.end(self._document(self._saved.standing, ""))
        halt = Halt(
            f"a tool or the model raised {type(error).__name__}",
            code="failed",
            hint=f"resume with `handrail runs resume {self._saved.id}`",
            exits=Exit.FAILED,
        )
        return Exit(report_error(halt, as_json=self._app.output != "text"))

    def note_interruption(self) -> None:
        """Save the run's interruption; everything else is saved already.

        This may run in a signal handler, while this thread uses the journal: open another one.
        """
        saved = open_run(self._saved.id, open_journal(_HANDLER_SECONDS))
        with suppress(JournalError):  # without it, a run held by no process was interrupted
            if saved.about["status"] == "running":
                saved.put_standing(INTERRUPTED)

    def report_late(self) -> Exit:
        """Report a run that does not end in time."""
        done = self._done or self._give_up()
        self._app.say("a tool or the model did not stop in time and was abandoned")
        return self._report_end(done)

    def _give_up(self) -> RunResult:
        """Save and return the end for a run without a result."""
        state = self._saved.state()
        if self.signals.exits:
            done = RunResult("interrupted", state)
        else:
            why = Limits(seconds=self._app.settings["max_seconds"]).describe("seconds")
            done = RunResult("limit", state, stop_detail=why, limit="seconds")
        self._saved.put_standing(translate_stop(done.stop_reason), done.stop_detail)
        return done

    def _approver(self) -> Approver:
        if self._task.on_denied != "suspend":
            return self._denials.refuse
        if not self._task.asks:
            return defer
        kit = self._task.kit
        return terminal(workspace=self._app.workspace, remember=kit.memory)

    def _report_end(self, done: RunResult[Any]) -> Exit:
        state, exits = done.state, _STOPS[done.stop_reason]
        standing = translate_stop(done.stop_reason)
        self._stream.end(self._document(standing, done.stop_detail))
        if done.stop_reason in {"interrupted", "pending"}:
            exits = self.signals.exits or exits
        self._app.say(
            f"{say_standing(standing, done.stop_detail or quantity(state.turns, 'turn'))}, "
            f"{quantity(state.calls, 'call')}, {state.usage.input_tokens:,} tokens in, "
            f"{state.usage.output_tokens:,} out"
        )
        self._say_denials()
        self._say_next_step(exits, done)
        if exits is Exit.DONE and len(self._denials) and self._task.on_denied != "continue":
            return Exit.DENIED
        return exits

    def _report_failure(self, error: ModelError) -> Exit:
        self._stream.end(self._document(self._saved.standing, str(error)))
        self._say_denials()
        if self.signals.exits is not None:
            return self.signals.exits
        away = error.kind in {"network", "auth", "overloaded", "rate_limited"}
        resume = f"resume with `handrail runs resume {self._saved.id}`"
        raise Halt(
            error.reason,
            code=f"model_{error.kind}",
            hint=join_hints(error.hint, resume),
            exits=Exit.UNREACHABLE if away else Exit.FAILED,
        ) from None

    def _document(self, standing: Standing, why: str) -> dict[str, Any]:
        denials = [denial.document() for denial in self._denials]
        state = self._saved.state()
        money = cost_of(state, self._task.model)
        return end_document(self._saved.id, state, standing, why=why, denials=denials, money=money)

    def _say_denials(self) -> None:
        if self._app.output == "text" and len(self._denials):
            click.echo(f"{quantity(len(self._denials), 'call')} denied:", err=True)
            for denial in self._denials:
                click.echo("\n".join(denial.lines()), err=True)

    def _say_next_step(self, exits: Exit, done: RunResult[Any]) -> None:
        name = self._saved.id
        if exits is Exit.SUSPENDED:
            self._say_pending()
        elif done.limit is not None:
            option = _LIMIT_OPTIONS[done.limit]
            self._app.say(f"to continue, raise it: `handrail runs resume {name} {option} N`")
        elif exits is not Exit.DONE:
            self._app.say(f"resume with `handrail runs resume {name}`")

    def _say_pending(self) -> None:
        name = self._saved.id
        if self._app.output != "text":
            return
        for pending in self._saved.state().pending:
            question = pending.question or "waiting for an earlier call"
            click.echo(f"- {on_one_line(pending.call.id)}: {on_one_line(question)}", err=True)
        click.echo(f"run {name} is waiting for approval:", err=True)
        for what in (f"show {name}", f"approve {name} --all", f"resume {name}"):
            click.echo(f"  handrail runs {what}", err=True)
