"""A turn's results, while calls run in the background."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from handrail._turn.turn import Turn
from handrail._values.result import Result


async def first_results(turn: Turn[Any]) -> list[Result]:
    """Return a turn's results, in call order, without waiting for calls in the background.

    Their results say so. ``Turn.background`` then has their ids.
    """
    if not turn.tools.has_background:
        return await turn.results()
    found: list[Result] = []
    for record in sorted(turn.records, key=attrgetter("position")):
        await record.wait_begun()
        if record.nth == 1 and record.goes_on:
            turn.background = (*turn.background, record.call.id)
            found.append(Result(record.call.id, _STARTED.format(record.call.id)))
        else:
            found.append(await turn.result_of(record))
    return found


_STARTED = (
    "Started in the background, as {!r}. Its result comes in a later message: do not call it again "
    "to get it. Continue with other work; if there is none, end your turn."
)
