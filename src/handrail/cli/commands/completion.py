"""`handrail completion`."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from handrail.cli._base.app import App, as_command
from handrail.cli._tree import COMPLETES

SHELLS: dict[str, type[ShellComplete]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
}


@as_command("completion", "Print a shell completion script.")
@click.argument("shell", type=click.Choice(list(SHELLS)), help="Your shell.")
def command(app: App, shell: str) -> None:
    """Print a script that completes commands, options, tools and runs in your shell.

    bash: add eval "$(handrail completion bash)" to ~/.bashrc.

    zsh: add eval "$(handrail completion zsh)" to ~/.zshrc, after compinit.

    fish: handrail completion fish > ~/.config/fish/completions/handrail.fish
    """
    completer = SHELLS[shell](click.Group(), {}, "handrail", COMPLETES)
    # the base class's method: BashComplete's runs bash to check its version
    script = ShellComplete.source(completer)
    app.print({"shell": shell, "script": script}, [script.rstrip("\n")])
