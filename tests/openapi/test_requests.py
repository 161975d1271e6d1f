"""Requests: what an operation says is what is sent, as another program reads it."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from email import message_from_bytes
from typing import Any
from urllib.parse import parse_qsl, unquote

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Call, Executor, FailureKind, ToolFailed
from handrail.openapi import tools
from openapi.service import Service, body, call, document, parameter, sent
from unframed import UNFRAMED

pytestmark = pytest.mark.anyio
LISTS = {"type": "array", "items": {"type": "string"}}
OBJECTS = {"type": "object", "additionalProperties": {"type": "string"}}
VALUES: dict[str, Any] = {"one": "a b", "list": ["a", "b/c"], "object": {"k": "v", "l": "w,x"}}
SCHEMAS: dict[str, Any] = {"one": {"type": "string"}, "list": LISTS, "object": OBJECTS}


@pytest.mark.parametrize(
    ("style", "explode", "written"),
    [
        ("simple", False, ["a%20b", "a,b%2Fc", "k,v,l,w%2Cx"]),
        ("simple", True, ["a%20b", "a,b%2Fc", "k=v,l=w%2Cx"]),
        ("label", False, [".a%20b", ".a,b%2Fc", ".k,v,l,w%2Cx"]),
        ("label", True, [".a%20b", ".a.b%2Fc", ".k=v.l=w%2Cx"]),
        ("matrix", False, [";p=a%20b", ";p=a,b%2Fc", ";p=k,v,l,w%2Cx"]),
        ("matrix", True, [";p=a%20b", ";p=a;p=b%2Fc", ";k=v;l=w%2Cx"]),
    ],
)
async def test_a_path_has_values_in_each_style(
    style: str, written: list[str], *, explode: bool
) -> None:
    got = [
        await sent(
            document(
                "/at/{p}",
                parameters=[parameter("p", "path", SCHEMAS[kind], style=style, explode=explode)],
            ),
            {"p": VALUES[kind]},
        )
        for kind in VALUES
    ]

    assert [one.target for one in got] == [f"/v1/at/{text}" for text in written]


@pytest.mark.parametrize(
    ("style", "explode", "written"),
    [
        ("form", True, ["p=a%20b", "p=a&p=b%2Fc", "k=v&l=w%2Cx"]),
        ("form", False, ["p=a%20b", "p=a,b%2Fc", "p=k,v,l,w%2Cx"]),
        ("spaceDelimited", False, ["p=a%20b", "p=a%20b%2Fc", "p=k%20v%20l%20w%2Cx"]),
        ("pipeDelimited", False, ["p=a%20b", "p=a%7Cb%2Fc", "p=k%7Cv%7Cl%7Cw%2Cx"]),
        ("deepObject", True, ["p=a%20b", "p=a&p=b%2Fc", "p%5Bk%5D=v&p%5Bl%5D=w%2Cx"]),
        ("unknown", True, ["p=a%20b", "p=a&p=b%2Fc", "k=v&l=w%2Cx"]),
    ],
)
async def test_a_query_has_values_in_each_style(
    style: str, written: list[str], *, explode: bool
) -> None:
    got = [
        await sent(
            document(
                parameters=[parameter("p", "query", SCHEMAS[kind], style=style, explode=explode)]
            ),
            {"p": VALUES[kind]},
        )
        for kind in VALUES
    ]

    assert [one.target for one in got] == [f"/v1/pets?{text}" for text in written]


async def test_headers_cookies_and_json_in_a_query() -> None:
    given = document(
        parameters=[
            parameter("X-Trace", "header", LISTS),
            parameter("X-Map", "header", OBJECTS, explode=True),
            parameter("flavor", "cookie"),
            parameter("n", "cookie", {"type": "integer"}),
            {"name": "q", "in": "query", "content": {"application/json": {"schema": OBJECTS}}},
            {"name": "r", "in": "header", "content": {"application/json": None}},
            parameter("yes", "query", {"type": "boolean"}),
            parameter("omitted", "query"),
        ]
    )

    got = await sent(
        given,
        {
            "X-Trace": ["a", "b"],
            "X-Map": {"k": "v"},
            "flavor": "a;b",
            "n": 3,
            "q": {"k": "v"},
            "r": [1],
            "yes": True,
        },
    )

    assert got.target == "/v1/pets?q=%7B%22k%22%3A%22v%22%7D&yes=true"
    wanted = ("x-trace", "x-map", "cookie", "r")
    assert [got.headers[name] for name in wanted] == ["a,b", "k=v", "flavor=a%3Bb; n=3", "[1]"]


async def test_bodies_in_each_format() -> None:
    pet = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "tags": LISTS, "more": OBJECTS},
        "required": ["name"],
    }
    args = {"name": "Ü & co", "tags": ["a", "b"], "more": {"k": "v"}}

    as_json = await sent(document(method="post", requestBody=body(pet)), args)
    form = await sent(
        document(method="post", requestBody=body(pet, "application/x-www-form-urlencoded")), args
    )
    text = await sent(
        document(method="post", requestBody=body({"type": "string"}, "text/csv")), {"body": "a,b"}
    )
    raw = await sent(
        document(method="put", requestBody=body({}, "image/png")),
        {"body": b64encode(b"\x89PNG").decode()},
    )
    patch = await sent(
        document(method="patch", requestBody=body(LISTS, "application/json-patch+json")),
        {"body": ["a"]},
    )

    assert json.loads(as_json.body) == args
    assert parse_qsl(form.body.decode()) == [
        ("name", "Ü & co"),
        ("tags", "a"),
        ("tags", "b"),
        ("more", '{"k":"v"}'),
    ]
    assert (text.body, raw.body, patch.body) == (b"a,b", b"\x89PNG", b'["a"]')
    assert [one.headers["content-type"] for one in (as_json, form, text, raw, patch)] == [
        "application/json",
        "application/x-www-form-urlencoded",
        "text/csv",
        "image/png",
        "application/json-patch+json",
    ]


def parts(headers: Any, content: bytes) -> list[tuple[str, str | None, str, bytes]]:
    """A multipart body, as the standard library's reader of mail sees it."""
    kind = f"Content-Type: {headers['content-type']}\r\n\r\n".encode()
    read: Any = message_from_bytes(kind + content)
    return [
        (
            part.get_param("name", header="content-disposition"),
            part.get_filename(),
            part.get_content_type(),
            part.get_payload(decode=True),
        )
        for part in read.get_payload()
    ]


