"""Rules about files, at the command line: a script meets them as a command that names a file does."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from cli_harness import Handrail
from handrail.policy import Trust, digest

RULES = """
[[rule]]
id = "secrets"
decide = "deny"
access = ["* file:**/.env", "write file:tests/**"]
"""
PEEK = """\
for name, mode in [(".env", "r"), ("tests/t.py", "a")]:
    try:
        with open(name, mode) as file:
            print(file.read() if mode == "r" else file.write("hacked"))
    except OSError as error:
        print(name, error.strerror)
"""


@pytest.fixture
def project(handrail: Handrail) -> Handrail:
    """A workspace with a secret, a test, and a script that goes for both."""
    for name, text in {".env": "KEY=canary", "tests/t.py": "", "peek.py": PEEK}.items():
        handrail.write(name, text)
    return handrail


def told(project: Handrail, command: str, mode: str = "ask") -> str:
    ran = project("tools", "call", "bash", f"command={command}", "--mode", mode)
    return f"{ran.out}{ran.err}".partition("[")[0]


@pytest.mark.parametrize("mode", ["ask", "edits", "open"])
def test_a_script_cannot_read_what_rules_deny_nor_change_it(project: Handrail, mode: str) -> None:
    rules = project.write(".handrail/rules.toml", RULES)
    Trust(project.config / "trust.json").grant(rules, digest(rules.read_bytes()))

    assert told(project, "python3 peek.py", mode) == snapshot("""\
.env Permission denied
tests/t.py Read-only file system
""")


def test_built_in_rules_hide_a_secret_and_nothing_else(project: Handrail) -> None:
    """The control: without the rule, the test can be changed."""
    named = told(project, "cat .env")

    assert told(project, "python3 peek.py") == ".env Permission denied\n6\n"
    assert "canary" not in named
    assert "it may hold secrets" in named


def test_grep_names_a_file_that_needs_approval_whether_it_matches_or_not(
    project: Handrail,
) -> None:
    found = [
        project("tools", "call", "grep", f"pattern={pattern}", "glob=.env").out
        for pattern in ("canary", "something else")
    ]

    assert (
        found[0]
        == found[1]
        == snapshot("""\
[No matches.]
[1 file is left out: reading it needs approval: .env]
""")
    )
