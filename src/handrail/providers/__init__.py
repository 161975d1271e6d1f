"""Any model's wire format, in and out: no I/O, no SDK; plain dicts in, values out.

One module for each wire, all with the same names: ``anthropic``, ``openai_chat``,
``openai_responses`` and ``gemini``.
"""

from handrail.providers._compiled import Compiled, Quarantined

__all__ = ["Compiled", "Quarantined"]
