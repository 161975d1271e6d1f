"""Runs a command typed in a chat, with the model's tool and sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import count

import anyio

from handrail import Allow, Approvals, Ask, Call, CheckedCall, Deny, Executor, Result, Toolset
from handrail.cli._base.exits import Halt
from handrail.cli._project.kit import Kit
from handrail.events import Event
from handrail.permissions import Pending

_TIMEOUT_MS = 600_000
_COUNT = count(1)
_TYPED = Ask("You typed this command.")


async def run_typed(kit: Kit, command: str, on_event: Callable[[Event], None]) -> Result:
    """Run a command in the sandbox, like one approved by the user. Rules can deny it."""
    bash = kit.tools.find("bash")
    if bash is None:
        hint = "run `handrail doctor` to see why"
        raise Halt("there is no sandbox for commands", code="no_tool", hint=hint)

    def decide(call: CheckedCall) -> Ask | Deny:
        decision = kit.rules(call)
        # a denial may be the organization's, and is for people too: decision 106
        return decision if isinstance(decision, Deny) and not _is_by_mode(decision) else _TYPED

    executor = Executor(Toolset(bash), policy=decide, approvals=Approvals(approver=_approve))
    call = Call("bash", {"command": command, "timeout_ms": _TIMEOUT_MS}, f"typed-{next(_COUNT)}")
    result: Result | None = None
    async with executor, anyio.create_task_group() as group:
        group.start_soon(_forward, executor.events(), on_event)
        result = await executor.run(call)
        group.cancel_scope.cancel()
    assert result is not None  # noqa: S101  an error would have been raised
    return result


async def _forward(events: AsyncIterator[Event], on_event: Callable[[Event], None]) -> None:
    async for event in events:
        on_event(event)


def _is_by_mode(decision: Deny) -> bool:
    """Return whether the mode denies a call. It restricts the model, not the person."""
    return decision.origin is not None and decision.origin.kind == "mode"


async def _approve(_pending: Pending) -> Allow:
    return Allow()
