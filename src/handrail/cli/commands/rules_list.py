"""`handrail rules list`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns
from handrail.cli._base.exits import Exit
from handrail.cli._base.options import TOOL_OPTIONS
from handrail.cli._base.printable import one_line
from handrail.cli._project.kit import Kit
from handrail.cli._rules.files import why_unusable
from handrail.cli._rules.wording import describe_rule, in_words, place
from handrail.policy import Level


@as_command("list", "List the rules that apply, with file and line.", *TOOL_OPTIONS)
@click.option("--all", "every", is_flag=True, help="Include built-in rules.")
@click.option("--remembered", is_flag=True, help="Show only remembered approvals.")
def command(app: App, *, every: bool, remembered: bool) -> Exit:
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
    app.print_all("rules", items, _lines(app, items))
    built_in = len([rule for rule in rules if rule.level is Level.BUILT_IN])
    if built_in and not every and not remembered:
        app.say(f"{built_in} built-in rules are not shown; list them with `--all`")
    return Exit.FAILED if why_unusable(book) else Exit.DONE


def _lines(app: App, items: Sequence[dict[str, Any]]) -> list[str]:
    return (
        list(columns([_row(app, rule) for rule in items], width=app.width))
        if items
        else ["no rules"]
    )


def _row(app: App, rule: dict[str, Any]) -> tuple[str, ...]:
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
