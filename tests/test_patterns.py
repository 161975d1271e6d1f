"""Every regular expression of the package takes linear time, whatever the text."""

from __future__ import annotations

import os
import re
from functools import cache

import pytest

from patterns import Computed, Used, collect, find_slow_text

TRIED = 500 if os.environ.get("HANDRAIL_PROFILE") == "soak" else 4
LIMITED = {
    "handrail._sources.names._FILE": 200,
    "handrail._sources.spelling._ADDRESS": 200,
    "handrail.tools._files.glob_pattern._TOKEN": 1_000,
}
"""The most characters of a text that is searched."""
COMPUTED = {
    "handrail._execution.view": "escaped text",
    "handrail._sources.lookup": "escaped text, and bounded runs",
    "handrail._sources.numbers": "escaped words, and numbers of at most 9 digits",
    "handrail._sources.spelling": "a code of at most 80 characters, with bounded gaps",
    "handrail._sources.wanted": "escaped text",
    "handrail.cli._base.hook_table": "a setting of the user, for names of tools",
    "handrail.cli._base.settings": "escaped text, in a file of the user",
    "handrail.cli._project.settings_hooks": "a setting of the user, for names of tools",
    "handrail.cli._screen.code": "tested below",
    "handrail.hooks._redact": "a pattern of the application",
    "handrail.mcp._server.resources": "an address of at most 4,000 characters",
    "handrail.policy._consequences.consequences": "escaped text",
    "handrail.policy._rules.glob": "tested below",
    "handrail.providers._schema.data": "only compiled",
    "handrail.sandbox._environment": "for values of at most 4,096 characters",
    "handrail.tools._files.glob_pattern": "tested in tests/tools",
}
"""Where a pattern is made of other text, and why it cannot take long."""
BAD = (
    (r"(?:a|a)*b", "match"),
    (r"""\[\s*(?:(['"])[^'"\n]*\1\s*,?\s*)+\]""", "search"),
    (r"(?!test|check)(?:\w+[:_-])*(?:deploy|publish)(?:[:_-]\S*)?", "fullmatch"),
    (r"mktemp(?:\s+(?:-[dqut]+|[\w./-]*X{3}[\w.]*))*\s*\)", "match"),
    (r"[. ]+(?=/|$)", "findall"),
    (r"<\s*/?\s*system", "search"),
    (r'"(?:[^"\\]|\\.)*"', "findall"),
    (r"-\w*[iow].*", "fullmatch"),
    (r"(?:[;\n]|\bdo)\s*(?::|true)?\s*>\$(\w+)", "findall"),
)
ALWAYS = {r"(?:a|a)*b", r"[. ]+(?=/|$)", r"-\w*[iow].*"}
"""One pattern for each method. The others cost much for what they add."""


@cache
def found() -> tuple[list[Used], list[Computed]]:
    return collect()


@pytest.mark.timeout(600)
def test_every_pattern_takes_linear_time() -> None:
    slow = {
        f"{used.where} {used.method}": text
        for used in found()[0]
        if (text := find_slow_text(used, TRIED, LIMITED.get(used.where, 100_000)))
    }

    assert slow == {}


def test_every_pattern_is_found() -> None:
    used, computed = found()
    names = {one.where.rpartition(".")[2] for one in used}

    assert len(used) > 350
    assert names >= {"_LIST", "_TASKS", "_DECODES", "_ELSEWHERE", "_RECORD"}
    assert {one.where for one in computed} == COMPUTED.keys()


@pytest.mark.parametrize(
    ("text", "method"),
    [
        pytest.param(*bad, marks=[] if bad[0] in ALWAYS else [pytest.mark.soak], id="-".join(bad))
        for bad in BAD
    ],
)
def test_a_bad_pattern_is_caught(text: str, method: str) -> None:
    assert find_slow_text(Used("bad", re.compile(text), method), 40) != ""


@pytest.mark.parametrize("text", [r"\d+x", r"(?<!\s)\s++a", r"[^;]*;", r'"(?:[^"\\]|\\.)*+"?'])
@pytest.mark.parametrize("method", ["match", "fullmatch"])
def test_a_good_pattern_is_not(text: str, method: str) -> None:
    assert find_slow_text(Used("good", re.compile(text), method), 40) == ""
