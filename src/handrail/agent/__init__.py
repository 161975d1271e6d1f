"""A small agent loop: a model and its tools take turns, and the whole of it is one value."""

from handrail.agent._agent import Agent
from handrail.agent._codec import Unreadable, dump, load
from handrail.agent._files import Remark, Trusted, Untrusted
from handrail.agent._instructions import Instructions, read_instructions
from handrail.agent._limits import Limits
from handrail.agent._plan import Done, Happening, Save, Stopped, Watch
from handrail.agent._run import Run
from handrail.agent._skills import Skill, Skills, find_skills
from handrail.agent._state import State

__all__ = [
    "Agent",
    "Done",
    "Happening",
    "Instructions",
    "Limits",
    "Remark",
    "Run",
    "Save",
    "Skill",
    "Skills",
    "State",
    "Stopped",
    "Trusted",
    "Unreadable",
    "Untrusted",
    "Watch",
    "dump",
    "find_skills",
    "load",
    "read_instructions",
]
