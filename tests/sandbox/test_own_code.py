"""What this process imports from a workspace, and Python environments: no command changes them."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail.sandbox import Sandbox, SandboxUnavailable
from handrail.sandbox import _own_code as own_code
from sandbox.commands import run
from vectors.more_sandbox import without_capabilities

pytestmark = pytest.mark.anyio

CHANGES = (
    "echo x >> {}/module.py",
    "echo x > {}/new.py",
    "rm {}/module.py",
    "rm -r {}",
    "mv {} away",
    "mv lib away; mkdir -p {}; echo x > {}/module.py",
    "ln -sfn /tmp {}",
)
"""With a folder of code, which is in the folder lib."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with code in a folder."""
    code = tmp_path / "ws/lib/code"
    code.mkdir(parents=True)
    (code / "module.py").write_text("kept", encoding="utf-8")
    return tmp_path / "ws"


def environment(folder: Path) -> Path:
    """An environment as far as Python sees one."""
    folder.mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    return folder


def state(root: Path) -> list[tuple[str, str]]:
    return sorted(
        (str(one), one.read_text(encoding="utf-8") if one.is_file() else "")
        for one in root.rglob("*")
    )


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("command", CHANGES)
async def test_no_command_changes_code_that_this_process_imports(
    root: Path, tier: Any, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control is the same command in a sandbox of a process that imports nothing from there."""
    before = state(root / "lib")
    line = f"{command.format('lib/code', 'lib/code')}; cat lib/code/module.py; echo ended"

    with monkeypatch.context() as patch:
        patch.syspath_prepend(root / "lib/code")
        made = await run(Sandbox(root, tier=tier), line)
        after = state(root / "lib")
    await run(Sandbox(root, tier=tier), line)

    assert made.text.endswith("keptended\n")
    assert after == before
    assert state(root / "lib") != before


@pytest.mark.parametrize("name", ["prefix", "exec_prefix", "base_prefix", "base_exec_prefix"])
def test_the_environment_of_this_process_is_its_code(
    root: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, name, str(root / "lib"))
    monkeypatch.setattr(sys, "path", [*sys.path, str(root / "lib/code"), "/nowhere", 7])

    assert Sandbox(root).own_code == ("lib",)


def test_the_workspace_itself_and_what_contains_it_are_not_held(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(root), str(root.parent)])
    monkeypatch.setattr(sys, "prefix", str(root.parent))

    assert Sandbox(root).own_code == ()


async def test_a_relative_entry_is_meant_as_python_means_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root / "lib")
    monkeypatch.setattr(sys, "path", [*sys.path, ""])

    assert Sandbox(root).own_code == ("lib",)


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_the_report_says_what_is_held_and_what_that_costs(
    root: Path, tier: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = Sandbox(root, tier=tier).report()
    monkeypatch.syspath_prepend(root / "lib/code")
    some = Sandbox(root, tier=tier).report()

    cost = (
        (
            "commands cannot create, rename or remove entries of the workspace, lib: this program's "
            "code is there (Landlock)"
        ),
    )
    held = "this program imports code from lib/code: read-only for commands"
    assert some.not_enforced == none.not_enforced
    assert some.enforced == (*none.enforced, *(cost if tier == "landlock" else ()), held)


async def test_landlock_leaves_the_other_entries_writable(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "src").mkdir()
    (root / "secret").write_text("secret", encoding="utf-8")
    (root / "a.py").write_text("old", encoding="utf-8")
    monkeypatch.syspath_prepend(root / "lib/code")
    sandbox = Sandbox(root, tier="landlock", masked=["secret"])
    (root / "later").mkdir()

    made = await run(
        sandbox,
        "echo x > src/x && mv src/x later/y && rm later/y && echo new > a.py; cat secret; "
        "echo x > top; echo x > lib/top; cat a.py lib/code/module.py",
    )

    assert made.text.splitlines() == [
        "cat: secret: Permission denied",
        "bash: line 1: top: Permission denied",
        "bash: line 1: lib/top: Permission denied",
        "new",
        "kept",
    ]


async def test_a_name_that_stays_writable_is_not_held(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(root / "lib/code")
    environment(root / "lib/env")
    sandbox = Sandbox(root, tier="bubblewrap", writable=["lib"])

    assert sandbox.own_code == ()
    assert (await run(sandbox, "echo x > lib/code/module.py && touch lib/env/x")).code == 0


async def test_a_missing_entry_is_reserved_where_it_could_be_created(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lib/next", "none/below", "lib/code/module.py/no"):
        monkeypatch.syspath_prepend(root / name)
    (root / "env").write_text("", encoding="utf-8")
    before = state(root)
    made = await run(Sandbox(root, tier="bubblewrap"), "echo x > lib/next/x; echo x > lib/next")

    assert "Read-only file system" in made.text
    assert state(root) == before


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_code_behind_a_link_in_the_workspace_is_refused(
    root: Path, tier: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "away").mkdir()
    (root / "linked").symlink_to(tmp_path / "away")
    monkeypatch.syspath_prepend(root / "linked")

    with pytest.raises(SandboxUnavailable) as refused:
        Sandbox(root, tier=tier)

    assert str(refused.value).endswith(
        "linked in the workspace is a symbolic link, which a command could replace, and this "
        "program imports code from there. Replace it by a folder, install handrail outside the "
        "workspace, or pass writable=('linked',) to leave it unprotected."
    )
    assert Sandbox(root, tier=tier, writable=["linked"]).own_code == ()


def test_links_in_folders_that_are_held_are_fine(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "lib/lib64").symlink_to("code")
    monkeypatch.setattr(sys, "prefix", str(root / "lib"))
    monkeypatch.syspath_prepend(root / "lib/lib64")

    assert Sandbox(root).own_code == ("lib",)


# ---------------------------------------------------------------- environments of others


PLACES = ("env", "backend/.venv", "services/api/env", "a/b/c/env")


async def test_environments_are_held_wherever_they_are(root: Path) -> None:
    """The control is a folder without the file that makes it an environment."""
    for name in PLACES:
        environment(root / name)
    (root / "other/env").mkdir(parents=True)
    names = (*PLACES, "other/env")
    sandbox = Sandbox(root, tier="bubblewrap")
    made = await run(sandbox, "; ".join(f"echo x > {name}/x && echo {name}" for name in names))

    assert made.text.splitlines() == [
        *(f"bash: line 1: {name}/x: Read-only file system" for name in PLACES),
        "other/env",
    ]


async def test_one_that_a_command_made_is_held_for_the_next(root: Path) -> None:
    sandbox = Sandbox(root, tier="bubblewrap")
    first = await run(sandbox, "mkdir env && touch env/pyvenv.cfg env/x")
    then = await run(sandbox, "touch env/y; rm env/pyvenv.cfg")

    assert (first.code, then.text.count("Read-only file system")) == (0, 2)


async def test_one_that_was_found_cannot_be_hidden_behind_other_folders(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_code, "_MAX_FOLDERS", 12)
    environment(root / "backend/env")
    sandbox = Sandbox(root, tier="bubblewrap")
    await run(sandbox, "mkdir {1..20}; chmod 0 {1..3}")

    told = (await run(sandbox, "touch backend/env/x; rmdir {1..20}")).text
    assert told == "touch: cannot touch 'backend/env/x': Read-only file system\n"


@pytest.mark.parametrize("name", ["node_modules/env", "a/b/c/d/env"])
async def test_the_search_has_limits(root: Path, name: str) -> None:
    environment(root / name)

    assert (await run(Sandbox(root, tier="bubblewrap"), f"touch {name}/x")).code == 0


async def test_a_workspace_that_is_an_environment_is_writable(tmp_path: Path) -> None:
    environment(tmp_path / "ws")

    made = await run(Sandbox(tmp_path / "ws", tier="bubblewrap"), "touch x && touch pyvenv.cfg")
    assert made.text == "touch: cannot touch 'pyvenv.cfg': Read-only file system\n"


def test_a_folder_that_cannot_be_read_is_skipped(root: Path) -> None:
    (root / "closed").mkdir(mode=0)
    environment(root / "env")
    sandbox = Sandbox(root, tier="bubblewrap")

    with ThreadPoolExecutor(1, initializer=without_capabilities) as pool:
        made = pool.submit(anyio.run, run, sandbox, "touch env/x").result()

    assert made.text == "touch: cannot touch 'env/x': Read-only file system\n"
