"""Ask the model to summarize the conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from handrail.agent._loop.model_stream import ask
from handrail.agent._loop.spending import Spending
from handrail.messages import Model, Request

USE_COMPACTION = "To shorten long conversations, pass `compaction=Compaction(window=...)`."


class _AskingRun(Protocol):
    spending: Spending

    def wait_for_model(self, cancel: Callable[[], None]) -> None: ...


async def ask_for_summary(run: _AskingRun, model: Model, request: Request) -> str:
    """Return the summary a request asks for. The tools stay, so a cache is used."""
    reply = await ask(model, request, run.wait_for_model)
    if reply is None:
        return ""
    run.spending.add(reply.usage, reply.model)
    return reply.text if reply.stop == "end" else ""
