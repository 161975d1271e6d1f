"""Gemini CLI's policies as rules of ours: what each becomes, and that nothing becomes looser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import WRITE, Access, Allow, Ask, Call, CheckedCall, Decision, Deny, Spec
from handrail.permissions import Verdict
from handrail.policy import InvalidRule, Level, Rulebook, parse
from handrail.policy.importers import Fate, Imported, Note, gemini
from policy.rule_tables import rule_file

DATA = Path(__file__).parents[2] / "data"
SHELL = "run_shell_command"
ANY = ('flags = "any"', 'operands = "any"')
ALL_COMMANDS = "no handrail rule allows every command; mode open does, in a sandbox"
TO_NAME = "a handrail allow must name its tools or their server"
UNREAD = "commands that are not plain words are omitted"
CANNOT = "handrail cannot express"
MEANT = "so every such call matches"


def shown(table: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in table.items())


def expected(kind: Fate, table: dict[str, Any], why: str, *rules: tuple[str, ...]) -> Imported:
    note = Note(kind, shown(table), why)
    body = "\n".join("".join(f"{one}\n" for one in ("[[rule]]", *lines)) for lines in rules)
    return Imported(f"# {note}\n{body}", (note,))


def allow(*lines: str) -> tuple[str, ...]:
    return ('decide = "allow"', *lines)


def deny(*lines: str) -> tuple[str, ...]:
    return ('decide = "deny"', *lines)


ALLOWED: list[tuple[dict[str, Any], Fate, str, list[tuple[str, ...]]]] = [
    ({"toolName": SHELL, "commandPrefix": "git status"}, "imported", "", [allow('command = "git status"', *ANY)]),
    ({"commandPrefix": ["git log", "ls "]}, "imported", "", [allow('command = ["git log", "ls"]', *ANY)]),
    ({"toolName": SHELL, "commandPrefix": "sudo"}, "imported", "it allows everything that sudo can run; review it", [allow('command = "sudo"', *ANY)]),
    ({"toolName": SHELL, "commandPrefix": ["ls", "$X"]}, "narrowed", UNREAD, [allow('command = "ls"', *ANY)]),
    ({"toolName": SHELL, "commandPrefix": "ls", "allowRedirection": True}, "narrowed", "it does not allow redirection to a file", [allow('command = "ls"', *ANY)]),
    ({"toolName": SHELL, "commandPrefix": "$X"}, "lost", UNREAD, []),
    ({"toolName": SHELL}, "lost", ALL_COMMANDS, []),
    ({"toolName": SHELL, "commandPrefix": ""}, "lost", ALL_COMMANDS, []),
    ({"toolName": SHELL, "commandRegex": "git .*"}, "lost", "handrail cannot express commandRegex", []),
    ({"toolName": "read_file", "argsPattern": "a"}, "lost", "handrail cannot express argsPattern", []),
    ({"toolName": ["read_file"], "commandPrefix": "a"}, "lost", "handrail cannot express commandPrefix", []),
    ({"toolName": "read_file", "subagent": "a", "modes": ["plan"]}, "lost", "handrail cannot express subagent, modes", []),
    ({"toolName": "read_file", "modes": ["default", "autoEdit", "yolo"]}, "imported", "", [allow('tools = ["read"]')]),
    ({"toolName": ["read_file", "my_tool"]}, "imported", "", [allow('tools = ["read", "my_tool"]')]),
    ({"toolName": ["glob", SHELL]}, "narrowed", ALL_COMMANDS, [allow('tools = ["glob"]')]),
    ({"toolName": "*"}, "lost", TO_NAME, []),
    ({}, "lost", TO_NAME, []),
    ({"toolName": ["read_*", "glob"]}, "narrowed", TO_NAME, [allow('tools = ["glob"]')]),
    ({"toolName": "github__search"}, "lost", TO_NAME, []),
    ({"toolName": "mcp_*_search"}, "lost", TO_NAME, []),
    ({"toolName": "mcp_*"}, "imported", "", [allow('tools = ["mcp__*"]')]),
    ({"toolName": "mcp_github_*"}, "imported", "", [allow('tools = ["mcp__github__*"]')]),
    ({"toolName": "mcp_github_get_issue"}, "imported", "", [allow('tools = ["mcp__github__get_issue"]')]),
    ({"mcpName": "github"}, "imported", "", [allow('tools = ["mcp__github__*"]')]),
    ({"mcpName": "github", "toolName": ["search", "mcp_github_list"]}, "imported", "", [allow('tools = ["mcp__github__search", "mcp__github__list"]')]),
    ({"mcpName": "*", "toolName": "*"}, "imported", "", [allow('tools = ["mcp__*"]')]),
    ({"mcpName": "*", "toolName": "search"}, "lost", TO_NAME, []),
    ({"mcpName": "a", "toolName": "search?"}, "lost", TO_NAME, []),
]  # fmt: skip

DENIED: list[tuple[dict[str, Any], Fate, str, list[tuple[str, ...]]]] = [
    ({"toolName": SHELL, "commandPrefix": "rm -rf"}, "imported", "", [deny('command = "rm -rf"')]),
    ({"toolName": SHELL, "commandPrefix": ["rm", "dd"], "denyMessage": "no"}, "imported", "", [deny('reason = "no"', 'command = ["rm", "dd"]')]),
    ({"toolName": SHELL, "commandPrefix": ["rm", "/bin/rm"], "deny_message": "no"}, "widened", "in handrail it matches everything that starts with rm", [deny('reason = "no"', 'command = "rm"')]),
    ({"toolName": SHELL, "commandPrefix": ["rm", "$X"]}, "widened", "in handrail it matches every command", [deny('command = "*"')]),
    ({"toolName": SHELL}, "imported", "", [deny('command = "*"')]),
    ({"toolName": SHELL, "commandRegex": "rm .*"}, "widened", f"{CANNOT} commandRegex, {MEANT}", [deny('command = "*"')]),
    ({"toolName": ["write_file", SHELL], "argsPattern": "a", "modes": ["plan"]}, "widened", f"{CANNOT} argsPattern, modes, {MEANT}", [deny('command = "*"'), deny('tools = ["write"]')]),
    ({"toolName": "replace", "newCondition": 1}, "widened", f"{CANNOT} newCondition, {MEANT}", [deny('tools = ["edit"]')]),
    ({"toolName": "*"}, "imported", "", [deny('tools = ["*"]')]),
    ({}, "imported", "", [deny('tools = ["*"]')]),
    ({"toolName": "read_*"}, "imported", "", [deny('tools = ["read_*", "read"]')]),
    ({"toolName": "github__search"}, "imported", "", [deny('tools = ["mcp__github__search"]')]),
    ({"toolName": "mcp_a_b_c"}, "imported", "", [deny('tools = ["mcp__a__b_c", "mcp__a_b__c"]')]),
    ({"toolName": "mcp_alone"}, "imported", "", [deny('tools = ["mcp_alone"]')]),
    ({"mcpName": "a", "toolName": SHELL}, "imported", "", [deny('tools = ["mcp__a__run_shell_command"]')]),
    ({"mcpName": "*", "toolName": "search"}, "imported", "", [deny('tools = ["mcp__*__search"]')]),
]  # fmt: skip


@pytest.mark.parametrize(("table", "kind", "why", "rules"), ALLOWED, ids=lambda one: str(one)[:50])
def test_an_allow_means_the_same_or_less(
    table: dict[str, Any], kind: Fate, why: str, rules: list[tuple[str, ...]]
) -> None:
    whole = {**table, "decision": "allow", "priority": 7}
    assert gemini.translate(rule_file(whole)) == expected(kind, whole, why, *rules)


@pytest.mark.parametrize(("table", "kind", "why", "rules"), DENIED, ids=lambda one: str(one)[:50])
def test_a_deny_means_the_same_or_more(
    table: dict[str, Any], kind: Fate, why: str, rules: list[tuple[str, ...]]
) -> None:
    whole = {**table, "decision": "deny", "priority": 7}
    assert gemini.translate(rule_file(whole)) == expected(kind, whole, why, *rules)


def rule(decision: str, priority: int, **conditions: Any) -> dict[str, Any]:
    return {**conditions, "decision": decision, "priority": priority}


STATUS = rule("allow", 9, toolName=SHELL, commandPrefix="git status")
SERVER = rule("allow", 9, mcpName="a")


@pytest.mark.parametrize(
    ("tables", "notes"),
    [
        ([rule("ask_user", 1, commandPrefix="git"), STATUS], [("narrowed", STATUS), ("imported", 0)]),
        ([rule("deny", 1, commandPrefix="git status -s"), STATUS], [("narrowed", STATUS), ("imported", 0)]),
        ([rule("deny", 1, toolName="*"), STATUS], [("narrowed", STATUS), ("imported", 0)]),
        ([rule("deny", 1, toolName=SHELL), STATUS], [("narrowed", STATUS), ("imported", 0)]),
        ([STATUS, rule("deny", 9, commandPrefix="git")], [("narrowed", STATUS), ("imported", 1)]),
        ([rule("deny", 9, commandPrefix="git"), STATUS], [("imported", 0), ("imported", STATUS)]),
        ([rule("ask_user", 10, commandPrefix="git"), STATUS], [("imported", 0), ("imported", STATUS)]),
        ([rule("ask_user", 10, commandPrefix="/bin/git"), STATUS], [("widened", 0), ("narrowed", STATUS)]),
        ([rule("deny", 1, commandPrefix="git push"), STATUS], [("imported", STATUS), ("imported", 0)]),
        ([rule("deny", 1, toolName="glob"), STATUS], [("imported", STATUS), ("imported", 0)]),
        ([rule("allow", 1, toolName="glob"), STATUS], [("imported", STATUS), ("imported", 0)]),
        ([rule("deny", 1, mcpName="*", toolName="x"), SERVER], [("narrowed", SERVER), ("imported", 0)]),
        ([rule("deny", 1, mcpName="a", toolName="x"), SERVER], [("narrowed", SERVER), ("imported", 0)]),
        ([rule("deny", 1, mcpName="b"), SERVER], [("imported", SERVER), ("imported", 0)]),
    ],
)  # fmt: skip
def test_an_allow_no_longer_comes_before_a_deny_or_an_ask(
    tables: list[dict[str, Any]], notes: list[tuple[Fate, dict[str, Any] | int]]
) -> None:
    made = gemini.translate(rule_file(*tables))
    wanted = [(kind, shown(tables[one] if isinstance(one, int) else one)) for kind, one in notes]
    assert [(note.kind, note.source) for note in made.notes] == wanted


def test_the_note_says_what_comes_before_it() -> None:
    sudo = rule("allow", 9, toolName=SHELL, commandPrefix="sudo")
    every = rule("deny", 1, toolName=SHELL)
    assert gemini.translate(rule_file(sudo, every)).notes == (
        Note(
            "narrowed",
            shown(sudo),
            "it allows everything that sudo can run; review it; "
            f"in handrail, this rule overrides it: {shown(every)}",
        ),
        Note("imported", shown(every)),
    )


def test_what_is_no_rule_is_named_and_left_out() -> None:
    text = 'version = 2\n[[safety_checker]]\ntoolName = "a"\n[[safety_checker]]\nsince = 07:32:00\n'
    why = "not a rule; in handrail, write a hook that checks the call"
    assert gemini.translate(text).notes == (
        Note("lost", "version = 2", why),
        Note("lost", 'safety_checker = {"toolName": "a"}', why),
        Note("lost", 'safety_checker = {"since": "07:32:00"}', why),
    )


def test_a_whole_file_comes_out_as_written_down() -> None:
    made = gemini.translate((DATA / "import-gemini.toml").read_text(encoding="utf-8"))
    assert made.text == (DATA / "import-gemini-ours.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rule]]\na = !\n", "my.toml: invalid TOML: Invalid value (at line 2, column 5)"),
        ("a = " + "[" * 100_000, "my.toml: the TOML is nested too deeply"),
        ("rule = 1", "my.toml: rules are not in tables; start each rule with [[rule]]"),
        ("rule = [1]", "my.toml: rules are not in tables; start each rule with [[rule]]"),
        ("[[rule]]\npriority = 1", "my.toml: rule 1: decision must be one of allow, ask_user, deny"),
        ('[[rule]]\ndecision = "deny"', "my.toml: rule 1: priority must be an integer"),
        ('[[rule]]\ndecision = "deny"\npriority = 1\nmcpName = 1', "my.toml: rule 1: mcpName must be a string"),
        ('[[rule]]\ndecision = "deny"\npriority = 1\ntoolName = 1', "my.toml: rule 1: toolName must be a string or a list of strings"),
        ('[[rule]]\ndecision = "deny"\npriority = 1\nmodes = [1]', "my.toml: rule 1: modes must be a string or a list of strings"),
    ],
)  # fmt: skip
def test_what_is_no_policy_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidRule) as refused:
        gemini.translate(text, file="my.toml")
    assert str(refused.value) == message


# What follows reads the rules as the Gemini CLI does, and holds ours against it.

WORDS = st.sampled_from(["git", "push", "log", "sudo", "-f", "./x", "main"])
COMMANDS = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
DECISIONS = st.sampled_from(["allow", "ask_user", "deny"])
HEADS = st.fixed_dictionaries({"decision": DECISIONS, "priority": st.integers(0, 5)})
CONDITIONS = st.one_of(
    st.fixed_dictionaries({"toolName": st.just(SHELL), "commandPrefix": COMMANDS}),
    st.fixed_dictionaries({"toolName": st.just(SHELL), "commandPrefix": st.lists(COMMANDS, min_size=1, max_size=2)}),
    st.fixed_dictionaries({"toolName": st.sampled_from([SHELL, "*", "write_file", "mcp_a_x", "mcp_a_*", "mcp_*"])}),
    st.fixed_dictionaries({"mcpName": st.sampled_from(["a", "b", "*"])}),
    st.fixed_dictionaries({"mcpName": st.sampled_from(["a", "b"]), "toolName": st.sampled_from(["x", "y"])}),
)  # fmt: skip
RULES = st.lists(st.builds(lambda head, more: {**more, **head}, HEADS, CONDITIONS), max_size=5)
TOOLS = {"write_file": "write", "mcp_a_x": "mcp__a__x", "mcp_a_y": "mcp__a__y", "mcp_b_x": "mcp__b__x"}  # fmt: skip


def applies(table: dict[str, Any], tool: str, command: str) -> bool:
    server = tool.split("_")[1] if tool.startswith("mcp_") else ""
    if "mcpName" in table:
        named = table.get("toolName", "*")
        return bool(server) and table["mcpName"] in (server, "*") and named in ("*", tool[6:])
    named = table["toolName"]
    known = named in ("*", tool) or (named.endswith("_*") and bool(server) and tool.startswith(named[:-1]))  # fmt: skip
    prefixes = table.get("commandPrefix", "")
    several = [prefixes] if isinstance(prefixes, str) else prefixes
    return known and any(not one or f"{command} ".startswith(f"{one} ") for one in several)


def theirs(rules: list[dict[str, Any]], tool: str, commands: list[str]) -> Verdict | None:
    """For each command the first rule by priority; of them the strictest."""
    ranked = sorted(rules, key=lambda one: -one["priority"])
    found = [
        next((one["decision"] for one in ranked if applies(one, tool, command)), None)
        for command in commands
    ]
    if "deny" in found:
        return "deny"
    if "ask_user" in found:
        return "ask"
    return None if None in found else "allow"


def ours(text: str, tool: str, **args: str) -> Decision:
    book = Rulebook(parse(text, file="imported", level=Level.USER).rules, root=False)
    spec = Spec(name=tool, description="", input_schema={}, effect=WRITE)
    return book(CheckedCall.recorded(Call(tool, args, "1"), spec, (Access(WRITE, "*"),)))


def check(source: Verdict | None, decision: Decision) -> None:
    if source == "deny":
        assert isinstance(decision, Deny)
    elif source == "ask":
        assert isinstance(decision, Ask | Deny)
    elif isinstance(decision, Allow):
        assert source == "allow"


@given(RULES, st.lists(COMMANDS, min_size=1, max_size=3), st.sampled_from([" && ", " | ", "; "]))
def test_no_command_is_allowed_that_was_asked_about_or_denied(
    rules: list[dict[str, Any]], commands: list[str], joint: str
) -> None:
    made = gemini.translate(rule_file(*rules))
    assert len(made.notes) == len(rules)
    check(theirs(rules, SHELL, commands), ours(made.text, "bash", command=joint.join(commands)))


@given(RULES, st.sampled_from(sorted(TOOLS)))
def test_no_tool_is_allowed_that_was_asked_about_or_denied(
    rules: list[dict[str, Any]], tool: str
) -> None:
    made = gemini.translate(rule_file(*rules))
    check(theirs(rules, tool, [""]), ours(made.text, TOOLS[tool]))


@given(RULES, COMMANDS)
def test_what_was_allowed_and_is_not_has_a_note(rules: list[dict[str, Any]], command: str) -> None:
    made = gemini.translate(rule_file(*rules))
    if theirs(rules, SHELL, [command]) == "allow":
        decision = ours(made.text, "bash", command=command)
        assert isinstance(decision, Allow) or {note.kind for note in made.notes} != {"imported"}
