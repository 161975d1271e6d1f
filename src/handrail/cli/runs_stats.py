"""`handrail runs stats`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import click

from handrail.approvals import displayed
from handrail.cli._app import App, as_command
from handrail.cli._columns import columns
from handrail.cli._course import CallCourse, Turn, all_calls, course
from handrail.cli._options import run_ids
from handrail.cli._saved import find_run, readable, saved_runs
from handrail.cli._timeline import counted, seconds

_HEADS = ("tool", "calls", "failed", "denied", "median", "p95", "waited", "asked", "outcomes")


@as_command("stats", "Count calls, failures, time and tokens.")
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=run_ids)
@click.option("--here", is_flag=True, help="Only runs of this workspace.")
def command(app: App, *, runs: Sequence[str], here: bool) -> None:
    """Count calls, failures, time and tokens: of some runs, or of all that are saved.

    For each tool: how often it was called, failed and was denied; how long it ran, by the median
    and the 95th percentile; how long its calls waited for others or a place, and for answers.
    """
    saved = [find_run(one) for one in runs] or saved_runs()
    if here:
        whole = readable(saved, app.say)
        saved = [one for one in whole if one.about["workspace"] == str(app.workspace)]
    turns = [turn for run in saved for turn in course(run.journal())]
    told = {"runs": len(saved), **_of_models(turns), "tools": list(_of_tools(turns))}
    app.print(told, _lines(told, app.width))


def _of_models(turns: Sequence[Turn]) -> dict[str, Any]:
    replies = [one for one in turns if one.speaker == "model"]
    return {
        "turns": len(replies),
        "model_seconds": sum(one.seconds for one in replies),
        "tokens": {
            "sent": sum(one.sent for one in replies),
            "received": sum(one.received for one in replies),
            "cached": sum(one.cached for one in replies),
        },
    }


def _of_tools(turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    calls = list(all_calls(turns))
    for name in sorted({one.tool for one in calls}):
        yield _of_tool(name, [one for one in calls if one.tool == name])


def _of_tool(name: str, calls: Sequence[CallCourse]) -> dict[str, Any]:
    outcomes = Counter(one.outcome for one in calls)
    ran = sorted(
        one.seconds("runs") for one in calls if any(span.phase == "runs" for span in one.spans)
    )
    return {
        "tool": name,
        "calls": len(calls),
        "failed": sum(one.failed for one in calls),
        "denied": outcomes["denied"],
        "outcomes": dict(sorted(outcomes.items())),
        "median": median(ran) if ran else None,
        "p95": ran[(len(ran) * 95 - 1) // 100] if ran else None,
        "waited": sum(one.seconds("waits") for one in calls),
        "asked": sum(one.seconds("asks") for one in calls),
    }


def _lines(told: dict[str, Any], width: int | None) -> Iterator[str]:
    tokens, took = told["tokens"], seconds(told["model_seconds"])
    yield f"{counted(told['runs'], 'run')}, {counted(told['turns'], 'turn')}, models took {took}"
    yield (
        f"tokens: {tokens['sent']:,} in ({tokens['cached']:,} of them cached), "
        f"{tokens['received']:,} out"
    )
    if told["tools"]:
        yield ""
        yield from columns([_HEADS, *(_row(one) for one in told["tools"])], width=width)


def _row(tool: dict[str, Any]) -> tuple[str, ...]:
    times = ("-" if tool[one] is None else seconds(tool[one]) for one in ("median", "p95"))
    counts = (str(tool[one]) for one in ("calls", "failed", "denied"))
    waits = (seconds(tool[one]) for one in ("waited", "asked"))
    outcomes = ", ".join(f"{count} {kind}" for kind, count in tool["outcomes"].items())
    return (_shown(tool["tool"]), *counts, *times, *waits, _shown(outcomes))


def _shown(text: str) -> str:
    return displayed(text).text.replace("\n", " ")
