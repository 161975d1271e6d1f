"""`handrail rules test`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from handrail import Decision
from handrail.cli._app import App, as_command
from handrail.cli._exits import Exit, Halt
from handrail.cli._kit import Kit
from handrail.cli._options import JUDGED, run_ids
from handrail.cli._rules_calls import Skipped, judged_before, written_in
from handrail.cli._rules_files import read_rules
from handrail.cli._rules_propose import Proposed, proposed
from handrail.cli._rules_told import counted, one_line
from handrail.policy import (
    Change,
    Level,
    Places,
    Rulebook,
    Unusable,
    load,
    parse,
    replay,
)

MOST_ARGS = 200
"""Characters of arguments that a person is shown."""


@dataclass(frozen=True)
class _Outcome:
    """What judging calls again has shown."""

    decided: Counter[str]
    changes: Sequence[Change]
    skipped: Sequence[Skipped]
    proposed: Proposed


@as_command("test", "Judge recorded calls again, and say what would change.", *JUDGED)
@click.argument("source", metavar="RUN|FILE", shell_complete=run_ids)
@click.option(
    "--rules",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Judge by this rule file, in place of yours and the workspace's.",
)
@click.option("--propose", is_flag=True, help="Print the fewest rules that would spare questions.")
def command(app: App, source: str, *, file: Path | None, propose: bool) -> Exit:
    """Judge recorded calls again, and say what would change. Nothing is run.

    RUN is the id of a saved run, the beginning of one, or `last`. FILE has a call on each line:
    {"name": ..., "args": {...}}; - reads them from a pipe. Calls of a run are held against what
    was decided then, others against the rules that count now. The exit code is 1 where something
    would change.
    """
    kit = Kit(app)
    calls, skipped = judged_before(written_in(source, app.workspace), kit.tools, _before(kit))
    rules = _by_file(kit, file) if file is not None else kit.rules
    outcome = _Outcome(
        Counter(_word(rules(one.call, one.spec, one.accesses)) for one in calls),
        replay(calls, rules),
        skipped,
        proposed(calls, rules, kit.places) if propose else Proposed(),
    )
    lines = _lines(outcome.changes)
    if propose:
        lines = iter("\n".join(outcome.proposed.rules).splitlines())
    app.print(_told(outcome), lines)
    for words in _remarks(outcome, propose=propose):
        app.say(words)
    return Exit.FAILED if outcome.changes and not propose else Exit.DONE


def _before(kit: Kit) -> Rulebook:
    """The rules that count as long as this command line asks for no other mode."""
    flags = {name: one for name, one in kit.app.flags.items() if name != "mode"}
    return kit.rules if flags == kit.app.flags else Kit(replace(kit.app, flags=flags)).rules


def _by_file(kit: Kit, file: Path) -> Rulebook:
    """The rules of a file, below those of the machine, which always hold."""
    settings = kit.app.settings
    try:
        path = kit.app.workspace / file
        read = parse(read_rules(path), file=str(path), level=Level.USER)
        mode = kit.app.flags.get("mode") or read.mode or settings["mode"]
        made = load(Places(managed=kit.places.managed), mode=mode, sandboxed=kit.confined)
    except Unusable as error:
        raise Halt(str(error), code="rules", hint="see `handrail rules check`") from None
    for rule in read.rules:
        made.add(rule)
    return made


def _word(decision: Decision) -> str:
    return type(decision).__name__.lower()


def _told(outcome: _Outcome) -> dict[str, Any]:
    found = outcome.proposed
    return {
        "calls": outcome.decided.total(),
        "decided": {word: outcome.decided[word] for word in ("allow", "ask", "deny")},
        "changes": [_change(one) for one in outcome.changes],
        "skipped": [{"tool": one.name, "why": one.why} for one in outcome.skipped],
        "proposals": list(found.rules),
        "spared": found.asked - found.left,
    }


def _change(change: Change) -> dict[str, Any]:
    call, origin = change.recorded.call, change.now.origin
    return {
        "tool": call.name,
        "args": call.args if isinstance(call.args, str) else dict(call.args),
        "accesses": [
            {"verb": one.verb.name.lower(), "resource": one.resource}
            for one in change.recorded.accesses
        ],
        "was": _word(change.recorded.decision),
        "now": _word(change.now),
        "rule": origin.rule if origin else None,
        "file": (origin.file or None) if origin else None,
        "line": (origin.line or None) if origin else None,
    }


def _lines(changes: Sequence[Change]) -> Iterator[str]:
    for one in changes:
        call = one.recorded.call
        args = call.args if isinstance(call.args, str) else json.dumps(dict(call.args))
        shown = args if len(args) <= MOST_ARGS else f"{args[: MOST_ARGS - 1]}…"
        by = f"  by {one.now.origin}" if one.now.origin else ""
        was, now = _word(one.recorded.decision), _word(one.now)
        yield one_line(f"{was} -> {now}  {call.name} {shown}{by}")


def _remarks(outcome: _Outcome, *, propose: bool) -> Iterator[str]:
    count = Counter((one.name, one.why) for one in outcome.skipped)
    for (name, why), times in count.items():
        yield one_line(f"left out {times} of {name}: {' '.join(why.split())}")
    decided, found = outcome.decided, outcome.proposed
    if propose:
        spared = f"{found.asked - found.left} of {counted(found.asked, 'question')}"
        yield f"{counted(len(found.rules), 'rule')} would spare {spared}."
        return
    told = ", ".join(f"{decided[word]} {word}" for word in ("allow", "ask", "deny"))
    yield f"{counted(decided.total(), 'call')}: {told}; {len(outcome.changes)} would change."
