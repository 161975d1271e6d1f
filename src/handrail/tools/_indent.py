"""From the indentation of an edit to that of a file, where the one follows from the other.

A model may have written spaces for tabs, other steps, or all of it a level too far out. As long
as one rule explains the whole difference, new lines follow the same rule; otherwise nobody knows
where they belong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

_USUAL = " " * 4


@dataclass(frozen=True, slots=True)
class Rule:
    """How an indentation in an edit is written in the file.

    Attributes:
        follow: The indentation in the file; None where it cannot be told.
        shifts: Whether everything moves in or out.
    """

    follow: Callable[[str], str | None]
    shifts: bool = False


SAME = Rule(str)
"""The edit has the file's own indentation."""


def indent_of(line: str) -> str:
    """The blanks before the first other character."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def rule(
    theirs: Sequence[str], old: Sequence[str], new: Sequence[str], near: Sequence[str]
) -> Rule | None:
    """The one rule that explains the file's indentation from the edit's, or None.

    Args:
        theirs: The lines in the file.
        old: The same lines as the edit has them, apart from blanks.
        new: What the edit would write instead.
        near: Lines of the file around the place, to learn its steps from.
    """
    both = zip(old, theirs, strict=True)
    pairs = {(indent_of(mine), indent_of(line)) for mine, line in both if mine.strip()}
    if all(mine == line for mine, line in pairs):
        return SAME
    steps = _step(old, [*old, *new]), _step(theirs, near)
    found = _by_level(pairs, *steps) or _by_prefix(pairs) or _one_by_one(pairs)
    # where the old text is a level off and the new text is not, either could be the mistake
    return None if found and found.shifts and _moves(old, new) else found


def _moves(old: Sequence[str], new: Sequence[str]) -> bool:
    return len({_outermost(lines) for lines in (old, new) if any(map(str.strip, lines))}) > 1


def _outermost(lines: Iterable[str]) -> str:
    return min((indent_of(line) for line in lines if line.strip()), key=len)


def _by_level(pairs: set[tuple[str, str]], mine: str, theirs: str) -> Rule | None:
    """So many levels more or less, each of them made of something else."""
    deeper = {_deeper(_level(one, mine), _level(line, theirs)) for one, line in pairs}
    if len(deeper) != 1 or None in deeper:
        return None
    more = deeper.pop() or 0

    def follow(indent: str) -> str | None:
        here = _level(indent, mine)
        if here is None:  # perhaps written as the file has it in the first place
            return indent if _level(indent, theirs) and mine[0] != theirs[0] else None
        return theirs * (here[0] + more) + here[1] if here[0] + more >= 0 else None

    return Rule(follow, shifts=more != 0)


def _deeper(mine: tuple[int, str] | None, theirs: tuple[int, str] | None) -> int | None:
    if mine is None or theirs is None or mine[1] != theirs[1]:
        return None
    return theirs[0] - mine[0]


def _by_prefix(pairs: set[tuple[str, str]]) -> Rule | None:
    """The same blanks more, or less, before every line."""
    mine, theirs = min(pairs)
    if theirs.endswith(mine):
        more = theirs.removesuffix(mine)
        if all(line == more + one for one, line in pairs):
            return Rule(lambda indent: more + indent, shifts=True)
    if mine.endswith(theirs):
        less = mine.removesuffix(theirs)
        if all(one == less + line for one, line in pairs):
            return Rule(lambda indent: _without(indent, less), shifts=True)
    return None


def _one_by_one(pairs: set[tuple[str, str]]) -> Rule | None:
    """Each indentation for itself, as long as what is deeper stays deeper."""
    order = sorted(pairs, key=lambda pair: (len(pair[0]), pair[0]))
    deeper = all(
        len(one[0]) < len(two[0]) and len(one[1]) < len(two[1]) for one, two in pairwise(order)
    )
    return Rule(dict(order).get, shifts=True) if deeper else None


def _without(indent: str, less: str) -> str | None:
    return indent.removeprefix(less) if indent.startswith(less) else None


def _level(indent: str, step: str) -> tuple[int, str] | None:
    """How many steps, and the spaces beyond them; None for another mixture."""
    count = 0
    while indent.startswith(step, count * len(step)):
        count += 1
    rest = indent[count * len(step) :]
    return None if rest.strip(" ") else (count, rest)


def _step(here: Sequence[str], around: Sequence[str]) -> str:
    """The step of indentation: the commonest from a line to a deeper one, of the kind used here."""
    kinds = _kinds(here) or _kinds(around)
    if kinds["\t"] > kinds[" "]:
        return "\t"
    widths = [
        len(indent_of(line)) for line in around if line.strip() and "\t" not in indent_of(line)
    ]
    steps = Counter(after - before for before, after in pairwise([0, *widths]))
    wide = {step: count for step, count in steps.items() if step > 1}
    if not wide:
        return _USUAL
    return " " * min(step for step, count in wide.items() if count == max(wide.values()))


def _kinds(lines: Sequence[str]) -> Counter[str]:
    return Counter(line[0] for line in lines if line.strip() and line[0] in " \t")
