"""Code before a program and around its value: only JSON text leaves the interpreter.

The interpreter sends values as a graph. A few program lines can make one which Python expands
to more than any memory has, or whose hash takes years to compute: nothing could stop that here. As
JSON text, they are written inside the interpreter, within its limits.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

CALL = "_handrail_call"
"""The only function a program gets from outside. Only the functions below can reach it."""
_VALUE = "_handrail_value"
_WRITE = "_handrail_write"
# a value would leave as a graph, beyond the interpreter's limits: decision 153
_PRELUDE = f"""\
import json as {_VALUE}

def {_WRITE}(call, dumps, text):
    def function(name):
        def run(*args, **kwargs):
            return call(name, dumps([args, kwargs], ensure_ascii=False))
        return run
    def write(value):
        try:
            return dumps(value, ensure_ascii=False)
        except (TypeError, ValueError):
            return dumps(text(value), ensure_ascii=False)
    return function, write

{_VALUE}, {_WRITE} = {_WRITE}({CALL}, {_VALUE}.dumps, str)
{CALL} = None
"""
_BREAK = f"{_VALUE} = \\\n"
"""Makes the last expression an assignment. It is a separate line: columns stay unchanged."""
_OWN_FRAME = re.compile(r'  File "<python-input-0>".*\n(?:    .*\n)*')
_LINE = re.compile(r'(File "<python-input-1>", line )(\d+)')
MAX_VALUE_CHARS = 1_000_000
_MAX_ERROR_CHARS = 10_000


def write_prelude(functions: Iterable[str]) -> str:
    """Return code defining a program's functions."""
    made = [f"{name} = {_VALUE}({name!r})" for name in functions]
    return "\n".join([_PRELUDE, *made, f"{_VALUE} = None"])


class Framed(NamedTuple):
    """A program as it runs: its value is kept under a name."""

    code: str
    added: int = 0
    """Where a line was added, in bytes; 0 if none was."""
    line: int = 0
    """Its number."""
    asks: tuple[str, ...] = ()
    """Expressions for the value as JSON text. The first which is not null counts."""

    def find_line(self, number: int) -> int:
        """Return a line's number in the program as it was written."""
        return number - 1 if self.line and number > self.line else number

    def find_place(self, place: int) -> int:
        """Return a place in the program as it was written, in bytes."""
        return place - len(_BREAK) if self.line and place > self.added else place

    def read_error(self, shown: str) -> str:
        """Return an error as a model reads it: without own frames, and with bounded length."""
        text = _OWN_FRAME.sub("", shown)
        text = _LINE.sub(lambda found: f"{found[1]}{self.find_line(int(found[2]))}", text)
        return _clip_middle(text.replace("<python-input-1>", "program"))


def frame(code: str, tree: ast.Module, last: str) -> Framed:
    """Return a program as it runs.

    Args:
        code: The program.
        tree: Its syntax tree.
        last: The name the last statement assigns; or empty.
    """
    data, edits = code.encode(), list[tuple[int, int, bytes]]()
    starts = [0]
    for one in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(one))
    for node in _find_returns(tree):
        begin = starts[int(node.lineno) - 1] + int(node.col_offset)
        end = starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        edits += [(begin, begin + len("return"), f"{_VALUE} =".encode()), (end, end, b"; return")]
    final: Any = tree.body[-1] if tree.body else None
    has_value, added, line = bool(edits), 0, 0
    if isinstance(final, ast.Expr):
        added, line, has_value = starts[final.lineno - 1] + final.col_offset, final.lineno, True
        edits.append((added, added, _BREAK.encode()))
        added += sum(len(new) - (end - begin) for begin, end, new in edits if begin < added)
    for begin, end, new in sorted(edits, reverse=True):
        data = data[:begin] + new + data[end:]
    named = [_VALUE] * has_value + [last] * bool(last)
    asks = tuple([f'f"{{{_WRITE}({name})}}"' for name in named])
    return Framed(data.decode(), added, line, asks)


def _find_returns(tree: ast.Module) -> Iterable[Any]:
    """Yield the `return` statements outside functions which have a value: they end the program."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            yield node
        own = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)
        todo += [one for one in ast.iter_child_nodes(node) if not isinstance(one, own)]


class Unfit(Exception):
    """A value cannot be returned. The text says why."""


def read_value(text: str) -> Any:
    """Return a program's value. Raises Unfit if it is too long or deep."""
    if len(text) > MAX_VALUE_CHARS + 2:  # its quotation marks
        raise Unfit(f"its value has more than {MAX_VALUE_CHARS:,} characters: return less")
    try:
        return json.loads(text)
    except ValueError:  # an integer Python does not read
        return text
    except RecursionError:
        raise Unfit("its value is nested too deeply") from None


def _clip_middle(text: str) -> str:
    half = _MAX_ERROR_CHARS // 2
    if len(text) <= _MAX_ERROR_CHARS:
        return text
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters omitted]\n{text[-half:]}"
