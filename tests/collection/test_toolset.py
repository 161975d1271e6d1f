"""Toolsets: values in name order that compose, and refuse what would be ambiguous."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from handrail import (
    DefinitionError,
    DuplicateName,
    Exposure,
    HandrailDeprecationWarning,
    Tool,
    Toolset,
    UnknownName,
    tool,
)


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@tool(aliases=["cat", "show_file"])
def show(path: str) -> str:
    """Show a file."""
    return path


def zip_up(paths: list[str]) -> None:
    """Pack files."""


class Notes:
    def __init__(self, *kept: str) -> None:
        self.kept = list(kept)

    @tool
    def note(self, text: str) -> int:
        """Keep a note."""
        self.kept.append(text)
        return len(self.kept)

    @tool
    def recall(self) -> list[str]:
        """Give back all notes."""
        return self.kept

    @tool
    @staticmethod
    def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    @tool
    @classmethod
    def made_by(cls) -> str:
        """Tell the name of the class."""
        return cls.__name__

    def helper(self) -> None:
        """Not a tool."""


def names(tools: Toolset) -> list[str]:
    return [one.spec.name for one in tools]


def origin(one: Tool[..., object]) -> str:
    return one.origin


def test_tools_come_in_name_order_whatever_order_they_were_given_in() -> None:
    sets = [Toolset(*order) for order in itertools.permutations([zip_up, show, add])]

    assert {tuple(names(one)) for one in sets} == {("add", "show", "zip_up")}
    assert len({json.dumps([spec.input_schema for spec in one.specs]) for one in sets}) == 1


def test_the_same_tools_make_an_equal_set() -> None:
    assert Toolset(add, show) == Toolset(show, add)
    assert hash(Toolset(add, show)) == hash(Toolset(show, add))
    assert Toolset(add) != Toolset(show)
    assert Toolset(add) != [add]


def test_a_set_is_a_collection_by_name() -> None:
    tools = Toolset(add, show)

    assert (len(tools), tools["add"], "add" in tools, "sub" in tools) == (2, add, True, False)
    assert tools.specs == (add.spec, show.spec)
    assert repr(tools) == "Toolset(add, show)"


def test_specs_are_made_once() -> None:
    tools = Toolset(add, show)

    assert tools.specs is tools.specs
    assert tools.api_names is tools.api_names


def test_plain_functions_become_tools() -> None:
    [one] = Toolset(zip_up)

    assert (one.spec.name, one.spec.description) == ("zip_up", "Pack files.")


def test_two_tools_of_one_name_are_refused_with_both_origins() -> None:
    other = tool(name="add")(lambda_like)

    with pytest.raises(DuplicateName) as refused:
        Toolset(add, other)

    assert str(refused.value) == (
        f"Two tools claim the name 'add': {origin(add)} and {origin(other)}. "
        'Rename one, or add a prefix: `tools.prefixed("other_")`.'
    )


def lambda_like(a: float) -> float:
    """Do something else."""
    return a


@pytest.mark.parametrize("clash", [["show"], ["cat"]])
def test_an_alias_that_another_tool_claims_is_refused(clash: list[str]) -> None:
    other = tool(aliases=clash)(zip_up)

    with pytest.raises(DuplicateName, match=f"Two tools claim the name '{clash[0]}'"):
        Toolset(show, other)


def test_the_same_tool_twice_is_one() -> None:
    assert names(Toolset(add, add) | Toolset(add)) == ["add"]


def test_an_alias_reaches_its_tool_and_warns() -> None:
    tools = Toolset(add, show)

    with pytest.warns(HandrailDeprecationWarning, match="'cat' is now called 'show'"):
        assert tools["cat"] is show
    assert tools.find("cat") is show
    assert "cat" not in tools


def test_an_unknown_name_says_the_closest() -> None:
    tools = Toolset(add, show, zip_up)

    assert tools.find("Show ") is None
    with pytest.raises(UnknownName) as refused:
        tools["shwo"]
    assert str(refused.value) == "No tool is named 'shwo'. Closest: show."
    with pytest.raises(UnknownName, match=r"^No tool is named 'quux'\.$"):
        tools["quux"]


def test_closest_names_are_found_in_a_large_set_too() -> None:
    tools = Toolset(*(replace(add, spec=replace(add.spec, name=f"add_{i}")) for i in range(3_000)))

    assert tools.closest("add_1500x")[0] == "add_1500"


def test_a_misspelled_name_means_a_tool_if_that_is_clear() -> None:
    tools = Toolset(add, show, zip_up)

    meant = {name: tools.meant_by(name) for name in ("shwo", "showw", "dad", "zip", "show", "log")}
    assert meant == {
        "shwo": "show",
        "showw": "show",
        "dad": "add",
        "zip": "",
        "show": "",
        "log": "",
    }


def test_sets_join() -> None:
    assert names(Toolset(show) | Toolset(add)) == ["add", "show"]


def test_a_set_keeps_only_some() -> None:
    tools = Toolset(add, show, zip_up)

    assert names(tools.only("zip_up", "add")) == ["add", "zip_up"]
    assert names(tools.without("add")) == ["show", "zip_up"]
    for choose in (tools.only, tools.without):
        with pytest.raises(UnknownName, match="Closest: zip_up"):
            choose("zipup")


def test_a_prefix_goes_before_names_and_aliases() -> None:
    tools = Toolset(add, show).prefixed("fs_")

    assert names(tools) == ["fs_add", "fs_show"]
    assert tools["fs_show"].spec.aliases == ("fs_cat", "fs_show_file")
    assert tools["fs_add"](1, 2) == 3


def test_a_tool_is_renamed() -> None:
    tools = Toolset(add, show).renamed({"add": "plus"})

    assert names(tools) == ["plus", "show"]
    assert tools["plus"].parse('{"a": 1, "b": 2}') == add.parse('{"a": 1, "b": 2}')


def test_a_set_maps() -> None:
    def terse(one: Tool[..., object]) -> Tool[..., object]:
        return replace(one, spec=replace(one.spec, description=""))

    assert {spec.description for spec in Toolset(add, show).map(terse).specs} == {""}


def test_the_tools_of_an_object_are_bound_to_it() -> None:
    notes = Notes("milk")
    tools = Toolset.from_object(notes)

    assert names(tools) == ["made_by", "note", "recall", "shout"]
    assert (tools["note"]("eggs"), tools["recall"](), notes.kept) == (
        2,
        ["milk", "eggs"],
        ["milk", "eggs"],
    )
    assert (tools["shout"]("hi"), tools["made_by"]()) == ("HI", "Notes")
    assert tools["note"] == notes.note
    assert tools["note"] != Notes().note


def test_static_methods_count_in_either_order() -> None:
    class Voice:
        @staticmethod
        @tool
        def shout(text: str) -> str:
            """Say it loudly."""
            return text.upper()

    assert Toolset.from_object(Voice())["shout"]("hi") == "HI"


def test_a_model_is_not_told_of_hidden_tools() -> None:
    hidden = tool(exposure=Exposure.HIDDEN)(zip_up)

    assert (Toolset(add, hidden).specs, "zip_up" in Toolset(add, hidden)) == ((add.spec,), True)


def test_a_method_stays_callable_on_its_class() -> None:
    assert (Notes.note(Notes(), "x"), Notes.shout("hi"), Notes.made_by()) == (1, "HI", "Notes")


def test_a_method_without_its_object_is_refused() -> None:
    with pytest.raises(
        DefinitionError, match=r"'note' is a method. Bind it, as in `Notes\(...\).add`"
    ):
        Toolset(Notes.note)
