"""`handrail doctor`."""

from __future__ import annotations

import shutil
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import click

from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command, as_json
from handrail.cli._base.columns import quantity
from handrail.cli._base.exits import Exit
from handrail.cli._base.options import MODEL_OPTIONS, TOOL_OPTIONS
from handrail.cli._base.settings import runs_folder
from handrail.cli._doctor import machine as checks
from handrail.cli._doctor import settings as of_settings
from handrail.cli._doctor.machine import DoctorCheck, Status
from handrail.cli._doctor.servers import check_servers
from handrail.policy import RulePaths

_COLORS: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "red"}
_TOPICS = {
    "python": "installation",
    "handrail": "installation",
    "extra": "installation",
    "workspace": "folders",
    "own-code": "folders",
    "state": "folders",
    "tools": "tools",
    "ripgrep": "tools",
    "sandbox": "sandbox",
    "bubblewrap": "sandbox",
    "landlock": "sandbox",
    "mode": "rules",
    "rules": "rules",
    "trust": "rules",
    "hooks": "hooks",
    "config": "settings",
    "model": "model",
    "mcp": "mcp",
    "terminal": "terminal",
}
"""Each check's topic, by its ID or the beginning of it."""
_MAIN = {
    "python": "Python ",
    "handrail": "handrail ",
    "workspace": "",
    "tools": "",
    "sandbox": "",
    "mode": "",
    "model": "",
}
"""The checks shown for a topic without problems, and the text before them."""
_MARGIN = 26
"""The column where text starts, after the status and the longest ID."""
_MIN_COLUMNS = _MARGIN + 20


@as_command(
    "doctor",
    "Check your installation and suggest fixes.",
    *TOOL_OPTIONS,
    *MODEL_OPTIONS,
)
@click.option("--online", is_flag=True, help="Also connect to the provider and MCP servers.")
@click.option(
    "--mcp",
    "configs",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Check the MCP servers of this file, as for `serve`. Repeatable.",
)
@click.option("--full", is_flag=True, help="Show every check, with its requirement and details.")
def command(app: App, *, online: bool, configs: tuple[Path, ...], full: bool) -> Exit:
    """Check your installation and suggest fixes.

    Checks Python, extras, programs, the sandbox, settings, rules, the model, MCP servers and the
    terminal. The exit code is 1 if a check fails; warnings do not change it. API keys are never
    shown.
    """
    results = [_clean(check) for check in _all(app, configs, online=online)]
    counts = Counter(check.status for check in results)
    worst: Status = "fail" if counts["fail"] else "warn" if counts["warn"] else "ok"
    if app.output == "jsonl":
        for check in results:
            click.echo(as_json({"id": check.id, **_document(check)}))
    else:
        document = {"status": worst, "checks": {check.id: _document(check) for check in results}}
        app.print(document, _lines(results, full=full))
    summary = f"{counts['fail']} failed, {quantity(counts['warn'], 'warning')}"
    more = "" if full or app.output != "text" else "; `--full` shows all"
    app.say(f"{len(results)} checks: {summary}{more}")
    return Exit.FAILED if worst == "fail" else Exit.DONE


def _all(app: App, configs: tuple[Path, ...], *, online: bool) -> Iterator[DoctorCheck]:
    yield checks.python()
    yield checks.package()
    yield from checks.extras()
    yield checks.workspace(app.workspace)
    yield checks.own_code(app.workspace)
    yield checks.ripgrep(app.workspace)
    yield from checks.sandboxes(app.workspace)
    yield checks.state(runs_folder())
    yield from of_settings.rules(RulePaths.of(app.workspace))
    yield from of_settings.settings(app, online=online)
    yield from check_servers(app, configs, online=online)
    yield checks.terminal(colors=app.color)


def _clean(check: DoctorCheck) -> DoctorCheck:
    """Return a check without secrets and control characters."""

    def clean(text: str) -> str:
        return make_printable(of_settings.redact_secrets(text)).text.replace("\n", " ")

    return check._replace(
        found=clean(check.found),
        remedy=clean(check.remedy),
        details=tuple(map(clean, check.details)),
    )


def _document(check: DoctorCheck) -> dict[str, object]:
    return {
        "status": check.status,
        "found": check.found,
        "wanted": check.wanted,
        "remedy": check.remedy,
        "details": list(check.details),
    }


def _lines(results: Sequence[DoctorCheck], *, full: bool) -> Iterator[str]:
    width = max(shutil.get_terminal_size().columns - 1, _MIN_COLUMNS)
    for check in results if full else _shorten(results):
        yield from _lines_of(check, width, full=full)


def _shorten(results: Sequence[DoctorCheck]) -> Iterator[DoctorCheck]:
    """Yield a check for each topic: its problems, or one reporting none."""
    for topic, same in groupby(sorted(results, key=_order), key=_topic):
        found = list(same)
        problems = [check for check in found if check.status != "ok"]
        yield from problems or [_sum_up(topic, found)]


def _topic(check: DoctorCheck) -> str:
    name = check.id if check.id in _TOPICS else check.id.partition("-")[0]
    return _TOPICS.get(name, name)


def _order(check: DoctorCheck) -> int:
    return list(dict.fromkeys(_TOPICS.values())).index(_topic(check))


def _sum_up(topic: str, found: Sequence[DoctorCheck]) -> DoctorCheck:
    """Return what was found about a topic without problems, by its most important checks."""
    main = [check for check in found if check.id in _MAIN] or found
    text = ", ".join(f"{_MAIN.get(check.id, '')}{check.found}" for check in main)
    return DoctorCheck(topic, "", "ok", text)


def _lines_of(check: DoctorCheck, width: int, *, full: bool) -> Iterator[str]:
    """Yield a check on one line; below it, the requirement, the fix and the details."""
    status = click.style(check.status.ljust(4), fg=_COLORS[check.status])
    first, *others = _wrap(check.found, width)
    yield f"{status}  {check.id.ljust(_MARGIN - 8)}  {first}"
    below = [f"expected: {check.wanted}"] if full or check.status != "ok" else []
    below += [f"fix: {check.remedy}"] if check.remedy else []
    below += check.details if full or check.status != "ok" else []
    for line in [*others, *(piece for text in below for piece in _wrap(text, width))]:
        yield " " * _MARGIN + line


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width - _MARGIN, break_on_hyphens=False) or [""]
