"""Settings: which level wins, whose files count, and what is said of those that do not."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

from cli_harness import Handrail, Ran
from handrail.policy import RulePaths, Trust, digest


@pytest.fixture
def home(handrail: Handrail) -> Handrail:
    """With a folder for settings of one's own."""
    handrail.config.mkdir(parents=True)
    return handrail


class Shown(NamedTuple):
    """What `handrail config show` shows."""

    values: dict[str, Any]
    origins: dict[str, tuple[str, str]]
    """The level of each, and where it stands there."""
    problems: tuple[str, ...]
    files: dict[str, Path]

    def __getitem__(self, name: str) -> Any:  # type: ignore[override]
        return self.values[name]


def show(handrail: Handrail, *flags: str, env: Mapping[str, str | None] = {}) -> Shown:
    ran = handrail("config", "show", "--json", *flags, env=env)
    assert ran.exit == 0, ran.err
    settings = ran.json["settings"]
    return Shown(
        {one["name"]: one["value"] for one in settings},
        {one["name"]: (one["level"], one["where"]) for one in settings},
        tuple(ran.json["problems"]),
        {one["level"]: Path(one["path"]) for one in ran.json["files"]},
    )


def refusal(handrail: Handrail, env: Mapping[str, str | None] = {}) -> str:
    """Why settings cannot be read."""
    ran = handrail("config", "show", "--json", env=env)
    assert (ran.exit, ran.out, ran.error["code"]) == (2, "", "config")
    return str(ran.error["message"])


def trust(handrail: Handrail, *names: str) -> None:
    kept = RulePaths.of(handrail.workspace, config=handrail.config).trust
    assert kept is not None
    for name in names:
        file = handrail.workspace / name
        Trust(kept).grant(file, digest(file.read_bytes()))


def own(handrail: Handrail, text: str) -> Path:
    file = handrail.config / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_stronger_level_wins(home: Handrail) -> None:
    def value(*flags: str, env: Mapping[str, str] = {}) -> tuple[Any, tuple[str, str]]:
        found = show(home, *flags, env=env)
        assert found.problems == ()
        return found["max_turns"], found.origins["max_turns"]

    assert value() == (50, ("default", ""))
    mine = own(home, "# mine\nmax_turns = 1\n")
    assert value() == (1, ("user", f"{mine}:2"))
    project = home.write("handrail.toml", "max_turns = 2\n")
    trust(home, "handrail.toml")
    assert value() == (2, ("project", f"{project}:1"))
    local = home.write(".handrail/local.toml", "\n\nmax_turns = 3\n")
    trust(home, ".handrail/local.toml")
    assert value() == (3, ("local", f"{local}:3"))
    env = {"HANDRAIL_MAX_TURNS": "4"}
    assert value(env=env) == (4, ("environment", "HANDRAIL_MAX_TURNS"))
    assert value("--max-turns", "5", env=env) == (5, ("flag", "--max-turns"))


def test_a_flag_is_called_as_it_is_written(home: Handrail) -> None:
    found = show(home, "--allow-host", "a.org", "--base-url", "http://x")

    assert found.origins["allowed_hosts"] == ("flag", "--allow-host")
    assert found.origins["base_url"] == ("flag", "--base-url")


def test_what_is_left_out_anywhere_is_left_out(home: Handrail) -> None:
    mine = own(home, 'without = ["bash"]\n')
    home.write("handrail.toml", 'without = ["edit"]\n')
    trust(home, "handrail.toml")
    env = {"HANDRAIL_WITHOUT": "write, grep,"}
    found = show(home, "--without", "glob", "--without", "bash", env=env)

    assert found["without"] == ["bash", "edit", "glob", "grep", "write"]
    assert found.origins["without"] == (
        "flag",
        f"--without, HANDRAIL_WITHOUT, {home.workspace}/handrail.toml:1, {mine}:1",
    )
    own(home, "without = []\n")
    trust(home)
    assert show(home)["without"] == ["edit"]


def test_what_is_not_trusted_does_not_count(home: Handrail) -> None:
    project = home.write("handrail.toml", 'mode = "open"\n')
    local = home.write(".handrail/local.toml", 'mode = "edits"\n')

    def read() -> tuple[Any, tuple[str, ...]]:
        found = show(home)
        return found["mode"], found.problems

    words = (
        "ignoring {}: not trusted, or changed since you trusted it; review it with `handrail trust`"
    )
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

    assert show(home)["mode"] == "edits"
    assert show(home, "-C", str(other))["mode"] is None


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
    found = show(home)

    assert (found["mode"], found.problems) == (
        None,
        (f"ignoring {file}: `{link.name}` is a symbolic link; replace it",),
    )
    content = file.read_bytes()  # the control: the same, and no link
    link.unlink()
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    trust(home, str(file.relative_to(home.workspace)))
    assert show(home)["mode"] == "edits"


