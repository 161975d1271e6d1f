"""What the index finds, in which order, and for whom."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Spec
from handrail._search import ranking
from handrail._search.index import Hits, ToolIndex


def tool(name: str, description: str = "", **properties: Any) -> Spec:
    schema = {"type": "object", "properties": properties}
    return Spec(name=name, description=description, input_schema=schema)


MAIL = (
    tool("mail__send_message", "Send an email to someone. Attachments too.", to={"type": "string"}),
    tool("mail__list_folders", "List all folders of a mailbox."),
    tool("calendar__create_event", "Create a new event in a calendar."),
)


def names(index: ToolIndex, query: str, **options: Any) -> tuple[str, ...]:
    return index.search(query, **options).names


def test_a_query_finds_the_tool_that_has_its_words() -> None:
    index = ToolIndex.of(MAIL)

    assert [names(index, query) for query in ("sending emails", "folder", "events", "weather")] == [
        ("mail__send_message",),
        ("mail__list_folders",),
        ("calendar__create_event",),
        (),
    ]


def test_every_part_of_a_definition_is_searched() -> None:
    nested = {"anyOf": [{"enum": ["celsius", 7]}, {"items": {"description": "degrees"}}], "x": 1}
    whole = Spec(
        name="now",
        description="Weather.",
        input_schema={"properties": {"unit": nested, "odd": True}, "$defs": None},
        aliases=("forecast_today",),
        search_hint="umbrella",
        tags=frozenset({"outdoors"}),
        metadata={"namespace": "sky"},
    )
    index = ToolIndex.of([whole, tool("other", "Something else.")])
    words = "now weather unit celsius degree forecast umbrella outdoors sky".split()

    assert [word for word in words if names(index, word) != ("now",)] == []


def test_a_deeply_nested_definition_is_read_as_far_as_the_limit() -> None:
    schema: dict[str, Any] = {"description": "innermost"}
    for depth in range(1_200):
        schema = {"description": f"word{'x' * (depth % 7)}", "properties": {"down": schema}}
    index = ToolIndex.of([Spec(name="deep", description="", input_schema=schema)])

    assert (names(index, "wordxx"), names(index, "innermost")) == (("deep",), ())


@pytest.mark.parametrize(
    ("written", "query"),
    [
        ("insert_code_block", "codeblock"),
        ("insert_codeblock", "code block"),
        ("insertCodeBlock", "code-block"),
        ("\u5929\u6c14\u67e5\u8be2", "\u67e5\u8be2"),
        ("caf\u00e9_menu", "cafe"),
        ("list_APIs", "api"),
        ("what_is_it", "what is it"),
    ],
)
def test_words_are_found_however_they_are_written(written: str, query: str) -> None:
    others = [tool("code_review"), tool("block_user"), tool("read_code"), tool("add_block")]

    assert names(ToolIndex.of([tool(written), *others]), query)[0] == written


def test_a_compound_in_a_description_is_one_word_and_two() -> None:
    index = ToolIndex.of([tool("a", "Uses GitHub."), tool("b", "Uses Git."), tool("c", "A hub.")])

    assert (names(index, "github"), names(index, "git")) == (("a",), ("b", "a"))


def test_an_unknown_long_word_is_taken_apart() -> None:
    index = ToolIndex.of([tool("a", "A time zone."), tool("b", "The time."), tool("c", "A zone.")])

    assert names(index, "timezone") == names(index, "zonetime") == ("a", "b", "c")
    assert names(index, "the zone's time") == ("a", "b", "c")


def test_long_texts_words_and_queries_are_read_in_time() -> None:
    tail = "q" * 15_000
    long = [tool(f"a{n}", f"{tail} pay") for n in range(3)]
    odd = tool("odd", "aA" * 200_000 + "_", **{f"x{n}": {"enum": ["yes"] * 99} for n in range(200)})
    start = time.process_time()
    index = ToolIndex.of([*long, odd, tool("both", f"pay{tail}", unit={"description": "Cat."})])

    assert names(index, "pay") == ("a0", "a1", "a2")
    assert names(index, "x" * 100_000) == ()
    assert names(index, "cat yes") == ("odd", "both")
    assert names(index, f"{'zz ' * 500}cat") == ()
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    ("slip", "word"),
    [("calender", "calendar"), ("clendar", "calendar"), ("claendar", "calendar"), ("eventts", "")],
)
def test_a_word_with_one_close_neighbor_is_read_as_that(slip: str, word: str) -> None:
    hits = ToolIndex.of(MAIL).search(slip)

    found = (("calendar__create_event",), {slip: word}) if word else ((), {})
    assert (hits.names, hits.corrected) == found


def test_a_word_with_two_close_neighbors_is_not_guessed() -> None:
    index = ToolIndex.of([tool("a", "Contrasts."), tool("b", "Contracts.")])

    assert index.search("contrakts") == Hits((), (), {})


def test_tools_that_are_not_allowed_are_neither_found_nor_suggested() -> None:
    index = ToolIndex.of(MAIL)
    allowed = {"mail__list_folders"}

    assert index.among(allowed).search("calender event") == Hits((), (), {})


def test_a_suggested_word_is_written_by_an_allowed_tool() -> None:
    index = ToolIndex.of([tool("a", "Show listings."), tool("b", "Show a list.")])

    assert [index.among([name]).search("listingss").corrected for name in ("a", "b")] == [
        {"listingss": "listings"},
        {},
    ]


def test_the_score_of_a_tool_is_the_sum_over_its_fields() -> None:
    index = ToolIndex.of(MAIL)
    fields = index.explain("send email message", "mail__send_message")
    [score] = index.search("send email message", limit=1).scores

    assert sum(fields.values()) == pytest.approx(score)
    assert [field for field, share in fields.items() if share] == ["name", "description"]


WORDS = "send list mail email file files event calendar timezone time zone git hub github".split()
SPECS = st.lists(
    st.builds(
        tool,
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map("_".join),
        st.lists(st.sampled_from([*WORDS, "GitHub", "the"]), max_size=6).map(" ".join),
    ),
    unique_by=lambda spec: spec.name,
    max_size=12,
)
QUERIES = st.lists(st.sampled_from([*WORDS, "calender", "codeblock", "the"]), max_size=4).map(
    " ".join
)


def everything(index: ToolIndex, query: str) -> tuple[object, ...]:
    return index.search(query, limit=20), dict(index.specs)


@given(SPECS, QUERIES, st.randoms())
def test_the_order_of_definitions_does_not_matter(specs: list[Spec], query: str, rng: Any) -> None:
    mixed = list(specs)
    rng.shuffle(mixed)

    assert everything(ToolIndex.of(mixed), query) == everything(ToolIndex.of(specs), query)


@given(st.lists(SPECS, min_size=2, max_size=12), QUERIES)
def test_an_index_made_from_another_one_is_as_if_it_were_new(
    versions: list[list[Spec]], query: str
) -> None:
    async def build_all() -> list[ToolIndex]:
        made = [await ToolIndex.build(versions[0])]
        for specs in versions[1:]:
            made.append(await ToolIndex.build([*specs, *specs[:1]], reuse=made[-1]))
        return made

    assert [everything(index, query) for index in anyio.run(build_all)] == [
        everything(ToolIndex.of(specs), query) for specs in versions
    ]


@given(SPECS, QUERIES, st.sets(st.integers(0, 11)))
def test_a_view_shows_only_what_its_own_tools_have(
    specs: list[Spec], query: str, chosen: set[int]
) -> None:
    inside = [spec for place, spec in enumerate(specs) if place in chosen]
    view = {spec.name for spec in inside}
    whole, alone = ToolIndex.of(specs), ToolIndex.of(inside)

    assert everything(whole.among(view), query) == everything(alone, query)


def test_a_word_is_not_taken_apart_or_found_in_another_because_of_a_hidden_tool() -> None:
    seen = [tool("launch", "Launch a rocket."), tool("stop", "Stop a rocket."), tool("both")]
    seen[2] = replace(seen[2], description="A payrollrocket.")
    hidden = [tool("pay", "A payroll."), tool("roll", "The payroll.")]
    whole, view = ToolIndex.of([*seen, *hidden]), {spec.name for spec in seen}

    for query in ("payrollstop", "rocket", "launch rocket"):
        assert whole.among(view).search(query) == ToolIndex.of(seen).search(query)
    with pytest.raises(KeyError):
        whole.among(view).explain("payroll", "pay")


async def test_a_large_catalogue_is_indexed_in_slices() -> None:
    turns = 0
    done = False

    async def count_turns() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count_turns)
        await anyio.lowlevel.checkpoint()
        before = turns
        index = await ToolIndex.build(tool(f"tool_{n}", "Find it.") for n in range(1_000))
        done = True

    assert (turns - before >= 3, len(index.search("find it", limit=2_000).names)) == (True, 1_000)


def test_frequent_words_are_scored_from_their_best_and_looked_up_for_the_leaders() -> None:
    many = [tool(f"item_{n:04}", "Common word." + " extra" * (n % 7)) for n in range(2_300)]
    index = ToolIndex.of([*many, tool("zz_rare_item", "Common word, and a rare one.")])
    view = {f"item_{n:04}" for n in range(2_290, 2_300)} | {"zz_rare_item"}

    assert names(index, "rare common", limit=2) == ("zz_rare_item", "item_0000")
    assert names(index.among(view), "rare common", limit=2) == ("zz_rare_item", "item_2296")
    assert names(index, "common item", limit=1_500)[:2] == ("item_0000", "item_0007")
    assert names(index, "common", limit=0) == ()
    half = ToolIndex.of([*index.specs.values(), *(tool(f"thing_{n}") for n in range(3_000))])
    assert names(half, "rare common", limit=2) == ("zz_rare_item", "item_0000")
    assert names(half, "common thing", limit=1) == ("item_0000",)


PULLS = (
    tool("pulls_list", "List pull requests. Closed ones too, if you ask for them with a state."),
    tool("pulls_get", "Get a pull request. Every field of it, and its reviews and commits."),
    tool("pull_request_list_requests", "List the pull requests that request a list of reviewers."),
    tool("list_pulls", "Show what was pulled from a list."),
    tool("request_pull", "Request a pull. List who pulls."),
)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("list pull requests", "pulls_list"),
        ("List the Pull Requests.", "pulls_list"),
        ("get pull requests", "pulls_get"),
        ("pulls_list", "pulls_list"),
        ("list pulls", "list_pulls"),
        ("listPulls", "list_pulls"),
        ("pull request list requests", "pull_request_list_requests"),
    ],
)
def test_an_exact_name_or_summary_comes_first(query: str, first: str) -> None:
    index = ToolIndex.of([*PULLS, *MAIL])
    view = {spec.name for spec in PULLS}

    assert names(index, query)[0] == names(index.among(view), query)[0] == first


def test_a_short_name_does_not_lose_to_a_long_one_that_repeats_its_words() -> None:
    long = [tool(f"user_list_users_{n}", "List a user, the users of it, and users.") for n in "xyz"]
    short = tool("users_list", "All people with an account, page by page, in the order they came.")

    assert names(ToolIndex.of([*long, short, *MAIL]), "lists of all users", limit=1) == (
        "users_list",
    )


def test_a_name_that_the_query_contains_comes_before_one_with_other_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = tool("game_score", "Numbers of a player.")
    long = tool("player_game_score_fetch", "Numbers.")
    index = ToolIndex.of([short, long, *MAIL])

    assert names(index, "score of a player in a game") == ("game_score", "player_game_score_fetch")
    monkeypatch.setattr(ranking, "WHOLE_NAME", 0.0)
    assert names(index, "score of a player in a game") == ("player_game_score_fetch", "game_score")


def test_titles_that_were_dropped_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "MAX_TITLES", 1)

    assert names(ToolIndex.of(PULLS), "list pull requests", limit=1) == ("pulls_list",)


def count_calls(index: ToolIndex, query: str) -> int:
    """Return how many Python functions a search calls, a measure that no other program changes."""
    calls = 0

    def count(_frame: object, event: str, _value: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    index.search(query)
    sys.setprofile(before)
    return calls


def test_a_word_that_every_tool_has_is_scored_for_a_few_tools_only() -> None:
    many = [tool(f"item_{n:05}", f"A kite of Acme, number {n % 3}.") for n in range(10_000)]
    index = ToolIndex.of([*many, tool("acme_kite", "An account."), tool("zz", "A rare kite.")])
    view = index.among({spec.name for spec in many[1:]} | {"acme_kite"})

    assert names(index, "acme", limit=2) == ("acme_kite", "item_00000")
    assert names(index, "kite rare", limit=2) == ("zz", "acme_kite")
    assert names(view, "acme", limit=1) == ("acme_kite",)
    assert names(index.among({spec.name for spec in many}), "kite", limit=1) == ("item_00000",)
    fresh = ToolIndex.of(index.specs.values())
    fresh.search("warm up")
    assert count_calls(fresh, "acme kite") < len(fresh)
    fresh = ToolIndex.of(tool(f"up_{n}") for n in range(10_000))
    assert (count_calls(fresh, "up") < len(fresh), len(names(fresh, "up"))) == (True, 5)


async def test_an_index_that_grew_many_times_finds_and_explains_all_tools() -> None:
    base = [tool(f"base_{n}", "An old tool.") for n in range(20)]
    index = await ToolIndex.build(base)
    for n in range(10):
        index = await ToolIndex.build(
            [*index.specs.values(), tool(f"new_{n}", "A kite.")], reuse=index
        )
    kept = [spec for spec in index.specs.values() if spec.name not in {"base_0", "base_1"}]
    index = await ToolIndex.build([*kept, tool("base_0", "A changed tool.")], reuse=index)
    fresh = ToolIndex.of(index.specs.values())
    queries = ("old tool", "kite", "new 9", "base 3", "olld chnged")

    assert [index.search(query) for query in queries] == [fresh.search(query) for query in queries]
    assert [index.explain("kite tool", name) for name in ("base_3", "new_9")] == [
        fresh.explain("kite tool", name) for name in ("base_3", "new_9")
    ]
    small = await ToolIndex.build([base[0]], reuse=index)
    assert everything(small, "old tool") == everything(ToolIndex.of([base[0]]), "old tool")


async def test_a_change_in_the_middle_of_many_tools_is_found() -> None:
    many = [tool(f"item_{n:04}", "An old tool.") for n in range(1_000)]
    changed = [*many[:500], tool("item_0500", "A kite."), *many[502:]]
    index = await ToolIndex.build(changed, reuse=await ToolIndex.build(many))
    same = await ToolIndex.build(many, reuse=await ToolIndex.build(many))
    fresh = ToolIndex.of(changed)

    assert [everything(index, query) for query in ("kite", "old tool", "item 0501")] == [
        everything(fresh, query) for query in ("kite", "old tool", "item 0501")
    ]
    assert everything(same, "old") == everything(ToolIndex.of(many), "old")


def test_scores_that_were_dropped_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "MAX_CACHED", 1)
    index = ToolIndex.of(MAIL)

    assert [names(index, query)[0] for query in ("send", "event", "send")] == [
        "mail__send_message",
        "calendar__create_event",
        "mail__send_message",
    ]
