"""A second opinion on shell commands from tree-sitter-bash. The only module that imports it.

Both packages are optional. The grammar differs from real bash in known cases, so its result can
make a decision stricter, and never more permissive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Protocol

from handrail.policy._shell.strict import SimpleCommand
from handrail.policy._shell.words import strip_marks, unescape

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_CHUNK_BYTES = 512
_PLAIN = frozenset(
    """
    program list pipeline redirected_statement command command_name word number string
    string_content raw_string concatenation file_redirect file_descriptor
    && || | ; " > >> >& <
    """.split()
) | {"\n"}


class _Node(Protocol):
    """Used node attributes."""

    @property
    def type(self) -> str: ...
    @property
    def text(self) -> bytes | None: ...
    @property
    def children(self) -> Sequence[_Node]: ...
    @property
    def has_error(self) -> bool: ...
    def children_by_field_name(self, name: str, /) -> Sequence[_Node]: ...


def agrees(text: str, simples: tuple[SimpleCommand, ...]) -> bool | None:
    """Return whether the grammar finds the same commands as the lexer; None if not installed."""
    root = _root(text)
    if root is None:
        return None
    nodes = list(_walk(root))
    if root.has_error or any(node.type not in _PLAIN for node in nodes):
        return False
    return list(_commands(nodes)) == [simple.argv for simple in simples]


def grammar_commands(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the commands the grammar finds in any text, with expansions unchanged."""
    root = _root(text)
    return () if root is None else tuple(_commands(_walk(root)))


def _root(text: str) -> _Node | None:
    parse = _parse()
    return None if parse is None else parse(text.encode("utf-8", "replace"))


@cache
def _parse() -> Callable[[bytes], _Node] | None:
    try:
        tree_sitter, grammar = import_module("tree_sitter"), import_module("tree_sitter_bash")
    except ImportError:
        return None
    language = tree_sitter.Language(grammar.language())

    def parse(source: bytes) -> _Node:
        def read(start: int, _point: object) -> bytes:
            return source[start : start + _CHUNK_BYTES]  # here, other threads can run

        # A parser is cheap to make, and must not be shared between threads.
        root: _Node = tree_sitter.Parser(language).parse(read).root_node
        return root

    return parse


def _walk(root: _Node) -> Iterator[_Node]:
    """Yield every node in text order. Not recursive: a tree can be very deep."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def _commands(nodes: Iterator[_Node] | list[_Node]) -> Iterator[tuple[str, ...]]:
    argv: list[str] = []
    for node in nodes:
        if node.type == "command":
            yield from filter(None, [tuple(argv)])
            words = [*node.children_by_field_name("name"), *node.children_by_field_name("argument")]
            argv = [_word(word) for word in words]
        elif node.type == "file_redirect":
            # The grammar reads the arguments after a redirection as more files.
            argv += [_word(word) for word in node.children_by_field_name("destination")[1:]]
    yield from filter(None, [tuple(argv)])


def _word(node: _Node) -> str:
    text = (node.text or b"").decode("utf-8", "replace")
    if node.type in {"concatenation", "command_name"}:
        return "".join(_word(child) for child in node.children)
    if node.type == "ansi_c_string":
        return strip_marks(unescape(text[2:-1]))
    if node.type in {"string", "raw_string"}:
        return text[1:-1]
    return _ESCAPED.sub(r"\1", text)
