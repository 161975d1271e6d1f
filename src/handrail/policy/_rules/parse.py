"""Read rule files: TOML in, rules out, each with its line number and its examples checked."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from handrail import DESTROY, WRITE, Effect
from handrail._support import is_list, is_object
from handrail.permissions import Approvers, Origin, Verdict
from handrail.policy._rules.command import Command, parse_flag, parse_operand
from handrail.policy._rules.conditions import format_got, read_conditions
from handrail.policy._rules.errors import InvalidRule
from handrail.policy._rules.examples import check_examples, parse_access
from handrail.policy._rules.mode import Mode
from handrail.policy._rules.rule import Example, Level, Rule, Touch
from handrail.policy._rules.source import (
    SourceRules,
    read_source_match,
    read_source_rules,
)
from handrail.policy._rules.toml_text import format_value, rule_text
from handrail.policy._rules.touch import parse_effect, parse_touch
from handrail.policy._shell.wrappers import program_name

_HEADER = re.compile(r"""^[ \t]*\[\[[ \t]*(["']?)rule\1[ \t]*\]\]""", re.MULTILINE)
_APPROVER_KEYS = ("approvers", "not_requester", "count")
_KEYS = {
    "decide", "id", "reason", "tools", "tags", "effects", "access", "command", "flags", "operands",
    "getopt", "read_only", "without_cd", "recursive", "args", "expires", "once", "match",
    "not_match", "line", "sandboxed", "source", "links", "after", "review", *_APPROVER_KEYS,
}  # fmt: skip
"""Keys by their names in the first rule files."""
_COMMAND_KEYS = ("flags", "operands", "getopt", "read_only", "without_cd", "recursive")
_VERDICTS: dict[str, Verdict] = {"allow": "allow", "ask": "ask", "deny": "deny"}
_EXAMPLES = ("match", "not_match")
_ANY = "any"
_ALL = "*"
_MAX_HEADLINE_CHARS = 60
_MAX_COUNT = 10
"""Maximum approvals required by a rule."""


@dataclass(frozen=True, slots=True)
class RuleFile:
    """One file's rules and mode."""

    rules: tuple[Rule, ...]
    mode: Mode | None = None
    sources: SourceRules = False
    """Whether the ready rules about sources apply."""


def parse(text: str, *, file: str, level: Level, check: bool = True) -> RuleFile:
    """Read a rule file's text. Raises InvalidRule, with the line, if anything is wrong.

    This includes a failing example, unless ``check`` is False.
    """
    read = _parse_rules(text, file=file, level=level)
    for rule in read.rules if check else ():
        try:
            failed = next((result for result in check_examples(rule) if not result.holds), None)
        except InvalidRule as error:
            raise error.at(file, rule.origin.line) from None
        if failed is not None:
            reason = f"{failed}; change the rule or the example"
            raise InvalidRule(reason, file=file, line=rule.origin.line)
    return read


def _parse_rules(text: str, *, file: str, level: Level) -> RuleFile:
    """Read a rule file without checking its examples."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRule(f"invalid TOML: {error}", file=file) from None
    try:
        _check_keys(data, {"version", "mode", "rule", "sources"})
        _check_version(data.get("version", 1))
        mode = Mode.of(str(data["mode"])) if "mode" in data else None
        sources = read_source_rules(data.get("sources", False))
        tables = data.get("rule", [])
        lines = _rule_lines(text, tables)
    except InvalidRule as error:
        raise error.at(file) from None
    rules: list[Rule] = []
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    for table, line in zip(tables, lines, strict=True):
        try:
            origin = Origin(_get_text(table, "id"), file, line, digest=digest)
            rules.append(_read_rule(table, origin, level))
        except InvalidRule as error:
            raise error.at(file, line) from None
    return RuleFile(tuple(rules), mode, sources)


def _check_version(version: object) -> None:
    if version != 1 or version is True:
        raise InvalidRule(f"unknown version {format_value(version)}; use version = 1")


def _rule_lines(text: str, tables: object) -> list[int]:
    """Return each rule's first line number."""
    count = len(tables) if is_list(tables) else -1
    starts = [header.start() for header in _HEADER.finditer(text)]
    if len(starts) != count:  # a header inside a string: the text before it is not valid TOML
        starts = [start for start in starts if _is_toml(text[:start])]
    if len(starts) != count:
        raise InvalidRule("rules are not in tables; start each rule with [[rule]]")
    return [text.count("\n", 0, start) + 1 for start in starts]


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _read_rule(table: Mapping[str, Any], origin: Origin, level: Level) -> Rule:
    _check_keys(table, _KEYS)
    decide = _VERDICTS.get(str(table.get("decide")))
    if decide is None:
        got = format_got(table["decide"]) if "decide" in table else "but the rule has none"
        raise InvalidRule(f"decide must be 'allow', 'ask' or 'deny', {got}")
    rule = Rule(
        decide=decide,
        origin=origin,
        level=level,
        reason=_get_text(table, "reason"),
        tools=_get_texts(table, "tools"),
        tags=frozenset(_get_texts(table, "tags")),
        effects=frozenset(parse_effect(name) for name in _get_texts(table, "effects")),
        touches=tuple(_read_touches(_get_texts(table, "access"), decide)),
        commands=_read_commands(table, decide),
        line=_get_text(table, "line"),
        sandboxed=_get_switch(table, "sandboxed"),
        args=read_conditions(table["args"]) if "args" in table else {},
        expires=_read_expiry(table.get("expires")),
        once=_get_switch(table, "once") or any(key in table for key in _APPROVER_KEYS),
        approvers=_read_approvers(table),
        source=read_source_match(table),
        review=_get_switch(table, "review"),
        text=_canonical_text(table),
        examples=tuple(
            (_read_example(example), wanted)
            for key, wanted in (("match", True), ("not_match", False))
            for example in _get_list(table, key)
        ),
    )
    _check_combination(rule, table)
    return replace(rule, origin=replace(origin, rule=origin.rule or _headline(rule, table)))


def _check_combination(rule: Rule, table: Mapping[str, Any]) -> None:
    """Raise InvalidRule if a rule has conflicting keys."""
    matching = (rule.tools, rule.tags, rule.effects, rule.touches, rule.commands, rule.args)
    if not (any(matching) or rule.line or rule.source):
        raise InvalidRule(
            "the rule matches nothing; add tools, tags, effects, access, command, line or args"
        )
    if "line" in table and not rule.line.strip():
        raise InvalidRule("line is empty; add a value or remove the key")
    for key in ("once", "review", *_APPROVER_KEYS):
        if (rule.once or rule.review) and rule.decide != "ask" and key in table:
            raise InvalidRule(f"{key} is only for a rule with decide = 'ask'; remove it")
    if (rule.line or rule.sandboxed) and rule.decide != "allow":
        raise InvalidRule("line and sandboxed are only for a rule with decide = 'allow'")
    if rule.sandboxed and not (rule.commands or rule.line):
        raise InvalidRule("sandboxed is only for a rule with command or line; remove it")
    if sum(map(bool, (rule.touches, rule.commands, rule.line))) > 1:
        raise InvalidRule("a rule can have only one of access, command and line; write two rules")


def _headline(rule: Rule, table: Mapping[str, Any]) -> str:
    """Return a name for a rule without an id."""
    named = next(
        key
        for key in (
            "command",
            "line",
            "access",
            "tools",
            "tags",
            "effects",
            "args",
            "source",
            "after",
        )
        if table.get(key)
    )
    value = table[named]
    words = value if is_list(value) else [value]
    shown = ", ".join(" ".join(word) if is_list(word) else str(word) for word in words)
    if len(shown) > _MAX_HEADLINE_CHARS:
        shown = f"{shown[: _MAX_HEADLINE_CHARS - 1]}…"
    return f"{rule.decide} {shown}"


def _read_touches(texts: Iterable[str], decide: Verdict) -> Iterator[Touch]:
    """Read a rule's accesses. Restricting writes restricts destroying too."""
    for touch in map(parse_touch, texts):
        widens = decide != "allow" and WRITE in touch.verbs
        yield replace(touch, verbs=touch.verbs | {DESTROY}) if widens else touch


def _read_commands(table: Mapping[str, Any], decide: Verdict) -> tuple[Command, ...]:
    extra = [key for key in _COMMAND_KEYS if key in table]
    if extra and (decide != "allow" or "command" not in table):
        raise InvalidRule(f"{extra[0]} is only for a rule that allows a command; remove it")
    flags, operands = table.get("flags", []), table.get("operands", [])
    known = None if flags == _ANY else tuple(map(parse_flag, _as_strings(flags, "flags")))
    taken = (
        None if operands == _ANY else tuple(map(parse_operand, _as_strings(operands, "operands")))
    )
    commands = _read_words(table["command"], decide) if "command" in table else []
    if ("flags" in table or "operands" in table) and any(map(_is_wide, commands)):
        raise InvalidRule("a command that ends in '*' takes everything; remove flags and operands")
    return tuple(
        Command(
            words[:-1] if _is_wide(words) else words,
            None if _is_wide(words) else known,
            None if _is_wide(words) else taken,
            wide=_is_wide(words),
            getopt=_get_switch(table, "getopt"),
            read_only=_get_switch(table, "read_only"),
            without_cd=_get_switch(table, "without_cd"),
            recursive=("*",)
            if table.get("recursive") is True
            else _as_strings(table.get("recursive", []), "recursive"),
        )
        for words in commands
    )


def _is_wide(words: tuple[str, ...]) -> bool:
    """Return whether a command is one such as ``git *``, whatever follows."""
    return len(words) > 1 and words[-1] == _ALL


def _read_words(given: Any, decide: Verdict) -> list[tuple[str, ...]]:
    """Read commands: a string split at whitespace, or a list with its words."""
    several = [given] if isinstance(given, str) else given
    if not is_list(several):
        raise InvalidRule("command must be a string or a list of strings")
    commands = [
        tuple(command.split()) if isinstance(command, str) else _as_strings(command, "command")
        for command in several
    ]
    if not all(commands):
        raise InvalidRule("a command has no words; name a program, as 'git status'")
    if not commands:
        raise InvalidRule("command is empty; add a value or remove the key")
    if any(_ALL in words[:-1] for words in commands):
        raise InvalidRule("'*' can only be the last word of a command, as in 'git *'")
    if decide == "allow" and (_ALL,) in commands:
        raise InvalidRule("an allow must name a program, as 'git *'; a mode can allow the others")
    if decide == "allow":
        return commands
    return [
        (program_name(program), *rest) for program, *rest in commands
    ]  # a deny or an ask applies to a program at any path


def _read_expiry(value: Any) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise InvalidRule(f"expires must be a date or a date-time, as 2027-01-31, {format_got(value)}")


def _read_example(given: Any) -> Example:
    if isinstance(given, str):
        return Example(given)
    if is_object(given):
        table = given
        _check_keys(table, {"tool", "args", "access", "tags", "effect", "command"}, "example: ")
        effect = parse_effect(_get_text(table, "effect")) if "effect" in table else Effect.WRITE
        accesses = tuple(parse_access(text) for text in _get_texts(table, "access"))
        args: Any = table.get("args", {})
        if not is_object(args):
            raise InvalidRule(f"args must be a table, {format_got(args)}")
        if "command" in table:
            args = {**args, "command": _get_text(table, "command")}
        tags = frozenset(_get_texts(table, "tags"))
        return Example("", _get_text(table, "tool"), args, accesses, tags, effect)
    raise InvalidRule(f"an example must be a string or a table, {format_got(given)}")


def _canonical_text(table: Mapping[str, Any]) -> str:
    """Return a rule as TOML, without its examples."""
    return rule_text({key: value for key, value in table.items() if key not in _EXAMPLES})


def _check_keys(table: Mapping[str, Any], keys: Iterable[str], where: str = "") -> None:
    known = sorted(keys)
    unknown = next((key for key in sorted(table) if key not in known), None)
    if unknown is None:
        return
    from difflib import get_close_matches  # seldom needed

    close = get_close_matches(unknown, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(known)}"
    raise InvalidRule(f"{where}unknown key {unknown!r}; {hint}")


def _get_text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise InvalidRule(f"{key} must be a string, {format_got(value)}")
    return value


def _get_texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    if key not in table:
        return ()
    value = table[key]
    texts = _as_strings([value] if isinstance(value, str) else value, key)
    if not texts:
        raise InvalidRule(f"{key} is empty; add a value or remove the key")
    return texts


def _get_switch(table: Mapping[str, Any], key: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise InvalidRule(f"{key} must be true or false, {format_got(value)}")
    return value


def _get_list(table: Mapping[str, Any], key: str) -> list[Any]:
    value = table.get(key, [])
    if not is_list(value):
        raise InvalidRule(f"{key} must be a list, {format_got(value)}")
    return list(value)


def _as_strings(value: Any, key: str) -> tuple[str, ...]:
    if not is_list(value) or not all(isinstance(item, str) for item in value):
        raise InvalidRule(f"{key} must be a list of strings, {format_got(value)}")
    return tuple(value)


def _read_approvers(table: Mapping[str, Any]) -> Approvers:
    """Return who may answer a rule's requests."""
    names, count = table.get("approvers"), table.get("count", 1)
    not_requester = table.get("not_requester", False)
    if names is not None and not (is_list(names) and names and all(map(_is_name, names))):
        raise InvalidRule(
            f"approvers must be a list of people and groups, got {format_value(names)}"
        )
    if type(not_requester) is not bool:
        raise InvalidRule(f"not_requester must be true or false, got {format_value(not_requester)}")
    if type(count) is not int or not 1 <= count <= _MAX_COUNT:
        raise InvalidRule(
            f"count must be an integer from 1 to {_MAX_COUNT}, got {format_value(count)}"
        )
    return Approvers(() if names is None else (tuple(names),), not_requester, count)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
