"""Encode the histories of conversations that grow: each message once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from threading import Lock
from typing import NamedTuple, TypeAlias

from handrail import Spec
from handrail.messages import Message
from handrail.models._sdk_client import Body
from handrail.providers._formats.history import HistoryWriter

Start: TypeAlias = Callable[[Iterable[Spec]], HistoryWriter]
"""Begins to encode a history, for the tools of a request."""
Finish: TypeAlias = Callable[[HistoryWriter, str], Body]
"""Returns a request's fields with all messages so far, and the system prompt."""

MAX_CONVERSATIONS = 8
"""Conversations whose encoded messages a model keeps: of an agent and its sub-agents."""


class _Conversation(NamedTuple):
    messages: tuple[Message, ...]
    tools: Sequence[Spec]
    writer: HistoryWriter

    def is_before(self, messages: Sequence[Message], tools: Sequence[Spec]) -> bool:
        """Return whether a history begins with the messages of this one, for the same tools."""
        is_longer = len(self.messages) <= len(messages)
        return is_longer and self.tools is tools and all(map(is_, self.messages, messages))


class Histories:
    """The latest histories that were encoded for an API."""

    def __init__(self, start: Start, finish: Finish) -> None:
        self._start = start
        self._finish = finish
        self._lock = Lock()
        self._latest: list[_Conversation] = []

    def encode(self, messages: Sequence[Message], system: str, tools: Sequence[Spec]) -> Body:
        """Return what ``encode_messages`` does. Converts only messages since the last request."""
        with self._lock:
            found = next((one for one in self._latest if one.is_before(messages, tools)), None)
            if found is None:
                found = _Conversation((), tools, self._start(tools))
            else:
                self._latest.remove(found)
            found.writer.add(messages[len(found.messages) :])
            known = found._replace(messages=tuple(messages))
            self._latest = [known, *self._latest][:MAX_CONVERSATIONS]
            return self._finish(found.writer, system)
