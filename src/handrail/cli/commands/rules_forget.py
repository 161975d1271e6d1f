"""`handrail rules forget`."""

from __future__ import annotations

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Halt
from handrail.cli._base.printable import one_line
from handrail.cli._project.kit import Kit
from handrail.cli._rules.wording import describe_rule, place
from handrail.policy import InvalidRule


@as_command("forget", "Forget a remembered approval.")
@click.argument("rule_ids", metavar="ID...", nargs=-1, required=True, help="IDs of approvals.")
def command(app: App, rule_ids: tuple[str, ...]) -> None:
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
