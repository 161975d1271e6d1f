"""Glob patterns: which paths one means, and that no pattern takes long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.tools._files.glob_pattern import GlobPattern


def naive(pattern: str, path: str) -> bool:
    """What a pattern means, tried in every way: right, and slow."""
    return _steps(pattern.split("/"), path.split("/"))


def _steps(wanted: list[str], given: list[str]) -> bool:
    if not wanted or not given:
        return wanted == given
    plain = not given[0].startswith(".")
    if wanted[0] != "**":
        dot = plain or wanted[0].startswith(".")
        return dot and _fits(wanted[0], given[0]) and _steps(wanted[1:], given[1:])
    last = len(wanted) == len(given) == 1
    return (plain and (last or _steps(wanted, given[1:]))) or (
        len(wanted) > 1 and _steps(wanted[1:], given)
    )


def _fits(wanted: str, given: str) -> bool:
    if not wanted or not given:
        return wanted.strip("*") == given == ""
    if wanted[0] == "*":
        return _fits(wanted[1:], given) or _fits(wanted, given[1:])
    return wanted[0] in ("?", given[0]) and _fits(wanted[1:], given[1:])


NAME = st.text("ab.", min_size=1, max_size=4).filter(lambda one: one.strip("."))
STEP = st.one_of(
    st.just("**"), st.text("ab.*?", min_size=1, max_size=5).filter(lambda one: one.strip("."))
)


@given(
    st.lists(STEP, min_size=1, max_size=5).map("/".join),
    st.lists(NAME, min_size=1, max_size=5).map("/".join),
)
def test_a_pattern_means_what_trying_everything_says(pattern: str, path: str) -> None:
    assert bool(GlobPattern(pattern).means(path)) == naive(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path", "meant"),
    [
        ("[!a]x", "bx", True),
        ("[!a]x", "ax", False),
        ("[^a]x", "ax", False),
        ("[]]", "]", True),
        ("[]", "[]", True),
        ("[a-c]", "b", True),
        ("[z-a]", "z", True),
        ("[a/b]", "a", False),
        ("[[]", "[", True),
        ("[!a]", "/", False),
        ("{a}", "{a}", True),
        ("{a,b", "{a,b", True),
        ("a,b}", "a,b}", True),
        (r"\{a,b\}", "{a,b}", True),
        ("x{a,{b,c}d}", "xcd", True),
        ("{,x}a", "a", True),
        (r"\*", "*", True),
        (r"\.a", ".a", True),
        ("a//b", "a/b", True),
        ("./", "a/b", True),
        ("é?", "éé", True),
        ("*", "\udcff", True),
    ],
)
def test_the_finer_points_of_patterns(pattern: str, path: str, meant: bool) -> None:  # noqa: FBT001
    assert bool(GlobPattern(pattern).means(path)) == meant


def test_matching_takes_no_longer_for_a_hostile_pattern() -> None:
    path = "/".join("a" * 60 for _ in range(60))
    for pattern in (
        "*a" * 300 + "b",
        "**/*a*a*a*b/" * 20 + "x",
        "**/a*/" * 90 + "x",
        "{*a,*aa}" * 6 + "b",
    ):
        assert GlobPattern(pattern).means(path) is None
