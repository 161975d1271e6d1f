"""`handrail rules`: list, check and forget rules."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns, quantity
from handrail.cli._base.exits import Exit, Halt
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
    why_unusable,
)
from handrail.cli._rules.wording import describe_rule, in_words, place
from handrail.policy import InvalidRule, Level, Rulebook


@as_command("list", "List the rules that apply, with file and line.", *TOOL_OPTIONS)
@click.option("--all", "every", is_flag=True, help="Include built-in rules.")
@click.option("--remembered", is_flag=True, help="Show only remembered approvals.")
def list_rules(app: App, *, every: bool, remembered: bool) -> Exit:
    """List the rules that apply, with file and line.

    The order is that in which they decide: deny, then ask, then allow. To forget a remembered
    approval, pass its ID to `handrail rules forget`.
    """
    book = Kit(app).rules
    rules = book.rules
    shown = [
        rule
        for rule in rules
        if (every or rule.level is not Level.BUILT_IN) and (rule.remembered or not remembered)
    ]
    items = [describe_rule(rule) for rule in shown]
    app.print_all("rules", items, _rule_lines(app, items))
    built_in = len([rule for rule in rules if rule.level is Level.BUILT_IN])
    if built_in and not every and not remembered:
        app.say(f"{built_in} built-in rules are not shown; list them with `--all`")
    return Exit.FAILED if why_unusable(book) else Exit.DONE


def _rule_lines(app: App, items: Sequence[dict[str, Any]]) -> list[str]:
    return (
        list(columns([_rule_row(app, rule) for rule in items], width=app.width))
        if items
        else ["no rules"]
    )


def _rule_row(app: App, rule: dict[str, Any]) -> tuple[str, ...]:
    until = ""
    if rule["expires"] is not None:
        word = "expired on" if rule["expired"] else "until"
        until = f" {word} {rule['expires'][:10]}"
    level = "remembered" if rule["remembered"] else rule["level"]
    return (
        rule["decides"],
        one_line(rule["id"]),
        level,
        f"{place(rule['file'], rule['line'], app.workspace)}{until}",
        one_line(in_words(rule["names"])),
    )


@as_command("check", "Check rule files for errors and rules that never decide.", *TOOL_OPTIONS)
@click.argument(
    "files",
    metavar="[FILE...]",
    nargs=-1,
    type=click.Path(path_type=Path),
    help="Rule files (default: every rule file that applies here).",
)
def check_rules(app: App, files: tuple[Path, ...]) -> Exit:
    """Check rule files for errors, failing examples and rules that never decide.

    The exit code is 1 if there is a finding.
    """
    _ = app.settings  # report settings problems
    kit = Kit(replace(app, quiet=True))  # rule problems are findings
    checked, findings = (len(files), _check_named(kit, files)) if files else _check_all(kit)
    items = [{**finding._asdict(), "line": finding.line or None} for finding in findings]
    app.print_all("findings", items, _finding_lines(app, findings, checked))
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


def _finding_lines(app: App, findings: Sequence[RuleFinding], checked: int) -> list[str]:
    if not findings:
        return [f"no problems in {quantity(checked, 'rule file')}"]
    return [
        line
        for finding in findings
        for line in (
            f"{place(finding.file, finding.line, app.workspace)}: {one_line(finding.message)}",
            f"  {one_line(finding.do)}",
        )
    ]


@as_command("forget", "Forget a remembered approval.")
@click.argument("rule_ids", metavar="ID...", nargs=-1, required=True, help="IDs of approvals.")
def forget_rules(app: App, rule_ids: tuple[str, ...]) -> None:
    """Forget remembered approvals. The calls need approval again.

    List the IDs with `handrail rules list --remembered`. To remove a rule that you wrote, edit its
    file.
    """
    kit = Kit(app)
    wanted = list(dict.fromkeys(rule_ids))
    stored = {rule.origin.rule: rule for rule in kit.rules.rules if rule.remembered}
    missing = next((rule_id for rule_id in wanted if rule_id not in stored), None)
    try:
        kit.memory.remembered()  # raises if a file is invalid, before any change
        if missing is not None:
            raise Halt(
                f"no remembered approval has the ID {one_line(missing)!r}",
                code="no_rule",
                hint="list the IDs with `handrail rules list --remembered`",
            )
        for rule_id in wanted:
            kit.memory.forget(rule_id)
    except InvalidRule as error:
        raise Halt(
            str(error), code="rules", hint="run `handrail rules check` to see all problems"
        ) from None
    forgotten = [stored[rule_id] for rule_id in wanted]
    app.print_all(
        "forgotten",
        [describe_rule(rule) for rule in forgotten],
        (
            f"forgot {rule.origin.rule} "
            f"({place(rule.origin.file, rule.origin.line, app.workspace)})"
            for rule in forgotten
        ),
    )
