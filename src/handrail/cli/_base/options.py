"""Options for settings. Each has its setting's name, and wins over settings files."""

from __future__ import annotations

import math
from typing import Any

import click

from handrail.cli._base.settings import is_variable


class _Count(click.ParamType[int]):
    """An integer, at least 1."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the integer."""
        try:
            count = int(value)
        except ValueError:
            count = 0
        if count < 1:
            self.fail(f"must be an integer of at least 1, got {value!r}", param, ctx)
        return count


class _PositiveNumber(click.ParamType[float]):
    """A finite number greater than 0."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not (number > 0 and math.isfinite(number)):
            self.fail(f"must be a number greater than 0, got {value!r}", param, ctx)
        return number


class _Variable(click.ParamType[str]):
    """An environment variable's name. Anything else may be a key, and is not repeated."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name."""
        if not is_variable(value):
            self.fail("must be the name of an environment variable", param, ctx)
        return str(value)


COUNT = _Count()


def option_store(context: click.Context) -> dict[str, Any]:
    """Return the options kept from the command's own function."""
    if context.obj is None:
        context.obj = {"flags": {}}
    store: dict[str, Any] = context.obj
    return store


def _set(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Store a setting from the command line. A callback for click."""
    if value is not None and value != ():
        option_store(context)["flags"][option.name] = [*value] if option.multiple else value


def _setting(*names: str, **attributes: Any) -> click.Option:
    return click.Option(names, expose_value=False, callback=_set, **attributes)


RUN = "ID of a saved run, a prefix of the ID, or last."
"""Help for an argument."""
RUNS = "IDs of saved runs, prefixes of IDs, or last (default: all saved runs)."
"""Help for an argument."""
ARGS = "One JSON object, key=value pairs, or - to read JSON from stdin."
"""Help for an argument."""


def tool_names(_context: click.Context, _option: click.Parameter, prefix: str) -> list[str]:
    """Return coding tool names with a prefix. Other tools would have to run their code."""
    from handrail.tools import outline  # needed for completion only

    return [tool.name for tool in outline() if tool.name.startswith(prefix)]


TOOLS = _setting(
    "-t",
    "--tools",
    multiple=True,
    type=click.Path(),  # for completion
    metavar="SOURCE",
    help="Load tools from coding (default), FILE.py, FILE.py:NAME or MODULE:NAME. Repeatable.",
)
WITHOUT = _setting(
    "--without",
    multiple=True,
    metavar="NAME",
    shell_complete=tool_names,
    help="Exclude a tool. Repeatable.",
)
MODE = _setting(
    "--mode",
    type=click.Choice(["plan", "ask", "edits", "open"]),
    help="Default decision for calls that no rule matches (default: ask).",
)
ALLOWED_HOSTS = _setting(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="HOST",
    help="Let sandboxed commands connect to HOST (default: no network). Repeatable.",
)
MODEL = _setting(
    "-m",
    "--model",
    metavar="MODEL",
    help="PROVIDER:NAME with anthropic, openai, openai-chat or gemini; or FILE.py:NAME or "
    "MODULE:NAME for a model in Python.",
)
BASE_URL = _setting("--base-url", metavar="URL", help="Base URL of the model's server.")
KEY_VARIABLE = _setting(
    "--key-variable",
    type=_Variable(),
    metavar="NAME",
    help="Environment variable with the API key (default: the provider's own).",
)
PORTS = click.option(
    "--port",
    "ports",
    multiple=True,
    type=COUNT,
    metavar="N",
    help="Look for a model server on this port of this machine (default: the usual ports of "
    "llama.cpp, Ollama, vLLM and LM Studio). Repeatable.",
)
PLAIN = click.option(
    "--plain",
    is_flag=True,
    help="Print sentences: no color, no signs, no row that changes. For screen readers and logs.",
)
PROGRAMS = _setting(
    "--programs",
    is_flag=True,
    default=None,
    help="Offer a tool that runs Python programs: they can call the tools that read.",
)
SYSTEM = _setting("--system", metavar="TEXT", help="System prompt.")
MODEL_TRIES = _setting(
    "--model-tries",
    type=COUNT,
    metavar="N",
    help="Send a request up to N times while the provider is overloaded or away (default 10).",
)
MAX_TOKENS = _setting(
    "--max-tokens",
    type=COUNT,
    metavar="N",
    help="Maximum tokens in one reply (default: 32000 for Claude, less for old and other models of "
    "anthropic, else the provider's limit).",
)
MAX_TURNS = _setting(
    "--max-turns", type=COUNT, metavar="N", help="Stop a run after N turns (default 50)."
)
MAX_CALLS = _setting(
    "--max-calls", type=COUNT, metavar="N", help="Stop a run after N calls (default: no limit)."
)
MAX_TOTAL_TOKENS = _setting(
    "--max-total-tokens",
    type=COUNT,
    metavar="N",
    help="Stop a run after N input and output tokens (default: no limit).",
)
MAX_SECONDS = _setting(
    "--max-seconds",
    type=_PositiveNumber(),
    metavar="N",
    help="Stop a run after N seconds (default: no limit).",
)
MAX_COST_PER_DAY = _setting(
    "--max-cost-per-day",
    type=_PositiveNumber(),
    metavar="N",
    help="Stop runs once all runs of this user have cost N dollars today (default: no limit).",
)
MAX_COST_PER_MONTH = _setting(
    "--max-cost-per-month",
    type=_PositiveNumber(),
    metavar="N",
    help="The same for the current month (default: no limit).",
)
DATABASE = _setting(
    "--database",
    metavar="DATABASE",
    help="Durable runs: a SQLite file or postgresql://... (default: the runs of this command).",
)
TOOL_OPTIONS = (TOOLS, WITHOUT, MODE, ALLOWED_HOSTS)
"""Options for every command with tools or rules."""
MODEL_OPTIONS = (
    MODEL,
    BASE_URL,
    KEY_VARIABLE,
    PROGRAMS,
    SYSTEM,
    MODEL_TRIES,
    MAX_TOKENS,
    MAX_TURNS,
    MAX_CALLS,
    MAX_TOTAL_TOKENS,
    MAX_SECONDS,
    MAX_COST_PER_DAY,
    MAX_COST_PER_MONTH,
)
"""Options for every command with a model."""
