"""`handrail rules list | check | test | forget`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from cli_harness import Handrail, Ran, Schemas
from cli_runs import journal_run
from cli_scripts import scripted
from handrail.policy import RulePaths, Trust, digest

TOOLS = '''
from handrail import READ, WRITE, reads_file, tool, writes_file

@tool(effect=READ, touches=reads_file)
def show(path: str) -> str:
    """Show a file."""
    return path

@tool(effect=WRITE, touches=lambda path, **_: writes_file(path))
def save(path: str, text: str = "") -> str:
    """Save a file."""
    return path

@tool(effect=WRITE)
def bash(command: str) -> str:
    """Run a line."""
    return command
'''
RULES = """
[[rule]]
id = "secrets"
decide = "deny"
reason = "secrets are not for models"
access = ["* file:**/.env", "* file:**/*.pem"]

[[rule]]
decide = "allow"
tools = ["save"]
access = "write file:src/**"
expires = 2127-01-31

[[rule]]
decide = "ask"
command = [["git", "push"], "npm publish"]

[[rule]]
id = "small"
decide = "allow"
tools = "save"
args = { text = { max = 5 }, "day" = 2027-01-01, "n" = { in = [1.5, nan, true] } }
expires = 2020-01-01
"""
REMEMBERED = """
[[rule]]
id = "remembered-0011aabb"
decide = "allow"
tools = ["save"]
access = ["write file:docs/**"]
"""


@pytest.fixture
def rules(handrail: Handrail) -> Callable[..., Ran]:
    """Runs `handrail rules ...` on a few tools."""
    handrail.write("tools.py", TOOLS)

    def run(command: str, *arguments: str, input: str = "") -> Ran:  # noqa: A002
        return handrail("rules", command, "-t", "tools.py", *arguments, input=input)

    return run


def own(handrail: Handrail, text: str, name: str = "rules.toml") -> Path:
    """A file of the user's."""
    path = handrail.config / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def remembered(handrail: Handrail, text: str = REMEMBERED) -> Path:
    places = RulePaths.of(handrail.workspace, config=handrail.config)
    assert places.remembered is not None
    handrail.config.mkdir(mode=0o700, parents=True, exist_ok=True)
    return own(handrail, text, f"projects/{places.remembered.name}")


def trusted(handrail: Handrail, path: Path) -> None:
    Trust(handrail.config / "trust.json").grant(path, digest(path.read_bytes()))


