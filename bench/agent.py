"""What a run of the agent loop costs beside a bare gather of its calls, in instructions."""

from __future__ import annotations

import sys

from definition import Row
from execution import HERE, counts_of

HELD = {
    "run 0": ("a run without a call", 3.1),
    "run 1": ("a run with one call", 7.2),
    "streamed 1": ("a run with one call, streamed", 10.6),
    "saved 1": ("a run with one call, saved", 14.5),
    "own 1": ("a run with one call, executor made", 10.3),
}
"""What each way to run may cost, in bare gathers of one call."""
MAX_MORE = 3.4
"""What one more call may cost, in calls of a bare gather. A batch of the executor may cost 3."""


def rows() -> list[Row]:
    """Runs with one call or none, and what each further call adds. The model's part is left out."""
    cost = counts_of([sys.executable, str(HERE / "counted_agent.py")])
    bare = cost["gather 1"]
    made = [
        _row(
            what,
            cost[kind] - cost["streaming model" if kind == "streamed 1" else "model"],
            bare,
            most,
        )
        for kind, (what, most) in HELD.items()
    ]
    for few, many in ((1, 10), (10, 100)):
        more = (cost[f"run {many}"] - cost[f"run {few}"]) / (many - few)
        each = (cost[f"gather {many}"] - cost[f"gather {few}"]) / (many - few)
        made.append(_row(f"one more call in a run, {few} to {many}", more, each, MAX_MORE))
    return made


def _row(what: str, ours: float, bare: float, most: float) -> Row:
    return Row(what, ours, bare, "kIr", f"ratio {ours / bare:.2f} <= {most:g}", ours <= most * bare)
