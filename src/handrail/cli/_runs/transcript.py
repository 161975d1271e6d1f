"""A run as Markdown: what was said, each call and its result."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from handrail import Call, Text
from handrail.agent import RunState
from handrail.messages import Prompt, Reply, ToolResults, TruncatedCall

_FENCE = re.compile("`{3,}")


def write_transcript(run_id: str, about: Mapping[str, Any], state: RunState) -> str:
    """Return a run's transcript."""
    head = [f"# Run {run_id}", f"- Folder: {about['workspace']}\n- Began: {about['began']}"]
    blocks = [block for message in state.transcript() for block in _blocks(message)]
    return "\n\n".join([*head, *blocks]) + "\n"


def _blocks(message: Prompt | Reply | ToolResults) -> Iterator[str]:
    if isinstance(message, Prompt):
        yield "## You"
        yield from (part.text if isinstance(part, Text) else "(a file)" for part in message.parts)
    elif isinstance(message, Reply):
        yield "## Model"
        if message.text.strip():
            yield message.text.strip()
        for part in message.parts:
            if isinstance(part, Call | TruncatedCall):
                yield f"### Call `{part.id}`: {part.name}"
                yield _fenced(_format_args(part.args), "json")
    else:
        for result in message.results:
            how = "" if result.failure is None else f" ({result.failure.kind})"
            yield f"### Result of `{result.call_id}`{how}"
            yield _fenced(result.text, "text")


def _format_args(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, default=str)


def _fenced(text: str, language: str) -> str:
    """Return text in a fence longer than every fence in it."""
    ticks = "`" * (max(map(len, _FENCE.findall(text)), default=2) + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"
