"""Stubs: a program's functions as Python, for the type check and for a model."""

from __future__ import annotations

import builtins
import json
import keyword
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from handrail import Spec

_PRELUDE = """\
from typing import Any, Literal, NotRequired, TypedDict
def map(function: Any, *items: Any) -> Any: ...
def filter(function: Any, items: Any) -> Any: ...
def hasattr(value: Any, name: str) -> bool: ...
def getattr(value: Any, name: str, *default: Any) -> Any: ...
def open(*args: Any, **options: Any) -> Any: ...
def setattr(value: Any, name: str, new: Any) -> None: ...
def format(value: Any, form: str = "") -> str: ...
class FileExistsError(OSError): ...
class FileNotFoundError(OSError): ...
class ImportError(Exception): ...
class IsADirectoryError(OSError): ...
class ModuleNotFoundError(ImportError): ...
class NotADirectoryError(OSError): ...
class PermissionError(OSError): ...
class UnboundLocalError(NameError): ...
class UnicodeDecodeError(ValueError): ...
class UnicodeEncodeError(ValueError): ...
"""
"""The names the type check lacks, and the interpreter has."""
_SIMPLE = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}
_MAX_DOC_CHARS = 120
_RESERVED = frozenset(keyword.kwlist) | frozenset(dir(builtins))
ANY = "Any"


def to_identifier(name: str, taken: Iterable[str] = ()) -> str:
    """Return a name as Python can write it, different from those already taken."""
    made = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not made or made[0].isdigit():
        made = f"_{made}"
    if keyword.iskeyword(made):
        made += "_"
    while made in taken:
        made += "_"
    return made


class Function(NamedTuple):
    """A tool as a function in a program."""

    name: str
    """The name in the program."""
    spec: Spec
    parameters: Mapping[str, str]
    """The parameters' names in the program, and the tool's, in order."""
    required: frozenset[str]
    """The program's names for those without a default."""
    positional: int
    """How many can be given by position."""


def make_functions(specs: Iterable[Spec]) -> dict[str, Function]:
    """Return these tools' functions, by their names in a program."""
    made: dict[str, Function] = {}
    for spec in specs:
        name = to_identifier(spec.name, {*made, *_RESERVED})
        made[name] = _make_function(name, spec)
    return made


def _make_function(name: str, spec: Spec) -> Function:
    parameters: dict[str, str] = {}
    required = set(spec.input_schema.get("required", ()))
    needed: set[str] = set()
    positional, ended, optional = 0, False, False
    for own in spec.input_schema.get("properties", {}):
        written = to_identifier(own, parameters)
        parameters[written] = own
        if own in required:
            needed.add(written)
            ended = ended or optional
        optional = optional or own not in required
        positional += not ended
    return Function(name, spec, parameters, frozenset(needed), positional)


class _Written(NamedTuple):
    """A function as it is written."""

    head: str
    returned: str
    text: str
    """Its documentation, as a string."""

    def shorten(self) -> str:
        """Return it without a type that says nothing."""
        kind = "" if self.returned == ANY else f" -> {self.returned}"
        return f"{self.head}{kind}: {self.text}"


