"""Rules as TOML text: what a program writes is read back as it was."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handrail.policy import Level, Rule, parse

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


def toml(value: object) -> str:
    """A value as TOML, written in the simplest way."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(letter):08x}" for letter in value) + '"'
    return str(value).lower()


def written(tables: list[Mapping[str, Any]]) -> tuple[Rule, ...]:
    """Rules from tables."""
    lines = [
        "\n".join(["[[rule]]", *(f"{name} = {toml(value)}" for name, value in table.items())])
        for table in tables
    ]
    return parse("\n".join(lines), file="r.toml", level=Level.RUN).rules


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
def test_what_a_rule_writes_is_read_back_as_it_was(tables: list[Mapping[str, Any]]) -> None:
    made = written(tables)
    text = "\n".join(rule.text for rule in made)
    rules = parse(text, file="r.toml", level=Level.RUN).rules

    assert [(one.tools, one.reason, one.text) for one in rules] == [
        (tuple(table["tools"]), table.get("reason", ""), rule.text)
        for table, rule in zip(tables, made, strict=True)
    ]
    for rule, table in zip(rules, tables, strict=True):
        plain = {name: value for name, value in table.get("args", {}).items() if "." not in name}
        assert {name: rule.args[name](value) for name, value in plain.items()} == dict.fromkeys(
            plain, True
        )
        assert text.split("\n")[rule.origin.line - 1] == "[[rule]]"


def test_a_text_that_is_written_shows_all_that_is_in_it() -> None:
    [rule] = written(
        [
            {
                "decide": "deny",
                "tools": ["a\u202eb\x1b\n\"'\\é"],
                "args": {"on": date(2027, 1, 31), "a b": True},
            }
        ]
    )

    assert rule.text == (
        '[[rule]]\ndecide = "deny"\ntools = ["a\\U0000202Eb\\U0000001B\\U0000000A\\"\'\\\\é"]\nargs = { on = 2027-01-31, "a b" = true }\n'
    )


@pytest.mark.parametrize("value", [INF, -INF])
def test_a_number_without_end_is_written_as_toml_has_it(value: float) -> None:
    [made] = written([{"decide": "deny", "args": {"n": value}}])
    [rule] = parse(made.text, file="r.toml", level=Level.RUN).rules

    assert rule.fits({"n": value}) is True
