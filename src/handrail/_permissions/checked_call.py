"""CheckedCall: a call as policies and hooks see it; and the type of a policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from handrail._definition.signature import REQUIRED
from handrail._definition.tool import AnyTool
from handrail._turn.turn import Turn
from handrail._values.access import Access
from handrail._values.call import Args, Call
from handrail._values.decision import Decision
from handrail._values.effect import READ
from handrail._values.result import FailureKind, Result
from handrail._values.spec import Spec
from handrail._values.strict_json import canonical

if TYPE_CHECKING:
    from handrail._labels.sources import ValueSource  # which few calls have

_new: Callable[..., Any] = vars(tuple)["__new__"]
_NOTHING: Mapping[str, str] = MappingProxyType({})
_UNHEARD: tuple[tuple[ValueSource, ...], dict[str, str]] = ((), {})  # never written to
_SCALARS = frozenset((str, int, float, bool, type(None)))


class CheckedCall(NamedTuple):
    """A call whose tool was found and whose arguments are valid, for policies and hooks."""

    call: Call
    """The call to run. Its arguments are the accepted JSON text."""
    spec: Spec
    accesses: tuple[Access, ...]
    turn: Turn[Any]
    decision: Decision | None = None
    """None in policies and before hooks."""
    via: str = ""
    """The proxy called by the model, or the provider's program that made the call, if any."""
    nth: int = 1
    """The number of this call among its turn's calls with the same id, from 1."""
    tool: AnyTool | None = None
    """The tool, for the executor; ``parsed`` too."""
    parsed: Args = Args({}, "{}")

    @classmethod
    def recorded(
        cls,
        call: Call,
        spec: Spec,
        accesses: tuple[Access, ...],
        sources: tuple[ValueSource, ...] = (),
        *,
        after: Mapping[str, str] = _NOTHING,
    ) -> CheckedCall:
        """Return an earlier checked call, to try a policy. Its arguments are plain JSON."""
        text = call.args if isinstance(call.args, str) else json.dumps(dict(call.args))
        turn: Turn[Any] = Turn(None, "recorded", "recorded")
        if sources or after:
            from handrail._sources.heard import Heard

            heard = Heard()
            heard.recorded[turn.key_of(call.id)] = sources
            heard.recorded_after = after
            turn.options = turn.options._replace(heard=heard)
        args = Args({}, text or "{}")
        return cls(replace(call, args=text), spec, accesses, turn, parsed=args)

    @property
    def id(self) -> str:
        """The call's id, as the model gave it."""
        return self.call.id

    @property
    def name(self) -> str:
        """The tool's own name. The model may have used an alias."""
        return self.spec.name

    @property
    def args(self) -> Mapping[str, Any]:
        """The typed arguments, with defaults. A copy: changing it has no effect on the call."""
        given = self.parsed.values
        if self.tool is None:
            return MappingProxyType(dict(json.loads(self.parsed.text)))
        if not all(type(value) in _SCALARS for value in given.values()):
            again = self.tool.parse(self.parsed.text)
            given = again.values if isinstance(again, Args) else given
        left_out = {
            parameter.name: parameter.make_default()
            for parameter in self.tool._signature.parameters  # noqa: SLF001  as the executor
            if parameter.default is not REQUIRED and parameter.name not in given
        }
        return MappingProxyType({**left_out, **given})

    @property
    def key(self) -> str:
        """The call's idempotency key: run, turn and call. The same after a restart."""
        return self.turn.key_of(self.call.id, self.nth)

    @property
    def sources(self) -> tuple[ValueSource, ...]:
        """Who named each destination, and each link in a text to write or send.

        Destinations are arguments with the marker ``Destination``, and those made into resources by
        ``touches``. Empty for a call without any.
        """
        heard, tool = self.turn.options.heard, self.tool
        marked = None if tool is None else tool._destinations  # noqa: SLF001  as the executor
        is_plain = tool is not None and tool.touches is None and marked is None
        if is_plain and self.spec.effect is READ:
            return ()
        text, accesses = self.parsed.text, self.accesses
        known: tuple[ValueSource, ...] = ()
        if heard is not None:
            if (found := heard.recall(text, accesses, marked)) is not None:
                return found
            known = heard.recorded.get(self.key, ()) if heard.recorded else ()
        from handrail._sources.of_call import find_sources  # loads patterns that few calls need

        return find_sources(heard, text, accesses, marked=marked, known=known)

    def find_sources(self, *, in_workspace: bool) -> tuple[ValueSource, ...]:
        """Return ``sources``; in a workspace, without its own files and links written there."""
        sources = self.sources
        if not sources or not in_workspace:
            return sources
        from handrail._sources.of_call import drop_workspace_files

        return drop_workspace_files(sources, self.accesses)

    @property
    def after(self) -> Mapping[str, str]:
        """The first calls in the run that read text from strangers or something private.

        By kind: ``read`` for text from strangers, ``private`` for the results from private tools.
        """
        heard = self.turn.options.heard
        if heard is None:
            return _NOTHING
        if heard.recorded_after is not None:
            return heard.recorded_after
        heard.catch_up()
        found = heard.find_first(self._is_private)
        return MappingProxyType({kind: text for kind, text in found.items() if text})

    def _is_private(self, name: str) -> bool:
        tool = self.turn.tools.find(name)
        return tool is not None and tool.spec.private

    @property
    def is_repeatable(self) -> bool:
        """Whether running the call twice has the same effect as running it once."""
        return self.spec.effect == READ or self.spec.idempotent

    @property
    def is_replayed(self) -> bool:
        """Whether its tool can begin again after a crash, since its inner calls are recorded."""
        return self.tool is not None and self.tool._replays  # noqa: SLF001  as the executor

    @property
    def asks_person(self) -> bool:
        """Whether a person fills in a form for it: see ``Context.ask``."""
        return self.tool is not None and self.tool._asks  # noqa: SLF001  as the executor

    def with_args(self, **changes: Any) -> Call:
        """Return the call with some arguments changed, for a ``before`` hook to return."""
        args = {**json.loads(self.parsed.text), **changes}
        return replace(self.call, args=canonical(args).decode())

    def answer(self, text: str) -> Result:
        """Return a result for this call in place of running it."""
        return Result(self.call.id, text)

    def refuse(self, reason: str, kind: FailureKind = FailureKind.DENIED) -> Result:
        """Return a failed result for this call in place of running it."""
        return Result.fail(self.call.id, kind, reason)


