"""`handrail explain`, which is also `handrail rules explain` and `handrail tools explain`."""

from __future__ import annotations

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Exit
from handrail.cli._base.options import ARGS, TOOL_OPTIONS, tool_names
from handrail.cli._project.calls import call_of, explain_call, show_explanation
from handrail.cli._project.kit import Kit


@as_command("explain", "Show whether a call would be allowed, and why.", *TOOL_OPTIONS)
@click.argument("name", shell_complete=tool_names, help="Name of the tool.")
@click.argument("args", nargs=-1, help=ARGS)
def command(app: App, name: str, args: tuple[str, ...]) -> Exit:
    """Show whether a call would be allowed, and why, without running it.

    Shows what the call would touch, every rule that matches, and the decision. If the call needs
    approval, also shows a rule that would allow it.
    """
    kit = Kit(app)
    call = call_of(kit.tool(name).spec, args)
    return show_explanation(app, kit, explain_call(kit, call))
