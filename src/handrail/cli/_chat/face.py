"""Opens what shows a run at a terminal: drawn, or as sentences."""

from __future__ import annotations

import os
import sys

from handrail.cli._base.app import App
from handrail.cli._chat.changes import CallChanges
from handrail.cli._chat.plain import PlainWatcher
from handrail.cli._chat.watch import Watcher
from handrail.cli._screen.terminal import Screen
from handrail.cli._screen.theme import Theme, choose_theme


def open_screen(app: App, *, plain: bool) -> Screen:
    """Return the terminal, with the colors of the settings unless rows are plain."""
    if plain:
        return Screen(sys.stderr, theme=Theme(), live=False)
    theme = choose_theme(app.settings["theme"], os.environ, color=app.tints)
    return Screen(sys.stderr, theme=theme, live=os.environ.get("TERM") != "dumb")


def open_watcher(screen: Screen, changed: CallChanges, *, plain: bool) -> Watcher | PlainWatcher:
    """Return what shows the events of a run."""
    return PlainWatcher(screen, changed) if plain else Watcher(screen, changed)
