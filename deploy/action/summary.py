"""The summary of a run, as Markdown in which all text of others is in code blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from job import clip, printable

MAX_TEXT_CHARS = 60_000
"""Characters of one text. GitHub shows at most 1 MiB for a step."""
MAX_DENIALS = 20
MAX_PATHS = 200
OUTCOMES = {
    0: "finished",
    1: "failed",
    2: "did not start",
    3: "finished, but calls were denied",
    4: "waiting for approval",
    5: "reached a limit",
    6: "could not reach the model, or the provider rejected the request",
    130: "interrupted",
    143: "ended by SIGTERM",
}
"""What each exit code of `handrail run` says."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a run left, without secrets."""

    code: int
    run: dict[str, Any] | None
    """The document of `handrail run --json`."""
    error: dict[str, Any] | None
    """The error on stderr."""
    cost: str | None
    """US dollars at list prices."""
    changed: list[str]
    """Paths that tools and commands changed."""


def summarize(report: Report) -> str:
    """Return the summary."""
    return "\n".join([*_lines(report), ""])


def _lines(report: Report) -> Iterator[str]:
    yield f"## handrail run: {OUTCOMES.get(report.code, 'ended')} (exit code {report.code})\n"
    if report.error:
        text = f"{report.error['message']}\n{report.error['hint']}".strip()
        yield from _section("Error", text)
    run = report.run
    if run is None:
        return
    if run["why"] and not report.error:
        yield from _section("Reason", run["why"])
    yield from _section("Answer", run["answer"] or "(none)")
    yield from _figures(run, report.cost)
    yield from _denials(run["denials"])
    if run["pending"]:
        waiting = [f"{one['tool']} {one['args']}\n{one['question']}" for one in run["pending"]]
        yield from _section("Waiting for approval", "\n\n".join(waiting))
    if report.changed:
        paths = [repr(path) if "\n" in path else path for path in report.changed]
        yield from _section(f"Changed files ({len(paths)})", _list(paths, MAX_PATHS))


def _figures(run: dict[str, Any], cost: str | None) -> Iterator[str]:
    usage = run["usage"]
    counts = [run["turns"], run["calls"], usage["input_tokens"], usage["output_tokens"]]
    shown = f"${float(cost):.4f}" if cost is not None else "not known"
    yield "| turns | calls | tokens in | tokens out | cost at list prices |"
    yield "|---|---|---|---|---|"
    yield f"| {' | '.join(f'{int(one):,}' for one in counts)} | {shown} |\n"


def _denials(denials: list[dict[str, Any]]) -> Iterator[str]:
    if not denials:
        return
    yield f"### Denied calls ({len(denials)})\n"
    for one in denials[:MAX_DENIALS]:
        often = f" ({one['times']} times)" if one["times"] > 1 else ""
        allow = one["allow"]
        advice = [] if allow else [one["advice"]]
        yield fence("\n".join([f"{one['tool']} {one['args']}{often}", one["why"], *advice]))
        if allow:
            yield "To allow it, add this rule to the file of the input `rules-file`:\n"
            yield fence(allow["rule"])
    if len(denials) > MAX_DENIALS:
        yield f"{len(denials) - MAX_DENIALS} more are in the JSON of the run.\n"


def _list(items: list[str], most: int) -> str:
    more = [f"[{len(items) - most} more]"] if len(items) > most else []
    return "\n".join([*items[:most], *more])


def _section(title: str, text: str) -> Iterator[str]:
    yield f"### {title}\n"
    yield fence(text)


def fence(text: str) -> str:
    """Return text as a code block that no line of it can close."""
    shown = clip(printable(text).rstrip("\n"), MAX_TEXT_CHARS)
    longest = max(map(len, re.findall("`+", shown)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}text\n{shown}\n{marks}\n"
