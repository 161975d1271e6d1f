"""What a run of the agent loop costs beside a bare gather of its calls, in instructions."""

from __future__ import annotations

import sys

from definition import Row
from execution import HERE, counts_of


def rows() -> list[Row]:
    """A run with one call, what each further call adds, and what other ways to run it cost."""
    cost = counts_of([sys.executable, str(HERE / "counted_agent.py")])
    model, bare = cost["model"], cost["gather 1"]
    ours = cost["run 1"] - model
    said = f"ratio {ours / bare:.2f} <= 1, and the model's {model:.1f}"
    made = [Row("a run with one call", ours, bare, "kIr", said, ours <= bare)]
    for few, many in ((1, 10), (10, 100)):
        more = (cost[f"run {many}"] - cost[f"run {few}"]) / (many - few)
        each = (cost[f"gather {many}"] - cost[f"gather {few}"]) / (many - few)
        held = few > 1  # from one to ten, the batch itself comes in
        said = f"ratio {more / each:.2f}" + (" <= 2" if held else "")
        what = f"one more call in a run, {few} to {many}"
        made.append(Row(what, more, each, "kIr", said, not held or more <= 2 * each))
    for kind, what in (
        ("run 0", "a run without a call"),
        ("streamed 1", "a run with one call, streamed"),
        ("saved 1", "a run with one call, saved"),
        ("own 1", "a run with one call, executor made"),
    ):
        ours = cost[kind] - model
        made.append(Row(what, ours, bare, "kIr", f"ratio {ours / bare:.2f}", ok=True))
    return made
