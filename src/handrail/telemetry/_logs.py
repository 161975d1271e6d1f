"""Logs: one standard ``logging`` record for every result, with attributes."""

from __future__ import annotations

import logging

from handrail import Call, CheckedCall, Hook
from handrail.events import Event, Finished, Requested
from handrail.telemetry._facts import ERROR_TYPE, OUTCOME, TOOL_NAME, CallFacts


def log_calls(logger: logging.Logger | None = None, *, content: bool = False) -> Hook:
    """Return a hook logging every result: failures as warnings, the others as information.

    Record attributes have the same names as ``Telemetry``'s attributes, such as
    ``gen_ai.tool.name``: a formatter or handler with support for ``extra`` fields writes them.

    Args:
        logger: The logger. Default: ``handrail.calls``.
        content: Whether to log arguments and results.
    """
    log = logger or logging.getLogger("handrail.calls")
    open_calls: dict[str, CallFacts] = {}

    def observe(key: str, call: CheckedCall | Call, event: Event) -> None:
        if isinstance(event, Requested):
            open_calls[key] = CallFacts(event, content=content)
        facts = open_calls[key]
        facts.note(call, event)
        if isinstance(event, Finished):
            del open_calls[key]
            known = facts.attributes
            level = logging.WARNING if ERROR_TYPE in known else logging.INFO
            log.log(level, "execute_tool %s: %s", known[TOOL_NAME], known[OUTCOME], extra=known)

    return Hook(observe=observe)
