"""Encode events as server-sent events with names: the protocol of this package."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Protocol

from handrail.web._wire import WireEvent

_encode = json.JSONEncoder(separators=(",", ":")).encode


class Encoder(Protocol):
    """Writes one stream in one protocol."""

    stays: bool
    """Whether the stream stays open while a run waits for a person."""

    def begin(self, conversation: str, run: str, known: Collection[str]) -> str:
        """Return the stream's beginning. The client knows some calls."""
        ...

    def encode(self, event: WireEvent) -> str:
        """Return an event's text; empty if the protocol has none for it."""
        ...


class OwnEvents:
    """Named events, each with an id to continue behind it."""

    stays = True

    def begin(self, conversation: str, run: str, known: Collection[str]) -> str:  # noqa: ARG002
        """Name the conversation and the run."""
        return f"event: begin\ndata: {_encode({'conversation': conversation, 'run': run})}\n\n"

    def encode(self, event: WireEvent) -> str:
        """Write an event."""
        place = f"id: {event.id}\n" if event.id else ""
        return f"{place}event: {event.kind}\ndata: {_encode(event.data)}\n\n"
