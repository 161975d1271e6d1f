"""Handrail's own files where a workspace holds them: no model changes what it is judged by."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from cli_harness import Handrail
from cli_scripts import MODEL, scripted

TOOL = '''
from handrail import tool

@tool
def look() -> str:
    """Look."""
    return "x"
'''


def at_home(handrail: Handrail) -> dict[str, str]:
    """All that is somebody's own is in the workspace."""
    return {
        "XDG_CONFIG_HOME": str(handrail.workspace / ".config"),
        "XDG_STATE_HOME": str(handrail.workspace / ".local/state"),
    }


def explained(
    handrail: Handrail, tool: str, path: str, *more: str, env: Mapping[str, str]
) -> tuple[str, str]:
    """What would become of a call, and by what."""
    call = [f"file_path={path}", *(["content=x"] if tool == "write" else [])]
    ran = handrail("explain", tool, *call, "--json", *more, env=env)
    decision = ran.json["decision"]
    return decision["verdict"], decision["rule"]


CONFIG = [
    ".config/handrail/trust.json",
    ".config/handrail/config.toml",
    ".config/handrail/rules.toml",
    ".config/handrail/projects/x.toml",
    ".config/Handrail/trust.json",
    "./.config/x/../handrail/trust.json",
]


@pytest.mark.parametrize("mode", ["edits", "open"])
@pytest.mark.parametrize("path", [*CONFIG, "{workspace}/.config/handrail/trust.json"])
def test_a_change_of_settings_is_asked_about(handrail: Handrail, path: str, mode: str) -> None:
    home, elsewhere = at_home(handrail), {"XDG_CONFIG_HOME": str(handrail.folder / "other")}
    path = path.format(workspace=handrail.workspace)

    judged = [
        explained(handrail, "write", path, "--mode", mode, env=env)
        for env in (home, home | elsewhere)
    ]

    assert judged == [("ask", "protected paths"), ("allow", f"mode {mode}")]


@pytest.mark.parametrize("mode", ["edits", "open"])
def test_settings_of_others_are_not(handrail: Handrail, mode: str) -> None:
    path, home = ".config/app/a.toml", at_home(handrail)

    assert explained(handrail, "write", path, "--mode", mode, env=home) == ("allow", f"mode {mode}")


@pytest.mark.parametrize("tool", ["write", "read"])
def test_saved_runs_are_neither_read_nor_changed(handrail: Handrail, tool: str) -> None:
    path = ".local/state/handrail/runs/x/answers.json"
    handrail.write(path, "{}")
    more = ("--mode", "open")

    home = explained(handrail, tool, path, *more, env=at_home(handrail))
    elsewhere = explained(handrail, tool, path, *more, env={})

    assert [home, elsewhere] == [("deny", "private paths"), ("allow", "mode open")]


def test_searches_pass_over_saved_runs(handrail: Handrail) -> None:
    handrail.write(".local/state/handrail/runs/x/state.json", "needle")
    handrail.write("hay.txt", "needle")
    call = ("tools", "call", "grep", "pattern=needle", "hidden=true")

    assert "state.json" in handrail(*call).out
    seen = handrail(*call, env=at_home(handrail)).out
    assert ("hay.txt" in seen, "state.json" in seen) == (True, False)


def test_settings_behind_links_are_protected_where_they_are(handrail: Handrail) -> None:
    handrail.write("dots/handrail/rules.toml", "")
    handrail.write("dots/config.toml", "")
    (handrail.workspace / "dots/handrail/config.toml").symlink_to("../config.toml")
    (handrail.workspace / ".config").symlink_to("dots")
    home = at_home(handrail)
    paths = ("dots/handrail/rules.toml", "dots/config.toml", ".config/handrail/new", "dots/new")

    judged = [explained(handrail, "write", one, "--mode", "edits", env=home)[0] for one in paths]

    assert judged == ["ask", "ask", "ask", "allow"]


