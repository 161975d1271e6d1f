"""`handrail init`."""

from __future__ import annotations

import click

from handrail._support import format_duration
from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Exit
from handrail.cli._base.options import BASE_URL, KEY_VARIABLE, MODE, MODEL, PORTS
from handrail.cli._base.printable import one_line
from handrail.cli._setup.choosing import set_up


@as_command("init", "Choose a model and a mode, and try them.", MODEL, BASE_URL, KEY_VARIABLE, MODE)
@click.option(
    "--project",
    is_flag=True,
    help="Write handrail.toml in the workspace, and trust it (default: your own settings).",
)
@PORTS
@click.option("--no-try", "untried", is_flag=True, help="Do not send a request to the model.")
def command(app: App, *, project: bool, ports: tuple[int, ...], untried: bool) -> Exit:
    """Choose a model and a mode, and try them.

    Asks for what the options do not say, and writes a settings file with comments. Then sends one
    short request to the model. If that fails, the file stays, and the exit code says why.

    The file names the environment variable with the API key; the key is stored nowhere. Other
    settings in the file stay in it. Without a terminal, pass --model.
    """
    chosen, file, seconds = set_up(app, project=project, ports=ports, untried=untried)
    document = {"file": str(file), **chosen._asdict(), "answered_after": seconds}
    answered = "is set" if seconds is None else f"answered after {format_duration(seconds)}"
    app.print(document, [f"{one_line(chosen.model)} {answered}"])
    app.say("start with `handrail chat`")
    return Exit.DONE
