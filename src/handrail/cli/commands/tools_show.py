"""`handrail tools show`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import click

from handrail import Spec, Tool
from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns
from handrail.cli._base.options import TOOL_OPTIONS, tool_names
from handrail.cli._project.kit import Kit

Schema: TypeAlias = Mapping[str, Any]
_CHARACTERS_PER_TOKEN = 4


@as_command("show", "Show a tool as a model sees it.", *TOOL_OPTIONS)
@click.argument("name", shell_complete=tool_names, help="Name of the tool.")
def command(app: App, name: str) -> None:
    """Show a tool as a model sees it: description and parameters."""
    tool = Kit(app).tool(name)
    app.print(_document(tool), _lines(tool))


def _document(tool: Tool[..., Any]) -> dict[str, Any]:
    spec = tool.spec
    return {
        "name": spec.name,
        "description": spec.description,
        "effect": spec.effect.name.lower(),
        "exposure": spec.exposure.value,
        "aliases": list(spec.aliases),
        "tokens": _tokens(spec),
        "idempotent": spec.idempotent,
        "timeout": spec.timeout,
        "max_chars": spec.max_chars,
        "strict": spec.strict,
        "tags": sorted(spec.tags),
        "examples": list(spec.examples),
        "input_schema": spec.input_schema,
        "output_schema": spec.output_schema,
        "origin": tool.origin,
    }


def _lines(tool: Tool[..., Any]) -> Iterator[str]:
    spec = tool.spec
    yield make_printable(spec.name).text
    yield from _indent(columns(list(_about(tool))))
    yield ""
    yield from _indent(make_printable(spec.description or "no description").text.split("\n"))
    rows = [_parameter(spec, name) for name in spec.input_schema.get("properties", {})]
    yield ""
    yield "parameters" if rows else "no parameters"
    for name, kind, description in rows:
        yield f"  {name}  {kind}"
        yield from _indent(description.split("\n") if description else [], by=6)


def _about(tool: Tool[..., Any]) -> Iterator[tuple[str, str]]:
    spec = tool.spec
    yield "effect", spec.effect.name.lower()
    yield "exposure", spec.exposure.value
    if spec.aliases:
        yield "aliases", ", ".join(make_printable(alias).text for alias in spec.aliases)
    yield "tokens", f"about {_tokens(spec)}"
    if spec.idempotent:
        yield "idempotent", "yes"
    if spec.timeout is not None:
        yield "timeout", f"{spec.timeout:g} seconds"
    yield "from", make_printable(tool.origin).text


def _parameter(spec: Spec, name: str) -> tuple[str, str, str]:
    """Return a parameter's name, short type and description."""
    about = _open(spec.input_schema["properties"][name])
    kind = _kind(about)
    if name in spec.input_schema.get("required", ()):
        kind += ", required"
    elif "default" in about:
        kind += f", default {json.dumps(about['default'])}"
    description = about.get("description", "")
    return make_printable(name).text, make_printable(kind).text, make_printable(description).text


def _open(schema: Any) -> Schema:
    """Return a schema's keywords. True and false are schemas without keywords."""
    return {} if isinstance(schema, bool) else schema


def _kind(schema: Any) -> str:
    """Return a schema's type in a word or two. The JSON output has the whole schema."""
    about = _open(schema)
    if "enum" in about:
        return " | ".join(json.dumps(value) for value in about["enum"])
    if "anyOf" in about:
        return " | ".join(dict.fromkeys(map(_kind, about["anyOf"])))
    if about.get("type") == "array" and "items" in about:
        return f"array of {_kind(about['items'])}"
    if "$ref" in about:
        return str(about["$ref"]).rpartition("/")[2]
    kinds: Any = about.get("type", "anything")
    return kinds if isinstance(kinds, str) else " | ".join(map(str, kinds))


def _tokens(spec: Spec) -> int:
    """Return roughly how many tokens a definition costs, estimated like `handrail.lint`."""
    text = json.dumps([spec.name, spec.description, spec.input_schema], ensure_ascii=False)
    return -(-len(text) // _CHARACTERS_PER_TOKEN)


def _indent(lines: Iterable[str], by: int = 2) -> Iterator[str]:
    for line in lines:
        yield f"{' ' * by}{line}" if line else ""
