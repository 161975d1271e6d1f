"""Commands in the sandbox: what they can do, what they say, and what they leave behind."""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from inline_snapshot import snapshot

from handrail import HandrailError, Refused, ToolFailed
from handrail.sandbox import ResourceLimits, Sandbox, SandboxUnavailable, safe_variables
from handrail.sandbox._home import NEEDED
from handrail.sandbox._kernel import syscalls
from handrail.sandbox._protected import SECRETS
from sandbox.commands import ended, run

both = pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
PYTHON = os.path.realpath(sys.executable)
LOCKS = Path(f"/tmp/handrail-{os.geteuid()}")  # noqa: S108


@functools.cache
def git() -> str:
    return shutil.which("git") or "git"


def repository(path: Path) -> Path:
    subprocess.run([git(), "init", "-q", str(path)], check=True)  # noqa: S603
    return path


def commit(root: Path) -> None:
    words = "-c user.name=x -c user.email=x commit -q --allow-empty -m first".split()
    subprocess.run([git(), "-C", str(root), *words], check=True)  # noqa: S603


def add_worktree(root: Path, path: Path) -> None:
    words = [git(), "-C", str(root), "worktree", "add", "-q", str(path)]
    subprocess.run(words, check=True)  # noqa: S603


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def lock_of(root: Path) -> Path:
    about = root.stat()
    return LOCKS / f"{about.st_dev:x}-{about.st_ino:x}"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder of its own, and not in a folder for temporary files, which are out of sight."""
    with tempfile.TemporaryDirectory(prefix=".handrail-test-", dir=Path.home()) as made:
        monkeypatch.setenv("HOME", made)
        yield Path(made)


@both
async def test_a_command_is_seen_through(tmp_path: Path, tier: Any) -> None:
    sandbox = Sandbox(tmp_path, tier=tier)
    (tmp_path / "sub").mkdir()

    line = "echo out; echo err >&2; echo noted >&3; pwd; cat; exit 7"
    made = await run(sandbox, line, cwd="sub", notes=True)

    assert made == (7, f"out\nerr\n{tmp_path}/sub\n", "noted\n")


@both
async def test_messages_of_the_shell_count_lines_from_the_command(
    tmp_path: Path, tier: Any
) -> None:
    made = await run(Sandbox(tmp_path, tier=tier), "true\nno-such-program")

    assert made == (127, "bash: line 2: no-such-program: command not found\n", "")


@both
async def test_the_environment_is_built_anew(
    tmp_path: Path, tier: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in tuple(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "relative:/usr/bin:/bin::/usr/bin")
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("TZ", "Europe/Amsterdam")
    monkeypatch.setenv("TOKEN", "x")

    sandbox = Sandbox(tmp_path, tier=tier, variables={"MINE": "1", "LC_ALL": "C"})
    made = await run(sandbox, "env", variables={"KEPT": "2", "LD_PRELOAD": "/x", "PATH": "."})

    seen = dict(line.split("=", 1) for line in made.text.splitlines())
    temporary = seen.pop("TMPDIR")
    assert temporary.startswith("/tmp")  # noqa: S108
    assert seen.pop("UV_CACHE_DIR") == f"{temporary}/uv-cache"
    assert seen.pop("SHELL") in {"/bin/bash", "/usr/bin/bash"}
    assert seen.pop("GIT_CONFIG_GLOBAL", "gitconfig").endswith("gitconfig")  # in Landlock
    assert {key: seen.pop(key) for key in ("_", "PWD", "SHLVL")}.keys() == {"_", "PWD", "SHLVL"}
    assert seen == snapshot(
        {
            "CI": "1",
            "DEBIAN_FRONTEND": "noninteractive",
            "EDITOR": "true",
            "NPM_CONFIG_UPDATE_NOTIFIER": "false",
            "GIT_ASKPASS": "false",
            "GIT_CONFIG_COUNT": "6",
            "GIT_CONFIG_KEY_0": "core.fsmonitor",
            "GIT_CONFIG_KEY_1": "gpg.program",
            "GIT_CONFIG_KEY_2": "gpg.ssh.program",
            "GIT_CONFIG_KEY_3": "gpg.x509.program",
            "GIT_CONFIG_KEY_4": "log.showSignature",
            "GIT_CONFIG_KEY_5": "safe.bareRepository",
            "GIT_CONFIG_KEY_6": "diff.autoRefreshIndex",
            "GIT_CONFIG_VALUE_0": "false",
            "GIT_CONFIG_VALUE_1": "false",
            "GIT_CONFIG_VALUE_2": "false",
            "GIT_CONFIG_VALUE_3": "false",
            "GIT_CONFIG_VALUE_4": "false",
            "GIT_CONFIG_VALUE_5": "explicit",
            "GIT_CONFIG_VALUE_6": "false",
            "GIT_EDITOR": "true",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_PAGER": "cat",
            "GIT_TERMINAL_PROMPT": "0",
            "NPM_CONFIG_AUDIT": "false",
            "HOME": "/nowhere",
            "YARN_HTTP_RETRY": "0",
            "KEPT": "2",
            "LANG": "C.UTF-8",
            "LC_ALL": "C",
            "CARGO_NET_RETRY": "0",
            "MANPAGER": "cat",
            "MINE": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_RETRIES": "0",
            "NPM_CONFIG_FETCH_RETRIES": "0",
            "NO_COLOR": "1",
            "NPM_CONFIG_YES": "true",
            "PAGER": "cat",
            "PATH": "/usr/bin:/bin",
            "NPM_CONFIG_FUND": "false",
            "PIP_NO_INPUT": "1",
            "UV_HTTP_RETRIES": "0",
            "SSH_ASKPASS": "false",
            "BUNDLE_RETRY": "0",
            "COMPOSER_DISABLE_NETWORK": "1",
            "SSH_ASKPASS_REQUIRE": "never",
            "TERM": "dumb",
            "TZ": "Europe/Amsterdam",
            "VISUAL": "true",
        }
    )


async def test_without_a_path_that_can_be_trusted_there_is_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{tmp_path}/bin:bin")

    made = await run(Sandbox(tmp_path), "echo $PATH")

    assert made.text == "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"


def test_what_a_command_hands_on_is_harmless() -> None:
    given = {
        "NAME": "value",
        "NODE_ENV": "test",
        "VIRTUAL_ENV": "/x",
        "BASH_ENV": "x",
        "BASH_FUNC_ls": "x",
        "GIT_SSH_COMMAND": "x",
        "LD_PRELOAD": "x",
        "NODE_OPTIONS": "x",
        "PATH": "x",
        "PYTHONPATH": "x",
        "https_proxy": "x",
        "odd name": "x",
        "NUL": "\0",
        "DATABASE": "postgres://app:secret@db/app",
        "PLAIN": f"ghp_{'x' * 36}",
        "LONG": "a" * 300_000,  # and a look at it does not take long
        "MAKEFILES": "x",
        "GOFLAGS": "-toolexec=x",
    }

    assert safe_variables(given) == {"NAME": "value", "NODE_ENV": "test", "VIRTUAL_ENV": "/x"}


STEERING = """
    GNUMAKEFLAGS _JAVA_OPTIONS RUSTFLAGS RUSTUP_TOOLCHAIN GOROOT GOCACHEPROG PYTEST_ADDOPTS
    PYTEST_PLUGINS UV_PYTHON UV_INDEX_URL BUNDLE_GEMFILE GEM_HOME DOTNET_STARTUP_HOOKS ERL_FLAGS
    ZDOTDIR GNUPGHOME MAGIC CFLAGS AR CMAKE_C_COMPILER_LAUNCHER COVERAGE_PROCESS_START
    RUFF_OUTPUT_FILE YARN_YARN_PATH HGRCPATH
