"""What a call touches: one spelling per resource, containment, conflict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import DESTROY, READ, WRITE, Access, Effect, reads_file, tool, writes_file

SPELLINGS = {
    "*": "*",
    "file:": "file:",
    "file:.": "file:",
    "file:src/a.py": "file:src/a.py",
    "file:./src//a.py": "file:src/a.py",
    "file:src/../a.py": "file:a.py",
    "file:src/b/../../a.py": "file:a.py",
    "file:../a.py": "file:../a.py",
    "file:../../a.py": "file:../../a.py",
    "file:src/../../a.py": "file:../a.py",
    "file:/etc/../etc/passwd": "file:/etc/passwd",
    "file:/../etc": "file:/etc",
    "file:/": "file:/",
    "net:example.org:443": "net:example.org/443",
    "net:example.org": "net:example.org",
    "net:[::1]:80": "net:[::1]/80",
    "exec:git": "exec:git",
    "db:orders/42": "db:orders/42",
    "mcp:server/tool": "mcp:server/tool",
}


@pytest.mark.parametrize(("spelled", "normal"), SPELLINGS.items())
def test_a_resource_has_one_spelling(spelled: str, normal: str) -> None:
    assert Access(READ, spelled).resource == normal
    assert Access(READ, normal).resource == normal


@pytest.mark.parametrize("wrong", ["", "src/a.py", "File:a", "1:a", None, 7, ["file:a"], WRITE])
def test_what_is_not_a_resource_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="is not a resource") as refused:
        Access(READ, wrong)

    assert str(refused.value) == (
        f"{wrong!r} is not a resource: write 'scheme:path', or '*' for everything"
    )


@pytest.mark.parametrize(
    ("verb", "effect"), [("read", READ), ("write", WRITE), ("destroy", DESTROY)]
)
def test_a_verb_may_be_written_as_a_word(verb: Any, effect: Effect) -> None:
    access = Access(verb, "order:o1")

    assert access == Access(effect, "order:o1")
    assert (type(access.verb), repr(access)) == (
        Effect,
        f"Access(verb={effect!r}, resource='order:o1')",
    )
    assert replace(access, resource="order:o2") == Access(effect, "order:o2")


@pytest.mark.parametrize("wrong", ["READ", "delete", "", 1, None, ["read"], "order:o1"])
def test_what_is_not_a_verb_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="is not a verb") as refused:
        Access(wrong, "order:o1")

    assert str(refused.value) == f"{wrong!r} is not a verb: write 'read', 'write' or 'destroy'"


CONFLICTS = [
    (WRITE, "file:src", WRITE, "file:src/a.py", True),
    (READ, "file:src", WRITE, "file:src/a.py", True),
    (READ, "file:src/a.py", DESTROY, "file:src", True),
    (READ, "file:src", READ, "file:src/a.py", False),
    (WRITE, "file:src/a.py", WRITE, "file:src/a.pyc", False),
    (WRITE, "file:src", WRITE, "file:srcs", False),
    (WRITE, "*", READ, "db:orders", True),
    (READ, "*", READ, "*", False),
    (WRITE, "file:", READ, "file:deep/down", True),
    (WRITE, "file:/", READ, "file:/etc", True),
    (WRITE, "net:example.org", READ, "net:example.org:443", True),
    (WRITE, "file:a", WRITE, "db:a", False),
    (WRITE, "file:..", READ, "file:a", True),
    (WRITE, "file:../..", WRITE, "file:../b", True),
    (WRITE, "file:../here/a", READ, "file:a", True),
    (WRITE, "file:/here/a", READ, "file:a", True),
    (WRITE, "file:../a", READ, "file:../b", True),
    (WRITE, "file:/a", READ, "file:/b", True),
    (WRITE, "db:a", READ, "db:b", False),
]


@pytest.mark.parametrize(("verb", "resource", "other_verb", "other", "expected"), CONFLICTS)
def test_accesses_conflict_where_they_meet_and_one_is_no_read(
    verb: Effect, resource: str, other_verb: Effect, other: str, *, expected: bool
) -> None:
    one, two = Access(verb, resource), Access(other_verb, other)

    assert (one.conflicts(two), two.conflicts(one)) == (expected, expected)


segments = st.lists(st.sampled_from(["a", "b", ".", "..", "", "c.py"]), max_size=6)


@given(segments, st.sampled_from(["", "/"]))
def test_normal_form_is_stable_and_keeps_only_leading_climbs(parts: list[str], root: str) -> None:
    access = Access(READ, "file:" + root + "/".join(parts))
    left = access.resource.removeprefix("file:").removeprefix("/").split("/")

    assert Access(READ, access.resource) == access
    assert "." not in left
    assert ".." not in left[left.count("..") :]


def test_an_access_reads_as_people_say_it() -> None:
    assert [str(reads_file("src/a.py")), str(writes_file("src"))] == [
        "read file:src/a.py",
        "write file:src",
    ]


def test_a_tool_says_what_a_call_will_touch() -> None:
    @tool(effect=WRITE, touches=lambda source, target: [reads_file(source), writes_file(target)])
    def copy(source: str, target: str) -> None:
        """Copy a file."""

    @tool(effect=READ, touches=lambda path, **_: reads_file(path))
    def show(path: str, lines: int = 10) -> str:
        """Show a file."""
        return path * lines

    @tool(effect=DESTROY)
    def wipe() -> None:
        """Erase everything."""

    def touched(one: object, args: str) -> tuple[Access, ...]:
        return one.accesses(one.parse(args))  # type: ignore[attr-defined, no-any-return]

    assert touched(copy, '{"source": "a", "target": "b"}') == (reads_file("a"), writes_file("b"))
    assert touched(show, '{"path": "a"}') == (reads_file("a"),)
    assert touched(wipe, "{}") == (Access(DESTROY, "*"),)


class Shelf:
    def __init__(self, folder: str) -> None:
        self.folder = folder

    @tool(effect=WRITE, touches=lambda self, name, **_: writes_file(f"{self.folder}/{name}"))
    def put(self, name: str, text: str = "") -> None:
        """Put a text on the shelf."""

    @tool(effect=READ, touches=lambda name, part: reads_file(f"{name}/{part}"))
    def look(self, name: str, part: str = "all") -> None:
        """Look at a text."""


def test_what_a_method_touches_may_depend_on_its_object_and_on_defaults() -> None:
    shelf = Shelf("upper")
    parsed = shelf.put.parse({"name": "a"})

    assert shelf.put.accesses(parsed) == (writes_file("upper/a"),)  # type: ignore[arg-type]
    assert shelf.look.accesses(parsed) == (reads_file("a/all"),)  # type: ignore[arg-type]
