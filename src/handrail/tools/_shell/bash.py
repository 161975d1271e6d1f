"""The bash tool: runs one command in a sandbox. No process of it is left when it returns."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from anyio import to_thread

from handrail import DESTROY, Context, FailureKind, Result, Tool, ToolFailed, tool
from handrail.sandbox import Process, Restriction, Sandbox, SandboxUnavailable
from handrail.tools._descriptions import CommandFacts, describe_bash, join_words
from handrail.tools._files.workspace import Workspace
from handrail.tools._habits import BASH_INSTEAD_OF, BASH_SYNONYMS, BASH_SYNONYMS_WITHOUT_JOBS
from handrail.tools._shell.advice import describe_wait, find_advice
from handrail.tools._shell.command_undo import CommandUndo, OnlyReads, UndoableCommand
from handrail.tools._shell.foreground import (
    FinishedCommand,
    Foreground,
    MovedCommand,
    run_in_foreground,
)
from handrail.tools._shell.hosts import (
    CommandAccesses,
    list_declared,
    list_granted,
    list_opened_folders,
)
from handrail.tools._shell.jobs import Jobs, describe_exit, format_output
from handrail.tools._shell.leftovers import Scan, ScanReport
from handrail.tools._shell.state import Shell, quote_command, split_folder, start_folder

_DEFAULT_TIMEOUT_MS = 120_000
_MAX_TIMEOUT_MS = 600_000
_GRACE_SECONDS = 60.0
"""Seconds after the timeout in which a command is killed and the workspace is scanned."""
_WATCH_SECONDS = 0.5
"""Seconds a new job is watched, in case it fails at once."""
_MAX_NAMED = 10
"""Suspicious files named in a note."""
_MAX_CHARS = 30_000
_NO_SANDBOX = "Not run: the sandbox cannot be set up. Tell the user."
Report: TypeAlias = Callable[[ScanReport], None]
"""Receives changed files that programs outside the sandbox may execute or follow."""


def _ignore(_report: ScanReport) -> None: ...


def _names_new_repository(command: str) -> bool:
    """Return whether an approved command says it makes a repository."""
    words = set(re.findall(r"\w+", command))
    return "git" in words and not words.isdisjoint(("init", "clone"))


@dataclass(frozen=True, slots=True)
class _CommandRunner:
    """Runs commands and formats their results."""

    sandbox: Sandbox
    shell: Shell
    scan: Scan
    found: Report
    facts: CommandFacts
    undo: CommandUndo

    async def run(
        self, command: str, timeout_ms: int, context: Context, *, restart: bool, jobs: Jobs | None
    ) -> str | Result:
        """Run a command in the foreground."""
        if restart:
            self.shell.forget()
            if not command.strip():
                return "The folder and variables of earlier commands were reset."
        self._check(command, timeout_ms)
        start, place = start_folder(command), self.shell.folder
        kept = await self.undo.begin(context.call_id, command)
        await to_thread.run_sync(self.scan.begin)
        try:
            restricted = await to_thread.run_sync(self._prepare, command)
            begin = self._starter(command, self.shell.variables, restricted, context)
            listed = nullcontext(Foreground()) if jobs is None else jobs.foreground()
            with listed as one:
                ended = await run_in_foreground(
                    begin, command, timeout_ms / 1000, context.progress, foreground=one
                )
        except BaseException as error:
            self.scan.end()
            await kept.end()
            if isinstance(error, SandboxUnavailable):
                raise ToolFailed(_NO_SANDBOX) from error
            raise
        if isinstance(ended, MovedCommand) and jobs is not None:
            return await self._move(command, ended, jobs, context, kept=kept)
        self.scan.end()
        await kept.end()
        assert isinstance(ended, FinishedCommand)  # noqa: S101  nothing else can move it
        note = await self._scan() + kept.note
        if ended.code is None:
            return Result.fail(
                context.call_id, FailureKind.TIMEOUT, self._format_timeout(ended, timeout_ms, note)
            )
        dropped = self.shell.take(command, ended.left, self.sandbox.root)
        note = _describe_dropped(dropped) + _describe_start(start, place) + note
        facts = self._facts_about(ended, restricted, context)
        return self._format_result(command, ended, facts, note)

    def _facts_about(
        self, ended: FinishedCommand, restricted: Mapping[str, Restriction], context: Context
    ) -> CommandFacts:
        """Return what advice about a command depends on."""
        return replace(
            self.facts,
            hidden=[path for path, limit in restricted.items() if limit == "hidden"],
            refused=ended.refused,
            needed=list_declared(context),
            granted=list_granted(context),
        )

    async def _move(
        self,
        command: str,
        moved: MovedCommand,
        jobs: Jobs,
        context: Context,
        *,
        kept: UndoableCommand,
    ) -> str:
        """Let a running command continue as a job."""

        async def finish() -> str:
            self.scan.end()
            await kept.end()
            return await self._scan() + kept.note

        try:
            job = await jobs.start(
                command,
                lambda: moved.running,
                ended=finish,
                on_close=context.on_close,
                output=moved.output,
            )
        except BaseException:
            await moved.running.kill()
            await finish()
            raise
        return (
            f"The user sent this command to the background. It continues as job {job.number}.\n"
            f"{format_output(job)}"
        )

    async def start(self, command: str, jobs: Jobs, context: Context) -> str:
        """Start a command in the background, and check whether it fails at once."""
        self._check(command, _DEFAULT_TIMEOUT_MS)
        kept = await self.undo.begin(context.call_id, command)
        await to_thread.run_sync(self.scan.begin)

        async def finish() -> str:
            self.scan.end()
            await kept.end()
            return await self._scan() + kept.note

        variables = dict(self.shell.variables)
        try:
            restricted = await to_thread.run_sync(self._prepare, command)
            start = partial(
                self._starter(command, variables, restricted, context), quote_command(command)
            )
            job = await jobs.start(command, start, ended=finish, on_close=context.on_close)
        except BaseException as error:
            self.scan.end()
            await kept.end()
            if isinstance(error, SandboxUnavailable):
                raise ToolFailed(_NO_SANDBOX) from error
            raise
        await to_thread.run_sync(job.wait, _WATCH_SECONDS, abandon_on_cancel=True)
        state = "has ended" if job.over else "is running"
        return f"Job {job.number} {state}. Output so far:\n{format_output(job)}"

    def _starter(
        self,
        command: str,
        variables: Mapping[str, str],
        restricted: Mapping[str, Restriction],
        context: Context,
    ) -> Callable[..., Process]:
        """Return a function that starts a call's command."""
        return partial(
            self.sandbox.start,
            variables=variables,
            restricted=restricted,
            hosts=list_granted(context),
            makes_repository=context.is_approved and _names_new_repository(command),
            installs_into=list_opened_folders(context),
        )

    def _prepare(self, command: str) -> Mapping[str, Restriction]:
        """Return the files a command cannot use. The first time, other programs run."""
        self.sandbox.prepare()
        return self.sandbox.find_restricted(command)

    async def _scan(self) -> str:
        """Scan the workspace, report suspicious files, and return a note for the model."""
        report = await to_thread.run_sync(self.scan.look)
        if report.planted or not report.whole:
            self.found(report)
        if not report.planted:
            return ""
        named = [str(file) for file in report.planted[:_MAX_NAMED]]
        if len(report.planted) > _MAX_NAMED:
            named.append(f"and {len(report.planted) - _MAX_NAMED} more")
        return (
            "\n[Programs outside the sandbox may execute or follow these changes; mention them to "
            f"the user: {'; '.join(named)}]"
        )

    def _check(self, command: str, timeout_ms: int) -> None:
        if not command.strip():
            raise ToolFailed("Not run: command is empty.")
        if not 0 < timeout_ms <= _MAX_TIMEOUT_MS:
            background = " or in the background" * self.facts.has_jobs
            raise ToolFailed(
                f"Not run: timeout_ms must be from 1 to {_MAX_TIMEOUT_MS}, got {timeout_ms}. Run "
                f"longer commands in parts{background}."
            )
        if reason := describe_wait(command):
            raise ToolFailed(f"Not run: {reason[0].lower()}{reason[1:]}")

    def _format_result(
        self, command: str, ended: FinishedCommand, facts: CommandFacts, note: str
    ) -> str:
        """Return the text for the model about a command that was not stopped."""
        code = ended.code or 0
        advice = find_advice(command, ended.text, code, facts)
        notes = f"\n[{advice}]" if advice else ""
        if ended.left.jobs:
            notes += self._describe_leftover_jobs(ended.left.jobs)
        folder = f", folder {self.shell.folder}" if self.shell.folder else ""
        size = f", {ended.lines:,} lines" if len(ended.text) > _MAX_CHARS else ""
        status = f"[{describe_exit(code)}, {ended.seconds:.1f} s{size}{folder}]"
        return f"{ended.text.rstrip() or '(no output)'}{notes}{note}\n{status}"

    def _format_timeout(self, ended: FinishedCommand, timeout_ms: int, note: str) -> str:
        output = f"\nOutput so far:\n{ended.text.rstrip()}" if ended.text.strip() else ""
        background = ", or set background" * self.facts.has_jobs
        return (
            f"Timed out after {timeout_ms / 1000:g} s and was stopped, with every process it "
            f"started. It may have taken effect in part. Raise timeout_ms{background}. Commands "
            f"have no stdin.{output}{note}"
        )

    def _describe_leftover_jobs(self, count: int) -> str:
        which = "A background process was" if count == 1 else f"{count} background processes were"
        hint = " To keep one running, set background instead of using &." * self.facts.has_jobs
        return f"\n[{which} killed when the command ended.{hint}]"


