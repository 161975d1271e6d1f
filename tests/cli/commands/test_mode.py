"""`handrail mode`."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

import forked
from cli_harness import Handrail, Ran, Schemas, made
from handrail.policy import RulePaths, Trust, digest


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def own(handrail: Handrail, name: str, text: str) -> Path:
    """A file of the user's."""
    handrail.config.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = handrail.config / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def trusted(handrail: Handrail, name: str, text: str) -> Path:
    path = handrail.write(name, text)
    Trust(handrail.config / "trust.json").grant(path, digest(path.read_bytes()))
    return path


@pytest.fixture
def managed(handrail: Handrail, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's rules, in a place that a test may write to."""
    usual, file = RulePaths.of, handrail.folder / "etc" / "rules.toml"
    file.parent.mkdir(mode=0o755)
    monkeypatch.setattr(RulePaths, "of", lambda *a, **k: replace(usual(*a, **k), managed=file))
    return file


def test_where_nobody_says_a_mode_it_is_ask(handrail: Handrail, schema: Schemas) -> None:
    assert handrail("mode") == snapshot(
        Ran(
            exit=0,
            out="ask (default): with a sandbox, reading and common development commands run; secrets "
            "and everything else need approval\n",
            err="",
        )
    )
    assert schema("mode", handrail("mode", "--json").json) == {
        "mode": "ask",
        "means": "with a sandbox, reading and common development commands run; secrets and "
        "everything else need approval",
        "wanted": {"mode": "ask", "level": "default", "where": ""},
        "ceiling": None,
        "broken": "",
    }


def test_a_mode_is_stored_in_the_users_settings_and_counts(
    handrail: Handrail, schema: Schemas
) -> None:
    ran = handrail("mode", "plan")
    file = handrail.config / "config.toml"

    assert (ran.exit, ran.out.replace(str(file), "…"), ran.err.replace(str(file), "…")) == (
        snapshot(
            (
                0,
                """\
plan: with a sandbox, reading runs; secrets need approval; everything else is denied
  set by …:1 (user)
""",
                "stored mode plan in …\n",
            )
        )
    )
    assert file.read_text(encoding="utf-8") == 'mode = "plan"\n'
    assert file.stat().st_mode & 0o777 == 0o600
    assert handrail("mode", "--json").json["wanted"] == {
        "mode": "plan",
        "level": "user",
        "where": f"{file}:1",
    }
    for mode in ("ask", "edits", "plan"):
        assert schema("mode", handrail("mode", mode, "--json").json)["mode"] == mode


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'mode = "plan"\n'),
        ('# mine\nmodel = "x"', 'mode = "plan"\n# mine\nmodel = "x"'),
        ('model = "x"\r\n', 'mode = "plan"\r\nmodel = "x"\r\n'),
        ('a = 1\n  mode  =  "ask" # why\nb = 2\n', 'a = 1\n  mode  =  "plan" # why\nb = 2\n'),
        ("'mode' = 'ask'\n", "'mode' = \"plan\"\n"),
        ('"mode" = "ask"\n', '"mode" = "plan"\n'),
        ('[other]\nmode = "x"\n', 'mode = "plan"\n[other]\nmode = "x"\n'),
        ('mode = "ask"\n[other]\nmode = "x"\n', 'mode = "plan"\n[other]\nmode = "x"\n'),
        ('a = """\nmode = "x"\n"""\nmode = "ask"\n', 'a = """\nmode = "x"\n"""\nmode = "plan"\n'),
        ('a = """\nmode = "x"\n"""\n', 'mode = "plan"\na = """\nmode = "x"\n"""\n'),
        ("mode = 'plan'\n", 'mode = "plan"\n'),
    ],
)
def test_all_else_in_the_settings_stays_byte_for_byte(
    handrail: Handrail, before: str, after: str
) -> None:
    file = own(handrail, "config.toml", before)
    file.write_bytes(before.encode())
    ran = handrail("mode", "plan")

    assert (ran.exit, file.read_bytes().decode()) == (0, after)


_LINES = st.lists(
    st.sampled_from(
        [
            'mode = "ask"',
            "[t]",
            'a = "mode"',
            "# mode = 1",
            "'mode' = 'open'",
            "b = '''",
            "'''",
            "é",
        ]
    ),
    max_size=6,
)


