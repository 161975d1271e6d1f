"""Convert tools, messages and responses to and from model APIs: plain dicts, no I/O, no SDK.

There is one module for each API, all with the same functions: ``anthropic``, ``openai_chat``,
``openai_responses`` and ``gemini``. ``PROVIDERS`` has an entry for each.
"""

from handrail.providers._offer import ToolSearch
from handrail.providers._table import PROVIDERS, Provider
from handrail.providers._tools import CompiledTool, UnsupportedTool

__all__ = ["PROVIDERS", "CompiledTool", "Provider", "ToolSearch", "UnsupportedTool"]
