"""Settings: which level wins, whose files count, and what is said of those that do not."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from cli_harness import Handrail, Ran
from handrail.cli._exits import Halt
from handrail.cli._settings import KNOWN, Origin, files, read_settings
from handrail.policy import Places, Trust, digest


@pytest.fixture
def home(handrail: Handrail, monkeypatch: pytest.MonkeyPatch) -> Handrail:
    """For tests that read settings themselves."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(handrail.folder / "config"))
    for name in [*os.environ]:
        if name.startswith("HANDRAIL_"):
            monkeypatch.delenv(name)
    handrail.config.mkdir(parents=True)
    return handrail


def trust(handrail: Handrail, *names: str) -> None:
    kept = Places.of(handrail.workspace, config=handrail.config).trust
    assert kept is not None
    for name in names:
        file = handrail.workspace / name
        Trust(kept).grant(file, digest(file.read_bytes()))


def own(handrail: Handrail, text: str) -> Path:
    file = handrail.config / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_stronger_level_wins(home: Handrail, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = home.workspace

    def value(**flags: Any) -> tuple[Any, Origin]:
        found = read_settings(workspace, flags)
        assert found.problems == ()
        return found["max_turns"], found.origins["max_turns"]

    assert value() == (50, Origin("built in"))
    mine = own(home, "# mine\nmax_turns = 1\n")
    assert value() == (1, Origin("user", f"{mine}:2"))
    project = home.write("handrail.toml", "max_turns = 2\n")
    trust(home, "handrail.toml")
    assert value() == (2, Origin("project", f"{project}:1"))
    local = home.write(".handrail/local.toml", "\n\nmax_turns = 3\n")
    trust(home, ".handrail/local.toml")
    assert value() == (3, Origin("local", f"{local}:3"))
    monkeypatch.setenv("HANDRAIL_MAX_TURNS", "4")
    assert value() == (4, Origin("environment", "HANDRAIL_MAX_TURNS"))
    assert value(max_turns=5) == (5, Origin("flag", "--max-turns"))


def test_a_flag_is_called_as_it_is_written(home: Handrail) -> None:
    found = read_settings(home.workspace, {"hosts": ["a.org"], "base_url": "http://x"})

    assert found.origins["hosts"] == Origin("flag", "--host")
    assert found.origins["base_url"] == Origin("flag", "--base-url")


def test_what_is_left_out_anywhere_is_left_out(
    home: Handrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = own(home, 'without = ["bash"]\n')
    home.write("handrail.toml", 'without = ["edit"]\n')
    trust(home, "handrail.toml")
    monkeypatch.setenv("HANDRAIL_WITHOUT", "write, grep,")
    found = read_settings(home.workspace, {"without": ["glob", "bash"]})

    assert found["without"] == ["bash", "edit", "glob", "grep", "write"]
    assert found.origins["without"] == Origin(
        "flag", f"--without, HANDRAIL_WITHOUT, {home.workspace}/handrail.toml:1, {mine}:1"
    )
    monkeypatch.delenv("HANDRAIL_WITHOUT")
    own(home, "without = []\n")
    trust(home)
    assert read_settings(home.workspace, {})["without"] == ["edit"]


def test_what_is_not_trusted_does_not_count(home: Handrail) -> None:
    project = home.write("handrail.toml", 'mode = "open"\n')
    local = home.write(".handrail/local.toml", 'mode = "edits"\n')

    def read() -> tuple[Any, tuple[str, ...]]:
        found = read_settings(home.workspace, {})
        return found["mode"], found.problems

    words = "{} is not trusted as it is now, and does not count: look at it with `handrail trust`"
    assert read() == (None, (words.format(local), words.format(project)))
    trust(home, "handrail.toml", ".handrail/local.toml")
    assert read() == ("edits", ())
    local.write_text('mode = "edits" \n', encoding="utf-8")  # by one blank
    assert read() == ("open", (words.format(local),))


def test_the_trust_of_one_folder_is_not_that_of_another(home: Handrail, tmp_path: Path) -> None:
    home.write("handrail.toml", 'mode = "edits"\n')
    trust(home, "handrail.toml")
    other = tmp_path / "other"
    other.mkdir()
    (other / "handrail.toml").write_text('mode = "edits"\n', encoding="utf-8")

    assert read_settings(home.workspace, {})["mode"] == "edits"
    assert read_settings(other, {})["mode"] is None


@pytest.mark.parametrize("linked", ["handrail.toml", ".handrail/local.toml", ".handrail"])
def test_a_link_in_a_workspace_is_not_read(home: Handrail, tmp_path: Path, linked: str) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "local.toml").write_text('mode = "edits"\n', encoding="utf-8")
    link = home.workspace / linked
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(there if linked == ".handrail" else there / "local.toml")
    file = link if linked.endswith(".toml") else link / "local.toml"
    trust(home, str(file.relative_to(home.workspace)))
    found = read_settings(home.workspace, {})

    assert (found["mode"], found.problems) == (
        None,
        (f"{file} is not read, and does not count: {link.name} is a link",),
    )
    content = file.read_bytes()  # the control: the same, and no link
    link.unlink()
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    trust(home, str(file.relative_to(home.workspace)))
    assert read_settings(home.workspace, {})["mode"] == "edits"


def test_what_is_no_file_holds_up_no_command(home: Handrail) -> None:
    os.mkfifo(home.workspace / "handrail.toml")
    (home.workspace / ".handrail" / "local.toml").mkdir(parents=True)
    found = read_settings(home.workspace, {})

    assert found.problems == (
        f"{home.workspace}/.handrail/local.toml is not read, and does not count: Is a directory",
        f"{home.workspace}/handrail.toml is not read, and does not count: it is no regular file",
    )
    (home.workspace / ".handrail" / "local.toml").rmdir()
    (home.workspace / ".handrail").rmdir()
    home.write(".handrail", "a file")
    assert read_settings(home.workspace, {}).problems == found.problems[1:]


def test_a_file_has_a_bound(home: Handrail) -> None:
    most = 1 << 20
    home.write("handrail.toml", 'mode = "edits"\n'.ljust(most + 1, "#"))
    trust(home, "handrail.toml")
    found = read_settings(home.workspace, {})
    assert (found["mode"], found.problems) == (
        None,
        (
            (
                f"{home.workspace}/handrail.toml is not read, and does not count: it has more than "
                "1048576 bytes"
            ),
        ),
    )
    home.write("handrail.toml", 'mode = "edits"\n'.ljust(most, "#"))
    trust(home, "handrail.toml")
    assert read_settings(home.workspace, {})["mode"] == "edits"

    mine = own(home, "#" * (most + 1))  # it may say what is left out: nothing goes on without it
    with pytest.raises(Halt, match=f"{mine}: it has more than 1048576 bytes"):
        read_settings(home.workspace, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mode = open", "{}: Invalid value (at line 1, column 8)"),
        ("mode = 'loose'", "{}:1: mode must be plan, ask, edits or open"),
        ("\ntools = 'coding'", "{}:2: tools must be a list of texts"),
        ("tools = [1]", "{}:1: tools must be a list of texts"),
        ("model = 1", "{}:1: model must be a text"),
        ("max_turns = 0", "{}:1: max_turns must be a whole number from 1 on"),
        ("max_turns = true", "{}:1: max_turns must be a whole number from 1 on"),
        ("max_turns = 1.5", "{}:1: max_turns must be a whole number from 1 on"),
        ("max_seconds = 0", "{}:1: max_seconds must be a number above 0"),
        ("max_seconds = nan", "{}:1: max_seconds must be a number above 0"),
        ("max_seconds = inf", "{}:1: max_seconds must be a number above 0"),
        ("max_seconds = false", "{}:1: max_seconds must be a number above 0"),
        (f"max_seconds = 1{'0' * 400}", "{}:1: max_seconds must be a number above 0"),
        (f"a = 1{'0' * 5000}", "{}: Exceeds the limit (4300 digits) for integer string"),
        (f"a = {'[' * 9999}", "{}: "),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_place(
    home: Handrail, text: str, message: str
) -> None:
    mine = own(home, text)

    with pytest.raises(Halt) as halt:
        read_settings(home.workspace, {})
    assert str(halt.value).startswith(message.format(mine))
    assert halt.value.code == "config"


def test_a_file_that_is_no_text_is_refused(home: Handrail) -> None:
    own(home, "").write_bytes(b"mode = '\xff'")

    with pytest.raises(Halt, match="can't decode byte 0xff"):
        read_settings(home.workspace, {})


def test_values_are_kept_as_they_are(home: Handrail) -> None:
    own(
        home,
        'tools = ["coding", "a.py"]\nhosts = ["a.org"]\nmodel = "openai:x"\nbase_url = "http://x"\n'
        'system = "Be brief."\nmax_tokens = 10\nmax_calls = 11\nmax_usage = 12\n'
        "max_seconds = 1\n",
    )
    found = read_settings(home.workspace, {})

    assert dict(found.values) == {
        "tools": ["coding", "a.py"],
        "without": [],
        "mode": None,
        "hosts": ["a.org"],
        "model": "openai:x",
        "base_url": "http://x",
        "system": "Be brief.",
        "max_tokens": 10,
        "max_turns": 50,
        "max_calls": 11,
        "max_usage": 12,
        "max_seconds": 1.0,
    }
    assert found.values.keys() == KNOWN.keys() == found.origins.keys()


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("TOOLS", "coding, a.py:x", ["coding", "a.py:x"]),
        ("MODE", "plan", "plan"),
        ("MAX_TURNS", "7", 7),
        ("MAX_SECONDS", "1.5", 1.5),
        ("MODEL", "12", "12"),
        ("MAX_TURNS", "", 50),
    ],
)
@pytest.mark.usefixtures("home")
def test_the_environment_sets_values(
    handrail: Handrail, variable: str, text: str, value: object
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"HANDRAIL_{variable}", text)
        assert read_settings(handrail.workspace, {})[variable.lower()] == value


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("MAX_TURNS", "many", "a whole number from 1 on"),
        ("MAX_TURNS", "1.0", "a whole number from 1 on"),
        ("MAX_TURNS", "²", "a whole number from 1 on"),
        ("MODE", "loose", "plan, ask, edits or open"),
    ],
)
def test_a_variable_that_cannot_be_is_refused(
    handrail: Handrail, variable: str, text: str, said: str
) -> None:
    ran = handrail("tools", "list", "--json", env={f"HANDRAIL_{variable}": text})

    assert (ran.exit, ran.error["message"]) == (2, f"HANDRAIL_{variable} must be {said}")


