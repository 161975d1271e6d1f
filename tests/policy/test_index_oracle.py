"""The index may find too many rules, never too few: held against trying every rule there is."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from handrail import Access, Allow, Ask, Call, Deny, Effect, Spec
from handrail.judgement import Origin, Verdict
from handrail.policy import Mode, Rulebook
from handrail.policy._floor import protected
from handrail.policy._index import Index
from handrail.policy._mode import verdict
from handrail.policy._rule import Rule, Touch

SPEC = Spec(
    name="tool", description="A tool.", input_schema={"type": "object"}, effect=Effect.DESTROY
)
CALL = Call("tool", "{}", "c1")

SEGMENTS = st.sampled_from(
    ["a", "b", "ab", "a.py", ".py", ".env", "a.tar.gz", "..", "x.b", ".", "a:b", "a b", "é", ""]
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
    lambda verbs, pattern: Touch(frozenset(verbs), Access(Effect.READ, pattern).resource),
    st.sets(VERBS, min_size=1),
    PATTERNS,
)
VERDICTS: st.SearchStrategy[Verdict] = st.sampled_from(["allow", "ask", "deny"])


@st.composite
def rules(draw: st.DrawFn) -> list[Rule]:
    made = draw(st.lists(st.tuples(VERDICTS, st.lists(TOUCHES, max_size=3)), max_size=8))
    return [
        Rule(decide=decide, origin=Origin(f"r{n}"), touches=tuple(touches), text=f"r{n}")
        for n, (decide, touches) in enumerate(made)
    ]


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
    by_mode = verdict(mode, max((one.verb for one in accesses), default=SPEC.effect))
    if by_mode == "deny":
        return "deny"
    asks = any(rule.decide == "ask" and means(rule) for rule in book)
    if asks or any(map(may_mean, denies)) or any(map(protected, accesses)):
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
    said = book(CALL, SPEC, tuple(accesses))
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
    assert first(CALL, SPEC, there) == second(CALL, SPEC, there)
    assert decided(first, there) == decided(second, back)


@given(TOUCHES, st.builds(Access, VERBS, RESOURCES))
@example(Touch(frozenset(Effect), "file:**/.env"), Access(Effect.READ, "file:.env"))
@example(Touch(frozenset(Effect), "net:a.com/443"), Access(Effect.READ, "net:a.com:443"))
@example(Touch(frozenset(Effect), "file:a/**"), Access(Effect.READ, "file:a"))
def test_whatever_a_touch_means_the_index_finds(touch: Touch, access: Access) -> None:
    rule = Rule(decide="deny", origin=Origin("r"), touches=(touch,))
    index = Index([rule])
    if touch.meets(access):
        assert (touch, access) in index.speaking([access]).get(rule, [])
    if touch.may_meet(access):
        assert (touch, access) in index.below([access]).get(rule, [])


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
            book.switch(mode)
        elif what == "add" and place < len(pool) and pool[place] not in book.rules:
            book.add(pool[place])
        elif what == "drop" and place < len(pool):
            book.drop(pool[place])
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
    said = [type(book(CALL, spec, accesses)) for spec in (safe, risky, safe, risky)]
    assert said == [Allow, Deny, Allow, Deny]
