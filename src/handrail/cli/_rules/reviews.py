"""Recorded requests that a second model may answer, put to it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from handrail import Access, Ask, Call, CheckedCall, Effect, Toolset
from handrail._support import is_list
from handrail.approvals import defer, reviewed_by
from handrail.cli._base.printable import one_line
from handrail.cli._rules.recorded_calls import call_in, read_after, read_sources
from handrail.messages import Model
from handrail.permissions import Grade, Pending
from handrail.policy import Rulebook

_MAX_ARGS_CHARS = 100


@dataclass(frozen=True, slots=True)
class ReplayedReview:
    """A recorded request, and what a model says about it now."""

    tool: str
    args: str
    was: str
    """The recorded answer, and who gave it; empty without one."""
    verdict: str
    """``allow`` or ``ask``; ``person`` if the rules no longer allow a review."""
    reason: str

    def __str__(self) -> str:
        was = f" (was: {self.was})" if self.was else ""
        reason = f": {self.reason}" if self.reason else ""
        return one_line(f"{self.verdict}  {self.tool} {self.args}{was}{reason}")


async def replay_reviews(
    lines: Iterable[Mapping[str, Any]], tools: Toolset, rules: Rulebook, model: Model
) -> list[ReplayedReview]:
    """Ask a model about the recorded requests that these rules let it answer."""
    reviewer = reviewed_by(model, then=defer, max_reviews=1_000_000)
    done: list[ReplayedReview] = []
    for pending, after, was in read_requests(lines, tools):
        spec = tools[pending.call.name].spec
        checked = CheckedCall.recorded(
            pending.call, spec, pending.accesses, pending.sources, after=after
        )
        decision = rules(checked)
        may = isinstance(decision, Ask) and decision.review and not decision.once
        review = await reviewer.review(replace(pending, review=may))
        verdict, reason = ("person", "") if review is None else (review.verdict, review.reason)
        args = str(pending.call.args)[:_MAX_ARGS_CHARS]
        done.append(ReplayedReview(pending.call.name, args, was, verdict, reason))
    return done


def read_requests(
    lines: Iterable[Mapping[str, Any]], tools: Toolset
) -> Iterator[tuple[Pending, Mapping[str, str], str]]:
    """Yield each recorded request that a model could answer: what came before, and its answer."""
    calls: dict[str, Call] = {}
    accesses: dict[str, Any] = {}
    before: dict[str, Mapping[str, str]] = {}
    found: dict[str, tuple[Pending, Mapping[str, str]]] = {}
    answers: dict[str, str] = {}
    for line in lines:
        name, request = str(line.get("call_id")), str(line.get("pending"))
        match line.get("event"):
            case "requested":
                calls[name] = call_in(line, line.get("tool"), name)
            case "decided":
                accesses[name], before[name] = line.get("accesses"), read_after(line)
                calls[name] = call_in(line, line["tool"], name) if "tool" in line else calls[name]
            case "asked" if "said" in line and name in calls and calls[name].name in tools:
                asked = _make_pending(line, calls[name], accesses.get(name), tools)
                found[request] = asked, before.get(name, {})
            case "answered":
                by = f" by {line['by']}" if line.get("by") else ""
                answers[request] = f"{line.get('answer')}{by}"
            case _:
                pass
    yield from ((*one, answers.get(request, "")) for request, one in found.items())


def _make_pending(line: Mapping[str, Any], call: Call, accesses: Any, tools: Toolset) -> Pending:
    args = call.args if isinstance(call.args, str) else json.dumps(dict(call.args))
    said = line["said"] if is_list(line["said"]) else []
    touched = [one for one in accesses or () if len(one) == 2]  # noqa: PLR2004  verb and resource
    return Pending(
        run_id="replay",
        turn_id="",
        key=call.id,
        position=0,
        round=0,
        call=Call(call.name, args, call.id),
        effect=tools[call.name].spec.effect,
        accesses=tuple([Access(Effect[verb.upper()], what) for verb, what in touched]),
        question=str(line.get("question") or "?"),
        fingerprint="",
        asked_at=0.0,
        expires_at=0.0,
        grade=Grade[str(line.get("grade", "loses")).upper()],
        sources=read_sources(line),
        review=True,
        said=tuple(map(str, said)),
    )
