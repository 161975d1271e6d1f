"""Reads a run's prompts and results from its messages, to find who named a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from handrail import Call, Context, Text
from handrail.agent._history.conversation import Conversation
from handrail.messages import Prompt, Reply, ToolResults
from handrail.sources import Heard, HeardCall

_QUOTED = "prompt"


class MessageFeed:
    """Reads a run's messages, all of them: compaction takes none away.

    The prompt of a sub-agent is from the model that it works for, so no person has said it.
    """

    is_idle = False

    def __init__(self, talk: Conversation, *, is_inside: bool) -> None:
        self._talk = talk
        self._is_inside = is_inside
        self._at = 0
        self._calls: dict[str, Call] = {}

    def take(self, *, is_last: bool) -> Iterator[HeardCall | str]:  # noqa: ARG002  a feed's
        """Yield what was heard since this was last called."""
        messages = self._talk.messages
        while self._at < len(messages):
            message = messages[self._at]
            self._at += 1
            if isinstance(message, Prompt):
                yield from self._read_prompt(message)
            elif isinstance(message, Reply):
                self._calls = {call.id: call for call in message.calls}
            else:
                yield from self._read_results(message)

    def _read_prompt(self, prompt: Prompt) -> Iterator[HeardCall | str]:
        for part in prompt.parts:
            if isinstance(part, Text) and part.quoted:
                yield HeardCall.of_text(_QUOTED, part.text)
            elif isinstance(part, Text) and not self._is_inside:
                yield part.text

    def _read_results(self, message: ToolResults) -> Iterator[HeardCall]:
        for result in message.results:
            call = self._calls.get(result.call_id)
            if call is not None:
                yield HeardCall(call.name, call.args, result)


def listen(talk: Conversation, system: str | None, *, caller: Context[Any] | None) -> Heard:
    """Return a run's prompts and results. They grow with its messages.

    Args:
        talk: The run.
        system: The developer's system prompt.
        caller: A sub-agent's: the call that it runs for. It knows what the outer run has heard.
    """
    outer = None if caller is None else caller.heard
    heard = Heard(system=system or "", outer=outer, follows_turns=False)
    heard.follow(MessageFeed(talk, is_inside=caller is not None))
    return heard
