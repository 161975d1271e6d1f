"""A tool outside the view, or that is always denied, appears in no byte that a model reads."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, TypeAlias

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail import (
    DESTROY,
    READ,
    WRITE,
    Access,
    Call,
    CheckedCall,
    Context,
    Decision,
    Deny,
    Effect,
    Executor,
    Exposure,
    Json,
    Result,
    Spec,
    Tool,
    Toolset,
)
from handrail._search.index import Hits, ToolIndex  # the control breaks it
from handrail.events import Decided, Event, Requested
from handrail.permissions import Pending
from handrail.policy import Rulebook

SPACES = ("mail", "bank")
WORDS = ("send", "list", "transfer", "archive")
TAGS = ("money", "private")
ARGUMENTS = ({}, {"a": "x"}, {"a": "y"})
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "additionalProperties": False,
}


async def send(args: dict[str, Json], _: Context) -> str:
    """Run a tool."""
    return f"ran with {sorted(args)}"


def touch(effect: Effect) -> Callable[..., Access]:
    """Return what a call touches, by its argument: with one, it only reads."""

    def touches(a: str = "") -> Access:
        return Access(READ if a else effect, f"file:{a or 'none'}")

    return touches


@st.composite
def tools(draw: st.DrawFn) -> Tool[..., Any]:
    """Return a tool that has a word of its own in its name and in its description."""
    number, effect = draw(st.integers(0, 99)), draw(st.sampled_from(list(Effect)))
    spec = Spec(
        name=f"{draw(st.sampled_from(SPACES))}_{draw(st.sampled_from(WORDS))}_zq{number:02}",
        description=f"To {draw(st.sampled_from(WORDS))} what xw{number:02} holds.",
        input_schema=SCHEMA,
        effect=effect,
        exposure=draw(st.sampled_from([Exposure.DEFERRED, Exposure.DEFERRED, Exposure.DIRECT])),
        tags=draw(st.frozensets(st.sampled_from(TAGS), max_size=1)),
    )
    made = Tool.remote(spec, send)
    return replace(made, touches=touch(effect)) if draw(st.booleans()) else made


@st.composite
def rules(draw: st.DrawFn) -> str:
    """Return a rule in TOML: by name, tag or effect, for all calls or for some."""
    who = draw(
        st.sampled_from(
            ['tools = ["mail_*"]', 'tools = ["*_send_*"]', 'tools = ["*1"]', 'tags = ["money"]']
            + [f'effects = ["{effect.name.lower()}"]' for effect in Effect]
        )
    )
    some = draw(st.sampled_from(["", "", 'args = {a = "x"}', 'access = ["read file:x"]']))
    decide = draw(st.sampled_from(["deny", "deny", "ask", "allow"]))
    return f'[[rule]]\ndecide = "{decide}"\n{who}\n{some}\n'


@dataclass(frozen=True)
class World:
    """Tools, a policy, and the part of them that a model may use."""

    tools: Toolset
    policy: Rulebook
    view: tuple[str, ...]
    by_turn: bool

    def is_always_denied(self, tool: Tool[..., Any]) -> bool:
        """Return whether every possible call is denied, found out by deciding each of them."""
        return all(isinstance(self.decide(tool, args), Deny) for args in ARGUMENTS)

    def decide(self, tool: Tool[..., Any], args: dict[str, str]) -> Decision:
        declared: Any = tool.touches or (lambda **_: Access(tool.spec.effect, "*"))
        call = Call(tool.spec.name, args, "1")
        return self.policy(CheckedCall.recorded(call, tool.spec, (declared(**args),)))

    @property
    def hidden(self) -> set[str]:
        """The names that no text may have."""
        return {
            tool.spec.name
            for tool in self.tools
            if tool.spec.name not in self.view or self.is_always_denied(tool)
        }

    @property
    def secrets(self) -> list[str]:
        """The words that only hidden tools have."""
        shown = {name[-2:] for name in {tool.spec.name for tool in self.tools} - self.hidden}
        return [
            word
            for name in self.hidden
            if name[-2:] not in shown
            for word in (f"zq{name[-2:]}", f"xw{name[-2:]}")
        ]

    def without_hidden(self) -> World:
        """Return a world in which the hidden tools do not exist."""
        gone = [name for name in self.hidden if self.tools[name].spec.exposure is Exposure.DEFERRED]
        view = tuple(name for name in self.view if name not in gone)
        return replace(self, tools=self.tools.without(*gone).only(*view), view=view)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    unique = st.lists(tools(), min_size=2, max_size=5, unique_by=lambda tool: tool.spec.name[-2:])
    offered = Toolset(*draw(unique))
    text = "".join(draw(st.lists(rules(), max_size=3)))
    policy = Rulebook.from_toml(
        text, mode=draw(st.sampled_from(["plan", "ask", "edits"])), shell=(), root=False
    )
    names = [tool.spec.name for tool in offered]
    view = draw(st.lists(st.sampled_from(names), unique=True, min_size=1) | st.just(names))
    return World(offered, policy, tuple(sorted(view)), draw(st.booleans()))


def ways_to_ask(world: World) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield calls that would show a hidden tool, if anything did."""
    yield "search_tools", {}
    for space in SPACES:
        yield "search_tools", {"queries": [space]}
    for tool in world.tools:
        name = tool.spec.name
        yield "search_tools", {"names": [name]}
        yield f"{name}0", {}
        if tool.spec.exposure is Exposure.DEFERRED:
            yield name, {"b": "x"}
            yield "call_tool", {"name": name, "arguments": {"b": "x"}}