async def test_a_multipart_form_has_files_objects_and_text() -> None:
    form = {
        "type": "object",
        "properties": {
            "photo": {"type": "string", "format": "binary", "description": "A photo."},
            "more": {"type": "array", "items": {"type": "string", "contentMediaType": "image/png"}},
            "about": OBJECTS,
            'na"me': {"type": "string"},
        },
    }
    given = document(
        method="post",
        requestBody={
            "content": {
                "multipart/form-data": {
                    "schema": form,
                    "encoding": {
                        "photo": {"contentType": "image/jpeg, image/png"},
                        "about": {"contentType": "image/*"},
                    },
                }
            }
        },
    )
    photo, other = b64encode(b"\xff\xd8\r\n").decode(), b64encode(b"1").decode()

    got = await sent(
        given, {"photo": photo, "more": [other, other], "about": {"k": "v"}, 'na"me': "x"}
    )
    wrong = await call(tools(given, Service().client), {"photo": "?"})

    assert parts(got.headers, got.body) == [
        ("photo", "photo", "image/jpeg", b"\xff\xd8\r\n"),
        ("more", "more", "application/octet-stream", b"1"),
        ("more", "more", "application/octet-stream", b"1"),
        ("about", None, "application/json", b'{"k":"v"}'),
        ("na%22me", None, "text/plain", b"x"),
    ]
    assert wrong.text == "Not sent: 'photo' is not base64. Encode the content."


async def test_a_form_of_any_fields_is_one_argument() -> None:
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        given = document(method="post", requestBody=body(OBJECTS, kind))
        got = await sent(given, {"body": {"a": "1", "b": "2"}})
        read = (
            parse_qsl(got.body.decode())
            if "urlencoded" in kind
            else [(name, text.decode()) for name, _, _, text in parts(got.headers, got.body)]
        )
        assert read == [("a", "1"), ("b", "2")]


async def test_an_optional_body_may_be_left_out() -> None:
    pet = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    given = document(method="post", requestBody={"content": {"*/*": {"schema": pet}}})

    without, with_it = await sent(given, {}), await sent(given, {"body": {"name": "x"}})

    assert (without.body, with_it.body) == (b"", b'{"name":"x"}')
    assert with_it.headers["content-type"] == "application/json"
    [made] = tools(given, Service().client)
    assert made.spec.input_schema["required"] == []


async def test_a_form_that_is_no_object_is_sent_as_json() -> None:
    given = document(method="post", requestBody=body(LISTS, "application/x-www-form-urlencoded"))

    got = await sent(given, {"body": ["a"]})

    assert (got.headers["content-type"], got.body) == ("application/json", b'["a"]')


async def test_parameters_that_share_a_name_are_all_sent() -> None:
    given = document(
        "/pets/{id}",
        "put",
        parameters=[
            parameter("id", "query"),
            parameter("id", "header"),
            parameter("id", "path", required=True),
            parameter("id_query", "cookie"),
        ],
        requestBody=body({"type": "object", "properties": {"id": {"type": "string"}}}),
    )
    [made] = tools(given, Service().client)

    got = await sent(
        given, {"id": "1", "id_query_": "2", "id_header": "3", "id_query": "4", "id_body": "5"}
    )

    assert list(made.spec.input_schema["properties"]) == [
        "id_query_",
        "id_header",
        "id",
        "id_query",
        "id_body",
    ]
    assert (got.target, got.headers["id"]) == ("/v1/pets/1?id=2", "3")
    assert (got.headers["cookie"], got.body) == ("id_query=4", b'{"id":"5"}')


