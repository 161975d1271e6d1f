"""Codex: the prefix rules of a ``.rules`` file, as rules of ours.

The file is read as literals and never run. As here, the strictest rule that matches decides there.
"""

from __future__ import annotations

import ast
import shlex
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeAlias, cast

from handrail.judgement import Verdict
from handrail.policy._errors import Unusable
from handrail.policy._example import means_line
from handrail.policy._file import parse
from handrail.policy._rule import Level
from handrail.policy._toml import rule_text
from handrail.policy.importers._commands import (
    EVERY,
    allowing,
    meaning,
    refused_words,
    sayable,
    warning,
)
from handrail.policy.importers._report import Draft, Entry, Imported, listed, report

_VERDICTS: dict[str, Verdict] = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}
_PARAMETERS = {
    "prefix_rule": ("pattern", "decision", "match", "not_match", "justification"),
    "network_rule": ("host", "protocol", "decision", "justification"),
    "host_executable": ("name", "paths"),
}
_MOST = 256
"""Commands that the alternatives of one rule become, at most."""
_Values: TypeAlias = dict[str, Any]
_Pattern: TypeAlias = list[list[str]]


class _Examples(NamedTuple):
    """Command lines that a rule says it means, and that it does not mean."""

    match: list[str]
    not_match: list[str]

    def failing(self, table: _Values) -> _Examples:
        """Those that do not hold of a rule of ours."""
        rule = parse(rule_text(table), file="imported", level=Level.RUN).rules[0]
        return _Examples(
            [one for one in self.match if not means_line(rule, one)],
            [one for one in self.not_match if means_line(rule, one)],
        )

    def without(self, others: _Examples) -> _Values:
        """All but some, as a rule of ours writes them."""
        match = [one for one in self.match if one not in others.match]
        not_match = [one for one in self.not_match if one not in others.not_match]
        return ({"match": match} if match else {}) | ({"not_match": not_match} if not_match else {})


class _Attempt(NamedTuple):
    """A rule of ours that may be strict enough."""

    commands: list[str]
    exact: bool
    table: _Values
    failing: _Examples

    @classmethod
    def of(cls, head: _Values, examples: _Examples, commands: list[str], exact: bool) -> _Attempt:  # noqa: FBT001  a pair, taken apart
        table = {**head, "command": commands if len(commands) > 1 else commands[0]}
        return cls(commands, exact, table, examples.failing(table))


def translate(text: str, *, file: str = "default.rules") -> Imported:
    """The rules of a file; Unusable, with the line, where it is more than calls with literals."""
    return report(_entry(node, text, file) for node in _calls(text, file))


