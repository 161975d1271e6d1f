"""`handrail schema`, which is also `handrail tools schema`."""

from __future__ import annotations

import click

from handrail.approvals import displayed
from handrail.cli._app import App, as_command, as_json
from handrail.cli._dialects import DIALECTS, compiled
from handrail.cli._exits import Exit, Halt
from handrail.cli._kit import Kit
from handrail.cli._options import JUDGED, tool_names
from handrail.providers import Quarantined


@as_command("schema", "Print a tool as it goes over a provider's wire.", *JUDGED)
@click.argument("name", shell_complete=tool_names)
@click.option(
    "--dialect",
    type=click.Choice(DIALECTS),
    default="anthropic",
    show_default=True,
    help="Whose wire.",
)
def command(app: App, name: str, dialect: str) -> None:
    """Print the tool NAME as it goes over a provider's wire, as JSON.

    What the wire cannot say of it is told on stderr. A tool that cannot be sent at all is an
    error, which says why.
    """
    spec = Kit(app).tool(name).spec
    made = compiled(spec, dialect)
    if isinstance(made, Quarantined):
        words = f"{name!r} cannot be sent to {dialect}: {made.reason}"
        hint = "see `handrail tools lint`"
        raise Halt(words, code="quarantined", hint=hint, exits=Exit.FAILED)
    document = {
        "tool": spec.name,
        "dialect": dialect,
        "wire": made.wire,
        "losses": list(made.losses),
    }
    app.print(document, [as_json(made.wire, indent=2)])
    if app.output == "text":
        for one in made.losses:
            app.say(f"lost: {displayed(one).text}")
