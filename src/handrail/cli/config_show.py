"""`handrail config show`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import click

from handrail.approvals import displayed
from handrail.cli._app import App, as_command
from handrail.cli._columns import columns
from handrail.cli._options import JUDGED, MODELLED
from handrail.cli._settings import files

_LOGIN = re.compile(r"(?<=//)[^/?#]*@")
_BARE_LOGIN = re.compile(r"^[^/?#]*@")
"""Of an address without its scheme."""
_SECRET = re.compile(r"(?i)([?&#;][^=&#]*(?:key|token|secret|pass|sig|auth)[^=&#]*=)[^&#]*")


@as_command("show", "Show the settings that count, and where each is from.", *JUDGED, *MODELLED)
@click.option("--origin", is_flag=True, help="Also show where each setting comes from.")
def command(app: App, *, origin: bool) -> None:
    """Show the settings that count.

    A flag wins over the environment, then .handrail/local.toml, handrail.toml, the user's and the
    machine's file. Files of a workspace count once they are trusted: see `handrail trust`.
    """
    told = _settings(app)
    if app.output == "jsonl":
        app.print_all("settings", told, ())
        return
    document = {
        "settings": told,
        "files": _files(app),
        "problems": list(app.settings.problems),
    }
    width = app.width
    app.print(document, _with_origins(document, width) if origin else _lines(told, width))


def _settings(app: App) -> list[dict[str, Any]]:
    found = app.settings
    return [
        {
            "name": name,
            "value": shown_of(name, value),
            "level": found.origins[name].level,
            "where": found.origins[name].where,
        }
        for name, value in found.values.items()
    ]


def _files(app: App) -> list[dict[str, Any]]:
    """Where settings were looked for."""
    return [
        {"level": level, "path": str(path), "exists": os.path.lexists(path)}
        for level, path in files(app.workspace).items()
    ]


def shown_of(name: str, value: Any) -> Any:
    """The value of a setting, as it may be shown."""
    if name == "base_url" and isinstance(value, str) and "://" not in value:
        return _SECRET.sub(r"\1***", _BARE_LOGIN.sub("***@", value))
    return redacted(value)


def redacted(value: Any) -> Any:
    """A value without what opens a door: a login or a key in an address."""
    if not isinstance(value, str) or "://" not in value:
        return value
    return _SECRET.sub(r"\1***", _LOGIN.sub("***@", value))


def _lines(told: list[dict[str, Any]], width: int | None) -> Iterator[str]:
    yield from columns([(one["name"], _shown(one["value"])) for one in told], width=width)


def _with_origins(document: dict[str, Any], width: int | None) -> Iterator[str]:
    yield from columns(
        [
            (one["name"], _shown(one["value"]), one["level"], displayed(one["where"]).text)
            for one in document["settings"]
        ],
        width=width,
    )
    yield ""
    yield from columns(
        [
            (
                one["level"],
                "is there" if one["exists"] else "is not there",
                displayed(one["path"]).text,
            )
            for one in document["files"]
        ],
        width=width,
    )


def _shown(value: Any) -> str:
    """A value as a file of settings has it, on one line."""
    if value is None:
        return "not set"
    return displayed(json.dumps(value, ensure_ascii=False)).text
