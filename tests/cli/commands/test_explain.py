"""`handrail explain`: what would become of a call, and why; nothing is run."""

from __future__ import annotations

import subprocess
import sys

import pytest
from inline_snapshot import snapshot

from cli_harness import Handrail, Schemas

MARKING = '''
from pathlib import Path
from handrail import tool, writes_file

@tool(touches=lambda path, **_: writes_file(path))
def mark(path: str, times: int = 1, note: object = None) -> str:
    """Write a mark into a file."""
    Path(path).write_text("x" * times)
    return "marked"
'''
RULES = """
[[rule]]
id = "no secrets"
decide = "deny"
access = ["write file:secret.txt"]
reason = "secrets are not for models"
"""


@pytest.fixture
def marking(handrail: Handrail) -> Handrail:
    handrail.write("marking.py", MARKING)
    handrail.config.mkdir(parents=True)
    (handrail.config / "rules.toml").write_text(RULES, encoding="utf-8")
    return handrail


def explain(handrail: Handrail, *args: str) -> tuple[int, str, str]:
    ran = handrail("explain", "mark", *args, "-t", "marking.py")
    hidden = ran.err.replace(str(handrail.config), "CONFIG")
    return ran.exit, ran.out, hidden


def test_it_says_what_would_be_asked_and_what_would_allow_it(marking: Handrail) -> None:
    code, out, err = explain(marking, "path=a.txt")

    assert (code, out) == (
        0,
        (
            'call      mark {"path": "a.txt"}\n'
            "touches   write file:a.txt\n"
            "rule      ask by mode ask\n"
            "decision  ask: Allow `mark` to change a.txt? [mode ask]\n"
        ),
    )
    assert err.startswith("\nto allow it, add this rule to CONFIG/projects/")
    assert 'access = ["write file:a.txt"]' in err
    assert not (marking.workspace / "a.txt").exists()


def test_it_says_which_rule_denies(marking: Handrail) -> None:
    code, out, err = explain(marking, "path=secret.txt")

    assert (code, out.replace(str(marking.config), "CONFIG"), err) == (
        0,
        snapshot("""\
call      mark {"path": "secret.txt"}
touches   write file:secret.txt
rule      deny by no secrets (CONFIG/rules.toml:2): changing secret.txt (secrets are not for models)
decision  deny: rule 'no secrets' denies changing secret.txt (secrets are not for models) [no secrets (CONFIG/rules.toml:2)]
"""),
        "",
    )


def test_a_call_that_is_no_good_is_told_with_its_own_exit_code(
    marking: Handrail, schema: Schemas
) -> None:
    code, out, err = explain(marking, "{}")
    told = schema("explain", marking("explain", "mark", "-t", "marking.py", "--json").json)

    assert (code, out, err) == (
        2,
        (
            "call      mark {}\n"
            "refused   Not run: invalid arguments.\n"
            "- path: required, missing\n"
            "Fix these and call again.\n"
        ),
        "",
    )
    assert told == {
        "call": {"name": "mark", "args": {}},
        "tool": None,
        "refusal": {"kind": "bad_args", "message": out.partition("refused   ")[2].rstrip("\n")},
        "repairs": [],
        "accesses": [],
        "matched": [],
        "decision": None,
        "would_allow": [],
    }


@pytest.mark.parametrize("way", [["explain"], ["rules", "explain"], ["tools", "explain"]])
def test_programs_get_all_of_it_by_each_way(
    marking: Handrail, schema: Schemas, way: list[str]
) -> None:
    ran = marking(*way, "mark", "-t", "marking.py", "--json", '{"path": "secret.txt"}')
    asked = marking(*way, "mark", "-t", "marking.py", "--json", "path=a.txt")
    rule = {
        "rule": "no secrets",
        "file": str(marking.config / "rules.toml"),
        "line": 2,
    }

    assert schema("explain", ran.json) == {
        "call": {"name": "mark", "args": {"path": "secret.txt"}},
        "tool": "mark",
        "refusal": None,
        "repairs": [],
        "accesses": [{"verb": "write", "resource": "file:secret.txt"}],
        "matched": [{"verdict": "deny", **rule, "why": ran.json["matched"][0]["why"]}],
        "decision": {
            "verdict": "deny",
            "text": ran.json["decision"]["text"],
            **rule,
        },
        "would_allow": [],
    }
    assert "secrets are not for models" in ran.json["decision"]["text"]
    assert [one["scope"] for one in schema("explain", asked.json)["would_allow"]] == [
        "project",
        "always",
    ]
    assert (ran.err, asked.err) == ("", "")  # all is in the document


