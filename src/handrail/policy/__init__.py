"""Permission rules: rules as data, modes, shell command parsing, trust and remembered approvals.

A ``Rulebook`` is a ``policy`` for an executor. ``load`` makes one from the rule files of the
system, the user and the workspace.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.policy._decisions.replay import Change, Recorded, recorded, replay
    from handrail.policy._decisions.rulebook import Rulebook
    from handrail.policy._decisions.unreachable import UnreachableRule
    from handrail.policy._rules.errors import InvalidRule, RuleProblem
    from handrail.policy._rules.examples import ExampleResult, check_examples
    from handrail.policy._rules.mode import Mode, strictest
    from handrail.policy._rules.parse import RuleFile, parse
    from handrail.policy._rules.paths import RulePaths, user_home
    from handrail.policy._rules.rule import Example, Level, Rule
    from handrail.policy._stores.load import builtin_rules, load
    from handrail.policy._stores.remembered import RememberedApprovals, RememberedRule
    from handrail.policy._stores.trust import Trust, digest
else:
    _HOMES = {
        "Change": "_decisions.replay",
        "Example": "_rules.rule",
        "ExampleResult": "_rules.examples",
        "InvalidRule": "_rules.errors",
        "Level": "_rules.rule",
        "Mode": "_rules.mode",
        "Recorded": "_decisions.replay",
        "RememberedApprovals": "_stores.remembered",
        "RememberedRule": "_stores.remembered",
        "Rule": "_rules.rule",
        "RuleFile": "_rules.parse",
        "RulePaths": "_rules.paths",
        "RuleProblem": "_rules.errors",
        "Rulebook": "_decisions.rulebook",
        "Trust": "_stores.trust",
        "UnreachableRule": "_decisions.unreachable",
        "builtin_rules": "_stores.load",
        "check_examples": "_rules.examples",
        "digest": "_stores.trust",
        "load": "_stores.load",
        "parse": "_rules.parse",
        "recorded": "_decisions.replay",
        "replay": "_decisions.replay",
        "strictest": "_rules.mode",
        "user_home": "_rules.paths",
    }

    __getattr__, __dir__ = make_lazy(__name__, _HOMES, globals())


__all__ = [
    "Change",
    "Example",
    "ExampleResult",
    "InvalidRule",
    "Level",
    "Mode",
    "Recorded",
    "RememberedApprovals",
    "RememberedRule",
    "Rule",
    "RuleFile",
    "RulePaths",
    "RuleProblem",
    "Rulebook",
    "Trust",
    "UnreachableRule",
    "builtin_rules",
    "check_examples",
    "digest",
    "load",
    "parse",
    "recorded",
    "replay",
    "strictest",
    "user_home",
]