def queries(world: World) -> Iterator[str]:
    yield from WORDS
    yield "send list transfer archive"
    for name in world.hidden:
        yield f"zq{name[-2:]} xw{name[-2:]}"
        yield f"xww{name[-2:]} mail"
        yield f"{name.split('_')[1]}{name.split('_')[0]}"


async def run_all(
    world: World, calls: list[tuple[str, dict[str, Any]]]
) -> tuple[list[Result], list[str]]:
    """Return the results of calls, and the descriptions that the model was sent."""
    async with Executor(world.tools, policy=world.policy, call_found_by="call_tool") as whole:
        executor = whole if world.by_turn else whole.restrict(*world.view)
        results, described = list[Result](), executor.tools
        for name, args in calls:
            chosen = world.tools.only(*world.view) if world.by_turn else None
            turn = executor.turn(tools=chosen)
            results.append(await executor.run(Call(name, args, "1"), turn=turn))
        return results, [] if world.by_turn else [str(spec) for spec in described.specs]


def check_hidden(world: World) -> None:
    """Fail if a text has anything of a hidden tool."""
    asked = list(ways_to_ask(world))
    words = [("search_tools", {"queries": [query], "limit": 2}) for query in queries(world)]
    bare = world.without_hidden()

    async def run_both() -> Iterator[tuple[list[Result], list[str]]]:
        return iter([await run_all(one, asked + words) for one in (world, bare)])

    (results, sent), (without, sent_without) = anyio.run(run_both)

    assert (sent == sent_without) or world.by_turn
    assert [one.text for one in results] == [one.text for one in without]
    for (_, args), result in zip(words, results[len(asked) :], strict=True):
        echoed = str(args)
        leaked = [word for word in world.secrets if word in result.text and word not in echoed]
        assert leaked == []


def finds_something(world: World) -> bool:
    """Return whether a model has something to search for."""
    return world.without_hidden().tools.has_deferred


@settings(max_examples=25)
@given(worlds().filter(finds_something))
def test_a_hidden_tool_appears_in_no_text(world: World) -> None:
    check_hidden(world)


Seen: TypeAlias = tuple[Result, list[tuple[Any, ...]], list[tuple[Any, ...]]]


def describe(event: Event) -> tuple[Any, ...]:
    """Return an event without the call that the model sent, which differs on purpose."""
    skipped = {"at", "asked_at", "number", "turn"} | (
        {"call"} if isinstance(event, Requested | Decided) else set()
    )
    kept = [field.name for field in fields(event) if field.name not in skipped]
    return (type(event).__name__, *(_plain(getattr(event, name)) for name in kept))


