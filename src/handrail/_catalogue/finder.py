"""Finder: the tools one view adds, for a model to find and call deferred ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

from handrail._catalogue.answers import MAX_HITS, answer, describe_spaces, read_search
from handrail._catalogue.catalogue import Catalogue
from handrail._collection.toolset import Toolset
from handrail._definition.decorator import tool
from handrail._definition.tool import AnyTool, Tool
from handrail._permissions.checked_call import Policy
from handrail._permissions.decide import version
from handrail._search.namespaces import Namespace
from handrail._values.call import Call
from handrail._values.effect import READ, Exposure
from handrail._values.result import Result
from handrail._values.spec import Spec

_SEARCH_TOOLS = "search_tools"
_CALL_TOOL = "call_tool"
_OWN = "handrail"
"""Both tools' origin."""
_MAX_SPACES_CHARS = 2_600
"""Characters for the namespaces in the description: less than 1,000 tokens of names."""
_DEFAULT_LIMIT = 5


class Searched(NamedTuple):
    """The tool sets a search needs."""

    offered: Toolset
    """The view's tools."""
    whole: Toolset
    """The indexed tools, also for other views."""
    before: Toolset | None = None
    """The tools indexed before a change."""


class Sent(NamedTuple):
    """The tools a view sends to a model."""

    offered: Toolset
    """The view's tools, without those always denied, once known."""
    own: tuple[AnyTool, ...] = ()
    """The tools added by the view. None if nothing can be found."""


class Finder:
    """One view's search: which tools it can find, and the tools a model gets for it."""

    def __init__(self, sets: Searched, policy: Policy | None, *, by_call: bool) -> None:
        self._sets = sets
        self._policy = policy
        self.by_call = by_call
        """Whether searches show whole definitions, because found tools are not sent."""
        self._theirs = next((one for one in sets.offered if _searches(one)), None)
        """The application's search tool, which the model gets."""
        name = sets.offered.free_name(_SEARCH_TOOLS)
        search = partial(self._search, sets.offered, frozenset[str]())
        call_name = sets.offered.free_name(_CALL_TOOL)
        self._plain = _search_tool(name, search, call_name if by_call else "")
        self._call_tool = _make_call_tool(call_name, name)
        self.sent = Sent(sets.offered, self._make_own(self._plain))
        """What the view sends, as far as it is known."""
        self._described: Catalogue | None = None
        """The catalogue behind the search tool's description."""
        self._lock = threading.Lock()
        self._known: tuple[str, Catalogue] | None = None
        self._latest: tuple[str, Catalogue] | None = None
        """The catalogue for the last turn with other tools."""

    @property
    def name(self) -> str:
        """The search tool's name."""
        return (self._theirs or self._plain).spec.name

    def _make_own(self, search_tool: AnyTool) -> tuple[AnyTool, ...]:
        if self._theirs is not None:
            return ()
        return (search_tool, self._call_tool) if self.by_call else (search_tool,)

    def find(self, name: str) -> AnyTool | None:
        """Return the tool for a model with this name."""
        return next((tool for tool in self.sent.own if tool.spec.name == name), None)

    def describe(self) -> None:
        """Find out what can be found, and write it into the description.

        It changes only with the tools and the policy. With many tools, use a worker thread.
        """
        with self._lock:
            catalogue = self._catalogue(self._sets.offered)
            if catalogue is self._described:
                return
            own: tuple[AnyTool, ...] = ()
            if catalogue.tools and self._theirs is None:
                own = self._make_own(_describe_search_tool(self._plain, catalogue.spaces))
            self.sent = Sent(catalogue.visible, own)
            self._described = catalogue

    def bind(self, tool: AnyTool, tools: Toolset | None, loaded: Collection[str]) -> AnyTool:
        """Return the search tool for one turn, which may have other tools.

        Your application's own search tool stays unchanged.
        """
        if tool.origin != _OWN:
            return tool
        searched = self._sets.offered if tools is None else tools
        return replace(tool, fn=partial(self._search, searched, frozenset(loaded)))

    def _search(
        self,
        tools: Toolset,
        loaded: frozenset[str],
        *,
        queries: Sequence[str] = (),
        names: Sequence[str] = (),
        limit: int = _DEFAULT_LIMIT,
    ) -> Result:
        """Answer a search. This runs in a worker thread."""
        catalogue = self._catalogue(tools)
        asked = read_search(queries, names, catalogue, partial(self._is_direct, tools))
        most = max(1, min(limit, MAX_HITS))
        search = asked._replace(limit=most, loaded=loaded, schemas=self.by_call)
        found = answer(search, catalogue)
        facts: dict[str, Any] = {
            "queries": list(asked.queries),
            "names": list(asked.names),
            "hits": list(found.names),
        }
        return Result("", found.text, metadata=facts, found=() if self.by_call else found.names)

    def _catalogue(self, tools: Toolset) -> Catalogue:
        """Return what can be found among some tools, as the policy is now."""
        sets, now = self._sets, version(self._policy)
        is_own = tools is sets.offered
        known = self._known if is_own else self._latest
        if known is not None and known[0] == now and known[1].view is tools:
            return known[1]
        before = sets.before if is_own else None
        made = Catalogue(tools, self._policy, whole=sets.whole, before=before)
        if is_own:
            self._known = now, made
        else:
            self._latest = now, made
        return made

    def _is_direct(self, tools: Toolset, name: str) -> bool:
        """Return whether a model was sent a tool from the start."""
        tool = tools.find(name) or self.find(name)
        return tool is not None and tool.spec.exposure in (Exposure.DIRECT, Exposure.SEARCH)


def _searches(tool: AnyTool) -> bool:
    return tool.spec.exposure is Exposure.SEARCH


def _search_tool(name: str, search: Callable[..., Result], call_name: str = "") -> AnyTool:
    """Return the search tool, without its namespaces.

    Found tools are called by name, or with the tool ``call_name``.
    """
    how = _BY_CALL.format(call_name) if call_name else _BY_NAME
    made = _make_search_tool(_FIND.format(how=how))
    return replace(made, spec=replace(made.spec, name=name), fn=search, origin=_OWN)


def _describe_search_tool(made: AnyTool, spaces: Sequence[Namespace]) -> AnyTool:
    """Return the search tool with its namespaces in its description."""
    listed = describe_spaces(spaces, _MAX_SPACES_CHARS)
    text = f"{made.spec.description}\n\nNamespaces, and how many tools each has: {listed}."
    return replace(made, spec=replace(made.spec, description=text))


@cache
def _make_search_tool(description: str) -> AnyTool:
    def search_tools(
        queries: tuple[str, ...] = (), names: tuple[str, ...] = (), limit: int = _DEFAULT_LIMIT
    ) -> Any:
        """Find tools.

        Args:
            queries: What you need, a few words for each need. Omit all arguments to list the
                namespaces; pass the name of one to list its tools.
            names: Exact names of tools, to load them without a search.
            limit: How many tools to return for all queries together.
        """

    return tool(
        name=_SEARCH_TOOLS,
        description=description,
        effect=READ,
        touches=lambda **_: (),
        exposure=Exposure.SEARCH,
        synonyms={"query": "queries", "name": "names"},
    )(search_tools)


def _make_call_tool(name: str, search_name: str) -> AnyTool:
    """Return a tool for calling others by name. The inner call is extracted before the check."""
    text = _CALL.format(search_name)
    spec = Spec(name=name, description=text, input_schema=_CALL_SCHEMA, framed=True)
    return Tool.proxy(spec, _make_call, origin=_OWN)


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
