"""Codex's prefix rules as rules of ours: what each becomes, and that nothing becomes looser."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import WRITE, Access, Allow, Ask, Call, CheckedCall, Decision, Deny, Spec
from handrail.permissions import Verdict
from handrail.policy import InvalidRule, Level, Rulebook, parse
from handrail.policy.importers import Fate, Imported, Note, codex

DATA = Path(__file__).parents[2] / "data"
ANY = ('flags = "any"', 'operands = "any"')
SUDO = "it allows everything that sudo can run; review it"
BLANKS = "alternatives with spaces are omitted"
MANY = [str(number) for number in range(300)]


def expected(kind: Fate, source: str, why: str, *lines: str) -> Imported:
    note = Note(kind, source, why)
    body = "".join(f"{line}\n" for line in (["[[rule]]", *lines] if lines else []))
    return Imported(f"# {note}\n{body}", (note,))


def allow(*lines: str) -> tuple[str, ...]:
    return ('decide = "allow"', *lines)


def deny(*lines: str) -> tuple[str, ...]:
    return ('decide = "deny"', *lines)


FORBIDDEN = 'decision="forbidden"'
CASES: list[tuple[str, Fate, str, tuple[str, ...]]] = [
    ('prefix_rule(["ls"])', "imported", "", allow('command = "ls"', *ANY)),
    ('prefix_rule(pattern=["ls", "-l"], decision=None)', "imported", "", allow('command = "ls -l"', *ANY)),
    ('prefix_rule(["ls"], "allow", [], [], "look")', "imported", "", allow('command = "ls"', *ANY, 'reason = "look"')),
    ('prefix_rule([["ls", "cat"], ["a", "b"]])', "imported", "", allow('command = ["ls a", "ls b", "cat a", "cat b"]', *ANY)),
    ('prefix_rule(["sudo"])', "imported", SUDO, allow('command = "sudo"', *ANY)),
    ('prefix_rule(["ls"], match=["ls -l", ["ls", "a b"]], not_match=["lsof"])', "imported", "", allow('command = "ls"', *ANY, 'match = ["ls -l", "ls \'a b\'"]', 'not_match = ["lsof"]')),
    ('prefix_rule(["ls"], match=["ls *.py", "ls"])', "narrowed", "it does not allow 'ls *.py'", allow('command = "ls"', *ANY, 'match = ["ls"]')),
    ('prefix_rule(["ls", ["a", "b c"]])', "narrowed", BLANKS, allow('command = "ls a"', *ANY)),
    ('prefix_rule(["sudo", ["a", ""]], match=["sudo a *"])', "narrowed", f"{SUDO}; {BLANKS}; it does not allow 'sudo a *'", allow('command = "sudo a"', *ANY)),
    ('prefix_rule(["ls", "a b"])', "lost", "a handrail command cannot have words with spaces", ()),
    ('prefix_rule(["ls"], not_match=["ls -a"])', "lost", "it would allow 'ls -a'", ()),
    (f'prefix_rule(["seq", {json.dumps(MANY)}])', "lost", "its alternatives expand to more than 256 commands", ()),
    (f'prefix_rule(["rm", "-rf"], {FORBIDDEN})', "imported", "", deny('command = "rm -rf"')),
    (f'prefix_rule(["rm"], {FORBIDDEN}, justification="keep it")', "imported", "", deny('reason = "keep it"', 'command = "rm"')),
    ('prefix_rule(["git", ["push", "fetch"]], decision="prompt", match=["git push"], not_match=["git log"])', "imported", "", ('decide = "ask"', 'command = ["git push", "git fetch"]', 'match = ["git push"]', 'not_match = ["git log"]')),
    ('prefix_rule(["git", "push"], decision="prompt", not_match=["git -C x push"])', "widened", "it also matches 'git -C x push'", ('decide = "ask"', 'command = "git push"')),
    (f'prefix_rule(["/bin/rm", "-r"], {FORBIDDEN}, not_match=["rm -r"])', "widened", "in handrail it matches everything that starts with rm -r; it also matches 'rm -r'", deny('command = "rm -r"')),
    (f'prefix_rule([["a", "/b/a"]], {FORBIDDEN})', "widened", "in handrail it matches everything that starts with a", deny('command = "a"')),
    (f'prefix_rule(["sh", "-c", "a b"], {FORBIDDEN})', "widened", "in handrail it matches everything that starts with sh -c", deny('command = "sh -c"')),
    (f'prefix_rule(["a"], {FORBIDDEN}, match=["b"])', "widened", "in handrail it matches every command", deny('command = "*"', 'match = ["b"]')),
    (f'prefix_rule(["a", "b"], {FORBIDDEN}, match=["a c"])', "widened", "in handrail it matches everything that starts with a", deny('command = "a"', 'match = ["a c"]')),
    (f'prefix_rule(["a"], {FORBIDDEN}, match=["b c"])', "widened", "in handrail it matches every command", deny('command = "*"', 'match = ["b c"]')),
    (f'prefix_rule([["a", ""]], {FORBIDDEN})', "widened", "in handrail it matches every command", deny('command = "*"')),
    (f'prefix_rule(["*"], {FORBIDDEN})', "widened", "in handrail it matches every command", deny('command = "*"')),
    (f'prefix_rule(["seq", {json.dumps(MANY)}], {FORBIDDEN})', "widened", "in handrail it matches everything that starts with seq", deny('command = "seq"')),
    (f"prefix_rule([{json.dumps(MANY)}], {FORBIDDEN})", "widened", "in handrail it matches every command", deny('command = "*"')),
    ('network_rule(host="A.com", protocol="https", decision="deny", justification="no")', "widened", "in handrail it matches every protocol", deny('reason = "no"', 'access = "* net:a.com/**"')),
    ('network_rule("a.com", "http", "prompt")', "widened", "in handrail it matches every protocol", ('decide = "ask"', 'access = "* net:a.com/**"')),
    ('network_rule("a.com", "http", "allow")', "lost", "a handrail rule cannot name a protocol, so it would allow all of them", ()),
    ('host_executable(name="git", paths=["/usr/bin/git"])', "narrowed", "a handrail allow matches a program by its exact name, not by its path", ()),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "kind", "why", "lines"), CASES, ids=lambda one: str(one)[:40])
def test_a_rule_becomes(rule: str, kind: Fate, why: str, lines: tuple[str, ...]) -> None:
    assert codex.translate(rule) == expected(kind, rule, why, *lines)


def test_a_whole_file_comes_out_as_written_down() -> None:
    made = codex.translate((DATA / "import-codex.rules").read_text(encoding="utf-8"))
    assert made.text == (DATA / "import-codex-ours.toml").read_text(encoding="utf-8")


def test_escapes_that_python_gives_up_are_read_without_a_warning() -> None:
    rule = r'prefix_rule(["a\d"], decision="forbidden")'
    assert codex.translate(rule) == expected("imported", rule, "", *deny(r'command = "a\\d"'))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('prefix_rule(\n["ls")', "default.rules:2: closing parenthesis ')' does not match opening parenthesis '['"),
        ("\n\nx = 1", "default.rules:3: unsupported statement; use only prefix_rule, network_rule, host_executable"),
        ("import os", "default.rules:1: unsupported statement; use only prefix_rule, network_rule, host_executable"),
        ("eval('1')", "default.rules:1: unsupported statement; use only prefix_rule, network_rule, host_executable"),
        ("os.system('x')", "default.rules:1: unsupported statement; use only prefix_rule, network_rule, host_executable"),
        ('\nprefix_rule([open("x")])', "default.rules:2: pattern must be a literal"),
        ('prefix_rule(["l" + "s"])', "default.rules:1: pattern must be a literal"),
        ('prefix_rule(*["ls"])', "default.rules:1: pattern must be a literal"),
        ("prefix_rule({[]: 1})", "default.rules:1: pattern must be a literal"),
        ("prefix_rule(**{})", "default.rules:1: prefix_rule accepts only pattern, decision, match, not_match, justification"),
        ('prefix_rule(["ls"], why="x")', "default.rules:1: prefix_rule accepts only pattern, decision, match, not_match, justification"),
        ('host_executable("a", [], 3)', "default.rules:1: host_executable accepts only name, paths"),
        ("prefix_rule()", "default.rules:1: pattern must be a list"),
        ('prefix_rule("ls")', "default.rules:1: pattern must be a list"),
        ("prefix_rule([])", "default.rules:1: pattern must be a list of words, or of lists of alternative words"),
        ('prefix_rule(["ls", []])', "default.rules:1: pattern must be a list of words, or of lists of alternative words"),
        ('prefix_rule(["ls", [1]])', "default.rules:1: pattern must be a list of strings"),
        ('prefix_rule(["ls"], decision="deny")', "default.rules:1: decision must be one of allow, prompt, forbidden"),
        ('prefix_rule(["ls"], match=[3])', "default.rules:1: match must be a list"),
        ('network_rule(3, "http", "deny")', "default.rules:1: host must be a host name"),
        ('network_rule("a b", "http", "deny")', "default.rules:1: host must be a host name"),
    ],
)  # fmt: skip
def test_what_is_not_written_out_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidRule) as refused:
        codex.translate(text)
    assert str(refused.value) == message


@pytest.mark.parametrize("text", ["\0", "(" * 100_000, "-" * 100_000 + "1", "[" * 150 + "]" * 150])
def test_what_python_cannot_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidRule, match=r"^default\.rules"):
        codex.translate(text)


def test_nothing_is_run() -> None:
    with pytest.raises(InvalidRule):
        codex.translate('prefix_rule([__import__("sys").exit(3)])')


# What follows reads the rules as Codex does, and holds ours against it.

WORDS = st.sampled_from(["git", "push", "log", "sudo", "-f", "./x", "a b", "main"])
PATTERNS = st.lists(WORDS | st.lists(WORDS, min_size=1, max_size=2), min_size=1, max_size=3)
DECISIONS = st.sampled_from(["allow", "prompt", "forbidden"])
RULES = st.lists(st.tuples(PATTERNS, DECISIONS), max_size=4)
COMMANDS = st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=3)
STRICTNESS = ["allow", "prompt", "forbidden"]


def begins(command: list[str], pattern: list[str | list[str]]) -> bool:
    return len(command) >= len(pattern) and all(
        word in ([one] if isinstance(one, str) else one)
        for word, one in zip(command, pattern, strict=False)
    )


def theirs(
    rules: list[tuple[list[str | list[str]], str]], commands: list[list[str]]
) -> Verdict | None:
    """The strictest rule of all that match; nothing, where one command has none."""
    found = [[decision for pattern, decision in rules if begins(one, pattern)] for one in commands]
    strictest = max((one for each in found for one in each), key=STRICTNESS.index, default="")
    if strictest in ("prompt", "forbidden"):
        return "ask" if strictest == "prompt" else "deny"
    return "allow" if all(found) else None


def ours(text: str, line: str) -> Decision:
    book = Rulebook(parse(text, file="imported", level=Level.USER).rules, root=False)
    spec = Spec(name="bash", description="", input_schema={}, effect=WRITE)
    return book(
        CheckedCall.recorded(Call("bash", {"command": line}, "1"), spec, (Access(WRITE, "*"),))
    )


@given(RULES, COMMANDS, st.sampled_from([" && ", " | ", "; "]))
def test_no_command_is_allowed_that_was_asked_about_or_denied(
    rules: list[tuple[list[str | list[str]], str]], commands: list[list[str]], joint: str
) -> None:
    text = "\n".join(
        f"prefix_rule(pattern={json.dumps(pattern)}, decision={json.dumps(decision)})"
        for pattern, decision in rules
    )
    made = codex.translate(text)
    assert len(made.notes) == len(rules)
    decision = ours(made.text, joint.join(map(shlex.join, commands)))
    source = theirs(rules, commands)
    if source == "deny":
        assert isinstance(decision, Deny)
    elif source == "ask":
        assert isinstance(decision, Ask | Deny)
    elif isinstance(decision, Allow):
        assert source == "allow"
