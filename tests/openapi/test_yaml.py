"""Documents in YAML: read as JSON values, without surprises."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from handrail import DefinitionError
from handrail.openapi import tools
from openapi.service import Service

YAML = """
# A comment.
openapi: 3.1.0
info: {title: Pets, version: 2026-01-01}
servers:
  - url: https://pets.example/v1
paths:
  /pets/{id}:
    get:
      operationId: get_pet
      summary: >
        Return
        one pet.
      parameters:
        - name: id
          in: path
          required: true
          schema: {type: integer, minimum: 0, maximum: 1e3}
        - name: country
          in: query
          schema: {type: string, enum: [no, yes, on, "1", 2026-01-01, 1_000, 0x10], default: no}
        - name: weight
          in: query
          schema: {type: [number, "null"], default: ~}
        - name: huge
          in: query
          schema: {type: number, maximum: 1e999}
      responses:
        200: {description: ok}
        default: {description: "true"}
"""


def test_a_document_in_yaml_means_the_same_as_in_json() -> None:
    service = Service()
    [made] = tools(YAML, service.client)
    [same] = tools(YAML.encode(), service.client)
    fields: Any = made.spec.input_schema["properties"]

    assert made.spec == same.spec
    assert made.spec.name == "get_pet"
    assert "Return one pet." in made.spec.description
    assert made.spec.input_schema["required"] == ["id"]
    assert (fields["id"]["maximum"], type(fields["id"]["minimum"])) == (1000.0, int)
    assert fields["country"]["enum"] == ["no", "yes", "on", "1", "2026-01-01", "1_000", "0x10"]
    json.dumps(made.spec.input_schema, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "neither JSON nor YAML"),
        ("a: &x [1]\nb: *x\n", "repeats a part by an alias, in line 1"),
        ("a: &x\n  b: *x\n", "repeats a part by an alias"),
        ("- 1\n- 2\n", "not an object of JSON or YAML"),
        ("", "not an object of JSON or YAML"),
        ("[" * 100_000, "is not JSON"),
        (
            "a:\n" + "".join(" " * depth + "-\n" for depth in range(1, 3_000)),
            "neither JSON nor YAML",
        ),
        ("a: \x00", "neither JSON nor YAML"),
        ("one: 1\n---\ntwo: 2\n", "neither JSON nor YAML"),
    ],
    ids=["open", "alias", "loop", "list", "nothing", "deep JSON", "deep YAML", "null", "two"],
)
def test_a_document_that_cannot_be_read_says_why(text: str, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        tools(text)


def test_without_pyyaml_a_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "handrail.openapi._yaml", raising=False)
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(DefinitionError, match=r"handrail\[openapi\]"):
        tools(YAML)
