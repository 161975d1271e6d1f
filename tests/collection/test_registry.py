"""The registry: sources come and go, snapshots stay as they were."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import (
    DefinitionError,
    DuplicateName,
    Registry,
    Spec,
    Tool,
    Toolset,
    UnknownName,
    tool,
)
from handrail.events import ToolsChanged


async def _nowhere(_args: object, _context: object) -> None: ...


def far(name: str, description: str = "", aliases: tuple[str, ...] = ()) -> Tool[..., object]:
    spec = Spec(name=name, description=description, input_schema={}, aliases=aliases)
    return Tool.remote(spec, _nowhere, origin=f"far:{name}")


def names(tools: Toolset) -> list[str]:
    return [one.spec.name for one in tools]


def test_a_new_registry_is_empty() -> None:
    registry = Registry()

    assert (registry.generation, registry.snapshot()) == (0, Toolset())


def test_sources_come_and_go() -> None:
    registry = Registry()

    registry.add(Toolset(far("b"), far("a")), name="one")
    registry.add(far("c"))
    before = registry.snapshot()
    registry.remove("one")

    assert (names(before), names(registry.snapshot())) == (["a", "b", "c"], ["c"])
    assert registry.generation == 3


def test_a_snapshot_is_one_value_until_something_changes() -> None:
    registry = Registry()
    registry.add(far("a"))

    snapshot = registry.snapshot()
    assert registry.snapshot() is snapshot
    registry.add(far("b"))
    assert registry.snapshot() is not snapshot


def test_a_single_tool_or_function_is_a_source_by_its_own_name() -> None:
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    registry = Registry()

    assert (registry.add(add), registry.add(far("far"))) == ("add", "far")
    assert names(registry.snapshot()) == ["add", "far"]


def test_several_tools_need_a_name_for_their_source() -> None:
    with pytest.raises(DefinitionError, match="A Toolset needs a source name: `registry"):
        Registry().add(Toolset(far("a"), far("b")))


def test_a_source_is_replaced_in_one_step() -> None:
    registry = Registry()
    seen: list[ToolsChanged] = []
    registry.add(Toolset(far("a"), far("b"), far("c")), name="one")
    registry.watch(seen.append)

    registry.replace("one", Toolset(far("b"), far("c", "new words"), far("d")))

    assert names(registry.snapshot()) == ["b", "c", "d"]
    assert seen == [ToolsChanged(generation=2, added=("d",), removed=("a",), changed=("c",))]


def test_a_source_may_be_replaced_by_a_single_tool() -> None:
    registry = Registry()
    registry.add(far("a"))

    registry.replace("a", far("a", "new words"))

    assert registry.snapshot()["a"].spec.description == "new words"


@pytest.mark.parametrize(
    "clash", [far("a"), far("z", aliases=("a",)), far("other"), far("q", aliases=("other",))]
)
def test_a_name_that_another_source_claims_is_refused_and_nothing_changes(
    clash: Tool[..., object],
) -> None:
    registry = Registry()
    registry.add(far("a", aliases=("other",)), name="first")
    before = registry.snapshot()

    with pytest.raises(DuplicateName, match="far:a and far:"):
        registry.add(Toolset(far("fresh"), clash), name="second")

    assert (registry.generation, registry.snapshot()) == (1, before)
    registry.add(far("fresh"))


def test_a_source_name_is_used_once() -> None:
    registry = Registry()
    registry.add(far("a"), name="one")

    with pytest.raises(DuplicateName, match="A source 'one' already exists"):
        registry.add(far("b"), name="one")


def test_an_unknown_source_says_the_closest() -> None:
    registry = Registry()
    registry.add(far("a"), name="files")

    with pytest.raises(UnknownName, match=r"^No source is named 'file'\. Closest: files\.$"):
        registry.remove("file")
    with pytest.raises(UnknownName, match=r"^No source is named 'zzz'\.$"):
        registry.replace("zzz", far("b"))


def test_freed_names_can_be_claimed_again() -> None:
    registry = Registry()
    registry.add(far("a", aliases=("b",)), name="one")
    registry.replace("one", far("c"))

    registry.add(Toolset(far("a"), far("b")), name="two")

    assert names(registry.snapshot()) == ["a", "b", "c"]


def test_watchers_are_told_until_they_stop() -> None:
    registry = Registry()
    seen: list[ToolsChanged] = []
    stop = registry.watch(seen.append)

    registry.add(far("a"))
    stop()
    stop()
    registry.remove("a")

    assert seen == [ToolsChanged(generation=1, added=("a",))]


def test_a_failing_watcher_hides_nothing_from_the_next() -> None:
    registry = Registry()
    seen: list[ToolsChanged] = []

    def broken(_event: ToolsChanged) -> None:
        raise RuntimeError("broken watcher")

    registry.watch(broken)
    registry.watch(seen.append)

    with pytest.raises(ExceptionGroup) as failed:
        registry.add(far("a"))

    assert [str(error) for error in failed.value.exceptions] == ["broken watcher"]
    assert seen == [ToolsChanged(generation=1, added=("a",))]
    assert names(registry.snapshot()) == ["a"]


def test_many_sources_are_looked_up_and_ordered_as_one() -> None:
    registry = Registry()
    for n in range(40):
        registry.add(
            Toolset(*(far(f"t{n}_{i}", aliases=(f"old{n}_{i}",)) for i in range(n))), name=f"s{n}"
        )
    snapshot = registry.snapshot()

    assert len(snapshot) == sum(range(40))
    assert names(snapshot) == sorted(names(snapshot))
    assert all(snapshot[name].spec.name == name for name in names(snapshot))
    assert snapshot.find("old7_3") is snapshot["t7_3"]
    assert snapshot.find("t40_0") is None


def test_threads_may_change_one_registry() -> None:
    registry = Registry()
    threads = [
        threading.Thread(target=lambda n=n: [registry.add(far(f"t{n}_{i}")) for i in range(50)])  # type: ignore[misc]
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (registry.generation, len(registry.snapshot())) == (400, 400)


changes = st.lists(
    st.tuples(
        st.sampled_from(["add", "replace", "remove"]),
        st.sampled_from("pqr"),
        st.sets(st.sampled_from("abcdef")),
    ),
    max_size=20,
)


@given(changes)
def test_a_registry_behaves_like_a_dictionary_of_sets(
    steps: list[tuple[str, str, set[str]]],
) -> None:
    registry, model = Registry(), dict[str, set[str]]()
    events: list[ToolsChanged] = []
    registry.watch(events.append)
    for step, source, tools in steps:
        before = set().union(*model.values())
        others = set().union(*(held for name, held in model.items() if name != source))
        wrong = (source in model) == (step == "add") or (step != "remove" and bool(tools & others))
        act = {
            "add": lambda s=source, t=tools: registry.add(Toolset(*map(far, t)), name=s),  # type: ignore[misc]
            "replace": lambda s=source, t=tools: registry.replace(s, Toolset(*map(far, t))),  # type: ignore[misc]
            "remove": lambda s=source: registry.remove(s),  # type: ignore[misc]
        }[step]
        if wrong:
            with pytest.raises((DuplicateName, UnknownName)):
                act()
            continue
        act()
        if step == "remove":
            del model[source]
        else:
            model[source] = tools
        after = set().union(*model.values())
        assert (set(events[-1].added), set(events[-1].removed)) == (after - before, before - after)
    assert names(registry.snapshot()) == sorted(set().union(*model.values()))
    assert registry.generation == len(events)


def test_a_decorated_function_is_a_source() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    registry = Registry()
    registry.add(add)

    assert registry.snapshot()["add"] is add


class Server:
    """A source that says when it was opened and closed, and whose tools can change."""

    name = "server"

    def __init__(self, *tools: Tool[..., object]) -> None:
        self.tools = Toolset(*tools)
        self.life: list[str] = []
        self.changed: Callable[[Toolset], None] | None = None

    @asynccontextmanager
    async def open(self, changed: Callable[[Toolset], None]) -> AsyncIterator[Toolset]:
        self.life.append("open")
        self.changed = changed
        try:
            yield self.tools
        finally:
            self.life.append("closed")


async def test_a_source_is_open_for_as_long_as_the_block_lasts() -> None:
    registry, server = Registry(), Server(far("a"))

    async with registry.connect(server):
        during = names(registry.snapshot()), list(server.life)

    assert (during, names(registry.snapshot()), server.life) == (
        (["a"], ["open"]),
        [],
        ["open", "closed"],
    )


async def test_a_source_that_changes_makes_a_new_generation() -> None:
    registry, server, heard = Registry(), Server(far("a")), list[ToolsChanged]()

    async with registry.connect(server):
        registry.watch(heard.append)
        assert server.changed
        server.changed(Toolset(far("a", "more"), far("b")))
        offered = names(registry.snapshot())

    assert offered == ["a", "b"]
    assert heard == [
        ToolsChanged(generation=2, added=("b",), changed=("a",)),
        ToolsChanged(generation=3, removed=("a", "b")),
    ]


async def test_a_source_whose_names_are_taken_is_closed_again() -> None:
    registry, server = Registry(), Server(far("a"))
    registry.add(far("a"))

    with pytest.raises(DuplicateName):
        async with registry.connect(server):
            raise AssertionError("it is not offered")

    assert (names(registry.snapshot()), server.life) == (["a"], ["open", "closed"])


async def test_an_error_inside_the_block_takes_the_tools_away() -> None:
    registry, server = Registry(), Server(far("a"))

    with pytest.raises(KeyError):
        async with registry.connect(server):
            raise KeyError

    assert (names(registry.snapshot()), server.life) == ([], ["open", "closed"])


async def test_a_watcher_that_fails_leaves_no_tools_of_a_closed_source() -> None:
    registry, server = Registry(), Server(far("a"))

    def broken(_event: ToolsChanged) -> None:
        raise KeyError

    registry.watch(broken)
    with pytest.raises(ExceptionGroup):
        async with registry.connect(server):
            raise AssertionError("it is not offered")

    assert (names(registry.snapshot()), server.life) == ([], ["open", "closed"])


async def test_a_source_that_somebody_removed_is_closed_without_an_error() -> None:
    registry, server = Registry(), Server(far("a"))

    async with registry.connect(server):
        registry.remove(server.name)

    assert (names(registry.snapshot()), server.life) == ([], ["open", "closed"])


async def test_a_closed_source_does_not_change_the_one_that_has_its_name_now() -> None:
    registry, old, new = Registry(), Server(far("a")), Server(far("b"))
    async with registry.connect(old):
        pass

    async with registry.connect(new):
        assert old.changed
        with pytest.raises(UnknownName, match="is closed"):
            old.changed(Toolset(far("a", "late")))
        offered = names(registry.snapshot())

    assert offered == ["b"]
