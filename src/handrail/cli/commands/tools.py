"""`handrail tools`: list, show and search tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from handrail import Call, Exposure, Spec, Tool, Toolset
from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns, quantity
from handrail.cli._base.options import COUNT, TOOL_OPTIONS, tool_names
from handrail.cli._project.kit import Kit

if TYPE_CHECKING:
    from handrail.tools import ToolSummary

_Schema: TypeAlias = Mapping[str, Any]
_DIGITS = 2


def _safe(text: str) -> str:
    return make_printable(text).text


@as_command("list", "List tools.", *TOOL_OPTIONS)
@click.option(
    "--tokens", is_flag=True, help="Show about how many tokens each definition costs a model."
)
def list_tools(app: App, *, tokens: bool) -> None:
    """List tools: name, effect and first line of the description."""
    if tokens:
        _list_tokens(app)
        return
    tools = Kit(app).outlines
    rows = [
        (_safe(tool.name), tool.effect.name.lower(), _safe(tool.description.partition("\n")[0]))
        for tool in tools
    ]
    lines = columns(rows, width=app.width) if rows else ["no tools"]
    app.print_all("tools", [_summarize(tool) for tool in tools], lines)


def _list_tokens(app: App) -> None:
    """List the tools by what they cost, the most expensive first."""
    specs = sorted(Kit(app).tools.specs, key=lambda spec: (-spec.tokens, spec.name))
    rows = [(str(spec.tokens), spec.exposure.value, _safe(spec.name)) for spec in specs]
    lines = columns(rows) if rows else ["no tools"]
    app.print_all("tools", [{**_summarize(spec), "tokens": spec.tokens} for spec in specs], lines)
    sent = [spec.tokens for spec in specs if spec.exposure is not Exposure.DEFERRED]
    every, deferred = sum(spec.tokens for spec in specs), len(specs) - len(sent)
    note = f", {sum(sent)} of them in each request" if deferred else " in each request"
    app.say(f"{quantity(len(specs), 'tool')}, {quantity(every, 'token')}{note}")


def _summarize(tool: Spec | ToolSummary) -> dict[str, object]:
    return {
        "name": tool.name,
        "effect": tool.effect.name.lower(),
        "exposure": tool.exposure.value,
        "description": tool.description,
    }


@as_command("show", "Show a tool as a model sees it.", *TOOL_OPTIONS)
@click.argument("name", shell_complete=tool_names, help="Name of the tool.")
def show_tool(app: App, name: str) -> None:
    """Show a tool as a model sees it: description and parameters."""
    tool = Kit(app).tool(name)
    app.print(_describe(tool), _describe_lines(tool))


def _describe(tool: Tool[..., Any]) -> dict[str, Any]:
    spec = tool.spec
    return {
        "name": spec.name,
        "description": spec.description,
        "effect": spec.effect.name.lower(),
        "exposure": spec.exposure.value,
        "aliases": list(spec.aliases),
        "tokens": spec.tokens,
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


def _describe_lines(tool: Tool[..., Any]) -> Iterator[str]:
    spec = tool.spec
    yield _safe(spec.name)
    yield from _indent(columns(list(_about(tool))))
    yield ""
    yield from _indent(_safe(spec.description or "no description").split("\n"))
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
        yield "aliases", ", ".join(_safe(alias) for alias in spec.aliases)
    yield "tokens", f"about {spec.tokens}"
    if spec.idempotent:
        yield "idempotent", "yes"
    if spec.timeout is not None:
        yield "timeout", f"{spec.timeout:g} seconds"
    yield "from", _safe(tool.origin)


def _parameter(spec: Spec, name: str) -> tuple[str, str, str]:
    """Return a parameter's name, short type and description."""
    about = _open(spec.input_schema["properties"][name])
    kind = _kind(about)
    if name in spec.input_schema.get("required", ()):
        kind += ", required"
    elif "default" in about:
        kind += f", default {json.dumps(about['default'])}"
    description = about.get("description", "")
    return _safe(name), _safe(kind), _safe(description)


def _open(schema: Any) -> _Schema:
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


def _indent(lines: Iterable[str], by: int = 2) -> Iterator[str]:
    for line in lines:
        yield f"{' ' * by}{line}" if line else ""


@as_command("search", "Show which tools a model would find.", *TOOL_OPTIONS)
@click.argument("query", nargs=-1, required=True, help="What a model would search for.")
@click.option(
    "--limit",
    type=COUNT,
    default=5,
    show_default=True,
    metavar="N",
    help="Number of tools, for all queries together.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show the score of each tool, by field.")
def search_tools(app: App, query: tuple[str, ...], limit: int, *, verbose: bool) -> None:
    """Show which tools a model would find if all were deferred, as the model would read it.

    Each QUERY is answered by itself. Tools that the rules always deny are not found.
    """
    from handrail import Executor

    kit = Kit(app)
    others = [tool for tool in kit.tools if tool.spec.exposure is not Exposure.SEARCH]
    tools = Toolset(*others).deferred(over=0)
    name = tools.free_name("search_tools")
    call = Call(name, {"queries": list(query), "limit": limit})
    found = Executor(tools, policy=kit.rules).run_sync(call)
    shown: Any = found.metadata.get("hits", ())
    hits = [_hit(tools, query, name) for name in shown]
    document = {"queries": list(query), "hits": hits, "text": found.text}
    lines = _safe(found.text).split("\n")
    app.print(document, [*lines, *(_score_rows(hits) if verbose else ())])


def _hit(tools: Toolset, queries: tuple[str, ...], name: str) -> dict[str, Any]:
    """Return a tool with its best score, and the score's parts by field."""
    scores = max((tools.explain_search(query, name) for query in queries), key=_total)
    by_field = {field: round(score, _DIGITS) for field, score in scores.items() if score}
    return {"name": name, "score": round(_total(scores), _DIGITS), "fields": by_field}


def _total(scores: Mapping[str, float]) -> float:
    return sum(scores.values())


def _score_rows(hits: list[dict[str, Any]]) -> Iterator[str]:
    rows = [
        (
            _safe(hit["name"]),
            f"{hit['score']:g}",
            ", ".join(f"{field} {score:g}" for field, score in hit["fields"].items()),
        )
        for hit in hits
    ]
    if rows:
        yield ""
        yield from columns(rows)
