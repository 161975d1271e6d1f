"""`handrail doctor`."""

from __future__ import annotations

import shutil
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

import click

from handrail.approvals import displayed
from handrail.cli import _checks as checks
from handrail.cli import _checks_of_settings as of_settings
from handrail.cli._app import App, as_command, as_json
from handrail.cli._checks import Check, Status
from handrail.cli._exits import Exit
from handrail.cli._options import JUDGED, MODELLED
from handrail.cli._saved import runs_folder
from handrail.policy import Places

_COLORS: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "red"}
_MARGIN = 26
"""Where words begin: after the status and the longest id."""
_NARROWEST = _MARGIN + 20


@as_command(
    "doctor", "Look for what is missing or wrong, and say how to mend it.", *JUDGED, *MODELLED
)
@click.option("--online", is_flag=True, help="Try to reach the provider of the model, too.")
@click.option("--full", is_flag=True, help="Show what was wanted, and all details, of every check.")
def command(app: App, *, online: bool, full: bool) -> Exit:
    """Look for what is missing or wrong, and say how to mend it.

    Looks at Python, the extras, the programs, the sandbox, the settings, the rules, the model and
    the terminal. The exit code is 1 if a check fails; a warning changes nothing. No key is shown.
    """
    found = [_clean(one) for one in _all(app, online=online)]
    counts = Counter(one.status for one in found)
    worst: Status = "fail" if counts["fail"] else "warn" if counts["warn"] else "ok"
    if app.output == "jsonl":
        for one in found:
            click.echo(as_json({"id": one.id, **_told(one)}))
    else:
        document = {"status": worst, "checks": {one.id: _told(one) for one in found}}
        app.print(document, _lines(found, full=full))
    app.say(f"{len(found)} checks: {counts['fail']} failed, {counts['warn']} to look at")
    return Exit.FAILED if worst == "fail" else Exit.DONE


def _all(app: App, *, online: bool) -> Iterator[Check]:
    yield checks.python()
    yield checks.package()
    yield from checks.extras()
    yield checks.ripgrep(app.workspace)
    yield checks.bubblewrap(app.workspace)
    yield checks.landlock()
    yield checks.sandbox(app.workspace)
    yield checks.state(runs_folder())
    yield from of_settings.rules(Places.of(app.workspace))
    yield from of_settings.settings(app, online=online)
    yield checks.terminal(colors=app.color)


def _clean(check: Check) -> Check:
    """A check as it may be shown: no secrets, and nothing that a terminal obeys."""

    def clean(text: str) -> str:
        return displayed(of_settings.redacted(text)).text.replace("\n", " ")

    return check._replace(
        found=clean(check.found),
        remedy=clean(check.remedy),
        details=tuple(map(clean, check.details)),
    )


def _told(check: Check) -> dict[str, object]:
    return {
        "status": check.status,
        "found": check.found,
        "wanted": check.wanted,
        "remedy": check.remedy,
        "details": list(check.details),
    }


def _lines(found: Sequence[Check], *, full: bool) -> Iterator[str]:
    width = max(shutil.get_terminal_size().columns - 1, _NARROWEST)
    for one in found:
        yield from _lines_of(one, width, full=full)


def _lines_of(check: Check, width: int, *, full: bool) -> Iterator[str]:
    """A check on one line; below it, what is worth more words."""
    word = click.style(check.status.ljust(4), fg=_COLORS[check.status])
    first, *others = _wrapped(check.found, width)
    yield f"{word}  {check.id.ljust(_MARGIN - 8)}  {first}"
    below = [f"wanted: {check.wanted}"] if full or check.status != "ok" else []
    below += [f"do: {check.remedy}"] if check.remedy else []
    below += check.details if full or check.status != "ok" else []
    for line in [*others, *(piece for one in below for piece in _wrapped(one, width))]:
        yield " " * _MARGIN + line


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width - _MARGIN, break_on_hyphens=False) or [""]
