"""Shorten long histories for sending. The transcript itself stays whole.

First, old tool results are left out: the model can read them again. If that is not enough, the
model summarizes the older part, and denials and touched files are added as facts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from handrail import (
    Access,
    Call,
    Exposure,
    FailureKind,
    File,
    Image,
    Result,
    Spec,
    Text,
    Toolset,
)
from handrail.messages import (
    Message,
    Prompt,
    Reply,
    ToolResults,
    Usage,
    find_loaded_tools,
)

CHARS_PER_TOKEN = 3.5
"""A cautious guess: text has more characters per token, JSON and code have fewer."""
_MIN_LEFT_OUT_CHARS = 400
_MAX_FACTS = 60
_MAX_PROMPT_CHARS = 500
_MAX_ARGS_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """When to shorten a history for sending."""

    window: int
    """Tokens the model's context window holds, with the reply."""
    threshold: float = 0.75
    """The share of the window at which the history is shortened."""
    keep_turns: int = 3
    """The last turns, which are sent unchanged."""
    before_summary: Callable[[], Awaitable[None]] | None = None
    """Called before the model is asked to summarize."""

    def __post_init__(self) -> None:
        if self.keep_turns < 1:
            raise ValueError(f"Compaction(keep_turns={self.keep_turns!r}): must be at least 1.")


class Shortened(NamedTuple):
    """The parts left out of a history."""

    start: int = 0
    """The index of the first message sent. The summary replaces those before it."""
    summary: str = ""
    results_before: int = 0
    """The index of the first message whose results are sent in full."""


def shorten(messages: Sequence[Message], shortened: Shortened) -> tuple[Message, ...]:
    """Return the messages to send."""
    start, summary, results_before = shortened
    sent = [
        _leave_out(message, at) if at < results_before else message
        for at, message in enumerate(messages[start:], start)
    ]
    return (Prompt.of(summary), *sent) if summary else tuple(sent)


def _leave_out(message: Message, at: int) -> Message:
    """Return a message with references in place of its long results."""
    if not isinstance(message, ToolResults):
        return message
    return ToolResults(
        tuple([_refer_to(result, f"{at}.{n}") for n, result in enumerate(message.results)])
    )


def _refer_to(result: Result, name: str) -> Result:
    if len(result.text) < _MIN_LEFT_OUT_CHARS and not result.parts:
        return result
    media = describe_media(result.parts)
    text = (
        f"[Left out: {len(result.text):,} characters. "
        f'To read them again: read_earlier(result="{name}").{media and f" {media}"}]'
    )
    return Result(result.call_id, text, failure=result.failure, found=result.found)


def describe_media(parts: Iterable[object]) -> str:
    """Return how many images and files there are, or an empty text if there are none."""
    number = sum(isinstance(part, Image | File) for part in parts)
    return f"Images and files that cannot be shown again: {number}." if number else ""


class TokenCount:
    """Estimates the next request's tokens from the last reply's report."""

    def __init__(self) -> None:
        self._known = 0
        self._chars = 0

    def learn(self, sent: Sequence[Message], usage: Usage) -> None:
        """Record a request's actual token count, if the reply reports it."""
        if usage.input_tokens:
            self._known, self._chars = usage.input_tokens, count_chars(sent)

    def estimate(self, messages: Sequence[Message], system: str, tools: Toolset) -> int:
        """Return about how many tokens a request has."""
        chars = count_chars(messages)
        if self._known:
            return self._known + round((chars - self._chars) / CHARS_PER_TOKEN)
        loaded = set(find_loaded_tools(messages))
        sent = [spec for spec in tools.specs if _is_sent(spec, loaded)]
        defined = sum(len(spec.description) + len(str(spec.input_schema)) for spec in sent)
        return round((chars + len(system) + defined) / CHARS_PER_TOKEN)


def _is_sent(spec: Spec, loaded: Container[str]) -> bool:
    """Return whether a request has a tool: a deferred one only after it was found."""
    return spec.exposure is not Exposure.DEFERRED or spec.name in loaded


