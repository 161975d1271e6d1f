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
    _HOMES = {
        "Process": "_process.running",
        "Reader": "_read_only",
        "Report": "_values",
        "ResourceLimits": "_values",
        "Restriction": "_values",
        "Sandbox": "_sandbox",
        "SandboxUnavailable": "_values",
        "contains_home": "_home",
        "find_placeholders": "_bubblewrap.placeholders",
        "safe_variables": "_environment",
        "start_read_only": "_read_only",
    }

    __getattr__, __dir__ = make_lazy(__name__, _HOMES, globals())


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
