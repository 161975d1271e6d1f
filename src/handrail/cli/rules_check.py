"""`handrail rules check`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from handrail.cli._app import App, as_command
from handrail.cli._exits import Exit
from handrail.cli._kit import Kit
from handrail.cli._options import JUDGED
from handrail.cli._rules_files import (
    Finding,
    dead_in,
    read_rules,
    rule_files,
    wrong_in,
    wrong_with,
)
from handrail.cli._rules_told import counted, one_line, place
from handrail.policy import Rulebook


@as_command("check", "Check rule files: examples, and rules that never decide.", *JUDGED)
@click.argument("files", metavar="[FILE...]", nargs=-1, type=click.Path(path_type=Path))
def command(app: App, files: tuple[Path, ...]) -> Exit:
    """Check rule files: examples that do not hold, and rules that never decide.

    Without a FILE, all files are checked that count here. The exit code is 1 where something is
    wrong.
    """
    _ = app.settings  # what is wrong with them is said
    kit = Kit(replace(app, quiet=True))  # what is wrong with rules is found below
    looked, found = (len(files), _named(kit, files)) if files else _counting(kit)
    items = [{**one._asdict(), "line": one.line or None} for one in found]
    app.print_all("findings", items, _lines(app, found, looked))
    return Exit.FAILED if found else Exit.DONE


def _named(kit: Kit, files: Sequence[Path]) -> list[Finding]:
    """Files by name, each as if it were the user's own and the only one."""
    found: list[Finding] = []
    for path in (kit.app.workspace / one for one in files):
        wrong, read = wrong_in(read_rules(path), str(path))
        found += [*wrong, *sorted(dead_in(Rulebook(read.rules), kit.tools.specs))]
    return found


def _counting(kit: Kit) -> tuple[int, list[Finding]]:
    """The files that count: how many there are, and what is wrong with them."""
    files = rule_files(kit.places)
    found = [finding for file in files for finding in wrong_with(file)]
    there = sum(os.path.lexists(file.path) for file in files)
    return there, [*found, *sorted(dead_in(kit.rules, kit.tools.specs))]


def _lines(app: App, found: Sequence[Finding], looked: int) -> list[str]:
    if not found:
        return [f"nothing is wrong with {counted(looked, 'rule file')}"]
    return [
        line
        for one in found
        for line in (
            f"{place(one.file, one.line, app.workspace)}: {one_line(one.message)}",
            f"  {one_line(one.do)}",
        )
    ]
