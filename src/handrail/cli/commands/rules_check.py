"""`handrail rules check`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Exit
from handrail.cli._base.options import TOOL_OPTIONS
from handrail.cli._base.printable import one_line
from handrail.cli._project.kit import Kit
from handrail.cli._rules.files import (
    RuleFinding,
    check_file,
    check_text,
    read_rules,
    rule_files,
    unreachable_rules,
)
from handrail.cli._rules.wording import place, plain_quantity
from handrail.policy import Rulebook


@as_command("check", "Check rule files for errors and rules that never decide.", *TOOL_OPTIONS)
@click.argument(
    "files",
    metavar="[FILE...]",
    nargs=-1,
    type=click.Path(path_type=Path),
    help="Rule files (default: every rule file that applies here).",
)
def command(app: App, files: tuple[Path, ...]) -> Exit:
    """Check rule files for errors, failing examples and rules that never decide.

    The exit code is 1 if there is a finding.
    """
    _ = app.settings  # report settings problems
    kit = Kit(replace(app, quiet=True))  # rule problems are findings
    checked, findings = (len(files), _check_named(kit, files)) if files else _check_all(kit)
    items = [{**finding._asdict(), "line": finding.line or None} for finding in findings]
    app.print_all("findings", items, _lines(app, findings, checked))
    return Exit.FAILED if findings else Exit.DONE


def _check_named(kit: Kit, files: Sequence[Path]) -> list[RuleFinding]:
    """Check each named file as if it were the user's only rule file."""
    findings: list[RuleFinding] = []
    for path in (kit.app.workspace / name for name in files):
        wrong, read = check_text(read_rules(path), str(path))
        findings += [*wrong, *sorted(unreachable_rules(Rulebook(read.rules), kit.tools.specs))]
    return findings


def _check_all(kit: Kit) -> tuple[int, list[RuleFinding]]:
    """Return how many rule files exist, and the findings in them."""
    files = rule_files(kit.places)
    findings = [finding for file in files for finding in check_file(file)]
    existing = sum(os.path.lexists(file.path) for file in files)
    return existing, [*findings, *sorted(unreachable_rules(kit.rules, kit.tools.specs))]


def _lines(app: App, findings: Sequence[RuleFinding], checked: int) -> list[str]:
    if not findings:
        return [f"no problems in {plain_quantity(checked, 'rule file')}"]
    return [
        line
        for finding in findings
        for line in (
            f"{place(finding.file, finding.line, app.workspace)}: {one_line(finding.message)}",
            f"  {one_line(finding.do)}",
        )
    ]
