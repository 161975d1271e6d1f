"""Long and unusual command lines, of all kinds, made by chance."""

from __future__ import annotations

import random
from collections.abc import Callable

_PROGRAMS = (
    "ls cat git python3 make rm find xargs sed awk curl npm tar cp mv env timeout bash".split()
)
_WORDS = [
    "a",
    "src/a.py",
    "-rf",
    "--force",
    "$X",
    "${X:-y}",
    "*.py",
    "{a,b}",
    "~/x",
    "é",
    "中",
    "'q r'",
]
_PIECES = [
    "'",
    '"',
    "$(",
    ")",
    "`",
    "<<E\n",
    "{",
    "}",
    "[",
    "]",
    "\\",
    "|",
    ";",
    "&&",
    ">",
    "<",
    "\n",
    "#",
    "=",
    "$",
    "*",
    "é",
    " ",
    "a",
    "_",
    ".",
    "/",
    "-",
    "(",
    "!",
    "~",
    ",",
]

Maker = Callable[[random.Random, int], str]


def _long_word(chance: random.Random, size: int) -> str:
    return f"{chance.choice(_PROGRAMS)} " + chance.choice("a_-./é=x[{*?~$\\") * size


def _repeated(chance: random.Random, size: int) -> str:
    unit = "".join(chance.choices(_PIECES, k=chance.randint(1, 4)))
    return f"{chance.choice(_PROGRAMS)} " + unit * (size // len(unit))


def _noise(chance: random.Random, size: int) -> str:
    return "".join(chance.choices(_PIECES + _PROGRAMS, k=size // 2))


def _nested(chance: random.Random, size: int) -> str:
    before, after = chance.choice(
        (("$(", ")"), ('"$(', ')"'), ("(", ")"), ("{ ", "; }"), ("`", "`"))
    )
    program = chance.choice(_PROGRAMS)
    levels = size // (len(before + after + program) + 1)
    return f"{before}{program} " * levels + "x" + after * levels


def _joined(chance: random.Random, size: int) -> str:
    by = chance.choice((" | ", " && ", "; ", "\n", " || ", " & "))
    made: list[str] = []
    for _ in range(size // 16):
        words = chance.choices(_WORDS, k=chance.randint(0, 4))
        made.append(" ".join([chance.choice(_PROGRAMS), *words]))
    return by.join(made)


def _same_joined(chance: random.Random, size: int) -> str:
    one = " ".join([chance.choice(_PROGRAMS), *chance.choices(_WORDS, k=2)])
    return chance.choice((" | ", "; ", "\n")).join([one] * (size // (len(one) + 3)))


def _assigned(chance: random.Random, size: int) -> str:
    made = "".join(f"v{at}={chance.choice(_WORDS)} " for at in range(size // 12))
    return made + chance.choice(("ls", "$v1 push", "env git reset --hard"))


def _many_words(chance: random.Random, size: int) -> str:
    return f"{chance.choice(_PROGRAMS)} " + " ".join(chance.choices(_WORDS, k=size // 4))


def _here_document(chance: random.Random, size: int) -> str:
    line = chance.choice(
        ('"SELECT a "', "x = ['a', 'b'", "rm -rf src", "$(ls)", "os.remove(", "é", "urlopen(")
    )
    program = chance.choice(("python3 -", "bash", "cat", "psql", "node"))
    return f"{program} <<'E'\n" + f"{line}\n" * (size // (len(line) + 1)) + "E\n"


def _code(chance: random.Random, size: int) -> str:
    unit = chance.choice(
        ("['a', ", "'a' ", "subprocess.run(['rm', '-rf', 'src']); ", "f(g(", "#", "open(")
    )
    return f'python3 -c "{unit * (size // len(unit))}"'


def _quoted(chance: random.Random, size: int) -> str:
    quote = chance.choice("'\"")
    return (
        f"echo {quote}"
        + chance.choice(("a ", "\\\\", '\\"', "$x ", "''", "é")) * (size // 2)
        + chance.choice(("", quote))
    )


def _piped(chance: random.Random, size: int) -> str:
    unit = chance.choice(("a|", "d |\n", "a||", "a |& ", "a | b; ", "|", "a<b|"))
    return unit * (size // len(unit)) + chance.choice(("", "ls", ")", "\n"))


def _opened(chance: random.Random, size: int) -> str:
    before, after = chance.choice(
        (("$(", ")"), ("${", "}"), ("<(", ")"), ("$((", "))"), ("[[ ", "]]"), ("@(", ")"))
    )
    levels = size // len(before + after)
    return chance.choice(("", "a ", "[[ 1/")) + before * levels + "ls" + after * levels


def _computed(chance: random.Random, size: int) -> str:
    name = chance.choice(("$a{}", "$(a{})", "`a{}`", "${{a{}}}", "a{}", "r*{}", "git $a{}"))
    words = chance.choice(("x", "*", "push -f", "-c a", "[a-z]*{}"))
    by = chance.choice((";", "\n", "&&", " & "))
    one = f"{name} {words}"
    return by.join(one.format(at, at) for at in range(size // (len(one) + 3)))


def _wrapped(chance: random.Random, size: int) -> str:
    unit = chance.choice(
        (
            "git -c alias.a='!git -c alias.b=' ",
            "git -c alias.a=b ",
            "docker run -v a:b ",
            "env -u a ",
            "xargs -n 1 ",
            "sh -c ",
            "sudo -u a git ",
            "find . -exec ",
            "python3 -m ",
            "eval ",
        )
    )
    return unit * (size // len(unit)) + chance.choice(("", "ls", "'rm -rf src'"))


MAKERS: tuple[Maker, ...] = (
    _long_word,
    _repeated,
    _noise,
    _nested,
    _joined,
    _same_joined,
    _assigned,
    _many_words,
    _here_document,
    _code,
    _quoted,
    _piped,
    _opened,
    _computed,
    _wrapped,
)
SIZES = (60, 500, 1_000, 2_000, 4_000, 9_900, 9_900, 30_000, 100_000)
"""Most are below the length of a line that is decided without reading it."""


def make_line(seed: int) -> str:
    """A line of at most 100,000 characters."""
    chance = random.Random(seed)  # noqa: S311
    maker, size = MAKERS[seed % len(MAKERS)], chance.choice(SIZES)
    return maker(chance, size)[:100_000]