@pytest.mark.parametrize("where", ["", "deeper"])
def test_in_a_folder_of_settings_every_change_is_asked_about(
    handrail: Handrail, where: str
) -> None:
    folder = handrail.config / where
    folder.mkdir(parents=True, exist_ok=True)
    more = ("-C", str(folder), "--mode", "edits", "--without", "bash")

    assert explained(handrail, "write", "a", *more, env={}) == ("ask", "protected paths")
    assert explained(handrail, "read", "a", *more, env={})[0] == "allow"
    state = handrail.state / where
    state.mkdir(parents=True, exist_ok=True)
    more = ("-C", str(state), *more[2:])
    assert explained(handrail, "read", "a", *more, env={})[0] == "allow"


@pytest.mark.parametrize(
    "source", ["shed.py", "./shed.py:look", "{workspace}/shed.py", "shed:look", "link.py"]
)
def test_code_that_settings_name_is_not_changed_unasked(handrail: Handrail, source: str) -> None:
    handrail.write("shed.py", TOOL)
    (handrail.workspace / "link.py").symlink_to("shed.py")
    named = ("-t", "coding", "-t", source.format(workspace=handrail.workspace))
    more = ("--mode", "edits")

    assert explained(handrail, "write", "shed.py", *named, *more, env={}) == (
        "ask",
        "protected paths",
    )
    assert explained(handrail, "write", "other.py", *named, *more, env={})[0] == "allow"
    assert explained(handrail, "write", "shed.py", *more, env={})[0] == "allow"


def test_a_model_that_is_code_and_code_beside_the_users_settings(handrail: Handrail) -> None:
    handrail.write("m.py", "async def model(request): ...")
    handrail.write("mine.py", TOOL)
    handrail.config.mkdir(parents=True)
    climbing = os.path.relpath(handrail.workspace / "mine.py", handrail.config)
    settings = f'tools = ["coding", "{climbing}"]\nmodel = "m.py:model"\n'
    (handrail.config / "config.toml").write_text(settings, encoding="utf-8")
    env = {"HANDRAIL_MODEL": "m.py:model"}

    judged = {
        path: explained(handrail, "write", path, "--mode", "edits", env=env)[0]
        for path in ("m.py", "mine.py", "n.py")
    }

    assert judged == {"m.py": "ask", "mine.py": "ask", "n.py": "allow"}


ATTACK = """
cd "$HOME_OF"; mkdir -p .config/handrail .local/state/handrail/runs/x
echo x > .config/handrail/config.toml; echo x > .config/handrail/trust.json
mv .config away; mkdir -p .config/handrail; echo x > .config/handrail/trust.json
cat .local/state/handrail/runs/secret; mv .local away; echo x > tools.py; mv tools.py gone
"""


def attacked(handrail: Handrail, env: Mapping[str, str]) -> str:
    """Run a line that goes for all that is handrail's own, in a mode that lets it."""
    attack = handrail.write("attack.sh", ATTACK.replace("$HOME_OF", str(handrail.workspace)))
    ran = handrail(
        *("tools", "call", "bash", f"command=bash {attack.name}", "--json", "--mode", "open"),
        env={"HANDRAIL_MODEL": "tools.py:look", **env},
    )
    return ran.out + ran.err


def test_no_command_changes_what_is_handrails_own(handrail: Handrail) -> None:
    handrail.write("tools.py", TOOL)
    handrail.write(".local/state/handrail/runs/secret", "SECRET")
    home = at_home(handrail)

    told = attacked(handrail, home)

    left = {
        str(one.relative_to(handrail.workspace)): one.read_text(encoding="utf-8")
        for one in handrail.workspace.rglob("*")
        if one.is_file() and one.name != "attack.sh"
    }
    assert left == {"tools.py": TOOL, ".local/state/handrail/runs/secret": "SECRET"}
    assert "Read-only file system" in told
    assert "SECRET" not in told
    made = handrail.workspace / ".config/handrail"
    assert made.stat().st_mode & 0o777 == 0o700


