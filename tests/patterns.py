"""The regular expressions of the package, and the text that each of them is slowest on.

A pattern takes linear time if twice the text takes twice the time. The text that shows otherwise repeats
what a part of the pattern matches, and then ends with what the rest of the pattern does not match.
"""

from __future__ import annotations

import ast
import importlib
import random
import re
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import handrail

SOURCE = Path(handrail.__file__).parent.parent
"""The folder of the package, which may be installed."""
METHODS = frozenset("match fullmatch search findall finditer sub subn split".split())
_LIKE = {"finditer": "findall", "sub": "findall", "subn": "findall", "split": "findall"}
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_USES = re.compile(r"^ *import re$|[A-Z]\.(?:match|fullmatch|search|find|sub|split)", re.MULTILINE)
"""The text of a module that has patterns, or uses those of another."""
_ANY = {"findall", "fullmatch"}
"""How a pattern may be used if that is not known."""
_MANY = 100
"""A part that may be repeated more often than this makes the time depend on the length of the text."""
_CATEGORIES = {
    codes.CATEGORY_DIGIT: re.compile(r"\d"),
    codes.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    codes.CATEGORY_SPACE: re.compile(r"\s"),
    codes.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    codes.CATEGORY_WORD: re.compile(r"\w"),
    codes.CATEGORY_NOT_WORD: re.compile(r"\W"),
}
_USUAL = "a7_- \n"
MAX_CHARS = 100_000
MAX_SECONDS = 0.05
_LIMIT = 1.0
"""Seconds of processor time after which a pattern is stopped on a short text."""
_TIMES = 7.0
"""Four times the text takes 4 times as long if the time is linear, and 16 times if it is quadratic."""


class Used(NamedTuple):
    """A pattern, and a way in which it reads text."""

    where: str
    pattern: re.Pattern[Any]
    method: str


class Computed(NamedTuple):
    """A place where a pattern is made of other text."""

    where: str
    line: str


def collect() -> tuple[list[Used], list[Computed]]:
    """Every pattern of the package, and the places that make one of other text."""
    used: dict[tuple[Any, int, str], Used] = {}
    computed: list[Computed] = []
    texts = {path: path.read_text("utf-8") for path in sorted((SOURCE / "handrail").rglob("*.py"))}
    read = {path: ast.parse(text) for path, text in texts.items() if _USES.search(text)}
    nodes_in = {path: list(ast.walk(tree)) for path, tree in read.items()}
    methods_in = {path: _methods(nodes) for path, nodes in nodes_in.items()}
    everywhere = {name for methods in methods_in.values() for name in methods}
    for path, nodes in nodes_in.items():
        module, inner, here = _module_of(path), _inner_calls(nodes), methods_in[path]
        names = _names_of(module)
        found = [(name, one) for name, value in names.items() for one in _inside(value)]
        for name, pattern in found:
            methods = here.get(name) or (set() if name in everywhere else _ANY)
            _note(used, f"{module}.{name}", pattern, methods)
        known = {(pattern.pattern, pattern.flags) for _, pattern in found}
        for call, method in _calls(nodes):
            text, flags = _text_of(call, names), _flags_of(call)
            pattern = None if text is None else re.compile(text, flags)
            if pattern is None:
                computed += [Computed(module, ast.unparse(call))] * (call in inner)
            elif (pattern.pattern, pattern.flags) not in known:
                methods = _ANY if method == "compile" else {method}
                _note(used, f"{module}:{call.lineno}", pattern, methods)
    return list(used.values()), computed


def _note(used: dict[Any, Used], where: str, pattern: re.Pattern[Any], methods: set[str]) -> None:
    for name in methods:
        method = _LIKE.get(name, name)
        used[pattern.pattern, pattern.flags, method] = Used(where, pattern, method)


def _module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _names_of(module: str) -> dict[str, Any]:
    try:
        loaded = importlib.import_module(module)
    except ImportError:  # an adapter: its framework is not installed here
        return {}
    return {name: value for name, value in vars(loaded).items() if not name.startswith("__")}


