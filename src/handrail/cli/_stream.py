"""What a run tells while it goes on: words as they come, calls, results; and its end."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from handrail import Call, Result, Text
from handrail.agent import Happening, State
from handrail.cli._app import App
from handrail.cli._calls import as_data
from handrail.cli._denials import clipped, on_one_line, summary
from handrail.cli._journal import usage
from handrail.cli._outlet import Outlet
from handrail.messages import Cut, Delta, Reply, Results

_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys, or what turns the reading direction; line feeds and tabs are data."""
_MOST_SHOWN = 100


class Stream:
    """Shows a run while it goes on, in the form that the command was asked for."""

    def __init__(self, app: App, data: Outlet) -> None:
        self._app = app
        self._data = data
        self._names: dict[str, str] = {}
        self._said = ""
        """The words of a reply that were shown as they came."""
        self._replies = 0

    def begin(self, run_id: str) -> None:
        """Say which run this is."""
        self._line(lambda: {"type": "run", "id": run_id})
        self._app.say(f"run {run_id}")

    def know(self, state: State) -> None:
        """Learn the names of calls that were made before."""
        for one in state.messages:
            if isinstance(one, Reply):
                self._names |= {call.id: call.name for call in one.calls}

    def watch(self, happening: Happening) -> None:
        """Show what happens; an agent's ``watch``."""
        if isinstance(happening, Delta):
            if not happening.thought:
                self._speak(happening.text)
        elif isinstance(happening, Reply):
            self._replied(happening)
        else:
            self._resulted(happening)

    def end(self, document: dict[str, Any]) -> None:
        """Show how it ended; also the answer, where it was there before."""
        if not self._replies and document["stop"] == "answer":
            self._replied(Reply((Text(document["answer"]),)))
        self._line(lambda: {"type": "end", **document})
        if self._app.output == "json":
            self._data.document(document)

    def _speak(self, text: str) -> None:
        self._said += text
        if self._app.output == "text":
            self._data.text(_OBEYED.sub(_spelled, text), ends="")
        self._line(lambda: {"type": "text", "text": text})

    def _replied(self, reply: Reply) -> None:
        self._replies += 1
        if not self._said and reply.text:
            self._speak(reply.text)
        if self._app.output == "text" and self._said and not self._said.endswith("\n"):
            self._data.text()
        self._said = ""
        for part in reply.parts:
            if isinstance(part, Call | Cut):
                self._called(part)

    def _called(self, call: Call | Cut) -> None:
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

    def _resulted(self, results: Results) -> None:
        for one in results.results:
            name = self._names.get(one.call_id, "")
            self._line(partial(_result, one, name))
            kind = one.failure.kind if one.failure else "done"
            first = clipped(one.text.strip().partition("\n")[0], _MOST_SHOWN)
            self._app.say(f"< {on_one_line(name)} {kind}: {on_one_line(first)}")

    def _line(self, line: Callable[[], dict[str, Any]]) -> None:
        if self._app.output == "jsonl":
            self._data.document(line())


def ended(
    run_id: str, state: State, *, stop: str, why: str, denials: list[dict[str, Any]]
) -> dict[str, Any]:
    """How a run ended, as a document."""
    said = (one.text for one in reversed(state.messages) if isinstance(one, Reply))
    return {
        "id": run_id,
        "stop": stop,
        "why": why,
        "answer": next(said, ""),
        "usage": usage(state.usage),
        "turns": state.turns,
        "calls": state.calls,
        "denials": denials,
        "pending": [
            {
                "pending": one.id,
                "call_id": one.call.id,
                "tool": one.call.name,
                "args": summary(one.call.args),
                "question": one.question,
            }
            for one in state.pending
        ],
    }


def _result(result: Result, name: str) -> dict[str, Any]:
    return {
        "type": "result",
        "call_id": result.call_id,
        "tool": name,
        "kind": str(result.failure.kind) if result.failure else "",
        "text": result.text,
    }


def _spelled(found: re.Match[str]) -> str:
    return f"\\u{{{ord(found[0]):x}}}"
