"""Functions that make models share their options. An option of its own is a decision."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from handrail.models import anthropic, gemini, openai_chat, openai_responses

MAKERS = (anthropic, gemini, openai_chat, openai_responses)
PAGE = Path(__file__).parents[2] / "docs" / "models" / "index.md"
OWN = {
    "anthropic": {"cache", "parallel", "search", "stop"},
    "gemini": {"stop"},
    "openai_chat": {"cache_key", "parallel", "stop"},
    "openai_responses": {"cache_key", "parallel", "search", "store"},
}
"""Options that not every API has."""


def test_all_share_their_options_and_defaults() -> None:
    shared = [set(inspect.signature(make).parameters) - OWN[make.__name__] for make in MAKERS]
    assert all(names == shared[0] for names in shared)

    for name in shared[0] | set().union(*OWN.values()):
        found = [inspect.signature(make).parameters.get(name) for make in MAKERS]
        assert len({repr(one.default) for one in found if one}) == 1, name
        types = {str(one.annotation) for one in found if one and name != "client"}
        assert len(types) <= 1, name


def test_the_page_of_models_has_each_option() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = {name for make in MAKERS for name in inspect.signature(make).parameters} - {"name"}

    assert {name for name in names if not re.search(rf"\b{name}(=|`)", text)} == set()
