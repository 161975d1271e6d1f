"""A document's operations: for each, where its arguments go in the request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from handrail.openapi._document import Document, Node, get_list, get_node, get_text, is_node
from handrail.openapi._schemas import merge, writable

Location: TypeAlias = Literal["path", "query", "header", "cookie", "body"]
BodyKind: TypeAlias = Literal["json", "form", "multipart", "text", "bytes"]
Style: TypeAlias = Literal[
    "simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject", "json"
]

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_LOCATIONS = ("path", "query", "header", "cookie")
_STYLES: dict[str, tuple[Style, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""Each location's styles, the default first."""
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OWN_HEADERS = frozenset(
    "accept accept-encoding authorization connection content-encoding content-length content-type "
    "cookie expect host keep-alive proxy-authorization te trailer transfer-encoding upgrade".split()
)
"""Headers no argument sets: the request and the credentials decide about them."""
_JSON = re.compile(r"application/(json|[\w.+-]+\+json)", re.IGNORECASE)
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One operation argument."""

    argument: str
    """The name for the model."""
    name: str
    """The name in the request."""
    location: Location
    schema: Node
    description: str
    required: bool
    style: Style = "simple"
    explode: bool = False
    content_type: str = ""
    """For a multipart body's part: its media type, if the document names one."""


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body."""

    kind: BodyKind
    media_type: str
    whole: Parameter | None
    """The argument holding the whole body, or None if its properties are arguments."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation in a document."""

    method: str
    path: str
    """The template."""
    server: str
    node: Node
    parameters: tuple[Parameter, ...]
    """Path, query, header and cookie parameters, and the body's properties."""
    body: Body | None

    @property
    def where(self) -> str:
        """Method and path, for messages."""
        return f"{self.method} {self.path}"


def operations(document: Document, *, hidden: frozenset[tuple[str, str]]) -> Iterator[Operation]:
    """Yield all operations. Parameters in ``hidden``, by location and name, are skipped."""
    for path, value in get_node(document.root, "paths").items():
        item = document.resolve(value)
        for method in METHODS:
            if path.startswith("/") and is_node(node := item.get(method)):
                yield _read(document, path, method, item, node, hidden=hidden)


def _read(  # noqa: PLR0917 the parts at one location in the document
    document: Document,
    path: str,
    method: str,
    item: Node,
    node: Node,
    *,
    hidden: frozenset[tuple[str, str]],
) -> Operation:
    given: dict[tuple[str, str], Parameter] = {}
    for each in (*get_list(item, "parameters"), *get_list(node, "parameters")):
        parameter = _read_parameter(document.resolve(each))
        if parameter is not None:
            given[parameter.location, parameter.name] = parameter
    for name in _PLACEHOLDER.findall(path):  # a path cannot be made without them
        if ("path", name) not in given:
            given["path", name] = Parameter(name, name, "path", {"type": "string"}, "", True)  # noqa: FBT003
    kept = [
        parameter
        for (location, name), parameter in given.items()
        if (location, name.lower()) not in hidden and (location != "path" or f"{{{name}}}" in path)
    ]
    body, fields = _read_body(document, document.resolve(node.get("requestBody")))
    named = _name_arguments([*kept, *fields, *([body.whole] if body and body.whole else [])])
    if body and body.whole:
        body = replace(body, whole=named.pop())
    server = document.find_server(node, item)
    return Operation(method.upper(), path, server, node, tuple(named), body)


def _read_parameter(node: Node) -> Parameter | None:
    name, location = get_text(node, "name"), get_text(node, "in")
    if not name or location not in _LOCATIONS:
        return None
    if location == "header" and (name.lower() in _OWN_HEADERS or not _TOKEN.fullmatch(name)):
        return None
    if location == "cookie" and not _TOKEN.fullmatch(name):
        return None
    styles = _STYLES[location]
    named: Any = node.get("style")
    style: Style = named if named in styles else styles[0]
    explode = node.get("explode")
    schema: Node = get_node(node, "schema")
    for content in get_node(node, "content").values():
        style = "json"
        schema = get_node(content, "schema") if is_node(content) else {}
    return Parameter(
        name,
        name,
        cast("Location", location),
        schema,
        get_text(node, "description"),
        required=location == "path" or node.get("required") is True,
        style=style,
        explode=explode if isinstance(explode, bool) else style == "form",
    )


