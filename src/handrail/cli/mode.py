"""`handrail mode`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import click

from handrail.cli._app import App, as_command
from handrail.cli._exits import Exit
from handrail.cli._kit import Kit
from handrail.cli._rules_mode import MEANS, Counting, Said, counting, store
from handrail.cli._rules_told import one_line, short
from handrail.cli._settings import files

_NOBODY = "nobody asked for another"


@as_command("mode", "Show or set what happens to calls that no rule speaks of.")
@click.argument("mode", required=False, type=click.Choice(list(MEANS)), metavar="[MODE]")
def command(app: App, mode: str | None) -> Exit:
    """Show or set what happens to calls that no rule speaks of.

    MODE is plan, ask, edits or open, the strictest first. It is stored in your own settings, for
    all workspaces. Without one, the mode that counts here is shown, and who asked for it.
    """
    if mode is not None:
        if mode == "open":  # may be refused, before it is stored
            _ = Kit(replace(app, quiet=True, flags={"mode": mode})).rules
        stored = files(app.workspace)["user"]
        store(stored, mode)
        app.say(f"{short(stored, app.workspace)} now has the mode {mode}")
    found = counting(Kit(app))
    app.print(found.told(), _lines(app, found))
    if mode is not None and found.mode != mode:
        app.say(f"here, the mode is {found.mode} all the same: {_why(app, found)}")
    return Exit.FAILED if found.broken else Exit.DONE


def _lines(app: App, found: Counting) -> Iterator[str]:
    if found.broken:
        yield one_line(f"every call is denied: {found.broken}")
        return
    yield f"{found.mode}: {MEANS[found.mode]}"
    asked = f"asked for by {_from(app, found.wanted)}" if found.wanted.where else _NOBODY
    yield f"  {asked}"
    if found.ceiling is not None:
        yield f"  at most {found.ceiling.mode}, by {_from(app, found.ceiling)}"


def _why(app: App, found: Counting) -> str:
    if found.broken:
        return "the rules cannot be used"
    if found.ceiling is not None and found.mode != found.wanted.mode:
        return f"{_from(app, found.ceiling)} allows no more than {found.ceiling.mode}"
    return f"it is asked for by {_from(app, found.wanted)}"


def _from(app: App, said: Said) -> str:
    where = short(said.where, app.workspace) if "/" in said.where else said.where
    return f"{where} ({said.level})"
