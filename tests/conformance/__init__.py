"""Test a tool executor against what models, tools and people do.

A *host* is what runs the tools: a framework, your own loop, or handrail. Describe it in one
function that takes a ``Setup`` and returns an async function of a ``Conversation``. ``check`` then
runs all ``PROVOCATIONS`` against it. ``python -m conformance`` prints the table.
"""

from conformance._check import Observation, check, is_good
from conformance._provocations import PROVOCATIONS, Provocation
from conformance._setup import (
    Conversation,
    Host,
    Read,
    Setup,
    Skipped,
    read_result,
    run_with_handrail,
)
from conformance._table import from_json, to_json, to_markdown
from conformance._world import World

__all__ = [
    "PROVOCATIONS",
    "Conversation",
    "Host",
    "Observation",
    "Provocation",
    "Read",
    "Setup",
    "Skipped",
    "World",
    "check",
    "from_json",
    "is_good",
    "read_result",
    "run_with_handrail",
    "to_json",
    "to_markdown",
]
