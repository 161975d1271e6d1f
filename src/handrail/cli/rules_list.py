"""`handrail rules list`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from handrail.cli._app import App, as_command
from handrail.cli._columns import columns
from handrail.cli._exits import Exit
from handrail.cli._kit import Kit
from handrail.cli._options import JUDGED
from handrail.cli._rules_files import unusable
from handrail.cli._rules_told import in_words, one_line, place, told
from handrail.policy import Level


@as_command("list", "List the rules that count, and where each stands.", *JUDGED)
@click.option("--all", "every", is_flag=True, help="Also the rules that come with handrail.")
@click.option("--remembered", is_flag=True, help="Only rules that an answer left behind.")
def command(app: App, *, every: bool, remembered: bool) -> Exit:
    """List the rules that count, and where each stands.

    They are in the order in which they decide: a deny comes before an ask, an ask before an
    allow. A rule that an answer left behind can be taken back by its id: `handrail rules forget`.
    """
    book = Kit(app).rules
    rules = book.rules
    shown = [
        rule
        for rule in rules
        if (every or rule.level is not Level.BUILT_IN) and (rule.remembered or not remembered)
    ]
    items = [told(rule) for rule in shown]
    app.print_all("rules", items, _lines(app, items))
    left = len([rule for rule in rules if rule.level is Level.BUILT_IN])
    if left and not every and not remembered:
        app.say(f"{left} rules that come with handrail are left out: --all lists them.")
    return Exit.FAILED if unusable(book) else Exit.DONE


def _lines(app: App, items: Sequence[dict[str, Any]]) -> list[str]:
    return (
        list(columns([_row(app, one) for one in items], width=app.width)) if items else ["no rules"]
    )


def _row(app: App, rule: dict[str, Any]) -> tuple[str, ...]:
    until = ""
    if rule["expires"] is not None:
        word = "expired on" if rule["expired"] else "until"
        until = f"{word} {rule['expires'][:10]}"
    level = "remembered" if rule["remembered"] else rule["level"]
    return (
        rule["decides"],
        one_line(rule["id"]),
        one_line(in_words(rule["names"])),
        level,
        place(rule["file"], rule["line"], app.workspace),
        until,
    )