def _plain(value: Any) -> Any:
    if isinstance(value, Pending):
        return value.question, value.accesses, value.call.name
    return value


async def watch(world: World, call: Call, policy: Callable[[CheckedCall], Decision]) -> Seen:
    """Return the result of a call, its questions, and its events."""
    asked: list[tuple[Any, ...]] = []

    async def approve(pending: Pending) -> Deny:
        asked.append(_plain(pending))
        return Deny("no")

    options: dict[str, Any] = {"approvals": approve, "call_found_by": "call_tool"}
    async with Executor(world.tools, policy=policy, **options) as executor:
        feed = executor.events()
        result = await executor.run(call, turn=executor.turn("turn", run="run"))
    return result, asked, [describe(event) async for event in feed]


def check_same(world: World, change: Callable[[CheckedCall], CheckedCall] | None = None) -> None:
    """Fail if a call through ``call_tool`` is judged differently."""

    def policy(call: CheckedCall) -> Decision:
        return world.policy(call if change is None else change(call))

    used = world.policy if change is None else policy
    for tool, args in product(world.tools, ARGUMENTS):
        name = tool.spec.name
        direct = anyio.run(watch, world, Call(name, args, "1"), used)
        through = {"name": name, "arguments": args}
        assert anyio.run(watch, world, Call("call_tool", through, "1"), used) == direct


@settings(max_examples=12)
@given(worlds().filter(lambda world: world.tools.has_deferred))
def test_call_tool_gets_the_same_decision_accesses_question_and_events(world: World) -> None:
    check_same(world)


FIXED = World(
    Toolset(
        *(
            Tool.remote(
                Spec(
                    name=f"mail_{word}_zq{number:02}",
                    description=f"To send what xw{number:02} holds.",
                    input_schema=SCHEMA,
                    effect=effect,
                    exposure=Exposure.DEFERRED,
                ),
                send,
            )
            for number, (word, effect) in enumerate(
                [("send", DESTROY), ("send", DESTROY), ("list", READ), ("archive", WRITE)]
            )
        )
    ),
    Rulebook.from_toml('[[rule]]\ndecide = "deny"\ntools = ["*_send_*"]\n', shell=()),
    ("mail_archive_zq03", "mail_list_zq02", "mail_send_zq00", "mail_send_zq01"),
    by_turn=False,
)
"""A world in which each control below is caught."""


def test_the_fixed_world_hides_two_tools() -> None:
    assert FIXED.hidden == {"mail_send_zq00", "mail_send_zq01"}
    check_hidden(FIXED)
    check_same(FIXED)


def test_a_filter_after_ranking_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    among = ToolIndex.among

    def filter_late(index: ToolIndex, allowed: Container[str]) -> ToolIndex:
        def search(query: str, *, limit: int) -> Hits:
            hits = index.search(query, limit=limit)
            return hits._replace(names=tuple(name for name in hits.names if name in allowed))

        made = among(index, allowed)
        monkeypatch.setattr(made, "search", search)
        return made

    monkeypatch.setattr(ToolIndex, "among", filter_late)

    with pytest.raises(AssertionError):
        check_hidden(FIXED)


def test_a_policy_that_hides_nothing_is_caught() -> None:
    loose = replace(FIXED, policy=_Plain(FIXED.policy))  # type: ignore[arg-type]

    with pytest.raises(AssertionError):
        check_hidden(loose)


class _Plain:
    """A policy that decides as another one, and does not say what it never allows."""

    def __init__(self, policy: Rulebook) -> None:
        self._policy = policy

    def __call__(self, call: CheckedCall) -> Decision:
        return self._policy(call)


def test_a_proxy_that_is_judged_by_its_own_name_is_caught() -> None:
    def by_its_own_name(call: CheckedCall) -> CheckedCall:
        return call._replace(spec=replace(call.spec, name=call.via)) if call.via else call

    with pytest.raises(AssertionError):
        check_same(FIXED, by_its_own_name)
