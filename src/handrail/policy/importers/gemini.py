"""Gemini CLI: translate rules from a policy file.

In Gemini CLI the matching rule with the highest priority decides. In handrail a deny overrides an
ask, and an ask overrides an allow. If an allow gets stricter by this, its note says so.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from handrail.permissions import Verdict
from handrail.policy._rules.errors import InvalidRule
from handrail.policy._rules.glob import name_glob
from handrail.policy.importers._commands import (
    EVERY,
    allow_table,
    describe_meaning,
    describe_risk,
    least_command,
    plain_words,
)
from handrail.policy.importers._report import (
    Imported,
    RuleTranslation,
    Table,
    TranslatedRule,
    as_list,
    report,
)

_SHELL, _OUR_SHELL = "run_shell_command", "bash"
_OURS = {
    "glob": "glob",
    "google_web_search": "web_search",
    "grep_search": "grep",
    "read_file": "read",
    "read_many_files": "read",
    "replace": "edit",
    "search_file_content": "grep",
    "web_fetch": "web_fetch",
    "write_file": "write",
}
"""Tools by their names in Gemini CLI and in handrail. Other tools keep their names."""
_VERDICTS: dict[str, Verdict] = {"allow": "allow", "ask_user": "ask", "deny": "deny"}
_PERMISSIVE = {"default", "autoEdit", "yolo"}
_SUPPORTED_KEYS = {
    "allowRedirection", "allow_redirection", "commandPrefix", "decision", "denyMessage",
    "deny_message", "mcpName", "priority", "toolName",
}  # fmt: skip
"""Keys handrail can express or ignore. Every other key is a condition."""


@dataclass(frozen=True, slots=True)
class _GeminiRule:
    """An original rule."""

    table: Table
    verdict: Verdict
    priority: int
    tools: list[str]
    server: str
    prefixes: list[str]
    modes: set[str]

    @property
    def unsupported(self) -> list[str]:
        """Conditions handrail cannot express."""
        unsupported = sorted(set(self.table) - _SUPPORTED_KEYS - {"modes"})
        # In plan mode a handrail allow permits no writes either, so it need not name the mode.
        modes = _PERMISSIVE if self.verdict == "allow" else _PERMISSIVE | {"plan"}
        if self.modes and not self.modes >= modes:
            unsupported.append("modes")
        if self.prefixes and self.tools not in ([_SHELL], []):
            unsupported.append("commandPrefix")
        return unsupported


def translate(text: str, *, file: str = "policies.toml") -> Imported:
    """Translate a policy file's rules. Raises InvalidRule if it is not valid."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRule(f"invalid TOML: {error}", file=file) from None
    except RecursionError:
        raise InvalidRule("the TOML is nested too deeply", file=file) from None
    tables = _as_tables(data.pop("rule", []), file)
    rules = [_read_rule(table, f"{file}: rule {at}") for at, table in enumerate(tables, 1)]
    rules.sort(key=lambda rule: -rule.priority)
    translations = [_translate_rule(rule) for rule in rules]
    entries = [
        TranslatedRule(_format_table(rule.table), _note_outranking(at, rules, translations))
        for at, rule in enumerate(rules)
    ]
    second = RuleTranslation("lost", "not a rule; in handrail, write a hook that checks the call")
    entries += [
        TranslatedRule(_format_table({key: item}), second)
        for key, value in data.items()
        for item in as_list(value) or [value]
    ]
    return report(entries)


def _format_table(table: Table) -> str:
    return ", ".join(f"{key} = {json.dumps(value, default=str)}" for key, value in table.items())


def _as_tables(value: object, file: str) -> list[Table]:
    several = as_list(value)
    if several is None or not all(isinstance(item, dict) for item in several):
        raise InvalidRule("rules are not in tables; start each rule with [[rule]]", file=file)
    return several


def _read_rule(table: Table, where: str) -> _GeminiRule:
    verdict, priority = _VERDICTS.get(str(table.get("decision"))), table.get("priority")
    if verdict is None:
        raise InvalidRule(f"{where}: decision must be one of {', '.join(_VERDICTS)}")
    if not isinstance(priority, int):
        raise InvalidRule(f"{where}: priority must be an integer")
    server = table.get("mcpName", "")
    if not isinstance(server, str):
        raise InvalidRule(f"{where}: mcpName must be a string")
    tools, prefixes = (
        _read_texts(table, "toolName", where),
        _read_texts(table, "commandPrefix", where),
    )
    modes = set(_read_texts(table, "modes", where))
    return _GeminiRule(table, verdict, priority, tools, server, prefixes, modes)


def _read_texts(table: Table, key: str, where: str) -> list[str]:
    value = table.get(key, [])
    several = [value] if isinstance(value, str) else as_list(value)
    if several is None or not all(isinstance(item, str) for item in several):
        raise InvalidRule(f"{where}: {key} must be a string or a list of strings")
    return [item for item in several if item]


def _translate_rule(rule: _GeminiRule) -> RuleTranslation:
    return _allow(rule) if rule.verdict == "allow" else _restrict(rule)


def _restrict(rule: _GeminiRule) -> RuleTranslation:
    head: dict[str, Any] = {"decide": rule.verdict}
    if reason := rule.table.get("denyMessage") or rule.table.get("deny_message"):
        head["reason"] = str(reason)
    tables: list[Table] = []
    missing = ", ".join(rule.unsupported)
    whys = [f"handrail cannot express {missing}, so every such call matches"] if missing else []
    if _means_shell(rule):
        commands, exact = _commands(rule)
        whys += [] if exact else [describe_meaning(commands)]
        tables.append({**head, "command": commands if len(commands) > 1 else commands[0]})
    if names := [name for tool in _others(rule) for name in _names(rule, tool)]:
        tables.append({**head, "tools": names})
    return RuleTranslation("widened" if whys else "imported", "; ".join(whys), tuple(tables))