@pytest.fixture
def managed(handrail: Handrail, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's rules, in a place that a test may write to."""
    usual, file = RulePaths.of, handrail.folder / "etc" / "rules.toml"
    file.parent.mkdir(mode=0o755)
    monkeypatch.setattr(RulePaths, "of", lambda *a, **k: replace(usual(*a, **k), managed=file))
    return file


# list


def test_list_has_each_rule_with_its_place_in_the_order_in_which_they_decide(
    handrail: Handrail, rules: Callable[..., Ran]
) -> None:
    own(handrail, RULES)
    stored = remembered(handrail)
    ran = rules("list")

    assert ran.exit == 0
    shown = ran.out.replace(str(stored), "…").replace(str(handrail.config), "…")
    assert re.sub(" {2,}", "  ", shown).splitlines() == snapshot(  # paths differ in length
        [
            "deny  secrets  user  …/rules.toml:2  access * file:**/.env, * file:**/*.pem",
            "ask  ask git push, npm publish  user  …/rules.toml:14  command git push, npm publish",
            "allow  allow write file:src/**  user  …/rules.toml:8 until 2127-01-31  tools save; access write file:src/**",
            "allow  remembered-0011aabb  remembered  …:2  tools save; access write file:docs/**",
            "allow  small  user  …/rules.toml:18 expired on 2020-01-01  tools save; args text max 5, day 2027-01-01, n in 1.5, nan, true",
        ]
    )
    assert ran.err == snapshot("68 built-in rules are not shown; list them with `--all`\n")


def test_list_as_data_says_what_each_rule_names(
    handrail: Handrail, rules: Callable[..., Ran], schema: Schemas
) -> None:
    file = own(handrail, RULES)
    stored = remembered(handrail)
    ran = rules("list", "--json")
    text = ran.out.replace(str(file), "rules.toml").replace(str(stored), "stored.toml")

    schema("rules-list", ran.json)
    assert json.loads(text) == snapshot(
        {
            "rules": [
                {
                    "id": "secrets",
                    "decides": "deny",
                    "names": {"access": ["* file:**/.env", "* file:**/*.pem"]},
                    "level": "user",
                    "file": "rules.toml",
                    "line": 2,
                    "reason": "secrets are not for models",
                    "expires": None,
                    "expired": False,
                    "remembered": False,
                },
                {
                    "id": "ask git push, npm publish",
                    "decides": "ask",
                    "names": {"command": [["git", "push"], "npm publish"]},
                    "level": "user",
                    "file": "rules.toml",
                    "line": 14,
                    "reason": "",
                    "expires": None,
                    "expired": False,
                    "remembered": False,
                },
                {
                    "id": "allow write file:src/**",
                    "decides": "allow",
                    "names": {"tools": ["save"], "access": "write file:src/**"},
                    "level": "user",
                    "file": "rules.toml",
                    "line": 8,
                    "reason": "",
                    "expires": "2127-01-31T00:00:00+00:00",
                    "expired": False,
                    "remembered": False,
                },
                {
                    "id": "remembered-0011aabb",
                    "decides": "allow",
                    "names": {"tools": ["save"], "access": ["write file:docs/**"]},
                    "level": "user",
                    "file": "stored.toml",
                    "line": 2,
                    "reason": "",
                    "expires": None,
                    "expired": False,
                    "remembered": True,
                },
                {
                    "id": "small",
                    "decides": "allow",
                    "names": {
                        "tools": "save",
                        "args": {
                            "text": {"max": 5},
                            "day": "2027-01-01",
                            "n": {"in": [1.5, "nan", True]},
                        },
                    },
                    "level": "user",
                    "file": "rules.toml",
                    "line": 18,
                    "reason": "",
                    "expires": "2020-01-01T00:00:00+00:00",
                    "expired": True,
                    "remembered": False,
                },
            ]
        }
    )


def test_list_leaves_out_what_comes_with_us_unless_it_is_asked_for(
    rules: Callable[..., Ran], schema: Schemas
) -> None:
    few, all_of_them = rules("list"), rules("list", "--all", "--output", "jsonl")

    assert (few.out, few.err) == snapshot(
        ("no rules\n", "68 built-in rules are not shown; list them with `--all`\n")
    )
    assert {one["level"] for one in all_of_them.lines} == {"built in"}
    assert len(all_of_them.lines) == int(few.err.split()[0])
    for one in all_of_them.lines:
        schema("rules-list", one, part="line")


def test_list_of_the_remembered_has_no_others(
    handrail: Handrail, rules: Callable[..., Ran]
) -> None:
    own(handrail, RULES)
    remembered(handrail)
    ran = rules("list", "--remembered", "--json")

    assert ([one["id"] for one in ran.json["rules"]], ran.err) == (["remembered-0011aabb"], "")


def test_what_a_rule_says_does_not_act_on_a_terminal(
    handrail: Handrail, rules: Callable[..., Ran]
) -> None:
    own(handrail, '[[rule]]\nid = "a\\u001b[2J\\nb"\ndecide = "deny"\ntools = "\\u202egpj"\n')
    ran = rules("list")

    assert ran.out.replace(str(handrail.folder), "…").splitlines() == snapshot(
        ["deny  a\\u{1B}[2J\\u{A}b  user  …/config/handrail/rules.toml:1  tools \\u{202E}gpj"]
    )


def test_rules_of_all_levels_are_listed_as_such(
    handrail: Handrail, rules: Callable[..., Ran], managed: Path
) -> None:
    one = '[[rule]]\ndecide = "deny"\ntools = "x"\n'
    managed.write_text(one, encoding="utf-8")
    own(handrail, one)
    trusted(handrail, handrail.write(".handrail/rules.toml", one))

    assert [(one["level"], one["line"]) for one in rules("list", "--json").json["rules"]] == [
        ("managed", 1),
        ("user", 1),
        ("project", 1),
    ]


def test_a_list_of_rules_that_cannot_be_used_is_a_failure(
    handrail: Handrail, rules: Callable[..., Ran]
) -> None:
    file = own(handrail, "rule = 5")

    why = "rules are not in tables; start each rule with [[rule]]"

    hint = "run `handrail rules check` for all errors"
    assert rules("list") == (1, "no rules\n", f"denying every call: {file}: {why}; {hint}\n")


# check


def test_check_is_content_with_files_that_are_right(
    handrail: Handrail, rules: Callable[..., Ran], schema: Schemas
) -> None:
    assert rules("check") == (0, "no problems in 0 rule files\n", "")
    own(handrail, '[[rule]]\ndecide = "deny"\ntools = "save"\nmatch = ["save"]\n')

    assert rules("check") == (0, "no problems in 1 rule file\n", "")
    assert schema("rules-check", rules("check", "--json").json) == {"findings": []}


def test_check_finds_every_example_that_does_not_hold(
    handrail: Handrail, rules: Callable[..., Ran], schema: Schemas
) -> None:
    file = own(
        handrail,
        '[[rule]]\ndecide = "allow"\naccess = "write file:src/*"\n'
        'match = ["write file:src/a", "write file:src/a/b", "write file:lib/a"]\n\n'
        '[[rule]]\ndecide = "deny"\naccess = "write file:a"\nnot_match = ["file:a"]\n',
    )
    ran = rules("check", "--json")
    found = schema("rules-check", ran.json)["findings"]

    assert ran.exit == 1
    assert {one["file"] for one in found} == {str(file)}
    assert [(one["line"], one["fault"], one["message"]) for one in found] == snapshot(
        [
            (1, "example", "the rule does not match 'write file:src/a/b', an example in `match`"),
            (1, "example", "the rule does not match 'write file:lib/a', an example in `match`"),
            (
                6,
                "example",
                "invalid access 'file:a' in an example; write it as 'read file:src/a.py'",
            ),
        ]
    )
    assert [schema("rules-check", one, part="line") for one in rules("check", "-o", "jsonl").lines]


@pytest.mark.parametrize(
    ("text", "line"),
    [("rule = 5\n", None), ('[[rule]]\ndecide = "alow"\n', 1), ("a = \n", None)],
)
def test_check_says_where_a_file_cannot_be_read(
    handrail: Handrail, rules: Callable[..., Ran], text: str, line: int | None
) -> None:
    own(handrail, text)
    (found,) = rules("check", "--json").json["findings"]

    assert (found["line"], found["fault"]) == (line, "unreadable")
    assert str(handrail.config) not in found["message"]
    assert "every call is denied" in found["do"]


def test_check_says_what_is_wrong_with_a_file_itself(
    handrail: Handrail, rules: Callable[..., Ran]
) -> None:
    own(handrail, '[[rule]]\ndecide = "allow"\ntools = "save"\n').chmod(0o666)
    handrail.write(".handrail/rules.toml", '[[rule]]\ndecide = "allow"\ntools = "save"\n')
    stored = remembered(handrail, "")
    stored.write_bytes(b"\xff")
    ran = rules("check")

    assert ran.exit == 1
    assert ran.out.replace(str(stored), "…").replace(
        str(handrail.config), "…"
    ).splitlines() == snapshot(
        [
            "…/rules.toml: ignoring the allow rules of this file: other users can write to the file or its folder",
            "  run `chmod go-w …/rules.toml …`",
            "…: the file is not UTF-8",
            "  correct it; until then, every call is denied",
            ".handrail/rules.toml: ignoring this file: not trusted, or changed since you trusted it",
            "  review it with `handrail trust`",
        ]
    )


def test_check_follows_no_link_and_waits_for_no_pipe(
    handrail: Handrail, rules: Callable[..., Ran]
) -> None:
    (handrail.workspace / ".handrail").mkdir()
    os.mkfifo(handrail.workspace / ".handrail" / "rules.toml")
    own(handrail, "").unlink()
    (handrail.config / "rules.toml").symlink_to("/etc/passwd")
    ran = rules("check", "--json")

    assert [(Path(one["file"]).name, one["message"]) for one in ran.json["findings"]] == snapshot(
        [
            ("rules.toml", "cannot be read: it is a link, and links are not followed"),
            ("rules.toml", "ignoring this file: cannot be read: it is not a regular file"),
        ]
    )


def test_check_names_rules_that_never_decide(handrail: Handrail, rules: Callable[..., Ran]) -> None:
    own(
        handrail,
        '[[rule]]\nid = "all"\ndecide = "deny"\naccess = "write *"\n\n'
        '[[rule]]\nid = "docs"\ndecide = "allow"\naccess = "write file:docs/**"\n\n'
        '[[rule]]\nid = "mails"\ndecide = "ask"\ntools = "send_*"\n\n'
        '[[rule]]\nid = "old"\ndecide = "ask"\ntools = "save"\nexpires = 2020-01-01\n',
    )
    ran = rules("check")

    assert ran.exit == 1
    assert ran.out.replace(str(handrail.config), "…").splitlines() == snapshot(
        [
            "…/rules.toml:6: docs: it never decides, because all (…/rules.toml:1) always does",
            "  delete it, or make the other rule narrower",
            "…/rules.toml:11: mails: no tool is named 'send_*'",
            "  fix the name, or delete the rule",
            "…/rules.toml:16: old: it has expired",
            "  delete it, or change `expires`",
        ]
    )


def test_what_comes_with_us_is_not_reported_where_a_rule_of_the_user_hides_it(
    handrail: Handrail, rules: Callable[..., Ran]
) -> None:
    own(handrail, '[[rule]]\ndecide = "deny"\ncommand = "*"\n')

    assert rules("check").exit == 0


def test_check_of_named_files_looks_at_those_alone(
    handrail: Handrail, rules: Callable[..., Ran]
) -> None:
    own(handrail, "rule = 5")
    handrail.write("good.toml", '[[rule]]\ndecide = "deny"\ntools = "save"\n')
    handrail.write("bad.toml", '[[rule]]\ndecide = "deny"\ntools = "sav"\n')
    handrail.write("worse.toml", "rule = 5")

    assert rules("check", "good.toml") == (0, "no problems in 1 rule file\n", "")
    assert rules("check", "good.toml", "bad.toml", "worse.toml") == snapshot(
        Ran(
            exit=1,
            out="""\
bad.toml:1: deny sav: no tool is named 'sav'
  fix the name, or delete the rule
worse.toml: rules are not in tables; start each rule with [[rule]]
  correct it; until then, every call is denied
""",
            err="",
        )
    )


@pytest.mark.parametrize("name", ["missing.toml", ".", "bytes.toml", "long.toml"])
def test_check_of_what_is_no_rule_file_says_why(
    handrail: Handrail, rules: Callable[..., Ran], name: str
) -> None:
    (handrail.workspace / "bytes.toml").write_bytes(b"\xff")
    (handrail.workspace / "long.toml").write_bytes(b"#" * (1 << 20) + b"#")
    ran = rules("check", name, "--json")

    assert (ran.exit, ran.out, ran.error["code"]) == (2, "", "file")
    assert (
        ran.error["message"].replace(str(handrail.workspace), "")
        == {
            "missing.toml": "cannot read /missing.toml: No such file or directory",
            ".": "cannot read : it is not a regular file",
            "bytes.toml": "/bytes.toml is not UTF-8 text",
            "long.toml": "cannot read /long.toml: it has more than 1048576 bytes",
        }[name]
    )


# test


def calls(*made: tuple[str, dict[str, object]]) -> str:
    return "".join(f"{json.dumps({'name': name, 'args': args})}\n" for name, args in made)


PLAIN = calls(
    ("show", {"path": "a.md"}),
    ("save", {"path": "src/a.py"}),
    ("save", {"path": "src/b.py"}),
    ("bash", {"command": "npm test --watch"}),
    ("bash", {"command": "rm -rf /"}),
)


def test_calls_of_a_file_are_held_against_the_rules_that_count_now(
    handrail: Handrail, rules: Callable[..., Ran], schema: Schemas
) -> None:
    handrail.write("calls.jsonl", PLAIN)
    same, stricter = (
        rules("replay", "calls.jsonl"),
        rules("replay", "calls.jsonl", "--mode", "plan"),
    )

    assert same == (0, "", "5 calls: 1 allow, 4 ask, 0 deny; 0 would change\n")
    assert stricter == snapshot(
        Ran(
            exit=1,
            out="""\
ask -> deny  save {"path": "src/a.py"}  by mode plan
ask -> deny  save {"path": "src/b.py"}  by mode plan
ask -> deny  bash {"command": "npm test --watch"}  by mode plan
ask -> deny  bash {"command": "rm -rf /"}  by mode plan
""",
            err="5 calls: 1 allow, 0 ask, 4 deny; 4 would change\n",
        )
    )
    assert schema("rules-replay", rules("replay", "calls.jsonl", "--json").json) == {
        "calls": 5,
        "decided": {"allow": 1, "ask": 4, "deny": 0},
        "changes": [],
        "skipped": [],
        "proposals": [],
        "spared": 0,
    }


def test_calls_are_judged_by_another_file_in_place_of_the_users(
    handrail: Handrail, rules: Callable[..., Ran], schema: Schemas
) -> None:
    own(handrail, '[[rule]]\ndecide = "deny"\ntools = "save"\n')
    other = handrail.write(
        "other.toml", '[[rule]]\nid = "src"\ndecide = "allow"\naccess = "write file:src/**"\n'
    )
    ran = rules("replay", "-", "--rules", "other.toml", "--json", input=PLAIN)

    assert ran.exit == 1
    assert json.loads(json.dumps(schema("rules-replay", ran.json)).replace(str(other), "…")) == (
        snapshot(
            {
                "calls": 5,
                "decided": {"allow": 3, "ask": 2, "deny": 0},
                "changes": [
                    {
                        "tool": "save",
                        "args": {"path": "src/a.py"},
                        "accesses": [{"verb": "write", "resource": "file:src/a.py"}],
                        "was": "deny",
                        "now": "allow",
                        "rule": "src",
                        "file": "…",
                        "line": 1,
                    },
                    {
                        "tool": "save",
                        "args": {"path": "src/b.py"},
                        "accesses": [{"verb": "write", "resource": "file:src/b.py"}],
                        "was": "deny",
                        "now": "allow",
                        "rule": "src",
                        "file": "…",
                        "line": 1,
                    },
                ],
                "skipped": [],
                "proposals": [],
                "spared": 0,
            }
        )
    )


def test_another_file_brings_its_mode_and_a_flag_wins_over_it(
    handrail: Handrail, rules: Callable[..., Ran]
) -> None:
    handrail.write("other.toml", 'mode = "edits"\n')
    save = calls(("save", {"path": "a"}))

    def now(*more: str) -> list[str]:
        ran = rules("replay", "-", "--rules", "other.toml", "--json", *more, input=save)
        return [one["now"] for one in ran.json["changes"]]

    assert (now(), now("--mode", "plan"), now("--mode", "ask")) == (["allow"], ["deny"], [])


def test_rules_of_the_machine_hold_whatever_file_is_tried(
    handrail: Handrail, rules: Callable[..., Ran], managed: Path
) -> None:
    handrail.write("other.toml", '[[rule]]\ndecide = "allow"\ntools = "save"\n')
    save = calls(("save", {"path": "a"}))
    free = rules("replay", "-", "--rules", "other.toml", "--json", input=save)
    managed.write_text('[[rule]]\ndecide = "deny"\ntools = "save"\n', encoding="utf-8")
    held = rules("replay", "-", "--rules", "other.toml", "--json", input=save)

    assert (free.json["decided"], held.json["decided"]) == (
        {"allow": 1, "ask": 0, "deny": 0},
        {"allow": 0, "ask": 0, "deny": 1},
    )


def test_the_fewest_rules_are_proposed_that_would_spare_questions(
    handrail: Handrail, rules: Callable[..., Ran], schema: Schemas
) -> None:
    ran = rules("replay", "-", "--propose", input=PLAIN)
    kept = [
        line for line in ran.out.splitlines() if not line.startswith(("id =", "reason", "expires"))
    ]

    assert (ran.exit, kept, ran.err) == snapshot(
        (
            0,
            [
                "[[rule]]",
                'decide = "allow"',
                'tools = ["save"]',
                'access = ["write file:src/**"]',
                "",
                "[[rule]]",
                'decide = "allow"',
                'tools = ["bash"]',
                'command = [["npm", "test", "--watch"]]',
            ],
            "2 rules would avoid 3 of 4 approval requests\n",
        )
    )
    own(handrail, ran.out)
    after = rules("replay", "-", "--json", "--propose", input=PLAIN)
    assert after.json["decided"] == {"allow": 4, "ask": 1, "deny": 0}
    assert schema("rules-replay", after.json)["proposals"] == []


def test_as_data_proposals_say_how_many_questions_they_spare(rules: Callable[..., Ran]) -> None:
    ran = rules("replay", "-", "--propose", "--mode", "ask", "--json", input=PLAIN)

    assert (ran.exit, len(ran.json["proposals"]), ran.json["spared"]) == (0, 2, 3)


def test_what_cannot_be_judged_is_left_out_and_said(rules: Callable[..., Ran]) -> None:
    ran = rules("replay", "-", input=calls(("nope\x1b", {}), ("nope\x1b", {}), ("save", {"x": 1})))

    assert ran == snapshot(
        Ran(
            exit=0,
            out="",
            err="""\
skipped 2 calls of nope\\u{1B}: unknown tool
skipped 1 call of save: Not run: invalid arguments. - path: required, missing - x: unknown field; known fields: path, text Fix these and call again.
0 calls: 0 allow, 0 ask, 0 deny; 0 would change
""",
        )
    )


@pytest.mark.parametrize("line", ["[]", "{", "{}", '{"name": 5}', "[" * 100_000])
def test_a_line_without_a_call_is_refused_with_its_number(
    rules: Callable[..., Ran], line: str
) -> None:
    ran = rules("replay", "-", "--json", input=f"{PLAIN}\n{line}\n")

    assert (ran.exit, ran.error["code"], ran.error["message"]) == (
        2,
        "file",
        "standard input:7: not a recorded call",
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["./missing.jsonl"], ("file", "/missing.jsonl: No such file or directory")),
        (["nope"], ("no_run", "there is no run 'nope'")),
        (["-", "--rules", "no.toml"], ("file", "/no.toml: No such file or directory")),
        (["-", "--rules", "bad.toml"], ("rules", "/bad.toml: rules are not in tables")),
    ],
)
def test_what_is_not_there_or_no_rules_is_refused(
    handrail: Handrail, rules: Callable[..., Ran], arguments: list[str], told: tuple[str, str]
) -> None:
    handrail.write("bad.toml", "rule = 5")
    ran = rules("replay", *arguments, "--json")

    assert (ran.exit, ran.out, ran.error["code"]) == (2, "", told[0])
    assert told[1] in ran.error["message"]


