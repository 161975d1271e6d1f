"""A run as one HTML page that needs no network and runs no script."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from difflib import unified_diff
from typing import Any, cast

from handrail.runs.history import CallHistory, CallMoment, PhaseSpan, RunTurn

_WIDTH = 640
"""Units of the widest bar."""
_HEIGHT = 14
_MIN_BAR = 2
_STYLE = """
:root { color-scheme: light dark; --line: #8886; --dim: #777; --run: #2a7ab0; --wait: #c9a227;
 --ask: #a04aa0; --retry: #b0703a; --bad: #c0392b; --good: #2e8b57; --add: #2e8b5726;
 --del: #c0392b26; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 2rem 0 .5rem; padding-top: .75rem;
 border-top: 1px solid var(--line); }
h2 small, .dim { color: var(--dim); font-weight: normal; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .4rem 0; padding: .5rem .7rem;
 border: 1px solid var(--line); border-radius: 4px; font: 13px/1.45 ui-monospace, monospace; }
.call { margin: .6rem 0; padding: .5rem .8rem; border: 1px solid var(--line); border-radius: 6px; }
.head { display: grid; grid-template-columns: 3rem 11rem 1fr 5.5rem 7rem; gap: .6rem;
 align-items: center; }
.head b { overflow-wrap: anywhere; } .time { text-align: right; }
svg { width: 100%; height: 14px; } svg text { font-size: 10px; }
.running { fill: var(--run); } .waiting { fill: var(--wait); } .approval { fill: var(--ask); }
.backoff { fill: var(--retry); } .base { fill: var(--line); }
.bad { color: var(--bad); } .good { color: var(--good); } .ask { color: var(--ask); }
ul { margin: .3rem 0; padding-left: 1.2rem; } li { overflow-wrap: anywhere; }
.add { background: var(--add); display: block; } .del { background: var(--del); display: block; }
summary { cursor: pointer; color: var(--dim); }
.legend { display: flex; gap: 1.2rem; flex-wrap: wrap; margin-top: 2rem; }
.legend svg { width: 14px; vertical-align: -2px; margin-right: .35rem; }
"""
_LEGEND = (
    ("running", "running"),
    ("waiting", "waiting for a call or a free slot"),
    ("approval", "waiting for approval"),
    ("backoff", "waiting for a retry"),
)
_ANSWERS = {"allow": "approved", "deny": "denied", "edit": "edited and approved"}
_MINUTE = 60.0
_HOUR = 3600.0


def render_page(about: Mapping[str, Any], turns: Sequence[RunTurn]) -> str:
    """Return a run as one HTML page.

    Args:
        about: Facts about the run, by name. ``id`` is the title.
        turns: The turns of the run, from ``read_history``.
    """
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = f"Run {_escape(about.get('id', ''))}"
    return "".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            f"<title>{title}</title>\n<style>{_STYLE}</style></head><body>\n",
            f"<h1>{title}</h1>\n{_facts(about)}",
            *_render_turns(turns),
            _legend(),
            "</body></html>\n",
        ]
    )


def _escape(value: object) -> str:
    """Return any value as text for HTML. Control characters are made visible."""
    return html.escape("".join(map(_show, str(value))))


def _show(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return f"\\u{{{ord(character):X}}}"


def _facts(about: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<dt>{_escape(name)}</dt><dd>{_escape(value)}</dd>"
        for name, value in about.items()
        if name != "id" and value not in ("", None)
    )
    return f"<dl>{rows}</dl>\n"


def _legend() -> str:
    items = "".join(
        f'<span><svg viewBox="0 0 14 14"><rect class="{phase}" width="14" height="14"/></svg>'
        f"{text}</span>"
        for phase, text in _LEGEND
    )
    return f'<p class="legend">{items}</p>\n'


def _render_turns(turns: Sequence[RunTurn]) -> Iterator[str]:
    calls = {call.id: call for turn in turns for call in turn.calls}
    start = turns[0].at if turns else 0.0
    number = 0
    for turn in turns:
        number += turn.speaker == "model"
        name = {"model": f"Turn {number}", "person": "Prompt"}.get(turn.speaker, "Calls")
        yield f"<h2>{name} <small>{_escape(_describe(turn, start))}</small></h2>\n"
        if turn.text:
            yield f"<pre>{_escape(turn.text)}</pre>\n"
        first = min((call.began for call in turn.calls), default=0.0)
        last = max((call.ended for call in turn.calls), default=0.0)
        for call in turn.calls:
            yield _render_call(call, first, last, calls)


def _describe(turn: RunTurn, start: float) -> str:
    when = datetime.fromtimestamp(turn.at, UTC).isoformat(sep=" ", timespec="seconds")
    parts = [f"+{_seconds(turn.at - start)}", when]
    if turn.speaker == "model":
        tokens = f"{turn.input_tokens:,} tokens in, {turn.output_tokens:,} out"
        parts += [turn.model, f"model took {_seconds(turn.seconds)}", tokens]
    return " · ".join(filter(None, parts))


def _seconds(amount: float) -> str:
    if amount < 1:
        return f"{amount * 1000:.0f} ms"
    if amount < _MINUTE:
        return f"{amount:.2f} s"
    if amount < _HOUR:
        return f"{amount / _MINUTE:.1f} min"
    return f"{amount / _HOUR:.1f} h"


def _render_call(
    call: CallHistory, first: float, last: float, calls: Mapping[str, CallHistory]
) -> str:
    good = "good" if call.kind == "" else "bad" if call.failed else "ask"
    outcome = f'<span class="{good}">{_escape(call.outcome)}</span>'
    bar = _bar(call, first, max(last - first, 1e-9))
    took = f'<span class="time">{_seconds(call.ended - call.began)}</span>'
    name = f'<span class="dim">#{call.number}</span><b>{_escape(call.tool)}</b>'
    return "".join(
        [
            f'<div class="call"><div class="head">{name}{bar}{took}{outcome}</div>\n',
            _list([*_reasons(call, calls), *(_moment(moment) for moment in call.moments)]),
            _arguments(call.args, [moment.diff for moment in call.moments if moment.diff]),
            _details("result", call.text),
            "</div>\n",
        ]
    )


def _bar(call: CallHistory, first: float, whole: float) -> str:
    def place(at: float) -> float:
        return round((at - first) / whole * _WIDTH, 2)

    def rectangle(kind: str, start: float, end: float, inset: int) -> str:
        left, wide = place(start), max(_MIN_BAR, place(end) - place(start))
        left = min(left, _WIDTH - wide)
        size = f'x="{left}" y="{inset}" width="{wide}" height="{_HEIGHT - 2 * inset}"'
        return f'<rect class="{kind}" {size}/>'

    spans = [rectangle("base", call.began, call.ended, 6)]
    spans += [rectangle(span.phase, span.start, span.end, 1) for span in call.spans]
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none">{"".join(spans)}</svg>'
    )


def _reasons(call: CallHistory, calls: Mapping[str, CallHistory]) -> Iterator[str]:
    """Yield why a call waited."""
    for span in call.spans:
        if span.phase == "waiting":
            yield f"waited {_seconds(span.seconds)} for {_blockers(span, calls)}"
        elif span.phase == "approval" and not span.closed:
            yield f"waiting for approval for {_seconds(span.seconds)}"


def _blockers(span: PhaseSpan, calls: Mapping[str, CallHistory]) -> str:
    known = [calls[call_id] for call_id in span.why if call_id in calls]
    names = [f"#{call.number} {call.tool}" for call in known]
    names += ["a call that is not in the journal"] * (len(known) < len(span.why))
    return ", ".join(names) or "a free slot"


def _moment(moment: CallMoment) -> str:
    by = f" by {moment.origin}" if moment.origin else ""
    text = f": {moment.text}" if moment.text else ""
    took = _seconds(moment.seconds)
    return {
        "decided": f"decision: {moment.word}{by}{text}",
        "asked": f"approval requested{by}{text}",
        "answered": f"{_ANSWERS.get(moment.word, 'answered')} after {took}{text}",
        "attempt": f"attempt failed ({moment.word}), retried after {took}{text}",
    }[moment.what]


def _list(items: Iterable[str]) -> str:
    rows = "".join(f"<li>{_escape(item)}</li>" for item in items)
    return f"<ul>{rows}</ul>" if rows else ""


def _arguments(args: Any, diffs: Sequence[str]) -> str:
    """Return arguments and diffs: those that a person saw, or else one of the arguments."""
    return "".join([_details("arguments", _format(args)), *map(_diff, diffs or _edits(args))])


def _format(args: Any) -> str:
    value = _parse(args)
    if isinstance(value, str) or value is None:
        return value or ""
    return json.dumps(value, indent=2, ensure_ascii=False, default=repr)


def _edits(args: Any) -> Iterator[str]:
    """Yield a diff of arguments that replace a text with another one."""
    value = _parse(args)
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        before, after = fields.get("old_string"), fields.get("new_string")
        if isinstance(before, str) and isinstance(after, str):
            yield "\n".join(_compare(before, after))


def _parse(args: Any) -> Any:
    """Return arguments as a value, if they are JSON text."""
    try:
        return json.loads(args) if isinstance(args, str) else args
    except (ValueError, RecursionError):
        return args


def _compare(before: str, after: str) -> Iterator[str]:
    return unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")


def _diff(text: str) -> str:
    lines = (_diff_line(line) for line in text.splitlines())
    return f"<details open><summary>changes</summary><pre>{''.join(lines)}</pre></details>\n"


def _diff_line(line: str) -> str:
    kind = None if line.startswith(("+++ ", "--- ")) else {"+": "add", "-": "del"}.get(line[:1])
    return f'<span class="{kind}">{_escape(line)}</span>' if kind else f"{_escape(line)}\n"


def _details(name: str, text: str) -> str:
    if not text:
        return ""
    return f"<details><summary>{name}</summary><pre>{_escape(text)}</pre></details>\n"