def test_what_nobody_knows_is_told_with_what_may_be_meant(
    handrail: Handrail,
) -> None:
    handrail.config.mkdir(parents=True)
    mine = own(handrail, 'wihtout = ["bash"]\n[limits]\nx = 1\n')
    env = {"HANDRAIL_SYSTM": "x", "HANDRAIL_OTHER_PROGRAM": "x"}
    ran = handrail("tools", "list", env=env)

    assert (ran.exit, ran.err) == (
        0,
        (
            "HANDRAIL_SYSTM is no setting; did you mean HANDRAIL_SYSTEM?\n"
            f"{mine}:1: there is no setting 'wihtout'; did you mean 'without'?\n"
            f"{mine}:2: there is no setting 'limits'\n"
        ),
    )
    strict = handrail("tools", "list", "--strict-config", "--json")
    assert (strict.exit, strict.error["code"]) == (2, "config")
    assert strict.error["message"].endswith(
        "there is no setting 'wihtout'; did you mean 'without'?"
    )


def test_a_file_that_others_may_write_can_only_leave_out(home: Handrail) -> None:
    mine = own(home, 'mode = "edits"\nwithout = ["bash"]\n')
    assert read_settings(home.workspace, {})["mode"] == "edits"

    for place in (mine, mine.parent):
        place.chmod(place.stat().st_mode | 0o020)
        found = read_settings(home.workspace, {})
        assert (found["mode"], found["without"], found.problems) == (
            None,
            ["bash"],
            (
                (
                    f"others may write to {mine}: mode there does not count; take that from them "
                    "with `chmod go-w`, for the file and its folder"
                ),
            ),
        )
        place.chmod(place.stat().st_mode & ~0o020)


