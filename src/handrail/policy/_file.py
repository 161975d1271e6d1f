"""Rule files: TOML in, rules out, each with the line that it stands in and its examples checked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from handrail import READ, Access, Effect
from handrail.judgement import Origin, Verdict
from handrail.policy._command import Command, flag, operand
from handrail.policy._errors import Unusable
from handrail.policy._example import accessed, tries
from handrail.policy._glob import name_glob, path_glob
from handrail.policy._mode import Mode
from handrail.policy._places import home
from handrail.policy._regex import regex
from handrail.policy._rule import Condition, Example, Level, Rule, Touch
from handrail.policy._shapes import is_list, is_table
from handrail.policy._toml import rule_text
from handrail.policy._wrappers import base

_HEADER = re.compile(r"""^[ \t]*\[\[[ \t]*(["']?)rule\1[ \t]*\]\]""", re.MULTILINE)
_KEYS = {
    "decide", "id", "reason", "tools", "tags", "effects", "access", "command", "flags", "operands",
    "reads", "here", "deep", "args", "expires", "once", "match", "not_match",
}  # fmt: skip
_VERDICTS: dict[str, Verdict] = {"allow": "allow", "ask": "ask", "deny": "deny"}
_EXAMPLES = ("match", "not_match")
_ANY = "any"


@dataclass(frozen=True, slots=True)
class RuleFile:
    """What one file says."""

    rules: tuple[Rule, ...]
    mode: Mode | None = None


def parse(text: str, *, file: str, level: Level) -> RuleFile:
    """Read a rule file; Unusable, with the line, where anything in it is not as it should be.

    That includes an example that does not hold.
    """
    made = parse_unchecked(text, file=file, level=level)
    for rule in made.rules:
        try:
            wrong = next((tried for tried in tries(rule) if not tried.holds), None)
        except Unusable as error:
            raise Unusable(f"{file}:{rule.origin.line}: {error}") from None
        if wrong is not None:
            raise Unusable(f"{file}:{rule.origin.line}: {wrong}")
    return made


def parse_unchecked(text: str, *, file: str, level: Level) -> RuleFile:
    """Read a rule file, and leave its examples for later."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unusable(f"{file}: {error}") from None
    _only(data, {"version", "mode", "rule"}, file)
    if data.get("version", 1) != 1 or data.get("version") is True:
        raise Unusable(f"{file}: version {data['version']!r} is not known here; there is 1")
    tables = data.get("rule", [])
    rules: list[Rule] = []
    for table, line in zip(tables, _lines(text, tables, file), strict=True):
        try:
            rules.append(_rule(table, Origin(_text(table, "id"), file, line), level))
        except Unusable as error:
            raise Unusable(f"{file}:{line}: {error}") from None
    mode = data.get("mode")
    try:
        return RuleFile(tuple(rules), Mode.of(str(mode)) if mode is not None else None)
    except Unusable as error:
        raise Unusable(f"{file}: {error}") from None


def _lines(text: str, tables: object, file: str) -> list[int]:
    """The line that each rule begins in."""
    count = len(tables) if is_list(tables) else -1
    starts = [one.start() for one in _HEADER.finditer(text)]
    if len(starts) != count:  # a header within a text is none: what stands before it does not parse
        starts = [start for start in starts if _parses(text[:start])]
    if len(starts) != count:
        raise Unusable(f"{file}: write each rule as a table of its own, under [[rule]]")
    return [text.count("\n", 0, start) + 1 for start in starts]


def _parses(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _rule(table: Mapping[str, Any], origin: Origin, level: Level) -> Rule:
    _only(table, _KEYS, "the rule")
    decide = _VERDICTS.get(str(table.get("decide")))
    if decide is None:
        raise Unusable("decide must be 'allow', 'ask' or 'deny'")
    rule = Rule(
        decide=decide,
        origin=origin,
        level=level,
        reason=_text(table, "reason"),
        tools=_texts(table, "tools"),
        tags=frozenset(_texts(table, "tags")),
        effects=frozenset(_effect(one) for one in _texts(table, "effects")),
        touches=tuple(touch(one) for one in _texts(table, "access")),
        commands=_commands(table, decide),
        args=_conditions(table["args"]) if "args" in table else {},
        expires=_expiry(table.get("expires")),
        once=_yes(table, "once"),
        text=_canonical(table),
        examples=tuple(
            (_example(one), wanted)
            for key, wanted in (("match", True), ("not_match", False))
            for one in _list(table, key)
        ),
    )
    if not (rule.tools or rule.tags or rule.effects or rule.touches or rule.commands or rule.args):
        raise Unusable(
            "the rule names nothing: give it tools, tags, effects, access, command or args"
        )
    if rule.once and decide != "ask":
        raise Unusable("once is for a rule that asks")
    if rule.touches and rule.commands:
        raise Unusable("a rule names commands or accesses, not both")
    return replace(rule, origin=replace(origin, rule=origin.rule or _headline(rule, table)))


def _headline(rule: Rule, table: Mapping[str, Any]) -> str:
    """What a rule without an id is called."""
    named = next(
        key for key in ("command", "access", "tools", "tags", "effects", "args") if table.get(key)
    )
    value = table[named]
    words = value if is_list(value) else [value]
    shown = ", ".join(" ".join(one) if is_list(one) else str(one) for one in words)
    return f"{rule.decide} {shown if len(shown) <= 60 else shown[:59] + '…'}"  # noqa: PLR2004


def touch(text: str) -> Touch:
    """An access as a rule writes it: ``write file:src/**``, ``read|write net:*``, ``* db:**``."""
    verbs, _, resource = text.strip().partition(" ")
    if not resource:
        raise Unusable(
            f"{text!r} is no access: write a verb and a resource, as 'write file:src/**'"
        )
    if resource.startswith("file:~/"):
        resource = f"file:{home()}{resource.removeprefix('file:~')}"
    named = list(Effect) if verbs == "*" else [_effect(one) for one in verbs.split("|")]
    try:
        return Touch(frozenset(named), Access(READ, resource.strip()).resource)
    except ValueError as error:
        raise Unusable(str(error)) from None


def _effect(name: str) -> Effect:
    try:
        return Effect[name.upper()]
    except KeyError:
        raise Unusable(f"{name!r} is no effect: there are read, write and destroy") from None


def _commands(table: Mapping[str, Any], decide: Verdict) -> tuple[Command, ...]:
    extra = [key for key in ("flags", "operands", "reads", "here", "deep") if key in table]
    if extra and (decide != "allow" or "command" not in table):
        raise Unusable(f"{extra[0]} is for a rule that allows a command")
    flags, operands = table.get("flags", []), table.get("operands", [])
    return tuple(
        Command(
            words,
            None if flags == _ANY else tuple(flag(one) for one in _strings(flags, "flags")),
            None
            if operands == _ANY
            else tuple(operand(one) for one in _strings(operands, "operands")),
            reads=_yes(table, "reads"),
            here=_yes(table, "here"),
            deep=("*",) if table.get("deep") is True else _strings(table.get("deep", []), "deep"),
        )
        for words in (_words(table["command"], decide) if "command" in table else ())
    )


def _words(given: Any, decide: Verdict) -> list[tuple[str, ...]]:
    """Commands by their words: a text that is split at blanks, or a list of the words."""
    several = [given] if isinstance(given, str) else given
    if not is_list(several):
        raise Unusable("command must be a text, or a list")
    made = [
        tuple(one.split()) if isinstance(one, str) else _strings(one, "command") for one in several
    ]
    if not all(made):
        raise Unusable("a command needs at least one word")
    if not made:
        raise Unusable("command is empty: leave it out, or name something")
    if any("*" in words and (decide == "allow" or len(words) > 1) for words in made):
        raise Unusable("'*' alone is every command, for a rule that denies or asks")
    if decide == "allow":
        return made
    return [(base(program), *rest) for program, *rest in made]  # wherever the program lies


def _conditions(table: object) -> dict[str, Condition]:
    if not is_table(table):
        raise Unusable("args must be a table")
    if not table:
        raise Unusable("args is empty: leave it out, or name something")
    return {name: _condition(name, wanted) for name, wanted in table.items()}


def _condition(name: str, wanted: Any) -> Condition:
    if not is_table(wanted):
        return lambda value: _same(value, wanted)
    tests = [_test(name, str(kind), bound) for kind, bound in wanted.items()]
    return lambda value: all(test(value) for test in tests)


def _test(name: str, kind: str, bound: Any) -> Condition:
    text: dict[str, Callable[[str], Callable[[str], bool]]] = {
        "glob": path_glob,
        "like": name_glob,
        "regex": regex,
    }
    numbers: dict[str, Callable[[Any, Any], bool]] = {
        "min": lambda value, limit: value >= limit,
        "max": lambda value, limit: value <= limit,
        "above": lambda value, limit: value > limit,
        "below": lambda value, limit: value < limit,
    }
    if kind in text and isinstance(bound, str):
        fits = text[kind](bound)
        return lambda value: isinstance(value, str) and fits(value)
    if kind in numbers and _number(bound):
        compare = numbers[kind]
        return lambda value: _number(value) and compare(value, bound)
    if kind == "in" and is_list(bound):
        return lambda value: any(_same(value, one) for one in bound)
    raise Unusable(
        f"args.{name}: write a value, or a table with glob, like, regex, in, min, max, above, below"
    )


def _same(value: Any, wanted: Any) -> bool:
    """Equal, as JSON sees it: 5 is 5.0, but true is no number."""
    return value == wanted and (type(value) is type(wanted) or (_number(value) and _number(wanted)))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _expiry(value: Any) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise Unusable("expires must be a date or a time, as 2027-01-31")


def _example(given: Any) -> Example:
    if isinstance(given, str):
        return Example(given)
    if is_table(given):
        table = given
        _only(table, {"tool", "args", "access", "tags", "effect", "command"}, "the example")
        effect = _effect(_text(table, "effect")) if "effect" in table else Effect.WRITE
        accesses = tuple(accessed(one) for one in _texts(table, "access"))
        args: Any = table.get("args", {})
        if not is_table(args):
            raise Unusable("args must be a table")
        if "command" in table:
            args = {**args, "command": _text(table, "command")}
        tags = frozenset(_texts(table, "tags"))
        return Example("", _text(table, "tool"), args, accesses, tags, effect)
    raise Unusable("an example is a text or a table")


def _canonical(table: Mapping[str, Any]) -> str:
    """A rule as it is written, but for its examples."""
    return rule_text({key: value for key, value in table.items() if key not in _EXAMPLES})


def _only(table: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    unknown = sorted(set(table) - set(keys))
    if unknown:
        raise Unusable(f"{where} has the unknown key {unknown[0]!r}")


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise Unusable(f"{key} must be a text")
    return value


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    if key not in table:
        return ()
    value = table[key]
    made = _strings([value] if isinstance(value, str) else value, key)
    if not made:
        raise Unusable(f"{key} is empty: leave it out, or name something")
    return made


def _yes(table: Mapping[str, Any], key: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise Unusable(f"{key} must be true or false")
    return value


def _list(table: Mapping[str, Any], key: str) -> list[Any]:
    value = table.get(key, [])
    if not is_list(value):
        raise Unusable(f"{key} must be a list")
    return list(value)


def _strings(value: Any, key: str) -> tuple[str, ...]:
    if not is_list(value) or not all(isinstance(one, str) for one in value):
        raise Unusable(f"{key} must be a list of texts")
    return tuple(value)