Policy: TypeAlias = Callable[[CheckedCall], Decision]
"""Decides a call by its arguments, its tool's declarations, its accesses and its turn. Pure.

It runs in a thread, since it may take long. If its method ``is_quick`` returns True for a call, it
runs in the event loop, which costs less.

A policy that can change in use has a ``version``, a string changing with it. Approvals given under
another version are ignored.
"""


def with_decision(checked: CheckedCall, decision: Decision) -> CheckedCall:
    """Return a checked call with its decision, made fast."""
    call, spec, accesses, turn, _, via, nth, tool, parsed = checked
    made: CheckedCall = _new(
        CheckedCall, (call, spec, accesses, turn, decision, via, nth, tool, parsed)
    )
    return made


def shown_sources(checked: CheckedCall, *, in_workspace: bool = False) -> tuple[ValueSource, ...]:
    """Return the sources to show people: none if the application passes no one's words."""
    if checked.turn.options.heard is None:
        return ()
    return checked.find_sources(in_workspace=in_workspace)


def find_heard(checked: CheckedCall) -> tuple[tuple[ValueSource, ...], dict[str, str]]:
    """Return what a journal keeps: who named the call's values, and what was read before."""
    if checked.turn.options.heard is None:
        return _UNHEARD
    return shown_sources(checked), dict(checked.after)
