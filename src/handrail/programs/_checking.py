"""Find what will fail in a program, before its first call."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from handrail.programs._prelude import Framed, frame

MAX_CHARS = 100_000
"""A program's characters."""
_MAX_FINDINGS = 10
_FATAL = frozenset(
    {"invalid-syntax", "unresolved-import", "unresolved-reference", "unused-awaitable"}
)
_ABOUT_CALLS = frozenset(
    {
        "invalid-argument-type",
        "missing-argument",
        "unknown-argument",
        "too-many-positional-arguments",
        "parameter-already-assigned",
    }
)
_OF_FUNCTION = re.compile(r"function `(\w+)`")
_PLAIN_TYPE = re.compile(
    r"Literal\[[^,\]]*\]|str|int|float|bool|None|bytes|set\[.*|CoroutineType.*|def .*|\(.*"
)
_FOUND = "found `"
"""Comes before an argument's type, ending a finding."""
_FINE: tuple[str, ...] = ("`return` statement outside of a function", "__future__")
_MODULES = (
    "asyncio base64 collections copy csv dataclasses datetime decimal functools hashlib itertools "
    "json math os pathlib random re sys time typing unicodedata"
)
"""Modules a program can import."""
_OFFERED = f"The modules are {', '.join(_MODULES.split())}."


class ProgramText(NamedTuple):
    """A program, and what was found in it."""

    code: str
    framed: Framed
    """It, with its value kept under a name."""
    problems: tuple[str, ...]
    """What will fail, each with its line."""
    uses_time: bool = False


def read_source(text: str, functions: Collection[str]) -> ProgramText:
    """Return a program without its Markdown fence, and what its syntax tree shows."""
    code = _unfence(text)
    if len(code) > MAX_CHARS:
        long = f"The program has more than {MAX_CHARS:,} characters."
        return ProgramText(code, Framed(code), (long,))
    try:
        tree = compile(code, "main.py", "exec", _FLAGS)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        return ProgramText(code, Framed(code), (f"line {line}: {getattr(error, 'msg', error)}",))
    try:
        problems = tuple(_find_problems(tree, functions))
    except RecursionError:
        problems = ("The program is nested too deeply.",)
    uses_time = re.search(r"\b(time|datetime)\b", code) is not None
    framed = frame(code, tree, _last_name(tree))
    return ProgramText(code, framed, problems[:_MAX_FINDINGS], uses_time)


_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def _unfence(text: str) -> str:
    """Return a Markdown fence's content, or the text itself."""
    first, newline, rest = text.strip().partition("\n")
    language = first.removeprefix("```").strip()
    is_fenced = newline and first.startswith("```") and rest.endswith("```")
    is_plain = not language or (language.isascii() and language.isalpha())
    return rest.removesuffix("```").removesuffix("\n") if is_fenced and is_plain else text


def _last_name(tree: Any) -> str:
    last = tree.body[-1] if tree.body else None
    targets: list[Any] = []
    if isinstance(last, ast.Assign):
        targets = last.targets
    elif isinstance(last, ast.AnnAssign | ast.AugAssign):
        targets = [last.target]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _find_problems(tree: ast.AST, functions: Collection[str]) -> Iterator[str]:
    """Yield what fails only when it is reached, and calls that are never awaited."""
    for node in ast.walk(tree):
        why = _why_fails(node)
        if why:
            yield f"line {getattr(node, 'lineno', 1)}: {why}"
    for name, line in _find_dropped(tree, functions):
        yield f"line {line}: {name}(...) is never awaited: write `await {name}(...)`"


def _why_fails(node: ast.AST) -> str:  # noqa: C901, PLR0911, PLR0912  one case for each construct
    match node:
        case ast.Call(func=ast.Attribute(attr="gather"), keywords=[_, *_]):
            return "asyncio.gather takes no keywords here: catch exceptions in each coroutine"
        case ast.Call(func=ast.Attribute(attr="dumps"), keywords=words) if _has(words, "default"):
            return "json.dumps has no `default` here: make plain values first"
        case ast.Call(func=ast.Name("dataclass"), keywords=words) if _has(words, "order"):
            return "dataclass has no `order` here: sort with a key"
        case ast.ImportFrom(module="dataclasses", names=names) if _imports(names, "asdict"):
            return "there is no asdict here: make a dict of the fields"
        case ast.ImportFrom(module="typing", names=names) if _imports(names, "TypedDict"):
            return "there is no TypedDict here: use dict"
        case ast.Attribute(attr="__cause__" | "__context__"):
            return "exceptions have no __cause__ here"
        case ast.Attribute(attr="maketrans"):
            return "there is no maketrans here: use replace"
        case ast.Attribute(value=ast.Name("os"), attr="environ"):
            return "there is no environment here"
        case ast.Call(func=ast.Name("next"), args=[ast.GeneratorExp(), *_]):
            return "a generator expression is not an iterator here: write `[...][0]`"
        case ast.Call(func=ast.Name("open")):
            return "there are no files here: use the functions"
        case ast.Call(func=ast.Name("bytes"), args=[ast.List() | ast.Tuple()]):
            return "bytes takes no list here: encode a str"
        case ast.Call(func=ast.Attribute(attr="sub"), args=[_, ast.Lambda(), *_]):
            return "re.sub takes no function here: replace each match in a loop"
        case ast.FunctionDef(name="__lt__" | "__gt__" | "__le__" | "__ge__"):
            return "classes cannot define an order here: sort with a key"
        case _:
            return ""


