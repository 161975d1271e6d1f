"""Globs: they agree with the plainest matcher there is, and no pattern makes them slow."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handrail import DESTROY, READ, WRITE, Access
from handrail.policy._rules.glob import is_glob, literal_prefix, name_glob, path_glob
from handrail.policy._rules.touch import parse_touch

LETTERS = st.text("ab.\n[]{}\\^$(ß", max_size=3)
SEGMENTS = st.lists(
    st.one_of(
        LETTERS, st.text("ab*?", max_size=5), st.sampled_from(["**", "*", "?", "", "a", "*a*b"])
    ),
    min_size=1,
    max_size=6,
)
PATTERNS = SEGMENTS.map("/".join)
TEXTS = st.lists(st.one_of(LETTERS, st.text("ab", max_size=4)), max_size=7).map("/".join)


def letters_fit(pattern: str, text: str) -> bool:
    """Whether a text is what a pattern of one segment means, tried in every way."""

    @cache
    def fit(at: int, place: int) -> bool:
        if at == len(pattern):
            return place == len(text)
        if pattern[at] == "*":
            return fit(at + 1, place) or (place < len(text) and fit(at, place + 1))
        return place < len(text) and pattern[at] in ("?", text[place]) and fit(at + 1, place + 1)

    return fit(0, 0)


def segments_fit(pattern: str, text: str) -> bool:
    """The same for paths."""
    globs, parts = pattern.split("/"), text.split("/")

    @cache
    def fit(at: int, place: int) -> bool:
        if at == len(globs):
            return place == len(parts)
        if globs[at] == "**":
            return fit(at + 1, place) or (place < len(parts) and fit(at, place + 1))
        return (
            place < len(parts) and letters_fit(globs[at], parts[place]) and fit(at + 1, place + 1)
        )

    return fit(0, 0)


@given(st.text("ab*?/\n[", max_size=10), st.text("ab/\n[", max_size=10))
@example("", "")
@example("a*a", "a")
@example("*ab*b", "abab\n")
@example("a\n", "a")
@example("a*", "a\n")
@example("[ab]", "a")
@example("*?", "")
def test_a_name_glob_is_what_trying_every_way_finds(pattern: str, text: str) -> None:
    assert name_glob(pattern)(text) is letters_fit(pattern, text)


@given(PATTERNS, TEXTS)
@example("**", "")
@example("a/**", "a")
@example("a/**", "ab")
@example("a/**", "a\n")
@example("**/b", "b\n")
@example("**/**", "a/b")
@example("a/**/**/b", "a/b")
@example("a/**/b/**/c", "a/x/b/b/c")
@example("**/a/b/**/b", "a/a/b/b")
@example("**/a/b/**", "a/a/b")
@example("**/a*b/b*/**/a", "ab/a/ab/bb/a")
@example("*/**", "a")
@example("a*/**/?b", "aa/x/ab")
@example("a**b", "a/b")
@example("/**", "/a")
@example("**/", "a/")
def test_a_path_glob_is_what_trying_every_way_finds(pattern: str, text: str) -> None:
    assert path_glob(pattern)(text) is segments_fit(pattern, text)


@given(PATTERNS, TEXTS)
@example("a/*/b", "a/x/b")
@example("a/b", "a/b")
@example("*", "a")
def test_all_that_a_glob_means_lies_below_its_fixed_part(pattern: str, text: str) -> None:
    fixed = literal_prefix(pattern)

    assert pattern == fixed or pattern.startswith(f"{fixed}/" if fixed else "")
    assert is_glob(pattern) is (fixed != pattern)
    if path_glob(pattern)(text):
        assert f"{text}/".startswith(f"{fixed}/" if fixed else "")


@pytest.mark.parametrize(
    ("pattern", "fixed"),
    [
        ("file:src/**", "file:src"),
        ("file:src/a*/b", "file:src"),
        ("file:**/.env", ""),
        ("file:src/a.py", "file:src/a.py"),
        ("net:?", ""),
        ("", ""),
    ],
)
def test_the_fixed_part_ends_above_the_first_segment_with_a_star_or_a_question_mark(
    pattern: str, fixed: str
) -> None:
    assert literal_prefix(pattern) == fixed


LONG = 200_000


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("*a" * 50 + "*b", "a" * LONG),
        ("*a?" * 50 + "*b", "a" * LONG),
        ("*" * 5_000 + "b", "a" * LONG),
        ("?" * 200 + "*" + "?" * 200 + "b", "a" * LONG),
        ("*ab" * 50 + "c", "ab" * LONG),
        ("a*" * 500 + "b", "a" * LONG),
    ],
)
def test_a_nasty_name_glob_takes_time_that_grows_with_the_text(pattern: str, text: str) -> None:
    # Where the time were squared, or worse, this would not end before the clock of pytest.
    assert [name_glob(pattern)(text), path_glob(pattern)(text)] == [False, False]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("**/a/" * 50 + "**/b", "a/" * LONG),
        ("**/*a*/" * 30 + "b", "aa/" * LONG),
        ("**/*a/*a/*a/**/b", "aa/" * LONG),
        ("a/" * 3 + "**/" * 2_000 + "b", "a/" * LONG),
        ("**/a*a*a*a*b/**", "a" * LONG),
        ("**/a*a*a*a*b/**", ("a" * 400 + "/") * 500),
        ("**/a/a/a/a/b/**", "a/" * LONG),
        ("*/*/*/**/*b", "a/" * LONG + "a"),
        ("**/*a*a*a*b", "a" * LONG),
    ],
)
def test_a_nasty_path_glob_takes_time_that_grows_with_the_text(pattern: str, text: str) -> None:
    assert path_glob(pattern)(text) is False


@pytest.mark.parametrize("pattern", ["write file:*", "write file:*/**", "write file:?*/**"])
def test_a_star_never_stands_for_the_whole_workspace(pattern: str) -> None:
    assert parse_touch(pattern).covers(Access(WRITE, "file:.")) is False


@pytest.mark.parametrize(
    ("pattern", "access", "expected"),
    [
        ("write file:src/**", Access(WRITE, "file:src/a.py"), True),
        ("write file:src/**", Access(WRITE, "file:src"), True),
        ("write file:src/**", Access(READ, "file:src/a.py"), False),
        ("write file:src/**", Access(WRITE, "file:src/../a.py"), False),
        ("write file:src/**", Access(WRITE, "file:srcs/a.py"), False),
        ("write file:**", Access(WRITE, "file:."), True),
        ("write file:**", Access(WRITE, "file:../a.py"), False),
        ("write file:**", Access(WRITE, "file:/etc/passwd"), False),
        ("write file:/etc/**", Access(WRITE, "file:/etc/passwd"), True),
        ("write file:../**", Access(WRITE, "file:../a.py"), True),
        ("write file:../**", Access(WRITE, "file:a.py"), False),
        ("write file:/**", Access(WRITE, "file:a.py"), False),
        ("write net:*", Access(WRITE, "file:a.py"), False),
        ("write net:example.com/**", Access(WRITE, "net:example.com:443"), True),
        ("write *", Access(WRITE, "file:/etc/passwd"), True),
        ("write file:**", Access(WRITE, "*"), False),
        ("* db:**", Access(DESTROY, "db:orders/42"), True),
        ("read|destroy db:**", Access(WRITE, "db:orders/42"), False),
    ],
)
def test_an_allow_covers_only_what_is_certainly_meant(
    pattern: str,
    access: Access,
    expected: bool,  # noqa: FBT001
) -> None:
    assert parse_touch(pattern).covers(access) is expected
