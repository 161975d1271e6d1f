"""Gemini CLI: the rules of a policy file, as rules of ours.

There, the rule of the highest priority decides; here, a deny before an ask before an allow. What
this makes stricter stays so, and the note on the allow says it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from handrail.judgement import Verdict
from handrail.policy._errors import Unusable
from handrail.policy._glob import name_glob
from handrail.policy.importers._commands import (
    EVERY,
    allowing,
    meaning,
    refused,
    warning,
    words_of,
)
from handrail.policy.importers._report import Draft, Entry, Imported, Table, listed, report

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
"""Tools by their names there and here; every other keeps its name."""
_VERDICTS: dict[str, Verdict] = {"allow": "allow", "ask_user": "ask", "deny": "deny"}
_LOOSE = {"default", "autoEdit", "yolo"}
_SAID = {
    "allowRedirection", "allow_redirection", "commandPrefix", "decision", "denyMessage",
    "deny_message", "mcpName", "priority", "toolName",
}  # fmt: skip
"""What a rule of ours can say, or need not; whatever else stands there is a condition."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A rule as it stands there."""

    table: Table
    verdict: Verdict
    priority: int
    tools: list[str]
    server: str
    prefixes: list[str]
    modes: set[str]

    @property
    def unsaid(self) -> list[str]:
        """The conditions that a rule of ours cannot say."""
        found = sorted(set(self.table) - _SAID - {"modes"})
        # In mode plan an allow lets nothing write here either, so that it may stand there.
        where = _LOOSE if self.verdict == "allow" else _LOOSE | {"plan"}
        if self.modes and not self.modes >= where:
            found.append("modes")
        if self.prefixes and self.tools not in ([_SHELL], []):
            found.append("commandPrefix")
        return found


