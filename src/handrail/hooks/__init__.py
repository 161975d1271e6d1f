"""Ready-made hooks. Each is a function that makes a ``Hook``: a ``before`` and an ``after``.

Hand an executor the sides that the hook's own docstring names; the other side does nothing. Hooks
of your own that rewrite calls come before these.
"""

from handrail.hooks._hook import After, Before, Hook
from handrail.hooks.audit import audit
from handrail.hooks.budget import budget
from handrail.hooks.cache import cache
from handrail.hooks.circuit_breaker import circuit_breaker
from handrail.hooks.command import command
from handrail.hooks.gate import gate
from handrail.hooks.loop_guard import loop_guard
from handrail.hooks.rate_limit import rate_limit
from handrail.hooks.redact import redact

__all__ = [
    "After",
    "Before",
    "Hook",
    "audit",
    "budget",
    "cache",
    "circuit_breaker",
    "command",
    "gate",
    "loop_guard",
    "rate_limit",
    "redact",
]
