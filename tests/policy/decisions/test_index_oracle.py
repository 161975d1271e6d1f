"""The index may find too many rules, never too few: held against trying every rule there is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handrail import Access, Allow, Ask, Call, CheckedCall, Deny, Effect, Spec
from handrail.permissions import Origin, Verdict
from handrail.policy import Mode, Rule, Rulebook
from policy.rule_tables import read_rule

SPEC = Spec(
    name="tool", description="A tool.", input_schema={"type": "object"}, effect=Effect.DESTROY
)
CALL = Call("tool", "{}", "c1")

SEGMENTS = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        "a.py",
        ".py",
        ".env",
        ".git",
        "a.tar.gz",
        "..",
        "x.b",
        ".",
        "a:b",
        "a b",
        "é",
        "",
    ]
)
GLOBS = st.one_of(
    SEGMENTS,
    st.sampled_from(
        ["*", "**", "?", "a*", "*b", "*.py", "*.gz", "*.*", "?.py", "a**b", "*.", "[a]"]
    ),
    st.text("ab.*?", min_size=1, max_size=4),
)
SCHEMES = st.sampled_from(["file:", "file:/", "file:../", "net:", "db:"])
HOSTS = st.sampled_from(
    ["net:a.com", "net:a.com:443", "net:*.com", "net:*", "net:a.com:443/x", "net:?.com/**"]
)


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda scheme, path: scheme + "/".join(path), SCHEMES, st.lists(parts, max_size=4)
    )


RESOURCES = st.one_of(st.just("*"), joined(SEGMENTS), HOSTS, joined(GLOBS))
PATTERNS = st.one_of(st.just("*"), joined(GLOBS), HOSTS)
VERBS = st.sampled_from(list(Effect))
ACCESSES = st.lists(st.builds(Access, VERBS, RESOURCES), max_size=3)
TOUCHES = st.builds(
    lambda verbs, pattern: f"{'|'.join(verb.name.lower() for verb in sorted(verbs))} {pattern}",
    st.sets(VERBS, min_size=1),
    PATTERNS,
)
"""Accesses as a rule writes them."""
VERDICTS: st.SearchStrategy[Verdict] = st.sampled_from(["allow", "ask", "deny"])


@st.composite
def rules(draw: st.DrawFn) -> list[Rule]:
    made = draw(st.lists(st.tuples(VERDICTS, st.lists(TOUCHES, max_size=3)), max_size=8))
    return [
        read_rule(id=f"r{n}", decide=decide, **({"access": touches} if touches else {"tools": "*"}))
        for n, (decide, touches) in enumerate(made)
    ]


BY_MODE: dict[Mode, dict[Effect, Verdict]] = {
    Mode.PLAN: {Effect.READ: "allow", Effect.WRITE: "deny", Effect.DESTROY: "deny"},
    Mode.ASK: {Effect.READ: "allow", Effect.WRITE: "ask", Effect.DESTROY: "ask"},
    Mode.EDITS: {Effect.READ: "allow", Effect.WRITE: "allow", Effect.DESTROY: "ask"},
    Mode.OPEN: {Effect.READ: "allow", Effect.WRITE: "allow", Effect.DESTROY: "allow"},
}


def mode_effect(access: Access) -> Effect:
    """What a mode takes an access for: sending to a host cannot be undone."""
    is_sent = access.verb is Effect.WRITE and access.resource.startswith("net:")
    return Effect.DESTROY if is_sent else access.verb


def is_protected(access: Access) -> bool:
    """Whether no mode lets this pass; of all that is drawn here, only .git is protected."""
    scheme, _, path = access.resource.partition(":")
    return scheme == "file" and ".git" in path.split("/") and access.verb > Effect.READ


def expected(book: Sequence[Rule], accesses: Sequence[Access], mode: Mode) -> str:
    """What is decided, said as the guide says it, with every rule tried."""

    def means(rule: Rule) -> bool:
        pairs = [(touch, access) for touch in rule.touches for access in accesses]
        return not rule.touches or any(touch.meets(access) for touch, access in pairs)

    def may_mean(rule: Rule) -> bool:
        return any(touch.may_meet(access) for touch in rule.touches for access in accesses)

    denies = [rule for rule in book if rule.decide == "deny"]
    if any(map(means, denies)):
        return "deny"
    by_mode = BY_MODE[mode][max(map(mode_effect, accesses), default=SPEC.effect)]
    if by_mode == "deny":
        return "deny"
    asks = any(rule.decide == "ask" and means(rule) for rule in book)
    if asks or any(map(may_mean, denies)) or any(map(is_protected, accesses)):
        return "ask"
    allows = [rule for rule in book if rule.decide == "allow"]
    covered = {
        access
        for access in accesses
        if any(touch.covers(access) for rule in allows for touch in rule.touches)
    }
    if any(not rule.touches for rule in allows) or (covered and covered == set(accesses)):
        return "allow"
    return by_mode


def decided(book: Rulebook, accesses: Sequence[Access]) -> str:
    said = book(CheckedCall.recorded(CALL, SPEC, tuple(accesses)))
    return {Allow: "allow", Ask: "ask", Deny: "deny"}[type(said)]


MODES = st.sampled_from([Mode.PLAN, Mode.ASK, Mode.EDITS, Mode.OPEN])


@given(rules(), ACCESSES, MODES)
def test_the_index_decides_as_trying_every_rule_does(
    book: list[Rule], accesses: list[Access], mode: Mode
) -> None:
    wanted = expected(book, accesses, mode)
    assert decided(Rulebook(book, mode=mode, root=False), accesses) == wanted


@given(rules(), ACCESSES, MODES, st.randoms())
def test_no_order_of_rules_or_accesses_changes_a_decision(
    book: list[Rule], accesses: list[Access], mode: Mode, chance: object
) -> None:
    first = Rulebook(book, mode=mode, root=False)
    other = list(book)
    chance.shuffle(other)  # type: ignore[attr-defined]
    second = Rulebook(other, mode=mode, root=False)
    there, back = tuple(accesses), tuple(reversed(accesses))
    assert first(CheckedCall.recorded(CALL, SPEC, there)) == second(
        CheckedCall.recorded(CALL, SPEC, there)
    )
    assert decided(first, there) == decided(second, back)


@given(TOUCHES, st.builds(Access, VERBS, RESOURCES))
@example("* file:**/.env", Access(Effect.READ, "file:.env"))
@example("* net:a.com/443", Access(Effect.READ, "net:a.com:443"))
@example("* file:a/**", Access(Effect.READ, "file:a"))
def test_whatever_a_touch_means_the_index_finds(written: str, access: Access) -> None:
    rule = read_rule(decide="deny", access=written)
    [touch] = rule.touches
    verdicts = {
        matched.verdict
        for matched in Rulebook([rule], mode="open", root=False, sandboxed=True).explain(
            CheckedCall.recorded(CALL, SPEC, (access,))
        )
        if matched.origin == rule.origin
    }

    assert verdicts == {
        verdict
        for verdict, means in (("deny", touch.meets(access)), ("ask", touch.may_meet(access)))
        if means
    }


@given(
    rules(),
    st.lists(
        st.tuples(st.sampled_from(["judge", "add", "drop", "switch"]), st.integers(0, 7), MODES),
        max_size=12,
    ),
    st.lists(st.builds(Access, VERBS, RESOURCES), min_size=1, max_size=4),
)
def test_what_is_remembered_of_decisions_is_never_stale(
    pool: list[Rule], steps: list[tuple[str, int, Mode]], accesses: list[Access]
) -> None:
    """Single accesses, which are remembered, between changes of rules and of the mode."""
    book = Rulebook(mode="ask", root=False)
    for what, place, mode in steps:
        if what == "switch":
            book.set_mode(mode)
        elif what == "add" and place < len(pool) and pool[place] not in book.rules:
            book.add(pool[place])
        elif what == "drop" and place < len(pool):
            book.remove(pool[place])
        for access in accesses:
            assert decided(book, [access]) == expected(book.rules, [access], book.mode)


def test_a_spec_that_changed_is_judged_as_it_is_now() -> None:
    deny = Rule(decide="deny", origin=Origin("r"), tags=frozenset({"risky"}))
    book = Rulebook([deny], mode="edits")
    accesses = (Access(Effect.WRITE, "file:a"),)
    safe = Spec(name="t", description="t", input_schema={}, effect=Effect.WRITE)
    risky = Spec(
        name="t", description="t", input_schema={}, effect=Effect.WRITE, tags=frozenset({"risky"})
    )
    said = [
        type(book(CheckedCall.recorded(CALL, spec, accesses)))
        for spec in (safe, risky, safe, risky)
    ]
    assert said == [Allow, Deny, Allow, Deny]


# What the oracle found, and what came with it

BASH = Spec(name="bash", description="b", input_schema={}, effect=Effect.DESTROY)


def line(policy: Rulebook, command: str) -> str:
    said = policy(
        CheckedCall.recorded(
            Call("bash", {"command": command}, "1"), BASH, (Access(Effect.DESTROY, "*"),)
        )
    )
    return type(said).__name__


def reads(policy: Rulebook, path: str) -> str:
    return decided(policy, [Access(Effect.READ, f"file:{path}")])


@pytest.mark.parametrize(
    ("kept", "wide"),
    [
        ("file:src/*", "src"),
        ("file:src/*.pem", "src"),
        ("file:src/**/k", "src"),
        ("file:/etc/**", "/"),
        ("file:src/keys/**", "."),
        ("file:src/keys/**", ".."),
        ("file:src/keys/**", "/"),
        ("file:../k/**", "../.."),
    ],
)
def test_what_may_hold_what_is_denied_is_asked_about(kept: str, wide: str) -> None:
    policy = Rulebook.from_toml(f'[[rule]]\ndecide = "deny"\naccess = "read {kept}"\n')
    assert reads(policy, wide) == "ask"


@pytest.mark.parametrize("wide", ["..", "../..", "/"])
def test_what_holds_the_workspace_is_asked_about_as_the_workspace_is(wide: str) -> None:
    policy = Rulebook.from_toml('[[rule]]\ndecide = "deny"\naccess = "read file:**/*.pem"\n')
    assert reads(policy, ".") == "ask"
    assert reads(policy, wide) == "ask"


def test_a_file_elsewhere_is_not_wider_than_a_folder_that_is_denied() -> None:
    policy = Rulebook.from_toml('[[rule]]\ndecide = "deny"\naccess = "read file:src/keys/**"\n')
    assert reads(policy, "/tmp/x.txt") == "allow"  # noqa: S108  a name
    assert reads(policy, "../lib/a.py") == "allow"


@pytest.mark.parametrize("verbs", ["*", "destroy", "write|destroy"])
@pytest.mark.parametrize("decide", ["deny", "ask"])
def test_a_rule_about_everything_means_shell_lines_too(verbs: str, decide: str) -> None:
    policy = Rulebook.from_toml(
        '[[rule]]\ndecide = "allow"\ncommand = "echo"\noperands = ["text*"]\n'
        f'[[rule]]\ndecide = "{decide}"\naccess = "{verbs} *"\n'
    )
    assert line(policy, "echo hi") == decide.capitalize()


@pytest.mark.parametrize("kind", ["path", "file", "subpath", "dot_path", "name", "assignment"])
def test_no_kind_of_operand_hides_a_path_from_a_deny(kind: str) -> None:
    policy = Rulebook.from_toml(
        f'[[rule]]\ndecide = "allow"\ncommand = "wc"\noperands = ["{kind}*"]\nread_only = true\n'
        f'flags = ["-f:{kind}", "--file={kind}"]\n'
        '[[rule]]\ndecide = "allow"\ncommand = "wc src/keys/k"\n'
        '[[rule]]\ndecide = "deny"\naccess = ["* file:src/keys/**", "* file:**/*.pem"]\n'
    )
    words = ["src/keys/k", "./src/keys/k", "key.pem", "x=src/keys/k", "a:key.pem"]
    lines = [f"wc {before}{word}" for before in ("", "-f ", "--file=") for word in words]
    assert {one: line(policy, one) for one in lines} == dict.fromkeys(lines, "Deny")


@pytest.mark.parametrize(
    ("denied", "command"),
    [("a/a/x", "cd a && cd a && foo x"), ("a/b/x", "cd a && foo x && cd b && foo x")],
)
def test_a_command_said_twice_is_looked_at_where_it_runs(denied: str, command: str) -> None:
    rule = f'[[rule]]\ndecide = "deny"\naccess = "* file:{denied}"\n'
    assert line(Rulebook.from_toml(rule, mode="open", sandboxed=True), command) == "Deny"
