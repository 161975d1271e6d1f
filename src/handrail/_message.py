"""What goes between a person, a model and tools: a history of frozen values, no wire's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from handrail._call import Call
from handrail._content import Content, Text
from handrail._result import Result

Stop: TypeAlias = Literal["end", "calls", "length", "refused", "other"]
"""Why a model stopped: it was done, it wants tools, it hit a limit, it would not, or all else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one reply. Those from a provider's cache are part of ``sent``."""

    sent: int = 0
    received: int = 0
    cached: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            sent=self.sent + other.sent,
            received=self.received + other.received,
            cached=self.cached + other.cached,
        )


NOTHING_USED = Usage()


@dataclass(frozen=True, slots=True)
class Thought:
    """What a model thought before it spoke. It goes back only over the wire that it came from."""

    text: str
    sealed: str = ""
    """What the provider wants back unchanged: a signature, or all of it encrypted."""
    wire: str = ""


@dataclass(frozen=True, slots=True)
class Cut:
    """A call that was cut off before its arguments were complete. It is never run."""

    name: str
    id: str
    args: str = ""
    """What there was of them."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a person says: at the beginning, or between two turns."""

    parts: tuple[Content, ...]

    @staticmethod
    def of(*parts: str | Content) -> Prompt:
        """A prompt of words, pictures and files."""
        return Prompt(tuple([Text(one) if isinstance(one, str) else one for one in parts]))


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model says: words, thoughts and calls, in its order."""

    parts: tuple[Text | Thought | Call | Cut, ...]
    stop: Stop = "end"
    usage: Usage = NOTHING_USED
    model: str = ""

    @property
    def text(self) -> str:
        """Its words."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[Call, ...]:
        """Its calls that are complete."""
        return tuple([part for part in self.parts if type(part) is Call])


@dataclass(frozen=True, slots=True)
class Results:
    """What became of the calls of the reply before: one result for each, in their order."""

    results: tuple[Result, ...]


Message: TypeAlias = Prompt | Reply | Results


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of what a model is saying, or thinking, right now."""

    text: str
    thought: bool = False


Piece: TypeAlias = Delta | Call | Reply
"""What comes out of a stream: pieces of words, each call once it is complete, at last the reply."""
