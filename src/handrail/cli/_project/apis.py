"""API formats for converting tools, by typed name."""

from __future__ import annotations

from importlib import import_module

from handrail import Spec
from handrail.providers import PROVIDERS, CompiledTool, UnsupportedTool

APIS = tuple(provider.cli_name for provider in PROVIDERS.values())


def compile_tool(spec: Spec, api: str) -> CompiledTool | UnsupportedTool:
    """Convert one tool to one API format."""
    provider = import_module(f"handrail.providers.{api.replace('-', '_')}")
    result: CompiledTool | UnsupportedTool = provider.compile(spec)
    return result
