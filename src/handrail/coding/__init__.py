"""A coding agent over one folder: the coding tools in a sandbox, rules, and a system prompt."""

from handrail.coding._coding_agent import AgentArgs, coding_agent

__all__ = ["AgentArgs", "coding_agent"]
