"""What the strict reader takes, what it leaves, and that nothing in between is guessed."""

from __future__ import annotations

import shlex
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handrail.policy._shell.strict import SimpleCommand, lex


def read(text: str) -> list[tuple[str, ...]] | None:
    simples = lex(text)
    return None if simples is None else [(simple.operator, *simple.argv) for simple in simples]


PLAIN = {
    "ls": [("", "ls")],
    "  ls\t-la ": [("", "ls", "-la")],
    "a'b c'\"d\"": [("", "ab cd")],
    "ls ''": [("", "ls", "")],
    "echo 'it is $HOME' \"a'b\"": [("", "echo", "it is $HOME", "a'b")],
    "echo 'a'\"'\"'; canary; '": [("", "echo", "a'; canary; ")],
    "cat a.txt | head -n 3": [("", "cat", "a.txt"), ("|", "head", "-n", "3")],
    "pwd&&ls||x;y": [("", "pwd"), ("&&", "ls"), ("||", "x"), (";", "y")],
    "\n\nls\n\n pwd;\n": [("", "ls"), ("\n", "pwd")],
    "ls &&\n\n pwd |\nx": [("", "ls"), ("&&", "pwd"), ("|", "x")],
    "ls;\npwd": [("", "ls"), (";", "pwd")],
    "ls 2>&1 | x": [("", "ls"), ("|", "x")],
    "ls >/dev/null 2>&1 x": [("", "ls", "x")],
    "ls 1> /dev/null 2>>\t/dev/null </dev/null&&x": [("", "ls"), ("&&", "x")],
    "ls 1>&2 ;x >& 2": [("", "ls"), (";", "x")],
    "ls 2": [("", "ls", "2")],
    "x 2 >/dev/null": [("", "x", "2")],
    "x 'a\nb\tc'": [("", "x", "a\nb\tc")],
    "x a=b --c=d =": None,
    "x a=b --c=d '=e'": [("", "x", "a=b", "--c=d", "=e")],
    "größe 日本 'zwölf🙂 ¾'": [("", "größe", "日本", "zwölf🙂 ¾")],
    'x "a\\.b" "\\w+" HEAD~1 a_~': [("", "x", r"a\.b", r"\w+", "HEAD~1", "a_~")],
    "x if then time": [("", "x", "if", "then", "time")],
}


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_line_is_taken_apart(text: str) -> None:
    assert read(text) == PLAIN[text]


def test_a_command_knows_whether_another_feeds_it() -> None:
    simples = lex("a && b | c")
    assert simples is not None
    assert [simple.piped for simple in simples] == [False, False, True]
    assert simples[0] == SimpleCommand(("a",))


NOT_PLAIN = """
    a=b
    a=b c
    'a=b' c
    a''=b
    c =b
    c ''=b
    c ""=b
    cat =~'q'
    if x
    'if' x
    ! x
    { x
    [[ x
    time x
    export a=b
    alias a=b
    set -k
    - x
    -x
    +x
    %1
    '%1'
    ''
    x ;; y
    x ;& y
    x |& y
    x & y
    x &
    x &&& y
    x ||| y
    ; x
    && x
    x && ; y
    x &&
    x ||
    x |
    x # y
    x a#b
    # x
    x 'y
    x "y
    x 'a''b'
    x ''''
    x "$y"
    x "`y`"
    x "a\\\\b"
    x "a\\$b"
    x a=~
    x a:~
    x .~
    x "a!"
    x a\\ b
    sort \\ -oprotected a.txt
    x $y
    x `y`
    x $'y'
    ls -a$"x"
    x ~
    x ^a
    x *
    x ?
    x [a]
    x {a,b}
    x (y)
    (x)
    x !y
    x <y
    x >y
    x 2>y
    x <<y
    x <<<y
    x >|/dev/null
    x <>/dev/null
    x &>/dev/null
    x >&1
    x 1>&1
    x 2>&2
    x 3>/dev/null
    x 0</dev/null
    x>/dev/null
    x a2>/dev/null
    x 'a'>/dev/null
    x >/dev/nully
    x >/dev/null'y'
    x >/dev/null/y
    x 2>&1y
    x 2>&12
    x 2>&1>/dev/null
    x 2 >&- y
    >/dev/null x
    x; >/dev/null y
    x >/dev/null | y
    x 1>&2 | y
    x | y </dev/null
    x >/dev/null >/dev/null
    x | cd y
    x | read y
    x 2>&1 2>/dev/null
    x 2\u0660
    x \u00b2
    x e\u0301
""".strip().split("\n")
INVISIBLE = "\r \x00 \x01 \x0b \x0c \x1b \x7f \x85 \xa0 \xad \u034f \u115f \u1160 \u17b4 \u180b \u180e \u2000 \u200b \u200d \u202e \u2028 \u2060 \u2800 \u3000 \u3164 \ufe0f \ufeff \uffa0 \U000e0001 \U000e0100 \ue000 \ud800 \u0378 \U0001d159 \U00013441 \U00016fe4".split(
    " "
)


@pytest.mark.parametrize("text", [line.removeprefix("    ") for line in NOT_PLAIN])
def test_whatever_a_shell_may_read_in_another_way_is_not_plain(text: str) -> None:
    assert lex(text) is None


@pytest.mark.parametrize(
    "text",
    ["", " ", "\t", "\n", " \n\n ", "x\n;y", "x\n&& y", "x \\\ny", "ca\\\nt a", "grep \\\t-f p x"],
)
def test_odd_white_space_is_not_plain(text: str) -> None:
    assert lex(text) is None


@pytest.mark.parametrize("char", INVISIBLE, ids=ascii)
def test_what_nobody_sees_is_not_plain_even_in_quotes(char: str) -> None:
    assert [lex(text) for text in (f"x a{char}b", f"x 'a{char}b'", f'x "{char}"', f"{char}x")] == [
        None
    ] * 4


def test_every_character_that_shows_as_nothing_is_refused() -> None:
    ignorable = [
        chr(code)
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"}
    ]
    assert [
        char for char in ignorable if char not in " \n\t" and lex(f"x '{char}'") is not None
    ] == []


SHELL_TEXT = st.text(
    st.sampled_from("ab é日'\"\\$`=;|&<>#~*!{}()\n\t /dev/null2>&1-+%\r\xa0\u200b"), max_size=40
)


@given(SHELL_TEXT | st.text())
@example("x\ud800")
def test_no_text_is_too_odd_to_be_judged(text: str) -> None:
    simples = lex(text)
    assert simples is None or all(simple.argv and simple.argv[0] for simple in simples)


@given(
    SHELL_TEXT
    | st.lists(
        st.sampled_from(
            [
                "ls",
                " ",
                "'a b'",
                '"c"',
                "=",
                ";",
                "|",
                "&&",
                "\n",
                "2>&1",
                ">/dev/null",
                "é",
                "a=b",
                "''",
            ]
        )
    ).map("".join)
)
def test_a_line_in_other_quotes_is_the_same_line(text: str) -> None:
    simples = lex(text)
    if simples is not None:
        again = "".join(
            f" {simple.operator} {' '.join(map(quoted, simple.argv))}" for simple in simples
        )
        assert lex(again) == simples


def quoted(word: str) -> str:
    return f"'{word}'" if word.startswith("=") else shlex.quote(word)


@given(st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1), min_size=1))
def test_quoted_arguments_come_back_as_they_were(words: list[str]) -> None:
    text = "x " + " ".join(f"'{word}'" for word in words if "'" not in word)
    simples = lex(text)
    assert simples is None or simples[0].argv[1:] == tuple(
        word for word in words if "'" not in word
    )
