"""Which tools rules and modes deny whatever the arguments are, and which they always ask about."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import (
    DESTROY,
    READ,
    WRITE,
    Access,
    Allow,
    Call,
    CheckedCall,
    Decision,
    Deny,
    Effect,
    Executor,
    Exposure,
    Spec,
    Toolset,
    tool,
)
from handrail.policy import Rulebook


def spec(name: str = "save", effect: Effect = WRITE, *tags: str) -> Spec:
    return Spec(name=name, description="", input_schema={}, effect=effect, tags=frozenset(tags))


def book(rule: str = "", **options: Any) -> Rulebook:
    return Rulebook.from_toml(f"[[rule]]\n{rule}\n" if rule else "", **options)


@pytest.mark.parametrize(
    ("rule", "mode", "tool_spec", "never"),
    [
        ("", "plan", spec(), True),
        ("", "plan", spec(effect=READ), False),
        ("", "ask", spec(effect=DESTROY), False),
        ('decide = "deny"\ntools = ["sa*"]', "open", spec(), True),
        ('decide = "deny"\ntools = ["other"]', "open", spec(), False),
        ('decide = "deny"\ntags = ["x"]', "open", spec("a", READ, "x"), True),
        ('decide = "deny"\neffects = ["destroy"]', "open", spec(effect=DESTROY), True),
        ('decide = "deny"\ntools = ["save"]\nargs = {a = "x"}', "open", spec(), False),
        ('decide = "deny"\ntools = ["save"]\naccess = ["write file:x"]', "open", spec(), False),
        ('decide = "deny"\ntools = ["save"]\naccess = ["write *"]', "open", spec(), True),
        ('decide = "deny"\ntools = ["save"]\nexpires = 2030-01-01', "open", spec(), False),
        ('decide = "ask"\ntools = ["save"]', "open", spec(), False),
        ('decide = "allow"\ntools = ["save"]', "plan", spec(), True),
        ('decide = "deny"\ncommand = ["rm"]', "plan", spec("bash", DESTROY), False),
        ("", "plan", spec("run", DESTROY, "shell"), False),
        ("", "plan", spec("get", WRITE, "fetch"), True),
        ('decide = "allow"\ntools = ["get"]', "plan", spec("get", WRITE, "fetch"), False),
    ],
)
def test_never(rule: str, mode: str, tool_spec: Spec, *, never: bool) -> None:
    assert book(rule, mode=mode, root=False).never(tool_spec) is never


def test_never_follows_the_mode_and_the_rules() -> None:
    policy = book(mode="ask")
    assert not policy.never(spec())

    policy.set_mode("plan")
    assert policy.never(spec())

    policy.set_mode("ask")
    (rule,) = book('decide = "deny"\ntools = ["save"]').rules
    policy.add(rule)
    assert policy.never(spec())
    policy.remove(rule)
    assert not policy.never(spec())


def test_unreadable_rules_deny_every_tool() -> None:
    assert Rulebook(refusal="no rules").never(spec(effect=READ))


def test_a_tool_that_declares_what_it_touches_may_do_less_than_its_effect() -> None:
    policy = book(mode="plan")

    assert policy.denies_all(spec(), (Access(WRITE, "*"),))
    assert not policy.denies_all(spec(), (Access(READ, "file:x"),))
    assert not policy.denies_all(spec(), None)
    assert book('decide = "deny"\ntools = ["save"]').denies_all(spec(), None)


@pytest.mark.parametrize(
    ("rule", "mode", "accesses", "asks"),
    [
        ("", "ask", (Access(WRITE, "*"),), True),
        ("", "ask", (Access(READ, "*"),), False),
        ("", "ask", None, False),
        ("", "edits", (Access(WRITE, "*"),), False),
        ('decide = "ask"\ntools = ["save"]', "edits", None, True),
        ('decide = "ask"\ntools = ["save"]', "edits", (Access(WRITE, "*"),), True),
        ('decide = "ask"\ntools = ["save"]\nargs = {a = "x"}', "edits", None, False),
        ('decide = "allow"\ntools = ["save"]', "ask", (Access(WRITE, "*"),), False),
        ('decide = "deny"\nargs = {a = "x"}', "ask", (Access(WRITE, "*"),), True),
        ('decide = "deny"\nargs = {a = "x"}', "edits", (Access(WRITE, "*"),), False),
        ('decide = "ask"\nargs = {a = "x"}', "edits", (Access(WRITE, "*"),), False),
        ('decide = "allow"\nargs = {a = "x"}', "ask", (Access(WRITE, "*"),), False),
        (
            'decide = "deny"\ntools = ["save"]\nexpires = 2199-01-01',
            "edits",
            (Access(WRITE, "*"),),
            False,
        ),
        (
            'decide = "deny"\ntools = ["save"]\nexpires = 2199-01-01',
            "ask",
            (Access(WRITE, "*"),),
            True,
        ),
        (
            'decide = "deny"\ntools = ["save"]\nexpires = 2000-01-01',
            "edits",
            (Access(WRITE, "*"),),
            False,
        ),
    ],
)
def test_asks_always(
    rule: str, mode: str, accesses: tuple[Access, ...] | None, *, asks: bool
) -> None:
    assert book(rule, mode=mode).asks_always(spec(), accesses) is asks


def is_found(executor: Executor) -> bool:
    return "save" in executor.tools


@tool(effect=WRITE, exposure=Exposure.DEFERRED)
def save() -> str:
    """Save."""
    return "saved"


def touch_little() -> Access:
    return Access(READ, "file:x")


@tool(effect=WRITE, exposure=Exposure.DEFERRED, touches=touch_little)
def save_little() -> str:
    """Save."""
    return "saved"


def test_an_executor_asks_the_policy() -> None:
    tools = Toolset(save, save_little)

    assert [spec.name for spec in Executor(tools, policy=book(mode="plan")).tools.specs] == [
        "save_little",
        "search_tools",
    ]
    assert is_found(Executor(tools, policy=book(mode="ask")))


def test_the_stricter_of_two_policies_hides() -> None:
    def plain(call: CheckedCall) -> Decision:
        return Deny("no") if call.name == "save" else Allow()

    class Says:
        def __call__(self, call: CheckedCall) -> Decision:
            return Deny("no") if self.never(call.spec) else Allow()

        def never(self, spec: Spec) -> bool:
            return spec.name == "save"

    tools = Toolset(save, save_little)
    names = "save", "save_little"

    assert is_found(Executor(tools, policy=plain))
    assert not is_found(Executor(tools, policy=Says()))
    assert not is_found(Executor(tools, policy=Says()).restrict(*names, policy=plain))
    assert not is_found(Executor(tools, policy=plain).restrict(*names, policy=book(mode="plan")))
    assert is_found(Executor(tools, policy=plain).restrict(*names, policy=book(mode="ask")))


def test_a_combined_policy_asks_if_one_of_them_does() -> None:
    tools = Toolset(save, save_little)
    executor = Executor(tools, policy=book(mode="ask")).restrict(
        "save", "save_little", policy=lambda _: Allow()
    )
    found = executor.run_sync(Call("search_tools", {"names": ["save", "save_little"]}, "1"))

    assert found.text == "save() - Save [asks for approval]\nsave_little() - Save"
