"""A coding agent over one folder: the coding tools in a sandbox, rules, and a system prompt."""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.coding._agent_tools import AGENT_TOOLS, Explorer, add_agent_tools, add_programs
    from handrail.coding._coding_agent import AgentArgs, coding_agent
    from handrail.coding._make_agent import choose_tools, make_agent, retry_patiently
    from handrail.coding._system_prompt import SystemPrompt
else:
    _NAMES = {
        "_agent_tools": "AGENT_TOOLS Explorer add_agent_tools add_programs",
        "_coding_agent": "AgentArgs coding_agent",
        "_make_agent": "choose_tools make_agent retry_patiently",
        "_system_prompt": "SystemPrompt",
    }
    __getattr__, __dir__ = make_lazy(__name__, _NAMES, globals())

__all__ = [
    "AGENT_TOOLS",
    "AgentArgs",
    "Explorer",
    "SystemPrompt",
    "add_agent_tools",
    "add_programs",
    "choose_tools",
    "coding_agent",
    "make_agent",
    "retry_patiently",
]