""".split()


def test_what_steers_a_tool_of_developers_is_not_handed_on() -> None:
    assert safe_variables(dict.fromkeys([*STEERING, "API_URL", "PORT", "DEBUG"], "x")) == (
        dict.fromkeys(["API_URL", "PORT", "DEBUG"], "x")
    )


@both
async def test_temporary_files_are_private_and_last_as_long_as_the_sandbox(
    tmp_path: Path, tier: Any
) -> None:
    sandbox = Sandbox(tmp_path, tier=tier)

    await run(sandbox, "echo kept > $TMPDIR/note")
    again = await run(sandbox, "cat $TMPDIR/note")
    another = await run(Sandbox(tmp_path, tier=tier), "cat $TMPDIR/note 2>/dev/null")

    assert (again.text, another.text) == ("kept\n", "")


@both
async def test_a_running_command_keeps_its_sandbox(tmp_path: Path, tier: Any) -> None:
    made = await ended(Sandbox(tmp_path, tier=tier).start("echo x > $TMPDIR/x && cat $TMPDIR/x"))

    assert made == (0, "x\n", "")


@both
async def test_a_folder_to_start_in_is_in_the_workspace(tmp_path: Path, tier: Any) -> None:
    sandbox = Sandbox(tmp_path, tier=tier)
    (tmp_path / "link").symlink_to("/")

    for cwd in ("..", "/", "link", "link/etc"):
        with pytest.raises(Refused) as refused:
            sandbox.start("pwd", cwd=cwd)
        assert str(refused.value) == (
            f"Not run: '{cwd}' is outside the workspace. Use a folder inside it."
        )
    with pytest.raises(ToolFailed, match="The folder 'missing' does not exist in the workspace"):
        sandbox.start("pwd", cwd="missing")
    with pytest.raises(ToolFailed, match="NUL"):
        sandbox.start("pwd", cwd="a\0b")


@both
async def test_a_command_that_cannot_be_passed_on_is_refused(tmp_path: Path, tier: Any) -> None:
    sandbox = Sandbox(tmp_path, tier=tier)

    with pytest.raises(ToolFailed) as nul:
        sandbox.start("a\0b")
    with pytest.raises(ToolFailed) as long:
        sandbox.start(":" * 200_000)

    assert str(nul.value) == "Not run: the command contains a NUL character. Remove it."
    assert str(long.value) == snapshot(
        "Not run: the command is longer than 120,000 bytes. Write it to a file and run that."
    )
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["A=B", "", "1A", "A\nB"])
def test_a_variable_needs_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(HandrailError, match="is not a valid environment variable name"):
        Sandbox(tmp_path, variables={name: "x"})


def test_a_variable_has_no_nul(tmp_path: Path) -> None:
    with pytest.raises(HandrailError, match="MINE contains a NUL character"):
        Sandbox(tmp_path, variables={"MINE": "a\0b"})


async def test_git_works_and_what_steers_it_is_held(tmp_path: Path) -> None:
    repository(tmp_path)
    lines = """
        git status --short; echo a > a; git add -A
        git -c user.name=x -c user.email=x@x commit -qm first; git log --format=%s
        mv .git elsewhere; echo x > .git/hooks/pre-commit; git config core.pager x; touch .vscode/x
        echo x > .mcp.json
    """

    made = await run(Sandbox(tmp_path), lines)

    assert made.text.replace(str(tmp_path), "") == snapshot(
        """\
