"""Hooks: code of the host's that sees every call before it is judged, and every result after."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from handrail._call import Call
from handrail._decision import Allow, Ask, Deny
from handrail._result import Result

Before: TypeAlias = Callable[[Call], Awaitable[Call | Result]]
"""Passes a call on, as it is or rewritten; or answers it, and then it does not run."""
After: TypeAlias = Callable[[Call, Result], Awaitable[Result]]
"""Passes a result on, as it is or rewritten. Sees every result, refused calls' too."""
Approver: TypeAlias = Callable[[Call, Ask], Awaitable[Allow | Deny]]
"""Answers a question that a policy asked of a call."""