def test_what_is_no_file_holds_up_no_command(home: Handrail) -> None:
    os.mkfifo(home.workspace / "handrail.toml")
    (home.workspace / ".handrail" / "local.toml").mkdir(parents=True)
    found = show(home)

    assert found.problems == (
        f"ignoring {home.workspace}/.handrail/local.toml: it is not a regular file",
        f"ignoring {home.workspace}/handrail.toml: it is not a regular file",
    )
    (home.workspace / ".handrail" / "local.toml").rmdir()
    (home.workspace / ".handrail").rmdir()
    home.write(".handrail", "a file")
    assert show(home).problems == found.problems[1:]


def test_a_file_has_a_bound(home: Handrail) -> None:
    most = 1 << 20
    home.write("handrail.toml", 'mode = "edits"\n'.ljust(most + 1, "#"))
    trust(home, "handrail.toml")
    found = show(home)
    assert (found["mode"], found.problems) == (
        None,
        ((f"ignoring {home.workspace}/handrail.toml: it has more than 1048576 bytes"),),
    )
    home.write("handrail.toml", 'mode = "edits"\n'.ljust(most, "#"))
    trust(home, "handrail.toml")
    assert show(home)["mode"] == "edits"

    mine = own(home, "#" * (most + 1))  # it may say what is left out: nothing goes on without it
    assert refusal(home) == f"cannot read {mine}: it has more than 1048576 bytes"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mode = open", "{} is not valid TOML: Invalid value (at line 1, column 8)"),
        ("mode = 'loose'", '{}:1: `mode` must be "plan", "ask", "edits" or "open", got "loose"'),
        ("theme = 1", '{}:1: `theme` must be "auto", "dark", "light" or "ansi", got 1'),
        ("\ntools = 'coding'", '{}:2: `tools` must be a list of strings, got "coding"'),
        ("tools = [1]", "{}:1: `tools` must be a list of strings, got [1]"),
        ("model = 1", "{}:1: `model` must be a string, got 1"),
        ("max_turns = 0", "{}:1: `max_turns` must be an integer of at least 1, got 0"),
        ("max_turns = true", "{}:1: `max_turns` must be an integer of at least 1, got true"),
        ("max_turns = 1.5", "{}:1: `max_turns` must be an integer of at least 1, got 1.5"),
        ("max_seconds = 0", "{}:1: `max_seconds` must be a number greater than 0, got 0"),
        ("max_seconds = nan", "{}:1: `max_seconds` must be a number greater than 0, got NaN"),
        ("max_seconds = inf", "{}:1: `max_seconds` must be a number greater than 0, got Infinity"),
        ("max_seconds = false", "{}:1: `max_seconds` must be a number greater than 0, got false"),
        (
            f"max_seconds = 1{'0' * 400}",
            "{}:1: `max_seconds` must be a number greater than 0, got 1" + "0" * 59 + "…",
        ),
        (
            f"a = 1{'0' * 5000}",
            "{} is not valid TOML: Exceeds the limit (4300 digits) for integer string",
        ),
        (f"a = {'[' * 9999}", "{} is not valid TOML: "),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_place(
    home: Handrail, text: str, message: str
) -> None:
    mine = own(home, text)

    assert refusal(home).startswith(message.format(mine))


def test_the_hint_is_a_line_that_can_be_copied(home: Handrail) -> None:
    env = {"HANDRAIL_MAX_TURNS": "many"}
    assert home("config", "show", "--json", env=env).error["hint"] == (
        "set a valid value, as in `export HANDRAIL_MAX_TURNS=50`, or `unset HANDRAIL_MAX_TURNS`"
    )
    own(home, "tools = 'coding'\n")
    assert home("config", "show", "--json").error["hint"] == (
        'write a valid value, as in `tools = ["coding", "tools.py"]`'
    )


def test_a_login_in_a_wrong_value_is_not_shown(home: Handrail) -> None:
    own(home, "base_url = ['http://me:pw@host/v1']\n")

    assert refusal(home).endswith('`base_url` must be a string, got ["http://***@host/v1"]')


def test_a_file_that_is_no_text_is_refused(home: Handrail) -> None:
    own(home, "").write_bytes(b"mode = '\xff'")

    assert "can't decode byte 0xff" in refusal(home)


