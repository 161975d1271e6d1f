"""The text of decisions: the question of an approval request, and the reason of a denial.

A reason is a clause without a full stop: the executor puts it into the result for the model.
"""

from __future__ import annotations

from collections.abc import Sequence

from handrail import Access
from handrail.policy._decisions.opinions import UNREADABLE, Opinion
from handrail.policy._decisions.wording import describe_accesses, quote_command
from handrail.policy._rules.shell_command import ShellCommand

_USUAL_SHELL = "bash"
_MAX_QUOTED_CHARS = 200


def format_denial(opinion: Opinion) -> str:
    """Return why a call is denied, for the model."""
    if opinion.origin is UNREADABLE:
        return "the permission rules cannot be loaded"  # why contains paths, which are not for it
    if opinion.origin.kind == "mode":
        return opinion.reason
    if opinion.origin.kind == "built-in":
        return f"{opinion.about} is never allowed" if opinion.about else opinion.reason
    reason = f" ({opinion.reason})" if opinion.reason else ""
    return f"rule {opinion.origin.rule!r} denies {opinion.about or 'this call'}{reason}"


def format_question(tool: str, accesses: Sequence[Access], opinion: Opinion) -> str:
    """Return the question whether a call may run."""
    is_sole = len({access.resource for access in accesses}) <= 1
    action = describe_accesses(accesses) if accesses else "run"
    return f"Allow `{tool}` to {action}?{_format_note(opinion, is_sole=is_sole)}"


def format_command_question(tool: str, command: ShellCommand, opinion: Opinion) -> str:
    """Return the question whether a shell command may run."""
    text = command.text
    is_sole = command.simple is not None and len(command.simple) == 1
    note = _format_note(opinion, is_sole=is_sole)
    what = "this command" if tool == _USUAL_SHELL else f"`{tool}` to run this command"
    if len(text) > _MAX_QUOTED_CHARS:
        return f"Allow {what} of {len(text):,} characters?{note}"
    return f"Allow {what}? {quote_command(text)}{note}"


def _format_note(opinion: Opinion, *, is_sole: bool) -> str:
    """Return why approval is needed. The question already names the sole thing that happens."""
    if not opinion.about:
        return f" ({opinion.reason})" if opinion.reason else ""
    reason = opinion.reason or f"rule {opinion.origin.rule!r} asks"
    return f" ({reason})" if is_sole else f" ({opinion.about}: {reason})"
