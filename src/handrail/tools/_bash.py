"""bash: one command in a sandbox. Nothing of it is left when its result is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from anyio import to_thread

from handrail import DESTROY, Context, Kind, Result, Tool, ToolFailed, tool
from handrail.sandbox import Sandbox, Unavailable
from handrail.tools._command import Ended, foreground
from handrail.tools._hints import hint, hopeless
from handrail.tools._jobs import Jobs, ending, heard
from handrail.tools._scan import Look, Scan
from handrail.tools._shell import Shell, alone, starts

DEFAULT_MS = 120_000
MOST_MS = 600_000
_GRACE = 60.0
"""Seconds beyond its time in which a command has to be ended and looked after."""
_LOOK = 0.5
"""Seconds that a job is watched, in case it fails at once."""
_NAMED = 10
"""Things that a command left behind which are named, at most."""
_CHARS = 30_000
_NOTHING = "(It printed nothing.)"
_NO_SANDBOX = "The sandbox cannot be set up here, so no command can be run. Tell the user."
Found: TypeAlias = Callable[[Look], None]
"""Is told what commands left behind that something outside the sandbox may run or follow."""


def _unheard(_look: Look) -> None: ...


@dataclass(frozen=True, slots=True)
class _Desk:
    """Where commands go out and results come in."""

    sandbox: Sandbox
    shell: Shell
    scan: Scan
    found: Found

    async def run(
        self, command: str, timeout_ms: int, context: Context, *, restart: bool
    ) -> str | Result:
        """Run a command in the foreground."""
        if restart:
            self.shell.forget()
            if not command.strip():
                return "The folder and the variables of earlier commands are forgotten."
        _check(command, timeout_ms)
        start, place = starts(command), self.shell.folder
        await to_thread.run_sync(self.scan.begin)
        try:
            ended = await foreground(
                self.sandbox,
                command,
                seconds=timeout_ms / 1000,
                variables=self.shell.variables,
                progress=context.progress,
            )
        except Unavailable as error:
            raise ToolFailed(_NO_SANDBOX) from error
        finally:
            self.scan.end()
        remark = await self._look()
        if ended.code is None:
            return Result.fail(context.call_id, Kind.TIMEOUT, _stopped(ended, timeout_ms, remark))
        self.shell.take(ended.left, self.sandbox.root, start)
        return self._told(command, ended, _elsewhere(start, place) + remark)

    async def start(self, command: str, jobs: Jobs, context: Context) -> str:
        """Start a command in the background, and look whether it fails at once."""
        _check(command, DEFAULT_MS)
        await to_thread.run_sync(self.scan.begin)

        async def ended() -> str:
            self.scan.end()
            return await self._look()

        variables = dict(self.shell.variables)
        start = partial(self.sandbox.start, alone(command), variables=variables)
        try:
            job = await jobs.start(command, start, ended=ended, at_close=context.at_close)
        except Unavailable as error:
            self.scan.end()
            raise ToolFailed(_NO_SANDBOX) from error
        except BaseException:
            self.scan.end()
            raise
        await to_thread.run_sync(job.wait, _LOOK, abandon_on_cancel=True)
        began = "has ended already" if job.over else "is running"
        return f"Job {job.number} {began}. What it has said:\n{heard(job, 0)}"

    async def _look(self) -> str:
        """Look at what was left, tell the host, and say it."""
        look = await to_thread.run_sync(self.scan.look)
        if look.planted or not look.whole:
            self.found(look)
        if not look.planted:
            return ""
        named = "; ".join(map(str, look.planted[:_NAMED]))
        more = f"; and {len(look.planted) - _NAMED} more" if len(look.planted) > _NAMED else ""
        return (
            "\n[This was changed, and programs outside of the sandbox may run, obey or follow it. "
            f"The user is told: {named}{more}]"
        )

    def _told(self, command: str, ended: Ended, remark: str) -> str:
        """What a model reads of a command that has ended by itself."""
        code = ended.code or 0
        advice = hint(command, ended.text, code)
        notes = f"\n[{advice}]" if advice else ""
        if ended.left.jobs:
            notes += _left_behind(ended.left.jobs)
        folder = f", folder {self.shell.folder}" if self.shell.folder else ""
        status = f"[{ending(code)}, {ended.seconds:.1f} s{folder}]"
        return f"{ended.text.rstrip() or _NOTHING}{notes}{remark}\n{status}"


def _check(command: str, timeout_ms: int) -> None:
    if not command.strip():
        raise ToolFailed("There is no command. Give one.")
    if not 0 < timeout_ms <= MOST_MS:
        raise ToolFailed(
            f"timeout_ms has to be between 1 and {MOST_MS}. Nothing was run. Start what takes "
            "longer in the background, or do it in parts."
        )
    if reason := hopeless(command):
        raise ToolFailed(f"{reason} Nothing was run.")


def _elsewhere(start: str, place: str) -> str:
    """Calls of one turn are judged together, and so all start where the first one does."""
    if start == place:
        return ""
    return (
        f"\n[This ran in {start or 'the workspace'}, where the folder was when this turn began. "
        f"The next turn starts in {place or 'the workspace'}.]"
    )


def _stopped(ended: Ended, timeout_ms: int, remark: str) -> str:
    said = f"\nWhat it had said by then:\n{ended.text.rstrip()}" if ended.text.strip() else ""
    return (
        f"The command did not end within {timeout_ms / 1000:g} s and was stopped, with all "
        "that it had started. What it had done by then is done. Give it more time with timeout_ms, "
        "start it in the background, or ask for less. If it waited for input: there is none here."
        f"{remark}{said}"
    )


def _left_behind(count: int) -> str:
    which = "A program was" if count == 1 else f"{count} programs were"
    return (
        f"\n[{which} still running in the background and ended with the command. To keep one "
        "running, start it with background, and without &.]"
    )


def bash(
    sandbox: Sandbox,
    *,
    shell: Shell | None = None,
    jobs: Jobs | None = None,
    scan: Scan | None = None,
    found: Found = _unheard,
) -> Tool[..., Any]:
    """A tool that runs shell commands in a sandbox.

    Args:
        sandbox: What keeps the commands inside the workspace.
        shell: Keeps the folder and exported variables from one command to the next.
        jobs: Where commands go that run in the background. Without it, none can.
        scan: How the workspace is looked at after each command, if not in the usual way.
        found: Is told where a look found something, or could not see everything.
    """
    desk = _Desk(sandbox, shell or Shell(), scan or Scan(sandbox.root), found)
    return _without_jobs(desk) if jobs is None else _with_jobs(desk, jobs)


def _without_jobs(desk: _Desk) -> Tool[..., Any]:
    @tool(effect=DESTROY, timeout=MOST_MS / 1000 + _GRACE, max_chars=_CHARS, tags=["shell"])
    async def bash(
        command: str = "",
        restart: bool = False,  # noqa: FBT001, FBT002  a model names it
        timeout_ms: int = DEFAULT_MS,
        *,
        context: Context,
    ) -> str | Result:
        """Run a bash command in the workspace, in a sandbox: what it prints, and its exit code.

        Use it for builds, tests, git and other programs. Do not use it where another tool does the
        same, such as to read, change or search files. Nothing can be typed into a command: no
        password, no editor, no pager. What it starts in the background ends with it.

        Args:
            command: The command, as bash reads it.
            restart: Forget the folder and the variables that earlier commands left.
            timeout_ms: How long it may run, in milliseconds; at most 600000.
            context: Of the call.
        """
        return await desk.run(command, timeout_ms, context, restart=restart)

    return bash


def _with_jobs(desk: _Desk, jobs: Jobs) -> Tool[..., Any]:
    @tool(effect=DESTROY, timeout=MOST_MS / 1000 + _GRACE, max_chars=_CHARS, tags=["shell"])
    async def bash(
        command: str = "",
        restart: bool = False,  # noqa: FBT001, FBT002  a model names it
        timeout_ms: int = DEFAULT_MS,
        background: bool = False,  # noqa: FBT001, FBT002
        *,
        context: Context,
    ) -> str | Result:
        """Run a bash command in the workspace, in a sandbox: what it prints, and its exit code.

        Use it for builds, tests, git and other programs. Do not use it where another tool does the
        same, such as to read, change or search files. Nothing can be typed into a command: no
        password, no editor, no pager. What it starts with & ends with it; use background for
        servers and other programs that are to go on.

        Args:
            command: The command, as bash reads it.
            restart: Forget the folder and the variables that earlier commands left.
            timeout_ms: How long it may run, in milliseconds; at most 600000.
            background: Start it as a job and go on; read_job and stop_job then take its number.
            context: Of the call.
        """
        if background:
            return await desk.start(command, jobs, context)
        return await desk.run(command, timeout_ms, context, restart=restart)

    return bash
