"""`handrail rules`: list, check, import and forget rules."""

from __future__ import annotations

import os
import re
import sys
import termios
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handrail._support.private_files import MAX_FILE_BYTES, hold_lock, replace_file
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns, quantity
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.options import TOOL_OPTIONS
from handrail.cli._base.printable import one_line, short
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
from handrail.cli._rules.wording import describe_rule, in_words, place, rule_conditions
from handrail.policy import InvalidRule, Level, Rulebook, RulePaths, parse

if TYPE_CHECKING:
    from handrail.policy.importers import Imported, Note

_MODE = re.compile(r'^mode = "(\w+)"$', re.MULTILINE)


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


@as_command("import", "Import permission rules from Claude Code.")
@click.argument(
    "agent",
    metavar="claude",
    type=click.Choice(["claude"]),
    help="Agent that the file belongs to.",
)
@click.argument(
    "file",
    metavar="FILE",
    help="A settings.json of Claude Code; - reads stdin.",
)
@click.option("--write", is_flag=True, help="Also add the rules to your rules for this workspace.")
@click.option("--user", "for_all", is_flag=True, help="With --write: for all your workspaces.")
def import_rules(app: App, agent: str, file: str, *, write: bool, for_all: bool) -> Exit:
    """Convert Claude Code's permission settings to rules, and print them.

    Imported rules are never more permissive: a rule that cannot be expressed is skipped, or asks
    about or denies more calls. Each such rule is listed.
    """
    if for_all and not write:
        raise Halt("`--user` is for `--write`", code="usage", hint="pass both, or none of them")
    imported = _import_rules(app, file)
    places = RulePaths.of(app.workspace)
    target = (places.user if for_all else places.remembered) if write else None
    agreed = not write or not app.asks or _confirm(app, imported.text, for_all=for_all)
    target = target if agreed else None
    notices = _add_rules(app, imported.text, target) if target is not None else []
    losses = [note for note in imported.notes if note.kind != "imported"]
    rules = parse(imported.text, file="imported", level=Level.USER).rules
    document: dict[str, Any] = {
        "from": agent,
        "text": imported.text,
        "rules": [{"decides": rule.decide, "names": rule_conditions(rule)} for rule in rules],
        "imported": len(imported.notes) - len(losses),
        "losses": [{"kind": loss.kind, "rule": loss.source, "why": loss.why} for loss in losses],
        "written": str(target) if target is not None else None,
    }
    app.print(document, [imported.text.rstrip("\n")] if imported.text else [])
    for message in (*map(one_line, losses), _summary(imported.notes, losses), *notices):
        app.say(message)
    return Exit.DONE if agreed else Exit.DENIED


def _confirm(app: App, text: str, *, for_all: bool) -> bool:
    """Show the rules and prompt. Input typed before they were shown is discarded."""
    for line in text.rstrip("\n").split("\n"):
        click.echo(one_line(line), err=True)
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    where = "all your workspaces" if for_all else one_line(str(app.workspace))
    return click.confirm(f"Add these rules for {where}?", err=True)


def _import_rules(app: App, file: str) -> Imported:
    from handrail.policy.importers import claude

    path = Path(os.path.normpath(app.workspace / file))
    text = sys.stdin.read(MAX_FILE_BYTES) if file == "-" else read_rules(path)
    # with a relative path, the file belongs to the workspace; a pipe has no owner
    shown = "/dev/stdin" if file == "-" else short(path, app.workspace)
    try:
        return claude.translate(text, file=shown)
    except InvalidRule as error:
        hint = "pass a settings.json of Claude Code as FILE"
        raise Halt(str(error), code="file", hint=hint) from None


def _summary(notes: Sequence[Note], losses: Sequence[Note]) -> str:
    return f"{quantity(len(notes), 'rule')}, {len(notes) - len(losses)} imported unchanged"


def _add_rules(app: App, text: str, file: Path) -> list[str]:
    """Add rules to a file, except those it already has. Return messages for the user."""
    with hold_lock(file):
        before = read_rules(file) if os.path.lexists(file) else ""
        known = {part.strip() for part in before.split("\n\n")}
        parts = [part.strip() for part in text.split("\n\n") if not _MODE.search(part)]
        pieces = [part for part in parts if part not in known]
        whole = "\n\n".join(filter(None, [before.rstrip("\n"), *pieces]))
        try:
            parse(f"{whole}\n", file=str(file), level=Level.USER)
        except InvalidRule as error:
            raise Halt(
                str(error), code="rules", hint="run `handrail rules check` to see all problems"
            ) from None
        if pieces:
            replace_file(file, f"{whole}\n".encode())
    where, mode = short(file, app.workspace), _MODE.search(text)
    notices = [f"the mode was not added; set it with `handrail mode {mode[1]}`"] if mode else []
    return [*notices, f"added to {where}" if pieces else f"{where} already has all of these rules"]