first
mv: cannot move '.git' to 'elsewhere': Device or resource busy
bash: line 4: .git/hooks/pre-commit: Read-only file system
error: could not write config file /.git/config: Device or resource busy
touch: cannot touch '.vscode/x': Read-only file system
bash: line 5: .mcp.json: Is a directory
"""
    )
    assert names(tmp_path) == [".git", "a"]


async def test_submodules_and_worktrees_are_held_too(tmp_path: Path) -> None:
    work, tree = repository(tmp_path / "work"), tmp_path / "tree"
    config = work / ".git/modules/one/config"
    (config.parent / "hooks").mkdir(parents=True)
    config.write_text("[core]\n", encoding="utf-8")
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {work}/.git/worktrees/x\n", encoding="utf-8")

    line = "echo x >> .git/modules/one/config; mv .git/modules x; touch .git/modules/one/hooks/x"
    inside = await run(Sandbox(work), line)
    pointed = await run(Sandbox(tree), "echo gitdir: /x > .git; rm -f .git")

    assert (inside.code, pointed.code) == (1, 1)
    assert config.read_text(encoding="utf-8") == "[core]\n"
    assert (tree / ".git").read_text(encoding="utf-8") == f"gitdir: {work}/.git/worktrees/x\n"


SUBMODULES = ("third_party/foo", "third_party/foo/modules/deep/er", "config/plain", "a")


async def test_submodules_are_held_at_any_depth_and_whatever_lies_beside_them(
    tmp_path: Path,
) -> None:
    """A command that adds or removes files of a repository changes nothing about what is held."""
    root = repository(tmp_path)
    files = [
        root / ".git/modules" / name / file
        for name in SUBMODULES
        for file in ("config", "config.worktree", "hooks/pre-commit")
    ]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("before", encoding="utf-8")
        (file.parent / "HEAD").write_text("ref: refs/heads/main", encoding="utf-8")
    sandbox = Sandbox(root)

    await run(sandbox, "rm .git/modules/a/HEAD; touch .git/modules/third_party/HEAD")
    await run(sandbox, "; ".join(f"echo x > {file}" for file in files))
    await run(sandbox, "mv .git/modules/third_party .git/modules/x; mv .git/modules .git/x")

    assert {file.read_text(encoding="utf-8") for file in files} == {"before"}


async def test_submodules_that_cannot_be_listed_are_held_as_a_whole(tmp_path: Path) -> None:
    root = repository(tmp_path)
    (root / ".git/modules").write_text("no folder", encoding="utf-8")

    made = await run(Sandbox(root), "echo x > .git/modules")

    assert made.code == 1
    assert (root / ".git/modules").read_text(encoding="utf-8") == "no folder"


async def test_what_the_settings_of_git_name_is_held(tmp_path: Path) -> None:
    root = repository(tmp_path / "ws")
    (tmp_path / "outside").mkdir()
    for name in ("hk/pre-commit", "team.cfg", "real/pre-push", ".vscode/hooks/pre-commit"):
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text("before", encoding="utf-8")
    (root / "linked").symlink_to("real")
    (root / "away").symlink_to("../outside")
    named = ("hk", "linked", "away", "missing", ".vscode/hooks", ".", "hk/pre-commit")
    lines = "".join(f"hooksPath = {name}\n" for name in named)
    config = root / ".git/config"
    config.write_text(f"[core]\n{lines}[include]\npath = ../team.cfg\n", encoding="utf-8")
    line = "echo x > hk/pre-commit; rm -r hk; mv hk x; echo x > team.cfg; echo x > real/pre-push"

    await run(Sandbox(root, read_only=["hk/pre-commit"]), line)
    held = {
        one: (root / one).read_text(encoding="utf-8")
        for one in ("hk/pre-commit", "team.cfg", "real/pre-push")
    }
    made = await run(Sandbox(root, writable=["hk"]), "echo x > hk/pre-commit; touch free")

    assert set(held.values()) == {"before"}
    assert made == (0, "", "")
    assert (root / "hk/pre-commit").read_text(encoding="utf-8") == "x\n"


async def test_a_name_below_a_link_is_held_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/hgrc").write_text("before", encoding="utf-8")
    (tmp_path / ".hg").symlink_to("real")

    made = await run(Sandbox(tmp_path), "echo x > real/hgrc; echo x > .hg/hgrc; echo done")

    assert made.text.endswith("done\n")
    assert (tmp_path / "real/hgrc").read_text(encoding="utf-8") == "before"


async def test_names_that_others_act_on_are_read_only_where_they_exist(tmp_path: Path) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".envrc").symlink_to("envrc")
    (tmp_path / ".zshrc").symlink_to("/etc/passwd")
    for name in (".venv/bin/python", "handrail.toml", "envrc", ".bashrc"):
        (tmp_path / name).write_text("before", encoding="utf-8")

    line = (
        "echo x > .venv/bin/python; rm -r .venv; echo x > handrail.toml; echo x > envrc; rm .bashrc"
    )
    await run(Sandbox(tmp_path), line)

    written = (".envrc", "envrc", "handrail.toml", ".bashrc", ".venv/bin/python")
    assert {(tmp_path / name).read_text(encoding="utf-8") for name in written} == {"before"}


async def test_a_name_can_be_left_open(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    root = repository(tmp_path / "root")
    elsewhere.mkdir()
    (root / ".claude").symlink_to(elsewhere)
    opened = [".vscode/", f"{root}/.claude", ".git", str(elsewhere)]

    line = "mkdir .vscode && echo x > .vscode/x && touch .git/hooks/x .claude/made"
    made = await run(Sandbox(root, writable=opened), line)

    assert made == (0, "", "")
    assert (elsewhere / "made").exists()
    assert (root / ".git/hooks/x").exists()


async def test_a_held_name_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".claude").symlink_to("/nowhere")

    with pytest.raises(SandboxUnavailable) as refused:
        Sandbox(tmp_path).start("true")

    assert str(refused.value) == snapshot(
        ".claude in the workspace is a symbolic link, which a command could replace. Replace it by a file or folder, or pass writable=('.claude',) to leave it unprotected."
    )
    assert not lock_of(tmp_path).exists()


@pytest.mark.parametrize("link", [".git/modules", ".git/modules/x"])
async def test_a_link_on_the_way_to_what_is_held_is_refused(tmp_path: Path, link: str) -> None:
    root, other = repository(tmp_path / "root"), repository(tmp_path / "x")
    command = f"mkdir -p {Path(link).parent}; ln -s $(realpath --relative-to={Path(link).parent} ../x) {link}"
    sandbox = Sandbox(root)

    planted = await run(sandbox, command)
    with pytest.raises(SandboxUnavailable, match=f"{link} in the workspace is a symbolic link"):
        await run(sandbox, f"touch {link}/planted")
    left_open = await run(Sandbox(root, writable=[".git/modules"]), f"touch {link}/planted")

    assert (planted.code, left_open.code) == (0, 1)
    assert not (other / "planted").exists()


async def test_many_submodules_are_held_as_a_whole(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")

    made = await run(Sandbox(root), "mkdir -p .git/modules/{1..3000} && echo made")
    held = await run(Sandbox(root), "touch .git/modules/1/config")

    assert (made.text, held.code) == ("made\n", 1)


async def test_places_for_missing_names_go_with_the_last_command(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    first = sandbox.start("echo go; read -t 60 < <(sleep 60); touch .vscode/x")
    assert await first.read() == b"go\n"

    second = await run(Sandbox(tmp_path), "touch .vscode/x")
    between = (tmp_path / ".vscode").is_dir()
    third = await run(sandbox, "touch .vscode/x")
    await first.kill()

    assert (second.code, third.code, between) == (1, 1, True)
    assert names(tmp_path) == []
    assert not lock_of(tmp_path).exists()


async def test_what_came_into_a_place_meanwhile_stays(tmp_path: Path) -> None:
    running = Sandbox(tmp_path).start("echo go; sleep 60")
    await running.read()
    (tmp_path / ".vscode/settings.json").write_text("{}", encoding="utf-8")
    await running.kill()

    assert names(tmp_path) == [".vscode"]


async def test_what_a_crash_left_goes_with_the_next_command(tmp_path: Path) -> None:
    (tmp_path / ".idea").mkdir()
    await run(Sandbox(tmp_path / ".idea"), "true")  # so that there is a folder for locks
    lock_of(tmp_path).write_text(".idea\n../x\n", encoding="utf-8")

    await run(Sandbox(tmp_path), "true")

    assert names(tmp_path) == []


@pytest.mark.parametrize("weak", ["a link", "open to others", "a file"])
def test_locks_are_kept_where_nobody_else_can_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weak: str
) -> None:
    (tmp_path / "ws").mkdir()
    uid = 4_000_000 + os.getpid()
    folder = Path(f"/tmp/handrail-{uid}")  # noqa: S108
    if weak == "a link":
        folder.symlink_to(tmp_path)
    elif weak == "a file":
        folder.touch(0o600)
    else:
        folder.mkdir(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    try:
        with pytest.raises(SandboxUnavailable, match="a folder that only this user can enter"):
            Sandbox(tmp_path / "ws").start("true")
    finally:
        (folder.rmdir if weak == "open to others" else folder.unlink)()


@both
async def test_of_the_home_folder_only_what_tools_need_can_be_read(home: Path, tier: Any) -> None:
    workspace = home / "ws"
    hidden = (".ssh/id", ".netrc", ".config/gh/hosts.yml", ".claude.json", "plain", "other/.env")
    hidden += (".config/handrail/trust.json", ".local/state/handrail/runs/1/state.json")
    shown = (".pyenv/x", ".cargo/bin/x", ".local/bin/x", "ws/fine", "big/x")
    for name in (*hidden, *shown, ".cargo/credentials.toml", "ws/.env", "ws/deep/er/key"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"canary {name}\n", encoding="utf-8")
    (home / ".rustup").symlink_to(home / "big")
    (home / ".pypirc").symlink_to(home / "missing")
    (home / ".nvm").symlink_to(home / "missing")
    sandbox = Sandbox(workspace, tier=tier, masked=[".env", "deep/er/", "nothing"])

    read = "cat .env deep/er/key ~/.cargo/credentials.toml " + " ".join(f"~/{n}" for n in hidden)
    linked = " ".join(f"~/{name}" for name in shown).replace("big", ".rustup")
    made = await run(sandbox, f"{read} {linked} 2>/dev/null")
    moved = await run(sandbox, "mv .env e; mv deep x; cat e x/er/key 2>/dev/null; echo new > new")
    after = await run(sandbox, f"{read} e x/er/key 2>/dev/null; cat new; touch ~/made")
    (home / ".rbenv").mkdir()
    (home / ".rbenv/x").write_text("canary new\n", encoding="utf-8")
    later = await run(sandbox, "cat ~/.rbenv/x")

    assert made.text == "".join(f"canary {name}\n" for name in shown)
    assert moved.text.count("canary") == 0
    assert (after.text.partition("\n")[0], after.code) == ("new", 1)
    assert later.text == "canary new\n"


def test_no_known_secret_is_in_what_tools_need() -> None:
    secrets = [Path(name) for name in SECRETS]

    assert [one for one in NEEDED for secret in secrets if secret.is_relative_to(one)] == []
    assert sorted(NEEDED) == NEEDED
    assert [one for one in NEEDED for top in NEEDED if Path(one).is_relative_to(top)] == NEEDED


@both
async def test_more_of_the_home_folder_can_be_shown(
    home: Path, tier: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("data/x", "data/token", "tools/bin/run", "tools/lib/x", "scripts/bin/go", "plain"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"canary {name}\n", encoding="utf-8")
    (home / "ws").mkdir()
    extra = f"{home}/tools/bin:{home}/scripts/bin:{home}"
    monkeypatch.setenv("PATH", f"{extra}:{os.environ['PATH']}")

    line = "cd; cat data/x data/token tools/lib/x scripts/bin/go plain 2>/dev/null"
    some = Sandbox(home / "ws", tier=tier, readable=[f"{home}/data"], masked=[f"{home}/data/token"])
    part = await run(some, line)
    everything = await run(Sandbox(home / "ws", tier=tier, readable=["/", ".."]), line)
    written = Sandbox(home / "ws", tier=tier, writable=[f"{home}/data"])
    changed = await run(written, f"{line}; echo changed > data/x")

    programs = "canary tools/lib/x\ncanary scripts/bin/go\n"
    assert part.text == f"canary data/x\n{programs}"
    assert everything.text == f"canary data/x\ncanary data/token\n{programs}canary plain\n"
    assert changed.text == f"canary data/x\ncanary data/token\n{programs}"
    assert (home / "data/x").read_text(encoding="utf-8") == "changed\n"


@both
async def test_the_repository_of_a_workspace_is_shown(home: Path, tier: Any) -> None:
    top, other = repository(home / "top"), repository(home / "other")
    (top / "part").mkdir()
    commit(top)
    add_worktree(top, home / "tree")
    (home / "fake").mkdir()
    (home / "fake/.git").write_text(f"gitdir: {other}/.git\n", encoding="utf-8")

    line = f"git log --format=%s; cat {other}/.git/HEAD"
    texts = [
        (await run(Sandbox(home / name, tier=tier), f"{line} 2>/dev/null")).text
        for name in ("top/part", "tree")
    ]
    fake = await run(Sandbox(home / "fake", tier=tier), f"cat {other}/.git/HEAD 2>/dev/null")
    (home / "fake/.git").write_text("gitdir: x/worktrees/y\n", encoding="utf-8")
    for name, text in {"gitdir": f"{home}/fake/.git", "commondir": f"{other}/.git"}.items():
        (home / "fake/x/worktrees/y").mkdir(parents=True, exist_ok=True)
        (home / "fake/x/worktrees/y" / name).write_text(f"{text}\n", encoding="utf-8")
    (home / "fake/x/objects").mkdir()
    (home / "fake/x/HEAD").touch()
    planted = await run(Sandbox(home / "fake", tier=tier), f"cat {other}/.git/HEAD 2>/dev/null")

    assert texts == ["first\n", "first\n"]
    assert (fake.text, planted.text) == ("", "")


@both
async def test_git_knows_the_user_and_no_tokens(home: Path, tier: Any) -> None:
    root = repository(home / "ws")
    (home / ".gitconfig").write_text(
        '[user]\n\tname = "A \\"B\\" \\\\ C"\n\temail = a@b.c\n[core]\n\tautocrlf\n'
        '[url "https://token@host/"]\n\tinsteadOf = https://host/\n[alias]\n\tx = !evil\n',
        encoding="utf-8",
    )

    line = (
        "git commit -q --allow-empty -m x; git log --format='%an %ae'; git config --list --global"
    )
    made = await run(Sandbox(root, tier=tier), line)

    assert made.text == (
        'A "B" \\ C a@b.c\nuser.name=A "B" \\ C\nuser.email=a@b.c\ncore.autocrlf\n'
    )


@both
async def test_a_home_folder_without_git_is_fine(
    home: Path, tier: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "ws").mkdir()
    (home / "bin").mkdir()
    for name in ("bash", "bwrap", "cat", "ls"):
        (home / "bin" / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", f"{home}/bin")

    made = await run(Sandbox(home / "ws", tier=tier), "echo fine")

    assert made.text == "fine\n"


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
async def test_a_home_folder_is_no_workspace_unless_that_is_said(home: Path, tier: Any) -> None:
    told: list[str] = []
    for root in (home, home.parent):
        with pytest.raises(SandboxUnavailable) as refused:
            Sandbox(root, tier=tier)
        told.append(str(refused.value).replace(str(root), "ROOT"))

    made = await run(Sandbox(home, tier=tier, writable=["."]), "echo fine > x; cat ~/x")

    assert told == snapshot(
        [
            "ROOT is your home folder, where commands could change what runs when you log in. Use a folder inside it, or pass writable=('.',) to allow that.",
            "ROOT contains your home folder, where commands could change what runs when you log in. Use a folder inside it, or pass writable=('.',) to allow that.",
        ]
    )
    assert made.text == "fine\n"


async def test_a_masked_file_with_another_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("canary\n", encoding="utf-8")
    (tmp_path / "already").hardlink_to(tmp_path / ".env")

    with pytest.raises(SandboxUnavailable) as refused:
        Sandbox(tmp_path, tier="bubblewrap", masked=[".env"]).start("cat already")
    made = await run(Sandbox(tmp_path, tier="landlock", masked=[".env"]), "cat already")

    assert str(refused.value).replace(str(tmp_path), "") == snapshot(
        "/.env cannot be hidden from commands: it has another name (a hard link). Replace it by a copy: `cp -p FILE NEW && mv NEW FILE`."
    )
    assert "canary" not in made.text


@both
async def test_nothing_of_the_temporary_folder_stays(
    tmp_path: Path, tier: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, kept, temporary = (tmp_path / name for name in ("ws", "kept", "temporary"))
    for folder in (root, kept, temporary):
        folder.mkdir(0o555)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    boxes = [Sandbox(root, tier=tier)]
    line = f"cd $TMPDIR; mkdir -p d/e; touch d/e/x; ln -s {kept} d/link; chmod 000 d/e d"
    made = await run(boxes[0], line)
    before = len(names(temporary))

    def forget() -> None:
        syscalls.drop_capabilities()  # of this thread: otherwise modes do not matter to root
        temporary.chmod(0o755)
        boxes.clear()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(forget).result()

    assert made == (0, "", "")
    assert (before, names(temporary), kept.stat().st_mode & 0o777) == (1, [], 0o555)


@both
async def test_a_workspace_in_a_secret_place_can_be_used(home: Path, tier: Any) -> None:
    root = home / ".config/gh/ws"
    root.mkdir(parents=True)

    made = await run(Sandbox(root, tier=tier), "echo fine > x; cat x")

    assert made.text == "fine\n"


@both
async def test_what_a_user_types_is_not_for_commands(tmp_path: Path, tier: Any) -> None:
    ours, theirs = os.openpty()  # it has the same owner as the user's terminal
    sandbox = Sandbox(tmp_path, tier=tier)
    lines = f"""
        head -n1 < {os.ttyname(theirs)}
        cat < <(echo a) > /dev/stdout; echo b > /dev/null; head -c1 /dev/zero | wc -c
        head -c1 /dev/urandom | wc -c; echo c > /dev/fd/1; echo d | cat /dev/stdin
    """
    try:
        os.write(ours, b"password\n")
        made = await run(sandbox, lines)
    finally:
        os.close(ours)
        os.close(theirs)

    refusal = {"landlock": "Permission denied", "bubblewrap": "No such file or directory"}[tier]
    first, _, rest = made.text.partition("\n")
    assert first.endswith(refusal)
    assert rest == "a\n1\n1\nc\nd\n"


async def test_processes_outside_keep_their_scheduling(tmp_path: Path) -> None:
    tries = (
        "os.setpriority(os.PRIO_PROCESS, {pid}, 5)",
        "os.setpriority(os.PRIO_USER, 0, 5)",
        "os.sched_setaffinity({pid}, [0])",
        "os.sched_setscheduler({pid}, os.SCHED_IDLE, os.sched_param(0))",
        "os.nice(3)",
        "os.sched_setaffinity(0, os.sched_getaffinity(0))",
    )
    lines = [f"try: print({one})\nexcept OSError as no: print(no.strerror)\n" for one in tries]

    with process_without_capabilities() as pid:
        before = scheduling(pid)
        code = "".join(["import os\n", *lines]).format(pid=pid)
        (tmp_path / "try.py").write_text(code, encoding="utf-8")
        made = await run(Sandbox(tmp_path, tier="landlock"), f"{PYTHON} -I -S try.py")
        after = scheduling(pid)

    refused = ["Operation not permitted"] * 4
    assert made.text.splitlines() == [*refused, str(os.nice(0) + 3), "None"]
    assert after == before


def scheduling(pid: int) -> tuple[object, ...]:
    nice = os.getpriority(os.PRIO_PROCESS, pid)
    return nice, os.sched_getaffinity(pid), os.sched_getscheduler(pid)


@contextmanager
def process_without_capabilities() -> Iterator[int]:
    """One that any process of the same user may change, even if the user is root."""
    code = (
        "import signal; from handrail.sandbox._kernel.syscalls import drop_capabilities as drop;"
        "drop(); print(flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:  # noqa: S603
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


@both
async def test_limits_are_hard(tmp_path: Path, tier: Any) -> None:
    limits = ResourceLimits(memory=1 << 30, file_bytes=1 << 20, files=99, processes=77)
    line = "ulimit -Hc; ulimit -Hd; ulimit -Hf; ulimit -Hn; ulimit -Hu; ulimit -c 1 2>/dev/null || echo no"

    made = await run(Sandbox(tmp_path, tier=tier, limits=limits), line)
    filled = await run(Sandbox(tmp_path, tier=tier, limits=limits), "head -c 2M /dev/zero > big")

    assert made.text == "0\n1048576\n1024\n99\n77\nno\n"
    assert (filled.code == 0, (tmp_path / "big").stat().st_size) == (False, 1 << 20)


async def test_programs_can_talk_to_themselves_over_the_loopback(tmp_path: Path) -> None:
    text = (
        "import socket; s = socket.create_server(('127.0.0.1', 0));"
        "c = socket.create_connection(s.getsockname()); a = s.accept()[0]; c.sendall(b'hi');"
        "print(a.recv(2)); print(socket.socketpair()[0].family.name)"
    )

    made = await run(Sandbox(tmp_path), f'{PYTHON} -I -S -c "{text}"')

    assert made.text == "b'hi'\nAF_UNIX\n"


@both
async def test_what_was_said_last_can_be_read_after_the_end(tmp_path: Path, tier: Any) -> None:
    running = Sandbox(tmp_path, tier=tier).start("echo said; echo noted >&3; sleep 60", notes=True)
    first = await running.read(2)
    while running.notes() != b"noted\n":
        await anyio.lowlevel.checkpoint()
    await running.kill()
    await running.kill()

    assert (first, await running.read(), await running.read()) == (b"sa", b"id\n", b"")
    assert (await running.wait(), running.notes()) == (-9, b"noted\n")


@both
async def test_a_long_note_holds_nobody_up(tmp_path: Path, tier: Any) -> None:
    sandbox = Sandbox(tmp_path, tier=tier)
    running = sandbox.start("head -c 1M /dev/zero >&3; exec 3>&-; sleep 0.1", notes=True)

    assert await running.wait() == 0
    await running.kill()
    assert len(running.notes()) == 1 << 18


@both
async def test_several_may_wait_and_read_while_one_ends_it(tmp_path: Path, tier: Any) -> None:
    running = Sandbox(tmp_path, tier=tier).start("echo go; sleep 60", notes=True)
    codes: list[object] = []
    await running.read()

    async def wait() -> None:
        codes.append(await running.wait())

    async def read() -> None:
        codes.append(await running.read())

    async with anyio.create_task_group() as tasks:
        for one in (wait, wait, read, read):
            tasks.start_soon(one)
        await anyio.wait_all_tasks_blocked()
        await running.kill()

    assert sorted(codes, key=str) == [-9, -9, b"", b""]


async def test_a_sandbox_that_cannot_be_set_up_is_no_exit_code(tmp_path: Path) -> None:
    many = {f"NAME{number}": "x" for number in range(5000)}
    running = Sandbox(tmp_path, variables=many).start("true")

    assert await running.read() == b"bwrap: Exceeded maximum number of arguments 9000\n"
    with pytest.raises(SandboxUnavailable, match="could not be set up"):
        await running.wait()
    await running.kill()


async def test_a_workspace_that_has_gone_is_no_exit_code(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    sandbox = Sandbox(tmp_path / "ws", writable=[str(tmp_path / "gone")])

    running = sandbox.start("true")
    with pytest.raises(SandboxUnavailable, match="could not be set up"):
        await running.wait()
    await running.kill()


async def test_a_lock_that_was_removed_is_made_again(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, tier="bubblewrap")
    first = sandbox.start("echo; exec sleep 100")
    await first.read()
    lock = lock_of(tmp_path)
    held = os.open(lock, os.O_RDONLY)
    lock.unlink()
    await first.kill()  # somebody else was last, and has seen to it
    os.close(held)
    left = (tmp_path / ".idea").is_dir()

    await run(sandbox, "true")
    alone = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(alone, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(sandbox.start, "true")
        while not _opened(lock, but=alone):
            os.sched_yield()
        lock.unlink()
        os.close(alone)
        second = waiting.result()
    again = lock.exists()
    await ended(second)

    assert (left, again, lock.exists()) == (True, True, False)


def _opened(path: Path, *, but: int) -> bool:
    """Whether another descriptor of this process is open on a file."""
    found = (one for one in Path("/proc/self/fd").iterdir() if one.name != str(but))
    return any(one.is_symlink() and os.path.realpath(one) == str(path) for one in found)


async def test_a_lock_that_another_program_keeps_stops_nobody_for_long(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, tier="bubblewrap")
    await run(sandbox, "true")  # so that there is a folder for locks
    lock = lock_of(tmp_path)
    alone = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(alone, fcntl.LOCK_EX)
    try:
        with pytest.raises(SandboxUnavailable) as refused:
            sandbox.start("true")
    finally:
        lock.unlink()
        os.close(alone)

    assert str(refused.value) == (
        f"{lock}: another program holds this lock; stop it (`fuser -v` names it), or retry later."
    )


def test_a_report_says_what_is_on_and_what_is_open(tmp_path: Path) -> None:
    assert Sandbox(tmp_path).report().tier == "bubblewrap"
    assert str(Sandbox(tmp_path).report()) == snapshot("""\
