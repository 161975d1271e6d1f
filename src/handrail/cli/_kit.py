"""The kit of a command: tools, the rules that judge them, and the workspace that they work in.

What is slow to load is loaded by the part that needs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from handrail import HandrailError, Spec, Tool, Toolset
from handrail.cli._app import App
from handrail.cli._exits import Halt
from handrail.cli._settings import close

if TYPE_CHECKING:
    from handrail.cli._own_places import OwnPlaces
    from handrail.policy import Memory, Places, Rulebook
    from handrail.sandbox import Sandbox
    from handrail.tools import Outline, Workspace

CODING = "coding"
"""The source that is the coding tools."""
MOST_BYTES = 400_000
"""Of a file that is compared with what is to become of it."""


@dataclass(frozen=True)
class Kit:
    """What the settings of an App amount to; each part is made when it is first asked for."""

    app: App

    @cached_property
    def places(self) -> Places:
        """Where rules are kept."""
        from handrail.policy import Places  # noqa: PLC0415

        return Places.of(self.app.workspace)

    @cached_property
    def rules(self) -> Rulebook:
        """The rules that count; what is wrong with their files has been said."""
        from handrail.policy import load  # noqa: PLC0415

        try:
            made = load(
                self.places,
                mode=self.app.settings["mode"],
                sandboxed=self.confined,
                protected=self._own.protected,
                private=self._own.private,
            )
        except HandrailError as error:
            raise Halt(str(error), code="rules", hint="choose another mode") from None
        for one in made.problems:
            self.app.say(one)
        return made

    @cached_property
    def memory(self) -> Memory:
        """What answers leave behind."""
        from handrail.policy import Memory  # noqa: PLC0415

        return Memory(self.rules, self.places)

    @cached_property
    def workspace(self) -> Workspace:
        """The folder, as the coding tools know it."""
        from handrail.tools import Workspace  # noqa: PLC0415

        return Workspace(self.app.workspace, hides=self._hides)

    def _hides(self, path: str) -> bool:
        """Whether searches pass over a file; the rules are read for the first."""
        return self._hidden(path)

    @cached_property
    def _hidden(self) -> Callable[[str], bool]:
        from handrail.tools import hidden_by  # noqa: PLC0415

        return hidden_by(self.rules)

    @cached_property
    def sandbox(self) -> Sandbox | None:
        """Where commands run; None where this machine has none, or none is wanted."""
        settings = self.app.settings
        if CODING not in settings["tools"] or "bash" in settings["without"]:
            return None
        from handrail.sandbox import Sandbox, Unavailable  # noqa: PLC0415

        try:
            return Sandbox(
                self.app.workspace,
                network=settings["hosts"],
                masked=[str(self._own.state)],
                kept=self._own.kept,
            )
        except Unavailable as error:
            self.app.say(f"bash is left out, see `handrail doctor`: {error}")
            return None
        except ValueError as error:
            where = settings.origins["hosts"].where
            raise Halt(f"{where}: {error}", code="config", hint="mend it there") from None

    @cached_property
    def _own(self) -> OwnPlaces:
        from handrail.cli._own_places import OwnPlaces  # noqa: PLC0415

        return OwnPlaces(self.app.workspace, self.app.settings)

    @property
    def confined(self) -> bool:
        """Whether all that runs commands does so in the sandbox."""
        return self.sandbox is not None and self.app.settings["tools"] == [CODING]

    @cached_property
    def tools(self) -> Toolset:
        """All tools that the settings name."""
        try:
            whole = Toolset(*(one for part in self._parts() for one in part))
        except HandrailError as error:
            raise Halt(str(error), code="tools", hint="leave one of them out") from None
        without = set(self.app.settings["without"])
        self._say_unknown(name for one in whole for name in _names(one))
        return Toolset(*(one for one in whole if without.isdisjoint(_names(one))))

    @property
    def outlines(self) -> Sequence[Spec | Outline]:
        """The tools in short. Those for coding are not made for it: that takes too long."""
        settings = self.app.settings
        if settings["tools"] != [CODING]:
            return self.tools.specs
        from handrail.tools import outline  # noqa: PLC0415

        found = outline(without=self._left_out())
        self._say_unknown(one.name for one in found)
        return found

    def tool(self, name: str) -> Tool[..., Any]:
        """The tool of a name or an alias."""
        found = self.tools.find(name)
        if found is not None:
            return found
        settings = self.app.settings
        if name in settings["without"]:
            words, hint = f"{name!r} is left out by {settings.origins['without'].where}", ""
        else:
            near = self.tools.closest(name)
            words = f"there is no tool {name!r}"
            hint = f"did you mean {' or '.join(near)}?" if near else "see `handrail tools list`"
        raise Halt(words, code="no_tool", hint=hint)

    def text_of(self, path: str) -> str | None:
        """What a file of the workspace says now, for whoever is shown a change to it.

        None is no file. One that is no text raises, or it would be taken for one that is not there.
        """
        try:
            with self.workspace.file(path) as found:
                return os.pread(found.fd, MOST_BYTES, 0).decode()
        except HandrailError:
            return None

    def _parts(self) -> Iterator[Toolset]:
        from handrail.cli._sources import tools_at  # noqa: PLC0415

        settings = self.app.settings
        for source in settings["tools"]:
            if source == CODING:
                yield self._coding()
            else:
                yield tools_at(source, self.app.workspace, settings.origins["tools"])

    def _coding(self) -> Toolset:
        from handrail.tools import coding  # noqa: PLC0415

        return coding(self.workspace, sandbox=self.sandbox, without=self._left_out())

    def _left_out(self) -> set[str]:
        """Which tools for coding there are not to be, or cannot be."""
        without = set(self.app.settings["without"])
        return without | ({"bash"} if self.sandbox is None else set())

    def _say_unknown(self, names: Iterable[str]) -> None:
        """A name that is meant to leave a tool out, and is spelled like none, leaves it in."""
        from handrail.tools import outline  # noqa: PLC0415

        known, without = set(names), set(self.app.settings["without"])
        if CODING in self.app.settings["tools"]:  # also those that cannot be had here
            known |= {one.name for one in outline()}
        for name in sorted(without - known):
            if near := close(name, known - without):
                self.app.say(f"no tool is left out by {name!r}; did you mean {near!r}?")


def _names(tool: Tool[..., Any]) -> tuple[str, ...]:
    return (tool.spec.name, *tool.spec.aliases)
