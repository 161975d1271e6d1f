"""Reads an OpenAPI document: its version, its references and its servers. It fetches nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeGuard
from urllib.parse import unquote

from handrail import DefinitionError
from handrail._support import is_list

Node: TypeAlias = Mapping[str, Any]
"""An object in the document. Its values have too many types to be worth naming."""

_VERSION = re.compile(r"3\.[01](\.|$)")
_MAX_REFERENCES = 32
"""Maximum references in a row."""
_MAX_OBJECTS = 5_000_000
"""Objects read to make the tools, each as often as it is used."""
_VARIABLE = re.compile(r"\{([^{}]*)\}")


def is_node(value: object) -> TypeGuard[Node]:
    """Return whether a value is an object in the document."""
    return isinstance(value, Mapping)


def get_node(node: Node, key: str) -> Node:
    """Return the object under a key, or an empty one."""
    value = node.get(key)
    return value if is_node(value) else {}


def get_list(node: Node, key: str) -> list[Any]:
    """Return the list under a key, or an empty one."""
    value = node.get(key)
    return value if is_list(value) else []


def get_text(node: Node, key: str) -> str:
    """Return the text under a key, or ""."""
    value = node.get(key)
    return value if isinstance(value, str) else ""


class Document:
    """An OpenAPI 3.0 or 3.1 document. Raises DefinitionError for other versions."""

    def __init__(self, given: Node | str | bytes) -> None:
        self.root = _parse(given)
        self._objects_left: int | None = None
        self.version = get_text(self.root, "openapi")
        if not _VERSION.match(self.version):
            raise DefinitionError(
                f"The document is not OpenAPI 3.0 or 3.1: its `openapi` is {self.version!r}. "
                "Convert it first."
            )

    @property
    def title(self) -> str:
        """The service's name."""
        return get_text(get_node(self.root, "info"), "title") or "openapi"

    def resolve(self, value: object) -> Node:
        """Return an object in the document, after local references, or an empty one.

        Only references within the document are followed.
        """
        for _ in range(_MAX_REFERENCES):
            self._count()
            if not is_node(value):
                return {}
            reference = value.get("$ref")
            if not isinstance(reference, str):
                return value
            value = self.find(reference)
        return {}

    @contextmanager
    def limited(self) -> Generator[None]:
        """Limit the objects read. Raises DefinitionError beyond the limit."""
        self._objects_left = _MAX_OBJECTS
        try:
            yield
        finally:
            self._objects_left = None

    def _count(self) -> None:
        if self._objects_left is None:
            return
        self._objects_left -= 1
        if self._objects_left < 0:
            raise DefinitionError(
                "The document takes too long to read: its schemas refer to one another too often. "
                "Pass a document with fewer operations."
            )

    def find(self, reference: str) -> object:
        """Return the value a reference names within the document, or None."""
        if not reference.startswith("#/"):
            return None
        node: Any = self.root
        for step in reference.removeprefix("#/").split("/"):
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            node = node.get(name) if is_node(node) else None
        return node

    def find_server(self, *nodes: Node) -> str:
        """Return the first server's URL from the first object with one.

        Variables have their default values.
        """
        return next((url for node in (*nodes, self.root) for url in list_servers(node)), "/")


def list_servers(node: Node) -> Iterator[str]:
    """Yield the URLs of an object's own servers. Variables have their default values."""
    for server in get_list(node, "servers"):
        if is_node(server) and get_text(server, "url"):
            yield _fill_variables(server)


def _parse(given: Node | str | bytes) -> Node:
    if not isinstance(given, str | bytes):
        return given
    read = _parse_text(given)
    if not is_node(read):
        raise DefinitionError("The document is not an object of JSON or YAML.")
    return read


def _parse_text(given: str | bytes) -> Any:
    if given.strip()[:1] not in ("{", b"{", "[", b"["):
        try:
            from handrail.openapi._yaml import read_yaml
        except ModuleNotFoundError:
            raise DefinitionError(
                "The document is not JSON. For YAML, install: pip install 'handrail[openapi]'"
            ) from None
        return read_yaml(given)
    try:
        return json.loads(given)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(f"The document is not JSON: {error}") from None


def _fill_variables(server: Node) -> str:
    variables = get_node(server, "variables")

    def default(match: re.Match[str]) -> str:
        return str(get_node(variables, match[1]).get("default", match[0]))

    return _VARIABLE.sub(default, get_text(server, "url"))