sandbox: bubblewrap
  enforced: commands can write only the workspace and private temporary folders (mounts)
  enforced: files that other programs execute or trust (.git/hooks, .vscode, ...) are read-only (mounts)
  enforced: in the home folder, only what tools need can be read; masked files cannot (mounts)
  enforced: other processes are invisible; those of a command end with it (process namespace)
  enforced: no sockets except on a loopback that only commands here have (network namespace, filter)
  enforced: no capabilities, no new privileges, no tracing, mounts, namespaces, keys or io_uring (filter)
  enforced: separate environment; no input, no terminal; limits on memory, files and core dumps
  not enforced: files outside the home folder can be read
  not enforced: file systems mounted while a command runs may be visible and writable to it
  not enforced: named pipes of other programs can be written, if the user may
  not enforced: a command can cause an empty file or folder outside while another command starts
  not enforced: other repositories inside the workspace are not protected
  not enforced: with core.bare or core.worktree set, git obeys a new .git/commondir until the command ends
  not enforced: file watches (inotify) are counted by user: a command can use all of them until it ends
  not enforced: kernel bugs and processor side channels: use a virtual machine for hostile code\
""")
    assert str(Sandbox(tmp_path, tier="landlock").report()) == snapshot("""\
sandbox: landlock
  enforced: commands can write only the workspace and a private temporary folder (Landlock)
  enforced: in the home folder, only what tools need can be read; masked files cannot (Landlock)
  enforced: no network and no sockets, not even localhost (system call filter)
  enforced: no capabilities, no new privileges, no tracing, mounts, namespaces, keys or io_uring
  enforced: separate environment; no input, no terminal; limits on memory, files and core dumps
  enforced: every process of a command ends with it
  not enforced: modes, times and attributes of files outside can be changed, if the user may change them
  not enforced: as root, this includes making programs setuid
  not enforced: files that other programs execute or trust (.git/hooks, .vscode, ...) can be written
  not enforced: other processes and their temporary files can be seen
  not enforced: the names of masked files can be listed
  not enforced: commands keep running if this process is killed
  not enforced: file watches (inotify) are counted by user: a command can use all of them until it ends
  not enforced: hosts cannot be allowed\
