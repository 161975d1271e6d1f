"""`handrail rules forget`."""

from __future__ import annotations

import click

from handrail.cli._app import App, as_command
from handrail.cli._exits import Halt
from handrail.cli._kit import Kit
from handrail.cli._rules_told import one_line, place, told
from handrail.policy import Unusable


@as_command("forget", "Take back a rule that an answer left behind.")
@click.argument("rule_ids", metavar="ID...", nargs=-1, required=True)
def command(app: App, rule_ids: tuple[str, ...]) -> None:
    """Take back a rule that an answer left behind; such calls are asked about again.

    `handrail rules list --remembered` shows the ids. Rules that somebody wrote into a file are
    for an editor.
    """
    kit = Kit(app)
    wanted = list(dict.fromkeys(rule_ids))
    stored = {rule.origin.rule: rule for rule in kit.rules.rules if rule.remembered}
    missing = next((one for one in wanted if one not in stored), None)
    try:
        kit.memory.remembered()  # says what is wrong with its files, before anything is changed
        if missing is not None:
            raise Halt(
                f"there is no remembered rule {one_line(missing)!r}",
                code="no_rule",
                hint="`handrail rules list --remembered` shows their ids",
            )
        for one in wanted:
            kit.memory.forget(one)
    except Unusable as error:
        raise Halt(str(error), code="rules", hint="see `handrail rules check`") from None
    gone = [stored[one] for one in wanted]
    app.print_all(
        "forgotten",
        [told(rule) for rule in gone],
        (
            f"forgot {rule.origin.rule} "
            f"({place(rule.origin.file, rule.origin.line, app.workspace)})"
            for rule in gone
        ),
    )
