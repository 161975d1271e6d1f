"""One short request to a model, to see whether it answers."""

from __future__ import annotations

import time

import anyio

from handrail._support import stream_items
from handrail.cli._base.exits import Exit, Halt
from handrail.messages import Model, ModelError, Prompt, Request

TRIAL_SECONDS = 60.0
"""Seconds to wait for the answer. A local server may have to load the model first."""
_REQUEST = Request((Prompt.of("Reply with the word OK."),), max_tokens=16)


def try_model(model: Model) -> float:
    """Send a short request and return the seconds until the answer; a Halt if there is none."""
    began = time.monotonic()
    try:
        anyio.run(_ask, model)
    except ModelError as error:
        away = error.kind in {"network", "auth"}
        raise Halt(
            error.reason,
            code=f"model_{error.kind}",
            hint=error.hint,
            exits=Exit.UNREACHABLE if away else Exit.FAILED,
        ) from None
    except TimeoutError:
        message = f"no answer within {TRIAL_SECONDS:.0f} seconds"
        raise Halt(message, code="model_network", exits=Exit.UNREACHABLE) from None
    return time.monotonic() - began


async def _ask(model: Model) -> None:
    with anyio.fail_after(TRIAL_SECONDS):
        async for _ in stream_items(model(_REQUEST)):
            pass
