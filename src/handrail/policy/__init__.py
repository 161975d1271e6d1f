"""Judgement: modes, rules as data that explain themselves, and shell commands read strictly.

A ``Rulebook`` is the ``policy`` of an executor. ``load`` makes one from the files of a machine, a
user and a workspace.
"""

from handrail.policy._errors import Unusable
from handrail.policy._example import Tried, tries
from handrail.policy._file import RuleFile, parse, parse_unchecked
from handrail.policy._levels import Places, load, shipped
from handrail.policy._memory import Memory, Remembered
from handrail.policy._mode import Mode, strictest
from handrail.policy._replay import Change, Recorded, recorded, replay
from handrail.policy._rule import Example, Level, Rule
from handrail.policy._rulebook import Rulebook
from handrail.policy._trust import Trust, digest

__all__ = [
    "Change",
    "Example",
    "Level",
    "Memory",
    "Mode",
    "Places",
    "Recorded",
    "Remembered",
    "Rule",
    "RuleFile",
    "Rulebook",
    "Tried",
    "Trust",
    "Unusable",
    "digest",
    "load",
    "parse",
    "parse_unchecked",
    "recorded",
    "replay",
    "shipped",
    "strictest",
    "tries",
]
