"""A coding agent over one folder: the coding tools in a sandbox, rules, and a system prompt."""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.coding._agent_tools import AGENT_TOOLS, Explorer, add_agent_tools
    from handrail.coding._coding_agent import AgentArgs, coding_agent
    from handrail.coding._make_agent import make_agent, retry_patiently
    from handrail.coding._offer import choose_tools
    from handrail.coding._system_prompt import SystemPrompt
else:
    _HOMES = {
        "AGENT_TOOLS": "_agent_tools",
        "AgentArgs": "_coding_agent",
        "Explorer": "_agent_tools",
        "SystemPrompt": "_system_prompt",
        "add_agent_tools": "_agent_tools",
        "choose_tools": "_offer",
        "coding_agent": "_coding_agent",
        "make_agent": "_make_agent",
        "retry_patiently": "_make_agent",
    }
    __getattr__, __dir__ = make_lazy(__name__, _HOMES, globals())

__all__ = [
    "AGENT_TOOLS",
    "AgentArgs",
    "Explorer",
    "SystemPrompt",
    "add_agent_tools",
    "choose_tools",
    "coding_agent",
    "make_agent",
    "retry_patiently",
]
