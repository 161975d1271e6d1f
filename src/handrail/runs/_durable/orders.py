"""Texts run by the engine: a run's segment, or a queued call."""

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
    """A segment's text. After a failure, it has its state. Others have theirs in rows."""

    run: str
    number: int
    agent: str
    principal: str | None
    metadata: Mapping[str, Json]
    state: str | None = None
    trace: Mapping[str, str] | None = None
    """The span in which the run was started."""

    @property
    def id(self) -> str:
        """The segment's id."""
        return segment_id(self.run, self.number)

    @property
    def next(self) -> Order:
        """The order for the segment after this one."""
        return self._replace(number=self.number + 1, state=None)


class CallOrder(NamedTuple):
    """A queued call's text. Its checks are done."""

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
    """The call's span where it was sent."""
