"""One table of what things cost: us, the limit, what it is held to. Fails where it is not.

Names of parts choose some of them: `python bench/run.py execution` has those that are counts. `adapters` runs only by its name,
since it needs an environment for each framework.
"""

from __future__ import annotations

import sys

import adapters
import agent
import chat
import cli
import definition
import durable
import execution
import files
import judgement
import mcp_calls
import models
import programs
import sandbox
import search
import terminal
import undo
import web


def main() -> int:
    """Measure, print, and say by the exit code whether every row holds."""
    failed = 0
    wanted = sys.argv[1:]
    print(f"{'what':44} {'ours':>10} {'limit':>10}  {'unit':10}  held to")
    parts = (
        definition,
        execution,
        agent,
        models,
        judgement,
        files,
        search,
        undo,
        sandbox,
        web,
        mcp_calls,
        cli,
        terminal,
        chat,
        durable,
        programs,
    )
    names = {part.__name__.removesuffix("_calls"): part for part in (*parts, adapters)}
    every = [name for name, part in names.items() if part is not adapters]
    chosen = [part for name, part in names.items() if name in (wanted or every)]
    for row in (row for part in chosen for row in part.rows()):
        failed += not row.ok
        held = row.held if row.ok else f"{row.held}  NOT HELD"
        print(
            f"{row.what:44} {row.ours:10.2f} {row.limit:10.2f}  {row.unit:10}  {held}", flush=True
        )
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