def test_a_file_of_calls_has_a_limit(handrail: Handrail, rules: Callable[..., Ran]) -> None:
    with (handrail.workspace / "calls.jsonl").open("wb") as file:
        file.truncate((1 << 26) + 1)
    ran = rules("replay", "calls.jsonl", "--json")

    hint = f"split it: `split -l 10000 {handrail.workspace}/calls.jsonl`"
    assert (ran.exit, ran.error["code"], ran.error["hint"]) == (2, "file", hint)


def journal(handrail: Handrail, *lines: dict[str, Any]) -> None:
    """A saved run with these lines."""
    journal_run(handrail, "20261115-112233-ab12cd").add_to_journal(lines)


def requested(call_id: str, tool: str, args: object) -> dict[str, object]:
    return {"at": 1.0, "event": "requested", "call_id": call_id, "tool": tool, "args": args}


def judged(call_id: str, decision: str, *accesses: list[str], **more: object) -> dict[str, object]:
    line = {"at": 1.0, "event": "decided", "call_id": call_id, "decision": decision}
    return {**line, "accesses": list(accesses), "origin": None, **more}


def test_calls_of_a_run_are_held_against_what_was_decided_then(
    handrail: Handrail, rules: Callable[..., Ran]
) -> None:
    journal(
        handrail,
        {"at": 0.0, "event": "prompt", "text": "Do it."},
        requested("c1", "show", {"path": "a"}),
        judged("c1", "allow", ["read", "file:a"]),
        requested("c2", "save", '{"path": "src/a.py"}'),
        judged("c2", "allow", ["write", "file:src/a.py"]),
        judged("c2", "allow", ["write", "file:src/a.py"]),  # once more, by a resume
        requested("c3", "sav", {"pth": "b"}),
        judged("c3", "deny", ["write", "file:b"], tool="save", args={"path": "b"}),
        requested("c4", "gone", {}),
        judged("c4", "allow"),
        requested("c5", "mcp__crm__edit", {"id": "7"}),
        judged("c5", "allow", ["write", "crm:7"]),
        requested("c6", "", {}),
        judged("c6", "allow", ["write", "crm:7"]),
        {"at": 2.0, "event": "finished", "call_id": "c1"},
    )
    by_id, by_file = rules("replay", "20261115"), rules("replay", "last", "--json")

    assert by_id == snapshot(
        Ran(
            exit=1,
            out="""\
allow -> ask  save {"path": "src/a.py"}  by mode ask
deny -> ask  save {"path": "b"}  by mode ask
allow -> ask  mcp__crm__edit {"id": "7"}  by mode ask
""",
            err="""\
skipped 1 call of gone: unknown tool
skipped 1 call of : unknown tool
decided 1 call of mcp__crm__edit without its tool's tags
4 calls: 1 allow, 3 ask, 0 deny; 3 would change
""",
        )
    )
    assert by_file.json["calls"] == 4


