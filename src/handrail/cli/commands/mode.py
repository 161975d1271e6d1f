"""`handrail mode`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from inspect import cleandoc

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns
from handrail.cli._base.exits import Exit
from handrail.cli._base.printable import short
from handrail.cli._base.settings import files
from handrail.cli._project.kit import Kit
from handrail.cli._rules.mode import (
    WITH_SANDBOX,
    WITHOUT_SANDBOX,
    ActiveMode,
    ModeOrigin,
    active_mode,
    store_mode,
)


@as_command("mode", "Show or set the default decision for calls that no rule matches.")
@click.argument(
    "mode",
    required=False,
    type=click.Choice(list(WITH_SANDBOX)),
    metavar="[MODE]",
    help="Mode to set.",
)
def command(app: App, mode: str | None) -> Exit:
    """Show or set the default decision for calls that no rule matches.

    Without MODE, shows the mode that applies here and where it was set. With MODE, stores it in
    your settings for all workspaces. The default is ask. Your own rules come first, except that
    plan denies changes whatever rules allow. The modes, from strict to permissive:
    """
    if mode is not None:
        if mode == "open":  # may raise, before it is stored
            _ = Kit(replace(app, quiet=True, flags={"mode": mode})).rules
        stored = files(app.workspace)["user"]
        store_mode(stored, mode)
        app.say(f"stored mode {mode} in {short(stored, app.workspace)}")
    active = active_mode(Kit(app))
    app.print(active.document(), _lines(app, active))
    if mode is not None and active.mode != mode:
        app.say(f"the mode here is still {active.mode}: {_why(app, active)}")
    return Exit.FAILED if active.broken else Exit.DONE


def _list_modes() -> Iterator[str]:
    for mode, means in WITH_SANDBOX.items():
        bare = WITHOUT_SANDBOX[mode]
        yield f"{mode}: {means}." + (f" Without a sandbox, {bare}." if bare != means else "")


command.help = "\n\n".join([cleandoc(command.help or ""), *_list_modes()])


def _lines(app: App, active: ActiveMode) -> Iterator[str]:
    if active.broken:
        yield active.means
        return
    is_set = bool(active.wanted.where)
    mode = f"{active.mode}:" if is_set else f"{active.mode} (default):"
    yield from columns([(mode, active.means)], gap=1, width=app.width)
    if is_set:
        yield f"  set by {_from(app, active.wanted)}"
    if active.ceiling is not None:
        yield f"  limited to {active.ceiling.mode} by {_from(app, active.ceiling)}"


def _why(app: App, active: ActiveMode) -> str:
    if active.broken:
        return "the rules are invalid"
    if active.ceiling is not None and active.mode != active.wanted.mode:
        return f"{_from(app, active.ceiling)} limits it to {active.ceiling.mode}"
    return f"it is set by {_from(app, active.wanted)}"


def _from(app: App, origin: ModeOrigin) -> str:
    where = short(origin.where, app.workspace) if "/" in origin.where else origin.where
    return f"{where} ({origin.level})"
