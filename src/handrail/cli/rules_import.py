"""`handrail rules import`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import click

from handrail.cli._app import App, as_command
from handrail.cli._exits import Halt
from handrail.cli._rules_files import read_rules
from handrail.cli._rules_store import locked, replaced
from handrail.cli._rules_told import counted, named, one_line, short
from handrail.cli._trusted import MOST_BYTES
from handrail.policy import Level, Places, Unusable, parse
from handrail.policy.importers import Imported, Note, claude, codex, gemini

IMPORTERS: MappingProxyType[str, ModuleType] = MappingProxyType(
    {"claude": claude, "codex": codex, "gemini": gemini}
)
_MODE = re.compile(r'^mode = "(\w+)"$', re.MULTILINE)


@as_command("import", "Make rules of another agent's settings.")
@click.argument("agent", metavar="claude|codex|gemini", type=click.Choice(sorted(IMPORTERS)))
@click.argument("file", metavar="FILE")
@click.option("--write", is_flag=True, help="Add the rules to your own, too.")
def command(app: App, agent: str, file: str, *, write: bool) -> None:
    """Make rules of another agent's settings, and say what became of each.

    FILE is a settings.json of Claude Code, a .rules file of Codex, or a policy file of the
    Gemini CLI; - reads it from a pipe. The rules are printed. Nothing becomes looser: what cannot
    be said here is left out, or means more where it denies or asks.
    """
    made = _made(app, agent, file)
    target = Places.of(app.workspace).user if write else None
    remarks = _add(app, made.text, target) if target is not None else []
    losses = [note for note in made.notes if note.kind != "imported"]
    rules = parse(made.text, file="imported", level=Level.USER).rules
    document: dict[str, Any] = {
        "from": agent,
        "text": made.text,
        "rules": [{"decides": rule.decide, "names": named(rule)} for rule in rules],
        "imported": len(made.notes) - len(losses),
        "losses": [{"kind": one.kind, "rule": one.source, "why": one.why} for one in losses],
        "written": str(target) if target is not None else None,
    }
    app.print(document, [made.text.rstrip("\n")] if made.text else [])
    for words in (*map(one_line, losses), _summary(made.notes, losses), *remarks):
        app.say(words)


def _made(app: App, agent: str, file: str) -> Imported:
    path = Path(os.path.normpath(app.workspace / file))
    text = sys.stdin.read(MOST_BYTES) if file == "-" else read_rules(path)
    # a path from the workspace says that the file belongs to it; of a pipe, nobody knows
    shown = "/dev/stdin" if file == "-" else short(path, app.workspace)
    try:
        found: Imported = IMPORTERS[agent].translate(text, file=shown)
    except Unusable as error:
        raise Halt(str(error), code="file", hint=f"is it a file of {agent}?") from None
    return found


def _summary(notes: Sequence[Note], losses: Sequence[Note]) -> str:
    return f"{counted(len(notes), 'rule')}; the same here: {len(notes) - len(losses)}."


def _add(app: App, text: str, file: Path) -> list[str]:
    """Add rules to a file, and say so; those that stand in it already are not added again."""
    with locked(file):
        there = read_rules(file) if os.path.lexists(file) else ""
        known = {one.strip() for one in there.split("\n\n")}
        parts = [one.strip() for one in text.split("\n\n") if not _MODE.search(one)]
        pieces = [one for one in parts if one not in known]
        whole = "\n\n".join(filter(None, [there.rstrip("\n"), *pieces]))
        try:
            parse(f"{whole}\n", file=str(file), level=Level.USER)
        except Unusable as error:
            raise Halt(str(error), code="rules", hint="see `handrail rules check`") from None
        if pieces:
            replaced(file, f"{whole}\n".encode())
    where, mode = short(file, app.workspace), _MODE.search(text)
    told = [f"The mode is not stored; to store it: handrail mode {mode[1]}"] if mode else []
    return [*told, f"Added to {where}." if pieces else f"{where} has all of them already."]
