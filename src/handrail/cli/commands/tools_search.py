"""`handrail tools search`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from handrail import Call, Executor, Exposure, Toolset
from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns
from handrail.cli._base.options import COUNT, TOOL_OPTIONS
from handrail.cli._project.kit import Kit

_DIGITS = 2


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
def command(app: App, query: tuple[str, ...], limit: int, *, verbose: bool) -> None:
    """Show which tools a model would find if all were deferred, as the model would read it.

    Each QUERY is answered by itself. Tools that the rules always deny are not found.
    """
    kit = Kit(app)
    others = [tool for tool in kit.tools if tool.spec.exposure is not Exposure.SEARCH]
    tools = Toolset(*others).deferred(over=0)
    name = tools.free_name("search_tools")
    call = Call(name, {"queries": list(query), "limit": limit})
    found = Executor(tools, policy=kit.rules).run_sync(call)
    shown: Any = found.metadata.get("hits", ())
    hits = [_hit(tools, query, name) for name in shown]
    document = {"queries": list(query), "hits": hits, "text": found.text}
    lines = make_printable(found.text).text.split("\n")
    app.print(document, [*lines, *(_rows(hits) if verbose else ())])


def _hit(tools: Toolset, queries: tuple[str, ...], name: str) -> dict[str, Any]:
    """Return a tool with its best score, and the score's parts by field."""
    scores = max((tools.explain_search(query, name) for query in queries), key=_total)
    by_field = {field: round(score, _DIGITS) for field, score in scores.items() if score}
    return {"name": name, "score": round(_total(scores), _DIGITS), "fields": by_field}


def _total(scores: Mapping[str, float]) -> float:
    return sum(scores.values())


def _rows(hits: list[dict[str, Any]]) -> Iterator[str]:
    rows = [
        (
            make_printable(hit["name"]).text,
            f"{hit['score']:g}",
            ", ".join(f"{field} {score:g}" for field, score in hit["fields"].items()),
        )
        for hit in hits
    ]
    if rows:
        yield ""
        yield from columns(rows)
