"""What is wrong with rules."""

from __future__ import annotations

from handrail import HandrailError


class Unusable(HandrailError, ValueError):
    """Rules that cannot be used as they are written; the message says why."""