def _calls(text: str, file: str) -> Iterator[ast.Call]:
    try:
        with warnings.catch_warnings():  # of escapes that Python means to give up
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        raise Unusable(f"{file}:{error.lineno or 1}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unusable(f"{file}: it cannot be read: {error}") from None
    for node in tree.body:
        match node:
            case ast.Expr(ast.Call(ast.Name(name)) as call) if name in _PARAMETERS:
                yield call
            case ast.Expr(ast.Constant(str())):
                pass
            case _:
                raise Unusable(f"{file}:{node.lineno}: there may be {', '.join(_PARAMETERS)} only")


def _entry(call: ast.Call, text: str, file: str) -> Entry:
    name = cast("ast.Name", call.func).id
    source = ast.get_source_segment(text, call) or name
    try:
        values = _values(call, _PARAMETERS[name])
        if name == "host_executable":
            why = "an allow here means the name as it is written, and no path that it may lie at"
            return Entry(source, Draft("narrowed", why))
        return Entry(source, _prefix(values) if name == "prefix_rule" else _network(values))
    except (Unusable, ValueError) as error:
        raise Unusable(f"{file}:{call.lineno}: {error}") from None


def _values(call: ast.Call, names: Sequence[str]) -> _Values:
    if len(call.args) > len(names) or any(one.arg not in names for one in call.keywords):
        raise Unusable(f"{ast.unparse(call.func)} takes {', '.join(names)}")
    given = [*zip(names, call.args, strict=False), *((one.arg, one.value) for one in call.keywords)]
    values: _Values = {}
    for name, node in given:
        try:
            values[str(name)] = ast.literal_eval(node)
        except (ValueError, TypeError, RecursionError, MemoryError):
            raise Unusable(f"{name} must be written out") from None
    return values


def _verdict(values: _Values, verdicts: dict[str, Verdict]) -> Verdict:
    decision = values.get("decision")
    verdict = verdicts.get("allow" if decision is None else str(decision))
    if verdict is None:
        raise Unusable(f"decision must be one of {', '.join(verdicts)}")
    return verdict


def _network(values: _Values) -> Draft:
    verdict = _verdict(values, {**_VERDICTS, "deny": "deny"})
    host = values.get("host")
    if not isinstance(host, str) or not sayable(host):
        raise Unusable("host must be a name")
    if verdict == "allow":
        return Draft("lost", "a rule here cannot name a protocol, and so would allow all of them")
    table = {"decide": verdict, **_reason(values), "access": f"* net:{host.lower()}/**"}
    return Draft("widened", "it means every protocol here", (table,))


def _prefix(values: _Values) -> Draft:
    verdict, pattern = _verdict(values, _VERDICTS), _pattern(values.get("pattern"))
    examples = _Examples(_lines(values, "match"), _lines(values, "not_match"))
    if verdict == "allow":
        return _allowed(pattern, _reason(values), examples)
    return _refused({"decide": verdict, **_reason(values)}, pattern, examples)


def _pattern(value: Any) -> _Pattern:
    elements = [
        [one] if isinstance(one, str) else _texts(one, "pattern") for one in _list(value, "pattern")
    ]
    if not elements or not all(elements):
        raise Unusable("pattern must be a list of words, and of lists of words to choose from")
    return elements


def _lines(values: _Values, name: str) -> list[str]:
    """Examples as command lines."""
    return [
        one if isinstance(one, str) else shlex.join(_texts(one, name))
        for one in _list(values.get(name) or [], name)
    ]


def _texts(value: object, name: str) -> list[str]:
    several = _list(value, name)
    if not all(isinstance(one, str) for one in several):
        raise Unusable(f"{name} must hold texts")
    return several


def _list(value: object, name: str) -> list[Any]:
    several = listed(value)
    if several is None:
        raise Unusable(f"{name} must be a list")
    return several


def _reason(values: _Values) -> _Values:
    reason = values.get("justification")
    return {"reason": str(reason)} if reason else {}


def _allowed(pattern: _Pattern, reason: _Values, examples: _Examples) -> Draft:
    if prod(map(len, pattern)) > _MOST:
        return Draft("lost", f"its alternatives make more than {_MOST} commands")
    every = list(product(*pattern))
    said = [" ".join(words) for words in every if all(map(sayable, words))]
    if not said:
        return Draft("lost", "a command here has no words with blanks in them")
    table = {**allowing(said), **reason}
    failing = examples.failing(table)
    if failing.not_match:
        return Draft("lost", f"it would allow {failing.not_match[0]!r} here")
    less = ["words with blanks in them are left out"] if len(said) < len(every) else []
    less += [f"it does not allow {one!r} here" for one in failing.match[:1]]
    why = "; ".join(filter(None, [warning(said), *less]))
    kept = examples.without(failing)
    return Draft("narrowed" if less else "imported", why, ({**table, **kept},))


def _refused(head: _Values, pattern: _Pattern, examples: _Examples) -> Draft:
    """The narrowest rule that means all of a pattern, and every example that it should mean."""
    tried = [_Attempt.of(head, examples, *one) for one in _stricter(pattern)]
    made = next((one for one in tried if not one.failing.match), tried[-1])
    more = [f"it means {one!r} too here" for one in made.failing.not_match[:1]]
    if not made.exact:
        more.insert(0, meaning(made.commands))
    table = {**made.table, **examples.without(made.failing)}
    return Draft("widened" if more else "imported", "; ".join(more), (table,))


def _stricter(pattern: _Pattern) -> Iterator[tuple[list[str], bool]]:
    """Commands that mean all of a pattern, the narrowest first, and whether they mean no more."""
    short = list(pattern)
    while prod(map(len, short)) > _MOST:
        short.pop()
    if short:
        refused = [refused_words(words) for words in product(*short)]
        whole = len(short) == len(pattern) and all(exact for _, exact in refused)
        yield _unique(command for command, _ in refused), whole
        yield _unique(refused_words([first])[0] for first in short[0]), False
    yield [EVERY], False


def _unique(commands: Iterable[str]) -> list[str]:
    several = list(dict.fromkeys(commands))
    return [EVERY] if EVERY in several else several