def _has(words: list[ast.keyword], name: str) -> bool:
    return any(word.arg == name for word in words)


def _imports(names: list[ast.alias], name: str) -> bool:
    return any(one.name == name for one in names)


def _find_dropped(tree: ast.AST, functions: Collection[str]) -> Iterator[tuple[str, int]]:
    """Yield functions and lines whose call's coroutine is certainly not awaited."""
    read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    defined = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }

    dropped: list[ast.expr] = []
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=value):
                dropped.append(value)
            case ast.Assign(targets=[ast.Name(target)], value=value) if target not in read:
                dropped.append(value)
            case ast.Call(func=ast.Name(name), args=args, keywords=words) if name in functions:
                dropped += [*args, *[word.value for word in words]]
            case _:
                pass
    for value in dropped:
        match value:
            case ast.Call(func=ast.Name(name)) if name in functions and name not in defined:
                yield name, value.lineno
            case _:
                pass


def read_findings(text: str, functions: Mapping[str, Any], program: Framed) -> tuple[str, ...]:
    """Return the type check's findings which mean a program will fail."""
    try:
        found: list[dict[str, Any]] = json.loads(text)
    except ValueError:
        return (text[:500],)
    lines = program.code.split("\n")
    fatal = [one for one in found if _is_fatal(one, functions) and not _is_spread(one, lines)]
    return tuple([_describe(one, program) for one in fatal])[:_MAX_FINDINGS]


def _is_spread(finding: Mapping[str, Any], lines: Sequence[str]) -> bool:
    """Return whether it is about arguments from a dict: each could be any of its values."""
    place: Any = finding.get("location") or {}
    row, column = int(place.get("row", 0)), int(place.get("column", 0))
    if not 0 < row <= len(lines):
        return False
    return lines[row - 1].startswith("**", max(0, column - 1))


def _is_fatal(finding: Mapping[str, Any], functions: Mapping[str, Any]) -> bool:
    rule, message = str(finding.get("name")), str(finding.get("message"))
    if rule in _FATAL:
        return not any(fine in message for fine in _FINE)
    if rule == "unresolved-attribute":
        return message.startswith("Module `")
    if rule == "invalid-argument-type" and not _is_plain_type(message):
        return False  # any guessed type may be the right one
    if rule in _ABOUT_CALLS:
        named = _OF_FUNCTION.search(message)
        return named is not None and named[1] in functions
    return False


def _is_plain_type(message: str) -> bool:
    """Return whether an argument's finding ends with one plain type."""
    _, found, named = message.rpartition(_FOUND)
    is_named = found and named.endswith("`")
    return bool(is_named and _PLAIN_TYPE.fullmatch(named[:-1]))


def _describe(finding: Mapping[str, Any], program: Framed) -> str:
    place: Any = finding.get("location") or {}
    message = str(finding.get("message"))
    more = f" {_OFFERED}" if finding.get("name") == "unresolved-import" else ""
    return f"line {program.find_line(place.get('row', 1))}: {message}{more}"


def mark_line(code: str, start: int, end: int) -> str:
    """Return the program lines around the waiting expression, with its line marked."""
    before = code.encode()[:start].decode(errors="replace").count("\n")
    after = code.encode()[: max(start, end - 1)].decode(errors="replace").count("\n")
    lines = code.split("\n")
    first, last = max(0, before - _AROUND), min(len(lines), after + _AROUND + 1)
    shown = [
        f"{'>' if before <= number <= after else ' '} {number + 1:>3} {lines[number][:_WIDTH]}"
        for number in range(first, last)
    ]
    return "\n".join([line.rstrip() for line in shown])


_AROUND = 12
_WIDTH = 160
