"""Codex: translate prefix rules from a ``.rules`` file.

The file is read as literals and never run. As in handrail, the strictest matching rule decides.
"""

from __future__ import annotations

import ast
import shlex
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeAlias, cast

from handrail.permissions import Verdict
from handrail.policy._rules.errors import InvalidRule
from handrail.policy._rules.examples import matches_shell_command
from handrail.policy._rules.parse import parse
from handrail.policy._rules.rule import Level
from handrail.policy._rules.toml_text import rule_text
from handrail.policy.importers._commands import (
    EVERY,
    allow_table,
    describe_meaning,
    describe_risk,
    is_expressible,
    least_command_of_words,
)
from handrail.policy.importers._report import (
    Imported,
    RuleTranslation,
    TranslatedRule,
    as_list,
    report,
)

_VERDICTS: dict[str, Verdict] = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}
_PARAMETERS = {
    "prefix_rule": ("pattern", "decision", "match", "not_match", "justification"),
    "network_rule": ("host", "protocol", "decision", "justification"),
    "host_executable": ("name", "paths"),
}
_MAX_COMMANDS = 256
"""Maximum commands from one rule's alternatives."""
_Values: TypeAlias = dict[str, Any]
_Pattern: TypeAlias = list[list[str]]


class _Examples(NamedTuple):
    """Commands a rule must match, and commands it must not match."""

    match: list[str]
    not_match: list[str]

    def failing(self, table: _Values) -> _Examples:
        """Return the failing examples for a handrail rule."""
        rule = parse(rule_text(table), file="imported", level=Level.RUN).rules[0]
        return _Examples(
            [line for line in self.match if not matches_shell_command(rule, line)],
            [line for line in self.not_match if matches_shell_command(rule, line)],
        )

    def without(self, others: _Examples) -> _Values:
        """Return all but some examples, as keys for a handrail rule."""
        match = [line for line in self.match if line not in others.match]
        not_match = [line for line in self.not_match if line not in others.not_match]
        return ({"match": match} if match else {}) | ({"not_match": not_match} if not_match else {})


class _Attempt(NamedTuple):
    """A handrail rule that may be strict enough."""

    commands: list[str]
    exact: bool
    table: _Values
    failing: _Examples

    @classmethod
    def of(
        cls, head: _Values, examples: _Examples, commands: list[str], *, exact: bool
    ) -> _Attempt:
        table = {**head, "command": commands if len(commands) > 1 else commands[0]}
        return cls(commands, exact, table, examples.failing(table))


def translate(text: str, *, file: str = "default.rules") -> Imported:
    """Translate a file's rules. Raises InvalidRule for anything but calls with literals."""
    return report(_translate_call(node, text, file) for node in _calls(text, file))


def _calls(text: str, file: str) -> Iterator[ast.Call]:
    try:
        with warnings.catch_warnings():  # about escapes deprecated by Python
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        raise InvalidRule(error.msg, file=file, line=error.lineno or 1) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidRule(f"cannot be parsed: {error}", file=file) from None
    for node in tree.body:
        match node:
            case ast.Expr(ast.Call(ast.Name(name)) as call) if name in _PARAMETERS:
                yield call
            case ast.Expr(ast.Constant(str())):
                pass
            case _:
                reason = f"unsupported statement; use only {', '.join(_PARAMETERS)}"
                raise InvalidRule(reason, file=file, line=node.lineno)


def _translate_call(call: ast.Call, text: str, file: str) -> TranslatedRule:
    name = cast("ast.Name", call.func).id
    source = ast.get_source_segment(text, call) or name
    try:
        values = _read_values(call, _PARAMETERS[name])
        if name == "host_executable":
            why = "a handrail allow matches a program by its exact name, not by its path"
            return TranslatedRule(source, RuleTranslation("narrowed", why))
        return TranslatedRule(
            source,
            _translate_prefix_rule(values)
            if name == "prefix_rule"
            else _translate_network_rule(values),
        )
    except (InvalidRule, ValueError) as error:
        problem = error if isinstance(error, InvalidRule) else InvalidRule(str(error))
        raise problem.at(file, call.lineno) from None


def _read_values(call: ast.Call, names: Sequence[str]) -> _Values:
    if len(call.args) > len(names) or any(keyword.arg not in names for keyword in call.keywords):
        raise InvalidRule(f"{ast.unparse(call.func)} accepts only {', '.join(names)}")
    given = [
        *zip(names, call.args, strict=False),
        *((keyword.arg, keyword.value) for keyword in call.keywords),
    ]
    values: _Values = {}
    for name, node in given:
        try:
            values[str(name)] = ast.literal_eval(node)
        except (ValueError, TypeError, RecursionError, MemoryError):
            raise InvalidRule(f"{name} must be a literal") from None
    return values