@given(_LINES, st.sampled_from(["\n", "\r\n"]))
def test_whatever_the_file_says_only_the_mode_changes_or_nothing_does(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], newline: str
) -> None:
    handrail = made(tmp_path_factory.mktemp("mode"))
    text = newline.join(lines)
    file = own(handrail, "config.toml", "")
    file.write_bytes(text.encode())
    ran = handrail("mode", "plan")

    if ran.exit:
        assert (ran.exit, file.read_bytes()) == (2, text.encode())
    else:
        before, after = tomllib.loads(text), file.read_bytes().decode()
        assert tomllib.loads(after) == {**before, "mode": "plan"}
        if "mode" not in before:
            assert after.endswith(text)
        else:
            pairs = zip(after.split(newline), text.split(newline), strict=True)
            assert sum(one != other for one, other in pairs) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"mode = \n", "Invalid value"),
        (b"\xff", "codec can't decode"),
        (b"a = " + b"[" * 10_000, ""),
        (b'mode = """ask"""\n', "it is written in an unusual form"),
    ],
)
def test_settings_that_cannot_be_changed_are_left_as_they_are(
    handrail: Handrail, content: bytes, message: str
) -> None:
    file = own(handrail, "config.toml", "")
    file.write_bytes(content)
    ran = handrail("mode", "plan", "--json")

    assert (ran.exit, ran.out, ran.error["code"]) == (2, "", "config")
    assert message in ran.error["message"]
    there = [".config.toml.lock", "config.toml"]
    assert (file.read_bytes(), names(handrail.config)) == (content, there)


def test_folders_that_are_missing_are_the_users_alone(handrail: Handrail) -> None:
    umask = os.umask(0)
    try:
        assert handrail("mode", "plan").exit == 0
    finally:
        os.umask(umask)

    places = (handrail.config, handrail.config.parent)
    assert [stat.S_IMODE(one.stat().st_mode) for one in places] == [0o700, 0o700]
    assert handrail("mode").out.startswith("plan: ")  # others may not write to it, so it counts


