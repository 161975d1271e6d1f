"""`handrail rules import`."""

from __future__ import annotations

import os
import re
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from handrail._support.private_files import MAX_FILE_BYTES, hold_lock, replace_file
from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.printable import one_line
from handrail.cli._rules.files import read_rules
from handrail.cli._rules.wording import plain_quantity, rule_conditions, short
from handrail.policy import InvalidRule, Level, RulePaths, parse
from handrail.policy.importers import Imported, Note, claude

_MODE = re.compile(r'^mode = "(\w+)"$', re.MULTILINE)


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
def command(app: App, agent: str, file: str, *, write: bool, for_all: bool) -> Exit:
    """Convert Claude Code's permission settings to rules, and print them.

    Imported rules are never more permissive: a rule that cannot be expressed is skipped, or asks
    about or denies more calls. Each such rule is listed.
    """
    if for_all and not write:
        raise Halt("`--user` is for `--write`", code="usage", hint="pass both, or none of them")
    imported = _import_rules(app, file)
    places = RulePaths.of(app.workspace)
    target = (places.user if for_all else places.remembered) if write else None
    agreed = not write or not app.asks or _ask(app, imported.text, for_all=for_all)
    target = target if agreed else None
    notices = _add(app, imported.text, target) if target is not None else []
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


def _ask(app: App, text: str, *, for_all: bool) -> bool:
    """Show the rules and prompt. Input typed before they were shown is discarded."""
    for line in text.rstrip("\n").split("\n"):
        click.echo(one_line(line), err=True)
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    where = "all your workspaces" if for_all else one_line(str(app.workspace))
    return click.confirm(f"Add these rules for {where}?", err=True)


def _import_rules(app: App, file: str) -> Imported:
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
    return f"{plain_quantity(len(notes), 'rule')}, {len(notes) - len(losses)} imported unchanged"


def _add(app: App, text: str, file: Path) -> list[str]:
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
