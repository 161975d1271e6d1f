"""A run's output while in progress: text, calls, results and its end."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from handrail import Call, File, Image, Result, Text
from handrail.agent import RunEvent, RunState
from handrail.cli._base.app import App
from handrail.cli._base.printable import clip
from handrail.cli._base.stdout import Outlet
from handrail.cli._project.calls import as_data
from handrail.cli._project.models import describe_retry
from handrail.cli._runs.denials import on_one_line, summary
from handrail.events import Event, Progressed, Yielded
from handrail.messages import (
    Delta,
    Model,
    Reply,
    Restart,
    ToolResults,
    TruncatedCall,
    model_names,
)
from handrail.models import RetryWait, cost
from handrail.runs.lines import usage
from handrail.runs.statuses import Standing
from handrail.sources import unframe

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and characters changing the text direction; not newlines and tabs."""
_MAX_RESULT_CHARS = 100
FORMAT = 1
"""The document's version: it changes if a field is removed or changes meaning."""


class RunPrinter:
    """Prints a run while it is in progress, in the requested output format."""

    def __init__(self, app: App, data: Outlet) -> None:
        self._app = app
        self._data = data
        self._names: dict[str, str] = {}
        self._streamed = ""
        """The current reply's text printed on arrival."""
        self._replies = 0

    def begin(self, run_id: str) -> None:
        """Print the run's id."""
        self._line(lambda: {"type": "run", "id": run_id})
        self._app.say(f"run {run_id}")

    def know(self, state: RunState, window: int | None) -> None:  # noqa: ARG002  for a face
        """Read earlier calls' names."""
        for message in state.messages:
            if isinstance(message, Reply):
                self._names |= {call.id: call.name for call in message.calls}

    def watch(self, event: RunEvent) -> None:
        """Print an event; an agent's ``on_event``."""
        if isinstance(event, Restart):
            self._restart(event)
        elif isinstance(event, Delta):
            if not event.thought:
                self._print_text(event.text)
        elif isinstance(event, Reply):
            self._show_reply(event)
        elif isinstance(event, ToolResults):
            self._show_results(event)

    def on_event(self, event: Event) -> None:
        """Print what a call reports while it runs."""
        if isinstance(event, Progressed):
            about = {"message": event.message, "fraction": event.fraction}
            self._line(lambda: {"type": "progress", **self._call(event.call_id), **about})
        elif isinstance(event, Yielded):
            self._line(lambda: {"type": "output", **self._call(event.call_id), "text": event.text})

    def _call(self, call_id: str) -> dict[str, str]:
        return {"call_id": call_id, "tool": self._names.get(call_id, "")}

    def on_wait(self, wait: RetryWait) -> None:
        """Report a delayed retry with the model."""
        about = {"kind": wait.error.kind, "message": wait.error.reason}
        when = {"seconds": round(wait.seconds, 3), "try": wait.number, "tries": wait.tries}
        self._line(lambda: {"type": "wait", **about, **when})
        self._app.say(describe_retry(wait, wait.seconds))

    def _restart(self, event: Restart) -> None:
        """Report the text so far as void."""
        if self._app.output == "text" and self._streamed:
            self._data.text()
        self._streamed = ""
        self._line(lambda: {"type": "restart", "reason": event.reason})
        self._app.say("the reply was cut off, and starts again")

    def end(self, document: dict[str, Any]) -> None:
        """Print how it ended, and the answer if it was not printed yet."""
        if not self._replies and document["reason"] == "answer":
            self._show_reply(Reply((Text(document["answer"]),)))
        self._line(lambda: {"type": "end", **document})
        if self._app.output == "json":
            self._data.document(document)

    def _print_text(self, text: str) -> None:
        self._streamed += text
        if self._app.output == "text":
            self._data.text(_CONTROL.sub(_escape, text), ends="")
        self._line(lambda: {"type": "text", "text": text})

    def _show_reply(self, reply: Reply) -> None:
        self._replies += 1
        if not self._streamed and reply.text:
            self._print_text(reply.text)
        if self._app.output == "text" and self._streamed and not self._streamed.endswith("\n"):
            self._data.text()
        self._streamed = ""
        for part in reply.parts:
            if isinstance(part, Call | TruncatedCall):
                self._show_call(part)

    def _show_call(self, call: Call | TruncatedCall) -> None:
        self._names[call.id] = call.name
        self._line(
            lambda: {
                "type": "call",
                "call_id": call.id,
                "tool": call.name,
                "args": as_data(call.args),
            }
        )
        self._app.say(f"> {on_one_line(call.name)} {on_one_line(summary(call.args))}")

    def _show_results(self, results: ToolResults) -> None:
        for result in results.results:
            name = self._names.get(result.call_id, "")
            self._line(partial(_result, result, name))
            kind = result.failure.kind if result.failure else "done"
            lines = [
                *unframe(result.text).strip().split("\n")[:1],
                *map(_describe_file, _files(result)),
            ]
            first = clip(" ".join(filter(None, lines)), _MAX_RESULT_CHARS)
            self._app.say(f"< {on_one_line(name)} {kind}: {on_one_line(first)}")

    def _line(self, line: Callable[[], dict[str, Any]]) -> None:
        if self._app.output == "jsonl":
            self._data.document(line())


def cost_of(state: RunState, model: Model) -> float | None:
    """Return a run's cost in US dollars, or None if unknown."""
    replies = [message for message in state.messages if isinstance(message, Reply)]
    named = {reply.model for reply in replies if reply.usage.total}
    if len(named) > 1:  # each one's tokens are unknown
        return None
    found = (cost(state.usage, name) for name in (*named, *model_names(model)))
    money = next((one for one in found if one is not None), None)
    return None if money is None else float(money)


def end_document(
    run_id: str,
    state: RunState,
    standing: Standing,
    *,
    why: str,
    denials: list[dict[str, Any]],
    money: float | None,
) -> dict[str, Any]:
    """Return a run's end as a JSON document."""
    texts = (message.text for message in reversed(state.messages) if isinstance(message, Reply))
    return {
        "format": FORMAT,
        "id": run_id,
        **standing._asdict(),
        "why": why,
        "answer": next(texts, ""),
        "usage": usage(state.usage),
        "cost": money,
        "turns": state.turns,
        "calls": state.calls,
        "denials": denials,
        "pending": [
            {
                "pending": pending.id,
                "call_id": pending.call.id,
                "tool": pending.call.name,
                "args": summary(pending.call.args),
                "kind": pending.kind,
                "question": pending.question,
            }
            for pending in state.pending
        ],
    }


def _result(result: Result, name: str) -> dict[str, Any]:
    return {
        "type": "result",
        "call_id": result.call_id,
        "tool": name,
        "kind": str(result.failure.kind) if result.failure else "",
        "text": result.text,
        "files": _files(result),
    }


def _files(result: Result) -> list[dict[str, Any]]:
    """Return a result's images and files, without their content."""
    return [
        {
            "name": part.name if isinstance(part, File) else "image",
            "media_type": part.media_type,
            "bytes": len(part.data),
        }
        for part in result.parts
        if isinstance(part, Image | File)
    ]


def _describe_file(file: dict[str, Any]) -> str:
    return f"[{file['name']}: {file['media_type']}, {file['bytes']} bytes]"


def _escape(match: re.Match[str]) -> str:
    return f"\\u{{{ord(match[0]):x}}}"
