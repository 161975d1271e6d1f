"""View: one executor's tools and policy, and the reader for truncated results."""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from handrail._catalogue.denied import is_denied
from handrail._collection.registry import Registry
from handrail._collection.toolset import Toolset
from handrail._definition.decorator import tool
from handrail._definition.tool import AnyTool
from handrail._execution.output import READ_RESULT
from handrail._execution.settings import CallFoundBy, LongResults, report_misnamed
from handrail._permissions.checked_call import Policy
from handrail._permissions.decide import Stricter
from handrail._turn.turn import Turn
from handrail._values.context import Context
from handrail._values.effect import READ, Exposure
from handrail._values.errors import ToolFailed
from handrail._values.result import Result
from handrail._values.strict_json import clip

if TYPE_CHECKING:
    from handrail._catalogue.finder import Finder

_MAX_READ_CHARS = 15_000
"""Characters one call reads."""
_MAX_LINE_CHARS = 500
"""Line characters a search shows."""
_CHARS_BEFORE = 100
"""Characters before the text searched for."""
_MAX_HEADING_CHARS = 80
"""Characters the reader adds before them."""


class View:
    """One executor's tools and policy."""

    generation: int = 0
    """The registry's generation when its tools were read."""
    _offered = Toolset()
    _listed: tuple[Any, ...] = ()
    """What the tools to send were computed from."""
    _reader: AnyTool | None = None
    _has_stored = False

    parent: View | None = None
    _names: tuple[str, ...] | None = None
    """The names of a registry's tools the view is restricted to."""

    finder: Finder | None = None
    """Finds deferred tools, if there are any."""

    def __init__(
        self,
        tools: Toolset | Registry,
        policy: Policy | None,
        settings: LongResults,
        *,
        call_found_by: CallFoundBy = "name",
        whole: Toolset | None = None,
    ) -> None:
        self.policy = policy
        self.is_guarded = policy is not None
        """Whether it has a policy, or its executor hooks before calls."""
        self.registry = tools if isinstance(tools, Registry) else None
        self._settings = settings
        self._call_found_by: CallFoundBy = call_found_by
        self._whole = whole
        """The tools of the view this one was made from: they are indexed together."""
        self._stored_texts = StoredTexts(settings, is_narrowed=False)
        self._lock = threading.Lock()
        if isinstance(tools, Registry):
            self.generation = tools.generation  # before its tools are read: they may change
            tools = tools.snapshot()
        self._offer(tools)

    def _offer(self, tools: Toolset) -> None:
        """Offer these tools from now on."""
        with self._lock:
            before, self._offered, self._reader = self._offered, tools, None
            self.finder = self._make_finder(before) if tools.has_deferred else None
        self._list_tools()

    def _make_finder(self, before: Toolset) -> Finder:
        # few programs have so many tools that they need it
        from handrail._catalogue.finder import Finder, Searched

        sets = Searched(self._offered, self._whole or self._offered, before)
        return Finder(sets, self.policy, by_call=self._call_found_by == "call_tool")

    def _list_tools(self) -> Toolset:
        """Compute the tools to send to a model, with the reader if it is needed.

        Returns the same set as before if nothing has changed.
        """
        with self._lock:
            mode, finder = self._settings.reader, self.finder
            reader = self.reader if mode == "always" or self._has_stored else None
            offered, own = (self._offered, ()) if finder is None else finder.sent
            listed = offered, *own, *(() if reader is None else (reader,))
            if list(map(id, listed)) != list(map(id, self._listed)):
                more = listed[1:]
                self.tools = Toolset.join((offered, Toolset(*more))) if more else offered
                self._listed = listed
            return self.tools

    def describe_tools(self) -> Toolset:
        """Return the tools to send to a model, with a description of findable ones.

        Threads can do this at the same time, also while the tools change.
        """
        while (finder := self.finder) is not None:
            finder.describe()
            tools = self._list_tools()
            if finder is self.finder:
                return tools
        return self._list_tools()

    def bind_search(self, tool: AnyTool, turn: Turn[Any]) -> AnyTool:
        """Return a search tool for one turn."""
        finder, own = self.finder, turn.generation == self.generation
        chosen = None if own else turn.tools
        return tool if finder is None else finder.bind(tool, chosen, turn.options.loaded)

    def find_own(self, name: str, tools: Toolset) -> AnyTool | None:
        """Return a tool the view adds to those of a turn."""
        if name == self.reader_name:
            return self.reader
        return self.finder.find(name) if self.finder and tools.has_deferred else None

    def is_own(self, name: str) -> bool:
        """Return whether the view adds a tool with this name."""
        return name == self.reader_name or bool(self.finder and self.finder.find(name))

    def may_show(self, tool: AnyTool) -> bool:
        """Return whether a model may learn a tool exists.

        It may not if the tool is hidden, or if the policy denies it whatever the arguments are.
        """
        is_hidden = tool.spec.exposure is Exposure.HIDDEN
        return not is_hidden and not (self.policy and is_denied(self.policy, tool))

    @property
    def reader(self) -> AnyTool | None:
        """The reader for truncated results. Created on first use."""
        settings = self._settings
        if self._reader is None and settings.reader != "never":
            name = reader_name(self._offered)
            reader = make_reader(self._stored_texts, name, self.max_read_chars)
            if any(one.spec.framed for one in self._offered):
                reader = replace(reader, spec=replace(reader.spec, framed=True))
            self._reader = reader
        return self._reader

    @property
    def max_read_chars(self) -> int:
        """How many characters this tool returns at once."""
        return max(1, min(_MAX_READ_CHARS, self._settings.max_result_chars - _MAX_HEADING_CHARS))

    @property
    def reader_name(self) -> str:
        """This tool's name; empty if there is none."""
        return "" if self._settings.reader == "never" else reader_name(self._offered)

    def keep(self, result: Result, principal: str | None) -> int:
        """Store an overlong result. Returns how many characters were stored."""
        stored = self._stored_texts.put(principal, result.call_id, result.text)
        self.offer_reader()
        return stored

    def offer_reader(self) -> None:
        """Offer the tool for reading on, unless the settings say never."""
        if not self._has_stored:
            self._has_stored = True
            self._list_tools()

    def refresh(self) -> None:
        """Use the registry's current tools, if they have changed."""
        if self.registry is not None and self.registry.generation != self.generation:
            self.generation = self.registry.generation
            tools = self.registry.snapshot()
            if self._names is not None:
                self._whole = tools
                tools = tools.only(*[name for name in self._names if name in tools])
            else:
                report_misnamed(self.policy, tools)
            self._offer(tools)

    def restrict(self, names: tuple[str, ...], policy: Policy | None) -> View:
        """Return a view with fewer tools, and the stricter policy."""
        both = self.policy
        if policy is not None:
            both = policy if self.policy is None else Stricter(self.policy, policy)
        view = View(
            self._offered.only(*names),
            both,
            self._settings,
            call_found_by=self._call_found_by,
            whole=self._whole or self._offered,
        )
        view.parent, view._names = self, names
        view.is_guarded = self.is_guarded or both is not None
        view.registry, view.generation = self.registry, self.generation
        view._stored_texts = StoredTexts(self._settings, is_narrowed=True)
        return view

    def covers(self, view: View | None) -> bool:
        """Return whether a view is this one, or was made from it."""
        while view is not None and view is not self:
            view = view.parent
        return view is self


