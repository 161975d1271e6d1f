"""Ready-made hooks. Each function returns a ``Hook`` for ``Executor(tools, hooks=[...])``.

List rewriting hooks first. Results pass hooks in reverse order: list ``redact`` after hooks showing
results to people.
"""

from handrail import Hook, StopRun
from handrail.hooks._audit import audit
from handrail.hooks._budget import budget
from handrail.hooks._cache import cache
from handrail.hooks._circuit_breaker import circuit_breaker
from handrail.hooks._command import command
from handrail.hooks._frame import frame
from handrail.hooks._limit_effect import limit_effect
from handrail.hooks._loop_guard import loop_guard
from handrail.hooks._notify import notify
from handrail.hooks._program import (
    AskProgram,
    HookAnswer,
    ask_program,
    hook_variables,
    make_program_hook,
)
from handrail.hooks._rate_limit import rate_limit
from handrail.hooks._redact import redact

__all__ = [
    "AskProgram",
    "Hook",
    "HookAnswer",
    "StopRun",
    "ask_program",
    "audit",
    "budget",
    "cache",
    "circuit_breaker",
    "command",
    "frame",
    "hook_variables",
    "limit_effect",
    "loop_guard",
    "make_program_hook",
    "notify",
    "rate_limit",
    "redact",
]
