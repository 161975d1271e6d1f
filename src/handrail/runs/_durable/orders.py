"""The texts that the engine runs: a segment of a run, or a call on a queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from handrail import Json
from handrail.agent import Agent
from handrail.runs._engine.port import segment_id


class Served(NamedTuple):
    """An agent, and the objects for its tools, which no database keeps."""

    agent: Agent[Any]
    deps: Any = None


class Order(NamedTuple):
    """The text of a segment. The first one has its state. The others have theirs in rows."""

    run: str
    number: int
    agent: str
    principal: str | None
    metadata: Mapping[str, Json]
    state: str | None = None
    trace: Mapping[str, str] | None = None
    """The span that the run was started in."""

    @property
    def id(self) -> str:
        """The id of the segment."""
        return segment_id(self.run, self.number)

    @property
    def next(self) -> Order:
        """The order of the segment after this one."""
        return self._replace(number=self.number + 1, state=None)


class CallOrder(NamedTuple):
    """The text of a call on a queue. Its checks are done."""

    key: str
    agent: str
    run: str
    turn: str
    name: str
    args: str
    id: str
    principal: str | None
    metadata: Mapping[str, Json]
    trace: Mapping[str, str] | None = None
    """The span of the call where it was sent."""
