"""`handrail tools call`."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import click

from handrail import Ask, Call, Deny, Executor, FailureKind, File, Hook, Image, Result, Text
from handrail.approvals import make_printable, terminal
from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Exit, Halt, report_error
from handrail.cli._base.options import ARGS, TOOL_OPTIONS, tool_names
from handrail.cli._base.settings import closest_name
from handrail.cli._base.signals import Signals, leave, listen_for_signals, run_alone
from handrail.cli._base.stdout import Outlet
from handrail.cli._project.calls import (
    advise,
    call_of,
    describe_allowing_rule,
    explain_call,
    proposal_documents,
    rules_that_allow,
    show_explanation,
)
from handrail.cli._project.kit import Kit
from handrail.permissions import Answer, Approver, Explanation, Pending

_EXITS = {
    FailureKind.DENIED: Exit.DENIED,
    FailureKind.PENDING: Exit.DENIED,
    FailureKind.BAD_ARGS: Exit.USAGE,
}


@as_command("call", "Call a tool.", *TOOL_OPTIONS)
@click.argument("name", shell_complete=tool_names, help="Name of the tool.")
@click.argument("args", nargs=-1, help=ARGS)
@click.option(
    "--dry-run", is_flag=True, help="Show whether the call would be allowed, without running it."
)
@click.option(
    "--server",
    metavar="SERVER",
    help="Call a tool of this MCP server, by its own name. It need not be reviewed.",
)
def command(
    app: App, name: str, args: tuple[str, ...], *, dry_run: bool, server: str | None
) -> Exit:
    """Call a tool as a model would: validated, checked against the rules, within its limits.

    If the call needs approval, you are prompted at the terminal. Without a terminal the call is
    denied, and a rule that would allow it is shown.
    """
    data = None if dry_run else Outlet(app)
    kit, name = (Kit(app), name) if server is None else _kit_of(app, server, name)
    call = call_of(kit.tool(name).spec, args)
    explanation = explain_call(kit, call)
    if data is None:
        return show_explanation(app, kit, explanation)
    running = _ToolCall(kit, call, explanation, data)
    with listen_for_signals(_nothing, running.report_late) as running.signals:
        return running.run()


def _kit_of(app: App, server: str, name: str) -> tuple[Kit, str]:
    """Return a kit with a server's tools, and one tool's full name."""
    from handrail.cli._project.servers import live_tools

    tools = live_tools(app, server)
    known = {str(spec.metadata["mcp_tool"]): spec.name for spec in tools.specs}
    if name not in known:
        near = closest_name(name, known)
        hint = f"did you mean {near!r}?" if near else f"it has {', '.join(known) or 'none'}"
        raise Halt(f"the MCP server {server!r} has no tool {name!r}", code="no_tool", hint=hint)
    return Kit(app, servers=False, more=tools), known[name]


class _ToolCall:
    """A call, from start to report."""

    signals: Signals

    def __init__(self, kit: Kit, call: Call, explanation: Explanation, data: Outlet) -> None:
        self._kit = kit
        self._app = kit.app
        self._call = call
        self._explained = explanation
        self._data = data
        self._result: Result | None = None

    def run(self) -> Exit:
        try:
            run_alone(self._run)
        except (KeyboardInterrupt, SystemExit) as error:
            self.signals.rest()
            leave(self._report_exit(error))
        self.signals.rest()
        return self._report_result()

    async def _run(self) -> None:
        kit, hooks = self._kit, self._kit.make_hooks(self._call.id)
        kit.report_misnamed(kit.tools)
        async with Executor(
            kit.tools,
            policy=hooks.limit(kit.rules),
            approvals=self._approver(),
            hooks=(*hooks.hooks, Hook(frames=False)),  # a person reads it
            limits=hooks.limits,
        ) as executor:
            async with anyio.create_task_group() as group:
                group.start_soon(self._obey, executor)
                self._result = await executor.run(self._call)
                group.cancel_scope.cancel()
            self.signals.within(0)

    async def _obey(self, executor: Executor) -> None:
        await self.signals.wait()
        executor.cancel()

    def _approver(self) -> Approver:
        if not self._app.asks:
            return _refuse
        return terminal(
            workspace=self._app.workspace,
            remember=self._kit.memory,
            explain=partial(explain_call, self._kit),
        )

    def report_late(self) -> Exit:
        """Report a call that did not stop in time."""
        self._app.say("the tool did not stop; exiting without it")
        try:
            return self._report_result()
        except Halt as halt:
            return self._report_halt(halt)

    def _report_exit(self, error: BaseException) -> Exit:
        """Report a tool that tried to end the program. Python would wait for its threads."""
        message = f"the tool raised {type(error).__name__}, which would end the program"
        return self._report_halt(Halt(message, code="failed", exits=Exit.FAILED))

    def _report_halt(self, halt: Halt) -> Exit:
        return Exit(report_error(halt, as_json=self._app.output != "text"))

    def _report_result(self) -> Exit:
        app, result = self._app, self._result
        if result is None:
            raise Halt("interrupted", code="interrupted", exits=self.signals.exits or Exit.FAILED)
        asks = _was_denied(result) and not app.asks
        rules = rules_that_allow(self._kit, self._explained) if asks else ()
        name = self._explained.tool or self._call.name
        if app.output != "text":
            document = {
                "tool": name,
                **_result_document(result),
                "would_allow": proposal_documents(rules),
            }
            self._data.document(document)
        if result.failure is None:
            for line in self._lines(result) if app.output == "text" else ():
                self._data.text(line, color=True)  # the tool's colors are kept
            return Exit.DONE
        stopped = self.signals.exits if result.failure.kind is FailureKind.CANCELLED else None
        raise Halt(
            result.failure.message,
            code="interrupted" if stopped else result.failure.kind.value,
            hint=describe_allowing_rule(rules)
            if rules
            else _hint(self._kit, result, self._explained),
            exits=stopped or _EXITS.get(result.failure.kind, Exit.FAILED),
        )

    def _lines(self, result: Result) -> Iterator[str]:
        """Yield a result as text: unchanged for a program, made printable for a terminal."""
        for part in result.content:
            if isinstance(part, Text):
                yield self._safe(part.text)
            else:
                name = part.name if isinstance(part, File) else "image"
                yield self._safe(f"[{name}: {part.media_type}, {len(part.data)} bytes]")

    def _safe(self, text: str) -> str:
        if self._data.at_terminal:
            return make_printable(text, most=len(text) * 4 + 1).text
        return text.encode("utf-8", "backslashreplace").decode()


def _nothing() -> None:
    """Do nothing: a single call has no state to save."""


async def _refuse(pending: Pending) -> Answer | Pending:
    return Deny(f"Not run: approval is needed, and there is no terminal. {pending.question}")


def _was_denied(result: Result) -> bool:
    return result.failure is not None and result.failure.kind is FailureKind.DENIED


def _hint(kit: Kit, result: Result, explanation: Explanation) -> str:
    """Return what to do about a failure."""
    if result.failure is not None and not _was_denied(result):
        return _where(result.failure.detail)
    if isinstance(explanation.decision, Deny) and explanation.decision.origin is not None:
        return f"to allow it, change {explanation.decision.origin}"
    if isinstance(explanation.decision, Ask) and not kit.app.asks:
        return advise(kit, explanation) or "run it at a terminal, where you can approve it"
    return ""


def _where(detail: str) -> str:
    """Return a traceback's end on one line. The JSON output has everything."""
    lines = [line.strip() for line in detail.splitlines() if line.strip()]
    frames = [line for line in lines if line.startswith("File ")]
    return ": ".join([*frames[-1:], *lines[-1:]])


def _result_document(result: Result) -> dict[str, Any]:
    failure = result.failure
    return {
        "text": result.text,
        "parts": [_part(part) for part in result.content],
        "data": json.loads(result.data) if result.data is not None else None,
        "failure": failure
        and {
            "kind": failure.kind.value,
            "fault": failure.kind.fault.value,
            "message": failure.message,
            "detail": failure.detail,
        },
    }


def _part(part: Text | Image | File) -> dict[str, str]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    fields = {"media_type": part.media_type, "data": b64encode(part.data).decode()}
    if isinstance(part, File):
        return {"type": "file", "name": part.name, **fields}
    return {"type": "image", **fields}