def _read_verdict(values: _Values, verdicts: dict[str, Verdict]) -> Verdict:
    decision = values.get("decision")
    verdict = verdicts.get("allow" if decision is None else str(decision))
    if verdict is None:
        raise InvalidRule(f"decision must be one of {', '.join(verdicts)}")
    return verdict


def _translate_network_rule(values: _Values) -> RuleTranslation:
    verdict = _read_verdict(values, {**_VERDICTS, "deny": "deny"})
    host = values.get("host")
    if not isinstance(host, str) or not is_expressible(host):
        raise InvalidRule("host must be a host name")
    if verdict == "allow":
        return RuleTranslation(
            "lost", "a handrail rule cannot name a protocol, so it would allow all of them"
        )
    table = {"decide": verdict, **_reason(values), "access": f"* net:{host.lower()}/**"}
    return RuleTranslation("widened", "in handrail it matches every protocol", (table,))


def _translate_prefix_rule(values: _Values) -> RuleTranslation:
    verdict, pattern = _read_verdict(values, _VERDICTS), _read_pattern(values.get("pattern"))
    examples = _Examples(_read_lines(values, "match"), _read_lines(values, "not_match"))
    if verdict == "allow":
        return _allow(pattern, _reason(values), examples)
    return _restrict({"decide": verdict, **_reason(values)}, pattern, examples)


def _read_pattern(value: Any) -> _Pattern:
    elements = [
        [element] if isinstance(element, str) else _as_texts(element, "pattern")
        for element in _as_list(value, "pattern")
    ]
    if not elements or not all(elements):
        raise InvalidRule("pattern must be a list of words, or of lists of alternative words")
    return elements


def _read_lines(values: _Values, name: str) -> list[str]:
    """Return examples as shell commands."""
    return [
        example if isinstance(example, str) else shlex.join(_as_texts(example, name))
        for example in _as_list(values.get(name) or [], name)
    ]


def _as_texts(value: object, name: str) -> list[str]:
    several = _as_list(value, name)
    if not all(isinstance(item, str) for item in several):
        raise InvalidRule(f"{name} must be a list of strings")
    return several


def _as_list(value: object, name: str) -> list[Any]:
    several = as_list(value)
    if several is None:
        raise InvalidRule(f"{name} must be a list")
    return several


def _reason(values: _Values) -> _Values:
    reason = values.get("justification")
    return {"reason": str(reason)} if reason else {}


def _allow(pattern: _Pattern, reason: _Values, examples: _Examples) -> RuleTranslation:
    if prod(map(len, pattern)) > _MAX_COMMANDS:
        return RuleTranslation(
            "lost", f"its alternatives expand to more than {_MAX_COMMANDS} commands"
        )
    every = list(product(*pattern))
    commands = [" ".join(words) for words in every if all(map(is_expressible, words))]
    if not commands:
        return RuleTranslation("lost", "a handrail command cannot have words with spaces")
    table = {**allow_table(commands), **reason}
    failing = examples.failing(table)
    if failing.not_match:
        return RuleTranslation("lost", f"it would allow {failing.not_match[0]!r}")
    less = ["alternatives with spaces are omitted"] if len(commands) < len(every) else []
    less += [f"it does not allow {line!r}" for line in failing.match[:1]]
    why = "; ".join(filter(None, [describe_risk(commands), *less]))
    table = {**table, **examples.without(failing)}
    return RuleTranslation("narrowed" if less else "imported", why, (table,))


def _restrict(head: _Values, pattern: _Pattern, examples: _Examples) -> RuleTranslation:
    """Return the narrowest rule for a whole pattern and every example in ``match``."""
    attempts = [
        _Attempt.of(head, examples, commands, exact=exact) for commands, exact in _stricter(pattern)
    ]
    attempt = next((attempt for attempt in attempts if not attempt.failing.match), attempts[-1])
    more = [f"it also matches {line!r}" for line in attempt.failing.not_match[:1]]
    if not attempt.exact:
        more.insert(0, describe_meaning(attempt.commands))
    table = {**attempt.table, **examples.without(attempt.failing)}
    return RuleTranslation("widened" if more else "imported", "; ".join(more), (table,))


def _stricter(pattern: _Pattern) -> Iterator[tuple[list[str], bool]]:
    """Yield commands matching a whole pattern, the narrowest first, and if they are exact."""
    short = list(pattern)
    while prod(map(len, short)) > _MAX_COMMANDS:
        short.pop()
    if short:
        least = [least_command_of_words(words) for words in product(*short)]
        whole = len(short) == len(pattern) and all(exact for _, exact in least)
        yield _unique(command for command, _ in least), whole
        yield _unique(least_command_of_words([first])[0] for first in short[0]), False
    yield [EVERY], False


def _unique(commands: Iterable[str]) -> list[str]:
    several = list(dict.fromkeys(commands))
    return [EVERY] if EVERY in several else several
