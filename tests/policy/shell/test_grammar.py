"""The second opinion: it agrees, it differs, or it is not there."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from handrail.policy._shell import grammar
from handrail.policy._shell.grammar import agrees, grammar_commands
from handrail.policy._shell.strict import SimpleCommand, lex

pytest.importorskip("tree_sitter_bash")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "tree_sitter_bash", None)
    grammar._parse.cache_clear()  # noqa: SLF001
    yield
    grammar._parse.cache_clear()  # noqa: SLF001


@pytest.mark.parametrize(
    "text",
    [
        "ls -la 'a b' \"c d\" e'f'\"g\" 12 && x | y; z",
        "ls\n\npwd;\n",
        "ls >/dev/null x 2>&1; y",
        "größe 'a\n b' \"\"",
    ],
)
def test_the_grammar_agrees_on_plain_lines(text: str) -> None:
    simples = lex(text)
    assert simples is not None
    assert agrees(text, simples) is True


@pytest.mark.parametrize(
    "text", ["ls ;; pwd", "ls $x", "ls 'a", "ls #", "ls &", "a=b", "(ls)", "ls\rx", "ls b", "x", ""]
)
def test_the_grammar_differs_where_there_is_more_or_other_than_was_read(text: str) -> None:
    assert agrees(text, (SimpleCommand(("ls", "a")),)) is False


def test_the_grammar_finds_commands_in_any_text() -> None:
    assert grammar_commands('f(){ c\\url "$x" $(ls a); }; if a; then b c > d e; fi; A=1 g') == (
        ("curl", "$x", "$(ls a)"),
        ("ls", "a"),
        ("a",),
        ("b", "c", "e"),
        ("g",),
    )


def test_odd_text_does_no_harm() -> None:
    assert grammar_commands("ls \ud800") == (("ls", "?"),)
    assert isinstance(grammar_commands("$(" * 5_000), tuple)


@pytest.mark.usefixtures("bare")
def test_without_the_grammar_there_is_no_opinion() -> None:
    assert agrees("ls", (SimpleCommand(("ls",)),)) is None
    assert grammar_commands("ls") == ()
