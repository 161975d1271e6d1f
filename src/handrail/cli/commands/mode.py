"""`handrail mode`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Exit
from handrail.cli._base.settings import files
from handrail.cli._project.kit import Kit
from handrail.cli._rules.mode import MEANS, ActiveMode, ModeOrigin, active_mode, store_mode
from handrail.cli._rules.wording import one_line, short


@as_command("mode", "Show or set the default decision for calls that no rule matches.")
@click.argument(
    "mode", required=False, type=click.Choice(list(MEANS)), metavar="[MODE]", help="Mode to set."
)
def command(app: App, mode: str | None) -> Exit:
    """Show or set the default decision for calls that no rule matches.

    Without MODE, shows the mode that applies here and where it was set. With MODE, stores it in
    your settings for all workspaces. From strict to permissive:

    plan: changes are denied, whatever rules allow.

    ask: changes need approval (default).

    edits: changes run, and commands in the sandbox. Commands that lose work, use credentials or
    reach other machines need approval.

    open: everything runs, except changes of other machines and of protected files.

    Rules are considered first. For example, built-in rules allow common development commands in
    the sandbox.
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


def _lines(app: App, active: ActiveMode) -> Iterator[str]:
    if active.broken:
        yield one_line(f"every call is denied: {active.broken}")
        return
    is_set = bool(active.wanted.where)
    yield f"{active.mode}: {MEANS[active.mode]}{'' if is_set else ' (default)'}"
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
