"""Effect limit: reject calls to tools whose effect is above a ceiling."""

from __future__ import annotations

from handrail import READ, CheckedCall, Effect, FailureKind, Hook, Result
from handrail.hooks._shared import quote_name, refuse

_ALLOWED = {
    Effect.READ: "only tools that read are",
    Effect.WRITE: "only tools that read or write are",
}


def limit_effect(*, ceiling: Effect = READ) -> Hook:
    """Reject calls to tools whose effect is above the ceiling."""

    def before(call: CheckedCall) -> CheckedCall | Result:
        effect = call.spec.effect
        if effect <= ceiling:
            return call
        message = (
            f"Not run: {quote_name(call)} can {effect.name.lower()}, and {_ALLOWED[ceiling]} "
            "allowed here. Do not work around this. Continue without it, or tell the user."
        )
        return refuse(call, FailureKind.DENIED, message, by="limit_effect")

    return Hook(before=before)
