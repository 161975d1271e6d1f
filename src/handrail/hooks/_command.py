"""Command hook: your program reads each call as JSON, and can refuse or rewrite it."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from handrail import CheckedCall, HandrailError, Hook
from handrail.hooks._program import (
    AskProgram,
    HookAnswer,
    ask_program,
    hook_variables,
    make_program_hook,
)

_EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")


def command(
    argv: Sequence[str],
    *,
    events: Collection[str] = _EVENTS[:1],
    timeout: float = 60.0,
    env: Mapping[str, str] | None = None,
) -> Hook:
    """Run a program before or after every call, as hooks in the command line's settings do.

    The call is never on its command line. It is denied if the program fails, has a question, or
    prints something else than an answer.

    Args:
        argv: The program and its arguments.
        events: When it runs: ``PreToolUse``, ``PostToolUse``, ``PostToolUseFailure``.
        timeout: Seconds until it is killed. The executor's ``hook_timeout`` applies, too.
        env: Environment variables beside a few usual ones.
    """
    if unknown := set(events) - set(_EVENTS):
        raise HandrailError(f"A command hook has no event {min(unknown)!r}, only {_EVENTS}.")
    program = shutil.which(argv[0]) if argv else None
    if program is None:
        raise HandrailError(
            f"The program of the hook {' '.join(argv)!r} was not found. Install it, or fix the "
            "path."
        )
    words, folder = [program, *argv[1:]], Path.cwd()
    variables = hook_variables(folder) | dict(env or {})

    async def ask(event: str, call: CheckedCall, about: Mapping[str, Any]) -> HookAnswer:
        request = {
            "session_id": call.turn.run_id,
            "cwd": str(folder),
            "permission_mode": "default",
            "hook_event_name": event,
            **about,
        }
        answer = await ask_program(
            words, request, folder=folder, variables=variables, seconds=timeout
        )
        if answer.complaint:
            raise HandrailError(f"The hook ended with {answer.complaint}")
        if answer.code == 0 and answer.text:
            raise HandrailError("The hook did not print a JSON object.")
        if not answer.is_known:
            raise HandrailError("The hook printed an unknown field or decision.")
        return answer

    def programs(event: str, call: CheckedCall) -> list[AskProgram]:
        return [partial(ask, event, call)] if event in events else []

    return make_program_hook(programs)
