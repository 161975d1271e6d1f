"""Judging: deny before ask before allow, whatever the order; and every decision says who made it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import (
    DESTROY,
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Deny,
    Effect,
    Executor,
    FailureKind,
    Hook,
    Result,
    Spec,
    Toolset,
    reads_file,
    tool,
    writes_file,
)
from handrail.permissions import Origin
from handrail.policy import InvalidRule, Level, Mode, Rule, Rulebook, RuleProblem, parse, strictest
from steps import counting

STRICTNESS = {Allow: 0, Ask: 1, Deny: 2}


def spec(name: str = "save", effect: Effect = WRITE, *tags: str) -> Spec:
    return Spec(name=name, description="", input_schema={}, effect=effect, tags=frozenset(tags))


BASH = spec("bash", DESTROY)
ANYTHING = (Access(DESTROY, "*"),)


def rules(text: str, level: Level = Level.USER, file: str = "rules.toml") -> tuple[Rule, ...]:
    return parse(text, file=file, level=level).rules


def book(text: str = "", **options: Any) -> Rulebook:
    return Rulebook(rules(text), **options)


def line(policy: Rulebook, command: str) -> Decision:
    return policy(CheckedCall.recorded(Call("bash", {"command": command}, "1"), BASH, ANYTHING))


def on(policy: Rulebook, access: Access, name: str = "save", **args: Any) -> Decision:
    return policy(CheckedCall.recorded(Call(name, args, "1"), spec(name, access.verb), (access,)))


# ---------------------------------------------------------------- modes


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("plan", [Allow, Deny, Deny]),
        ("ask", [Allow, Ask, Ask]),
        ("edits", [Allow, Allow, Ask]),
        ("open", [Allow, Allow, Allow]),
    ],
)
def test_each_mode_is_a_row_of_the_table(mode: str, expected: list[type]) -> None:
    policy = book(mode=mode, root=False)

    decided = [on(policy, Access(effect, "db:orders/1")) for effect in Effect]

    assert [type(one) for one in decided] == expected
    assert {one.origin for one in decided} == {Origin(f"mode {mode}", kind="mode")}


@pytest.mark.parametrize("mode", ["ask", "edits", "open"])
@pytest.mark.parametrize(
    ("path", "why"),
    [
        (".git/hooks/pre-commit", "git runs hooks and commands from .git"),
        (".bashrc", "your shell runs it"),
        ("a/.MCP.json", "coding agents start the servers in it"),
        ("conftest.py", "pytest runs it"),
        (".github/workflows/a.yml", "CI runs it"),
    ],
)
def test_protected_paths_ask_in_every_mode_even_where_a_rule_allows_them(
    mode: str, path: str, why: str
) -> None:
    policy = book('[[rule]]\ndecide = "allow"\naccess = "* file:**"', mode=mode, root=False)

    assert on(policy, writes_file(path)) == Ask(
        f"Allow `save` to change {path}? ({path} is protected: {why})",
        Origin("protected paths", kind="built-in"),
        once=True,
    )
    assert isinstance(on(policy, reads_file(path)), Allow)


@pytest.mark.parametrize("mode", ["edits", "open"])
def test_what_a_host_wants_protected_is_asked_about_like_all_that_is(mode: str) -> None:
    allowing = '[[rule]]\ndecide = "allow"\naccess = "* file:**"'
    policy = book(allowing, mode=mode, root=False, protected=["./.config//app", "/home/me/x.py"])
    paths = [".config/app", ".config/app/a", ".CONFIG/App./a", "/home/me/x.py"]
    others = [".config", ".config/apps", "a/.config/app", "home/me/x.py", "/home/me/x.pyc"]

    assert {type(on(policy, writes_file(one))) for one in paths} == {Ask}
    assert {type(on(policy, writes_file(one))) for one in others} == {Allow}
    assert {type(on(policy, reads_file(one))) for one in paths} == {Allow}
    assert {type(on(book(allowing, mode=mode, root=False), writes_file(one))) for one in paths} == {
        Allow
    }


def test_all_of_a_workspace_may_be_protected() -> None:
    policy = book("", mode="open", root=False, protected=["."])

    assert isinstance(on(policy, writes_file("a/b")), Ask)
    assert isinstance(on(policy, reads_file("a/b")), Allow)
    assert isinstance(on(policy, Access(Effect.WRITE, "db:a")), Allow)
    assert policy.version != book("", mode="open", root=False).version


@pytest.mark.parametrize("mode", ["ask", "edits", "open"])
@pytest.mark.parametrize(
    "command",
    ["rm -rf /", "rm -rf ~", "sudo rm -r -f $HOME", "sh -c 'rm -fr /*'", "mkfs.ext4 /dev/sda"],
)
def test_catastrophic_commands_ask_in_every_mode(mode: str, command: str) -> None:
    policy = book(
        '[[rule]]\ndecide = "allow"\ncommand = ["rm", "sudo", "sh", "mkfs.ext4"]\n'
        'flags = "any"\noperands = "any"',
        mode=mode,
        sandboxed=True,
    )

    decision = line(policy, command)

    assert isinstance(decision, Ask)
    assert (decision.origin, decision.once) == (
        Origin("catastrophic commands", kind="built-in"),
        True,
    )


def test_one_file_makes_a_policy_in_its_own_mode_unless_another_is_given() -> None:
    text = 'mode = "edits"\n[[rule]]\nid = "x"\ndecide = "deny"\ntools = "y"'

    made = Rulebook.from_toml(text)

    assert (made.mode, [str(rule.origin) for rule in made.rules]) == (
        Mode.EDITS,
        ["x (rules.toml:2)"],
    )
    assert Rulebook.from_toml(text, mode="plan", file="a.toml").mode is Mode.PLAN
    assert str(Rulebook.from_toml("").mode) == "ask"


def test_the_strictest_mode_is_what_a_child_gets() -> None:
    assert strictest("open", "plan") is Mode.PLAN
    assert strictest(Mode.EDITS, "open") is Mode.EDITS


@pytest.mark.parametrize("name", ["auto", "ASK", "", "Plan"])
def test_a_mode_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(
        InvalidRule, match=f"^unknown mode {name!r}; use one of plan, ask, edits, open$"
    ):
        Mode.of(name)


def test_the_open_mode_is_refused_to_root_without_a_sandbox() -> None:
    asking = Rulebook(root=True)
    with pytest.raises(InvalidRule) as changing:
        asking.set_mode("open")
    with pytest.raises(InvalidRule) as starting:
        Rulebook(mode="open", root=True)
    reason = (
        'mode "open" is not available as root without a sandbox; run as another user, or in a '
        "sandbox (`sandboxed=True`)"
    )
    assert (str(changing.value), str(starting.value)) == (reason, reason)
    assert asking.mode is Mode.ASK

    assert Rulebook(mode="open", root=True, sandboxed=True).mode is Mode.OPEN
    assert Rulebook(mode="open", root=False).mode is Mode.OPEN


@pytest.mark.parametrize(
    ("mode", "sandboxed", "expected"),
    [
        ("plan", True, Deny),
        ("ask", True, Ask),
        ("edits", False, Ask),
        ("edits", True, Allow),
        ("open", False, Allow),
        ("open", True, Allow),
    ],
)
def test_a_command_that_no_rule_names_is_free_where_something_contains_it(
    mode: str,
    sandboxed: bool,  # noqa: FBT001
    expected: type,
) -> None:
    policy = book(mode=mode, sandboxed=sandboxed, root=False)

    assert type(line(policy, "make all")) is expected
    assert type(line(policy, "for f in *; do make $f; done")) is expected


def test_a_computed_program_asks_where_a_rule_denies_a_command() -> None:
    denies = '[[rule]]\ndecide = "deny"\ncommand = "curl"'
    policy = book(denies, mode="open", sandboxed=True)

    assert isinstance(line(policy, "make all && make $x"), Allow)
    assert isinstance(line(policy, "c=$(x)rl; $c x"), Ask)
    assert isinstance(line(policy, "c=$CURL; $c x"), Ask)
    assert isinstance(line(book(mode="open", sandboxed=True), "c=$CURL; $c x"), Allow)


def test_plan_mode_lets_a_command_run_that_only_reads_and_nothing_else() -> None:
    policy = book(
        """
        [[rule]]
        decide = "allow"
        command = "cat"
        operands = ["path*"]
        read_only = true
        [[rule]]
        decide = "allow"
        command = "touch"
        operands = ["path*"]
        """,
        mode="plan",
    )

    assert isinstance(line(policy, "cat a.txt"), Allow)
    assert line(policy, "touch a.txt") == Deny(
        "plan mode allows no changes",
        Origin("mode plan", kind="mode"),
    )
    assert isinstance(line(policy, "cat a.txt && touch b"), Deny)


# ---------------------------------------------------------------- rules


def test_a_decision_names_its_rule_its_file_and_its_line() -> None:
    policy = book('\n[[rule]]\nid = "no-env"\ndecide = "deny"\naccess = "* file:**/.env"')

    assert on(policy, reads_file("a/.env"), "load").origin == Origin("no-env", "rules.toml", 2)
    assert str(on(policy, reads_file("a/.env")).origin) == "no-env (rules.toml:2)"


def test_one_deny_of_a_resource_holds_for_every_tool_and_for_the_shell() -> None:
    policy = book(
        """
        [[rule]]
        id = "no-env"
        decide = "deny"
        access = "* file:**/.env"
        [[rule]]
        decide = "allow"
        command = ["cat", "cd", "grep -n"]
        operands = ["path*"]
        read_only = true
        """
    )
    denied = Origin("no-env", "rules.toml", 2)

    for path in (".env", "a/.env", "/home/me/.env", "../.env"):
        assert on(policy, reads_file(path), "read").origin == denied
        assert on(policy, writes_file(path), "edit").origin == denied
    for command in (
        "cat .env",
        "cd d && cat .env",
        "cat a b/.env",
        "cat < .env",
        "xxd .env",
        "python x.py --config=.env",
        "git show HEAD:.env",
        "echo $(cat .env)",
        "sh -c 'cat .env'",
    ):
        assert line(policy, command).origin == denied, command
    assert isinstance(line(policy, "cat env"), Allow)


def test_a_command_that_reads_all_below_asks_where_something_below_is_denied() -> None:
    text = """
        [[rule]]
        decide = "allow"
        command = "grep"
        flags = ["-r", "-n"]
        getopt = true
        operands = ["text", "path*"]
        read_only = true
        recursive = ["-r"]
        [[rule]]
        decide = "allow"
        command = "cd"
        operands = ["path"]
        read_only = true
        """
    denied = '[[rule]]\nid = "x"\ndecide = "deny"\naccess = "read file:{}"'
    asked = {
        pattern: [
            isinstance(line(book(text + denied.format(pattern)), command), Ask)
            for command in (
                "grep -r x .",
                "grep -rn x src",
                "grep -r x",
                "grep -n x src",
                "cd a && grep -r x",
            )
        ]
        for pattern in ("**/.env", "*.pem", "src/keys/**", "other/a")
    }

    assert asked == {
        "**/.env": [True, True, True, False, True],
        "*.pem": [True, True, True, False, True],
        "src/keys/**": [True, True, True, False, False],
        "other/a": [True, False, True, False, False],
    }


def test_an_allow_must_cover_everything_that_a_call_touches() -> None:
    policy = book(
        """
        [[rule]]
        decide = "allow"
        access = "write file:src/**"
        [[rule]]
        decide = "allow"
        access = "write file:docs/**"
        """
    )
    call, save = Call("save", {}, "1"), spec()

    both = (writes_file("src/a"), writes_file("docs/b"))
    assert isinstance(policy(CheckedCall.recorded(call, save, both)), Allow)
    assert isinstance(policy(CheckedCall.recorded(call, save, (*both, writes_file("other")))), Ask)
    assert isinstance(policy(CheckedCall.recorded(call, save, ())), Ask)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "../../home/x"])
def test_a_glob_of_the_workspace_never_allows_what_lies_outside(path: str) -> None:
    policy = book('[[rule]]\ndecide = "allow"\naccess = "write file:**"')

    assert isinstance(on(policy, writes_file("a/b")), Allow)
    assert isinstance(on(policy, writes_file(path)), Ask)


def test_a_tool_that_does_not_say_what_it_touches_asks_where_something_is_denied() -> None:
    policy = book(
        """
        [[rule]]
        id = "keys"
        decide = "deny"
        access = "* file:keys/**"
        [[rule]]
        decide = "allow"
        tools = "mystery"
        """
    )

    decision = on(policy, Access(WRITE, "*"), "mystery")

    assert decision == Ask(
        "Allow `mystery` to make changes? (making changes that the tool does not name may include what rule 'keys' denies)",
        Origin("keys", "rules.toml", 2),
    )
    assert isinstance(on(policy, writes_file("other"), "mystery"), Allow)
    assert isinstance(on(policy, Access(WRITE, "file:"), "mystery"), Ask)


def test_rules_by_tag_effect_and_argument_mean_just_those_calls() -> None:
    policy = book(
        """
        [[rule]]
        id = "big"
        decide = "deny"
        tools = "pay"
        args = { amount = { above = 100 } }
        [[rule]]
        id = "small"
        decide = "allow"
        tools = "pay"
        args = { amount = { min = 0, max = 10 }, "to.name" = { like = "shop-*" } }
        [[rule]]
        id = "db"
        decide = "ask"
        tags = ["db"]
        effects = ["read"]
        """
    )

    def paid(amount: object, to: object = None) -> str:
        decision = on(policy, Access(WRITE, "bank:me"), "pay", amount=amount, to=to)
        return f"{type(decision).__name__} {decision.origin and decision.origin.rule}"

    assert [paid(1, {"name": "shop-1"}), paid(1, {"name": "x"}), paid(50), paid(101)] == [
        "Allow small",
        "Ask mode ask",
        "Ask mode ask",
        "Deny big",
    ]
    odd = [(True, {"name": "shop-1"}), ("1", None), (None, None), (1, "shop-1")]
    assert [paid(amount, to) for amount, to in odd] == ["Ask mode ask"] * 4
    tagged = spec("look", READ, "db", "other")
    asked = policy(CheckedCall.recorded(Call("look", {}, "1"), tagged, (Access(READ, "db:x"),)))
    assert asked.origin is not None
    assert asked.origin.rule == "db"


def test_a_rule_counts_until_it_expires() -> None:
    now = [datetime(2027, 1, 1, tzinfo=UTC).timestamp()]
    text = """
        [[rule]]
        decide = "allow"
        tools = "save"
        expires = 2027-01-02
        [[rule]]
        decide = "allow"
        command = "make"
        expires = 2027-01-02T00:00:00Z
        """
    policy = Rulebook(rules(text), clock=lambda: now[0])

    before = [on(policy, writes_file("a")), line(policy, "make")]
    now[0] += 24 * 3600
    after = [on(policy, writes_file("a")), line(policy, "make")]

    assert [type(one) for one in before + after] == [Allow, Allow, Ask, Ask]
    assert len(policy.unreachable_rules()) == 2


def test_a_tool_allowed_as_a_whole_does_not_allow_a_shell_line() -> None:
    assert isinstance(line(book('[[rule]]\ndecide = "allow"\ntools = "bash"'), "ls"), Ask)
    assert isinstance(line(book('[[rule]]\ndecide = "deny"\ntools = "bash"'), "ls"), Deny)
    assert isinstance(line(book('[[rule]]\ndecide = "deny"\ncommand = "*"'), "ls"), Deny)


def test_a_second_opinion_that_differs_makes_a_question_of_what_a_rule_allows() -> None:
    policy = book('[[rule]]\ndecide = "allow"\ncommand = "cat"\noperands = ["path*"]')

    assert isinstance(line(policy, "cat - a"), Allow)
    assert line(policy, "cat - 2>&1") == Ask(
        "Allow this command? `cat - 2>&1` (it is not a simple command, so only a rule about the whole line can allow it)",
        Origin("mode ask", kind="mode"),
    )


def test_writing_over_a_disk_asks_and_an_expired_deny_does_not() -> None:
    text = '[[rule]]\ndecide = "deny"\ncommand = "curl"\nexpires = 2020-01-01'

    assert line(book(mode="open", sandboxed=True), "echo x > /dev/sda").origin == Origin(
        "catastrophic commands", kind="built-in"
    )
    assert isinstance(line(book(text, mode="open", sandboxed=True), "curl x"), Allow)


def test_a_shell_tool_is_one_by_name_or_by_tag() -> None:
    policy = book('[[rule]]\ndecide = "deny"\ncommand = "curl"', shell=["sh"])  # noqa: S604  a name
    call = Call("x", '{"command":"curl a"}', "1")

    decided = [
        policy(CheckedCall.recorded(call, one, ANYTHING))
        for one in (spec("sh", DESTROY), spec("x", DESTROY, "shell"), spec("y", DESTROY))
    ]

    assert [type(one) for one in decided] == [Deny, Deny, Ask]
    assert isinstance(
        policy(CheckedCall.recorded(Call("x", "{}", "1"), spec("sh", DESTROY), ANYTHING)), Ask
    )


@pytest.mark.parametrize("mode", ["plan", "ask", "edits", "open"])
@pytest.mark.parametrize("args", [{}, {"cmd": "rm -rf /"}, {"command": ["rm", "-rf", "/"]}])
def test_a_shell_tool_without_a_line_to_read_is_never_let_pass(mode: str, args: Any) -> None:
    policy = book(mode=mode, sandboxed=True)

    decision = policy(CheckedCall.recorded(Call("bash", args, "1"), BASH, ANYTHING))

    assert type(decision) is (Deny if mode == "plan" else Ask)


@pytest.mark.parametrize("mode", ["plan", "ask", "edits"])
def test_what_a_line_may_do_is_not_for_its_tool_to_say(mode: str) -> None:
    harmless = spec("bash", READ)
    call = Call("bash", {"command": "curl x"}, "1")

    decision = book(mode=mode)(CheckedCall.recorded(call, harmless, (Access(READ, "*"),)))

    assert type(decision) is (Deny if mode == "plan" else Ask)


def test_too_long_or_too_many_asks_but_only_after_every_deny() -> None:
    policy = book(
        """
        [[rule]]
        decide = "allow"
        command = ["true", "echo"]
        operands = ["text*"]
        [[rule]]
        decide = "deny"
        command = "curl"
        """
    )
    many = "; ".join(["true"] * 51)

    assert isinstance(line(policy, "; ".join(["true"] * 50)), Allow)
    assert line(policy, many).origin == Origin("command size limit", kind="built-in")
    assert isinstance(line(policy, f"{many}; curl x"), Deny)


def test_a_deny_holds_however_far_below_a_long_line_leads() -> None:
    policy = book('[[rule]]\ndecide = "deny"\naccess = "* file:**/*.pem"')
    down = "cd a; " * 1_000

    assert line(policy, f"{down}cat b").origin == Origin("command size limit", kind="built-in")
    assert isinstance(line(policy, f"{down}cat b.pem"), Deny)


def test_a_line_that_is_too_long_to_be_read_asks_and_is_denied_where_anything_is() -> None:
    long = f"echo {'a' * 10_000}"
    allows = '[[rule]]\ndecide = "allow"\ncommand = "echo"\noperands = ["text*"]\n'

    asked = line(book(allows), long)
    denied = line(book(allows + '[[rule]]\ndecide = "deny"\naccess = "* file:x"'), long)

    assert asked == Ask(
        "Allow this command of 10,005 characters? (the command has 10,005 characters, and handrail checks at most 10,000)",
        Origin("command size limit", kind="built-in"),
        once=True,
    )
    assert isinstance(denied, Deny)
    assert denied.origin == Origin("command size limit", kind="built-in")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("a|" * 501 + "b", "501 pipes, and handrail checks at most 500"),
        (
            "".join(f"$a{n} x;" for n in range(201)),
            "201 commands with a computed name, and handrail checks at most 200",
        ),
        (
            "(" + "".join(f"a{n:x};" for n in range(2_001)) + ")",
            "2,001 possible commands, and handrail checks at most 2,000",
        ),
        (
            "sudo -u a git " * 700 + "ls",
            "182,321 words in possible commands, and handrail checks at most 60,000",
        ),
    ],
)
def test_a_line_with_too_much_in_it_asks_and_is_denied_where_anything_is(
    command: str, why: str
) -> None:
    asked = line(book("", mode="open", sandboxed=True), command)
    denied = line(book('[[rule]]\ndecide = "deny"\naccess = "* file:x"'), command)

    assert isinstance(asked, Ask)
    assert f"the command has {why}" in asked.question
    assert isinstance(denied, Deny)
    assert denied.origin == Origin("command size limit", kind="built-in")


@pytest.mark.parametrize(
    "command",
    [
        "env " * 25_000,
        "env " * 2_500,
        'bash -c "' * 1_100,
        "cd a;cd b;cd c;cd d;cd e; x $(y) " + " ".join(f"w{n}" for n in range(1_800)),
        "sudo " * 2_000 + "x",
    ],
    ids=lambda text: f"{text[:8]} {len(text)}",
)
@pytest.mark.parametrize("denied", ["**/.env", "src/keys/**"])
def test_no_line_takes_long_to_judge(denied: str, command: str) -> None:
    policy = book(f'[[rule]]\ndecide = "deny"\naccess = "* file:{denied}"')

    with counting() as steps:
        decision = line(policy, command)

    assert not isinstance(decision, Allow)
    assert steps.total < 6_000_000


def test_a_question_is_short_whatever_is_asked() -> None:
    policy = book()
    many = tuple(writes_file(f"f{n}") for n in range(9))

    asked = policy(CheckedCall.recorded(Call("save", {}, "1"), spec(), many))
    long = line(policy, f"make {'x' * 300}")

    assert asked == Ask(
        "Allow `save` to change f0, f1, f2, f3, f4 and 4 more?",
        Origin("mode ask", kind="mode"),
    )
    assert long == Ask("Allow this command of 305 characters?", Origin("mode ask", kind="mode"))


def test_rules_that_cannot_be_read_deny_everything_and_say_why() -> None:
    policy = Rulebook(refusal="rules.toml:3: oh no")

    assert on(policy, reads_file("a")) == Deny(
        "the permission rules cannot be loaded",
        Origin("unreadable rules", kind="built-in"),
    )
    assert policy.problems == (RuleProblem("invalid", "rules.toml:3: oh no"),)
    [matched] = policy.explain(
        CheckedCall.recorded(Call("save", {}, "1"), spec(), (reads_file("a"),))
    )
    assert matched.why == "rules.toml:3: oh no"


def test_everything_that_matched_is_explained_the_deciding_one_first() -> None:
    policy = book(
        """
        [[rule]]
        decide = "allow"
        tools = "save"
        [[rule]]
        decide = "ask"
        access = "write file:src/**"
        reason = "source code"
        [[rule]]
        id = "never"
        decide = "deny"
        access = "write file:src/secret"
        """
    )

    told = policy.explain(
        CheckedCall.recorded(Call("save", {}, "1"), spec(), (writes_file("src/secret"),))
    )

    assert [str(one) for one in told] == [
        "deny by never (rules.toml:9): changing src/secret",
        "ask by ask write file:src/** (rules.toml:5): changing src/secret (source code)",
        "allow by allow save (rules.toml:2)",
    ]


def test_the_version_changes_with_what_is_judged_but_not_with_a_remembered_yes() -> None:
    policy = book()
    first = policy.version
    text = '[[rule]]\nid = "remembered-1"\ndecide = "allow"\ntools = "save"'
    [remembered] = rules(text, Level.RUN)

    policy.add(remembered)
    assert (policy.version, type(on(policy, writes_file("a")))) == (first, Allow)
    policy.remove(remembered)
    assert (policy.version, type(on(policy, writes_file("a")))) == (first, Ask)
    policy.set_mode("edits")
    assert (policy.version != first, type(on(policy, writes_file("a")))) == (True, Allow)


def test_what_was_decided_is_remembered_only_where_nothing_else_matters() -> None:
    policy = book('[[rule]]\ndecide = "allow"\naccess = "write file:src/**"')

    save, call = spec(), Call("save", {}, "1")

    def decided(path: str) -> Decision:
        return policy(CheckedCall.recorded(call, save, (writes_file(path),)))

    first = [decided(f"src/{n}") for n in range(5_000)]
    again = [decided(f"src/{n}") for n in range(5_000)]

    assert first == again
    assert type(decided("other")) is Ask


def test_a_deny_of_everything_holds_for_a_shell_line_too() -> None:
    allows = '[[rule]]\ndecide = "allow"\ncommand = "echo"\noperands = ["text*"]\n'

    assert isinstance(line(book(allows), "echo hi"), Allow)
    assert isinstance(
        line(book(allows + '[[rule]]\ndecide = "deny"\naccess = "* *"'), "echo hi"), Deny
    )


def test_an_argument_is_meant_however_it_is_spelled_and_where_it_is_left_out() -> None:
    policy = book(
        """
        [[rule]]
        decide = "deny"
        tools = "pay"
        args = { amount = 5 }
        [[rule]]
        decide = "deny"
        tools = "pay"
        args = { force = true }
        """,
        mode="edits",
    )
    pay = Spec(
        name="pay",
        description="",
        input_schema={"properties": {"amount": {}, "force": {"default": True}}},
    )

    def paid(**args: Any) -> type:
        return type(
            policy(CheckedCall.recorded(Call("pay", args, "1"), pay, (Access(WRITE, "bank:me"),)))
        )

    assert [paid(amount=5, force=False), paid(amount=5.0, force=False)] == [Deny, Deny]
    assert [paid(amount=1), paid(amount=1, force=True), paid(amount=1, force=False)] == [
        Deny,
        Deny,
        Allow,
    ]


@pytest.mark.parametrize(
    ("pattern", "read", "expected"),
    [
        ("/etc/**", "/", Ask),
        ("/etc/**", "/usr", Allow),
        ("src/keys/**", "..", Ask),
        ("src/keys/**", "/", Ask),
        ("src/keys/**", "/usr/src/keys/k", Allow),
        ("**/*.pem", "..", Ask),
        ("**/*.pem", "/", Ask),
        ("**/*.pem", ".", Ask),
        ("net:x/**", "..", Allow),
        ("../k/**", "../..", Ask),
        ("src/*.pem", "src", Ask),
        ("src/*", "src", Ask),
        ("**/.env", "/home/me/x", Allow),
        ("src/keys/**", "docs", Allow),
    ],
)
def test_an_access_that_may_hold_what_is_denied_asks(
    pattern: str, read: str, expected: type
) -> None:
    named = pattern if ":" in pattern else f"file:{pattern}"
    policy = book(f'[[rule]]\ndecide = "deny"\naccess = "read {named}"')

    assert type(on(policy, reads_file(read), "show")) is expected


@pytest.mark.parametrize(
    ("operands", "command"),
    [
        ("subpath*", "frob src/keys/k"),
        ("dot_path*", "frob ./src/keys/k"),
        ("path*", "frob x=src/keys/k"),
        ("assignment*", "frob x=src/keys/k"),
        ("file*", "cd src && frob keys/k"),
        ("path*", "cd src && cd keys && frob k"),
    ],
)
def test_what_a_rule_allows_hides_nothing_from_a_deny(operands: str, command: str) -> None:
    allows = f"""
        [[rule]]
        decide = "allow"
        command = ["frob", "cd"]
        operands = ["{operands}"]
        [[rule]]
        decide = "allow"
        command = "cd"
        operands = ["path"]
        [[rule]]
        decide = "deny"
        access = "* file:src/keys/**"
        """

    assert isinstance(line(book(allows), command), Deny)
    assert isinstance(line(book(allows, mode="open", sandboxed=True), command), Deny)


def test_the_words_of_a_command_itself_are_no_hiding_place_either() -> None:
    policy = book(
        """
        [[rule]]
        decide = "allow"
        command = "wc src/keys/k"
        [[rule]]
        decide = "deny"
        access = "* file:src/keys/**"
        """
    )

    assert isinstance(line(policy, "wc src/keys/k"), Deny)


def test_a_path_is_followed_through_every_cd() -> None:
    policy = book('[[rule]]\ndecide = "deny"\naccess = "* file:a/a/x"', mode="open", sandboxed=True)

    for command in ("cd a/a && foo x", "cd a && cd a && foo x", "cd a; echo $y; cd a/a; foo x"):
        assert isinstance(line(policy, command), Deny), command


def test_a_question_uses_the_tools_own_name_whoever_called_first() -> None:
    policy = book()
    save, touched = spec(), (writes_file("q"),)

    asked = [
        policy(CheckedCall.recorded(Call(name, {}, "1"), save, touched))
        for name in ("old_save", "save")
    ]

    assert {one.question for one in asked if isinstance(one, Ask)} == {"Allow `save` to change q?"}


def test_rules_may_be_added_and_dropped_from_other_threads() -> None:
    policy = book()
    many = [
        rules(f'[[rule]]\nid = "r{n}"\ndecide = "allow"\ntools = "t{n}"', Level.RUN)[0]
        for n in range(200)
    ]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(policy.add, many))
        added = len(policy.rules)
        list(pool.map(policy.remove, many))

    assert (added, policy.rules) == (200, ())


# ---------------------------------------------------------------- properties

NAMES = ["save", "load", "bash"]
PATHS = ["a", "src/a", "src/.env", ".git/config", "/etc/x", "../x", "keys/k"]
COMMANDS = ["ls", "git log", "git push", "curl x", "cat .env", "rm -rf /", "ls | cat .env", "$(ls)"]
RULES = st.one_of(
    st.builds('tools = "{}"'.format, st.sampled_from(["save", "l*", "*", "bash"])),
    st.builds(
        'access = "{} file:{}"'.format,
        st.sampled_from(["read", "write", "*"]),
        st.sampled_from(["**", "src/**", "**/.env", "keys/k", "/etc/**"]),
    ),
    st.builds('command = "{}"'.format, st.sampled_from(["ls", "git", "git push", "curl", "cat"])),
    st.just('effects = ["write"]'),
    st.just("args = { n = { max = 5 } }"),
)
VERDICTS = st.sampled_from(["allow", "ask", "deny"])
TABLES = st.builds('[[rule]]\ndecide = "{}"\n{}\n'.format, VERDICTS, RULES)
LEVELS = st.sampled_from([Level.MANAGED, Level.USER, Level.PROJECT])
FILES = st.lists(st.tuples(TABLES, LEVELS), max_size=6)
CALLS = st.one_of(
    st.builds(
        lambda name, verb, path, n: CheckedCall.recorded(
            Call(name, {"n": n}, "1"),
            spec(name, verb),
            (Access(verb, f"file:{path}"),),
        ),
        st.sampled_from(["save", "load"]),
        st.sampled_from([READ, WRITE]),
        st.sampled_from(PATHS),
        st.integers(0, 9),
    ),
    st.builds(
        lambda command: CheckedCall.recorded(
            Call("bash", {"command": command}, "1"), BASH, ANYTHING
        ),
        st.sampled_from(COMMANDS),
    ),
)
MODES = st.sampled_from(list(Mode))


def made(files: list[tuple[str, Level]], mode: Mode) -> Rulebook:
    found = [rule for text, level in files for rule in rules(text, level)]
    return Rulebook(found, mode=mode, root=False)


def strictness(decision: Decision) -> int:
    return STRICTNESS[type(decision)]


@given(FILES, CALLS, MODES, st.randoms(use_true_random=False))
def test_the_order_of_rules_never_changes_a_decision(
    files: list[tuple[str, Level]], call: Any, mode: Mode, random: Any
) -> None:
    other = files.copy()
    random.shuffle(other)

    assert made(files, mode)(call) == made(other, mode)(call)


@given(FILES, TABLES, LEVELS, CALLS, MODES)
def test_a_rule_of_lower_rank_never_loosens_what_a_rule_decided(  # noqa: PLR0917
    files: list[tuple[str, Level]], more: str, level: Level, call: Any, mode: Mode
) -> None:
    before = made(files, mode)(call)
    [added] = rules(more, level)
    after = made([*files, (more, level)], mode)(call)

    by_a_rule = before.origin is not None and not before.origin.rule.startswith("mode")
    lower = strictness({"allow": Allow(), "ask": Ask("May it?"), "deny": Deny("")}[added.decide])
    if by_a_rule and lower <= strictness(before):
        assert strictness(after) >= strictness(before)
    if added.decide != "allow":
        assert strictness(after) >= strictness(before)


@given(FILES, CALLS)
def test_a_stricter_mode_never_loosens(files: list[tuple[str, Level]], call: Any) -> None:
    decided = [strictness(made(files, mode)(call)) for mode in Mode]

    assert decided == sorted(decided, reverse=True)


@given(FILES, CALLS, MODES)
def test_what_explains_a_decision_is_what_made_it(
    files: list[tuple[str, Level]], call: Any, mode: Mode
) -> None:
    policy = made(files, mode)
    decision, told = policy(call), policy.explain(call)

    assert told[0].origin == decision.origin
    assert told[0].verdict == type(decision).__name__.lower()
    order = ["deny", "ask", "allow"]
    assert [order.index(one.verdict) for one in told] == sorted(
        order.index(one.verdict) for one in told
    )


@given(FILES, st.sampled_from(PATHS), st.sampled_from(["pass", "rewrite", "answer", "crash"]))
def test_hooks_never_loosen(files: list[tuple[str, Level]], path: str, does: str) -> None:
    """Whatever a hook does, what runs is what the rules allow of the call as it runs."""
    ran: list[str] = []

    @tool(touches=writes_file)
    async def save(path: str) -> str:
        """Save."""
        ran.append(path)
        return "saved"

    async def hook(call: CheckedCall) -> Any:
        if does == "crash":
            raise RuntimeError
        if does == "answer":
            return call.answer("allowed")
        return call.with_args(path="src/.env") if does == "rewrite" else call

    policy = made(files, Mode.ASK)
    result = Executor(Toolset(save), policy=policy, hooks=[Hook(before=hook)]).run_sync(
        Call("save", {"path": path}, "1")
    )

    for one in ran:
        decision = policy(
            CheckedCall.recorded(Call("save", {"path": one}, "1"), save.spec, (writes_file(one),))
        )
        assert isinstance(decision, Allow)
    assert bool(ran) == (result.text == "saved")


def test_a_rule_that_denies_is_what_the_model_reads_without_any_path_of_the_machine() -> None:
    policy = Rulebook(
        rules(
            '[[rule]]\nid = "quiet"\ndecide = "deny"\ntools = "save"\nreason = "Not on Sundays"',
            file="/home/me/.config/handrail/rules.toml",
        )
    )

    @tool(touches=writes_file)
    async def save(path: str) -> str:
        """Save."""
        return path

    result = Executor(Toolset(save), policy=policy).run_sync(Call("save", {"path": "a"}, "1"))

    assert result == Result.fail(
        "1",
        FailureKind.DENIED,
        snapshot(
            "Not run: rule 'quiet' denies this call (Not on Sundays). Do not work around this. Continue without it, or tell the user."
        ),
    )


@pytest.mark.parametrize(
    ("tags", "effect", "expected"),
    [((), READ, Ask), (("filtered",), READ, Allow), (("filtered",), WRITE, Ask)],
)
def test_a_tool_that_passes_over_what_is_denied_may_look_at_all_the_rest(
    tags: tuple[str, ...], effect: Effect, expected: type[Decision]
) -> None:
    spec = Spec(name="search", description="", input_schema={}, effect=effect, tags=frozenset(tags))
    book = Rulebook.from_toml('[[rule]]\ndecide = "deny"\naccess = "read file:**/.env"')

    decision = book(
        CheckedCall.recorded(Call("search", {}, "1"), spec, (Access(effect, "file:."),))
    )

    assert type(decision) is expected


FETCH = spec("web_fetch", WRITE, "fetch")
PAGE = (Access(WRITE, "net:docs.test:443/a"),)
ALLOWS_PAGE = '[[rule]]\ndecide = "allow"\naccess = "write net:docs.test:443/**"'


@pytest.mark.parametrize(
    ("mode", "unnamed", "named"),
    [("plan", Deny, Allow), ("ask", Ask, Allow), ("edits", Ask, Allow), ("open", Allow, Allow)],
)
def test_a_host_that_no_rule_names_needs_approval_unless_everything_is_open(
    mode: str, unnamed: type, named: type
) -> None:
    call = CheckedCall.recorded(Call("web_fetch", {"url": "https://docs.test/a"}, "1"), FETCH, PAGE)

    assert [type(book(text, mode=mode, sandboxed=True)(call)) for text in ("", ALLOWS_PAGE)] == [
        unnamed,
        named,
    ]


def test_plan_mode_allows_by_rule_only_tools_that_just_fetch() -> None:
    call = CheckedCall.recorded(Call("post", {}, "1"), spec("post"), PAGE)

    assert isinstance(book(ALLOWS_PAGE, mode="plan")(call), Deny)


def test_a_star_at_the_end_of_a_command_allows_what_follows_but_not_its_consequences() -> None:
    lines = [
        "git", "git log -3 --stat", "git commit -m x", "git -C . log", "git push", "git reset --hard", "npm run build -- --watch",
        "npm run deploy", "npm install", "git log > x", "cat a && git log",
    ]  # fmt: skip
    text = "[[rule]]\ndecide = '{}'\ncommand = ['git *', 'npm run *']"

    def decisions(policy: Rulebook) -> list[str]:
        return [type(line(policy, one)).__name__.lower() for one in lines]

    assert decisions(book(text.format("allow"))) == [
        "allow", "allow", "allow", "allow", "ask", "ask", "allow", "ask", "ask", "ask", "ask",
    ]  # fmt: skip
    assert decisions(book(text.format("deny"))) == [
        "deny", "deny", "deny", "deny", "deny", "deny", "deny", "deny", "ask", "deny", "deny",
    ]  # fmt: skip
    each = "[[rule]]\ndecide = 'allow'\ncommand = 'git'\nflags = 'any'\noperands = 'any'"
    assert (
        type(line(book(each), "git push")) is Allow
    )  # the person wrote that nothing needs approval
