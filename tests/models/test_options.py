"""Functions that make models share their options. An option of its own is a decision."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from handrail.models import anthropic, gemini, openai_chat, openai_responses
from models.test_settings import MERGED, SETTINGS
from page_tables import names, section

MAKERS = (anthropic, gemini, openai_chat, openai_responses)
ROOT = Path(__file__).parents[2]
OWN = {
    "anthropic": {"cache", "parallel", "search", "stop"},
    "gemini": {"stop"},
    "openai_chat": {"cache_key", "parallel", "stop"},
    "openai_responses": {"cache_key", "parallel", "search", "store"},
}
"""Options that not every API has."""
FIRST = set(
    "base_url cache cache_key client effort key max_tokens options output parallel retries search "
    "server_tools stop store stream temperature".split()
)
"""Options of the first release, whose changelog does not list them one by one."""


def test_all_share_their_options_and_defaults() -> None:
    named = {make.__name__: set(inspect.signature(make).parameters) for make in MAKERS}
    shared = set.intersection(*named.values())
    assert {maker: names - shared for maker, names in named.items()} == OWN

    for name in options():
        found = [inspect.signature(make).parameters.get(name) for make in MAKERS]
        assert len({repr(one.default) for one in found if one}) == 1, name
        types = {str(one.annotation) for one in found if one and name != "client"}
        assert len(types) <= 1, name


def options() -> set[str]:
    return {name for make in MAKERS for name in inspect.signature(make).parameters} - {"name"}


def missing(names: set[str]) -> dict[str, set[str]]:
    """What options that came after the first release still lack."""
    later = names - FIRST
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    tested = {name for tables in (SETTINGS, MERGED) for sent, _ in tables.values() for name in sent}
    return {
        "a row in the table SETTINGS of test_settings.py": later - tested,
        "a row under Settings in docs/models/index.md": later - listed("## Settings", "parameter"),
        "a line in CHANGELOG.md": {
            name for name in later if not re.search(rf"\b{name}(=|`)", changelog)
        },
    }


def listed(heading: str, head: str) -> set[str]:
    return {*names(section("docs/models/index.md", heading), head)}


def test_each_new_option_has_a_test_a_place_on_the_page_and_a_changelog_line() -> None:
    assert {what: names for what, names in missing(options()).items() if names} == {}


@pytest.mark.parametrize("name", ["top_q", "timeout"])  # the page passes `timeout` to an SDK
def test_an_option_without_them_is_found(name: str) -> None:
    assert [*missing({name, "effort"}).values()] == [{name}, {name}, {name}]