def test_values_are_kept_as_they_are(home: Handrail) -> None:
    own(
        home,
        'tools = ["coding", "a.py"]\nallowed_hosts = ["a.org"]\nmodel = "openai:x"\nbase_url = "http://x"\n'
        'system = "Be brief."\nmax_tokens = 10\nmax_calls = 11\nmax_total_tokens = 12\n'
        'max_seconds = 1\ntheme = "light"\n',
    )
    found = show(home)

    assert found.values == {
        "tools": ["coding", "a.py"],
        "without": [],
        "programs": False,
        "mode": None,
        "allowed_hosts": ["a.org"],
        "model": "openai:x",
        "base_url": "http://x",
        "key_variable": None,
        "system": "Be brief.",
        "hooks": {},
        "unsandboxed_hooks": False,
        "database": "",
        "codec": "",
        "theme": "light",
        "model_tries": 1,
        "max_tokens": 10,
        "max_turns": 50,
        "max_calls": 11,
        "max_total_tokens": 12,
        "max_seconds": 1.0,
        "max_cost_per_day": None,
        "max_cost_per_month": None,
    }


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
def test_the_environment_sets_values(
    handrail: Handrail, variable: str, text: str, value: object
) -> None:
    found = show(handrail, env={f"HANDRAIL_{variable}": text})

    assert found[variable.lower()] == value


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("MAX_TURNS", "many", 'an integer of at least 1, got "many"'),
        ("MAX_TURNS", "1.0", "an integer of at least 1, got 1.0"),
        ("MAX_TURNS", "²", 'an integer of at least 1, got "²"'),
        ("MODE", "loose", '"plan", "ask", "edits" or "open", got "loose"'),
    ],
)
def test_a_variable_that_cannot_be_is_refused(
    handrail: Handrail, variable: str, text: str, said: str
) -> None:
    ran = handrail("tools", "list", "--json", env={f"HANDRAIL_{variable}": text})

    assert (ran.exit, ran.error["message"]) == (2, f"`HANDRAIL_{variable}` must be {said}")


def test_what_nobody_knows_is_told_with_what_may_be_meant(
    handrail: Handrail,
) -> None:
    handrail.config.mkdir(parents=True)
    mine = own(handrail, 'wihtout = ["bash"]\n[limits]\nx = 1\n')
    env = {"HANDRAIL_SYSTM": "x", "HANDRAIL_ELSEWHERE": "x"}
    ran = handrail("tools", "list", env=env)

    assert (ran.exit, ran.err) == (
        0,
        (
            "unknown setting `HANDRAIL_SYSTM`; did you mean `HANDRAIL_SYSTEM`?\n"
            f"{mine}:1: unknown setting 'wihtout'; did you mean `without`?\n"
            f"{mine}:2: unknown setting 'limits'\n"
        ),
    )
    strict = handrail("tools", "list", "--strict-config", "--json")
    assert (strict.exit, strict.error["code"]) == (2, "config")
    assert strict.error["message"].endswith("unknown setting 'wihtout'; did you mean `without`?")


def test_a_file_that_others_may_write_can_only_leave_out(home: Handrail) -> None:
    mine = own(home, 'mode = "edits"\nwithout = ["bash"]\n')
    assert show(home)["mode"] == "edits"

    for place in (mine, mine.parent):
        place.chmod(place.stat().st_mode | 0o020)
        found = show(home)
        assert (found["mode"], found["without"], found.problems) == (
            None,
            ["bash"],
            (
                (
                    f"ignoring `mode` in {mine}: other users can write to the file or its folder; "
                    f"run `chmod go-w {mine.parent} {mine}`"
                ),
            ),
        )
        place.chmod(place.stat().st_mode & ~0o020)


def test_a_users_own_file_may_be_a_link(home: Handrail, tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.toml"
    kept.write_text('mode = "edits"\n', encoding="utf-8")
    (home.config / "config.toml").symlink_to(kept)

    assert show(home)["mode"] == "edits"


@pytest.mark.parametrize("given", [None, "", "relative/path", "/absolute/path"])
def test_a_users_settings_lie_beside_their_rules(
    handrail: Handrail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if given is not None:
        monkeypatch.setenv("XDG_CONFIG_HOME", given)
    rules = RulePaths.of(tmp_path).user

    assert rules is not None
    found = show(handrail, env={"HOME": str(tmp_path), "XDG_CONFIG_HOME": given})
    assert found.files["user"] == rules.with_name("config.toml")


@pytest.mark.parametrize("given", [".", "relative/home"])
def test_a_workspace_is_nobodys_home(handrail: Handrail, given: str) -> None:
    real = Path(pwd.getpwuid(os.getuid()).pw_dir)

    found = show(handrail, env={"HOME": given, "XDG_CONFIG_HOME": None})
    assert found.files["user"] == real / ".config" / "handrail" / "config.toml"


@pytest.mark.parametrize("home", [".", None])
def test_a_user_whom_the_system_does_not_know_needs_a_home(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    def unknown(number: int) -> NoReturn:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)

    env = {"HOME": home, "XDG_CONFIG_HOME": None}
    assert refusal(handrail, env) == f"the user with ID {os.getuid()} has no home folder"


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
            *("--", sys.executable, "-m", "handrail.cli", *arguments),
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
        "to allow it, change the machine's (/etc/handrail/rules.toml:1)",
    )


def test_a_machines_file_that_cannot_be_read_stops_everything(
    handrail: Handrail, etc: Path
) -> None:
    (etc / "config.toml").write_text("without = [", encoding="utf-8")
    ran = on_a_machine(handrail, etc, "tools", "list", "--json")

    assert (ran.exit, ran.error["code"]) == (2, "config")
    assert ran.error["message"].startswith("/etc/handrail/config.toml is not valid TOML: ")
