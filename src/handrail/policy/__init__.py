"""Judgement: modes, rules as data that explain themselves, and shell commands read strictly.

A ``Rulebook`` is the ``policy`` of an executor. ``load`` makes one from the files of a machine, a
user and a workspace.
"""

from typing import TYPE_CHECKING

from handrail._door import door

if TYPE_CHECKING:
    from handrail.policy._errors import Unusable
    from handrail.policy._example import Tried, tries
    from handrail.policy._file import RuleFile, parse, parse_unchecked
    from handrail.policy._levels import load, shipped
    from handrail.policy._memory import Memory, Remembered
    from handrail.policy._mode import Mode, strictest
    from handrail.policy._places import Places, home
    from handrail.policy._replay import Change, Recorded, recorded, replay
    from handrail.policy._rule import Example, Level, Rule
    from handrail.policy._rulebook import Rulebook
    from handrail.policy._trust import Trust, digest
else:
    _HOMES = {
        "Change": "_replay",
        "Example": "_rule",
        "Level": "_rule",
        "Memory": "_memory",
        "Mode": "_mode",
        "Places": "_places",
        "Recorded": "_replay",
        "Remembered": "_memory",
        "Rule": "_rule",
        "RuleFile": "_file",
        "Rulebook": "_rulebook",
        "Tried": "_example",
        "Trust": "_trust",
        "Unusable": "_errors",
        "digest": "_trust",
        "home": "_places",
        "load": "_levels",
        "parse": "_file",
        "parse_unchecked": "_file",
        "recorded": "_replay",
        "replay": "_replay",
        "shipped": "_levels",
        "strictest": "_mode",
        "tries": "_example",
    }

    __getattr__, __dir__ = door(__name__, _HOMES, globals())


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
    "home",
    "load",
    "parse",
    "parse_unchecked",
    "recorded",
    "replay",
    "shipped",
    "strictest",
    "tries",
]
