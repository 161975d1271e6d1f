"""`handrail rules import`."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from inline_snapshot import snapshot

import forked
from cli_harness import Handrail, Ran, Schemas
from handrail.policy import Level, parse

CLAUDE = json.dumps(
    {
        "permissions": {
            "defaultMode": "plan",
            "allow": ["Bash(npm run test:*)", "Bash(git * main)", "Edit(/src/**)"],
            "deny": ["Bash(npm publish)", "Read(./.env)"],
        }
    }
)
STATUS = json.dumps({"permissions": {"allow": ["Bash(git status:*)"]}})


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def written(handrail: Handrail) -> str:
    return (handrail.config / "rules.toml").read_text(encoding="utf-8")


def test_rules_are_printed_and_what_was_lost_is_said(handrail: Handrail) -> None:
    handrail.write(".claude/settings.json", CLAUDE)
    ran = handrail("rules", "import", "claude", ".claude/settings.json")

    assert ran == snapshot(
        Ran(
            exit=0,
            out="""\
# imported: defaultMode: plan
mode = "plan"

# widened: deny: Bash(npm publish) (in handrail it matches everything that starts with npm publish)
[[rule]]
decide = "deny"
command = "npm publish"

# imported: deny: Read(./.env)
[[rule]]
decide = "deny"
access = ["* file:**/.env/**", "* file:.env/**"]

# imported: allow: Bash(npm run test:*)
[[rule]]
decide = "allow"
command = "npm run test"
flags = "any"
operands = "any"

# lost: allow: Bash(git * main) (a handrail allow lists plain words, then flags and operands)

# imported: allow: Edit(/src/**)
[[rule]]
decide = "allow"
tools = ["edit", "write"]
access = "read|write file:src/**"
""",
            err="""\
widened: deny: Bash(npm publish) (in handrail it matches everything that starts with npm publish)
lost: allow: Bash(git * main) (a handrail allow lists plain words, then flags and operands)
6 rules, 4 imported unchanged
""",
        )
    )
    assert len(parse(ran.out, file="rules.toml", level=Level.USER).rules) == 4
    assert not (handrail.config / "rules.toml").exists()


def test_as_data_there_are_rules_and_losses(handrail: Handrail, schema: Schemas) -> None:
    handrail.write("settings.json", CLAUDE)
    ran = handrail("rules", "import", "claude", "settings.json", "--json")

    assert schema("rules-import", ran.json) == snapshot(
        {
            "from": "claude",
            "text": """\
# imported: defaultMode: plan
mode = "plan"

# widened: deny: Bash(npm publish) (in handrail it matches everything that starts with npm publish)
[[rule]]
decide = "deny"
command = "npm publish"

# imported: deny: Read(./.env)
[[rule]]
decide = "deny"
access = ["* file:**/.env/**", "* file:.env/**"]

# imported: allow: Bash(npm run test:*)
[[rule]]
decide = "allow"
command = "npm run test"
flags = "any"
operands = "any"

# lost: allow: Bash(git * main) (a handrail allow lists plain words, then flags and operands)

# imported: allow: Edit(/src/**)
[[rule]]
decide = "allow"
tools = ["edit", "write"]
access = "read|write file:src/**"
""",
            "rules": [
                {"decides": "deny", "names": {"command": "npm publish"}},
                {"decides": "deny", "names": {"access": ["* file:**/.env/**", "* file:.env/**"]}},
                {
                    "decides": "allow",
                    "names": {"command": "npm run test", "flags": "any", "operands": "any"},
                },
                {
                    "decides": "allow",
                    "names": {"tools": ["edit", "write"], "access": "read|write file:src/**"},
                },
            ],
            "imported": 4,
            "losses": [
                {
                    "kind": "widened",
                    "rule": "deny: Bash(npm publish)",
                    "why": "in handrail it matches everything that starts with npm publish",
                },
                {
                    "kind": "lost",
                    "rule": "allow: Bash(git * main)",
                    "why": "a handrail allow lists plain words, then flags and operands",
                },
            ],
            "written": None,
        }
    )


def test_a_pattern_from_the_root_means_the_workspace_only_for_a_file_of_it(
    handrail: Handrail,
) -> None:
    handrail.write("settings.json", CLAUDE)
    elsewhere = handrail.folder / "settings.json"
    elsewhere.write_text(CLAUDE, encoding="utf-8")

    def lost(file: str) -> list[str]:
        told = handrail("rules", "import", "claude", file, "--json").json["losses"]
        return [one["rule"] for one in told if "/src" in one["rule"]]

    piped = handrail("rules", "import", "claude", "-", "--json", input=CLAUDE).json["losses"]

    assert lost("settings.json") == []
    assert piped[-1]["rule"] == "allow: Edit(/src/**)"
    assert lost(str(elsewhere)) == lost("../settings.json") == ["allow: Edit(/src/**)"]


def test_nothing_to_import_is_nothing(handrail: Handrail) -> None:
    assert handrail("rules", "import", "claude", "-", input="{}") == (
        0,
        "",
        "0 rules, 0 imported unchanged\n",
    )


def test_rules_are_written_after_those_that_are_there_and_only_once(
    handrail: Handrail, schema: Schemas
) -> None:
    handrail.config.mkdir(parents=True, mode=0o700)
    file = handrail.config / "rules.toml"
    file.write_text('# mine\n[[rule]]\ndecide = "deny"\ntools = "x"\n', encoding="utf-8")
    file.chmod(0o640)
    handrail.write("settings.json", CLAUDE)
    ran = handrail("rules", "import", "claude", "settings.json", "--write", "--user")
    first = written(handrail)
    again = handrail("rules", "import", "claude", "settings.json", "--write", "--user", "--json")

    assert ran.err.replace(str(handrail.config), "…") == snapshot("""\