def test_what_a_run_had_read_before_a_call_is_in_its_journal(
    handrail: Handrail, rules: Callable[..., Ran]
) -> None:
    two = "[[rule]]\ndecide = 'deny'\ntools = 'save'\nafter = ['read', 'private']\n"
    handrail.write("two.toml", two)
    read = {"read": "show (call c1)", "private": "show (call c1)"}
    before: list[Any] = [read, {"read": "show (call c1)"}, {}, 5]
    calls = [(f"c{number}", after) for number, after in enumerate(before, 2)]
    lines = [
        line
        for name, after in calls
        for line in (
            requested(name, "save", {"path": name}),
            judged(name, "ask", ["write", f"file:{name}"], after=after),
        )
    ]
    journal(handrail, *lines)
    changes = rules("replay", "last", "--rules", "two.toml", "--json").json["changes"]

    assert [(one["args"], one["now"]) for one in changes] == [({"path": "c2"}, "deny")]


def test_a_real_run_can_be_judged_again(handrail: Handrail) -> None:
    handrail("run", *scripted(handrail, "write('src/a.py', 'c1')", "'Done.'"), "Save it.")
    same = handrail("rules", "replay", "last", "--json")
    stricter = handrail("rules", "replay", "last", "--mode", "plan", "--json")

    assert (same.exit, same.json["decided"], same.json["changes"]) == (
        0,
        {"allow": 0, "ask": 1, "deny": 0},
        [],
    )
    assert [(one["tool"], one["was"], one["now"]) for one in stricter.json["changes"]] == [
        ("write", "ask", "deny")
    ]