def _read_body(document: Document, node: Node) -> tuple[Body | None, list[Parameter]]:
    content = get_node(node, "content")
    if not content:
        return None, []
    kind, media_type = _choose(content)
    media = document.resolve(content[media_type])
    schema = merge(document, media.get("schema"))
    is_required = node.get("required") is True
    properties = writable(document, get_node(schema, "properties"))
    if properties and _is_flat(kind, schema, is_required=is_required):
        fields = _read_fields(schema, properties, get_node(media, "encoding"))
        return Body(kind, media_type, None), fields
    words = get_text(node, "description") or _BODY[kind]
    shape = schema if kind in ("json", "form", "multipart") else {"type": "string"}
    whole = Parameter("body", "", "body", shape, words, is_required)
    return Body(kind, media_type, whole), []


def _is_flat(kind: BodyKind, schema: Node, *, is_required: bool) -> bool:
    """Return whether a body's properties can be arguments, without loss."""
    if kind in ("form", "multipart"):
        return is_required or not schema.get("required")
    more = schema.get("additionalProperties")
    is_simple = not any(key in schema for key in ("anyOf", "oneOf", "not"))
    return kind == "json" and is_required and is_simple and more in (None, False)


def _read_fields(schema: Node, properties: dict[str, Any], encodings: Node) -> list[Parameter]:
    required = get_list(schema, "required")
    return [
        Parameter(
            name,
            name,
            "body",
            value if is_node(value) else {},
            "",
            name in required,
            content_type=_read_media_type(get_node(encodings, name)),
        )
        for name, value in properties.items()
    ]


def _read_media_type(encoding: Node) -> str:
    """Return a part's first media type, or "" for none or a pattern."""
    first = get_text(encoding, "contentType").split(",")[0].strip()
    return first if _MEDIA_TYPE.fullmatch(first) else ""


def _choose(content: Node) -> tuple[BodyKind, str]:
    """Return the kind and the media type to send: JSON if possible."""
    found: dict[BodyKind, str] = {}
    for media_type in content:
        found.setdefault(_find_kind(media_type.split(";")[0].strip().lower()), media_type)
    return next((kind, found[kind]) for kind in _BODY if kind in found)


def _find_kind(media_type: str) -> BodyKind:
    if _JSON.fullmatch(media_type) or media_type == "*/*":
        return "json"
    if media_type == "application/x-www-form-urlencoded":
        return "form"
    if media_type.startswith("multipart/"):
        return "multipart"
    is_text = media_type.startswith("text/") or media_type.endswith(("/xml", "+xml", "/graphql"))
    return "text" if is_text else "bytes"


def _name_arguments(parameters: list[Parameter]) -> list[Parameter]:
    """Give each parameter another name. One in the path keeps its name."""
    taken: set[str] = set()
    order = sorted(range(len(parameters)), key=lambda at: parameters[at].location != "path")
    named: dict[int, Parameter] = {}
    for at in order:
        old = parameters[at]
        name = old.argument
        if name in taken:
            name = f"{name}_{old.location}"
        while name in taken or (name != old.argument and _is_used(name, parameters)):
            name += "_"
        taken.add(name)
        named[at] = replace(old, argument=name)
    return [named[at] for at in range(len(parameters))]


def _is_used(name: str, parameters: list[Parameter]) -> bool:
    return any(parameter.argument == name for parameter in parameters)


_BODY: dict[BodyKind, str] = {
    "json": "The body of the request.",
    "form": "The fields of the form.",
    "multipart": "The parts of the form.",
    "text": "The text to send.",
    "bytes": "The content to send, in base64.",
}
"""Description for the argument ``body``, by kind, in preference order."""