widened: deny: Bash(npm publish) (in handrail it matches everything that starts with npm publish)
lost: allow: Bash(git * main) (a handrail allow lists plain words, then flags and operands)
6 rules, 4 imported unchanged
the mode was not added; set it with `handrail mode plan`
added to …/rules.toml
""")
    assert first == snapshot("""\
# mine
[[rule]]
decide = "deny"
tools = "x"

# widened: deny: Bash(npm publish) (in handrail it matches everything that starts with npm publish)
[[rule]]
decide = "deny"
command = "npm publish"

# imported: deny: Read(./.env)
[[rule]]
decide = "deny"
access = ["* file:**/.env/**", "* file:.env/**"]

# imported: allow: Bash(npm run test:*)
[[rule]]
decide = "allow"
command = "npm run test"
flags = "any"
operands = "any"

# lost: allow: Bash(git * main) (a handrail allow lists plain words, then flags and operands)

# imported: allow: Edit(/src/**)
[[rule]]
decide = "allow"
tools = ["edit", "write"]
access = "read|write file:src/**"
""")
    assert (written(handrail), file.stat().st_mode & 0o777) == (first, 0o600)
    assert schema("rules-import", again.json)["written"] == str(file)
    assert "already has all of these rules" in again.err
    assert len(handrail("rules", "list", "--json").json["rules"]) == 5


def test_a_first_file_is_made_for_the_user_alone(handrail: Handrail) -> None:
    handrail("rules", "import", "claude", "-", "--write", "--user", input=STATUS)

    assert written(handrail) == snapshot("""\
