"""`handrail config show`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import click

from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns
from handrail.cli._base.options import MODEL_OPTIONS, TOOL_OPTIONS
from handrail.cli._base.redact import redact_setting
from handrail.cli._base.settings import files


@as_command(
    "show", "Show the settings that apply, and where each was set.", *TOOL_OPTIONS, *MODEL_OPTIONS
)
@click.option("--origin", is_flag=True, help="Show where each setting was set.")
def command(app: App, *, origin: bool) -> None:
    """Show the settings that apply.

    In order of precedence: options, environment variables, .handrail/local.toml, handrail.toml,
    your settings file, the system's settings file. Files in a workspace are ignored until you
    trust them: see `handrail trust`.
    """
    settings = _settings(app)
    if app.output == "jsonl":
        app.print_all("settings", settings, ())
        return
    document = {
        "settings": settings,
        "files": _files(app),
        "problems": list(app.settings.problems),
    }
    width = app.width
    app.print(document, _with_origins(document, width) if origin else _lines(settings, width))


def _settings(app: App) -> list[dict[str, Any]]:
    settings = app.settings
    return [
        {
            "name": name,
            "value": redact_setting(name, value),
            "level": settings.origins[name].level,
            "where": settings.origins[name].where,
        }
        for name, value in settings.values.items()
    ]


def _files(app: App) -> list[dict[str, Any]]:
    """Return the settings files' paths as data."""
    return [
        {"level": level, "path": str(path), "exists": os.path.lexists(path)}
        for level, path in files(app.workspace).items()
    ]


def _lines(settings: list[dict[str, Any]], width: int | None) -> Iterator[str]:
    yield from columns(
        [(setting["name"], _format_value(setting["value"])) for setting in settings], width=width
    )


def _with_origins(document: dict[str, Any], width: int | None) -> Iterator[str]:
    yield from columns(
        [
            (
                setting["name"],
                _format_value(setting["value"]),
                setting["level"],
                make_printable(setting["where"]).text,
            )
            for setting in document["settings"]
        ],
        width=width,
    )
    yield ""
    yield from columns(
        [
            (
                file["level"],
                "found" if file["exists"] else "not found",
                make_printable(file["path"]).text,
            )
            for file in document["files"]
        ],
        width=width,
    )


def _format_value(value: Any) -> str:
    """Return a value as it is written in a settings file, on one line."""
    if value is None:
        return "not set"
    return make_printable(json.dumps(value, ensure_ascii=False)).text
