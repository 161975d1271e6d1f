"""Read what Pydantic AI knows about a call: its run's messages and deps."""

from __future__ import annotations

from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelResponse, UserPromptPart


def read_context(ctx: RunContext[Any]) -> dict[str, Any]:
    """Return a turn's options: the deps, and what people wrote."""
    prompts = [
        part.content
        for message in ctx.messages
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]
    every = [ctx.prompt, *prompts]
    parts = [part for one in every for part in ([one] if isinstance(one, str) else one or ())]
    return {"deps": ctx.deps, "said": [part for part in parts if isinstance(part, str)]}


def find_sent(ctx: RunContext[Any], sent: dict[str, Any], call_id: str) -> Any:
    """Return a call's arguments as the model sent them, and store those of all calls."""
    last = next(m for m in reversed(ctx.messages) if isinstance(m, ModelResponse))
    empty = "{" if last.finish_reason == "length" else "{}"  # only a name may have arrived
    sent |= {part.tool_call_id: part.args or empty for part in last.tool_calls}
    return sent[call_id]