def test_a_users_own_file_may_be_a_link(home: Handrail, tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.toml"
    kept.write_text('mode = "edits"\n', encoding="utf-8")
    (home.config / "config.toml").symlink_to(kept)

    assert read_settings(home.workspace, {})["mode"] == "edits"


@pytest.mark.parametrize("given", [None, "", "relative/path", "/absolute/path"])
def test_a_users_settings_lie_beside_their_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if given is not None:
        monkeypatch.setenv("XDG_CONFIG_HOME", given)
    rules = Places.of(tmp_path).user

    assert rules is not None
    assert files(tmp_path)["user"] == rules.with_name("config.toml")


def test_a_workspace_is_nobodys_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    real = Path(pwd.getpwuid(os.getuid()).pw_dir)

    for given in (".", "relative/home"):
        monkeypatch.setenv("HOME", given)
        assert files(tmp_path)["user"] == real / ".config" / "handrail" / "config.toml"


def test_a_user_whom_the_system_does_not_know_needs_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(number: int) -> NoReturn:
        raise KeyError(number)

    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)

    for home in (".", None):
        monkeypatch.setenv("HOME", home or "")
        if home is None:
            monkeypatch.delenv("HOME")
        with pytest.raises(Halt, match="there is no home folder") as halt:
            files(tmp_path)
        assert halt.value.code == "config"


