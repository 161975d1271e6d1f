"""`handrail rules replay`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import click

from handrail import Decision
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import quantity
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.options import TOOL_OPTIONS
from handrail.cli._base.printable import one_line
from handrail.cli._project.kit import Kit
from handrail.cli._project.models import model_of
from handrail.cli._rules.files import read_rules
from handrail.cli._rules.propose import RuleProposals, propose_rules
from handrail.cli._rules.recorded_calls import (
    SkippedCall,
    attach_decisions,
    read_calls,
    read_lines,
)
from handrail.cli._rules.reviews import replay_reviews
from handrail.cli._runs.saved import run_ids
from handrail.policy import (
    Change,
    InvalidRule,
    Level,
    Rulebook,
    RulePaths,
    load,
    parse,
    replay,
)

MAX_ARGS_CHARS = 200
"""Argument characters in a line for people."""


@dataclass(frozen=True)
class _ReplayOutcome:
    """A replay's result."""

    decided: Counter[str]
    changes: Sequence[Change]
    skipped: Sequence[SkippedCall]
    proposals: RuleProposals
    unseen: Counter[str] = field(default_factory=Counter[str])
    """Decided calls to tools that are not here."""


@as_command(
    "replay", "Check recorded calls against the rules and show what would change.", *TOOL_OPTIONS
)
@click.argument(
    "source",
    metavar="RUN|FILE",
    shell_complete=run_ids,
    help="ID of a saved run, a prefix of the ID, or last; or a file with one call per line: "
    '{"name": ..., "args": {...}}; - reads stdin.',
)
@click.option(
    "--rules",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Use this rule file instead of those of the user and the workspace.",
)
@click.option(
    "--propose", is_flag=True, help="Print the fewest rules that would avoid approval requests."
)
@click.option(
    "--reviewer",
    metavar="MODEL",
    help="Ask this model about the requests that the rules let a second model answer.",
)
def command(
    app: App, source: str, *, file: Path | None, propose: bool, reviewer: str | None
) -> Exit:
    """Check recorded calls against the rules and show what would change. Runs nothing.

    Calls of a run are compared with the decisions of that run, other calls with the current
    rules. The exit code is 1 if a decision would change. With `--reviewer`, each recorded
    request that a second model may answer is put to a model.
    """
    kit = Kit(app)
    if reviewer is not None:
        return _review(kit, source, file, reviewer)
    calls, skipped = attach_decisions(read_calls(source, app.workspace), kit.tools, _before(kit))
    rules = _by_file(kit, file) if file is not None else kit.rules
    outcome = _ReplayOutcome(
        Counter(_word(rules(call.checked)) for call in calls),
        replay(calls, rules),
        skipped,
        propose_rules(calls, rules, kit.places) if propose else RuleProposals(),
        Counter(one.call.name for one in calls if kit.tools.find(one.call.name) is None),
    )
    lines = _lines(outcome.changes)
    if propose:
        lines = iter("\n".join(outcome.proposals.rules).splitlines())
    app.print(_document(outcome), lines)
    for message in _messages(outcome, propose=propose):
        app.say(message)
    return Exit.FAILED if outcome.changes and not propose else Exit.DONE


def _review(kit: Kit, source: str, file: Path | None, named: str) -> Exit:
    """Put recorded requests to a model, and print its answers."""
    app, rules = kit.app, _by_file(kit, file) if file is not None else kit.rules
    settings = replace(app, flags={**app.flags, "model": named}).settings
    model = model_of(settings, app.workspace)
    lines = read_lines(source, app.workspace)
    done = anyio.run(replay_reviews, lines, kit.tools, rules, model)
    counts = Counter(one.verdict for one in done)
    decided = Counter({"allow": counts["allow"], "ask": len(done) - counts["allow"]})
    document = _document(_ReplayOutcome(decided, [], [], RuleProposals()))
    app.print(document | {"reviews": [asdict(one) for one in done]}, map(str, done))
    app.say(", ".join(f"{counts[word]} {word}" for word in ("allow", "ask", "person")))
    return Exit.DONE


def _before(kit: Kit) -> Rulebook:
    """Return the applicable rules without `--mode` on this command line."""
    flags = {name: value for name, value in kit.app.flags.items() if name != "mode"}
    return kit.rules if flags == kit.app.flags else Kit(replace(kit.app, flags=flags)).rules


def _by_file(kit: Kit, file: Path) -> Rulebook:
    """Return a file's rules, together with the managed rules, which always apply."""
    settings = kit.app.settings
    try:
        path = kit.app.workspace / file
        read = parse(read_rules(path), file=str(path), level=Level.USER)
        mode = kit.app.flags.get("mode") or read.mode or settings["mode"]
        book = load(RulePaths(managed=kit.places.managed), mode=mode, sandboxed=kit.confined)
    except InvalidRule as error:
        raise Halt(
            str(error), code="rules", hint=f"run `handrail rules check {file}` to see all problems"
        ) from None
    for rule in read.rules:
        book.add(rule)
    return book


def _word(decision: Decision) -> str:
    return type(decision).__name__.lower()


def _document(outcome: _ReplayOutcome) -> dict[str, Any]:
    proposals = outcome.proposals
    return {
        "calls": outcome.decided.total(),
        "decided": {word: outcome.decided[word] for word in ("allow", "ask", "deny")},
        "changes": [_change(change) for change in outcome.changes],
        "skipped": [{"tool": call.name, "why": call.why} for call in outcome.skipped],
        "proposals": list(proposals.rules),
        "spared": proposals.asked - proposals.left,
    }


def _change(change: Change) -> dict[str, Any]:
    call, origin = change.recorded.call, change.now.origin
    return {
        "tool": call.name,
        "args": call.args if isinstance(call.args, str) else dict(call.args),
        "accesses": [
            {"verb": access.verb.name.lower(), "resource": access.resource}
            for access in change.recorded.accesses
        ],
        "was": _word(change.recorded.decision),
        "now": _word(change.now),
        "rule": origin.rule if origin else None,
        "file": (origin.file or None) if origin else None,
        "line": (origin.line or None) if origin else None,
    }


def _lines(changes: Sequence[Change]) -> Iterator[str]:
    for change in changes:
        call = change.recorded.call
        args = call.args if isinstance(call.args, str) else json.dumps(dict(call.args))
        shown = args if len(args) <= MAX_ARGS_CHARS else f"{args[: MAX_ARGS_CHARS - 1]}…"
        by = f"  by {change.now.origin}" if change.now.origin else ""
        was, now = _word(change.recorded.decision), _word(change.now)
        yield one_line(f"{was} -> {now}  {call.name} {shown}{by}")


def _messages(outcome: _ReplayOutcome, *, propose: bool) -> Iterator[str]:
    count = Counter((call.name, call.why) for call in outcome.skipped)
    for (name, why), times in count.items():
        calls = quantity(times, "call")
        yield one_line(f"skipped {calls} of {name}: {' '.join(why.split())}")
    for name, times in outcome.unseen.items():
        yield one_line(f"decided {quantity(times, 'call')} of {name} without its tool's tags")
    decided, proposals = outcome.decided, outcome.proposals
    if propose:
        asked = quantity(proposals.asked, "approval request")
        rules = quantity(len(proposals.rules), "rule")
        yield f"{rules} would avoid {proposals.asked - proposals.left} of {asked}"
        return
    counts = ", ".join(f"{decided[word]} {word}" for word in ("allow", "ask", "deny"))
    calls = quantity(decided.total(), "call")
    yield f"{calls}: {counts}; {len(outcome.changes)} would change"
