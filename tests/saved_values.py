"""Strategies for values that are written as JSON and read back."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from handrail import Access, Call, Effect, Failure, FailureKind, File, Image, Result, Text
from handrail.permissions import (
    CommandPart,
    FileChange,
    Grade,
    Origin,
    Pending,
    PendingKind,
    Undoable,
)
from handrail.sources import OwnValue, ValueSource

TEXTS = st.text(max_size=8)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=2)
RESOURCES = st.sampled_from(["*", "file:a", "net:b/80", "order:o1"])
CHANGES = st.builds(FileChange, TEXTS, st.none() | TEXTS, st.none() | TEXTS, st.integers(1))
SOME_TEXTS = st.none() | st.lists(TEXTS, max_size=2).map(tuple)
KEPT = st.builds(Undoable, st.lists(TEXTS, max_size=2).map(tuple), TEXTS)


def _make_pending(question: str, kind: PendingKind, **fields: Any) -> Pending:
    return Pending(question=question, kind=kind if question else "waiting", **fields)


PENDING = st.builds(
    _make_pending,
    kind=st.sampled_from(["approval", "login"]),
    run_id=TEXTS,
    turn_id=TEXTS,
    key=TEXTS,
    position=st.integers(0),
    round=st.integers(0, 1_000),
    call=st.builds(Call, TEXTS, TEXTS | OBJECTS, TEXTS),
    effect=st.sampled_from(Effect),
    accesses=st.lists(st.builds(Access, st.sampled_from(Effect), RESOURCES), max_size=2).map(tuple),
    question=TEXTS,
    fingerprint=TEXTS,
    asked_at=NUMBERS,
    expires_at=NUMBERS | st.just(math.inf),
    origin=st.none() | st.builds(Origin, TEXTS, TEXTS, st.integers()),
    once=st.booleans(),
    after=st.lists(TEXTS, max_size=2).map(tuple),
    headline=TEXTS,
    changes=st.lists(TEXTS | CHANGES | KEPT, max_size=2).map(tuple),
    grade=st.sampled_from(Grade),
    parts=st.lists(
        st.builds(CommandPart, st.integers(0), st.integers(0), st.sampled_from(Grade), SOME_TEXTS),
        max_size=2,
    ).map(tuple),
    notes=st.lists(TEXTS, max_size=2).map(tuple),
    approves=st.booleans(),
    sources=st.lists(
        st.builds(
            ValueSource, value=TEXTS, name=TEXTS, kind=st.sampled_from(["own", "read"]), quote=TEXTS
        ),
        max_size=2,
    ).map(tuple),
)
BYTES = st.binary(max_size=8)
CONTENT = st.one_of(
    st.builds(Text, TEXTS), st.builds(Image, BYTES, TEXTS), st.builds(File, BYTES, TEXTS, TEXTS)
)
RESULTS = st.builds(
    Result,
    TEXTS,
    TEXTS,
    st.lists(CONTENT, max_size=2).map(tuple),
    st.none() | TEXTS,
    st.none() | st.builds(Failure, st.sampled_from(FailureKind), TEXTS, TEXTS),
    st.none() | PENDING,
    OBJECTS,
    st.lists(TEXTS, max_size=2).map(tuple),
    st.lists(st.builds(OwnValue, TEXTS, TEXTS, TEXTS, st.booleans()), max_size=2).map(tuple),
    st.none() | NUMBERS,
)