@pytest.mark.parametrize(
    "line",
    [
        judged("other", "allow", ["write", "file:b"]),
        judged("c1", "perhaps", ["write", "file:b"]),
        judged("c1", "allow", ["eat", "file:b"]),
        judged("c1", "allow", ["write", "file:b", "more"]),
        judged("c1", "allow", ["write", "no resource"]),
        {**judged("c1", "allow"), "accesses": 5},
        {**judged("c1", "allow"), "accesses": [[5, 6]]},
        judged("c1", "allow", ["write", "file:b"], tool="save", args="{"),
        judged("c1", "allow", ["write", "file:b"], tool="save", args="[]"),
        judged("c1", "allow", ["write", "file:b"], tool="save", args="[" * 100_000),
    ],
)
def test_lines_of_a_journal_that_make_no_sense_are_passed_over(
    handrail: Handrail, rules: Callable[..., Ran], line: dict[str, object]
) -> None:
    first, good = requested("c1", "save", 5), judged("c1", "allow", ["write", "file:b"])
    journal(handrail, first, line, good)
    (found,) = rules("replay", "last", "--json").json["changes"]

    assert (found["args"], found["was"], found["now"]) == ({}, "allow", "ask")


def test_long_arguments_are_cut_for_people_and_whole_for_programs(
    rules: Callable[..., Ran],
) -> None:
    long = calls(("save", {"path": "a", "text": "x" * 5_000}))
    told = rules("replay", "-", "--mode", "plan", input=long)
    whole = rules("replay", "-", "--mode", "plan", "--json", input=long)

    assert len(told.out) < 300
    assert whole.json["changes"][0]["args"]["text"] == "x" * 5_000


