"""Claude Code: the permissions of a ``settings.json``, as rules of ours.

As here, a deny comes before an ask and an ask before an allow. Where it is in doubt what a rule
means there, a deny or an ask is read widely and an allow narrowly.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

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
from handrail.policy.importers._report import Draft, Entry, Imported, listed, report

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
"""Tools by their names there and here; every other keeps its name."""
_READERS, _EDITORS = ["read", "glob", "grep"], ["edit", "write"]
_INERT = {"Glob", "Grep", "LS", "MultiEdit", "NotebookEdit", "Write"}
"""Tools whose paths are never looked at there."""
_OWN_FIELDS = {"command", "file_path", "notebook_path", "path", "url"}
_SHELL_FIELDS = {"command", "dangerouslyDisableSandbox", "run_in_background", "timeout"}
_VERDICTS: tuple[Verdict, ...] = ("deny", "ask", "allow")
_RULE = re.compile(r"([^\s()]+)(?:\((.*)\))?", re.DOTALL)
_FIELD = re.compile(r"([A-Za-z_]\w*)\s*:\s*(.*)", re.DOTALL)
_HOST = re.compile(r"[\w.*-]+")
_NUMBER = re.compile(r"-?\d.*")
_NO_SUCH_PROGRAM = re.compile(r"[^\s*]+:\*.")
_ESCAPES = re.compile(r"\\(.)|\[[^\]]*\]")


def translate(text: str, *, file: str = ".claude/settings.json") -> Imported:
    """The permissions of a settings file; Unusable, with the line, where it is not JSON.

    Patterns such as ``/src`` begin at the file's project: give its path from there.
    """
    permissions = _permissions(text, file)
    entries: list[Entry] = []
    if "defaultMode" in permissions:
        mode = permissions.pop("defaultMode")
        entries.append(Entry(f"defaultMode: {mode}", _mode(str(mode))))
    for verdict in _VERDICTS:
        rules = _texts(permissions.pop(verdict, []), verdict, file)
        entries += [Entry(f"{verdict}: {one}", _draft(verdict, one.strip(), file)) for one in rules]
    folders = _texts(permissions.pop("additionalDirectories", []), "additionalDirectories", file)
    entries += [Entry(f"additionalDirectories: {one}", _directory(one)) for one in folders]
    other = Draft("lost", "it is no rule: here, whoever makes the executor chooses")
    entries += [Entry(f"{key}: {json.dumps(one)}", other) for key, one in permissions.items()]
    return report(entries)


def _permissions(text: str, file: str) -> dict[str, Any]:
    try:
        settings = json.loads(text)
    except json.JSONDecodeError as error:
        raise Unusable(f"{file}:{error.lineno}: {error.msg}") from None
    except RecursionError:
        raise Unusable(f"{file}: it is nested too deeply") from None
    whole = _object(settings, "all of it", file)
    return dict(_object(whole.get("permissions", {}), "permissions", file))


def _object(value: Any, what: str, file: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unusable(f"{file}: {what} must be an object")
    return cast("dict[str, Any]", value)


def _texts(value: object, what: str, file: str) -> list[str]:
    several = listed(value)
    if several is None or not all(isinstance(one, str) for one in several):
        raise Unusable(f"{file}: {what} must be a list of texts")
    return several


def _mode(mode: str) -> Draft:
    match mode:
        case "plan":
            return Draft("imported", mode="plan")
        case "default":
            why = "what only reads is not asked about here, wherever it reads"
            return Draft("imported", why, mode="ask")
        case "acceptEdits":
            why = "mode edits would let every tool write; this lets these write in the workspace"
            table = {"decide": "allow", "tools": _EDITORS, "access": "read|write file:**"}
            return Draft("imported", why, (table,), mode="ask")
        case "bypassPermissions":
            return Draft("lost", "no import opens everything: choose mode open, and a sandbox")
        case "dontAsk":
            return Draft("lost", "run without an approver: every question is then a no")
        case _:
            return Draft("lost", "there is no such mode here")


def _directory(folder: str) -> Draft:
    if "*" in folder or "?" in folder:
        return Draft("lost", "a path with a star or a question mark in it means many here")
    place = f"{(folder or '.').rstrip('/')}/**"
    table = {"decide": "allow", "tools": _READERS, "access": f"read file:{place}"}
    return Draft("narrowed", "reading there is allowed; writing there is not", (table,))


def _draft(verdict: Verdict, rule: str, file: str) -> Draft:
    parsed = _RULE.fullmatch(rule)
    if parsed is None:
        return Draft("lost", "it is no rule: neither a tool nor a tool with something in brackets")
    tool, inner = parsed[1], parsed[2]
    if inner is None or inner.strip() == "*":
        return _whole(verdict, tool)
    return _particular(verdict, tool, inner.strip(), file)


def _particular(verdict: Verdict, tool: str, spec: str, file: str) -> Draft:
    """A tool with something in brackets."""
    field = _FIELD.fullmatch(spec)
    named = field[1] if field else ""
    if tool == "Bash" and (named not in _SHELL_FIELDS or spec.endswith(":*")):
        return _bash(verdict, spec)
    if tool in _INERT:
        return Draft("inert", "paths are looked at there in Read(...) and Edit(...) alone")
    if tool in ("Read", "Edit") and spec and named not in _OWN_FIELDS:
        return (_negated if spec[0] == "!" else _path)(verdict, tool, spec, file)
    if field and (tool, named) == ("WebFetch", "domain"):
        return _domain(verdict, field[2].lower())
    return _argument(verdict, tool, named, field[2]) if field else _unknown(verdict, tool)


def _whole(verdict: Verdict, tool: str) -> Draft:
    """A tool without more: every call of it."""
    if tool == "Bash":
        if verdict == "allow":
            return Draft("lost", "no rule here allows every command: mode open does, in a sandbox")
        return Draft("imported", tables=({"decide": verdict, "command": EVERY},))
    server = tool.removeprefix("mcp__").partition("__")[0]
    if verdict == "allow" and ("*" in server or "?" in tool):
        return Draft("inert", "an allow there has to name a tool, or a server")
    return Draft("imported", tables=({"decide": verdict, "tools": _names(verdict, tool)},))


def _names(verdict: Verdict, tool: str) -> list[str]:
    if tool.startswith("mcp__"):
        server = tool.removeprefix("mcp__")
        return [tool if "__" in server or "*" in server else f"{tool}__*"]
    if "*" in tool:
        return list(dict.fromkeys([tool, *(_OURS[one] for one in _OURS if name_glob(tool)(one))]))
    if verdict != "allow" and tool in ("Read", "Edit"):
        return _READERS if tool == "Read" else _EDITORS
    return [_OURS.get(tool, tool)]


def _unknown(verdict: Verdict, tool: str) -> Draft:
    """Something in brackets that ours has no words for."""
    if verdict == "allow":
        return Draft("lost", f"a rule here cannot say which calls of {tool} are meant")
    tables = _whole(verdict, tool).tables
    return Draft("widened", f"it means every call of {tool} here", tables)


def _bash(verdict: Verdict, spec: str) -> Draft:
    if _NO_SUCH_PROGRAM.match(spec):
        return Draft("inert", "':*' counts there at the end alone, so that this means no command")
    text = f"{spec.removesuffix(':*')} *" if spec.endswith(":*") else spec
    head, star, tail = text.partition("*")
    if verdict != "allow":
        return _refused(verdict, head, star + tail)
    words = words_of(head)
    if tail or words is None:
        return Draft("lost", "an allow here is a command in plain words, and what follows them")
    command = " ".join(words)
    table = allowing([command]) if star else {"decide": "allow", "command": command}
    glued = bool(star) and not head.endswith(" ")
    why = f"it means the word {words[-1]!r} here, and none that begins with it" if glued else ""
    whys = "; ".join(filter(None, [why, warning([command])]))
    return Draft("narrowed" if glued else "imported", whys, (table,))


def _refused(verdict: Verdict, head: str, rest: str) -> Draft:
    """A deny or an ask of commands: by the whole words before the first star."""
    whole = head if not rest else head[: head.rfind(" ") + 1]
    command, exact = refused(whole)
    table = {"decide": verdict, "command": command}
    if exact and rest == "*" and whole == head:
        return Draft("imported", tables=(table,))
    return Draft("widened", meaning([command]), (table,))


def _path(verdict: Verdict, tool: str, spec: str, file: str) -> Draft:
    if verdict == "allow":
        return _allowed_path(tool, spec, file)
    plain = _ESCAPES.sub(lambda found: found[1] or "?", spec)
    verbs = {"Edit": "write|destroy", "Read": "*" if verdict == "deny" else "read"}[tool]
    places = [f"{verbs} file:{one}" for one in _anywhere(plain)]
    table = {"decide": verdict, "access": places}
    if plain != spec:
        return Draft("widened", "a choice of letters is any letter here", (table,))
    if plain.startswith("/") and not plain.startswith("//"):
        return Draft(
            "widened", "it is not known here where it begins: it means any depth", (table,)
        )
    return Draft("imported", tables=(table,))


def _anywhere(pattern: str) -> list[str]:
    """Where a deny or an ask holds: at every depth, unless its pattern says where it begins."""
    if pattern.startswith(("//", "~/")):
        return [_below(pattern.removeprefix("/"))]
    path = _below(pattern.lstrip("/").removeprefix("./"))
    return [path] if path.startswith(("**", "../")) else [f"**/{path}", path]


def _below(path: str) -> str:
    """A path and what lies below it."""
    return path if path.endswith("**") else f"{path.rstrip('/')}/**"


def _allowed_path(tool: str, spec: str, file: str) -> Draft:
    if _ESCAPES.search(spec):
        return Draft("lost", "a path here has neither escapes nor choices of letters")
    if spec.startswith("/") and not spec.startswith("//"):
        if file.startswith(("/", "~")):
            return Draft("lost", "it is not known here where it begins")
        return _allowed_place(tool, spec.removeprefix("/"))
    if spec.startswith(("//", "~/")):
        return _allowed_place(tool, spec.removeprefix("/"))
    place = spec.removeprefix("./")
    if "/" in place.rstrip("/") or place == "**":
        return _allowed_place(tool, place)
    return _allowed_place(tool, place, "it means the workspace itself here, and no folder in it")


def _allowed_place(tool: str, place: str, why: str = "") -> Draft:
    """A place for the tools that look at it there: another tool may do more than they do."""
    verbs, tools = ("read", _READERS) if tool == "Read" else ("read|write", _EDITORS)
    table = {"decide": "allow", "tools": tools, "access": f"{verbs} file:{_below(place)}"}
    return Draft("narrowed" if why else "imported", why, (table,))


def _negated(verdict: Verdict, tool: str, spec: str, file: str) -> Draft:
    """An exception from the rules of the same list."""
    if verdict == "allow":
        tables = _path("ask", tool, spec[1:], file).tables
        return Draft("widened", "an exception from an allow is asked about here", tables)
    return Draft("lost", f"there are no exceptions here: {verdict} holds without it")


def _domain(verdict: Verdict, domain: str) -> Draft:
    if not _HOST.fullmatch(domain):
        return _unknown(verdict, "WebFetch")
    table: dict[str, Any] = {"decide": verdict}
    if verdict == "allow":
        table["tools"] = [_OURS["WebFetch"]]
    return Draft("imported", tables=({**table, "access": f"* net:{domain}/**"},))


def _argument(verdict: Verdict, tool: str, name: str, value: str) -> Draft:
    """A rule on one argument of a call."""
    if verdict == "allow" or name in _OWN_FIELDS:
        return Draft("inert", f"{name} is not looked at there")
    if "*" in value or _NUMBER.match(value):
        return _unknown(verdict, tool)
    values = [*({"true": [True], "false": [False]}.get(value, [])), value]
    table = {"decide": verdict, "tools": _names(verdict, tool), "args": {name: {"in": values}}}
    return Draft("imported", tables=(table,))
