"""`handrail completion`."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from handrail.cli._app import App, as_command
from handrail_cli._tree import COMPLETES

SHELLS: dict[str, type[ShellComplete]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
}


@as_command("completion", "Print what makes a shell complete commands.")
@click.argument("shell", type=click.Choice(list(SHELLS)))
def command(app: App, shell: str) -> None:
    """Print the script that makes a shell complete commands, options, tools and runs.

    In bash: put eval "$(handrail completion bash)" into ~/.bashrc.

    In zsh: put eval "$(handrail completion zsh)" into ~/.zshrc, after compinit.

    In fish: handrail completion fish > ~/.config/fish/completions/handrail.fish
    """
    made = SHELLS[shell](click.Group(), {}, "handrail", COMPLETES)
    # the method of the class itself: that of bash would run bash to ask for its version
    script = ShellComplete.source(made)
    app.print({"shell": shell, "script": script}, [script.rstrip("\n")])
