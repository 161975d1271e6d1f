"""A model that says what a script says, and fails where the script and the run part ways."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable

import pytest
from anyio.lowlevel import checkpoint

from handrail import (
    Call,
    CheckedCall,
    Context,
    HandrailError,
    Hook,
    StopRun,
    Text,
    Toolset,
    Turn,
    tool,
)
