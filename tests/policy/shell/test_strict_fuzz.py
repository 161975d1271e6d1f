"""The readers against real shells: many random lines, none read otherwise and no command missed."""

from __future__ import annotations

import os
import random
import shlex
from collections.abc import Callable, Iterator
from itertools import islice, product

import pytest

from handrail.policy._shell.grammar import agrees
from handrail.policy._shell.rough import possible_commands
from handrail.policy._shell.strict import SimpleCommand, lex
from handrail.policy._shell.wrappers import matches
from policy.shell.shell_truth import NAMES, SHELLS, Reading, differences, known, runs_of

LINES = {"brief": 400, "soak": 100_000}.get(os.environ.get("HANDRAIL_PROFILE", ""), 2_000)

PIECES = """
    a -n --long=x ./p/q 12 2 1 a,b k=v a:b @x %d +1 _ - -- . .. / x=y=z http://h/p?q
    é 日本 à Åb ß naïve ﬃ K
    'b c' '' 'a"b' '$x `y` \\' '!' '#' '*' '=z' '~' '{a,b}' ' ; ls ' '&&' '|' '>x'
    "d e" "" "it's" "#" "*" "{a,b}" " | cat " "=" "~" "&" "(x)"
    ls cat git grep n_1 if done in time -e 2>&1 >/dev/null
""".split("\n")
GOOD = [word for line in PIECES for word in shlex.split(line, posix=False)] + [
    "'tab\tin'",
    "'line\nin'",
    '"line\n in"',
    '"tab\tin"',
    *"HEAD~1 x~ A~b ~a _~_ k~=v".split(),
    *[f'"a\\{one}b"' for one in "awnt.|()[]{}*+?^-/ 0'é"],
]
NASTY = [
    *"\\ \\\t \\\\ \\a \\' \\\" \\\n".split(" "),
    "\\ ", "\\\t", "\\\n", "\r", "\x0b", "\x0c", "\xa0", "\u2028", "\u200b", "\ufeff", "\u3164", "\u2800", "\x7f",
    "$x", "${x}", "$(ls)", "`ls`", "$'a'", '$"a"', "$", '"$x"', '"a\\"b"', '"a\\b"', '"a!b"', "$((1))", "$@",
    "=", "=x", "==", "=~", "''=x", "a=b", "A=", "~", "~x", "^", "#", "#c", "a#b", "*", "?", "[a]", "{a,b}", "{", "}", "!",
    "(", ")", "()", "&", "&&&", ";;", ";&", "|&", "|||", "<<E", "<<<x", "<", ">", ">>", ">|", "<>", "2>", "2>x", "&>/dev/null",
    ">&", ">&1", "1>&1", "2>&2", "3>&1", "2>&12", "2>&1x", ">/dev/nullx", ">/dev/null/", "0</dev/null", "a2>/dev/null", "'", '"', "'a''b'", "%1", "-", "+x",
    "[[", "]]", "then", "export", "alias", "<(ls)", "\u0301", "\u0661", "²",
]  # fmt: skip
REDIRECTS = [
    " 2>&1", " >&2", " 1>&2", " >/dev/null", " 2>/dev/null", " 1>>/dev/null", " 2> /dev/null", " </dev/null", " < \t/dev/null",
    " 2>& 1", " >>/dev/null", ">/dev/null", "2>/dev/null",
]  # fmt: skip
OPERATORS = ["&&", "||", ";", "|", "\n", "\n\n", ";\n", "&&\n", "|\n", "||\n \n"]
BLANKS = ["", "", " ", "  ", "\t", " \t "]


def word(chance: random.Random) -> str:
    pool = NASTY if chance.random() < 0.03 else GOOD
    glued = chance.random() < 0.25
    return "".join(chance.choice(pool if not part else GOOD) for part in range(2 if glued else 1))


def command(chance: random.Random) -> str:
    name = chance.choice([*NAMES])
    if chance.random() < 0.15:
        name = chance.choice([f"'{name}'", f'"{name}"', f"{name[:1]}'{name[1:]}'", f"{name}''"])
    if chance.random() < 0.02:
        name = word(chance)
    words = [name, *(word(chance) for _ in range(chance.randrange(5)))]
    line = words[0] + "".join(chance.choice([" ", " ", "  ", "\t"]) + one for one in words[1:])
    if chance.random() < 0.2:
        line += chance.choice(REDIRECTS)
    if chance.random() < 0.05:
        line += chance.choice(REDIRECTS) + " " + word(chance)
    return line


def line(chance: random.Random) -> str:
    text = chance.choice(BLANKS) + command(chance)
    for _ in range(chance.choice([0, 0, 0, 1, 1, 2, 4])):
        text += chance.choice(BLANKS) + chance.choice(OPERATORS) + chance.choice(BLANKS)
        text += command(chance)
    return text + chance.choice(["", "", "", " ", "\n", ";", " ;\n", "\t"])


