"""Rule files: every key, every complaint with its file and line, and examples that must hold."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import DESTROY, READ, WRITE, Access, Effect, Spec
from handrail.permissions import Origin
from handrail.policy import (
    Example,
    ExampleResult,
    InvalidRule,
    Level,
    Mode,
    Rule,
    RuleFile,
    check_examples,
    parse,
)
from policy.rule_tables import read_rule

INF = float("inf")
WORDS_ALONE = {
    "flags": (),
    "operands": (),
    "getopt": False,
    "read_only": False,
    "without_cd": False,
    "wide": False,
    "recursive": (),
}
"""A command with nothing but its words."""


def read(text: str) -> RuleFile:
    return parse(text, file="r.toml", level=Level.USER)


def rule(body: str) -> Rule:
    [made] = read(f"[[rule]]\n{body}").rules
    return made


def touches(rule: Rule) -> list[tuple[frozenset[Effect], str]]:
    return [(touch.verbs, touch.pattern) for touch in rule.touches]


def complaint(text: str) -> str:
    with pytest.raises(InvalidRule) as caught:
        read(text)
    return str(caught.value)


def spec(name: str = "save", *, tags: frozenset[str] = frozenset(), effect: Effect = WRITE) -> Spec:
    return Spec(name=name, description="", input_schema={}, tags=tags, effect=effect)


# ---------------------------------------------------------------- what a file may say


def test_an_empty_file_says_nothing() -> None:
    assert [read(text) for text in ("", "# nothing\n", "version = 1", "rule = []")] == [
        RuleFile(())
    ] * 4


@pytest.mark.parametrize("mode", list(Mode))
def test_a_file_may_choose_a_mode(mode: Mode) -> None:
    assert read(f'mode = "{mode.name.lower()}"') == RuleFile((), mode)


def test_every_key_of_a_rule_has_its_meaning() -> None:
    made = rule("""
        id = "no-prod"
        decide = "ask"
        reason = "it is live"
        tools = ["deploy*", "ship"]
        tags = ["live"]
        effects = ["write", "destroy"]
        access = ["write|destroy net:prod/**", "* db:live"]
        args = { region = "eu" }
        expires = 2027-01-31
        once = true
        match = [{ tool = "ship", args = { region = "eu" }, access = "write net:prod/1", tags = "live", effect = "destroy" }]
        not_match = [{ tool = "ship", args = { region = "us" }, access = "write net:prod/1", tags = "live" }]
    """)

    assert {
        name: getattr(made, name)
        for name in ("decide", "origin", "level", "reason", "tools", "tags", "effects", "commands", "expires", "once", "examples")
    } == {
        "decide": "ask",
        "origin": Origin("no-prod", "r.toml", 1),
        "level": Level.USER,
        "reason": "it is live",
        "tools": ("deploy*", "ship"),
        "tags": frozenset({"live"}),
        "effects": frozenset({WRITE, DESTROY}),
        "commands": (),
        "expires": datetime(2027, 1, 31, tzinfo=UTC),
        "once": True,
        "examples": (
            (Example("", "ship", {"region": "eu"}, (Access(WRITE, "net:prod/1"),), frozenset({"live"}), DESTROY), True),
            (Example("", "ship", {"region": "us"}, (Access(WRITE, "net:prod/1"),), frozenset({"live"}), WRITE), False),
        ),
    }  # fmt: skip
    assert touches(made) == [
        (frozenset({WRITE, DESTROY}), "net:prod/**"),
        (frozenset(Effect), "db:live"),
    ]
    assert [made.fits({"region": one}) for one in ("eu", "us", 1, None)] == [
        True,
        False,
        False,
        False,
    ]


def test_a_command_that_is_allowed_has_flags_operands_and_what_it_does() -> None:
    made = rule("""
        decide = "allow"
        command = ["git log", ["git", "rev list"]]
        flags = ["-n:number", "--oneline"]
        operands = ["path*"]
        getopt = true
        read_only = true
        without_cd = true
        recursive = ["-r"]
    """)
    more = {
        "flags": (("-n", ":", "number"), ("--oneline", "", "text")),
        "operands": (("path", 0, INF),),
        "getopt": True,
        "read_only": True,
        "without_cd": True,
        "wide": False,
        "recursive": ("-r",),
    }

    assert [asdict(command) for command in made.commands] == [
        {"words": ("git", "log"), **more},
        {"words": ("git", "rev list"), **more},
    ]
    assert made.origin == Origin("allow git log, git rev list", "r.toml", 1)


def test_flags_and_operands_may_be_any_and_depth_may_be_always() -> None:
    made = rule(
        'decide = "allow"\ncommand = "rg"\nflags = "any"\noperands = "any"\nrecursive = true'
    )

    assert [asdict(command) for command in made.commands] == [
        {**WORDS_ALONE, "words": ("rg",), "flags": None, "operands": None, "recursive": ("*",)}
    ]


def test_a_command_that_is_denied_is_named_wherever_the_program_lies() -> None:
    made = rule(
        'decide = "deny"\ncommand = ["./deploy.sh now", "/usr/bin/rm", "*", ["git", "push"]]'
    )

    assert [asdict(command) for command in made.commands] == [
        {**WORDS_ALONE, "words": words}
        for words in (("deploy.sh", "now"), ("rm",), ("*",), ("git", "push"))
    ]


def test_a_command_that_is_allowed_is_named_with_its_path() -> None:
    [command] = rule('decide = "allow"\ncommand = "./gradlew build"').commands

    assert asdict(command) == {**WORDS_ALONE, "words": ("./gradlew", "build")}


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('tools = "save"', "deny save"),
        ('tools = ["a", "b"]', "deny a, b"),
        ('tags = "live"\ntools = "x"', "deny x"),
        ('tags = "live"\neffects = "read"', "deny live"),
        ('effects = "read"', "deny read"),
        ('command = "git push"\ntools = "bash"', "deny git push"),
        ('command = [["git", "push"], "rm"]', "deny git push, rm"),
        ('access = "read file:**/.env"\ntools = "x"', "deny read file:**/.env"),
        ("args = { n = 1 }", "deny {'n': 1}"),
        (f'tools = "{"x" * 60}"', f"deny {'x' * 60}"),
        (f'tools = "{"x" * 61}"', f"deny {'x' * 59}…"),
        ('id = "mine"\ntools = "x"', "mine"),
        ('id = ""\ntools = "x"', "deny x"),
        ('id = "__class__"\ntools = "x"', "__class__"),
    ],
)
def test_a_rule_without_an_id_is_called_after_what_it_names(body: str, name: str) -> None:
    assert rule(f'decide = "deny"\n{body}').origin.rule == name


@pytest.mark.parametrize(
    ("access", "verbs", "pattern"),
    [
        ("write file:src/**", frozenset({WRITE, DESTROY}), "file:src/**"),
        ("destroy file:src/**", frozenset({DESTROY}), "file:src/**"),
        ("  READ   file:./a/../b  ", frozenset({READ}), "file:b"),
        ("read|write net:example.com:443", frozenset(Effect), "net:example.com/443"),
        ("* *", frozenset(Effect), "*"),
        ("read file:~/.ssh/**", frozenset({READ}), f"file:{Path.home()}/.ssh/**"),
        ("read file:~", frozenset({READ}), "file:~"),
        ("read file:a b/c", frozenset({READ}), "file:a b/c"),
        ("read file:", frozenset({READ}), "file:"),
    ],
)
def test_an_access_is_read_as_it_is_written(
    access: str, verbs: frozenset[Effect], pattern: str
) -> None:
    assert touches(rule(f'decide = "deny"\naccess = "{access}"')) == [(verbs, pattern)]


def test_an_allow_of_writes_allows_no_destruction() -> None:
    [touch] = rule('decide = "allow"\naccess = "write file:src/**"').touches

    assert touch.verbs == {WRITE}


def test_a_touch_is_equal_to_its_like_and_shows_what_was_written() -> None:
    first, second = (rule('decide = "deny"\naccess = "read file:a"').touches for _ in range(2))

    assert first == second
    assert repr(first) == "(Touch(verbs=frozenset({<Effect.READ: 1>}), pattern='file:a'),)"


@pytest.mark.parametrize(
    ("written", "expires"),
    [
        ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
        ("2027-01-31T10:00:00", datetime(2027, 1, 31, 10, tzinfo=UTC)),
        (
            "2027-01-31T10:00:00+02:00",
            datetime(2027, 1, 31, 10, tzinfo=timezone(timedelta(hours=2))),
        ),
        ("2027-01-31 10:00:00Z", datetime(2027, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_a_rule_expires_at_a_day_or_a_time(written: str, expires: datetime) -> None:
    assert rule(f'decide = "deny"\ntools = "x"\nexpires = {written}').expires == expires


# ---------------------------------------------------------------- what a file may not say


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "r.toml: invalid TOML: Invalid value (at end of document)"),
        ("\ufeffmode = 'ask'", "r.toml: invalid TOML: Invalid statement (at line 1, column 1)"),
        (
            "mode = 'ask'\nmode = 'plan'",
            "r.toml: invalid TOML: Cannot overwrite a value (at end of document)",
        ),
        ("allwo = []", "r.toml: unknown key 'allwo'; use one of mode, rule, sources, version"),
        ("b = 1\na = 1", "r.toml: unknown key 'a'; use one of mode, rule, sources, version"),
        ("[[rules]]", "r.toml: unknown key 'rules'; did you mean 'rule'?"),
        (
            "__class__ = 1",
            "r.toml: unknown key '__class__'; use one of mode, rule, sources, version",
        ),
        ("version = 2", "r.toml: unknown version 2; use version = 1"),
        ("version = '1'", 'r.toml: unknown version "1"; use version = 1'),
        ("version = true", "r.toml: unknown version true; use version = 1"),
        ("mode = 'yolo'", "r.toml: unknown mode 'yolo'; use one of plan, ask, edits, open"),
        ("mode = 'PLAN'", "r.toml: unknown mode 'PLAN'; use one of plan, ask, edits, open"),
        ("mode = 3", "r.toml: unknown mode '3'; use one of plan, ask, edits, open"),
        ("mode = ''", "r.toml: unknown mode ''; use one of plan, ask, edits, open"),
        ("rule = 5", "r.toml: rules are not in tables; start each rule with [[rule]]"),
        ("rule = [1]", "r.toml: rules are not in tables; start each rule with [[rule]]"),
        (
            "rule = [{ decide = 'deny', tools = 'x' }]",
            "r.toml: rules are not in tables; start each rule with [[rule]]",
        ),
        (
            "[rule]\ndecide = 'deny'",
            "r.toml: rules are not in tables; start each rule with [[rule]]",
        ),
        (
            "!!python/object:os.system",
            "r.toml: invalid TOML: Invalid statement (at line 1, column 1)",
        ),
    ],
)
def test_a_file_that_is_not_as_it_should_be_is_refused_and_says_why(
    text: str, message: str
) -> None:
    assert complaint(text) == message


@pytest.mark.parametrize(
    "text", ["x = " + "[" * 100_000, "x = " + "1" * 5_000, "x = " + "{a=" * 50_000]
)
def test_toml_that_the_reader_chokes_on_is_refused_like_any_other(text: str) -> None:
    assert complaint(text).startswith("r.toml: ")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "decide must be 'allow', 'ask' or 'deny', but the rule has none"),
        ("decide = 'maybe'", "decide must be 'allow', 'ask' or 'deny', got \"maybe\""),
        ("decide = 'Allow'\ntools = 'x'", "decide must be 'allow', 'ask' or 'deny', got \"Allow\""),
        (
            "decide = ['deny']\ntools = 'x'",
            "decide must be 'allow', 'ask' or 'deny', got [\"deny\"]",
        ),
        (
            "decide = 'deny'",
            "the rule matches nothing; add tools, tags, effects, access, command, line or args",
        ),
        (
            "decide = 'deny'\nreason = 'x'\nonce = false",
            "the rule matches nothing; add tools, tags, effects, access, command, line or args",
        ),
        ("decide = 'deny'\ntool = 'x'", "unknown key 'tool'; did you mean 'tools'?"),
        ("decide = 'deny'\nid = 5", "id must be a string, got 5"),
        ("decide = 'deny'\nreason = 5", "reason must be a string, got 5"),
        ("decide = 'deny'\ntools = 5", "tools must be a list of strings, got 5"),
        ("decide = 'deny'\ntools = ['a', 5]", 'tools must be a list of strings, got ["a", 5]'),
        ("decide = 'deny'\ntags = {}", "tags must be a list of strings, got {}"),
        (
            "decide = 'deny'\ntools = []\ntags = 'x'",
            "tools is empty; add a value or remove the key",
        ),
        (
            "decide = 'deny'\ntags = []\ntools = 'x'",
            "tags is empty; add a value or remove the key",
        ),
        (
            "decide = 'deny'\neffects = []\ntools = 'x'",
            "effects is empty; add a value or remove the key",
        ),
        (
            "decide = 'allow'\naccess = []\ntools = 'x'",
            "access is empty; add a value or remove the key",
        ),
        (
            "decide = 'deny'\neffects = 'change'",
            "unknown effect 'change'; use read, write or destroy",
        ),
        (
            "decide = 'deny'\naccess = 'write'",
            "invalid access 'write'; write a verb and a resource, as 'write file:src/**'",
        ),
        (
            "decide = 'deny'\naccess = ''",
            "invalid access ''; write a verb and a resource, as 'write file:src/**'",
        ),
        (
            "decide = 'deny'\naccess = 'file:src'",
            "invalid access 'file:src'; write a verb and a resource, as 'write file:src/**'",
        ),
        (
            "decide = 'deny'\naccess = 'touch file:src'",
            "unknown effect 'touch'; use read, write or destroy",
        ),
        (
            "decide = 'deny'\naccess = 'read| file:src'",
            "unknown effect ''; use read, write or destroy",
        ),
        (
            "decide = 'deny'\naccess = 'read src/**'",
            "'src/**' is not a resource: write 'scheme:path', or '*' for everything",
        ),
        ("decide = 'deny'\ncommand = 5", "command must be a string or a list of strings"),
        (
            "decide = 'deny'\ncommand = ''",
            "a command has no words; name a program, as 'git status'",
        ),
        (
            "decide = 'deny'\ncommand = [[]]",
            "a command has no words; name a program, as 'git status'",
        ),
        (
            "decide = 'deny'\ncommand = ['git', '  ']",
            "a command has no words; name a program, as 'git status'",
        ),
        (
            "decide = 'deny'\ncommand = [['git', 5]]",
            'command must be a list of strings, got ["git", 5]',
        ),
        ("decide = 'deny'\ncommand = [5]", "command must be a list of strings, got 5"),
        (
            "decide = 'allow'\ncommand = '*'",
            "an allow must name a program, as 'git *'; a mode can allow the others",
        ),
        (
            "decide = 'deny'\ncommand = '* push'",
            "'*' can only be the last word of a command, as in 'git *'",
        ),
        (
            "decide = 'allow'\ncommand = 'git *'\nflags = ['-x']",
            "a command that ends in '*' takes everything; remove flags and operands",
        ),
        (
            "decide = 'deny'\ncommand = 'git'\nflags = ['-x']",
            "flags is only for a rule that allows a command; remove it",
        ),
        (
            "decide = 'ask'\ncommand = 'git'\noperands = ['path']",
            "operands is only for a rule that allows a command; remove it",
        ),
        (
            "decide = 'ask'\ncommand = 'git'\nread_only = true",
            "read_only is only for a rule that allows a command; remove it",
        ),
        (
            "decide = 'deny'\ncommand = 'git'\nwithout_cd = true",
            "without_cd is only for a rule that allows a command; remove it",
        ),
        (
            "decide = 'allow'\ntools = 'x'\nrecursive = true",
            "recursive is only for a rule that allows a command; remove it",
        ),
        (
            "decide = 'allow'\ncommand = 'x'\nflags = 'all'",
            'flags must be a list of strings, got "all"',
        ),
        (
            "decide = 'allow'\ncommand = 'x'\nflags = ['x']",
            "invalid flag 'x'; write '-l', '-n:number' or '--format=text'",
        ),
        (
            "decide = 'allow'\ncommand = 'x'\noperands = 'path'",
            'operands must be a list of strings, got "path"',
        ),
        (
            "decide = 'allow'\ncommand = 'x'\nrecursive = 'r'",
            'recursive must be a list of strings, got "r"',
        ),
        (
            "decide = 'allow'\ncommand = 'x'\nread_only = 'false'",
            'read_only must be true or false, got "false"',
        ),
        (
            "decide = 'allow'\ncommand = 'x'\nwithout_cd = 0",
            "without_cd must be true or false, got 0",
        ),
        ("decide = 'ask'\ntools = 'x'\nonce = 'no'", 'once must be true or false, got "no"'),
        (
            "decide = 'allow'\ncommand = 'cp'\naccess = 'write file:src/**'",
            "a rule can have only one of access, command and line; write two rules",
        ),
        (
            "decide = 'allow'\ncommand = 'cp'\nline = 'cp a b'",
            "a rule can have only one of access, command and line; write two rules",
        ),
        ("decide = 'allow'\nline = ' '", "line is empty; add a value or remove the key"),
        ("decide = 'allow'\nline = 5", "line must be a string, got 5"),
        (
            "decide = 'deny'\nline = 'cp a b'",
            "line and sandboxed are only for a rule with decide = 'allow'",
        ),
        (
            "decide = 'ask'\ncommand = 'cp'\nsandboxed = true",
            "line and sandboxed are only for a rule with decide = 'allow'",
        ),
        (
            "decide = 'allow'\ntools = 'x'\nsandboxed = true",
            "sandboxed is only for a rule with command or line; remove it",
        ),
        (
            "decide = 'allow'\nline = 'cp a b'\nmatch = ['cp a  b']",
            "the rule does not match 'cp a  b', an example in `match`; change the rule or the example",
        ),
        (
            "decide = 'allow'\nline = 'cp a b'\nnot_match = ['cp a', { command = 'cp a b' }]",
            "the rule matches a call with {'command': 'cp a b'}, an example in `not_match`; change the rule or the example",
        ),
        ("decide = 'deny'\nargs = 5", "args must be a table, got 5"),
        (
            "decide = 'deny'\nargs = { a = { over = 1 } }",
            "args.a: invalid condition over = 1; did you mean above? Write a value, or a table with glob, like, regex, in, min, max, above or below",
        ),
        (
            "decide = 'deny'\nargs = { a = { min = '1' } }",
            'args.a: invalid condition min = "1"; write a value, or a table with glob, like, regex, in, min, max, above or below',
        ),
        (
            "decide = 'deny'\nargs = { a = { min = true } }",
            "args.a: invalid condition min = true; write a value, or a table with glob, like, regex, in, min, max, above or below",
        ),
        (
            "decide = 'deny'\nargs = { a = { glob = 1 } }",
            "args.a: invalid condition glob = 1; write a value, or a table with glob, like, regex, in, min, max, above or below",
        ),
        (
            "decide = 'deny'\nargs = { a = { in = 'x' } }",
            'args.a: invalid condition in = "x"; write a value, or a table with glob, like, regex, in, min, max, above or below',
        ),
        (
            "decide = 'deny'\ntools = 'x'\nexpires = 'never'",
            'expires must be a date or a date-time, as 2027-01-31, got "never"',
        ),
        (
            "decide = 'deny'\ntools = 'x'\nexpires = 10:00:00",
            "expires must be a date or a date-time, as 2027-01-31, got 10:00:00",
        ),
        (
            "decide = 'deny'\ntools = 'x'\nexpires = 0",
            "expires must be a date or a date-time, as 2027-01-31, got 0",
        ),
        (
            "decide = 'deny'\ncommand = 'git push'\nnot_match = 'git push'",
            'not_match must be a list, got "git push"',
        ),
        ("decide = 'deny'\ntools = 'x'\nmatch = 5", "match must be a list, got 5"),
        (
            "decide = 'deny'\ntools = 'x'\nmatch = [5]",
            "an example must be a string or a table, got 5",
        ),
        (
            "decide = 'deny'\ntools = 'x'\nmatch = [{ name = 'x' }]",
            "example: unknown key 'name'; use one of access, args, command, effect, tags, tool",
        ),
        (
            "decide = 'deny'\ntools = 'x'\nmatch = [{ effect = 5 }]",
            "effect must be a string, got 5",
        ),
        (
            "decide = 'deny'\ntools = 'x'\nmatch = [{ effect = 'x' }]",
            "unknown effect 'x'; use read, write or destroy",
        ),
        ("decide = 'deny'\ntools = 'x'\nmatch = [{ args = 5 }]", "args must be a table, got 5"),
        ("decide = 'deny'\ntools = 'x'\nmatch = [{ tool = 5 }]", "tool must be a string, got 5"),
        (
            "decide = 'deny'\ntools = 'x'\nmatch = [{ command = 5 }]",
            "command must be a string, got 5",
        ),
        (
            "decide = 'deny'\ntools = 'x'\nmatch = [{ tags = 5 }]",
            "tags must be a list of strings, got 5",
        ),
        (
            "decide = 'deny'\ntools = 'x'\nmatch = [{ access = 'read' }]",
            "invalid access 'read' in an example; write it as 'read file:src/a.py'",
        ),
        (
            "decide = 'deny'\ntools = 'x'\nmatch = [{ access = 'see file:x' }]",
            "invalid access 'see file:x' in an example; write it as 'read file:src/a.py'",
        ),
        (
            "decide = 'deny'\naccess = 'read file:x'\nmatch = ['x']",
            "invalid access 'x' in an example; write it as 'read file:src/a.py'",
        ),
        (
            "decide = 'deny'\naccess = 'read file:x'\nmatch = ['read x']",
            "invalid access 'read x' in an example; write it as 'read file:src/a.py'",
        ),
    ],
)
def test_a_rule_that_is_not_as_it_should_be_is_refused_with_its_file_and_line(
    body: str, message: str
) -> None:
    good = '[[rule]]\ndecide = "deny"\ntools = "good"\n\n'

    assert complaint(f"{good}[[rule]]\n{body}\n") == f"r.toml:5: {message}"


@pytest.mark.parametrize(
    "body",
    [
        "decide = 'allow'\ntools = 'x'\ncommand = []",
        "decide = 'allow'\ntools = 'x'\nargs = {}",
    ],
)
def test_a_key_that_names_nothing_never_makes_a_rule_wider(body: str) -> None:
    key = "command" if "command" in body else "args"

    assert (
        complaint(f"[[rule]]\n{body}") == f"r.toml:1: {key} is empty; add a value or remove the key"
    )


def test_an_error_knows_its_position() -> None:
    with pytest.raises(InvalidRule) as caught:
        parse("\n[[rule]]\ndecide = 'deny'\ntools = []", file="r.toml", level=Level.USER)

    error = caught.value
    assert (error.file, error.line, error.reason) == (
        "r.toml",
        2,
        "tools is empty; add a value or remove the key",
    )
    assert str(error) == f"r.toml:2: {error.reason}"
    assert str(InvalidRule("no")) == "no"


@pytest.mark.parametrize("decide", ["allow", "deny"])
def test_once_is_for_a_rule_that_asks(decide: str) -> None:
    assert (
        complaint(f"[[rule]]\ndecide = '{decide}'\ntools = 'x'\nonce = true")
        == "r.toml:1: once is only for a rule with decide = 'ask'; remove it"
    )


# ---------------------------------------------------------------- lines


def lines(text: str) -> list[int]:
    return [one.origin.line for one in read(text).rules]


BODY = "decide = 'deny'\ntools = 'x'\n"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (f"[[rule]]\n{BODY}\n# c\n  [[ rule ]] # c\n{BODY}", [1, 6]),
        (f"mode = 'ask'\n\n[[rule]]\n{BODY}", [3]),
        (f"[[rule]]\r\n{BODY}\r\n[[rule]]\r\n{BODY}", [1, 5]),
        (f"[[rule]]\n{BODY}reason = '''\n[[rule]]\n'''\n[[rule]]\n{BODY}", [1, 7]),
        (f'[[rule]]\n{BODY}reason = """\n[[rule]]\n  [[rule]]\n"""\n[[rule]]\n{BODY}', [1, 8]),
        (f"[['rule']]\n{BODY}reason = '''\n[[rule]]\n'''\n", [1]),
        (f'[["rule"]]\n{BODY}', [1]),
        (f"# \u2028 \x85\n[[rule]]\n{BODY}", [2]),
        (f"[[rule]]\n{BODY}[rule.args]\nn = 1\n[[rule]]\n{BODY}", [1, 6]),
        (f"# [[rule]]\n[[rule]]\n{BODY}", [2]),
    ],
)
def test_each_rule_knows_the_line_that_it_begins_in(text: str, where: list[int]) -> None:
    assert lines(text) == where


def test_the_line_in_a_complaint_is_right_behind_a_text_that_looks_like_a_rule() -> None:
    text = f"[[rule]]\n{BODY}reason = '''\n[[rule]]\n[[rule]]\n'''\n\n[[rule]]\ndecide = 'x'\n"

    assert complaint(text) == "r.toml:9: decide must be 'allow', 'ask' or 'deny', got \"x\""


@given(
    st.lists(
        st.sampled_from(
            [
                "[[rule]]",
                "[[ rule ]]",
                '[["rule"]]',
                "# [[rule]]",
                "",
                "reason = '''\n[[rule]]\n'''",
            ]
        ),
        max_size=8,
    )
)
def test_headers_and_what_only_looks_like_one_are_told_apart(pieces: list[str]) -> None:
    text, expected = "", list[int]()
    for at, piece in enumerate(pieces):
        if piece.lstrip().startswith("[["):
            expected.append(text.count("\n") + 1)
            text += f"{piece}\n{BODY}id = 'r{at}'\n"
        elif not piece.startswith("reason") or (
            expected and "reason" not in text.rpartition("[[rule")[2]
        ):
            text += f"{piece}\n"

    try:
        assert lines(text) == expected
    except InvalidRule as error:  # two reasons in one rule
        assert "Cannot overwrite" in str(error)  # noqa: PT017


# ---------------------------------------------------------------- examples


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "decide = 'deny'\ncommand = 'git push'\nmatch = ['git pull']",
            "the rule does not match 'git pull', an example in `match`; change the rule or the example",
        ),
        (
            "decide = 'deny'\ncommand = 'git push'\nnot_match = ['sudo git push']",
            "the rule matches 'sudo git push', an example in `not_match`; change the rule or the example",
        ),
        (
            "decide = 'allow'\ncommand = 'git log'\nmatch = ['git log && ls']",
            "the rule does not match 'git log && ls', an example in `match`; change the rule or the example",
        ),
        (
            "decide = 'allow'\ncommand = 'git log'\nmatch = ['git log $x']",
            "the rule does not match 'git log $x', an example in `match`; change the rule or the example",
        ),
        (
            "decide = 'allow'\ncommand = 'git log'\nnot_match = ['git log; git log']",
            "the rule matches 'git log; git log', an example in `not_match`; change the rule or the example",
        ),
        (
            "decide = 'allow'\naccess = 'write file:**'\nmatch = ['write file:../x']",
            "the rule does not match 'write file:../x', an example in `match`; change the rule or the example",
        ),
        (
            "decide = 'deny'\naccess = 'write file:**'\nmatch = ['read file:x']",
            "the rule does not match 'read file:x', an example in `match`; change the rule or the example",
        ),
        (
            "decide = 'deny'\ntools = 'a*'\nnot_match = ['ab']",
            "the rule matches 'ab', an example in `not_match`; change the rule or the example",
        ),
        (
            "decide = 'deny'\nargs = { n = 1 }\nmatch = [{ args = { n = 2 } }]",
            "the rule does not match a call with {'n': 2}, an example in `match`; change the rule or the example",
        ),
        (
            "decide = 'allow'\naccess = 'read file:x'\nmatch = [{ tool = 't' }]",
            "the rule does not match a call to t, an example in `match`; change the rule or the example",
        ),
        (
            "decide = 'deny'\ntools = 't'\nmatch = [{ tool = 'u', access = 'read file:x' }]",
            "the rule does not match a call to u touching read file:x, an example in `match`; change the rule or the example",
        ),
        (
            "decide = 'deny'\ntools = 'x'\nmatch = ['']",
            "the rule does not match a call, an example in `match`; change the rule or the example",
        ),
    ],
)
def test_an_example_that_does_not_hold_is_refused_and_shown(body: str, message: str) -> None:
    assert complaint(f"# c\n[[rule]]\n{body}") == f"r.toml:2: {message}"


@pytest.mark.parametrize(
    "body",
    [
        "decide = 'deny'\ncommand = 'git push'\nmatch = ['git push', 'git -C x push', 'ls && git push -f', 'sh -c \"git push\"']\nnot_match = ['git pull', 'echo push']",
        "decide = 'deny'\ncommand = '*'\nmatch = ['ls', '$(']",
        "decide = 'allow'\ncommand = 'ls'\nflags = ['-l']\noperands = ['path*']\nmatch = ['ls -l src', 'ls | ls', 'ls && ls']\nnot_match = ['ls -x', 'ls /', 'ls > x', 'ls; rm x', 'cd x && ls', '']",
        "decide = 'allow'\naccess = 'write file:src/**'\nmatch = ['write file:src/a', { access = ['write file:src/a', 'write file:src/b'] }]\nnot_match = ['read file:src/a', { access = ['write file:src/a', 'write file:b'] }, {}]",
        "decide = 'deny'\naccess = 'write file:src/**'\nmatch = [{ access = ['write file:src/a', 'write file:b'] }]\nnot_match = [{}]",
        "decide = 'deny'\ntools = 'mcp__*'\nmatch = ['mcp__x', { tool = 'mcp__y' }]\nnot_match = ['mcp', {}]",
        "decide = 'deny'\ntags = 'live'\nmatch = [{ tags = ['live', 'x'] }]\nnot_match = ['x', { tags = 'x' }]",
        "decide = 'deny'\neffects = 'read'\nmatch = [{ effect = 'read' }]\nnot_match = ['x', { effect = 'destroy' }]",
        "decide = 'deny'\ncommand = 'rm'\nargs = { force = true }\nmatch = [{ command = 'rm x', args = { force = true } }]\nnot_match = [{ command = 'rm x' }, { args = { force = true } }]",
    ],
)
def test_examples_that_hold_are_no_hindrance(body: str) -> None:
    assert {one.holds for one in check_examples(rule(body))} == {True}


def test_examples_can_be_left_for_later_and_then_be_tried_one_by_one() -> None:
    text = "[[rule]]\ndecide = 'deny'\ntools = 'x'\nmatch = ['x', 'y']\nnot_match = ['x']"
    [made] = parse(text, file="r.toml", level=Level.RUN, check=False).rules
    tried = check_examples(made)

    assert tried == [
        ExampleResult(made, Example("x"), wanted=True, holds=True),
        ExampleResult(made, Example("y"), wanted=True, holds=False),
        ExampleResult(made, Example("x"), wanted=False, holds=False),
    ]
    assert [str(one) for one in tried] == [
        "the rule matches 'x', an example in `match`",
        "the rule does not match 'y', an example in `match`",
        "the rule matches 'x', an example in `not_match`",
    ]


def test_the_text_of_a_rule_is_what_was_written_but_for_its_examples() -> None:
    made = rule("decide = 'deny'\ntools = ['x']\nexpires = 2027-01-31\nmatch = ['x']")

    assert made.text == '[[rule]]\ndecide = "deny"\ntools = ["x"]\nexpires = 2027-01-31\n'


# ---------------------------------------------------------------- whom it concerns


def test_a_rule_concerns_a_tool_by_name_tag_and_effect_together() -> None:
    made = rule(
        "decide = 'deny'\ntools = ['s?ve', 'x']\ntags = ['a', 'b']\neffects = ['write', 'read']"
    )

    assert [
        made.concerns(spec(name, tags=frozenset(tags), effect=effect))
        for name, tags, effect in (
            ("save", "b", WRITE), ("x", "abc", READ), ("saave", "b", WRITE), ("save", "c", WRITE), ("save", "", WRITE), ("save", "a", DESTROY),
        )
    ] == [True, True, False, False, False, False]  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "yes", "no"),
    [
        ("1", [1, 1.0], [True, "1", 2, None, [1]]),
        ("true", [True], [1, "true", False]),
        ("'a'", ["a"], ["A", "ab", ["a"]]),
        ("[1, 2]", [[1, 2]], [[2, 1], 1, (1, 2)]),
        ("{ glob = 'src/**' }", ["src", "src/a/b"], ["srcs", 1, None]),
        ("{ glob = 'src/*' }", ["src/a"], ["src/a/b", "src"]),
        ("{ like = 'a*' }", ["a", "a/b\nc"], ["b", 1]),
        ("{ regex = 'a+|b' }", ["aa", "b"], ["ab", "xaa", "", 1, "a\n", "a\ud800"]),
        ("{ in = [1, 'x'] }", [1, 1.0, "x"], [True, "1", None]),
        ("{ in = [] }", [], [1, "", None]),
        ("{ min = 1, max = 3 }", [1, 2.5, 3], [0, 4, "2", True, None, [2]]),
        ("{ above = 1, below = 3 }", [2, 1.5], [1, 3, False]),
        ("{ min = 1.5 }", [2], [1]),
        ("{ glob = '*.py', like = 'a*' }", ["a.py"], ["b.py", "a.js"]),
    ],
)
def test_an_argument_is_meant_by_its_value(condition: str, yes: list[Any], no: list[Any]) -> None:
    made = rule(f"decide = 'deny'\nargs = {{ a = {condition} }}")

    assert [made.fits({"a": one}) for one in yes] == [True] * len(yes)
    assert [made.fits({"a": one}) for one in no] == [False] * len(no)


def test_an_argument_that_is_not_there_is_not_meant_and_one_within_another_may_be() -> None:
    made = rule("decide = 'deny'\n[rule.args]\n'to.city' = 'x'\nn = { min = 1 }")

    assert [
        made.fits(args)
        for args in (
            {"to": {"city": "x"}, "n": 1},
            {"to": {"city": "x"}},
            {"to": "x", "n": 1},
            {"to": {}, "n": 1},
            {"to.city": "x", "n": 1},
            {},
        )
    ] == [True, False, False, False, False, False]


# ---------------------------------------------------------------- what may lie below


@pytest.mark.parametrize(
    ("access", "wide", "expected"),
    [
        ("read file:src/.env", Access(READ, "file:src"), True),
        ("read file:src/.env", Access(READ, "file:."), True),
        ("read file:src/.env", Access(READ, "*"), True),
        ("read file:src/.env", Access(WRITE, "file:src"), False),
        ("read file:src/.env", Access(READ, "file:src/.env"), False),
        ("read file:src/.env", Access(READ, "file:sr"), False),
        ("read file:src/.env", Access(READ, "net:"), False),
        ("read file:src/**", Access(READ, "file:src"), False),
        ("read file:a/b/*.pem", Access(READ, "file:a"), True),
        ("read file:**/.env", Access(READ, "file:."), True),
        ("read *", Access(READ, "file:src"), False),
    ],
)
def test_an_access_may_be_so_wide_that_what_is_meant_lies_below_it(
    access: str,
    wide: Access,
    expected: bool,  # noqa: FBT001
) -> None:
    [touch] = rule(f'decide = "deny"\naccess = "{access}"').touches

    assert touch.may_meet(wide) is expected


@pytest.mark.parametrize(
    ("resource", "yes", "no"),
    [
        ("file:src/.env", [".", "src", "./src/", "src/.env"], ["lib", "src2", "sr"]),
        ("file:src/*.pem", [".", "src", "src/sub"], ["lib"]),
        ("file:**/.env", [".", "src", "a/b"], []),
        ("*", [".", "src", "/"], []),
        ("net:**", [], [".", "src", "/", ".."]),
    ],
)
def test_a_folder_may_hold_what_is_meant(resource: str, yes: list[str], no: list[str]) -> None:
    [touch] = rule(f'decide = "deny"\naccess = "read {resource}"').touches

    assert [touch.reaches(one) for one in yes] == [True] * len(yes)
    assert [touch.reaches(one) for one in no] == [False] * len(no)


@pytest.mark.parametrize("folder", ["/", "..", "../..", "//", "/.."])
@pytest.mark.parametrize(
    "resource", ["file:secrets/**", "file:.env", "file:/etc/**", "file:~/.ssh/id"]
)
def test_what_lies_above_the_workspace_holds_all_of_it(folder: str, resource: str) -> None:
    [touch] = rule(f'decide = "deny"\naccess = "read {resource}"').touches

    assert touch.reaches(folder) is True


@pytest.mark.parametrize(
    ("pattern", "resource"),
    [
        ("file:../**", "file:../../x"),
        ("file:../*/x", "file:../../x"),
        ("file:../?*/x", "file:../../x"),
    ],
)
def test_no_glob_that_allows_takes_a_step_up_for_a_name(pattern: str, resource: str) -> None:
    [touch] = rule(f'decide = "allow"\naccess = "write {pattern}"').touches

    assert touch.covers(Access(WRITE, resource)) is False


# ---------------------------------------------------------------- regular expressions


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing ): ("),
        ("(?=x)", "invalid perl operator: (?="),
        (r"(a)\1", "invalid escape sequence: \\1"),
        ("a{2,1}", "invalid repetition size: {2,1}"),
    ],
)
def test_a_regex_that_cannot_be_matched_in_linear_time_is_refused(pattern: str, why: str) -> None:
    assert complaint(f"[[rule]]\ndecide = 'deny'\nargs = {{ a = {{ regex = '{pattern}' }} }}") == (
        f"r.toml:1: invalid regex {pattern!r}, read as RE2: {why}"
    )


@pytest.mark.timeout(20)
def test_a_nasty_regex_takes_time_that_grows_with_the_text() -> None:
    assert [
        read_rule(decide="deny", args={"a": {"regex": pattern}}).fits({"a": "a" * 100_000})
        for pattern in ("(a+)+b", "(a|aa)+b", "(.*a){20}b", "(a*)*b")
    ] == [False] * 4


def test_a_regex_means_the_whole_text() -> None:
    made = read_rule(decide="deny", args={"a": {"regex": "a|ab"}})

    assert [made.fits({"a": text}) for text in ("a", "ab", "abc", "xa", "a\n", "")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


def test_without_google_re2_a_regex_is_refused_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)

    assert complaint("[[rule]]\ndecide = 'deny'\nargs = { a = { regex = 'x' } }") == (
        "r.toml:1: a rule with a regex needs google-re2: pip install 'handrail[rules]'"
    )


def test_without_google_re2_all_other_rules_load() -> None:
    program = """
import sys
sys.modules["re2"] = None
from handrail.policy import Level, parse, builtin_rules
print(len(parse('[[rule]]\\ndecide="deny"\\nargs={a={glob="x*"}}', file="r", level=Level.USER).rules), len(builtin_rules("read_only")) > 0)
"""
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)  # noqa: S603  ours

    assert ran.stdout == "1 True\n"


def test_a_time_of_day_is_a_value_that_no_argument_has() -> None:
    made = rule("decide = 'deny'\nargs = { at = 07:32:00 }")

    assert [made.fits({"at": one}) for one in ("07:32:00", 7)] == [False, False]