# forget


def test_a_remembered_rule_is_taken_back_and_no_other(
    handrail: Handrail, rules: Callable[..., Ran], schema: Schemas
) -> None:
    file = own(handrail, f"{RULES}\n# kept\n{REMEMBERED.replace('0011aabb', '2233ccdd')}")
    stored = remembered(handrail)
    ran = handrail("rules", "forget", "remembered-0011aabb", "remembered-2233ccdd", "--json")

    assert [one["id"] for one in schema("rules-forget", ran.json)["forgotten"]] == [
        "remembered-0011aabb",
        "remembered-2233ccdd",
    ]
    assert (stored.read_text(encoding="utf-8").strip(), file.read_text(encoding="utf-8")) == (
        "",
        f"{RULES}\n# kept\n\n",
    )
    assert rules("list", "--remembered").out == "no rules\n"


def test_forget_says_what_was_forgotten(handrail: Handrail) -> None:
    stored = remembered(handrail)
    ran = handrail("rules", "forget", "remembered-0011aabb")

    assert ran == (0, f"forgot remembered-0011aabb ({stored}:2)\n", "")


@pytest.mark.parametrize("wrong", ["nope", "secrets", "remembered-0011aabbcc"])
def test_an_id_that_is_no_remembered_rules_changes_nothing(
    handrail: Handrail, schema: Schemas, wrong: str
) -> None:
    own(handrail, RULES)
    stored = remembered(handrail)
    ran = handrail("rules", "forget", "remembered-0011aabb", wrong, "--json")

    assert (ran.exit, ran.error["code"]) == (2, "no_rule")
    assert ran.error["message"] == f"no remembered approval has the ID {wrong!r}"
    assert stored.read_text(encoding="utf-8") == REMEMBERED
    schema("error", {"error": ran.error})


