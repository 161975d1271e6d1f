"""Functions that make models share their options. An option of its own is a decision."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from handrail.models import anthropic, gemini, openai_chat, openai_responses

MAKERS = (anthropic, gemini, openai_chat, openai_responses)
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "models" / "index.md"
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
    shared = [set(inspect.signature(make).parameters) - OWN[make.__name__] for make in MAKERS]
    assert all(names == shared[0] for names in shared)

    for name in shared[0] | set().union(*OWN.values()):
        found = [inspect.signature(make).parameters.get(name) for make in MAKERS]
        assert len({repr(one.default) for one in found if one}) == 1, name
        types = {str(one.annotation) for one in found if one and name != "client"}
        assert len(types) <= 1, name


def options() -> set[str]:
    return {name for make in MAKERS for name in inspect.signature(make).parameters} - {"name"}


def names_in_tests() -> set[str]:
    """Names that tests of models pass, or keep in a table to pass."""
    found: set[str] = set()
    for file in Path(__file__).parent.glob("*.py"):
        if file != Path(__file__):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.keyword):
                    found.add(str(node.arg))
                elif isinstance(node, ast.Dict):
                    found |= {one.value for one in node.keys if isinstance(one, ast.Constant)}
    return found


def untold(page: Path, names: set[str]) -> set[str]:
    text = page.read_text(encoding="utf-8")
    return {name for name in names if not re.search(rf"\b{name}(=|`)", text)}


def test_each_option_has_a_test_a_place_on_the_page_and_later_ones_a_changelog_line() -> None:
    assert options() - names_in_tests() == set()
    assert untold(PAGE, options()) == set()
    assert untold(ROOT / "CHANGELOG.md", options() - FIRST) == set()


def test_an_option_without_them_is_found() -> None:
    assert {"top_q"} - names_in_tests() == {"top_q"}
    assert untold(PAGE, {"top_q", "effort"}) == {"top_q"}
    assert untold(ROOT / "CHANGELOG.md", {"top_q", "effort"} - FIRST) == {"top_q"}