def _commands(rule: _GeminiRule) -> tuple[list[str], bool]:
    least = [least_command(prefix) for prefix in rule.prefixes] or [(EVERY, True)]
    commands = list(dict.fromkeys(command for command, _ in least))
    exact = all(whole for _, whole in least)
    return ([EVERY] if EVERY in commands else commands), exact


def _allow(rule: _GeminiRule) -> RuleTranslation:
    if rule.unsupported:
        return RuleTranslation("lost", f"handrail cannot express {', '.join(rule.unsupported)}")
    tables: list[Table] = []
    whys: list[str] = []
    if _means_shell(rule):
        words = [plain_words(prefix) for prefix in rule.prefixes]
        commands = [" ".join(argv) for argv in words if argv is not None]
        whys += _describe_losses(rule, len(words) - len(commands))
        if commands:
            tables.append(allow_table(commands))
    names = [name for tool in _others(rule) for name in _certain_names(rule, tool)]
    if names:
        tables.append({"decide": "allow", "tools": names})
    if len(names) < len(_others(rule)):
        whys.append("a handrail allow must name its tools or their server")
    if not tables:
        return RuleTranslation("lost", "; ".join(whys))
    warned = describe_risk(
        command for table in tables for command in _read_texts(table, "command", "")
    )
    why = "; ".join(filter(None, [*whys, warned]))
    return RuleTranslation("narrowed" if whys else "imported", why, tuple(tables))


def _describe_losses(rule: _GeminiRule, unread: int) -> Iterator[str]:
    if not rule.prefixes:
        yield "no handrail rule allows every command; mode open does, in a sandbox"
    if unread:
        yield "commands that are not plain words are omitted"
    if rule.table.get("allowRedirection") or rule.table.get("allow_redirection"):
        yield "it does not allow redirection to a file"


def _means_shell(rule: _GeminiRule) -> bool:
    return not rule.server and (_SHELL in rule.tools or bool(rule.prefixes and not rule.tools))


def _others(rule: _GeminiRule) -> list[str]:
    """Return a rule's tools other than the shell."""
    if rule.server or not (rule.tools or rule.prefixes):
        return rule.tools or [EVERY]
    return [tool for tool in rule.tools if tool != _SHELL]


def _names(rule: _GeminiRule, tool: str) -> list[str]:
    """Return the handrail names for a tool, or all if the name is ambiguous."""
    if rule.server:
        own = tool.removeprefix(f"mcp_{rule.server}_")
        return ["mcp__*" if (rule.server, own) == ("*", "*") else f"mcp__{rule.server}__{own}"]
    if tool.startswith("mcp_"):
        parts = tool.removeprefix("mcp_").split("_")
        splits = ["_".join(parts[:at]) + "__" + "_".join(parts[at:]) for at in range(1, len(parts))]
        return [f"mcp__{split}" for split in splits] or ["mcp__*" if tool == "mcp_*" else tool]
    if "__" in tool:
        return [f"mcp__{tool}"]
    if "*" in tool and tool != EVERY:
        return [tool, *dict.fromkeys(_OURS[name] for name in _OURS if name_glob(tool)(name))]
    return [_OURS.get(tool, tool)]


def _certain_names(rule: _GeminiRule, tool: str) -> list[str]:
    """Return the handrail name if it certainly matches no more than the original; else none."""
    first = _names(rule, tool)[0]
    literal = first.removesuffix("__*")
    globs = "*" in literal or "?" in literal
    return [] if globs or ("__" in tool and not rule.server) else [first]


def _note_outranking(
    at: int, rules: list[_GeminiRule], translations: list[RuleTranslation]
) -> RuleTranslation:
    """Return an allow with a note on the first rule overriding it only in handrail.

    This rule has a lower priority, or matches more than before.
    """
    translation = translations[at]
    allows = [table for table in translation.tables if table["decide"] == "allow"]
    for index, (rule, other) in enumerate(zip(rules, translations, strict=True)):
        new = rule.verdict != "allow" and (index > at or other.kind == "widened")
        if new and any(_may_meet(mine, theirs) for mine in allows for theirs in other.tables):
            why = f"in handrail, this rule overrides it: {_format_table(rule.table)}"
            return translation._replace(
                kind="narrowed", why="; ".join(filter(None, [translation.why, why]))
            )
    return translation


def _may_meet(first: Table, second: Table) -> bool:
    """Return whether both rules may match the same call."""
    names = [_read_texts(table, "tools", "") or [_OUR_SHELL] for table in (first, second)]
    if not any(_may_match_same(mine, theirs) for mine in names[0] for theirs in names[1]):
        return False
    commands = [_read_texts(table, "command", "") or [EVERY] for table in (first, second)]
    return any(_may_start_alike(mine, theirs) for mine in commands[0] for theirs in commands[1])


def _may_match_same(first: str, second: str) -> bool:
    """Return whether two globs may match the same name; compares the text before the stars."""
    mine, theirs = first.partition("*"), second.partition("*")
    if mine[1] and theirs[1]:
        return mine[0].startswith(theirs[0]) or theirs[0].startswith(mine[0])
    return name_glob(first)(second) or name_glob(second)(first)


def _may_start_alike(first: str, second: str) -> bool:
    if EVERY in (first, second):
        return True
    return f"{first} ".startswith(f"{second} ") or f"{second} ".startswith(f"{first} ")
