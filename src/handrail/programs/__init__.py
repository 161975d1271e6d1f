"""Programs: a model writes Python, and each function call in it is a separate tool call.

Needs the extra ``handrail[programs]``.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.programs._program import ProgramLimits
    from handrail.programs._tool import program_tool, with_programs
else:
    _MODULES = {
        "_program": "ProgramLimits",
        "_tool": "program_tool with_programs",
    }

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals(), extra="programs")

__all__ = ["ProgramLimits", "program_tool", "with_programs"]
