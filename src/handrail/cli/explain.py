"""`handrail explain`, which is also `handrail rules explain` and `handrail tools explain`."""

from __future__ import annotations

import click

from handrail.cli._app import App, as_command
from handrail.cli._calls import call_of, explained, show
from handrail.cli._exits import Exit
from handrail.cli._kit import Kit
from handrail.cli._options import JUDGED, tool_names


@as_command("explain", "Say what would become of a call, and why; run nothing.", *JUDGED)
@click.argument("name", shell_complete=tool_names)
@click.argument("args", nargs=-1)
def command(app: App, name: str, args: tuple[str, ...]) -> Exit:
    """Say what would become of a call of the tool NAME, and why; run nothing.

    ARGS is one JSON object, or key=value pairs, or - to read JSON from stdin. What is told is
    what the call would touch, every rule that has something to say, the decision, and where
    somebody would be asked, the rule that would spare the question.
    """
    kit = Kit(app)
    call = call_of(kit.tool(name).spec, args)
    return show(app, kit, explained(kit, call))
