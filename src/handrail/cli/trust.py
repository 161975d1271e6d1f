"""`handrail trust`."""

from __future__ import annotations

import os
import shutil
import sys
import termios
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from handrail.cli._app import App, as_command
from handrail.cli._columns import columns
from handrail.cli._exits import Exit, Halt
from handrail.cli._rules_told import one_line
from handrail.cli._trust_files import SKILL, Looked, meant, needing_trust
from handrail.cli._trust_shown import header, shown
from handrail.cli._trusted import trust_of
from handrail.policy import Unusable

_STATE = ("is not trusted as it is now", "are not trusted as they are now")


@as_command("trust", "Let a workspace's own settings, tools and instructions count.")
@click.argument("paths", metavar="[PATH...]", nargs=-1)
@click.option("--yes", is_flag=True, help="Trust the files that are named, and ask nothing.")
@click.option("--revoke", is_flag=True, help="Take trust back: of all files, or those named.")
@click.option("--list", "only_list", is_flag=True, help="Show what needs trust, and stop.")
def command(
    app: App, paths: tuple[str, ...], *, yes: bool, revoke: bool, only_list: bool
) -> Exit | None:
    """Let a workspace's own settings, tools and instructions count.

    They come with its files, and so from anybody. Each file that is not trusted as it is now is
    shown, and asked about. What you say yes to is exactly what you saw: a change of one byte
    takes the trust away again.
    """
    if yes + revoke + only_list > 1:
        raise click.UsageError("--yes, --revoke and --list do not go together")
    if yes and not paths:
        raise click.UsageError("--yes needs the files by name: handrail trust --yes PATH...")
    if revoke:
        with _as_halt():
            _revoke(app, paths)
        return None
    files = _looked(app, paths)
    new = [one for one in files if not one.trusted]
    if only_list or not new:
        _print(app, files)
        return None
    if not yes and not app.asks:
        _print(app, files)
        raise Halt(
            f"{len(new)} of {len(files)} {_STATE[len(new) > 1]}",
            code="no_terminal",
            hint="run this at a terminal, or name the files: handrail trust --yes PATH...",
        )
    return _grant(app, paths, [one for one in new if (_told(app, one) if yes else _asked(one))])


def _looked(app: App, paths: Iterable[str]) -> list[Looked]:
    """What the paths mean, each once; without any, all that needs trust here."""
    found = needing_trust(app.workspace)
    if not paths:
        for one in found.problems:
            app.say(one_line(one))
        return list(found.files)
    named = [meant(path, found, app.workspace) for path in paths]
    return list({one.path: one for one in named}.values())


def _told(app: App, looked: Looked) -> bool:
    """Show a file that was named."""
    for line in _screen(looked):
        app.say(line)
    return True


def _asked(looked: Looked) -> bool:
    """Show a file to a person and ask them; what was typed before they saw it is no answer."""
    for line in _screen(looked):
        click.echo(line, err=True)
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    return click.confirm(f"Trust {one_line(looked.path)} as it is shown?", err=True)


def _screen(looked: Looked) -> list[str]:
    return ["", header(looked), *shown(looked, _width())]


def _width() -> int:
    """Of the terminal that is looked at, whatever stdout is."""
    try:
        found = os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        found = 0
    return found or shutil.get_terminal_size().columns


def _grant(app: App, paths: Sequence[str], agreed: Sequence[Looked]) -> Exit:
    """Trust what was shown, and look again: what has changed since is not trusted."""
    trust = trust_of(app.workspace)
    with _as_halt():
        for one in agreed:
            trust.grant(app.workspace / one.path, one.digest)
    now = _looked(app, paths)
    kept = {one.path for one in now if one.trusted}
    changed = [one.path for one in agreed if one.path not in kept]
    _print(app, now)
    for path in changed:
        app.say(f"{one_line(path)} has changed since it was shown: it is not trusted as it is now.")
    return Exit.FAILED if changed else Exit.DONE


@contextmanager
def _as_halt() -> Generator[None]:
    """A file of trust that is not as it should be is left alone."""
    try:
        yield
    except Unusable as error:
        hint = "nothing was changed; `handrail doctor` says how to mend it"
        raise Halt(str(error), code="trust", hint=hint) from None


def _revoke(app: App, paths: Sequence[str]) -> None:
    trust = trust_of(app.workspace)
    for path in paths or [one.path for one in needing_trust(app.workspace).files]:
        whole = Path(os.path.normpath(app.workspace / path))  # it need not be there any more
        trust.revoke(whole)
        if whole.name == SKILL:
            trust.revoke(whole.parent)
    _print(app, needing_trust(app.workspace).files)


def _print(app: App, files: Sequence[Looked]) -> None:
    rows = [
        ("trusted" if one.trusted else "not trusted", one.kind, one_line(one.path)) for one in files
    ]
    lines = columns(rows, width=app.width) if rows else ["nothing here needs trust"]
    app.print_all("files", [_item(one) for one in files], lines)


def _item(looked: Looked) -> dict[str, Any]:
    return {
        "path": looked.path,
        "kind": looked.kind,
        "bytes": len(looked.content),
        "sha256": looked.digest,
        "trusted": looked.trusted,
    }