class Stubs:
    """Writes a program's functions."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self._classes: dict[str, str] = {}
        """Types by name. Those of objects are their fields in braces."""
        self._definitions: Mapping[str, Any] = {}
        self._written = [self._write(function) for function in functions]

    @cached_property
    def text(self) -> str:
        """The model's text: types, then functions."""
        types = [f"{name} = {kind}" for name, kind in self._classes.items()]
        return "\n".join([*types, *[one.shorten() for one in self._written]])

    @property
    def checked(self) -> str:
        """The type checker's text."""
        types = [
            f'{name} = TypedDict("{name}", {kind})' if kind.startswith("{") else f"{name} = {kind}"
            for name, kind in self._classes.items()
        ]
        functions = [f"{head} -> {kind}: {text}" for head, kind, text in self._written]
        return _PRELUDE + "\n".join([*types, *functions])

    def _write(self, function: Function) -> _Written:
        spec, parts = function.spec, list[str]()
        self._definitions = spec.input_schema.get("$defs", {})
        properties = spec.input_schema.get("properties", {})
        base = _to_class(function.name)
        for place, (written, own) in enumerate(function.parameters.items()):
            if place == function.positional:
                parts.append("*")
            schema = properties[own]
            kind = self._type(schema, f"{base}{_to_class(written)}")
            default = "" if written in function.required else f" = {_default(schema)}"
            parts.append(f"{written}: {kind}{default}")
        self._definitions = (spec.output_schema or {}).get("$defs", {})
        returned = ANY if spec.output_schema is None else self._type(spec.output_schema, base)
        head = f"async def {function.name}({', '.join(parts)})"
        return _Written(head, returned, _document(spec))

    def _type(self, schema: Any, name: str) -> str:  # noqa: C901, PLR0911  one case for each kind
        """Return a schema as a type. Classes are added under a name beginning with this one."""
        match schema:
            case {"$ref": reference}:
                return self._referred(str(reference))
            case {"enum": values}:
                return _literal(values)
            case {"const": value}:
                return _literal([value])
            case {"anyOf": several} | {"oneOf": several}:
                return _union(self._type(one, name) for one in several)
            case {"type": [*kinds]}:
                return _union(self._type({**schema, "type": one}, name) for one in kinds)
            case {"type": "array"}:
                return f"list[{self._type(schema.get('items'), f'{name}Item')}]"
            case {"type": "object"}:
                return self._object(schema, name)
            case {"type": str(kind)}:
                return _SIMPLE.get(kind, ANY)
            case _:
                return ANY

    def _referred(self, reference: str) -> str:
        own = reference.rpartition("/")[2]
        if own not in self._definitions:
            return ANY
        name = _to_class(own)
        if name not in self._classes:
            self._classes[name] = ""  # it may refer to itself
            kind = self._type(self._definitions[own], name)
            if kind != name:
                self._classes[name] = kind
        return name

    def _object(self, schema: Mapping[str, Any], name: str) -> str:
        properties = schema.get("properties")
        if not properties:
            values = schema.get("additionalProperties")
            kind = self._type(values, f"{name}Value") if isinstance(values, Mapping) else ANY
            return f"dict[str, {kind}]"
        required = schema.get("required", ())
        while self._classes.get(name):
            name += "_"
        self._classes[name] = ""
        fields = {
            key: _optional(self._type(one, f"{name}{_to_class(key)}"), needed=key in required)
            for key, one in properties.items()
        }
        listed = ", ".join(f"{json.dumps(key)}: {kind}" for key, kind in fields.items())
        self._classes.pop(name)  # classes inside it come first
        self._classes[name] = f"{{{listed}}}"
        return name


def _optional(kind: str, *, needed: bool) -> str:
    return kind if needed else f"NotRequired[{kind}]"


def _to_class(name: str) -> str:
    parts = re.split(r"[\W_]+", name, flags=re.ASCII)
    made = "".join(part[:1].upper() + part[1:] for part in parts)
    return made if made and not made[0].isdigit() else f"T{made}"


def _union(kinds: Iterable[str]) -> str:
    found = list(dict.fromkeys(kinds))
    return ANY if ANY in found else " | ".join(found)


def _literal(values: Iterable[Any]) -> str:
    found = list(values)
    if not all(isinstance(one, str | int | bool | None) for one in found):
        return ANY
    return f"Literal[{', '.join(map(repr, found))}]"


def _default(schema: Any) -> str:
    given: Any = schema
    value: Any = given.get("default", ...) if isinstance(schema, Mapping) else ...
    plain = isinstance(value, str | int | float | bool | None)
    return repr(value) if plain and len(repr(value)) <= _MAX_DOC_CHARS else "..."


def _document(spec: Spec) -> str:
    """Return one line of documentation, as a string which ends where it should."""
    line = " ".join(spec.description.split("\n\n")[0].split())
    if len(line) > _MAX_DOC_CHARS:
        line = f"{line[: _MAX_DOC_CHARS - 1]}…"
    return repr(line) if '"' in line or "\\" in line else f'"{line}"'
