"""Ask a tool whether a call took effect, after its result was lost."""

from __future__ import annotations

import inspect
import logging
from typing import Any

from anyio import to_thread

from handrail._definition.beside import KEY
from handrail._definition.tool import AnyTool, add_defaults, call_beside
from handrail._values.call import Args, Call
from handrail._values.result import Result

log = logging.getLogger("handrail")


async def verify_call(tool: AnyTool, call: Call, idempotency_key: str) -> Result | bool | None:
    """Ask a tool whether a call took effect: its result if it did, False if not, None if unknown.

    A failing or missing ``verify`` leaves it unknown.
    """
    args = tool.parse(call.args)
    if tool.verify is None or not isinstance(args, Args):
        return None
    values = {**add_defaults(tool, args), KEY: idempotency_key}
    said: Any
    try:
        if inspect.iscoroutinefunction(tool.verify):
            said = await call_beside(tool, tool.verify, values)
        else:
            said = await to_thread.run_sync(call_beside, tool, tool.verify, values)
    except Exception:
        log.exception("the verify of a call of %r failed", tool.spec.name)
        return None
    if said is True:
        return Result(call.id, _HAPPENED)
    return Result(call.id, said) if isinstance(said, str) else False if said is False else None


_HAPPENED = "This call took effect. Its own result was lost."