def test_a_mode_changes_what_would_become_of_it(marking: Handrail) -> None:
    def verdict(*more: str) -> str:
        told = marking("explain", "mark", "path=a", "-t", "marking.py", "--json", *more).json
        return str(told["decision"]["verdict"])

    assert [verdict("--mode", one) for one in ("plan", "ask", "edits")] == [
        "deny",
        "ask",
        "allow",
    ]


def test_arguments_are_json_or_pairs_or_stdin(marking: Handrail) -> None:
    def args(*given: str, input: str = "") -> object:  # noqa: A002
        ran = marking("explain", "mark", *given, "-t", "marking.py", "--json", input=input)
        return ran.json["call"]["args"] if ran.out else ran.error["message"]

    assert args("path=12", "times=2") == {"path": "12", "times": 2}  # by the tool's own types
    assert args("path=a=b", "note=[1]") == {"path": "a=b", "note": [1]}
    assert args("path=a", "note=plain words") == {"path": "a", "note": "plain words"}
    assert args("path=", "other=1") == {"path": "", "other": 1}
    assert args('{"path": "a"}') == {"path": "a"}
    assert args("-", input='{"path": "b"}') == {"path": "b"}
    assert args("-", input="path: b") == "path: b"
    assert args("{broken") == "{broken"
    assert args("a.txt") == "'a.txt' is not an argument"
    assert args("=a") == "'=a' is not an argument"
    assert args("path=a", "path=b") == "'path' is given twice"
    assert args("path=a", "-") == "'-' is not an argument"


def test_what_is_mended_is_told(marking: Handrail) -> None:
    ran = marking("explain", "mark", '{"path": "a", "times": "2"}', "-t", "marking.py")

    assert [one for one in ran.out.splitlines() if one.startswith("repair")] == snapshot(
        ["repair    times: the string was read as a number"]
    )


def test_stdin_is_read_within_bounds(marking: Handrail) -> None:
    ran = marking("explain", "mark", "-", "-t", "marking.py", input="x" * ((1 << 24) + 1))

    assert (ran.exit, ran.err.splitlines()[0]) == (
        2,
        "handrail: stdin has more than 16,777,216 characters",
    )


def test_a_call_that_must_be_asked_about_each_time_has_no_rule(handrail: Handrail) -> None:
    ran = handrail("explain", "bash", "command=rm -rf /", "--json")

    assert (ran.json["decision"]["verdict"], ran.json["would_allow"]) == ("ask", [])


def test_rules_that_cannot_be_used_deny_and_say_why(marking: Handrail) -> None:
    (marking.config / "rules.toml").write_text("[[rule", encoding="utf-8")
    ran = marking("explain", "mark", "path=a", "-t", "marking.py", "--json")

    assert ran.json["decision"]["verdict"] == "deny"
    assert ran.err.startswith("denying every call: ")


def test_a_mode_that_may_not_be_is_refused(marking: Handrail) -> None:
    """Root without a sandbox gets no open mode; here, the root of a namespace."""
    done = subprocess.run(  # noqa: S603  our own interpreter
        [
            *("bwrap", "--dev-bind", "/", "/", "--unshare-user", "--uid", "0", "--"),
            *(sys.executable, "-m", "handrail.cli", "explain", "mark", "path=a"),
            *("-t", "marking.py", "--mode", "open"),
        ],
        capture_output=True,
        encoding="utf-8",
        env=marking.environment(),
        cwd=marking.workspace,
        check=False,
    )

    assert (done.returncode, done.stderr) == (
        2,
        (
            'handrail: mode "open" is not available as root without a sandbox; run as another user, '
            "or in a sandbox (`sandboxed=True`)\n  pass another mode: `--mode edits`\n"
        ),
    )


def test_what_a_line_hides_is_written_out(marking: Handrail) -> None:
    out = explain(marking, "path=a\x1b[2K\u202eb")[1]

    assert "\x1b" not in out
    assert "\u202e" not in out


def test_a_number_without_end_is_told_in_json_nevertheless(
    marking: Handrail, schema: Schemas
) -> None:
    given = ("explain", "mark", '{"path": "a", "note": 1e999}', "-t", "marking.py", "--json")

    told = schema("explain", marking(*given).json)

    assert told["call"]["args"] == {"path": "a", "note": "1e999"}
