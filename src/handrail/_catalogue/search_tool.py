"""Tools for the model: ``search_tools`` finds others, ``call_tool`` calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from handrail._catalogue.answers import describe_spaces
from handrail._definition.decorator import tool
from handrail._definition.tool import AnyTool, Tool
from handrail._search.namespaces import Namespace
from handrail._values.call import Call
from handrail._values.effect import READ, Exposure
from handrail._values.result import Result
from handrail._values.spec import Spec

SEARCH_TOOLS = "search_tools"
CALL_TOOL = "call_tool"
OWN = "handrail"
"""Both tools' origin."""
MAX_SPACES_CHARS = 2_600
"""Characters for the namespaces in the description: less than 1,000 tokens of names."""
DEFAULT_LIMIT = 5


def make_search_tool(name: str, search: Callable[..., Result], call_name: str = "") -> AnyTool:
    """Return the search tool, without its namespaces.

    Found tools are called by name, or with the tool ``call_name``.
    """
    how = _BY_CALL.format(call_name) if call_name else _BY_NAME
    made = _make_search_tool(_FIND.format(how=how))
    return replace(made, spec=replace(made.spec, name=name), fn=search, origin=OWN)


def describe_search_tool(made: AnyTool, spaces: Sequence[Namespace]) -> AnyTool:
    """Return the search tool with its namespaces in its description."""
    listed = describe_spaces(spaces, MAX_SPACES_CHARS)
    text = f"{made.spec.description}\n\nNamespaces, and how many tools each has: {listed}."
    return replace(made, spec=replace(made.spec, description=text))


@cache
def _make_search_tool(description: str) -> AnyTool:
    def search_tools(
        queries: tuple[str, ...] = (), names: tuple[str, ...] = (), limit: int = DEFAULT_LIMIT
    ) -> Any:
        """Find tools.

        Args:
            queries: What you need, a few words for each need. Omit all arguments to list the
                namespaces; pass the name of one to list its tools.
            names: Exact names of tools, to load them without a search.
            limit: How many tools to return for all queries together.
        """

    return tool(
        name=SEARCH_TOOLS,
        description=description,
        effect=READ,
        touches=lambda **_: (),
        exposure=Exposure.SEARCH,
        synonyms={"query": "queries", "name": "names"},
    )(search_tools)


def make_call_tool(name: str, search_name: str) -> AnyTool:
    """Return a tool for calling others by name. The inner call is extracted before the check."""
    text = _CALL.format(search_name)
    spec = Spec(name=name, description=text, input_schema=_CALL_SCHEMA, framed=True)
    return Tool.proxy(spec, _make_call, origin=OWN)


def _make_call(args: Mapping[str, Any]) -> Call:
    return Call(args["name"], args.get("arguments") or {})


_FIND = (
    "Find tools by what they do. You see only a few of your tools: search before you conclude that "
    "something cannot be done. {how}"
)
_BY_NAME = (
    "You can call a tool by its name once a search has returned it. In the results, `()` means "
    "that a tool takes no arguments, and `...` that it takes more."
)
_BY_CALL = "Call a tool that a search has returned with {}."
_CALL = "Call a tool that {} has returned."
_CALL_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the tool."},
        "arguments": {
            "type": "object",
            "description": "The arguments of the tool, by its definition.",
        },
    },
    "required": ["name", "arguments"],
    "additionalProperties": False,
}