def noise(chance: random.Random) -> str:
    """Any of the pieces in any order, so that nobody's idea of a line limits the search."""
    pool = [GOOD, GOOD, GOOD, OPERATORS, REDIRECTS, NASTY, [*NAMES]]
    return chance.choice([*NAMES]) + "".join(
        chance.choice(BLANKS[2:] if chance.random() < 0.7 else [""]) + chance.choice(chance.choice(pool))
        for _ in range(chance.randrange(1, 6))
    )  # fmt: skip


def accepted(
    seed: int, lexer: Callable[[str], Reading | None] = lex
) -> Iterator[tuple[str, Reading]]:
    chance = random.Random(seed)  # noqa: S311  the same lines each time
    while True:
        text = (line if chance.random() < 0.6 else noise)(chance)
        reading = lexer(text)
        if reading is not None and known(reading):
            yield text, reading


def naive(text: str) -> Reading | None:
    """What comes to mind first: shlex, cut at the operators."""
    try:
        tokens = list(shlex.shlex(text.strip(), posix=True, punctuation_chars=";&|"))
    except ValueError:
        return None
    commands = [SimpleCommand((), "")]
    for token in tokens:
        last = commands[-1]
        if set(token) <= set(";&|"):
            commands.append(SimpleCommand((), token))
        else:
            commands[-1] = SimpleCommand((*last.argv, token), last.operator)
    return tuple(commands) if all(simple.argv for simple in commands) else None


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_a_shell_runs_what_the_lexer_says(shell: str) -> None:
    lines = list(islice(accepted(seed=20_260_801), LINES))
    assert differences(shell, lines) == []


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_no_pair_of_characters_is_read_in_another_way(shell: str) -> None:
    chars = [*"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~a1 \t\n\ré"]
    texts = [f"ls {''.join(pair)}" for pair in product(chars, repeat=2)]
    texts += [f"ls 'q'{text[3:]}\"r\"" for text in texts] + [f"ls{text[3:]} b" for text in texts]
    lines = [(text, reading) for text in texts if (reading := lex(text)) and known(reading)]
    assert len(lines) > 400
    assert differences(shell, lines) == []


def test_a_naive_lexer_is_caught_by_the_same_harness() -> None:
    lines = list(islice(accepted(seed=1, lexer=naive), 400))
    assert len(differences("bash", lines, doubly=False)) > 40


def test_the_harness_sees_a_wrong_argument_a_missing_command_and_a_wrong_order() -> None:
    right = ("cat || ls 'a b'", (SimpleCommand(("cat",)), SimpleCommand(("ls", "a b"), "||")))
    wrong = [
        ("ls a", (SimpleCommand(("ls", "b")),)),
        ("ls && git", (SimpleCommand(("ls",)),)),
        ("cat && git", (SimpleCommand(("cat",)), SimpleCommand(("git",), ";"))),
        ("ls nothing >else; nobody", (SimpleCommand(("ls", "nothing")),)),
    ]
    for shell in sorted(SHELLS):
        assert differences(shell, [right, *wrong, right]) == [text for text, _ in wrong]


CURLS = [" curl x ", "curl x", "\ncurl x\n", "$(curl x)", "`curl x`"]
SCRAPS = [
    *"'\"\\$`(){}<>|&;\n \t#=a[]*!,\r", "\\\n", "$(", "${", "${x:-", "<<E\n", "<<'E'\n", "<<-E\n", "\nE\n", "\tE\n", "case x in ",
    "x) ", ";; ", "esac", "for i in 1; do ", "done", "if ls; then ", "fi", "$'", '$"', "$((", "))", "((", "<(", ">(", "<<<", "&>", "2>",
    "x=", "x[", "f(){ ", "}; f", "cu", "rl x", "eval ", '"$(', "x ", "do ", "then ", "[[ ", " ]]", "time ", "coproc ", "function g ",
    "$[", "\\'", '\\"', "'E'", "E", "echo ", "cat ", "{ ", "x=curl;", "$x", '"$x"', "set -- ", '"$@"', *CURLS,
]  # fmt: skip


def scrawl(chance: random.Random) -> str:
    scraps = chance.choices(SCRAPS, k=chance.choice([3, 5, 8, 12, 16]))
    scraps.insert(chance.randrange(len(scraps)), chance.choice(CURLS))
    return "".join(scraps)


def test_whatever_bash_runs_the_rough_reader_names() -> None:
    chance = random.Random(20_260_802)  # noqa: S311  the same lines each time
    texts = [scrawl(chance) for _ in range(LINES)]
    ran = runs_of("curl", texts)
    assert len(ran) > LINES // 10
    assert [texts[n] for n in sorted(ran) if not runs_curl(texts[n])] == []


def runs_curl(text: str) -> bool:
    return any(matches(argv, ("curl",)) for argv in possible_commands(text))


def test_the_grammar_seldom_differs_from_the_lexer() -> None:
    lines = list(islice(accepted(seed=3), 1_000))
    second = [agrees(text, reading) for text, reading in lines]
    assert second.count(False) < 150