async def test_an_argument_that_a_header_or_utf8_cannot_have_is_refused() -> None:
    in_header = document(parameters=[parameter("X", "header")])
    service = Service()
    made = tools(in_header, service.client)

    for text in ("a\r\nHost: evil.test", "é", " a"):
        result = await call(made, {"X": text})
        assert result.failure is not None
        assert result.failure.kind is FailureKind.FAILED
    odd = tools(document(parameters=[parameter("q", "query")]), service.client)["call_it"]
    with pytest.raises(ToolFailed, match="not valid Unicode"):
        await odd.fn({"q": "\ud800"}, None)
    foreign = await call(tools(document("/é"), service.client), {})
    assert foreign.text == "Not sent: GET /é has a path that is not a URL's."
    assert service.received == []
    assert (await sent(in_header, {"X": "a b"})).headers["x"] == "a b"


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6)
SAFE = WORDS.filter(lambda text: text.strip(".") != "" and not re.search(r"[./\\;%]", text))
SCALARS: dict[str, Any] = {
    "string": WORDS,
    "integer": st.integers(-(2**53), 2**53),
    "boolean": st.booleans(),
}


@st.composite
def operations(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A document with parameters in all places, and arguments for it."""
    listed, args = [], {}
    path = "/v"
    for number, place in enumerate(
        draw(st.lists(st.sampled_from(["path", "query", "header", "cookie"]), max_size=6))
    ):
        name = f"p{number}"
        kind = draw(st.sampled_from(["string"] if place in ("path", "header") else list(SCALARS)))
        many = place == "query" and draw(st.booleans())
        values = SAFE if place == "path" else SCALARS[kind]
        if place == "header":
            values = st.text("abc-XYZ 019", max_size=6).map(str.strip)
        schema: Any = {"type": kind}
        listed.append(
            parameter(name, place, {"type": "array", "items": schema} if many else schema)
        )
        args[name] = draw(st.lists(values, min_size=1, max_size=3) if many else values)
        path += f"/{{{name}}}" if place == "path" else ""
    operation: dict[str, Any] = {"parameters": listed}
    fields = draw(st.dictionaries(st.text("fgh", min_size=1, max_size=3), WORDS, max_size=3))
    kind = draw(
        st.sampled_from(
            ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"]
        )
    )
    if fields:
        properties = {name: {"type": "string"} for name in fields}
        operation["requestBody"] = body({"type": "object", "properties": properties}, kind)
    return document(path, "post", **operation), {**args, **fields}


def decode(given: dict[str, Any], got: Any) -> dict[str, Any]:
    """The arguments of a request, as a service reads them that knows the document."""
    [(path, item)] = given["paths"].items()
    target, _, query = got.target.partition("?")
    in_path = dict(zip(re.findall(r"\{(\w+)\}", path), target.split("/")[3:], strict=True))
    in_query = parse_qsl(query, keep_blank_values=True)
    cookies = dict(pair.split("=", 1) for pair in got.headers.get("cookie", "").split("; ") if pair)
    found: dict[str, Any] = {}
    for each in item["post"]["parameters"]:
        name, place, schema = each["name"], each["in"], each["schema"]
        if place == "query":
            texts = [value for key, value in in_query if key == name]
        elif place == "header":
            texts = [got.headers[name]]
        else:
            texts = [unquote((in_path if place == "path" else cookies)[name])]
        is_list = schema["type"] == "array"
        kind = schema["items"]["type"] if is_list else schema["type"]
        values = [text if kind == "string" else json.loads(text) for text in texts]
        found[name] = values if is_list else values[0]
    return found | decode_body(got)


def decode_body(got: Any) -> dict[str, Any]:
    kind = got.headers.get("content-type", "")
    if kind == "application/json":
        return dict(json.loads(got.body))
    if kind.startswith("multipart"):
        return {name: text.decode() for name, _, _, text in parts(got.headers, got.body)}
    return dict(parse_qsl(got.body.decode(), keep_blank_values=True))


@given(operations())
def test_any_request_says_what_the_call_said(made: tuple[dict[str, Any], dict[str, Any]]) -> None:
    given_document, args = made
    service = Service()

    async def run() -> None:
        async with Executor(tools(given_document, service.client), hooks=UNFRAMED) as executor:
            result = await executor.run(Call("call_it", dict(args), "c1"))
        assert result.failure is None, result

    anyio.run(run)

    assert decode(given_document, service.received[0]) == args
    assert service.hosts == ["api.test"]


def test_the_decoder_can_disagree() -> None:
    given_document = document("/v", "post", parameters=[parameter("p0", "query")])
    service = Service()

    async def run() -> None:
        async with Executor(tools(given_document, service.client), hooks=UNFRAMED) as executor:
            await executor.run(Call("call_it", {"p0": "x"}, "c1"))

    anyio.run(run)
    changed = service.received[0]._replace(target="/v1/v?p0=y")

    assert decode(given_document, service.received[0]) == {"p0": "x"}
    assert decode(given_document, changed) == {"p0": "y"}
