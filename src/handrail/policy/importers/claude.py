"""Claude Code: translate permissions from a ``settings.json``.

As in handrail, a deny overrides an ask, and an ask overrides an allow. If a rule's meaning is
unclear, a deny or an ask is read widely and an allow narrowly.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from handrail.permissions import Verdict
from handrail.policy._rules.errors import InvalidRule
from handrail.policy._rules.glob import name_glob
from handrail.policy.importers._commands import (
    EVERY,
    describe_meaning,
    describe_risk,
    least_command,
    plain_words,
)
from handrail.policy.importers._report import (
    Imported,
    RuleTranslation,
    TranslatedRule,
    as_list,
    report,
)

_OURS = {
    "Bash": "bash",
    "Edit": "edit",
    "Glob": "glob",
    "Grep": "grep",
    "MultiEdit": "edit",
    "Read": "read",
    "WebFetch": "web_fetch",
    "WebSearch": "web_search",
    "Write": "write",
}
"""Tools by their names in Claude Code and in handrail. Other tools keep their names."""
_READERS, _EDITORS = ["read", "glob", "grep"], ["edit", "write"]
_INERT = {"Glob", "Grep", "LS", "MultiEdit", "NotebookEdit", "Write"}
"""Tools whose paths Claude Code never checks."""
_OWN_FIELDS = {"command", "file_path", "notebook_path", "path", "url"}
_SHELL_FIELDS = {"command", "dangerouslyDisableSandbox", "run_in_background", "timeout"}
_VERDICTS: tuple[Verdict, ...] = ("deny", "ask", "allow")
_RULE = re.compile(r"([^\s()]+)(?:\((.*)\))?", re.DOTALL)
_FIELD = re.compile(r"([A-Za-z_]\w*)\s*:\s*(.*)", re.DOTALL)
_HOST = re.compile(r"[\w.*-]+")
_NUMBER = re.compile(r"-?\d.*")
_NO_SUCH_PROGRAM = re.compile(r"[^\s*]+:\*.")
_ESCAPES = re.compile(r"\\(.)|\[[^\]]*+(?:\]|\Z)")


def translate(text: str, *, file: str = ".claude/settings.json") -> Imported:
    """Translate a settings file's permissions. Raises InvalidRule if it is not valid.

    Patterns such as ``/src`` start at the file's project, so ``file`` must be relative to it.
    """
    permissions = _read_permissions(text, file)
    entries: list[TranslatedRule] = []
    if "defaultMode" in permissions:
        mode = permissions.pop("defaultMode")
        entries.append(TranslatedRule(f"defaultMode: {mode}", _translate_mode(str(mode))))
    for verdict in _VERDICTS:
        rules = _as_texts(permissions.pop(verdict, []), verdict, file)
        entries += [
            TranslatedRule(f"{verdict}: {rule}", _translate_rule(verdict, rule.strip(), file))
            for rule in rules
        ]
    folders = _as_texts(permissions.pop("additionalDirectories", []), "additionalDirectories", file)
    entries += [
        TranslatedRule(f"additionalDirectories: {folder}", _translate_directory(folder))
        for folder in folders
    ]
    other = RuleTranslation("lost", "not a rule; in handrail, your application decides this")
    entries += [
        TranslatedRule(f"{key}: {json.dumps(value)}", other) for key, value in permissions.items()
    ]
    return report(entries)


def _read_permissions(text: str, file: str) -> dict[str, Any]:
    try:
        settings = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidRule(f"invalid JSON: {error.msg}", file=file, line=error.lineno) from None
    except RecursionError:
        raise InvalidRule("the JSON is nested too deeply", file=file) from None
    whole = _as_object(settings, "the file", file)
    return dict(_as_object(whole.get("permissions", {}), "permissions", file))


def _as_object(value: Any, what: str, file: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRule(f"{what} must be a JSON object", file=file)
    return cast("dict[str, Any]", value)


def _as_texts(value: object, what: str, file: str) -> list[str]:
    several = as_list(value)
    if several is None or not all(isinstance(item, str) for item in several):
        raise InvalidRule(f"{what} must be a list of strings", file=file)
    return several


def _translate_mode(mode: str) -> RuleTranslation:
    match mode:
        case "plan":
            return RuleTranslation("imported", mode="plan")
        case "default":
            why = "in handrail, reading needs no approval, outside the workspace too"
            return RuleTranslation("imported", why, mode="ask")
        case "acceptEdits":
            why = (
                "mode edits would allow every tool to write; this rule allows two, in the workspace"
            )
            table = {"decide": "allow", "tools": _EDITORS, "access": "read|write file:**"}
            return RuleTranslation("imported", why, (table,), mode="ask")
        case "bypassPermissions":
            return RuleTranslation(
                "lost", "an import never allows everything; use mode open with a sandbox"
            )
        case "dontAsk":
            return RuleTranslation(
                "lost", "run without an approver: calls that need approval are then denied"
            )
        case _:
            return RuleTranslation("lost", "handrail has no such mode")


def _translate_directory(folder: str) -> RuleTranslation:
    if "*" in folder or "?" in folder:
        return RuleTranslation("lost", "handrail would read * and ? in the path as wildcards")
    below = f"{(folder or '.').rstrip('/')}/**"
    table = {"decide": "allow", "tools": _READERS, "access": f"read file:{below}"}
    return RuleTranslation("narrowed", "it allows reading in the folder, not writing", (table,))


def _translate_rule(verdict: Verdict, rule: str, file: str) -> RuleTranslation:
    parsed = _RULE.fullmatch(rule)
    if parsed is None:
        return RuleTranslation("lost", "not a rule; a rule is TOOL or TOOL(...)")
    tool, inner = parsed[1], parsed[2]
    if inner is None or inner.strip() == "*":
        return _translate_whole(verdict, tool)
    return _translate_particular(verdict, tool, inner.strip(), file)


def _translate_particular(verdict: Verdict, tool: str, spec: str, file: str) -> RuleTranslation:
    """Translate a rule written as TOOL(...)."""
    field = _FIELD.fullmatch(spec)
    named = field[1] if field else ""
    if tool == "Bash" and (named not in _SHELL_FIELDS or spec.endswith(":*")):
        return _translate_bash(verdict, spec)
    if tool in _INERT:
        return RuleTranslation("inert", "Claude Code checks paths only in Read(...) and Edit(...)")
    if tool in ("Read", "Edit") and spec and named not in _OWN_FIELDS:
        return (_translate_exception if spec[0] == "!" else _translate_path)(
            verdict, tool, spec, file
        )
    if field and (tool, named) == ("WebFetch", "domain"):
        return _translate_domain(verdict, field[2].lower())
    return (
        _translate_argument(verdict, tool, named, field[2])
        if field
        else _translate_unknown(verdict, tool)
    )


def _translate_whole(verdict: Verdict, tool: str) -> RuleTranslation:
    """Translate a rule for every call to a tool."""
    if tool == "Bash":
        if verdict == "allow":
            return RuleTranslation(
                "lost", "no handrail rule allows every command; mode open does, in a sandbox"
            )
        return RuleTranslation("imported", tables=({"decide": verdict, "command": EVERY},))
    server = tool.removeprefix("mcp__").partition("__")[0]
    if verdict == "allow" and ("*" in server or "?" in tool):
        return RuleTranslation("inert", "Claude Code ignores an allow that names no tool or server")
    return RuleTranslation(
        "imported", tables=({"decide": verdict, "tools": _names(verdict, tool)},)
    )


def _names(verdict: Verdict, tool: str) -> list[str]:
    if tool.startswith("mcp__"):
        server = tool.removeprefix("mcp__")
        return [tool if "__" in server or "*" in server else f"{tool}__*"]
    if "*" in tool:
        return list(
            dict.fromkeys([tool, *(_OURS[name] for name in _OURS if name_glob(tool)(name))])
        )
    if verdict != "allow" and tool in ("Read", "Edit"):
        return _READERS if tool == "Read" else _EDITORS
    return [_OURS.get(tool, tool)]


def _translate_unknown(verdict: Verdict, tool: str) -> RuleTranslation:
    """Translate a condition handrail cannot express."""
    if verdict == "allow":
        return RuleTranslation("lost", f"handrail cannot express which calls of {tool} match")
    tables = _translate_whole(verdict, tool).tables
    return RuleTranslation("widened", f"in handrail it matches every call of {tool}", tables)


def _translate_bash(verdict: Verdict, spec: str) -> RuleTranslation:
    if _NO_SUCH_PROGRAM.match(spec):
        return RuleTranslation(
            "inert", "Claude Code reads ':*' only at the end, so this matches no command"
        )
    text = f"{spec.removesuffix(':*')} *" if spec.endswith(":*") else spec
    head, star, tail = text.partition("*")
    if verdict != "allow":
        return _restrict_command(verdict, head, star + tail)
    words = plain_words(head)
    if tail or words is None:
        return RuleTranslation(
            "lost", "a handrail allow lists plain words, then flags and operands"
        )
    command = " ".join(words)
    table = {"decide": "allow", "command": command}
    table |= {"flags": "any", "operands": "any"} if star else {}
    is_prefix = bool(star) and not head.endswith(" ")
    why = f"in handrail {words[-1]!r} matches only that word" if is_prefix else ""
    whys = "; ".join(filter(None, [why, describe_risk(command)]))
    return RuleTranslation("narrowed" if is_prefix else "imported", whys, (table,))


def _restrict_command(verdict: Verdict, head: str, rest: str) -> RuleTranslation:
    """Translate a deny or an ask: by the whole words before the first star."""
    whole = head if not rest else head[: head.rfind(" ") + 1]
    command, exact = least_command(whole)
    table = {"decide": verdict, "command": command}
    if exact and rest == "*" and whole == head:
        return RuleTranslation("imported", tables=(table,))
    return RuleTranslation("widened", describe_meaning(command), (table,))


def _translate_path(verdict: Verdict, tool: str, spec: str, file: str) -> RuleTranslation:
    if verdict == "allow":
        return _allow_path(tool, spec, file)
    plain = _ESCAPES.sub(_widen, spec)
    verbs = {"Edit": "write|destroy", "Read": "*" if verdict == "deny" else "read"}[tool]
    table = {"decide": verdict, "access": [f"{verbs} file:{path}" for path in _anywhere(plain)]}
    if plain != spec:
        return RuleTranslation(
            "widened", "in handrail a set of letters matches any letter", (table,)
        )
    if plain.startswith("/") and not plain.startswith("//"):
        return RuleTranslation(
            "widened", "the start of the path is unknown, so it matches at any depth", (table,)
        )
    return RuleTranslation("imported", tables=(table,))


def _widen(found: re.Match[str]) -> str:
    """Return what an escape means, or any letter for a set. A set without an end is kept."""
    if found[1] or found[0].endswith("]"):
        return found[1] or "?"
    return re.sub(r"\\(.)", r"\1", found[0])


def _anywhere(pattern: str) -> list[str]:
    """Return globs for a deny or an ask: at every depth, unless the pattern has a start."""
    if pattern.startswith(("//", "~/")):
        return [_below(pattern.removeprefix("/"))]
    path = _below(pattern.lstrip("/").removeprefix("./"))
    return [path] if path.startswith(("**", "../")) else [f"**/{path}", path]


def _below(path: str) -> str:
    """Return a glob for a path and everything below it."""
    return path if path.endswith("**") else f"{path.rstrip('/')}/**"


def _allow_path(tool: str, spec: str, file: str) -> RuleTranslation:
    if _ESCAPES.search(spec):
        return RuleTranslation("lost", "a handrail path has no escapes and no sets of letters")
    if spec.startswith("/") and not spec.startswith("//"):
        if file.startswith(("/", "~")):
            return RuleTranslation("lost", "the start of the path is unknown")
        return _allow_below(tool, spec.removeprefix("/"))
    if spec.startswith(("//", "~/")):
        return _allow_below(tool, spec.removeprefix("/"))
    path = spec.removeprefix("./")
    if "/" in path.rstrip("/") or path == "**":
        return _allow_below(tool, path)
    return _allow_below(tool, path, "in handrail it matches only at the top of the workspace")


def _allow_below(tool: str, path: str, why: str = "") -> RuleTranslation:
    """Allow a path for tools checked by Claude Code. Another tool may do more with it."""
    verbs, tools = ("read", _READERS) if tool == "Read" else ("read|write", _EDITORS)
    table = {"decide": "allow", "tools": tools, "access": f"{verbs} file:{_below(path)}"}
    return RuleTranslation("narrowed" if why else "imported", why, (table,))


def _translate_exception(verdict: Verdict, tool: str, spec: str, file: str) -> RuleTranslation:
    """Translate an exception to the rules in the same list."""
    if verdict == "allow":
        tables = _translate_path("ask", tool, spec[1:], file).tables
        return RuleTranslation(
            "widened", "in handrail an exception to an allow needs approval", tables
        )
    return RuleTranslation("lost", f"handrail has no exceptions: the {verdict} applies without it")


def _translate_domain(verdict: Verdict, domain: str) -> RuleTranslation:
    if not _HOST.fullmatch(domain):
        return _translate_unknown(verdict, "WebFetch")
    table: dict[str, Any] = {"decide": verdict}
    if verdict == "allow":
        table["tools"] = [_OURS["WebFetch"]]
    return RuleTranslation("imported", tables=({**table, "access": f"* net:{domain}/**"},))


def _translate_argument(verdict: Verdict, tool: str, name: str, value: str) -> RuleTranslation:
    """Translate a rule on one argument."""
    if verdict == "allow" or name in _OWN_FIELDS:
        return RuleTranslation("inert", f"Claude Code ignores {name}")
    if "*" in value or _NUMBER.match(value):
        return _translate_unknown(verdict, tool)
    values = [*({"true": [True], "false": [False]}.get(value, [])), value]
    table = {"decide": verdict, "tools": _names(verdict, tool), "args": {name: {"in": values}}}
    return RuleTranslation("imported", tables=(table,))
