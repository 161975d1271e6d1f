"""`handrail trust`."""

from __future__ import annotations

import os
import shutil
import sys
import termios
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns, quantity
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.printable import one_line
from handrail.cli._project.trusted import trust_of
from handrail.cli._trust.files import SKILL, TrustItem, find_item, needing_trust
from handrail.cli._trust.screen import header, screen_lines
from handrail.policy import InvalidRule

_MAX_TRUSTED_ROWS = 12
"""Trusted file rows per kind, such as a server's modules."""


@as_command("trust", "Trust this workspace's settings, tools and instructions.")
@click.argument(
    "paths", metavar="[PATH...]", nargs=-1, help="Files (default: all that need trust)."
)
@click.option("--yes", is_flag=True, help="Trust the named files without a prompt.")
@click.option("--revoke", is_flag=True, help="Revoke trust in the named files (default: all).")
@click.option("--list", "only_list", is_flag=True, help="List the files that need trust, and exit.")
def command(
    app: App, paths: tuple[str, ...], *, yes: bool, revoke: bool, only_list: bool
) -> Exit | None:
    """Trust this workspace's settings, tools and instructions.

    These files come with the workspace, so anyone may have written them. handrail ignores them
    until you have reviewed and trusted them. Each untrusted file is shown with a prompt. Trust
    covers exactly the content shown: any change to a file revokes it.
    """
    if yes + revoke + only_list > 1:
        message = "`--yes`, `--revoke` and `--list` cannot be combined"
        raise Halt(message, code="usage", hint="pass only one of them")
    if yes and not paths:
        hint = "name the files: `handrail trust --yes PATH...`"
        raise Halt("`--yes` trusts only files that are named", code="usage", hint=hint)
    if revoke:
        with _as_halt():
            _revoke(app, paths)
        return None
    files = _select_items(app, paths)
    new = [file for file in files if not file.trusted]
    if only_list or not new:
        _print(app, files)
        return None
    if not yes and not app.asks:
        _print(app, files)
        raise Halt(
            f"{len(new)} of {quantity(len(files), 'file')} not trusted",
            code="no_terminal",
            hint="review them at a terminal, or name them: `handrail trust --yes PATH...`",
        )
    return _grant(app, paths, [file for file in new if (_show(app, file) if yes else _ask(file))])


def _select_items(app: App, paths: Iterable[str]) -> list[TrustItem]:
    """Return the items at the paths, each once; without paths, all needing trust."""
    report = needing_trust(app.workspace)
    if not paths:
        for message in (*(problem.message for problem in report.problems), *report.notes):
            app.say(one_line(message))
        return list(report.files)
    named = [find_item(path, report, app.workspace) for path in paths]
    return list({item.path: item for item in named}.values())


def _show(app: App, item: TrustItem) -> bool:
    """Show a named file."""
    for line in _screen(item):
        app.say(line)
    return True


def _ask(item: TrustItem) -> bool:
    """Show a file and prompt. Input typed before the file was shown is discarded."""
    for line in _screen(item):
        click.echo(line, err=True)
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    return click.confirm(f"Trust this content of {one_line(item.path)}?", err=True)


def _screen(item: TrustItem) -> list[str]:
    return ["", header(item), *screen_lines(item, _width())]


def _width() -> int:
    """Return the terminal's width on stderr, whatever stdout is."""
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        width = 0
    return width or shutil.get_terminal_size().columns


def _grant(app: App, paths: Sequence[str], agreed: Sequence[TrustItem]) -> Exit:
    """Trust the shown files, and check again: files changed since are not trusted."""
    trust = trust_of(app.workspace)
    with _as_halt():
        for item in agreed:
            trust.grant(app.workspace / item.path, item.digest)
    now = _select_items(app, paths)
    now_trusted = {item.path for item in now if item.trusted}
    changed = [item.path for item in agreed if item.path not in now_trusted]
    _print(app, now)
    for path in changed:
        app.say(f"{one_line(path)} changed after it was shown, and is not trusted")
    return Exit.FAILED if changed else Exit.DONE


@contextmanager
def _as_halt() -> Generator[None]:
    """Convert an invalid trust file to an error. The file is not changed."""
    try:
        yield
    except InvalidRule as error:
        hint = "nothing was changed; run `handrail doctor` to see how to fix the file"
        raise Halt(str(error), code="trust", hint=hint) from None


def _revoke(app: App, paths: Sequence[str]) -> None:
    trust = trust_of(app.workspace)
    for path in paths or [item.path for item in needing_trust(app.workspace).files]:
        whole = Path(os.path.normpath(app.workspace / path))  # it may not exist any more
        trust.revoke(whole)
        if whole.name == SKILL:
            trust.revoke(whole.parent)
    _print(app, needing_trust(app.workspace).files)


def _print(app: App, files: Sequence[TrustItem]) -> None:
    rows = [row for _, same in groupby(files, _describe) for row in _rows(list(same))]
    lines = columns(rows, width=app.width) if rows else ["no files need trust"]
    app.print_all("files", [_item(file) for file in files], lines)


def _describe(file: TrustItem) -> tuple[str, str]:
    return "trusted" if file.trusted else "not trusted", file.kind


def _rows(files: Sequence[TrustItem]) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each file with one kind, or for many trusted ones only the first."""
    shown = files[:_MAX_TRUSTED_ROWS] if files[0].trusted else files
    yield from ((*_describe(file), one_line(file.path)) for file in shown)
    if left := len(files) - len(shown):
        yield (*_describe(files[0]), f"{left} more, which `--json` lists")


def _item(item: TrustItem) -> dict[str, Any]:
    return {
        "path": item.path,
        "kind": item.kind,
        "bytes": len(item.content),
        "sha256": item.digest,
        "trusted": item.trusted,
    }