def _describe_dropped(names: Sequence[str]) -> str:
    """Explain that exported variables are not kept."""
    if not names:
        return ""
    do, it = ("does", "it") if len(names) == 1 else ("do", "them")
    return f"\n[{join_words(names)} {do} not last: set {it} in each command where you need {it}.]"


def _describe_start(start: str, place: str) -> str:
    """Explain that the calls of one turn start in the same folder: they were checked together."""
    if start == place:
        return ""
    return (
        f"\n[Ran in {start or 'the workspace'}, the folder at the start of this turn. The next "
        f"turn starts in {place or 'the workspace'}.]"
    )


def bash(  # noqa: PLR0913  each is an option with a default
    sandbox: Sandbox,
    *,
    shell: Shell | None = None,
    jobs: Jobs | None = None,
    scan: Scan | None = None,
    found: Report = _ignore,
    workspace: Workspace | None = None,
    only_reads: OnlyReads | None = None,
) -> Tool[..., Any]:
    """Make a tool for shell commands in a sandbox.

    Args:
        sandbox: The sandbox that confines the commands to the workspace.
        shell: Keeps the folder and exported variables from one command to the next, for your
            application to read and reset; by default a separate one.
        jobs: The background jobs. Without it, no command can run in the background.
        scan: The workspace's scan after each command; by default one with the usual limits.
        found: Receives each report that names a suspicious file or is incomplete.
        workspace: The workspace of the file tools. With it, ``undo`` also undoes commands.
        only_reads: Returns whether a command changes nothing, so there is nothing to undo.
    """
    if workspace is not None and workspace.root != sandbox.root:
        raise ValueError(f"the sandbox is for {sandbox.root}, the workspace for {workspace.root}")
    facts = CommandFacts(
        network=sandbox.network,
        writable=sandbox.writable,
        protected=sandbox.protected,
        has_loopback=sandbox.report().tier != "landlock",
        shares_loopback=sandbox.shares_loopback,
        own_code=sandbox.own_code,
        own_programs=sandbox.own_programs,
        has_own_python=Path(sandbox.root, ".venv/bin/python").exists(),
        has_jobs=jobs is not None,
        opens_hosts=sandbox.opens_hosts,
        root=sandbox.root,
    )
    runner = _CommandRunner(
        sandbox,
        shell or Shell(),
        scan or Scan(sandbox.root),
        found,
        facts,
        CommandUndo(workspace, only_reads),
    )
    return runner.shell.follow(_make_tool(runner, jobs))


