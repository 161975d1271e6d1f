"""Effects: what a server's tools can do. A server's own claims can only make it worse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib.resources import files
from itertools import islice, pairwise, product
from typing import Any

from handrail import DESTROY, READ, WRITE, Access, DefinitionError, Effect
from handrail._support import is_list, is_object
from handrail.mcp._client.definition import ListedTool
from handrail.mcp._client.servers import HttpServer, Server

_HOLE = re.compile(r"\{([^{}]*)\}")
_OPEN = ("$ref", "additionalProperties", "allOf", "anyOf", "oneOf", "patternProperties")
"""Parts of a schema that can allow arguments it does not list."""
_MAX_RESOURCES = 1_000
"""Resources of one call. With more, it touches everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """A server's tool effects, by patterns such as ``get_*``.

    A tool matching no pattern is DESTROY. A server's annotations can make a tool worse than its
    pattern, but never better.
    """

    reads: tuple[str, ...] = ()
    """Tools without changes."""
    writes: tuple[str, ...] = ()
    """Tools with changes, but no deletions."""
    idempotent: tuple[str, ...] = ()
    """Tools whose repeated call has no further effect."""
    touches: Mapping[str, str] = field(default_factory=dict[str, str])
    """Resources by pattern, as in ``{"*_file": "file:{path}"}``. Default: ``mcp:SERVER``.

    If an argument is a list, the call touches one for each item."""

    def __or__(self, other: Effects) -> Effects:
        """Combine both. For a tool with ``touches`` in both, the first is used."""
        return Effects(
            reads=(*self.reads, *other.reads),
            writes=(*self.writes, *other.writes),
            idempotent=(*self.idempotent, *other.idempotent),
            touches={**other.touches, **self.touches},
        )

    def find_effect(self, definition: ListedTool) -> Effect:
        """Return the worst a tool can do."""
        said = definition.annotations
        if said.get("readOnlyHint") is not True and said.get("destructiveHint") is True:
            return DESTROY
        if _matches(self.reads, definition.name):
            return WRITE if said.get("readOnlyHint") is False else READ
        return WRITE if _matches(self.writes, definition.name) else DESTROY

    def is_read(self, definition: ListedTool) -> bool:
        """Return whether a tool changes nothing."""
        return self.find_effect(definition) is READ

    def is_idempotent(self, definition: ListedTool) -> bool:
        """Return whether a repeated call has no further effect."""
        denied = definition.annotations.get("idempotentHint") is False
        return _matches(self.idempotent, definition.name) and not denied

    def find_unknown(self, definition: ListedTool) -> tuple[str, list[str]]:
        """Return the tool's pattern of ``touches``, and the arguments it names and lacks."""
        schema: Any = definition.listed.get("inputSchema")
        schema = schema if is_object(schema) else {}
        template = self._find_template(definition.name)
        names = [] if any(schema.get(key) for key in _OPEN) else _HOLE.findall(template)
        known: Any = schema.get("properties")
        return template, [one for one in names if not (is_object(known) and one in known)]

    def _find_template(self, name: str) -> str:
        found = (text for pattern, text in self.touches.items() if fnmatchcase(name, pattern))
        return next(found, "")

    def find_touches(
        self, server: str, definition: ListedTool
    ) -> Callable[..., Access | tuple[Access, ...]]:
        """Return a function declaring what a call will touch."""
        effect, template = self.find_effect(definition), self._find_template(definition.name)
        if not template:
            whole = Access(effect, f"mcp:{server}")  # a call may depend on any other of its server
            return partial(_ignore_args, whole)
        return partial(_fill_accesses, effect, template)


def _ignore_args(access: Access, /, **_: Any) -> Access:
    return access


def _fill_accesses(effect: Effect, template: str, /, **args: Any) -> tuple[Access, ...]:
    found = list(islice(fill(template, args), _MAX_RESOURCES + 1))
    unclear = not found or len(found) > _MAX_RESOURCES  # an empty list may mean everything
    return tuple(Access(effect, one) for one in (["*"] if unclear else found))