def on_a_machine(handrail: Handrail, etc: Path, *arguments: str) -> Ran:
    """Run a command where /etc/handrail is this folder: in a mount namespace of its own."""
    done = subprocess.run(  # noqa: S603  our own interpreter
        [
            *(
                "bwrap",
                "--dev-bind",
                "/",
                "/",
                "--tmpfs",
                "/etc",
                "--ro-bind",
                etc,
                "/etc/handrail",
            ),
            *("--", sys.executable, "-m", "handrail_cli", *arguments),
        ],
        capture_output=True,
        encoding="utf-8",
        env=handrail.environment(),
        cwd=handrail.workspace,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    folder = tmp_path / "etc"
    folder.mkdir(mode=0o755)
    return folder


def test_what_a_machine_leaves_out_stays_out(handrail: Handrail, etc: Path) -> None:
    """Whatever stronger levels say: there is no way to take a name off the list again."""
    handrail.config.mkdir(parents=True)
    own(handrail, "without = []\n")
    handrail.write("a.txt", "hello\n")
    read = ["tools", "call", "read", "file_path=a.txt"]
    assert on_a_machine(handrail, etc, *read).exit == 0

    (etc / "config.toml").write_text('without = ["read"]\nmax_turns = 3\n', encoding="utf-8")
    for more in ([], ["--without", "grep"], ["-t", "coding"]):
        ran = on_a_machine(handrail, etc, *read, *more, "--json")
        assert (ran.exit, ran.error["code"]) == (2, "no_tool")
        assert "/etc/handrail/config.toml:1" in ran.error["message"]
    shown = on_a_machine(handrail, etc, "config", "show", "--json")
    assert shown.exit == 0
    assert "/etc/handrail/config.toml:2" in shown.out  # what nobody else says counts too


def test_what_a_machine_denies_stays_denied(handrail: Handrail, etc: Path) -> None:
    handrail.config.mkdir(parents=True)
    rule = '[[rule]]\nid = "{}"\ndecide = "{}"\ntools = ["write"]\nreason = "so"\n'
    (handrail.config / "rules.toml").write_text(rule.format("mine", "allow"), encoding="utf-8")
    write = ["tools", "call", "write", '{"file_path": "a.txt", "content": "x"}', "--mode", "edits"]
    assert on_a_machine(handrail, etc, *write).exit == 0

    (etc / "rules.toml").write_text(rule.format("the machine's", "deny"), encoding="utf-8")
    ran = on_a_machine(handrail, etc, *write, "--json")
    assert (ran.exit, ran.error["hint"]) == (
        3,
        "it is denied by the machine's (/etc/handrail/rules.toml:1)",
    )


def test_a_machines_file_that_cannot_be_read_stops_everything(
    handrail: Handrail, etc: Path
) -> None:
    (etc / "config.toml").write_text("without = [", encoding="utf-8")
    ran = on_a_machine(handrail, etc, "tools", "list", "--json")

    assert (ran.exit, ran.error["code"]) == (2, "config")
    assert ran.error["message"].startswith("/etc/handrail/config.toml: ")