def _inside(value: object, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(getattr(value, "__self__", None), re.Pattern):  # a bound `match`
        yield value.__self__  # type: ignore[attr-defined]
    elif depth and isinstance(value, dict):
        yield from (one for item in value.items() for one in _inside(item, depth - 1))
    elif depth and isinstance(value, tuple | list | frozenset | set):
        yield from (one for item in value for one in _inside(item, depth - 1))
    elif depth and isinstance(value, type) and value.__module__.startswith("handrail"):
        yield from (one for item in vars(value).values() for one in _inside(item, depth - 1))


def _methods(nodes: list[ast.AST]) -> dict[str, set[str]]:
    """Which methods are used on a name, or on what was taken from it."""
    found: dict[str, set[str]] = {}
    aliases = _aliases(nodes)
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            for name in (_name(node.value), *aliases.get(_name(node.value), ())):
                found.setdefault(name, set()).add(node.attr)
        elif isinstance(node, ast.Call) and _called(node) in METHODS:
            found.setdefault(_name(node.args[0]), set()).add(_called(node))
    return found


def _aliases(nodes: list[ast.AST]) -> dict[str, set[str]]:
    """Other names for what a name holds: of an assignment, of a loop."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.For | ast.comprehension):
            targets, value = [node.target], node.iter
        else:
            continue
        named = {_name(one) for one in ast.walk(value) if isinstance(one, ast.Name)}
        for target in (one for given in targets for one in ast.walk(given)):
            if isinstance(target, ast.Name | ast.Attribute):
                found.setdefault(_name(target), set()).update(named)
    return found


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _called(call: ast.Call) -> str:
    """The function of the module ``re`` that is called, or nothing."""
    function = call.func
    is_re = isinstance(function, ast.Attribute) and getattr(function.value, "id", "") == "re"
    return function.attr if is_re else ""  # type: ignore[attr-defined]


def _calls(nodes: list[ast.AST]) -> Iterator[tuple[ast.Call, str]]:
    for node in nodes:
        if isinstance(node, ast.Call) and (_called(node) in METHODS or _called(node) == "compile"):
            yield node, _called(node)


def _text_of(call: ast.Call, names: dict[str, Any]) -> Any:
    """The text of a pattern: written there, or that of a name of the module."""
    given = call.args[0]
    if isinstance(given, ast.Constant):
        return given.value
    text = names.get(_name(given)) if isinstance(given, ast.Name) else None
    return text if isinstance(text, str | bytes) else None


def _flags_of(call: ast.Call) -> int:
    text = " ".join(map(ast.unparse, [*call.args[1:], *(one.value for one in call.keywords)]))
    return sum(getattr(re, name) for name in re.findall(r"\bre\.([A-Z]+)\b", text))


def _inner_calls(nodes: list[ast.AST]) -> set[ast.AST]:
    """The calls in functions. What the others make is held by a name of the module."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    inner = (node for node in nodes if isinstance(node, functions))
    return {one for node in inner for one in ast.walk(node) if isinstance(one, ast.Call)}


def has_repeats(pattern: re.Pattern[Any]) -> bool:
    """Whether the time can depend on the length of the text."""
    return any(True for _ in _repeats(_parsed(pattern), ()))


def _parsed(pattern: re.Pattern[Any]) -> Any:
    text = pattern.pattern
    return parser.parse(text, pattern.flags & ~re.DEBUG)


def attacks(pattern: re.Pattern[Any], tried: int) -> Iterator[tuple[str, str, str]]:
    """Yield a beginning, a text to repeat, and an end, made of the pattern itself."""
    chance = random.Random(str(pattern.pattern))  # noqa: S311
    tree = _parsed(pattern)
    places = list(_repeats(tree, ()))
    letters = sorted(_literals(tree) | set(_USUAL))
    sample = partial(_sample, letters=letters, chance=chance)
    for letter in letters if tried > _MANY else " \n":  # where spaces also begin a match
        yield "", letter, "\0"
    for turn in range(tried):
        before, body = places[turn % len(places)]
        start = "".join(map(sample, before))
        unit = "".join(sample(body) for _ in range(chance.choice((1, 1, 2))))
        mixed = chance.random()
        if mixed < 0.3:
            unit += chance.choice(letters) * chance.choice((1, 8))
        elif mixed < 0.4:
            unit = "".join(chance.choices(letters, k=chance.choice((1, 2))))
        elif mixed < 0.5:  # where a part matches almost anything, the whole begins anew
            unit = start + chance.choice(letters) + start
        if chance.random() < 0.3:
            start, unit = "", start + unit
        yield start, unit or "a", chance.choice(("", "\0", "!", "\n\0", chance.choice(letters)))


def _repeats(tree: Any, before: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield each part that may be repeated, and what comes before it."""
    passed: list[Any] = []
    for code, value in tree:
        here = (*before, *passed)
        if code in _REPEATS:
            if value[1] > _MANY:
                yield here, value[2]
            yield from _repeats(value[2], here)
        else:
            for inner in _bodies(code, value):
                yield from _repeats(inner, here)
        passed.append([(code, value)])


def _bodies(code: Any, value: Any) -> list[Any]:
    if code is codes.SUBPATTERN:
        return [value[-1]]
    if code is codes.BRANCH:
        return list(value[1])
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        return [value[1]]
    if code is codes.ATOMIC_GROUP:
        return [value]
    return []


def _sample(tree: Any, letters: list[str], chance: random.Random) -> str:
    """A short text that a part of a pattern matches, as far as that is simple."""
    sample = partial(_sample, letters=letters, chance=chance)
    text = ""
    for code, value in tree:
        if code is codes.LITERAL:
            text += chr(value)
        elif code in (codes.IN, codes.NOT_LITERAL, codes.ANY):
            text += chance.choice([one for one in letters if _fits(one, code, value)] or ["\x01"])
        elif code in _REPEATS:
            least, most, body = value
            times = chance.choice((least, min(least + 1, most), min(least + 3, most)))
            text += "".join(sample(body) for _ in range(times))
        elif code is codes.BRANCH:
            text += sample(chance.choice(value[1]))
        elif code in (codes.SUBPATTERN, codes.ATOMIC_GROUP):
            text += sample(_bodies(code, value)[0])
        elif code is codes.GROUPREF:
            text += "'"
    return text


def _fits(letter: str, code: Any, value: Any) -> bool:
    """Whether a set has a letter."""
    if code is not codes.IN:
        return code is codes.ANY or ord(letter) != value
    found = False
    for kind, item in value:
        if kind is codes.LITERAL:
            found |= ord(letter) == item
        elif kind is codes.RANGE:
            found |= item[0] <= ord(letter) <= item[1]
        elif kind is codes.CATEGORY:
            found |= _CATEGORIES[item].fullmatch(letter) is not None
    return found != (value[0][0] is codes.NEGATE)


def _literals(tree: Any) -> set[str]:
    """The letters that a pattern names."""
    found = set[str]()
    for code, value in tree:
        if code in (codes.LITERAL, codes.NOT_LITERAL):
            found.add(chr(value))
        elif code is codes.IN:
            found |= {chr(item) for kind, item in value if kind is codes.LITERAL}
            found |= {chr(item[0]) for kind, item in value if kind is codes.RANGE}
        elif code in _REPEATS:
            found |= _literals(value[2])
        for inner in _bodies(code, value):
            found |= _literals(inner)
    return found


class _TooLong(BaseException):
    pass


def seconds(used: Used, attack: tuple[str, str, str], length: int, limit: float = _LIMIT) -> float:
    """The processor time that a pattern takes for a text of about this length."""
    start, unit, end = attack
    text: Any = start + unit * (length // len(unit) + 1) + end
    if isinstance(used.pattern.pattern, bytes):
        text = text.encode("utf-8", "surrogatepass")
    return timed(getattr(used.pattern, used.method), text, limit)


def timed(function: Any, text: Any, limit: float = _LIMIT) -> float:
    """The processor time that a function takes for a text, or infinity above the limit."""

    def stop(_number: int, _frame: object) -> None:
        raise _TooLong

    previous = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    begun = time.process_time()
    try:
        function(text)
    except _TooLong:
        return float("inf")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
    return time.process_time() - begun


def find_slow_text(used: Used, tried: int, most: int = MAX_CHARS) -> str:
    """A text that shows that a pattern takes more than linear time; empty if there is none."""
    if not has_repeats(used.pattern):
        return ""
    slowest: tuple[float, tuple[str, str, str]] = (0.0, ("", "a", ""))
    for attack in attacks(used.pattern, tried):
        short = seconds(used, attack, min(most, 4_000))
        if short > MAX_SECONDS and _grows(used, attack, most):
            return repr(attack)
        slowest = max(slowest, (short, attack))
    return repr(slowest[1]) if _grows(used, slowest[1], most) else ""


def _grows(used: Used, attack: tuple[str, str, str], most: int) -> bool:
    """Whether four times the text takes much more than four times as long, and too long."""
    for _ in range(3):  # the machine may have been busy
        quarter = seconds(used, attack, most // 4)
        limit = max(_TIMES * quarter, MAX_SECONDS)
        if quarter < _LIMIT and seconds(used, attack, most, limit) <= limit:
            return False
        if quarter >= _LIMIT:
            break
    return True
