"""`handrail runs`: summarize and export runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any, cast

import click

from handrail._support import format_duration
from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command, as_json
from handrail.cli._base.columns import columns, quantity
from handrail.cli._base.exits import CONSOLE_PACKAGES, Halt, need_packages
from handrail.cli._base.new_file import write_new_file
from handrail.cli._base.options import DATABASE, RUN, RUNS
from handrail.cli._base.printable import safe
from handrail.cli._base.redact import redact_setting
from handrail.cli._runs.saved import readable_runs, run_ids
from handrail.cli._runs.stores import StoredRun, open_store
from handrail.runs import verify
from handrail.runs.history import (
    CallHistory,
    RunTurn,
    TokenShare,
    TokenSum,
    all_calls,
    read_history,
    share_tokens,
    sum_tokens,
)
from handrail.runs.records import BudgetUse

_HEADS = ("tool", "calls", "failed", "denied", "median", "p95", "waited", "approval", "outcomes")
_TOKENS = TokenSum._fields[:3]
_NO_CALL = "(no call)"
_KEPT = frozenset(
    """
    answer api began call call_id command decision effect ended event fingerprint id inner kind
    model pending stop tool truncated_call type
    """.split()
)
"""Text kept in a redacted run: names, IDs, rules, times and outcomes."""
_KEPT_WHOLE = frozenset({"calls", "given", "on", "origin"})
"""Values kept whole in a redacted run: call IDs, setting names, and rule origins."""


@as_command("stats", "Summarize calls, failures, durations, tokens and cost.", DATABASE)
@click.argument(
    "runs",
    nargs=-1,
    metavar="[RUN]...",
    shell_complete=run_ids,
    help=RUNS,
)
@click.option("--here", is_flag=True, help="Include only runs of this workspace.")
def stats(app: App, *, runs: Sequence[str], here: bool) -> None:
    """Summarize calls, failures, durations, tokens and cost.

    For each tool: calls, failed and denied calls; run time as median and 95th percentile; time
    spent waiting for other calls or a free slot, and for approval. For each model and each tool:
    tokens, and their cost at list prices. The tokens of a reply are divided equally among its
    calls. For each budget: what is spent in the current window.
    """
    store = open_store(app)
    saved = [store.find(name) for name in runs] or store.list()
    if here:
        readable = readable_runs(saved, app.say)
        saved = [run for run in readable if run.about["workspace"] == str(app.workspace)]
    turns = [turn for run in saved for turn in read_history(run.lines())]
    shares = share_tokens(turns)
    document = {
        "runs": len(saved),
        **_of_replies(turns),
        "cost": sum_tokens(shares).cost,
        "models": [_of_model(name, shares) for name in sorted({one.model for one in shares})],
        "tools": list(_of_tools(turns, shares)),
        "without_calls": sum_tokens(one for one in shares if not one.tool)._asdict(),
        "budgets": [_of_budget(one) for one in store.journal.budgets()],
    }
    app.print(document, _summary_lines(document, app.width))


def _of_budget(use: BudgetUse) -> dict[str, Any]:
    return {
        "budget": use.budget,
        "holder": use.holder,
        "unit": use.unit,
        **{name: f"{getattr(use, name):f}" for name in ("spent", "reserved", "limit")},
        "ends": use.ends,
        "parts": {part: f"{spent:f}" for part, spent in use.parts.items()},
    }


def _of_replies(turns: Sequence[RunTurn]) -> dict[str, Any]:
    replies = [turn for turn in turns if turn.speaker == "model"]
    return {
        "turns": len(replies),
        "model_seconds": sum(reply.seconds for reply in replies),
        "tokens": {
            name: sum(getattr(reply, name) for reply in replies) for name in sorted(_TOKENS)
        },
    }


def _of_model(name: str, shares: Sequence[TokenShare]) -> dict[str, Any]:
    own = [one for one in shares if one.model == name]
    return {
        "model": name,
        "replies": round(sum(one.replies for one in own)),
        **sum_tokens(own)._asdict(),
    }


def _of_tools(turns: Sequence[RunTurn], shares: Sequence[TokenShare]) -> Iterator[dict[str, Any]]:
    calls = list(all_calls(turns))
    for name in sorted({call.tool for call in calls}):
        own = [one for one in shares if one.tool == name]
        yield (
            _of_tool(name, [call for call in calls if call.tool == name])
            | sum_tokens(own)._asdict()
        )


def _of_tool(name: str, calls: Sequence[CallHistory]) -> dict[str, Any]:
    outcomes = Counter(call.outcome for call in calls)
    ran = sorted(
        call.seconds("running")
        for call in calls
        if any(span.phase == "running" for span in call.spans)
    )
    return {
        "tool": name,
        "calls": len(calls),
        "failed": sum(call.failed for call in calls),
        "denied": outcomes["denied"],
        "outcomes": dict(sorted(outcomes.items())),
        "median": median(ran) if ran else None,
        "p95": ran[(len(ran) * 95 - 1) // 100] if ran else None,
        "waited": sum(call.seconds("waiting") for call in calls),
        "asked": sum(call.seconds("approval") for call in calls),
        "result_chars": sum(call.chars for call in calls),
    }


def _summary_lines(document: dict[str, Any], width: int | None) -> Iterator[str]:
    tokens, took = document["tokens"], format_duration(document["model_seconds"])
    runs, turns = quantity(document["runs"], "run"), quantity(document["turns"], "turn")
    yield f"{runs}, {turns}, model time {took}"
    yield (
        f"tokens: {tokens['input_tokens']:,} input ({tokens['cached_tokens']:,} cached), "
        f"{tokens['output_tokens']:,} output; cost: {_money(document['cost'])}"
    )
    if document["tools"]:
        yield ""
        yield from columns([_HEADS, *(_tool_row(tool) for tool in document["tools"])], width=width)
    if document["models"]:
        yield from ("", *columns(list(_model_rows(document)), width=width))
        yield from ("", *columns(list(_token_rows(document)), width=width))
    if document["budgets"]:
        yield from ("", *columns(list(_budget_rows(document)), width=width))


def _budget_rows(document: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield "budget", "of", "spent", "reserved", "limit", "unit", "by model or tool"
    for one in document["budgets"]:
        parts = ", ".join(f"{part or '-'} {spent}" for part, spent in one["parts"].items())
        amounts = (one[name] for name in ("spent", "reserved", "limit"))
        names = (_safe(one["budget"]), _safe(one["holder"]) or "-")
        yield (*names, *amounts, one["unit"], _safe(parts))


def _model_rows(document: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield "model", "replies", "input", "cached", "output", "cost"
    for one in document["models"]:
        yield (_safe(one["model"]) or "-", str(one["replies"]), *_numbers(one))


def _token_rows(document: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield "tokens by tool", "results", "input", "cached", "output", "cost"
    for one in document["tools"]:
        yield (_safe(one["tool"]), f"{one['result_chars']:,} chars", *_numbers(one))
    yield (_NO_CALL, "-", *_numbers(document["without_calls"]))


def _numbers(one: dict[str, Any]) -> tuple[str, ...]:
    return (*(f"{one[name]:,}" for name in _TOKENS), _money(one["cost"]))


def _money(cost: str | None) -> str:
    return "unknown" if cost is None else f"${cost}"


def _tool_row(tool: dict[str, Any]) -> tuple[str, ...]:
    times = ("-" if tool[key] is None else format_duration(tool[key]) for key in ("median", "p95"))
    counts = (str(tool[key]) for key in ("calls", "failed", "denied"))
    waits = (format_duration(tool[key]) for key in ("waited", "asked"))
    outcomes = ", ".join(f"{count} {kind}" for kind, count in tool["outcomes"].items())
    return (_safe(tool["tool"]), *counts, *times, *waits, _safe(outcomes))


def _safe(text: str) -> str:
    return make_printable(text).text.replace("\n", " ")


@as_command("export", "Export a run as JSON, or as a page to read.", DATABASE)
@click.argument("run", metavar="RUN", shell_complete=run_ids, help=RUN)
@click.option("--to", metavar="FILE", help="Write to FILE, which must not exist.")
@click.option(
    "--redact", is_flag=True, help="Replace every text and argument with a digest and a length."
)
@click.option(
    "--html",
    is_flag=True,
    help="Export a page to read: timeline, calls, decisions and diffs. It needs no network to "
    "open, and `handrail[console]` to make.",
)
def export(app: App, *, run: str, to: str | None, redact: bool, html: bool) -> None:
    """Export a run as one JSON document: metadata, state and journal. Or as one HTML page.

    Without --to, the document goes to stdout, whatever --output is. Load its state with
    handrail.agent.load_state.
    """
    if html and redact:
        raise click.UsageError("`--redact` is for JSON; a page has the text")
    saved = open_store(app).find(run)
    text = _make_page(saved) if html else _make_json(app, saved, redact=redact)
    if to is None:
        click.echo(text, nl=False)
        return
    path = app.workspace / Path(to).expanduser()
    size = write_new_file(path, text, "choose another file with `--to`")
    app.print({"id": saved.id, "to": str(path), "bytes": size}, [safe(str(path))])


def _make_json(app: App, saved: StoredRun, *, redact: bool) -> str:
    whole: dict[str, Any] = {"handrail": 1, "redacted": redact, **_parts(saved)}
    document: dict[str, Any] = _redact(whole) if redact else whole
    document["about"] |= saved.standing._asdict()
    return f"{as_json(document, indent=None if app.output == 'jsonl' else 2)}\n"


def _make_page(saved: StoredRun) -> str:
    need_packages("--html", *CONSOLE_PACKAGES, extra="console")
    from handrail.console import export_run

    about, head = saved.about, saved.head
    broken = verify(saved.journal, saved.id)
    chain = f"broken at entry {broken.number}: {broken.reason}" if broken else "whole"
    facts = {name: str(about[name]) for name in ("workspace", "command") if about[name]}
    facts["journal"] = f"{head.entries} entries, {chain}, {head.digest}"
    with closing(saved.journal.records()) as records:
        return export_run(records, saved.id, saved.lines(), facts)


def _parts(saved: StoredRun) -> dict[str, Any]:
    about = saved.about
    settings = {name: redact_setting(name, value) for name, value in about["settings"].items()}
    return {
        "about": {**about, "settings": settings},
        "state": _state(saved),
        "journal": [line for line in saved.lines() if line["event"] != "status"],
    }


def _state(saved: StoredRun) -> Any:
    """Return a run's state, or None if it cannot be read."""
    from handrail.agent import dump_state

    try:
        return json.loads(dump_state(saved.state()))
    except Halt:
        return None


def _redact(value: Any, key: str = "") -> Any:
    """Return a value without text, except known harmless text."""
    if key in _KEPT_WHOLE:
        return value
    if key == "args" or (isinstance(value, str) and key not in _KEPT):
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return {"sha256": digest, "chars": len(text)}
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {name: _redact(part, name) for name, part in named.items()}
    if isinstance(value, list):
        return [_redact(part) for part in cast("list[object]", value)]
    return value
