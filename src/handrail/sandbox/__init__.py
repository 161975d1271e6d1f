"""Commands that the kernel keeps inside a workspace."""

from handrail.sandbox._environment import harmless
from handrail.sandbox._reading import Reader, reading
from handrail.sandbox._running import Running
from handrail.sandbox._sandbox import Sandbox
from handrail.sandbox._words import Limits, Report, Unavailable

__all__ = [
    "Limits",
    "Reader",
    "Report",
    "Running",
    "Sandbox",
    "Unavailable",
    "harmless",
    "reading",
]
