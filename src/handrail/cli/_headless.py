"""A run without a conversation: from its beginning, or from where it was left, to an exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import anyio
import click

from handrail.agent import Done, Stopped
from handrail.approvals import defer, terminal
from handrail.cli._denials import Denials, on_one_line
from handrail.cli._exits import Exit, Halt, tell
from handrail.cli._kit import Kit
from handrail.cli._outlet import Outlet
from handrail.cli._saved import Saved
from handrail.cli._session import opened
from handrail.cli._signals import Signals, heard, leave
from handrail.cli._stream import Stream, ended
from handrail.judgement import Approver
from handrail.messages import Model, ModelFailed

OnDenied: TypeAlias = Literal["fail", "continue", "suspend"]
_STOPS: Mapping[str, Exit] = {
    "answer": Exit.DONE,
    "pending": Exit.SUSPENDED,
    "limit": Exit.LIMIT,
    "interrupted": Exit.INTERRUPTED,
}
_RAISED: Mapping[str, str] = {
    " turns ": "--max-turns",
    " calls ": "--max-calls",
    " tokens ": "--max-usage",
    " seconds ": "--max-seconds",
}
"""Which option raises the limit that words speak of."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is to be done in a run."""

    kit: Kit
    saved: Saved
    model: Model
    data: Outlet
    prompt: tuple[str, ...] = ()
    on_denied: OnDenied = "fail"
    asks: bool = False
    """Whether somebody at a terminal is asked what would have to wait."""


def on_denied(usual: OnDenied) -> Callable[[Any], Any]:
    """The option of a command that lets a model work."""
    return click.option(
        "--on-denied",
        type=click.Choice(["fail", "continue", "suspend"]),
        default=usual,
        show_default=True,
        help="What becomes of calls that somebody would have to allow: deny them and end with 3, "
        "deny them, or let them wait.",
    )


def work(task: Task) -> Exit:
    """Do it, in this process, which must hold the run; how to end."""
    made = _Work(task)
    with heard(made.unfinished, made.late) as made.signals:
        return made.done()


class _Work:
    signals: Signals

    def __init__(self, task: Task) -> None:
        self._app = task.kit.app
        self._task = task
        self._saved = task.saved
        self._denials = Denials(task.kit, task.saved.journal(), anew=bool(task.prompt))
        self._stream = Stream(self._app, task.data)
        self._done: Done[Any] | None = None
        """How it ended, as soon as that is known: tools may still run."""

    def done(self) -> Exit:
        self._stream.begin(self._saved.id)
        try:
            done = anyio.run(self._run)
        except ModelFailed as error:
            self.signals.rest()
            return self._failed(error)
        except (KeyboardInterrupt, SystemExit) as error:
            self.signals.rest()
            leave(self._thrown_out(error))
        self.signals.rest()
        return self._told(done)

    async def _run(self) -> Done[Any]:
        approver = self._approver()
        seconds = self._app.settings["max_seconds"]
        async with opened(
            self._task.kit,
            self._saved,
            self._task.model,
            approver=approver,
            tell=self._denials.tell,
            signals=self.signals,
        ) as session:
            self._stream.know(session.state)
            answers = await session.answers(approver)
            run = session.run(*self._task.prompt, answers=answers, watch=self._stream.watch)
            if seconds is not None:
                self.signals.within(seconds)
            self._done = await session.finish(run)
            if self._done.stop in {"limit", "interrupted"}:
                self.signals.within(0)
            return self._done

    def _thrown_out(self, error: BaseException) -> Exit:
        """Tell of code that ended the program, or tried to; Python would wait for its threads."""
        self.unfinished()
        self._stream.end(self._document(self._saved.stop, ""))
        halt = Halt(
            f"a tool or the model raised {type(error).__name__}, which ends a program",
            code="failed",
            hint=f"go on with `handrail runs resume {self._saved.id}`",
            exits=Exit.FAILED,
        )
        return Exit(tell(halt, as_json=self._app.output != "text"))

    def unfinished(self) -> None:
        """Write down that it was left where it is: all else is written down already."""
        if self._saved.about["stop"] == "running":
            self._saved.ends("interrupted")

    def late(self) -> Exit:
        """Tell of a run that does not end."""
        if self._done is None:
            seconds = self._app.settings["max_seconds"]
            limit = "" if self.signals.exits else f"the limit of {seconds:g} seconds is reached"
            stop: Stopped = "limit" if limit else "interrupted"
            self._saved.ends(stop, limit)
            self._done = Done(stop, self._saved.state(), why=limit)
        self._app.say("a tool or the model did not stop, and is left behind")
        return self._told(self._done)

    def _approver(self) -> Approver:
        if self._task.on_denied != "suspend":
            return self._denials.refuse
        if not self._task.asks:
            return defer
        kit = self._task.kit
        return terminal(read=kit.text_of, workspace=self._app.workspace, remember=kit.memory)

    def _told(self, done: Done[Any]) -> Exit:
        state, exits = done.state, _STOPS[done.stop]
        self._stream.end(self._document(done.stop, done.why))
        if done.stop in {"interrupted", "pending"}:
            exits = self.signals.exits or exits
        self._app.say(
            f"{done.stop}: {done.why or _counted(state.turns, 'turn')}, "
            f"{_counted(state.calls, 'call')}, {state.usage.sent:,} tokens sent, "
            f"{state.usage.received:,} received"
        )
        self._say_denials()
        self._say_how_to_go_on(exits, done.why)
        if exits is Exit.DONE and len(self._denials) and self._task.on_denied != "continue":
            return Exit.DENIED
        return exits

    def _failed(self, error: ModelFailed) -> Exit:
        self._stream.end(self._document(self._saved.stop, str(error)))
        self._say_denials()
        if self.signals.exits is not None:
            return self.signals.exits
        away = error.trouble in {"unreachable", "refused"}
        raise Halt(
            str(error),
            code=f"model_{error.trouble}",
            hint=f"go on with `handrail runs resume {self._saved.id}`",
            exits=Exit.UNREACHABLE if away else Exit.FAILED,
        ) from None

    def _document(self, stop: str, why: str) -> dict[str, Any]:
        denials = [one.plain() for one in self._denials]
        return ended(self._saved.id, self._saved.state(), stop=stop, why=why, denials=denials)

    def _say_denials(self) -> None:
        if self._app.output == "text" and len(self._denials):
            click.echo(f"{_counted(len(self._denials), 'call')} denied:", err=True)
            for one in self._denials:
                click.echo("\n".join(one.lines()), err=True)

    def _say_how_to_go_on(self, exits: Exit, why: str) -> None:
        name = self._saved.id
        if exits is Exit.SUSPENDED:
            self._say_pending()
        elif exits is Exit.LIMIT:
            option = next(option for unit, option in _RAISED.items() if unit in why)
            self._app.say(f"to go on, raise it: `handrail runs resume {name} {option} ...`")
        elif exits is not Exit.DONE:
            self._app.say(f"go on with `handrail runs resume {name}`")

    def _say_pending(self) -> None:
        name = self._saved.id
        if self._app.output != "text":
            return
        for one in self._saved.state().pending:
            told = one.question or "waits for an earlier call"
            click.echo(f"- {on_one_line(one.call.id)}: {on_one_line(told)}", err=True)
        click.echo(f"run {name} waits for answers:", err=True)
        for what in (f"show {name}", f"approve {name} --all", f"resume {name}"):
            click.echo(f"  handrail runs {what}", err=True)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