def count_chars(messages: Iterable[Message]) -> int:
    """Return how many characters messages have, with a guess for images and files."""
    return sum(map(_chars, messages))


def _chars(message: Message) -> int:
    if isinstance(message, ToolResults):
        return sum(
            len(result.text) + _MEDIA_CHARS * len(result.parts) for result in message.results
        )
    if isinstance(message, Prompt):
        return sum(
            len(part.text) if isinstance(part, Text) else _MEDIA_CHARS for part in message.parts
        )
    calls = sum(len(str(call.args)) + len(call.name) for call in message.calls)
    return calls + len(message.text)


_MEDIA_CHARS = 5_000


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Return the indexes where turns start. A reply continuing a paused one starts none."""
    return [
        at
        for at, message in enumerate(messages)
        if isinstance(message, Reply) and not (at and _is_paused(messages[at - 1]))
    ]


def _is_paused(message: Message) -> bool:
    return isinstance(message, Reply) and message.stop == "paused"


def next_start(messages: Sequence[Message], keep_turns: int) -> int:
    """Return the index where the last turns start. Turns are never divided."""
    starts = turn_starts(messages)
    return starts[-keep_turns] if len(starts) > keep_turns else 0


def facts(
    messages: Sequence[Message], touched: Callable[[Call], Iterable[Access]], prompt_chars: int
) -> str:
    """Return what must not be lost in a summary: prompts, denials, and what calls have changed."""
    denied, changed = list[str](), dict[str, None]()
    for call, result in _pairs(messages):
        if result.failure is not None and result.failure.kind is FailureKind.DENIED:
            denied.append(f"- {call.name}({_beginning_of(call.args)}): {result.failure.message}")
        elif result.failure is None:
            changed |= {f"- {access}": None for access in touched(call)}
    parts = [
        ("Prompts so far:", _quote_prompts(messages, prompt_chars)),
        ("Denied, do not try again:", denied),
        ("Touched so far:", [*changed]),
    ]
    return "\n\n".join("\n".join([title, *lines[-_MAX_FACTS:]]) for title, lines in parts if lines)


def _beginning_of(args: object) -> str:
    text = str(args)
    return text if len(text) <= _MAX_ARGS_CHARS else f"{text[:_MAX_ARGS_CHARS]}…"


def _quote_prompts(messages: Sequence[Message], room: int) -> list[str]:
    """Quote the first prompt and the latest ones, as many as there is room for."""
    most = min(room, _MAX_PROMPT_CHARS)
    quotes = [_quote(one, at, most) for at, one in enumerate(messages) if isinstance(one, Prompt)]
    first, latest = quotes[:1], list[str]()
    for quote in reversed(quotes[1:]):
        room -= len(quote)
        if room < 0:
            break
        latest.insert(0, quote)
    return first + latest


def _quote(prompt: Prompt, at: int, most: int) -> str:
    """Return a prompt's text, or its beginning."""
    text = " ".join(part.text for part in prompt.parts if isinstance(part, Text))
    if len(text) <= most:
        return f"- {text}"
    return f'- {text[:most]}… [To read all of it: read_earlier(result="{at}").]'


def _pairs(messages: Sequence[Message]) -> Iterator[tuple[Call, Result]]:
    for reply, results in pairwise(messages):
        if isinstance(reply, Reply) and isinstance(results, ToolResults):
            by_id = {result.call_id: result for result in results.results}
            yield from ((call, by_id[call.id]) for call in reply.calls if call.id in by_id)


def write_summary(summary: str, facts_: str) -> str:
    """Return the message replacing a history's older part."""
    parts = [_BEGINS, summary.strip(), facts_, _ENDS]
    return "\n\n".join(part for part in parts if part)


SUMMARIZE = (
    "The conversation becomes too long. Write a summary of it that lets you continue without the "
    "messages above: the task, decisions and their reasons, what was found, what was changed, what "
    "failed, and the next steps. Keep names, paths, numbers and quotes exact. Answer with the "
    "summary only."
)
_BEGINS = "This is a summary of the conversation so far."
_ENDS = 'Earlier messages and results can be searched with read_earlier(search="text"). Continue.'
