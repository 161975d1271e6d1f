"""Test a tool executor against what models, tools and people do.

A *host* runs the tools: a framework, your own loop, or handrail. Describe it in one function taking
a ``Setup`` and returning an async function with a ``Conversation`` parameter. ``check`` then runs
all ``PROVOCATIONS`` against it. ``python -m handrail.testing.conformance`` prints the table.
"""

from handrail.testing.conformance._check import Observation, check, is_good
from handrail.testing.conformance._provocations import PROVOCATIONS, Provocation
from handrail.testing.conformance._setup import (
    Conversation,
    Host,
    Read,
    Setup,
    Skipped,
    read_result,
    run_with_handrail,
)
from handrail.testing.conformance._table import from_json, to_json, to_markdown
from handrail.testing.conformance._world import World

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
