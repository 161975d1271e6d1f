"""The wires that a tool can go over, by the names that people type."""

from __future__ import annotations

from importlib import import_module

from handrail import Spec
from handrail.providers import Compiled, Quarantined

DIALECTS = ("anthropic", "openai-chat", "openai-responses", "gemini")


def compiled(spec: Spec, dialect: str) -> Compiled | Quarantined:
    """One tool over one wire."""
    wire = import_module(f"handrail.providers.{dialect.replace('-', '_')}")
    made: Compiled | Quarantined = wire.compile(spec)
    return made
