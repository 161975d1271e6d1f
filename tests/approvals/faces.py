"""Requests that differ in one text: no place that shows them may make them look the same."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import assume
from hypothesis import strategies as st

from approvals.display_vectors import is_raw
from approvals.questions import asked
from handrail.permissions import FileChange, Pending

Face = Callable[[Pending], str]
TEXTS = st.text("ab/\\u{20}[…]  \t\n\r\x0b\u2028\u202e\u200b\x1b\u0430é<&\"'`", max_size=16)
PARTS: dict[str, Callable[[str], Pending]] = {
    "argument": lambda text: asked({"value": text}),
    "argument in a list": lambda text: asked({"value": [text]}),
    "name of an argument": lambda text: asked({text: 1}),
    "command": lambda text: asked({"command": text}),
    "tool": lambda text: asked({}, name=text),
    "question": lambda text: asked({}, question=f"Write {text}"),
    "headline": lambda text: asked({}, headline=f"Write {text}"),
    "note": lambda text: asked({}, changes=(text,)),
    "path": lambda text: asked({}, changes=(FileChange(text, "a", "b"),)),
    "new file": lambda text: changed("a", None, f"{text}\n"),
    "changed file": lambda text: changed("a", "old\n", text),
    "deleted file": lambda text: changed("a", f"{text}\n", None),
}


def changed(path: str, before: str | None, after: str | None) -> Pending:
    return asked({"path": path, "text": after}, changes=(FileChange(path, before, after),))


def looks_alike(face: Face, part: str, one: str, other: str) -> bool:
    return face(PARTS[part](one)) == face(PARTS[part](other))


def check_face(face: Face, part: str, one: str, other: str) -> None:
    """Nothing is left out, and nothing is left for a screen to obey."""
    assume(one != other)
    look = face(PARTS[part](one))
    assert look != face(PARTS[part](other))
    assert [sign for sign in look if is_raw(sign) and sign != "\u00a0"] == []