def test_where_they_lie_elsewhere_a_command_may(handrail: Handrail) -> None:
    handrail.write("tools.py", TOOL)
    handrail.write(".local/state/handrail/runs/secret", "SECRET")

    told = attacked(handrail, {})

    assert (handrail.workspace / ".config/handrail/trust.json").is_file()
    assert "SECRET" in told
    assert not (handrail.workspace / "gone").exists()  # code that is run is kept all the same


def test_where_they_cannot_be_kept_bash_is_left_out(handrail: Handrail) -> None:
    home, call = at_home(handrail), ("tools", "show", "bash")
    fine = handrail(*call, env=home)
    (handrail.workspace / ".local").rename(handrail.workspace / "away")
    handrail.write(".local", "a file")
    no_folder = handrail(*call, env=home)
    (handrail.workspace / ".local").unlink()
    (handrail.workspace / ".local").symlink_to("away")
    link = handrail(*call, env=home)

    assert [one.exit for one in (fine, no_folder, link)] == [0, 2, 2]
    said = [one.err.replace(str(handrail.workspace), "HOME") for one in (no_folder, link)]
    begins = "the bash tool is not available: HOME/.local/state/handrail cannot be protected: "
    assert [one.splitlines()[0] for one in said] == [
        f"{begins}it does not exist, and a command could create it.",
        f"{begins}HOME/.local is a symbolic link in the workspace, which a command could replace.",
    ]


def test_a_run_that_writes_its_own_settings_is_stopped(handrail: Handrail) -> None:
    option, model = scripted(
        handrail,
        '[write(".config/handrail/config.toml", "1"), write("a.txt", "2")]',
        '"done"',
    )

    ran = handrail("run", option, model, "--mode", "edits", "hi", env=at_home(handrail))

    assert ran.exit == 3
    assert (handrail.workspace / "a.txt").is_file()
    assert not (handrail.workspace / ".config/handrail/config.toml").exists()


@pytest.mark.parametrize("home", [".", "", "home"])
def test_a_relative_home_gives_a_workspace_no_say(handrail: Handrail, home: str) -> None:
    for folder in (".config", "home/.config"):
        handrail.write(f"{folder}/handrail/rules.toml", "[[rule]]\nid = 'w'\ndecide = 'deny'\n")
    env = {"HOME": home, "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}

    assert explained(handrail, "read", "a", env=env)[0] == "allow"


@pytest.mark.parametrize(
    "words",
    [
        ("tools", "call", "write", "file_path=.local/bin/git", "content=x", "--mode", "edits"),
        ("tools", "call", "bash", "command=touch .bashrc", "--mode", "open"),
        ("run", "hello", *MODEL),
    ],
)
def test_in_a_home_folder_no_tool_runs(handrail: Handrail, words: tuple[str, ...]) -> None:
    scripted(handrail, "'hello'")
    before = sorted(handrail.workspace.rglob("*"))
    ran = handrail(*words, "--json", env={"HOME": str(handrail.workspace)})

    assert (ran.exit, ran.error["code"], ran.error["hint"]) == (
        2,
        "usage",
        "change to the folder of a project, or pass it with `-C`",
    )
    assert ran.error["message"] == (
        f"the workspace '{handrail.workspace}' is your home folder or contains it: tools could "
        "change what runs when you log in"
    )
    assert sorted(handrail.workspace.rglob("*")) == before


def test_rules_and_settings_can_be_seen_in_a_home_folder(handrail: Handrail) -> None:
    env = {"HOME": str(handrail.workspace)}

    asked = (("rules", "list", "--quiet"), ("tools", "list"), ("mode",))
    ran = [handrail(*words, env=env) for words in asked]

    assert [(one.exit, one.err) for one in ran] == [(0, "")] * 3