def fill(template: str, args: Mapping[str, Any]) -> Iterator[str]:
    """Fill call arguments into a resource: one for each item of a list.

    Raises DefinitionError if one is missing.
    """
    names = list(dict.fromkeys(_HOLE.findall(template)))
    for values in product(*(_list_values(template, name, args.get(name)) for name in names)):
        yield _HOLE.sub(partial(_pick, dict(zip(names, values, strict=True))), template)


def _pick(values: Mapping[str, str], hole: re.Match[str]) -> str:
    return values[hole[1]]


def _list_values(template: str, name: str, given: Any) -> list[str]:
    values = given if is_list(given) else [given]
    if any(isinstance(one, bool) or not isinstance(one, str | int) for one in values):
        raise DefinitionError(f"touches {template!r} needs the argument {name!r} as text.")
    return [str(one) for one in values]


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@cache
def _read_known() -> Mapping[str, Any]:
    text = files("handrail.mcp").joinpath("known_servers.json").read_text(encoding="utf-8")
    known: Mapping[str, Any] = json.loads(text)["servers"]
    return known


@dataclass(frozen=True, slots=True)
class KnownServer:
    """An entry in the list of known servers shipped with the package."""

    name: str
    effects: Effects
    source: str
    """Where the entry was read: the server's own documentation or code."""


def find_known(server: Server) -> KnownServer | None:
    """Return a server's entry in the list of known ones, by package or address."""
    for name, entry in _read_known().items():
        if any(_is_started_by(server, key) for key in entry["packages"]):
            effects = Effects(
                reads=tuple(entry["reads"]),
                writes=tuple(entry.get("writes", ())),
                idempotent=tuple(entry.get("idempotent", ())),
            )
            return KnownServer(name, effects, entry["source"])
    return None


def _is_started_by(server: Server, package: str) -> bool:
    """Return whether a server is this package, or at this address."""
    if isinstance(server, HttpServer):
        return server.url.rstrip("/") == package
    words = (server.command.rpartition("/")[2], *server.args)
    return any(
        word == package or word.startswith((f"{package}@", f"{package}=="))
        for word in (*words, *_find_installed(words))
    )


def _find_installed(words: Sequence[str]) -> Iterator[str]:
    """Yield the packages that words name differently: by a path, a module or an address."""
    for before, word in pairwise(("", *words)):
        folder = word.rpartition("node_modules/")[2] if "node_modules/" in word else ""
        parts = folder.split("/")
        if folder:
            yield "/".join(parts[: 2 if folder.startswith("@") else 1])
        if before == "-m":
            yield word.replace("_", "-")
        yield word.removeprefix("npm:")


_READS = re.compile(
    r"(?:get|list|search|read|find|query|fetch|describe|show|count|lookup|view|status)(?:[_.-]|$)"
)
_WRITES = re.compile(r"(?:add|create|update|set|edit|write|append|insert|send|post|put)(?:[_.-]|$)")


def propose_effects(definitions: Iterable[ListedTool], known: Effects) -> dict[str, list[str]]:
    """Return patterns for unknown tools: ``reads``, ``writes``, ``idempotent``.

    They rest on names and on the server's own claims, so a person must check them.
    """
    found: dict[str, list[str]] = {"reads": [], "writes": [], "idempotent": []}
    for definition in definitions:
        said, name = definition.annotations, definition.name
        if known.find_effect(definition) is not DESTROY or said.get("destructiveHint") is True:
            continue
        if said.get("readOnlyHint") is True or (
            said.get("readOnlyHint") is None and _READS.match(name)
        ):
            found["reads"].append(name)
        elif said.get("destructiveHint") is False or _WRITES.match(name):
            found["writes"].append(name)
        if said.get("idempotentHint") is True:
            found["idempotent"].append(name)
    return {key: sorted(names) for key, names in found.items() if names}
