"""Rules that can never decide anything: their author hears of it, and of no others."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import (
    DESTROY,
    READ,
    WRITE,
    Access,
    Call,
    CheckedCall,
    Effect,
    Executor,
    Registry,
    Spec,
    Toolset,
    tool,
)
from handrail.policy import Level, Rule, Rulebook, parse

NOON = datetime(2027, 1, 1, 12, tzinfo=UTC)


def rules(*bodies: str) -> tuple[Rule, ...]:
    text = "\n".join(f"[[rule]]\nid = 'r{at}'\n{body}\n" for at, body in enumerate(bodies))
    return parse(text, file="r.toml", level=Level.USER).rules


def spec(name: str, effect: Effect = WRITE, tags: frozenset[str] = frozenset()) -> Spec:
    return Spec(name=name, description="", input_schema={}, effect=effect, tags=tags)


def said(*bodies: str, specs: tuple[Spec, ...] = ()) -> tuple[str, ...]:
    book = Rulebook(rules(*bodies), clock=NOON.timestamp)
    return tuple(map(str, book.unreachable_rules(specs)))


def test_nothing_is_said_of_rules_that_may_decide() -> None:
    assert (
        said(
            "decide = 'deny'\ntools = 'a'",
            "decide = 'allow'\ntools = 'b'\nexpires = 2027-01-02",
            "decide = 'ask'\ntags = 'x'",
        )
        == ()
    )
    assert said() == ()


@pytest.mark.parametrize(
    "expires", ["2026-12-31", "2027-01-01", "2027-01-01T12:00:00Z", "0001-01-01T00:00:00+23:59"]
)
def test_a_rule_that_has_expired_is_told(expires: str) -> None:
    assert said(f"decide = 'deny'\ntools = 'a'\nexpires = {expires}") == (
        "r0 (r.toml:1): it has expired",
    )


def test_a_rule_that_expires_later_is_not_told() -> None:
    assert said("decide = 'deny'\ntools = 'a'\nexpires = 2027-01-01T12:00:01Z") == ()


def test_a_rule_for_a_tool_that_there_is_not_is_told_once_tools_are_known() -> None:
    body = "decide = 'deny'\ntools = ['bsh', 'ba*', 'save', 'x?']"

    assert said(body) == ()
    assert said(body, specs=(spec("bash"), spec("save"))) == (
        "r0 (r.toml:1): no tool is named 'bsh'",
        "r0 (r.toml:1): no tool is named 'x?'",
    )


HIDDEN = [
    ("decide = 'deny'\ntools = 'a'", "decide = 'allow'\ntools = 'a'"),
    ("decide = 'deny'\ntools = 'a'", "decide = 'ask'\ntools = 'a'"),
    ("decide = 'ask'\ntools = 'a'", "decide = 'allow'\ntools = 'a'"),
    ("decide = 'deny'\ntools = '*'", "decide = 'allow'\ntools = ['a', 'b*']"),
    ("decide = 'deny'\ntools = ['a', 'b*']", "decide = 'allow'\ntools = ['b*']\nargs = { n = 1 }"),
    (
        "decide = 'deny'\ntools = 'a'",
        "decide = 'allow'\ntools = 'a'\ntags = 'x'\neffects = 'read'\nexpires = 2028-01-01",
    ),
    ("decide = 'deny'\ntags = ['x', 'y']", "decide = 'allow'\ntags = 'x'"),
    (
        "decide = 'deny'\neffects = ['write', 'destroy']",
        "decide = 'allow'\neffects = 'destroy'\ntools = 'a'",
    ),
    (
        "decide = 'deny'\naccess = 'read|write file:src/**'",
        "decide = 'allow'\naccess = 'write file:src/**'",
    ),
    (
        "decide = 'deny'\naccess = '* *'",
        "decide = 'allow'\naccess = ['write file:a', 'read net:**']",
    ),
    ("decide = 'deny'\ntools = 'bash'", "decide = 'allow'\ntools = 'bash'\ncommand = 'git log'"),
    ("decide = 'deny'\ncommand = 'git'", "decide = 'allow'\ncommand = ['git log', 'git status']"),
    (
        "decide = 'deny'\ncommand = 'git push'",
        "decide = 'allow'\ncommand = 'git push'\nflags = 'any'",
    ),
    ("decide = 'ask'\ncommand = '*'", "decide = 'allow'\ncommand = 'git'"),
]


@pytest.mark.parametrize(("strong", "weak"), HIDDEN)
def test_a_rule_that_a_stricter_one_always_overrules_is_told(strong: str, weak: str) -> None:
    reason = "it never decides, because"

    assert said(strong, weak) == (
        f"r1 (r.toml:{strong.count(chr(10)) + 5}): {reason} r0 (r.toml:1) always does",
    )
    assert said(weak, strong) == (
        f"r0 (r.toml:1): {reason} r1 (r.toml:{weak.count(chr(10)) + 5}) always does",
    )


@pytest.mark.parametrize(
    ("strong", "weak"),
    [
        ("decide = 'allow'\ntools = 'a'", "decide = 'allow'\ntools = 'a'"),
        ("decide = 'deny'\ntools = 'a'\nexpires = 2028-01-01", "decide = 'allow'\ntools = 'a'"),
        ("decide = 'deny'\ntools = 'a'", "decide = 'allow'\ntools = ['a', 'b']"),
        ("decide = 'deny'\ntools = 'a*'", "decide = 'allow'\ntools = 'ab'"),
        ("decide = 'deny'\ntools = 'a'", "decide = 'allow'\ntags = 'x'"),
        ("decide = 'deny'\ntags = 'x'", "decide = 'allow'\ntools = 'a'"),
        ("decide = 'deny'\ntags = 'x'", "decide = 'allow'\ntags = ['x', 'y']"),
        ("decide = 'deny'\neffects = 'read'", "decide = 'allow'\ntools = 'a'"),
        ("decide = 'deny'\neffects = 'read'", "decide = 'allow'\neffects = ['read', 'write']"),
        ("decide = 'deny'\nargs = { n = 1 }", "decide = 'allow'\nargs = { n = 1 }"),
        ("decide = 'deny'\ntools = 'a'\nargs = { n = 1 }", "decide = 'allow'\ntools = 'a'"),
        (
            "decide = 'deny'\naccess = 'write file:src/**'",
            "decide = 'allow'\naccess = 'read|write file:src/**'",
        ),
        (
            "decide = 'deny'\naccess = 'write file:src/**'",
            "decide = 'allow'\naccess = ['write file:src/**', 'write file:b']",
        ),
        ("decide = 'deny'\naccess = 'write file:src/**'", "decide = 'allow'\ntools = 'a'"),
        ("decide = 'deny'\naccess = 'write *'", "decide = 'allow'\ncommand = 'git'"),
        ("decide = 'deny'\ncommand = 'git push'", "decide = 'allow'\ncommand = 'git'"),
        ("decide = 'deny'\ncommand = 'git'", "decide = 'allow'\ncommand = ['git log', 'npm test']"),
        ("decide = 'deny'\ncommand = 'git'", "decide = 'allow'\ntools = 'bash'"),
        (
            "decide = 'deny'\ntools = 'bash'\ncommand = 'git'",
            "decide = 'allow'\ncommand = 'git log'",
        ),
    ],
)
def test_where_it_is_in_doubt_nothing_is_told(strong: str, weak: str) -> None:
    assert said(strong, weak) == ()


PIECES = st.tuples(
    st.sampled_from(["allow", "ask", "deny"]),
    st.sampled_from(["", "tools = 'a'", "tools = ['a', 'b']", "tools = '*'", "tools = 'bash'"]),
    st.sampled_from(["", "tags = 'x'", "tags = ['x', 'y']"]),
    st.sampled_from(["", "effects = 'write'", "effects = ['write', 'destroy']"]),
    st.sampled_from(
        [
            "",
            "access = 'write file:src/**'",
            "access = '* file:src/**'",
            "access = 'write *'",
            "command = 'git'",
            "command = 'git log'",
            "command = ['git log', 'npm']",
        ]
    ),
).filter(lambda one: any(one[1:]))


@given(st.lists(PIECES, min_size=2, max_size=4))
def test_a_rule_that_is_told_never_decides(pieces: list[tuple[str, ...]]) -> None:
    made = rules(
        *("\n".join([f"decide = '{decide}'", *filter(None, more)]) for decide, *more in pieces)
    )
    book = Rulebook(made)
    unreachable = {found.rule.origin.rule for found in book.unreachable_rules()}
    calls = [
        (spec(name, effect, frozenset(tags)), access)
        for name in ("a", "b", "bash")
        for effect in (READ, WRITE, DESTROY)
        for tags in ("", "x", "y")
        for access in (Access(effect, "file:src/a"), Access(effect, "file:b"), Access(effect, "*"))
    ]
    deciding = {
        decision.origin.rule
        for one, access in calls
        for line in ("git log", "npm", "git; npm")
        if (
            decision := book(
                CheckedCall.recorded(Call(one.name, {"command": line}, "1"), one, (access,))
            )
        ).origin
        is not None
    }

    assert unreachable & deciding == set()


@tool(effect=READ)
def look() -> None:
    """Look."""


@pytest.mark.parametrize("file", ["toolset.toml", "registry.toml", "later.toml"])
@pytest.mark.parametrize("named", ["loook", "loko", "look", "loo*", "deploy", "lock_all"])
def test_a_rule_with_almost_the_name_of_a_tool_is_logged_once(
    named: str, file: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`deploy` may be a tool of another program with the same rules. Tools may come later."""
    book = Rulebook.from_toml(f"[[rule]]\ndecide = 'deny'\ntools = '{named}'\n", file=file)
    registry = Registry()
    executor = Executor(registry, policy=book) if file == "later.toml" else None
    registry.add(Toolset(look))
    for _ in range(2):
        if executor is not None:
            executor.refresh_tools()
        else:
            Executor(registry if file == "registry.toml" else Toolset(look), policy=book)

    told = f"deny {named} ({file}:1): no tool is named '{named}'. Closest: look."
    assert caplog.messages == ([told] if named in {"loook", "loko"} else [])


def test_a_policy_without_rules_names_no_tools() -> None:
    assert Rulebook().named_tools == {}
    assert [*Rulebook(rules("decide = 'deny'\ntools = ['a', 'b?']")).named_tools] == ["a"]
