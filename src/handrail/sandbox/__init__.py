"""Commands that the kernel keeps inside a workspace."""

from typing import TYPE_CHECKING

from handrail._door import door

if TYPE_CHECKING:
    from handrail.sandbox._environment import harmless
    from handrail.sandbox._reading import Reader, reading
    from handrail.sandbox._running import Running
    from handrail.sandbox._sandbox import Sandbox
    from handrail.sandbox._words import Limits, Report, Unavailable
else:
    _HOMES = {
        "Limits": "_words",
        "Reader": "_reading",
        "Report": "_words",
        "Running": "_running",
        "Sandbox": "_sandbox",
        "Unavailable": "_words",
        "harmless": "_environment",
        "reading": "_reading",
    }

    __getattr__, __dir__ = door(__name__, _HOMES, globals())


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
