"""Which hosts rules open to commands."""

from __future__ import annotations

import pytest

from handrail import (
    DESTROY,
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Deny,
    Effect,
    Spec,
)
from handrail.policy import InvalidRule, Level, Rulebook, parse

BASH = Spec(name="bash", description="", input_schema={}, effect=DESTROY, tags=["shell"])


def rulebook(rules: str, level: Level = Level.USER, mode: str = "edits") -> Rulebook:
    read = parse(rules, file="rules.toml", level=level).rules
    return Rulebook(read, mode=mode, sandboxed=True, root=False)


def rule(decide: str, access: str, more: str = "") -> str:
    return f'[[rule]]\ndecide = "{decide}"\naccess = "{access}"\n{more}\n'


ONE = rule("allow", "write net:a.test/**")


@pytest.mark.parametrize(
    ("rules", "hosts"),
    [
        (ONE, ["a.test"]),
        (rule("allow", "* net:a.test"), ["a.test"]),
        (rule("allow", "write net:a.test/**", 'tools = ["bash"]'), ["a.test"]),
        (rule("allow", "write net:a.test/**", 'tools = ["web_fetch"]'), []),
        (rule("allow", "write net:a.test/**", 'args = { command = "x" }'), []),
        (rule("allow", "write net:a.test/**", "expires = 2001-01-01"), []),
        (rule("allow", "read net:a.test/**"), []),
        (rule("allow", "write net:a.test/443/docs/**"), []),
        (rule("allow", "write net:*.test/**"), []),
        (rule("allow", "write net:**"), []),
        (rule("allow", "write file:**"), []),
        (rule("allow", "* *"), []),
        (ONE + rule("deny", "* net:a.test/**"), []),
        (ONE + rule("deny", "read net:a.test/443/secret/**"), []),
        (ONE + rule("ask", "write net:**"), []),
        (ONE + rule("deny", "* net:b.test/**"), ["a.test"]),
        (ONE + rule("deny", "* net:A.test/**"), []),
        (rule("allow", "write net:A.Test"), ["a.test"]),
        (ONE + rule("deny", "write net:a.test", "args = { background = true }"), []),
        (ONE + rule("deny", "write net:a.test", "expires = 2001-01-01"), ["a.test"]),
        (ONE + rule("deny", "* net:a.test/**", 'tools = ["web_fetch"]'), ["a.test"]),
    ],
)
def test_a_rule_opens_a_host_that_it_names(rules: str, hosts: list[str]) -> None:
    assert rulebook(rules).find_hosts() == hosts


def test_no_host_is_open_where_nothing_may_change() -> None:
    assert rulebook(ONE, mode="plan").find_hosts() == []


def test_a_host_is_written_in_its_one_form() -> None:
    with pytest.raises(InvalidRule, match="write an international name in its ASCII form"):
        parse(rule("deny", "* net:bücher.test"), file="rules.toml", level=Level.USER)


def test_the_rules_of_a_workspace_open_nothing() -> None:
    asked = Access(WRITE, "net:a.test")
    call = CheckedCall.recorded(
        Call("bash", {"command": "make"}, "c1"), BASH, (Access(DESTROY, "*"), asked)
    )
    books = [rulebook(ONE, level) for level in (Level.PROJECT, Level.USER)]

    assert [book.find_hosts() for book in books] == [[], ["a.test"]]
    assert [type(book(call)) for book in books] == [Ask, Allow]


@pytest.mark.parametrize(
    ("mode", "verb", "expected"),
    [
        ("plan", WRITE, Deny),
        ("ask", WRITE, Ask),
        ("edits", WRITE, Ask),
        ("open", WRITE, Ask),
        ("edits", READ, Allow),
        ("open", READ, Allow),
    ],
)
def test_a_host_that_a_call_asks_for_needs_approval_in_every_mode(
    mode: str, verb: Effect, expected: type
) -> None:
    accesses = (Access(DESTROY, "*"), Access(verb, "net:a.test"))
    call = CheckedCall.recorded(Call("bash", {"command": "make"}, "c1"), BASH, accesses)

    assert type(rulebook("", mode=mode)(call)) is expected
    opened = rulebook(ONE, mode=mode)(call)
    assert type(opened) is {"plan": Deny, "ask": Ask}.get(mode, Allow)


def test_a_rule_against_sending_also_concerns_a_host_that_would_be_opened() -> None:
    accesses = (Access(DESTROY, "*"), Access(READ, "net:a.test"))
    call = CheckedCall.recorded(Call("bash", {"command": "make"}, "c1"), BASH, accesses)
    denied = rulebook(rule("deny", "write net:a.test/**"))(call)

    assert isinstance(denied, Deny)
    assert denied.reason == "rule 'deny write net:a.test/**' denies sending data to a.test"


def test_a_question_names_all_hosts_of_a_long_command() -> None:
    accesses = [Access(DESTROY, "*"), *(Access(WRITE, f"net:h{n}.test") for n in range(3))]
    command = f"make {'x' * 300}"
    call = CheckedCall.recorded(Call("bash", {"command": command}, "c1"), BASH, tuple(accesses))
    decision = rulebook("")(call)

    assert isinstance(decision, Ask)
    assert decision.question == (
        "Allow this command of 305 characters, and let it reach h0.test, h1.test and h2.test? "
        "(no rule lets commands reach h0.test, h1.test and h2.test)"
    )
