"""Programs: a model writes Python, and each function that it calls is a call of its own.

Needs the extra ``handrail[programs]``.
"""

from handrail.programs._program import ProgramLimits
from handrail.programs._tool import program_tool, with_programs

__all__ = ["ProgramLimits", "program_tool", "with_programs"]
