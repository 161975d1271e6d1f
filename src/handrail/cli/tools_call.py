"""`handrail tools call`."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import click

from handrail import Ask, Call, Deny, Executor, File, Image, Kind, Result, Text
from handrail.approvals import displayed, terminal
from handrail.cli._app import App, as_command
from handrail.cli._calls import allowing, call_of, explained, proposals, show, would_allow
from handrail.cli._exits import Exit, Halt, tell
from handrail.cli._kit import Kit
from handrail.cli._options import JUDGED, tool_names
from handrail.cli._outlet import Outlet
from handrail.cli._signals import Signals, heard, leave
from handrail.judgement import Answer, Approver, Explanation, Pending

_EXITS = {
    Kind.DENIED: Exit.DENIED,
    Kind.PENDING: Exit.DENIED,
    Kind.BAD_ARGS: Exit.USAGE,
}


@as_command("call", "Call a tool with arguments of yours.", *JUDGED)
@click.argument("name", shell_complete=tool_names)
@click.argument("args", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Say what would become of it; run nothing.")
def command(app: App, name: str, args: tuple[str, ...], dry_run: bool) -> Exit:  # noqa: FBT001
    """Call the tool NAME as a model would: checked, judged by the rules, within its limits.

    ARGS is one JSON object, or key=value pairs, or - to read JSON from stdin. Where the rules
    ask, you are asked at a terminal; without one the answer is no, and the rule is shown that
    would have allowed it.
    """
    data = None if dry_run else Outlet(app)
    kit = Kit(app)
    call = call_of(kit.tool(name).spec, args)
    told = explained(kit, call)
    if data is None:
        return show(app, kit, told)
    made = _Made(kit, call, told, data)
    with heard(_nothing, made.late) as made.signals:
        return made.done()


class _Made:
    """A call, from its beginning to what is told of it."""

    signals: Signals

    def __init__(self, kit: Kit, call: Call, told: Explanation, data: Outlet) -> None:
        self._kit = kit
        self._app = kit.app
        self._call = call
        self._explained = told
        self._data = data
        self._result: Result | None = None

    def done(self) -> Exit:
        try:
            anyio.run(self._run)
        except (KeyboardInterrupt, SystemExit) as error:
            self.signals.rest()
            leave(self._thrown_out(error))
        self.signals.rest()
        return self._told()

    async def _run(self) -> None:
        kit, approver = self._kit, self._approver()
        async with Executor(kit.tools, policy=kit.rules, approver=approver) as executor:
            async with anyio.create_task_group() as group:
                group.start_soon(self._obey, executor)
                self._result = await executor.run(self._call)
                group.cancel_scope.cancel()
            self.signals.within(0)

    async def _obey(self, executor: Executor) -> None:
        await self.signals.wait()
        executor.cancel(self._call.id)

    def _approver(self) -> Approver:
        if not self._app.asks:
            return _refuse
        return terminal(
            read=self._kit.text_of,
            workspace=self._app.workspace,
            remember=self._kit.memory,
            explain=partial(explained, self._kit),
        )

    def late(self) -> Exit:
        """Tell of a call that does not end."""
        self._app.say("the tool did not stop, and is left behind")
        try:
            return self._told()
        except Halt as halt:
            return self._said(halt)

    def _thrown_out(self, error: BaseException) -> Exit:
        """Tell of code that ended the program, or tried to; Python would wait for its threads."""
        words = f"the tool raised {type(error).__name__}, which ends a program"
        return self._said(Halt(words, code="failed", exits=Exit.FAILED))

    def _said(self, halt: Halt) -> Exit:
        return Exit(tell(halt, as_json=self._app.output != "text"))

    def _told(self) -> Exit:
        app, result = self._app, self._result
        if result is None:
            raise Halt("interrupted", code="interrupted", exits=self.signals.exits or Exit.FAILED)
        asks = _was_denied(result) and not app.asks
        rules = allowing(self._kit, self._explained) if asks else ()
        name = self._explained.tool or self._call.name
        if app.output != "text":
            document = {"tool": name, **_told(result), "would_allow": proposals(rules)}
            self._data.document(document)
        if result.failure is None:
            for line in self._lines(result) if app.output == "text" else ():
                self._data.text(line, color=True)  # a tool's words are as they are
            return Exit.DONE
        stopped = self.signals.exits if result.failure.kind is Kind.CANCELLED else None
        raise Halt(
            result.failure.message,
            code="interrupted" if stopped else result.failure.kind.value,
            hint=would_allow(rules) if rules else _hint(app, result, self._explained),
            exits=stopped or _EXITS.get(result.failure.kind, Exit.FAILED),
        )

    def _lines(self, result: Result) -> Iterator[str]:
        """A result for people: as it is where a program reads it, made safe where a person does."""
        for part in result.content:
            if isinstance(part, Text):
                yield self._safe(part.text)
            else:
                name = part.name if isinstance(part, File) else "a picture"
                yield self._safe(f"[{name}: {part.media_type}, {len(part.data)} bytes]")

    def _safe(self, text: str) -> str:
        if self._data.at_terminal:
            return displayed(text, most=len(text) * 4 + 1).text
        return text.encode("utf-8", "backslashreplace").decode()


def _nothing() -> None:
    """Nothing is to be written down."""


async def _refuse(pending: Pending) -> Answer | Pending:
    return Deny(f"{pending.question} Nobody could be asked, and so nothing was run.")


def _was_denied(result: Result) -> bool:
    return result.failure is not None and result.failure.kind is Kind.DENIED


def _hint(app: App, result: Result, told: Explanation) -> str:
    """What to do about a failure."""
    if result.failure is not None and not _was_denied(result):
        return _where(result.failure.detail)
    if isinstance(told.decision, Deny) and told.decision.origin is not None:
        return f"it is denied by {told.decision.origin}"
    if isinstance(told.decision, Ask) and not app.asks:
        return "call it at a terminal, where you can be asked"
    return ""


def _where(detail: str) -> str:
    """The end of a traceback on one line, which says most; all of it is in the document."""
    lines = [line.strip() for line in detail.splitlines() if line.strip()]
    frames = [line for line in lines if line.startswith("File ")]
    return ": ".join([*frames[-1:], *lines[-1:]])


def _told(result: Result) -> dict[str, Any]:
    failure = result.failure
    return {
        "text": result.text,
        "parts": [_part(one) for one in result.content],
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
    told = {"media_type": part.media_type, "data": b64encode(part.data).decode()}
    if isinstance(part, File):
        return {"type": "file", "name": part.name, **told}
    return {"type": "image", **told}
