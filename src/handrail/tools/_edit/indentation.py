"""Translates an edit's indentation into the file's, if one rule explains both.

A model may have written spaces for tabs, other steps, or everything one level too far out. If one
rule explains the whole difference, new lines follow the same rule. Otherwise their indentation is
unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

_USUAL = " " * 4


@dataclass(frozen=True, slots=True)
class IndentRule:
    """How an indentation in an edit is written in the file.

    Attributes:
        follow: Returns the indentation in the file; None if it is unknown.
        shifts: Whether everything moves in or out.
    """

    follow: Callable[[str], str | None]
    shifts: bool = False


SAME = IndentRule(str)
"""The edit has the same indentation as the file."""


def indent_of(line: str) -> str:
    """Return a line's leading whitespace."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def find_rule(
    theirs: Sequence[str], old: Sequence[str], new: Sequence[str], near: Sequence[str]
) -> IndentRule | None:
    """Return the one rule explaining the file's indentation from the edit's, or None.

    Args:
        theirs: The lines in the file.
        old: The same lines in the edit, which may differ in whitespace.
        new: The lines the edit would write.
        near: File lines around the location, to detect its steps.
    """
    both = zip(old, theirs, strict=True)
    pairs = {(indent_of(mine), indent_of(line)) for mine, line in both if mine.strip()}
    if all(mine == line for mine, line in pairs):
        return SAME
    steps = _find_step(old, [*old, *new]), _find_step(theirs, near)
    rule = _by_level(pairs, *steps) or _by_prefix(pairs) or _by_table(pairs)
    # if the old text is a level off and the new text is not, either could be the mistake
    return None if rule and rule.shifts and _moves(old, new) else rule


def _moves(old: Sequence[str], new: Sequence[str]) -> bool:
    return len({_outermost(lines) for lines in (old, new) if any(map(str.strip, lines))}) > 1


def _outermost(lines: Iterable[str]) -> str:
    return min((indent_of(line) for line in lines if line.strip()), key=len)


def _by_level(pairs: set[tuple[str, str]], mine: str, theirs: str) -> IndentRule | None:
    """Return a rule adding or removing levels, each written with the file's step."""
    deeper = {
        _level_difference(_split_level(indent, mine), _split_level(line, theirs))
        for indent, line in pairs
    }
    if len(deeper) != 1 or None in deeper:
        return None
    more = deeper.pop() or 0

    def follow(indent: str) -> str | None:
        here = _split_level(indent, mine)
        if here is None:  # perhaps the model wrote it with the file's step
            return indent if _split_level(indent, theirs) and mine[0] != theirs[0] else None
        return theirs * (here[0] + more) + here[1] if here[0] + more >= 0 else None

    return IndentRule(follow, shifts=more != 0)


def _level_difference(mine: tuple[int, str] | None, theirs: tuple[int, str] | None) -> int | None:
    if mine is None or theirs is None or mine[1] != theirs[1]:
        return None
    return theirs[0] - mine[0]


def _by_prefix(pairs: set[tuple[str, str]]) -> IndentRule | None:
    """Return a rule adding or removing the same whitespace before every line."""
    mine, theirs = min(pairs)
    if theirs.endswith(mine):
        more = theirs.removesuffix(mine)
        if all(line == more + indent for indent, line in pairs):
            return IndentRule(lambda indent: more + indent, shifts=True)
    if mine.endswith(theirs):
        less = mine.removesuffix(theirs)
        if all(indent == less + line for indent, line in pairs):
            return IndentRule(lambda indent: _remove_prefix(indent, less), shifts=True)
    return None


def _by_table(pairs: set[tuple[str, str]]) -> IndentRule | None:
    """Return a rule with one entry per indentation, if deeper lines stay deeper."""
    order = sorted(pairs, key=lambda pair: (len(pair[0]), pair[0]))
    deeper = all(
        len(outer[0]) < len(inner[0]) and len(outer[1]) < len(inner[1])
        for outer, inner in pairwise(order)
    )
    return IndentRule(dict(order).get, shifts=True) if deeper else None


def _remove_prefix(indent: str, less: str) -> str | None:
    return indent.removeprefix(less) if indent.startswith(less) else None


def _split_level(indent: str, step: str) -> tuple[int, str] | None:
    """Return the step count and the spaces after the steps; None for another mixture."""
    count = 0
    while indent.startswith(step, count * len(step)):
        count += 1
    rest = indent[count * len(step) :]
    return None if rest.strip(" ") else (count, rest)


def _find_step(here: Sequence[str], around: Sequence[str]) -> str:
    """Return the indentation step: the most common one from a line to a deeper line."""
    kinds = _count_kinds(here) or _count_kinds(around)
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


def _count_kinds(lines: Sequence[str]) -> Counter[str]:
    return Counter(line[0] for line in lines if line.strip() and line[0] in " \t")
