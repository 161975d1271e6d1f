"""Runs commands that the kernel confines to a workspace."""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.sandbox._bubblewrap.placeholders import find_placeholders
    from handrail.sandbox._environment import safe_variables
    from handrail.sandbox._home import contains_home
    from handrail.sandbox._process.running import Process
    from handrail.sandbox._read_only import Reader, start_read_only
    from handrail.sandbox._sandbox import Sandbox
    from handrail.sandbox._values import Report, ResourceLimits, Restriction, SandboxUnavailable
else:
    _MODULES = {
        "_bubblewrap.placeholders": "find_placeholders",
        "_environment": "safe_variables",
        "_home": "contains_home",
        "_process.running": "Process",
        "_read_only": "Reader start_read_only",
        "_sandbox": "Sandbox",
        "_values": "Report ResourceLimits Restriction SandboxUnavailable",
    }

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals())


__all__ = [
    "Process",
    "Reader",
    "Report",
    "ResourceLimits",
    "Restriction",
    "Sandbox",
    "SandboxUnavailable",
    "contains_home",
    "find_placeholders",
    "safe_variables",
    "start_read_only",
]
