"""Definitions: what a model sees of an operation, and what the application knows better."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from handrail import DESTROY, READ, WRITE, DefinitionError, Effect, Exposure, HandrailError
from handrail.openapi import tools
from openapi.service import Service, body, document, parameter


def schema_of(given: dict[str, Any]) -> dict[str, Any]:
    [made] = tools(given, Service().client)
    return dict(made.spec.input_schema)


def field(schema: Any, version: str = "3.1.0", **components: Any) -> Any:
    """The schema of one property of a body, as a model sees it."""
    whole = {"type": "object", "properties": {"f": schema}}
    given = document(
        method="post", requestBody=body(whole), version=version, components={"schemas": components}
    )
    return schema_of(given)["properties"]["f"]


PET = {
    "openapi": "3.0.3",
    "info": {"title": "Pets"},
    "servers": [{"url": "https://{region}.pets.test/{v}", "variables": {"region": {"default": "eu"}, "v": {"default": "v1"}}}],
    "paths": {
        "/pets/{petId}": {
            "parameters": [{"$ref": "#/components/parameters/PetId"}],
            "put": {
                "operationId": "updatePet",
                "summary": "Update a pet",
                "description": "Only your own pets can be changed.\n\nSee the guide.",
                "tags": ["pets"],
                "requestBody": {"$ref": "#/components/requestBodies/Pet"},
            },
        }
    },
    "components": {
        "parameters": {
            "PetId": {"name": "petId", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}}
        },
        "requestBodies": {
            "Pet": {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
        },
        "schemas": {
            "Named": {"type": "object", "properties": {"name": {"type": "string", "description": "Its name."}}, "required": ["name"]},
            "Pet": {
                "allOf": [
                    {"$ref": "#/components/schemas/Named"},
                    {
                        "type": "object",
                        "properties": {
                            "id": {"type": "integer", "readOnly": True},
                            "secret": {"type": "string", "writeOnly": True},
                            "tag": {"type": "string", "nullable": True, "enum": ["dog", "cat"]},
                        },
                        "required": ["id", "tag"],
                    },
                ]
            },
        },
    },
}  # fmt: skip


def test_an_operation_is_a_tool_with_flat_arguments() -> None:
    [made] = tools(PET, Service().client)

    assert made.spec.name == "update_pet"
    assert made.spec.description == (
        "Update a pet. Only your own pets can be changed. See the guide. (PUT /pets/{petId})"
    )
    assert made.spec.input_schema == {
        "type": "object",
        "properties": {
            "petId": {"type": "integer", "minimum": 1, "description": "Pet id."},
            "name": {"type": "string", "description": "Its name."},
            "secret": {"type": "string", "description": "Secret."},
            "tag": {
                "type": ["string", "null"],
                "enum": ["dog", "cat", None],
                "description": "Tag.",
            },
        },
        "required": ["petId", "name", "tag"],
        "additionalProperties": False,
    }
    assert (made.spec.effect, made.spec.idempotent) == (WRITE, True)
    assert made.spec.metadata == {"namespace": "Pets", "operation": "PUT /pets/{petId}"}
    assert made.headline is not None
    assert made.headline(petId=3) == "PUT https://eu.pets.test/v1/pets/3"
    assert made.origin == "Pets: PUT /pets/{petId}"


@pytest.mark.parametrize(
    ("method", "effect", "idempotent"),
    [
        ("get", READ, False),
        ("head", READ, False),
        ("post", WRITE, False),
        ("put", WRITE, True),
        ("patch", WRITE, False),
        ("options", WRITE, False),
        ("delete", DESTROY, True),
    ],
)
def test_effects_come_from_the_method(method: str, effect: Effect, *, idempotent: bool) -> None:
    [made] = tools(document(method=method), Service().client)

    assert (made.spec.effect, made.spec.idempotent) == (effect, idempotent)


def test_the_application_knows_better() -> None:
    given = document(method="post")
    options: dict[str, Any] = {"effects": {"call_*": READ, "*": DESTROY}, "idempotent": ["call_it"]}

    [made] = tools(given, Service().client, **options)

    assert (made.spec.effect, made.spec.idempotent) == (READ, True)
    for wrong in ({"effects": {"cal_it": READ}}, {"idempotent": ["x*"]}):
        with pytest.raises(DefinitionError, match="No operation makes a tool that matches"):
            tools(given, Service().client, **wrong)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("{", "is not JSON"),
        ("[]", "is not an object of JSON or YAML"),
        ({"swagger": "2.0"}, "is not OpenAPI 3.0 or 3.1"),
        ({"openapi": "3.2.0"}, "is not OpenAPI 3.0 or 3.1"),
        ({"openapi": "3.0.3", "paths": {"/a": {"get": {}}}}, "is not a complete URL"),
        (document(server="https://a.test/?x=1"), "has a query"),
        (document(server="https://user@a.test/"), "user name"),
    ],
)
def test_what_cannot_be_used_is_refused(wrong: Any, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        tools(wrong, Service().client)


def test_a_server_can_be_given_and_the_text_of_a_document_too() -> None:
    text = json.dumps(
        {"openapi": "3.1.0", "paths": {"/a": {"get": {}}, "b": {"get": {}}, "/c": {}}}
    )

    [made] = tools(text, Service().client, server="https://own.test")
    [own] = tools(
        {**document(), "servers": [None, {"url": 3}, {"url": "https://first.test"}]},
        Service().client,
    )

    assert made.headline is not None
    assert own.headline is not None
    assert (made.headline(), own.headline()) == (
        "GET https://own.test/a",
        "GET https://first.test/pets",
    )
    assert (made.spec.name, made.spec.description) == ("get_a", "(GET /a)")


def test_unknown_schemes_and_bad_headers_are_refused() -> None:
    with pytest.raises(DefinitionError, match=r"no security scheme 'key'. It has: none\."):
        tools(document(), Service().client, credentials={"key": "KEY"})
    with pytest.raises(DefinitionError, match="is not the name of a header"):
        tools(document(), Service().client, idempotency_header="a b")


def test_without_the_package_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("handrail.openapi._tools.find_spec", lambda _name: None)

    with pytest.raises(HandrailError, match=r"pip install 'handrail\[openapi\]'"):
        tools(document())


def test_names_are_verbs_and_objects_that_every_api_accepts() -> None:
    long = "x" * 70
    paths: Any = {
        "/": {"get": {}},
        "/pets": {"get": {"operationId": "get"}, "post": {"operationId": "findAndSave"}},
        "/pets/{id}": {"patch": {}, "put": {}, "delete": {"operationId": "2fa"}},
        "/a": {"get": {"operationId": "same"}},
        "/b": {"get": {"operationId": "same"}},
        f"/{long}": {"get": {"operationId": f"get{long}"}},
        "/é": {"get": {"operationId": "日本"}},
    }  # fmt: skip

    made = tools({"openapi": "3.1.0", "paths": paths}, Service().client, server="https://a.test")

    assert [tool.spec.name for tool in made] == [
        "find_with_save",
        "get",
        "get_pets",
        "get_root",
        f"get_{'x' * 51}_f3d30ff7",
        "n_2_fa",
        "replace_pets_by_id",
        "same",
        "same_2",
        "update_pets_by_id",
    ]


def test_descriptions_are_short_visible_and_not_said_twice() -> None:
    long = "One sentence about pets that goes on. " * 30
    [made] = tools(
        document(summary="Find pets", description="Find pets\u202e by tag."), Service().client
    )
    [cut] = tools(document(description=long, deprecated=True), Service().client)
    [word] = tools(document(description="y" * 700), Service().client)

    assert made.spec.description == "Find pets\\u{202e} by tag. (GET /pets)"
    assert cut.spec.description.endswith("goes on. Deprecated. (GET /pets)")
    assert len(cut.spec.description) < 650
    assert word.spec.description == "y" * 300 + " ... (GET /pets)"


@pytest.mark.parametrize(
    ("schema", "version", "seen"),
    [
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, "3.0.0", {"type": "integer", "exclusiveMinimum": 1}),
        ({"type": "integer", "maximum": 1, "exclusiveMaximum": False}, "3.0.0", {"type": "integer", "maximum": 1}),
        ({"type": "number", "exclusiveMinimum": 1}, "3.1.0", {"type": "number", "exclusiveMinimum": 1}),
        ({"type": ["string", "null"], "title": "T", "xml": {}}, "3.1.0", {"type": ["string", "null"]}),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "3.1.0", {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"type": "array", "items": {"type": "string"}}, "3.1.0", {"type": "array", "items": {"type": "string"}}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "3.1.0", {"type": "object", "additionalProperties": {"type": "integer"}}),
        ({"properties": {"a": {}}, "required": ["a", "b", 3]}, "3.1.0", {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": True}),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, "3.1.0", {"type": "object", "properties": {"a": {}}, "additionalProperties": False}),
        ({"allOf": [{"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 4}]}, "3.1.0", {"type": "string"}),
        ({"allOf": [{"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}, {"properties": {"a": {"maxLength": 2}}, "required": ["b"]}]}, "3.1.0",
         {"type": "object", "properties": {"a": {"type": "string", "maxLength": 2}, "b": {}}, "required": ["a", "b"], "additionalProperties": True}),
        ({"allOf": [{"properties": 3}, {"properties": 4}, {"required": 1}, {"required": ["x"]}]}, "3.1.0", {}),
        ({"$ref": "#/components/schemas/Missing"}, "3.1.0", {}),
        ({"$ref": "https://elsewhere.test/schema.json"}, "3.1.0", {}),
        ({"$ref": "#/components/schemas/Loop"}, "3.1.0", {}),
        ({"$ref": "#/components/schemas/Own"}, "3.1.0", {}),
        (True, "3.1.0", {}),
    ],
    ids=range(17),
)  # fmt: skip
def test_a_schema_becomes_plain_json_schema(schema: Any, version: str, seen: Any) -> None:
    loop = {"$ref": "#/components/schemas/Loop"}
    own = {"allOf": [{"$ref": "#/components/schemas/Own"}]}

    assert field(schema, version, Loop=loop, Own=own) == {**seen, "description": "F."}


def test_deep_and_large_schemas_say_less_and_never_more_than_fits() -> None:
    deep: Any = {"type": "string"}
    for _ in range(9):
        deep = {"type": "object", "properties": {"inner": deep}}
    wide = {
        "type": "object",
        "properties": {f"field_{number}": {"type": "string", "description": "Long words. " * 9} for number in range(20)},
    }  # fmt: skip
    tree = {"type": "object", "properties": {f"p{number}": {"$ref": "#/components/schemas/Tree"} for number in range(9)}}  # fmt: skip

    shown = json.dumps(field(deep))
    summary = field({"type": "array", "items": wide, "description": "Rows."}, W=wide)
    nested = field({"$ref": "#/components/schemas/Tree"}, Tree=tree)

    assert shown.count('"inner"') == 4
    assert "Fields: inner." in shown
    assert len(json.dumps(summary)) < 4_000
    assert "Fields: p0, p1" in json.dumps(nested)
    assert len(json.dumps(nested)) < 4_000
    assert "field_11, ..." in json.dumps(field({"allOf": [{"type": "object", "properties": {"x": {"type": "object", "properties": {"y": {"type": "object", "properties": {"z": {"type": "object", "properties": {"w": wide}}}}}}}}]}))  # fmt: skip


def test_what_the_document_gets_wrong_is_left_out() -> None:
    given = document(
        "/a/{id}/{rest}",
        parameters=[
            parameter("id", "path"),
            parameter("id", "path", {"type": "integer"}),
            parameter("gone", "path"),
            {"name": "", "in": "query"},
            {"name": "x", "in": "body"},
            "nonsense",
        ],
        requestBody={"content": {}},
    )

    assert schema_of(given)["properties"] == {
        "id": {"type": "integer", "description": "Id."},
        "rest": {"type": "string", "description": "Rest."},
    }


def test_many_tools_are_deferred() -> None:
    paths = {f"/pets_{number}": {"get": {"summary": "Words " * 40}} for number in range(200)}
    given = {"openapi": "3.1.0", "paths": paths}

    many = tools(given, Service().client, server="https://a.test")
    few = tools(given, Service().client, server="https://a.test", defer_over=10**6)

    assert {tool.spec.exposure for tool in many} == {Exposure.DEFERRED}
    assert {tool.spec.exposure for tool in few} == {Exposure.DIRECT}


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("https://api.example.org", []),
        ("https://api.example.org:8000", ["port 8000 is not allowed, only 80 and 443"]),
        (
            "http://127.0.0.1",
            ["'127.0.0.1' is not on the public internet, and only public hosts are allowed"],
        ),
    ],
)
def test_a_server_that_the_default_client_refuses_is_logged_once(
    server: str, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    operations = {"get": {"responses": {}}, "post": {"responses": {}}}
    document = {"openapi": "3.1.0", "info": {}, "paths": {"/a": operations}}
    made = tools(document, server=server)
    tools(document, httpx2.AsyncClient(), server=server)

    url = httpx2.URL(server)
    port = url.port or {"http": 80, "https": 443}[url.scheme]
    advice = "pass your own client, as in `tools(document, httpx2.AsyncClient())`"
    assert caplog.messages == [f"{url.host}:{port}: {one}; {advice}" for one in told]
    assert len(made) == 2
