"""A document of any shape is read in bounded work, or refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail import DefinitionError
from handrail.openapi import _definition, _document, _operations, _schemas, _serialize, tools
from handrail.openapi._document import Document, get_list

NAMES = [f"D{at}" for at in range(24)]
MAX_CALLS_EACH = 150
"""Calls of functions for each character of a document, or for each operation."""


def document(schemas: Mapping[str, Any], operations: int = 1) -> dict[str, Any]:
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/D0"}}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shop"},
        "servers": [{"url": "https://shop.example.com"}],
        "paths": {
            f"/p{at}": {"post": {"operationId": f"make{at}", "requestBody": body}}
            for at in range(operations)
        },
        "components": {"schemas": dict(schemas)},
    }


def refer(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def nested(keyword: str, levels: int) -> dict[str, Any]:
    """Each schema is made of the next one, twice."""
    made: dict[str, Any] = {
        f"D{at}": {keyword: [refer(f"D{at + 1}"), refer(f"D{at + 1}")]} for at in range(levels)
    }
    return {**made, f"D{levels}": {"type": "object", "properties": {"a": {"type": "string"}}}}


def count_calls(work: Callable[[], object], most: int) -> int:
    """How many functions are called; it ends when there are too many."""
    count = 0

    class Enough(Exception):
        pass

    def see(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"
        if count > most:
            raise Enough

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        work()
    except Enough:
        pass
    finally:
        sys.setprofile(before)
    return count


def is_bounded(given_document: dict[str, Any], operations: int = 1) -> bool:
    most = MAX_CALLS_EACH * (len(json.dumps(given_document)) + 500 * operations)
    return count_calls(lambda: tools(given_document), most) <= most


parts = st.sampled_from([refer(name) for name in NAMES]) | st.just(
    {"type": "object", "properties": {"a": {"type": "string"}, "b": refer("D3")}}
)
schema = st.one_of(
    st.fixed_dictionaries({keyword: st.lists(parts, min_size=1, max_size=4)})
    for keyword in ("allOf", "anyOf", "oneOf")
) | st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("abc"), parts)}
)


@settings(max_examples=40)
@given(st.fixed_dictionaries(dict.fromkeys(NAMES, schema)))
def test_a_document_of_any_shape_is_read_in_bounded_work(schemas: dict[str, Any]) -> None:
    assert is_bounded(document(schemas))


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("levels", [14, 200])
def test_nested_schemas_are_read_in_bounded_work(keyword: str, levels: int) -> None:
    assert is_bounded(document(nested(keyword, levels)))


def test_the_parts_of_all_levels_are_merged() -> None:
    (made,) = tools(document(nested("allOf", 30)))

    assert made.spec.input_schema["properties"] == {
        "body": {
            "type": "object",
            "description": "The body of the request.",
            "properties": {"a": {"type": "string"}},
            "additionalProperties": True,
        }
    }


def test_a_document_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = {f"p{at}": refer("D1") for at in range(200)}
    schemas = {**nested("allOf", 100), "D0": {"type": "object", "properties": wide}}
    monkeypatch.setattr(_document, "_MAX_OBJECTS", 50_000)

    with pytest.raises(DefinitionError) as refusal:
        tools(document(schemas))

    assert str(refusal.value) == (
        "The document takes too long to read: its schemas refer to one another too often. "
        "Pass a document with fewer operations."
    )


def test_without_the_limit_the_count_is_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    def merge(read: Document, value: object, within: frozenset[int] = frozenset()) -> Any:
        node = read.resolve(value)
        inside = within | {id(node)}
        found = {} if id(node) in within else dict(node)
        for part in get_list(found, "allOf"):
            found = {**found, **merge(read, part, inside)}
        return found

    for module in (_schemas, _operations, _definition, _serialize):
        monkeypatch.setattr(module, "merge", merge)

    assert not is_bounded(document(nested("allOf", 24)))
