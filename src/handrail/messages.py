"""Messages between users, models and tools, and the ``Model`` type."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Literal, NamedTuple, TypeAlias

from handrail._collection.toolset import Toolset
from handrail._support.loop import collect
from handrail._values.call import Call
from handrail._values.content import Content, Image, Text
from handrail._values.errors import HandrailError
from handrail._values.names import api_name
from handrail._values.pending import Pending
from handrail._values.result import FailureKind, Result, read_result, write_result

__all__ = [
    "NO_USAGE",
    "ArgsDelta",
    "Content",
    "Delta",
    "Message",
    "Model",
    "ModelError",
    "ModelErrorKind",
    "Opaque",
    "Price",
    "Prompt",
    "Reasoning",
    "Reply",
    "ReplyPart",
    "Request",
    "RequiredTool",
    "Restart",
    "Stop",
    "StreamItem",
    "ToolChoice",
    "ToolResults",
    "TruncatedCall",
    "Usage",
    "api_name",
    "collect",
    "find_loaded_tools",
    "model_names",
    "read_result",
    "write_result",
]

Stop: TypeAlias = Literal[
    "end", "calls", "length", "refused", "paused", "overflow", "malformed", "unsupported", "other"
]
"""Why a model stopped: finished, tool calls, output limit, refusal, a pause to be continued, a full
context window, an invalid tool call, a request handrail cannot answer, or another reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens used by one reply, or by several."""

    input_tokens: int = 0
    """All input tokens, including those read from or written to a cache."""
    output_tokens: int = 0
    """All output tokens, including reasoning."""
    cached_tokens: int = 0
    """Input tokens read from a cache."""
    cache_write_tokens: int = 0
    """Input tokens written to a cache, if the provider reports them."""
    reasoning_tokens: int = 0
    """Reasoning tokens in the output, if the provider reports them."""

    @property
    def total(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


NO_USAGE = Usage()
"""No tokens."""


@dataclass(frozen=True, slots=True, init=False)
class Price:
    """A model's token prices, for a million tokens each: decimals, made from any numbers."""

    input: Decimal
    output: Decimal
    cached: Decimal
    """For input tokens read from a cache."""
    cache_write: Decimal
    """For input tokens written to a cache."""

    def __init__(
        self,
        *,
        input: Decimal | float | str,  # noqa: A002  the field's own name
        output: Decimal | float | str,
        cached: Decimal | float | str,
        cache_write: Decimal | float | str,
    ) -> None:
        given = {"input": input, "output": output, "cached": cached, "cache_write": cache_write}
        for name, value in given.items():
            object.__setattr__(self, name, _read_price(name, value))

    def cost(self, usage: Usage) -> Decimal:
        """Return what the tokens cost."""
        plain = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        total = (
            plain * self.input
            + usage.cached_tokens * self.cached
            + usage.cache_write_tokens * self.cache_write
            + usage.output_tokens * self.output
        )
        return total / 1_000_000


def _read_price(name: str, value: Decimal | float | str) -> Decimal:
    """Return a price as a decimal: 0.1 as people write it, not as a float stores it."""
    try:
        price = Decimal(str(value))
    except InvalidOperation:
        price = Decimal("NaN")
    if isinstance(value, bool) or not price.is_finite() or price < 0:
        raise ValueError(f"Price({name}={value!r}): must be a number, at least 0.")
    return price


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A model's reasoning before its answer. It is sent back only to the API it came from."""

    text: str
    signature: str = ""
    """The provider's signature or encrypted reasoning, which is sent back unchanged."""
    api: str = ""
    """The API it came from, such as ``anthropic``."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A reply part handrail does not read. It goes back unchanged, to its API only."""

    data: str  # text, so no character changes: decision 050
    """A JSON object, as the API sent it."""
    api: str
    """The API it came from, such as ``anthropic``."""
    kind: Literal["part", "fields"] = "part"
    """``part``: a separate part, such as a search the provider ran.

    ``fields``: more fields for the next part, or for the whole reply if no part follows.
    """


@dataclass(frozen=True, slots=True)
class TruncatedCall:
    """A call truncated before its arguments were complete. It is never run."""

    name: str
    id: str
    args: str = ""
    """The incomplete arguments."""

    def refuse(self) -> Result:
        """Return the result a model gets for it."""
        return Result.fail(self.id, FailureKind.BAD_ARGS, _CUT_OFF)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A user's message, at the start or between two turns."""

    parts: tuple[Content, ...]

    @staticmethod
    def of(*parts: str | Content) -> Prompt:
        """Create a prompt from text, images and files."""
        return Prompt(tuple([Text(part) if isinstance(part, str) else part for part in parts]))


