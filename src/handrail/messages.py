"""The words of a conversation: prompts, replies, results, and what comes out of a stream."""

from handrail._content import Content
from handrail._loop import hear
from handrail._message import (
    NOTHING_USED,
    Cut,
    Delta,
    Message,
    Piece,
    Prompt,
    Reply,
    Results,
    Stop,
    Thought,
    Usage,
)
from handrail._model import Model, ModelFailed, Request, Trouble
from handrail._names import wire_name

__all__ = [
    "NOTHING_USED",
    "Content",
    "Cut",
    "Delta",
    "Message",
    "Model",
    "ModelFailed",
    "Piece",
    "Prompt",
    "Reply",
    "Request",
    "Results",
    "Stop",
    "Thought",
    "Trouble",
    "Usage",
    "hear",
    "wire_name",
]