""")


def test_a_sandbox_says_what_commands_can_reach_and_write(tmp_path: Path) -> None:
    plain = Sandbox(tmp_path)
    open_one = Sandbox(tmp_path, network=["example.org"], writable=["/var/cache", ".venv", ".git"])
    other = Sandbox(tmp_path, tier="landlock", writable=["/var/cache"])

    assert (plain.network, plain.writable) == ((), ())
    assert (open_one.network, open_one.writable) == (("example.org",), ("/var/cache",))
    assert (other.network, other.writable, other.protected) == ((), ("/var/cache",), ())
    assert set(plain.protected) - set(open_one.protected) == {
        ".git/commondir",
        ".git/config",
        ".git/config.worktree",
        ".git/hooks",
        ".git/info/attributes",
        ".venv",
    }


def test_a_workspace_is_a_folder_and_not_everything(tmp_path: Path) -> None:
    for root in ("/", tmp_path / "missing"):
        with pytest.raises(SandboxUnavailable, match="cannot be a workspace"):
            Sandbox(root)


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
async def test_a_workspace_that_is_gone_runs_nothing(tier: Any, tmp_path: Path) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    sandbox = Sandbox(root, tier=tier)
    shutil.rmtree(root)

    with pytest.raises(SandboxUnavailable, match="no longer exists"):
        sandbox.start("true")