def test_a_file_that_cannot_be_read_is_named_before_anything_is_forgotten(
    handrail: Handrail,
) -> None:
    own(handrail, "rule = 5")
    stored = remembered(handrail)
    ran = handrail("rules", "forget", "remembered-0011aabb", "--json")

    assert (ran.exit, ran.error["code"]) == (2, "rules")
    assert "rules are not in tables" in ran.error["message"]
    assert stored.read_text(encoding="utf-8") == REMEMBERED


REVIEWER = """
from handrail import Call
from handrail.testing import ScriptedModel

says = ScriptedModel(Call("review", {"decision": "allow", "reason": "The user asked for it."}))
"""
OPEN = '[[rule]]\nid = "saves"\ndecide = "ask"\ntools = ["save"]\nreview = true\n'


def request_lines(path: str) -> str:
    """Return the journal of a request that a second model could answer, and a person denied."""
    accesses = [["write", f"file:{path}"]]
    request = {"pending": "p1", "question": "Allow it?", "grade": "unconfined"}
    lines: list[dict[str, Any]] = [
        {"event": "requested", "call_id": "c1", "tool": "save", "args": {"path": path}},
        {"event": "decided", "call_id": "c1", "accesses": accesses, "decision": "ask"},
        {"event": "asked", "call_id": "c1", "said": ["Save it."], **request},
        {"event": "answered", "call_id": "c1", "pending": "p1", "answer": "deny", "by": "Ann"},
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_a_reviewer_answers_recorded_requests_again(
    handrail: Handrail, rules: Callable[..., Ran], schema: Schemas
) -> None:
    handrail.write("reviewers.py", REVIEWER)
    handrail.write("open.toml", OPEN)
    handrail.write("closed.toml", OPEN.replace("review = true", ""))
    ask = partial(
        rules, "replay", "-", "--reviewer", "reviewers:says", input=request_lines("a.txt")
    )

    ran = ask("--rules", "open.toml")
    closed = schema("rules-replay", ask("--rules", "closed.toml", "--json").json)

    assert ran == Ran(
        exit=0,
        out='allow  save {"path": "a.txt"} (was: deny by Ann): The user asked for it.\n',
        err="1 allow, 0 ask, 0 person\n",
    )
    assert [one["verdict"] for one in closed["reviews"]] == ["person"]