def test_two_who_set_it_wait_for_one_another(handrail: Handrail) -> None:
    own(handrail, "config.toml", "")
    with (handrail.config / ".config.toml.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [forked.program(), "mode", "plan"]
        environment = handrail.environment()
        other = subprocess.Popen(  # noqa: S603  our own interpreter
            command, env=environment, cwd=handrail.workspace, stdout=subprocess.DEVNULL
        )
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(2)
    assert other.wait(20) == 0
    assert (handrail.config / "config.toml").read_text(encoding="utf-8") == 'mode = "plan"\n'


def test_a_lock_that_another_program_keeps_is_told(handrail: Handrail) -> None:
    own(handrail, "config.toml", "")
    with (handrail.config / ".config.toml.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ran = handrail("mode", "plan")

    assert ran.exit == 1
    assert ran.err == (
        f"handrail: {handrail.config}/.config.toml.lock: another program holds this lock; stop it "
        "(`fuser -v` names it), or retry later\n"
    )
    assert (handrail.config / "config.toml").read_text(encoding="utf-8") == ""


def test_what_is_no_file_is_not_waited_for(handrail: Handrail) -> None:
    own(handrail, "config.toml", "").unlink()
    os.mkfifo(handrail.config / "config.toml")
    ran = handrail("mode", "plan", "--json")

    assert (ran.exit, ran.error["code"]) == (2, "config")
    assert ran.error["message"].endswith("config.toml: it is not a regular file")


def test_a_link_of_the_users_own_stays_one(handrail: Handrail) -> None:
    dotfiles = handrail.folder / "dotfiles.toml"
    dotfiles.write_text("# mine\n", encoding="utf-8")
    dotfiles.chmod(0o644)
    link = own(handrail, "config.toml", "")
    link.unlink()
    link.symlink_to(dotfiles)
    handrail("mode", "edits")

    assert (link.is_symlink(), dotfiles.read_text(encoding="utf-8")) == (
        True,
        'mode = "edits"\n# mine\n',
    )
    assert dotfiles.stat().st_mode & 0o777 == 0o600


def test_the_machines_mode_is_a_ceiling_that_is_named(
    handrail: Handrail, managed: Path, schema: Schemas
) -> None:
    assert handrail("mode", "edits", "--json").json["mode"] == "edits"  # the control
    managed.write_text('# ours\nmode = "ask"\n', encoding="utf-8")
    ran = handrail("mode", "edits")

    assert (ran.exit, ran.out.replace(str(handrail.folder), "…").splitlines()) == snapshot(
        (
            0,
            [
                (
                    "ask: with a sandbox, reading and common development commands run; secrets and "
                    "everything else need approval"
                ),
                "  set by …/config/handrail/config.toml:1 (user)",
                "  limited to ask by …/etc/rules.toml:2 (managed)",
            ],
        )
    )
    assert ran.err.replace(str(handrail.folder), "…").splitlines() == snapshot(
        [
            "stored mode edits in …/config/handrail/config.toml",
            "the mode here is still ask: …/etc/rules.toml:2 (managed) limits it to ask",
        ]
    )
    assert schema("mode", handrail("mode", "--json").json)["ceiling"] == {
        "mode": "ask",
        "level": "managed",
        "where": f"{managed}:2",
    }
    assert handrail("mode", "plan", "--json").json["mode"] == "plan"


def test_what_wins_over_the_stored_mode_is_named(handrail: Handrail) -> None:
    trusted(handrail, "handrail.toml", 'mode = "plan"\n')
    by_project = handrail("mode", "edits")
    by_variable = handrail("mode", "edits", env={"HANDRAIL_MODE": "ask"})

    assert [one.err.splitlines()[-1] for one in (by_project, by_variable)] == snapshot(
        [
            "the mode here is still plan: it is set by handrail.toml:1 (project)",
            "the mode here is still ask: it is set by HANDRAIL_MODE (environment)",
        ]
    )
    assert by_variable.out == snapshot(
        "ask: with a sandbox, reading and common development commands run; secrets and everything "
        "else need approval\n  set by HANDRAIL_MODE (environment)\n"
    )


def test_of_modes_in_rule_files_the_strictest_counts_if_its_file_does(handrail: Handrail) -> None:
    user = own(handrail, "rules.toml", '\nmode = "edits"\n')
    alone = handrail("mode", "--json").json["wanted"]
    handrail.write(".handrail/rules.toml", 'mode = "plan"\n')
    untrusted = handrail("mode", "--json").json["wanted"]
    file = trusted(handrail, ".handrail/rules.toml", 'mode = "plan"\n')
    both = handrail("mode", "--json").json

    assert alone == untrusted == {"mode": "edits", "level": "user", "where": f"{user}:2"}
    assert both["wanted"] == {"mode": "plan", "level": "project", "where": f"{file}:1"}
    assert both["mode"] == "plan"


def test_a_rule_file_that_others_may_write_to_is_taken_as_far_as_it_counts(
    handrail: Handrail,
) -> None:
    own(handrail, "rules.toml", 'mode = "edits"\n').chmod(0o666)
    found = handrail("mode", "--json").json

    assert (found["mode"], found["wanted"]["mode"]) == ("ask", "ask")


def test_a_setting_wins_over_rule_files(handrail: Handrail) -> None:
    own(handrail, "rules.toml", 'mode = "plan"\n')

    assert handrail("mode", "edits", "--json").json["mode"] == "edits"


def test_rules_that_cannot_be_read_deny_everything_whatever_the_mode(
    handrail: Handrail, schema: Schemas
) -> None:
    own(handrail, "rules.toml", "rule = 5")
    shown, stored = handrail("mode"), handrail("mode", "edits")

    assert (shown.exit, shown.out.replace(str(handrail.config), "…")) == snapshot(
        (
            1,
            "every call is denied: …/rules.toml: rules are not in tables; start each rule with [[rule]]\n",
        )
    )
    assert (stored.exit, stored.err.splitlines()[-1]) == snapshot(
        (1, "the mode here is still plan: the rules are invalid")
    )
    assert schema("mode", handrail("mode", "--json").json)["broken"]


def test_an_odd_way_to_write_the_mode_of_a_rule_file_has_a_line_too(handrail: Handrail) -> None:
    file = own(handrail, "rules.toml", 'version = 1\n"mo\\u0064e" = "plan"\n')

    assert handrail("mode", "--json").json["wanted"]["where"] == f"{file}:1"


def test_open_is_not_stored_where_it_would_be_refused(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(handrail, "config.toml", "tools = []\n")  # no sandbox around nothing
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    ran = handrail("mode", "open", "--json")

    assert (ran.exit, ran.out) == (2, "")
    assert ran.error["message"] == (
        'mode "open" is not available as root without a sandbox; run as another user, or in a '
        "sandbox (`sandboxed=True`)"
    )
    assert (handrail.config / "config.toml").read_text(encoding="utf-8") == "tools = []\n"


def test_open_is_stored_where_commands_run_in_a_sandbox(handrail: Handrail) -> None:
    assert handrail("mode", "open", "--json").json["mode"] == "open"


@pytest.mark.parametrize(
    ("code", "means"),
    [
        ("@tool\ndef add(a: int) -> int:", ("with a sandbox", "allow")),
        ("@tool(tags=['shell'])\ndef sh(command: str) -> str:", ("without a sandbox", "ask")),
        ("import missing\ndef sh() -> str:", ("without a sandbox", "tools")),
    ],
)
def test_beside_own_tools_commands_of_the_coding_tools_are_in_the_sandbox(
    handrail: Handrail, code: str, means: tuple[str, str]
) -> None:
    """Except if one of them is for commands too, or cannot be loaded."""
    file = handrail.write("own.py", f'from handrail import tool\n\n{code}\n    """Try."""\n')
    own(handrail, "config.toml", f'tools = ["coding", "{file}"]\n')
    told = handrail("explain", "bash", "command=pytest", "--json")

    mode = handrail("mode", "--json").json["means"].partition(",")[0]

    verdict = told.json["decision"]["verdict"] if told.out else told.error["code"]
    assert (mode, verdict) == means


def test_a_mode_that_is_none_is_refused(handrail: Handrail) -> None:
    ran = handrail("mode", "auto", "--json")

    assert (ran.exit, ran.error["code"]) == (2, "usage")
