"""Answers that come later: handed in together, as a host would that kept the questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from handrail import Executor, FailureKind, Result
from handrail.permissions import Answer, Pending


async def resume(
    executor: Executor, some: Iterable[Pending], answers: Mapping[str, Answer]
) -> list[Result]:
    """What becomes of each of these, in the order given; those without an answer wait on."""
    some = list(some)
    turn = executor.turn(some[0].turn_id, run=some[0].run_id)
    turn.adopt(*some)
    for one in some:
        if one.id in answers or not one.question:
            turn.answer(one, answers.get(one.id))
    await turn.results()
    return [await turn.result(one.call.id) if one.call.id in turn else _waits(one) for one in some]


def _waits(pending: Pending) -> Result:
    return Result.fail(pending.call.id, FailureKind.PENDING, "")._replace(pending=pending)