class MemoryStore:
    """Stores long texts in memory, by their call's id."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._held = 0

    def put(self, call_id: str, text: str) -> int:
        """Store what fits from a text, and return how many characters were stored."""
        self._drop(call_id)
        stored = text[: self._max_chars]
        while self._texts and self._held + len(stored) > self._max_chars:
            self._drop(next(iter(self._texts)))
        self._texts[call_id] = stored
        self._held += len(stored)
        return len(stored)

    def get(self, call_id: str) -> str | None:
        """Return a call's text, if it is still stored."""
        return self._texts.get(call_id)

    def ids(self) -> tuple[str, ...]:
        """Return the ids of calls with stored texts, oldest first."""
        return tuple(self._texts)

    def _drop(self, call_id: str) -> None:
        self._held -= len(self._texts.pop(call_id, ""))


class StoredTexts:
    """One view's part in a store, separated by principal."""

    def __init__(self, settings: LongResults, *, is_narrowed: bool) -> None:
        given = settings.store
        self._store = MemoryStore(settings.max_stored_chars) if given is None else given
        self._owner = os.urandom(16).hex() if is_narrowed and given is not None else None
        """Separates a restricted view if all views share one store."""

    def put(self, principal: str | None, call_id: str, text: str) -> int:
        """Store a text, and return how many characters were stored."""
        return self._store.put(self._prefix(principal) + _quote(call_id), text)

    def get(self, principal: str | None, call_id: str) -> str | None:
        """Return a call's text, if it is still stored."""
        return self._store.get(self._prefix(principal) + _quote(call_id))

    def ids(self, principal: str | None) -> list[str]:
        """Return the ids of calls with stored texts, oldest first."""
        from urllib.parse import unquote

        start = self._prefix(principal)
        names = [name.removeprefix(start) for name in self._store.ids() if name.startswith(start)]
        return [unquote(name) for name in names if "/" not in name]

    def _prefix(self, principal: str | None) -> str:
        named = [self._owner, principal]
        return "".join([f"{_quote(name)}/" for name in named if name is not None])


