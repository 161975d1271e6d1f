"""Recorded calls to decide again: from a run's journal, or from a file with JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from handrail import Access, Call, Decision, DefinitionError, Executor, Spec, Toolset
from handrail._support import is_object
from handrail.cli._base.exits import Halt
from handrail.cli._project.calls import as_data
from handrail.cli._runs.saved import find_run
from handrail.policy import Recorded, Rulebook, read_decision
from handrail.sources import ValueSource

MAX_FILE_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call as it was recorded. A line with only a call has no accesses and no decision."""

    call: Call
    accesses: tuple[Access, ...] | None = None
    decision: Decision | None = None
    sources: tuple[ValueSource, ...] = ()
    after: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class SkippedCall:
    """A call that cannot be decided, and why."""

    name: str
    why: str


def read_calls(source: str, workspace: Path) -> list[WrittenCall]:
    """Return the calls in a file, in stdin, or in a saved run."""
    return list(_calls_in(read_lines(source, workspace)))


def read_lines(source: str, workspace: Path) -> Iterable[dict[str, Any]]:
    """Return the lines of a file, of stdin, or of a saved run's journal."""
    path = workspace / source
    if source == "-":
        return _lines(sys.stdin.read(), "standard input")
    if "/" in source or path.is_file():
        return _lines(_text(path), source)
    return find_run(source).record.lines()


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        hint = "pass the path of a readable file, or the ID of a saved run"
        raise Halt(f"cannot read {path}: {error.strerror}", code="file", hint=hint) from None
    if len(content) > MAX_FILE_BYTES:
        raise Halt(
            f"{path} has more than {MAX_FILE_BYTES:,} bytes",
            code="file",
            hint=f"split it: `split -l 10000 {path}`",
        )
    return content.decode(errors="replace")


def _lines(text: str, where: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _line(line, f"{where}:{number}")


def _line(text: str, where: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not is_object(value) or not ("event" in value or isinstance(value.get("name"), str)):
        raise Halt(
            f"{where}: not a recorded call",
            code="file",
            hint='write each line as {"name": ..., "args": {...}}, or as `runs watch` prints it',
        )
    return value


def _calls_in(lines: Iterable[Mapping[str, Any]]) -> Iterator[WrittenCall]:
    """Yield each call once, although a resumed run decides it again."""
    asked: dict[str, Call] = {}
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        event = line.get("event")
        if event is None:
            yield WrittenCall(call_in(line, line.get("name"), f"line-{number}"))
        elif event == "requested":
            asked[str(line.get("call_id"))] = call_in(line, line.get("tool"), line.get("call_id"))
        elif event == "decided" and (decided := _read_decision(line, asked)) is not None:
            key = f"{line.get('turn')} {decided.call.id} {decided.call.name} {decided.call.args}"
            if key not in seen:
                seen.add(key)
                yield decided


def call_in(line: Mapping[str, Any], name: object, call_id: object) -> Call:
    args = line.get("args")
    return Call(str(name), args if is_object(args) or isinstance(args, str) else {}, str(call_id))


def _read_decision(line: Mapping[str, Any], asked: Mapping[str, Call]) -> WrittenCall | None:
    """Return a call with its decision; None if the journal is incomplete or was changed."""
    first = asked.get(str(line.get("call_id")))
    if first is None:
        return None
    call = call_in(line, line["tool"], first.id) if "tool" in line else first
    found = read_decision(call, line.get("accesses"), line.get("decision"))
    return WrittenCall(*found, read_sources(line), read_after(line)) if found is not None else None


def read_sources(line: Mapping[str, Any]) -> tuple[ValueSource, ...]:
    """Return who named a call's destinations, as a line of a journal has it."""
    written = line.get("sources", [])
    try:
        return tuple([ValueSource.from_dict(one) for one in written])
    except (TypeError, ValueError):
        return ()


def read_after(line: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run had read before a call, as a line of a journal has it."""
    written = line.get("after", {})
    return {str(kind): str(call) for kind, call in written.items()} if is_object(written) else {}


def attach_decisions(
    calls: Iterable[WrittenCall], tools: Toolset, rules: Rulebook
) -> tuple[list[Recorded], list[SkippedCall]]:
    """Add accesses and a decision to each call; if none was recorded, use these rules.

    A recorded decision needs no tool here: its accesses say what the tool touches.
    """
    executor = Executor(tools, policy=rules)
    recorded: list[Recorded] = []
    skipped: list[SkippedCall] = []
    for written in calls:
        name, tool = written.call.name, tools.find(written.call.name)
        spec = tool.spec if tool is not None else _guess_spec(written)
        if spec is None:
            skipped.append(SkippedCall(name, "unknown tool"))
        elif written.accesses is not None and written.decision is not None:
            about = written.accesses, written.decision, written.sources, written.after
            recorded.append(Recorded(written.call, spec, *about))
        else:
            explanation = executor.explain(written.call)
            if explanation.decision is None:
                refusal = explanation.refusal.text if explanation.refusal else ""
                skipped.append(SkippedCall(name, refusal))
                continue
            call = replace(explanation.call, args=as_data(explanation.call.args))
            recorded.append(Recorded(call, spec, explanation.accesses, explanation.decision))
    return recorded, skipped


def _guess_spec(written: WrittenCall) -> Spec | None:
    """Return a spec for a tool that is not here, such as a gateway server's, from its accesses."""
    if not written.accesses or written.decision is None:
        return None
    effect = max(access.verb for access in written.accesses)
    try:
        return Spec(name=written.call.name, description="", input_schema={}, effect=effect)
    except DefinitionError:
        return None
