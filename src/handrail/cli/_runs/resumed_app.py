"""A resumed run's App: its workspace, and its first command's options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from handrail.cli._base.app import App
from handrail.cli._base.exits import Halt
from handrail.cli._base.settings import Settings
from handrail.cli._runs.stores import StoredRun


def app_to_resume(app: App, saved: StoredRun) -> App:
    """Return the App to resume a saved run: its workspace, and its first command's options.

    A durable run has neither. Options on the current command line win. Other settings are read from
    the files again.
    """
    about = saved.about
    workspace = app.workspace if saved.is_durable else Path(about["workspace"])
    if not workspace.is_dir():
        raise Halt(
            f"the workspace of run {saved.id} no longer exists: {workspace}",
            code="no_workspace",
            hint="restore that folder, or start a new run",
        )
    given = {name: value for name, value in about["settings"].items() if name in about["given"]}
    return replace(app, workspace=workspace, flags={**given, **app.flags})


def flag_settings(settings: Settings) -> list[str]:
    """Return settings given on the command line."""
    return [name for name, origin in settings.origins.items() if origin.level == "flag"]