def _quote(name: str) -> str:
    from urllib.parse import quote  # few programs store results

    return quote(name, safe="")


def reader_name(beside: Toolset) -> str:
    """Return a name for the reader no other tool has."""
    return beside.free_name(READ_RESULT)


def _search_lines(text: str, wanted: str, start: int, most: int) -> str:
    """Return the lines with a text, as many as fit, each after its position."""
    lines, room, at = list[str](), most, start
    pattern = re.compile(re.escape(wanted), re.IGNORECASE)
    while match := pattern.search(text, at):
        first = text.rfind("\n", 0, match.start()) + 1
        last = text.find("\n", match.end())
        last = len(text) if last < 0 else last
        begin = max(first, match.start() - _CHARS_BEFORE)
        line = clip(f"{begin}: {text[begin:last]}", min(_MAX_LINE_CHARS, most))
        room -= len(line) + 1
        if room < 0 and lines:
            break
        lines.append(line)
        at = last
    more = f" For more, pass start={at}." if match else ""
    count = f"{len(lines)} matching line{'s' * (len(lines) != 1)}, each after its position."
    heading = f"{count}{more}" if lines else "No line from start on contains this text."
    return "\n".join([f"[{heading}]", *lines])


def make_reader(stored_texts: StoredTexts, name: str, most: int) -> AnyTool:
    """Return a reader for truncated results, up to ``most`` characters per call.

    Its own results are never truncated.
    """

    def read_result(
        context: Context,
        call_id: str,
        start: int = 0,
        end: int | None = None,
        *,
        search: str = "",
    ) -> str:
        """Read or search a part of an earlier result that was truncated.

        Args:
            context: Whose results may be read.
            call_id: The id in the truncated result.
            start: The first character to read, counted from 0.
            end: The character to stop before. By default, as many are read as one call can.
            search: Return only the lines from start on that contain this text, ignoring case.
        """
        text = stored_texts.get(context.principal, call_id)
        if text is None:
            stored = ", ".join(stored_texts.ids(context.principal)[-5:])
            raise ToolFailed(_NOT_STORED.format(call_id, stored or "none"))
        first = max(0, min(start, len(text)))
        if search:
            return _search_lines(text[:end], search, first, most)
        last = min(first + most, len(text))
        if end is not None:
            last = max(first, min(end, last))
        return f"[characters {first} to {last} of {len(text)}]\n{text[first:last]}"

    return tool(name=name, effect=READ, touches=lambda **_: ())(read_result)


_NOT_STORED = (
    "No result is stored for {!r}. Stored: {}. A stored result is lost when the run moves to "
    "another process, or when newer ones need its room. To read it, call the tool again."
)