ReplyPart: TypeAlias = Text | Image | Reasoning | Opaque | Call | TruncatedCall
"""One part in a reply."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply: text, reasoning and calls, in order."""

    parts: tuple[ReplyPart, ...]
    stop: Stop = "end"
    usage: Usage = NO_USAGE
    model: str = ""
    stop_detail: str = ""
    """What the provider says about a refusal or an invalid tool call; or what is not supported."""
    seconds: float | None = field(default=None, compare=False, repr=False, kw_only=True)
    """The time from the request to the reply's end. An agent sets it, unless a model did."""

    @property
    def text(self) -> str:
        """The reply's text, without reasoning."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[Call, ...]:
        """The reply's complete calls."""
        return tuple([part for part in self.parts if type(part) is Call])


@dataclass(frozen=True, slots=True)
class ToolResults:
    """The results of the previous reply's calls, one for each call, in order."""

    results: tuple[Result, ...]

    @property
    def questions(self) -> tuple[Pending, ...]:
        """Approval requests from pending calls, in call order, with nested ones."""
        waiting = [one.pending for one in self.results if one.pending is not None]
        requests = [request for pending in waiting for request in pending.requests]
        return tuple([pending for pending in requests if pending.kind != "waiting"])


Message: TypeAlias = Prompt | Reply | ToolResults
"""One message in a history."""


def find_loaded_tools(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the deferred tools a conversation has found, in the order they were found."""
    results = [message.results for message in messages if type(message) is ToolResults]
    searches = [result for several in results for result in several if result.found]
    found = [name for search in searches if search.failure is None for name in search.found]
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Delta:
    """A text fragment from a streamed reply."""

    text: str
    thought: bool = False
    """Whether the text is reasoning."""


@dataclass(frozen=True, slots=True)
class ArgsDelta:
    """A fragment of a call's arguments, to show while they arrive. The ``Call`` follows later."""

    call_id: str
    """The call's id."""
    name: str
    """The tool's name."""
    text: str
    """The next characters in the JSON text."""


@dataclass(frozen=True, slots=True)
class Restart:
    """The reply starts again from its beginning. Discard its text so far.

    A model sends this when it retries, or uses another model, after sending text.
    """

    reason: str
    """Why the reply could not be completed."""


StreamItem: TypeAlias = Delta | ArgsDelta | Restart | Call | Reply
"""A stream item: text and argument fragments, each call when complete, and finally the reply.

Calls come in reply order.
"""

ModelErrorKind: TypeAlias = Literal[
    "rate_limited",
    "overloaded",
    "too_long",
    "refused",
    "auth",
    "not_found",
    "network",
    "budget",
    "other",
]
"""Why a model gave no reply: a rate limit, a failure of the server, a request that is too long for
the context window, a content filter, an invalid key or no access, an unknown model or address, no
connection, a budget that is used up, or another reason, such as an invalid request."""


class ModelError(HandrailError):
    """A model gave no reply. ``kind`` says why, ``hint`` what to do about it."""

    def __init__(  # noqa: PLR0913  each is a field with a default
        self,
        reason: str,
        kind: ModelErrorKind = "other",
        *,
        hint: str = "",
        status: int | None = None,
        code: str = "",
        retry_after: float | None = None,
        request_id: str = "",
    ) -> None:
        super().__init__(f"{reason} {hint}" if hint else reason)
        self.reason = reason
        """The message without the hint."""
        self.kind: ModelErrorKind = kind
        self.hint = hint
        self.status = status
        """The HTTP status, if there was a response."""
        self.code = code
        """The provider's error code."""
        self.retry_after = retry_after
        """Seconds after which the provider accepts another request, if it says so."""
        self.request_id = request_id
        """The provider's request id."""
        self.usage = NO_USAGE
        """An incomplete reply's tokens, as far as known."""
        self.state: object = None
        """The ``RunState`` of an agent's run, to resume it."""


class RequiredTool(NamedTuple):
    """A tool the model must call in its reply."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none"] | RequiredTool
"""Whether the model may call tools, may not, or must call one of them."""


class Request(NamedTuple):
    """A request to a model: the conversation so far, and the tools it may call."""

    messages: tuple[Message, ...]
    tools: Toolset = Toolset()
    system: str = ""
    max_tokens: int | None = None
    """Maximum reply tokens. None means the model's default."""
    tool_choice: ToolChoice = "auto"
    output: str = ""
    """The tool that takes the typed answer, if there is one. A model may ask for it otherwise."""


Model: TypeAlias = Callable[[Request], AsyncIterator[StreamItem] | Awaitable[Reply]]
"""A function replying to a request: a stream ending with the reply, or the reply alone."""


def model_names(model: Model) -> tuple[str, ...]:
    """Return the names of the models a model asks: its attribute ``names``.

    A function without this attribute has an empty name.
    """
    names: tuple[str, ...] = getattr(model, "names", ())
    return names or ("",)


_CUT_OFF = (
    "Not run: the reply was too long, and the arguments were truncated. "
    "Call again with less text at a time."
)
