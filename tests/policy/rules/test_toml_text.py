"""Rules as TOML text: what a program writes is read back as it was."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handrail.policy import InvalidRule, Level, parse
from handrail.policy._rules.toml_text import rule_text, rules_text

INF = float("inf")
NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=6)
VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
        st.dates(),
        st.datetimes(),
        st.datetimes(timezones=st.just(UTC)),
    ),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
BARE = st.builds(
    dict,
    decide=st.just("deny"),
    tools=st.lists(NAMES, min_size=1, max_size=3),
    reason=st.text(st.characters(exclude_categories=("Cs",)), max_size=10),
    args=st.dictionaries(NAMES, VALUES, min_size=1, max_size=3),
    expires=st.one_of(st.dates(), st.datetimes(timezones=st.just(UTC))),
)


@given(st.lists(BARE, min_size=1, max_size=3))
@example(
    [
        {
            "decide": "deny",
            "tools": ['"\\\n\t\x00\x7f\x85\u2028\U0002fa1e\U000e0001😀'],
            "args": {"": 1, "a.b": 1e300, "é": -0.0},
        }
    ]
)
@example([{"decide": "deny", "tools": ["[[rule]]"], "reason": "\n[[rule]]\n"}])
def test_what_a_program_writes_is_read_back_as_it_was(tables: list[Mapping[str, Any]]) -> None:
    text = rules_text(tables)
    rules = parse(text, file="r.toml", level=Level.RUN).rules

    assert [(one.tools, one.reason, one.text) for one in rules] == [
        (tuple(one["tools"]), one.get("reason", ""), rule_text(one)) for one in tables
    ]
    for made, table in zip(rules, tables, strict=True):
        plain = {name: value for name, value in table.get("args", {}).items() if "." not in name}
        assert {name: made.args[name](value) for name, value in plain.items()} == dict.fromkeys(
            plain, True
        )
        at = [one.origin.line for one in rules].index(made.origin.line)
        assert text.split("\n")[rules[at].origin.line - 1] == "[[rule]]"


def test_a_text_that_is_written_shows_all_that_is_in_it() -> None:
    assert rule_text(
        {
            "decide": "deny",
            "tools": ["a\u202eb\x1b\n\"'\\é"],
            "on": date(2027, 1, 31),
            "a b": {"x": True},
        }
    ) == (
        '[[rule]]\ndecide = "deny"\ntools = ["a\\U0000202Eb\\U0000001B\\U0000000A\\"\'\\\\é"]\non = 2027-01-31\n"a b" = { x = true }\n'
    )


def test_half_a_character_is_written_in_a_way_that_is_refused() -> None:
    with pytest.raises(InvalidRule, match=r"^r\.toml: "):
        parse(rule_text({"decide": "deny", "tools": ["\ud800"]}), file="r.toml", level=Level.RUN)


@pytest.mark.parametrize("value", [INF, -INF])
def test_a_number_without_end_is_written_as_toml_has_it(value: float) -> None:
    [rule] = parse(
        rule_text({"decide": "deny", "args": {"n": value}}), file="r.toml", level=Level.RUN
    ).rules

    assert rule.fits({"n": value}) is True
