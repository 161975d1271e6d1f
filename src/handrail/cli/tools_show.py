"""`handrail tools show`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import click

from handrail import Spec, Tool
from handrail.approvals import displayed
from handrail.cli._app import App, as_command
from handrail.cli._columns import columns
from handrail.cli._kit import Kit
from handrail.cli._options import JUDGED, tool_names

Schema: TypeAlias = Mapping[str, Any]
_CHARACTERS_PER_TOKEN = 4


@as_command("show", "Show one tool as a model sees it.", *JUDGED)
@click.argument("name", shell_complete=tool_names)
def command(app: App, name: str) -> None:
    """Show the tool NAME as a model sees it: what it is told, and what it may send."""
    found = Kit(app).tool(name)
    app.print(_told(found), _lines(found))


def _told(tool: Tool[..., Any]) -> dict[str, Any]:
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
    yield displayed(spec.name).text
    yield from _indented(columns(list(_about(tool))))
    yield ""
    yield from _indented(displayed(spec.description or "no description").text.split("\n"))
    rows = [_parameter(spec, name) for name in spec.input_schema.get("properties", {})]
    yield ""
    yield "parameters" if rows else "no parameters"
    for name, kind, words in rows:
        yield f"  {name}  {kind}"
        yield from _indented(words.split("\n") if words else [], by=6)


def _about(tool: Tool[..., Any]) -> Iterator[tuple[str, str]]:
    spec = tool.spec
    yield "effect", spec.effect.name.lower()
    yield "exposure", spec.exposure.value
    if spec.aliases:
        yield "aliases", ", ".join(displayed(one).text for one in spec.aliases)
    yield "tokens", f"about {_tokens(spec)}"
    if spec.idempotent:
        yield "idempotent", "yes"
    if spec.timeout is not None:
        yield "timeout", f"{spec.timeout:g} seconds"
    yield "from", displayed(tool.origin).text


def _parameter(spec: Spec, name: str) -> tuple[str, str, str]:
    """A parameter's name, its type in a word or two, and what is said of it."""
    about = _open(spec.input_schema["properties"][name])
    kind = _kind(about)
    if name in spec.input_schema.get("required", ()):
        kind += ", required"
    elif "default" in about:
        kind += f", default {json.dumps(about['default'])}"
    words = about.get("description", "")
    return displayed(name).text, displayed(kind).text, displayed(words).text


def _open(schema: Any) -> Schema:
    """A schema with its keywords; true and false are schemas too, and have none."""
    return {} if isinstance(schema, bool) else schema


def _kind(schema: Any) -> str:
    """A schema in a word or two; the whole of it is in the JSON."""
    about = _open(schema)
    if "enum" in about:
        return " | ".join(json.dumps(one) for one in about["enum"])
    if "anyOf" in about:
        return " | ".join(dict.fromkeys(map(_kind, about["anyOf"])))
    if about.get("type") == "array" and "items" in about:
        return f"array of {_kind(about['items'])}"
    if "$ref" in about:
        return str(about["$ref"]).rpartition("/")[2]
    kinds: Any = about.get("type", "anything")
    return kinds if isinstance(kinds, str) else " | ".join(map(str, kinds))


def _tokens(spec: Spec) -> int:
    """About how many tokens a definition costs, as `handrail.lint` estimates it."""
    told = json.dumps([spec.name, spec.description, spec.input_schema], ensure_ascii=False)
    return -(-len(told) // _CHARACTERS_PER_TOKEN)


def _indented(lines: Iterable[str], by: int = 2) -> Iterator[str]:
    for line in lines:
        yield f"{' ' * by}{line}" if line else ""