# imported: allow: Bash(git status:*)
[[rule]]
decide = "allow"
command = "git status"
flags = "any"
operands = "any"
""")
    assert (handrail.config / "rules.toml").stat().st_mode & 0o777 == 0o600
    assert names(handrail.config) == [".rules.toml.lock", "rules.toml"]


def test_a_rule_that_is_there_with_more_to_it_does_not_stand_for_another(
    handrail: Handrail,
) -> None:
    handrail("rules", "import", "claude", "-", "--write", "--user", input=STATUS)
    file = handrail.config / "rules.toml"
    file.write_text(f"{written(handrail)}expires = 2020-01-01\n", encoding="utf-8")
    handrail("rules", "import", "claude", "-", "--write", "--user", input=STATUS)

    assert written(handrail).count("[[rule]]") == 2


@pytest.mark.parametrize("there", ["rule = 5\n", "link"])
def test_a_file_that_cannot_be_used_is_left_as_it_is(handrail: Handrail, there: str) -> None:
    handrail.config.mkdir(parents=True, mode=0o700)
    file = handrail.config / "rules.toml"
    if there == "link":
        file.symlink_to(handrail.write("elsewhere", ""))
    else:
        file.write_text(there, encoding="utf-8")
    ran = handrail("rules", "import", "claude", "-", "--write", "--user", "--json", input=STATUS)

    assert (ran.exit, ran.out) == (2, "")
    assert ("it is a link, and links are not followed" in ran.error["message"]) == file.is_symlink()
    assert file.read_text(encoding="utf-8") == there.replace("link", "")
    assert names(handrail.config) == [".rules.toml.lock", "rules.toml"]


def test_what_is_no_file_of_the_agent_is_refused_with_its_place(handrail: Handrail) -> None:
    handrail.write("broken", "{")
    ran = handrail("rules", "import", "claude", "broken", "--json")

    assert (ran.exit, ran.out, ran.error["code"]) == (2, "", "file")
    assert ran.error["message"].startswith("broken:1:")
    assert ran.error["hint"] == "pass a settings.json of Claude Code as FILE"


def test_a_file_that_is_not_there_is_said(handrail: Handrail) -> None:
    ran = handrail("rules", "import", "claude", "missing.json")

    assert ran == (
        2,
        "",
        (
            f"handrail: cannot read {handrail.workspace}/missing.json: No such file or directory\n"
            "  pass the path of a readable file\n"
        ),
    )


def test_a_note_does_not_act_on_a_terminal(handrail: Handrail) -> None:
    rule = json.dumps({"permissions": {"allow": ["Bash(git \x1b]0;x\x07 * main)"]}})
    ran = handrail("rules", "import", "claude", "-", input=rule)

    assert "\x1b" not in ran.out + ran.err
    assert "\\u{1B}]0;x\\u{7}" in ran.err


def test_what_cannot_be_written_leaves_no_trace(handrail: Handrail) -> None:
    words = [
        sys.executable,
        "-m",
        "handrail.cli",
        "rules",
        "import",
        "claude",
        "-",
        "--write",
        "--user",
    ]
    ran = subprocess.run(  # noqa: S603  our own interpreter
        ["/bin/sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *words],
        check=False,
        input=STATUS.encode(),
        capture_output=True,
        cwd=handrail.workspace,
        env=handrail.environment({"PYTHONDONTWRITEBYTECODE": "1"}),
    )

    assert (ran.returncode, ran.stdout) == (1, b"")
    assert names(handrail.config) == [".rules.toml.lock"]


def test_an_agent_that_is_not_known_is_refused_with_those_that_are(handrail: Handrail) -> None:
    ran = handrail("rules", "import", "other", "x", "--json")

    assert (ran.exit, ran.error["code"]) == (2, "usage")
    assert "'other' is not 'claude'" in ran.error["message"]


# ---------------------------------------------------------------- for whom

ALLOW = json.dumps({"permissions": {"allow": ["WebFetch"]}})


def test_rules_are_for_this_workspace_unless_asked_for_all(handrail: Handrail) -> None:
    handrail.write("settings.json", ALLOW)
    words = ("rules", "import", "claude", "settings.json")
    other = handrail.folder / "other"
    other.mkdir()

    def allowed(folder: Path) -> bool:
        return "web_fetch" in handrail("rules", "list", "--json", "-C", str(folder)).out

    ran = handrail(*words, "--write", "--no-input")
    here = (allowed(handrail.workspace), allowed(other))
    handrail(*words, "--write", "--user", "--no-input")

    [file] = (handrail.config / "projects").glob("*.toml")
    assert ran.err.splitlines()[-1] == f"added to {file}"
    assert (here, allowed(other)) == ((True, False), True)
    assert handrail(*words, "--user").exit == 2


@pytest.mark.parametrize(("answer", "code"), [("n", 3), ("y", 0)])
@pytest.mark.parametrize("more", [(), ("--user",)])
def test_a_person_sees_the_rules_and_agrees(
    handrail: Handrail, answer: str, code: int, more: tuple[str, ...]
) -> None:
    handrail.write("settings.json", ALLOW)
    master, side = pty.openpty()
    with Path(os.devnull).open("wb") as nothing:
        process = forked.start(
            ("rules", "import", "claude", "settings.json", "--write", *more),
            (side, nothing.fileno(), side),
            env=handrail.environment({}),
            cwd=handrail.workspace,
            terminal=True,
        )
    os.close(side)
    where = "all your workspaces" if more else str(handrail.workspace)
    seen = ""
    while "[y/N]" not in seen:
        seen += os.read(master, 65536).decode()
    os.write(master, f"{answer}\n".encode())
    with suppress(OSError):
        while os.read(master, 65536):
            pass
    os.close(master)

    assert process.wait(30) == code
    assert f"Add these rules for {where}?" in seen
    assert 'tools = ["web_fetch"]' in seen
    written = [*handrail.config.glob("rules.toml"), *handrail.config.glob("projects/*.toml")]
    assert bool(written) is (code == 0)
