"""Results without frames, for tests that compare what a server or a page has sent."""

from __future__ import annotations

from handrail import Hook

UNFRAMED = (Hook(frames=False),)