def _headline(command: str, *, restart: bool, background: bool = False, **_: object) -> str:
    """Return the command, where it runs, and whether it runs in the background."""
    if restart and not command.strip():
        return "Reset the folder and variables of earlier commands"
    folder, line = split_folder(command)
    places = ["in the background"] * background + [f"in {folder}"] * bool(folder)
    return f"{' '.join(['Run', ' and '.join(places)]).strip()}: {line}"


def _make_tool(runner: _CommandRunner, jobs: Jobs | None) -> Tool[..., Any]:
    async def bash(
        command: str,
        *,
        restart: bool = False,
        timeout_ms: int = _DEFAULT_TIMEOUT_MS,
        background: bool = False,
        hosts: tuple[str, ...] = (),
        context: Context,
    ) -> str | Result:
        """Run a command, or start a job.

        Args:
            command: The command for bash.
            restart: Reset the folder and variables that earlier commands left.
            timeout_ms: Milliseconds the command may run, at most 600000.
            background: Start the command as a job and return at once. Its number is for read_job
                and stop_job.
            hosts: Hosts the command must reach, such as "pypi.org". The user may be asked.
            context: The call's context.
        """
        del hosts  # the policy has decided about them, by their accesses
        if background and jobs is not None:
            return await runner.start(command, jobs, context)
        return await runner.run(command, timeout_ms, context, restart=restart, jobs=jobs)

    has = {"background": jobs is not None, "hosts": runner.facts.opens_hosts}
    _drop_parameters(bash, {name for name, is_there in has.items() if not is_there})
    made = tool(
        description=describe_bash(runner.facts),
        effect=DESTROY,
        preview=runner.undo.preview,
        headline=_headline,
        timeout=_MAX_TIMEOUT_MS / 1000 + _GRACE_SECONDS,
        max_chars=_MAX_CHARS,
        tags=["shell"],
        strict="on",
        synonyms=BASH_SYNONYMS_WITHOUT_JOBS if jobs is None else BASH_SYNONYMS,
        instead_of=BASH_INSTEAD_OF,
    )(bash)
    return CommandAccesses(runner.sandbox).declare(made)


def _drop_parameters(fn: Callable[..., Any], names: Collection[str]) -> None:
    """Remove optional parameters from a function's signature."""
    given = inspect.signature(fn)
    kept = [one for name, one in given.parameters.items() if name not in names]
    vars(fn)["__signature__"] = given.replace(parameters=kept)
