"""Options that give a setting a value. Each has its setting's name, and so wins over files."""

from __future__ import annotations

import math
import os
from typing import Any

import click

_COUNT = click.IntRange(min=1)


class _Seconds(click.FloatRange):
    """A number above 0, and neither endless nor none: no comparison finds these out of range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number that a text means."""
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value} is no number of seconds.", param, ctx)
        return found


def aside(context: click.Context) -> dict[str, Any]:
    """Where options are put that a command's own function is not given."""
    if context.obj is None:
        context.obj = {"flags": {}}
    found: dict[str, Any] = context.obj
    return found


def _set(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Put a setting aside that was given on the command line; a callback of click's."""
    if value is not None and value != ():
        aside(context)["flags"][option.name] = [*value] if option.multiple else value


def _setting(*names: str, **about: Any) -> click.Option:
    return click.Option(names, expose_value=False, callback=_set, **about)


def run_ids(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """Ids of saved runs that begin like this, the newest first; a ``shell_complete`` of click's."""
    from handrail.cli._saved import runs_folder  # noqa: PLC0415  needed when a shell asks only

    try:
        found = os.listdir(runs_folder())  # noqa: PTH208  names only
    except OSError:
        return []
    return sorted((one for one in found if one.startswith(begun)), reverse=True)


def tool_names(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """Names of coding tools that begin like this; those of others would have their code run."""
    from handrail.tools import outline  # noqa: PLC0415  needed when a shell asks only

    return [one.name for one in outline() if one.name.startswith(begun)]


TOOLS = _setting(
    "-t",
    "--tools",
    multiple=True,
    type=click.Path(),  # what a shell completes
    metavar="SOURCE",
    help="Where tools come from: coding, FILE.py, FILE.py:NAME or MODULE:NAME. Give it more than "
    "once for more.",
)
WITHOUT = _setting(
    "--without",
    multiple=True,
    metavar="NAME",
    shell_complete=tool_names,
    help="Leave a tool out. May be given again.",
)
MODE = _setting(
    "--mode",
    type=click.Choice(["plan", "ask", "edits", "open"]),
    help="What happens to calls that no rule speaks of.",
)
MODEL = _setting(
    "-m",
    "--model",
    metavar="MODEL",
    help="PROVIDER:NAME, where the provider is anthropic, openai, openai-chat or gemini; or "
    "FILE.py:NAME or MODULE:NAME of a model in Python.",
)
BASE_URL = _setting("--base-url", metavar="URL", help="Where the model's server is.")
SYSTEM = _setting("--system", metavar="TEXT", help="What the model is told before all else.")
MAX_TOKENS = _setting(
    "--max-tokens", type=_COUNT, metavar="N", help="Let a reply have at most so many tokens."
)
MAX_TURNS = _setting("--max-turns", type=_COUNT, metavar="N", help="End a run after so many turns.")
MAX_CALLS = _setting("--max-calls", type=_COUNT, metavar="N", help="End a run after so many calls.")
MAX_USAGE = _setting(
    "--max-usage", type=_COUNT, metavar="N", help="End a run after so many tokens in all."
)
MAX_SECONDS = _setting(
    "--max-seconds",
    type=_Seconds(min=0, min_open=True),
    metavar="SECONDS",
    help="End a run after so long.",
)
HOSTS = _setting(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="A host that commands may reach. May be given again; none by default.",
)
JUDGED = (TOOLS, WITHOUT, MODE, HOSTS)
"""Of every command that looks at tools under the rules."""
MODELLED = (MODEL, BASE_URL, SYSTEM, MAX_TOKENS, MAX_TURNS, MAX_CALLS, MAX_USAGE, MAX_SECONDS)
"""Of every command that lets a model work."""
