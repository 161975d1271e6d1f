"""Our stems are those of the published Snowball rules."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import snowballstemmer

from handrail._search.stems import stem

DATA = Path(__file__).parents[1] / "data" / "toolsearch"
STEP = 1 if os.environ.get("HANDRAIL_PROFILE") == "soak" else 12
"""Every word of the data for a long run, and else each twelfth."""


def data_words() -> list[str]:
    texts = (
        gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).decode()
        for name in ("tools", "queries-dev", "tools-mcp-servers")
    )
    return sorted({word for text in texts for word in re.findall("[a-z]+", text.lower())})


def wrong(words: list[str], mine: dict[str, str]) -> list[str]:
    theirs = snowballstemmer.stemmer("english")
    return [word for word in words if mine[word] != theirs.stemWord(word)]


def test_the_stems_of_the_data_are_those_of_snowball() -> None:
    words = data_words()[::STEP]

    assert len(words) > 2_000
    assert wrong(words, {word: stem(word) for word in words}) == []


def test_rare_rules_give_the_stems_of_snowball() -> None:
    words = (
        "skis skies dying tying idly gently ugly early only singly sky news atlas inning outing "
        "earring succeed proceed exceed agreed feed bleed ayyy yyy youth enjoy say happy cry by "
        "hopping hoping egging added offed controlling filed failing bled at bus gas this kiwis "
        "ties cries tied generously communism university pasted organization vietnamization "
        "analogist geology apologist operator hopefulness decisiveness callousness formality "
        "sensitivity responsibility electricity electrical hopeful goodness formative triplicate "
        "adoption replacement adjustment dependent irritant roll controll fatally badly swim"
    ).split()

    assert wrong(words, {word: stem(word) for word in words}) == []


def test_the_comparison_can_fail() -> None:
    assert wrong(["lists", "list"], {"lists": "lists", "list": "list"}) == ["lists"]
