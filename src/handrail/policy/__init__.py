"""Permission rules: rules as data, modes, shell command parsing, trust and remembered approvals.

A ``Rulebook`` is an executor's ``policy``. ``load`` makes one from the system, user and workspace
rule files.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.policy._code.code_files import CodeFiles, find_code_files
    from handrail.policy._decisions.replay import (
        Change,
        Recorded,
        read_decision,
        recorded_calls,
        replay,
    )
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
    from handrail.policy._stores.usage import (
        RecordedLine,
        RuleEffect,
        RuleLine,
        RuleTrial,
        RuleUse,
        count_uses,
        load_files,
        make_patch,
        read_recorded,
        try_rules,
    )
else:
    _MODULES = {
        "_code.code_files": "CodeFiles find_code_files",
        "_decisions.replay": "Change Recorded read_decision recorded_calls replay",
        "_decisions.rulebook": "Rulebook",
        "_decisions.unreachable": "UnreachableRule",
        "_rules.errors": "InvalidRule RuleProblem",
        "_rules.examples": "ExampleResult check_examples",
        "_rules.mode": "Mode strictest",
        "_rules.parse": "RuleFile parse",
        "_rules.paths": "RulePaths user_home",
        "_rules.rule": "Example Level Rule",
        "_stores.load": "builtin_rules load",
        "_stores.remembered": "RememberedApprovals RememberedRule",
        "_stores.trust": "Trust digest",
        "_stores.usage": (
            "RecordedLine RuleEffect RuleLine RuleTrial RuleUse count_uses load_files make_patch "
            "read_recorded try_rules"
        ),
    }

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals())


__all__ = [
    "Change",
    "CodeFiles",
    "Example",
    "ExampleResult",
    "InvalidRule",
    "Level",
    "Mode",
    "Recorded",
    "RecordedLine",
    "RememberedApprovals",
    "RememberedRule",
    "Rule",
    "RuleEffect",
    "RuleFile",
    "RuleLine",
    "RulePaths",
    "RuleProblem",
    "RuleTrial",
    "RuleUse",
    "Rulebook",
    "Trust",
    "UnreachableRule",
    "builtin_rules",
    "check_examples",
    "count_uses",
    "digest",
    "find_code_files",
    "load",
    "load_files",
    "make_patch",
    "parse",
    "read_decision",
    "read_recorded",
    "recorded_calls",
    "replay",
    "strictest",
    "try_rules",
    "user_home",
]
