"""Calls that were written down, to be judged again: a run's journal, or a file of JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handrail import Access, Allow, Ask, Call, Decision, Deny, Effect, Executor, Toolset
from handrail.cli._exits import Halt
from handrail.cli._rules_shapes import is_table
from handrail.cli._saved import find_run
from handrail.policy import Recorded, Rulebook

MOST_BYTES = 1 << 26
_DECISIONS: Mapping[str, Decision] = {"allow": Allow(), "ask": Ask(""), "deny": Deny("")}


@dataclass(frozen=True, slots=True)
class Written:
    """A call as it was written down; what a plain line does not say is None."""

    call: Call
    accesses: tuple[Access, ...] | None = None
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A call that cannot be judged, and why."""

    name: str
    why: str


def written_in(source: str, workspace: Path) -> list[Written]:
    """The calls of a file, of what is piped in, or of a saved run."""
    path = workspace / source
    if source == "-":
        return list(_written(_lines(sys.stdin.read(), "standard input")))
    if "/" in source or path.is_file():
        return list(_written(_lines(_text(path), source)))
    return list(_written(find_run(source).journal()))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Halt(f"{path}: {error.strerror}", code="file", hint="check the path") from None
    if len(content) > MOST_BYTES:
        raise Halt(f"{path} has more than {MOST_BYTES} bytes", code="file", hint="cut it in parts")
    return content.decode(errors="replace")


def _lines(text: str, where: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _line(line, f"{where}:{number}")


def _line(text: str, where: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not is_table(found) or not ("event" in found or isinstance(found.get("name"), str)):
        raise Halt(
            f"{where}: there is no call",
            code="file",
            hint='a line is {"name": ..., "args": {...}}, or one of a run\'s journal.jsonl',
        )
    return found


def _written(lines: Iterable[Mapping[str, Any]]) -> Iterator[Written]:
    """Each call once, though a run that was gone on with has judged it again."""
    asked: dict[str, Call] = {}
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        event = line.get("event")
        if event is None:
            yield Written(_call(line, line.get("name"), f"line-{number}"))
        elif event == "requested":
            asked[str(line.get("call_id"))] = _call(line, line.get("tool"), line.get("call_id"))
        elif event == "judged" and (made := _judged(line, asked)) is not None:
            key = f"{made.call.id} {made.call.name} {made.call.args}"
            if key not in seen:
                seen.add(key)
                yield made


def _call(line: Mapping[str, Any], name: object, call_id: object) -> Call:
    args = line.get("args")
    return Call(str(name), args if is_table(args) or isinstance(args, str) else {}, str(call_id))


def _judged(line: Mapping[str, Any], asked: Mapping[str, Call]) -> Written | None:
    """A judged call; None, where the journal was cut off or changed so that it is none."""
    first = asked.get(str(line.get("call_id")))
    decision = _DECISIONS.get(str(line.get("decision")))
    if first is None or decision is None:
        return None
    call = _call(line, line["tool"], first.id) if "tool" in line else first
    try:
        args = json.loads(call.args) if isinstance(call.args, str) else call.args
        touched = tuple(Access(Effect[verb.upper()], what) for verb, what in line["accesses"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None
    return Written(Call(call.name, args, call.id), touched, decision) if is_table(args) else None


def judged_before(
    calls: Iterable[Written], tools: Toolset, rules: Rulebook
) -> tuple[list[Recorded], list[Skipped]]:
    """Calls with what they touch and what was decided; of a plain line, what these rules decide."""
    executor = Executor(tools, policy=rules)
    made: list[Recorded] = []
    skipped: list[Skipped] = []
    for one in calls:
        tool = tools.find(one.call.name)
        told = executor.explain(one.call) if one.accesses is None else None
        if tool is None:
            skipped.append(Skipped(one.call.name, "there is no such tool"))
        elif told is None:
            assert one.accesses is not None and one.decision is not None  # noqa: PT018, S101  of a journal
            made.append(Recorded(one.call, tool.spec, one.accesses, one.decision))
        elif told.decision is None:
            skipped.append(Skipped(one.call.name, told.refusal.text if told.refusal else ""))
        else:
            made.append(Recorded(told.call, tool.spec, told.accesses, told.decision))
    return made, skipped