def translate(text: str, *, file: str = "policies.toml") -> Imported:
    """The rules of a policy file; Unusable, with the line, where it is not TOML."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Unusable(f"{file}: {error}") from None
    except RecursionError:
        raise Unusable(f"{file}: it is nested too deeply") from None
    tables = _tables(data.pop("rule", []), file)
    sources = [_source(table, f"{file}: rule {at}") for at, table in enumerate(tables, 1)]
    sources.sort(key=lambda one: -one.priority)
    drafts = [_draft(one) for one in sources]
    entries = [
        Entry(_shown(source.table), _outranked(at, sources, drafts))
        for at, source in enumerate(sources)
    ]
    other = Draft("lost", "it is no rule: write a hook that checks the call")
    entries += [
        Entry(_shown({key: one}), other)
        for key, value in data.items()
        for one in listed(value) or [value]
    ]
    return report(entries)


def _shown(table: Table) -> str:
    return ", ".join(f"{key} = {json.dumps(value, default=str)}" for key, value in table.items())


def _tables(value: object, file: str) -> list[Table]:
    several = listed(value)
    if several is None or not all(isinstance(one, dict) for one in several):
        raise Unusable(f"{file}: write each rule as a table of its own, under [[rule]]")
    return several


def _source(table: Table, where: str) -> _Source:
    verdict, priority = _VERDICTS.get(str(table.get("decision"))), table.get("priority")
    if verdict is None:
        raise Unusable(f"{where}: decision must be one of {', '.join(_VERDICTS)}")
    if not isinstance(priority, int):
        raise Unusable(f"{where}: priority must be a whole number")
    server = table.get("mcpName", "")
    if not isinstance(server, str):
        raise Unusable(f"{where}: mcpName must be a text")
    tools, prefixes = _texts(table, "toolName", where), _texts(table, "commandPrefix", where)
    modes = set(_texts(table, "modes", where))
    return _Source(table, verdict, priority, tools, server, prefixes, modes)


def _texts(table: Table, key: str, where: str) -> list[str]:
    value = table.get(key, [])
    several = [value] if isinstance(value, str) else listed(value)
    if several is None or not all(isinstance(one, str) for one in several):
        raise Unusable(f"{where}: {key} must be a text, or a list of texts")
    return [one for one in several if one]


def _draft(source: _Source) -> Draft:
    return _allowed(source) if source.verdict == "allow" else _refused(source)


def _refused(source: _Source) -> Draft:
    head: dict[str, Any] = {"decide": source.verdict}
    if reason := source.table.get("denyMessage") or source.table.get("deny_message"):
        head["reason"] = str(reason)
    tables: list[Table] = []
    unsaid = ", ".join(source.unsaid)
    whys = [f"{unsaid} cannot be said here: every such call is meant"] if unsaid else []
    if _means_shell(source):
        commands, exact = _commands(source)
        whys += [] if exact else [meaning(commands)]
        tables.append({**head, "command": commands if len(commands) > 1 else commands[0]})
    if names := [name for one in _others(source) for name in _names(source, one)]:
        tables.append({**head, "tools": names})
    return Draft("widened" if whys else "imported", "; ".join(whys), tuple(tables))


def _commands(source: _Source) -> tuple[list[str], bool]:
    made = [refused(one) for one in source.prefixes] or [(EVERY, True)]
    commands = list(dict.fromkeys(command for command, _ in made))
    exact = all(whole for _, whole in made)
    return ([EVERY] if EVERY in commands else commands), exact


def _allowed(source: _Source) -> Draft:
    if source.unsaid:
        return Draft("lost", f"{', '.join(source.unsaid)} cannot be said here")
    tables: list[Table] = []
    whys: list[str] = []
    if _means_shell(source):
        words = [words_of(one) for one in source.prefixes]
        commands = [" ".join(one) for one in words if one is not None]
        whys += _left_out(source, len(words) - len(commands))
        if commands:
            tables.append(allowing(commands))
    names = [name for one in _others(source) for name in _allowed_names(source, one)]
    if names:
        tables.append({"decide": "allow", "tools": names})
    if len(names) < len(_others(source)):
        whys.append("an allow here has to name its tools, or their server")
    if not tables:
        return Draft("lost", "; ".join(whys))
    warned = warning(command for table in tables for command in _texts(table, "command", ""))
    why = "; ".join(filter(None, [*whys, warned]))
    return Draft("narrowed" if whys else "imported", why, tuple(tables))


def _left_out(source: _Source, unread: int) -> Iterator[str]:
    if not source.prefixes:
        yield "no rule here allows every command: mode open does, in a sandbox"
    if unread:
        yield "a command that is not made of plain words is left out"
    if source.table.get("allowRedirection") or source.table.get("allow_redirection"):
        yield "a redirection into a file is not allowed here"


def _means_shell(source: _Source) -> bool:
    return not source.server and (
        _SHELL in source.tools or bool(source.prefixes and not source.tools)
    )


def _others(source: _Source) -> list[str]:
    """The tools that a rule means besides the shell."""
    if source.server or not (source.tools or source.prefixes):
        return source.tools or [EVERY]
    return [one for one in source.tools if one != _SHELL]


def _names(source: _Source, tool: str) -> list[str]:
    """Names here for a name there; where it can be read in several ways, all of them."""
    if source.server:
        own = tool.removeprefix(f"mcp_{source.server}_")
        return ["mcp__*" if (source.server, own) == ("*", "*") else f"mcp__{source.server}__{own}"]
    if tool.startswith("mcp_"):
        parts = tool.removeprefix("mcp_").split("_")
        splits = ["_".join(parts[:at]) + "__" + "_".join(parts[at:]) for at in range(1, len(parts))]
        return [f"mcp__{one}" for one in splits] or ["mcp__*" if tool == "mcp_*" else tool]
    if "__" in tool:
        return [f"mcp__{tool}"]
    if "*" in tool and tool != EVERY:
        return [tool, *dict.fromkeys(_OURS[one] for one in _OURS if name_glob(tool)(one))]
    return [_OURS.get(tool, tool)]


def _allowed_names(source: _Source, tool: str) -> list[str]:
    """The name here that is certain to mean no more than the one there; none where none is."""
    first = _names(source, tool)[0]
    literal = first.removesuffix("__*")
    globs = "*" in literal or "?" in literal
    return [] if globs or ("__" in tool and not source.server) else [first]


def _outranked(at: int, sources: list[_Source], drafts: list[Draft]) -> Draft:
    """An allow, with the first rule that comes before it here and did not there.

    That is one of a lower priority, or one that means more than it did.
    """
    draft = drafts[at]
    allows = [table for table in draft.tables if table["decide"] == "allow"]
    for place, (source, other) in enumerate(zip(sources, drafts, strict=True)):
        new = source.verdict != "allow" and (place > at or other.kind == "widened")
        if new and any(_meet(one, two) for one in allows for two in other.tables):
            why = f"here, this comes before it: {_shown(source.table)}"
            return draft._replace(kind="narrowed", why="; ".join(filter(None, [draft.why, why])))
    return draft


def _meet(one: Table, other: Table) -> bool:
    """Whether some call may be meant by both rules."""
    names = [_texts(table, "tools", "") or [_OUR_SHELL] for table in (one, other)]
    if not any(_alike(mine, theirs) for mine in names[0] for theirs in names[1]):
        return False
    commands = [_texts(table, "command", "") or [EVERY] for table in (one, other)]
    return any(_begin_alike(mine, theirs) for mine in commands[0] for theirs in commands[1])


def _alike(one: str, other: str) -> bool:
    """Whether two globs may mean the same name; up to their first stars, which is enough."""
    mine, theirs = one.partition("*"), other.partition("*")
    if mine[1] and theirs[1]:
        return mine[0].startswith(theirs[0]) or theirs[0].startswith(mine[0])
    return name_glob(one)(other) or name_glob(other)(one)


def _begin_alike(one: str, other: str) -> bool:
    if EVERY in (one, other):
        return True
    return f"{one} ".startswith(f"{other} ") or f"{other} ".startswith(f"{one} ")
