"""The project's own programs: in PATH where commands cannot change them, and nowhere else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from handrail.sandbox import Sandbox
from sandbox.commands import run

pytestmark = pytest.mark.anyio


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def shell(folder: Path, command: str) -> None:
    """Runs a line outside of any sandbox."""
    subprocess.run(["/bin/sh", "-ec", command], cwd=folder, check=True)  # noqa: S603


def project(root: Path) -> None:
    """A project with a bug, a test that finds it, and an environment with pytest."""
    shell(root, f"{sys.executable} -m venv --without-pip .venv; mkdir -p src/adder")
    (root / "src/adder/__init__.py").write_text("def add(a, b): return a - b\n", "utf-8")
    (root / "test_adder.py").write_text(
        "from adder import add\n\ndef test_add():\n    assert add(1, 2) == 3\n", "utf-8"
    )
    packages = next(root.glob(".venv/lib/*/site-packages"))
    (packages / "project.pth").write_text(f"{root}/src\n", "utf-8")
    here = Path(pytest.__file__).parent.parent
    for name in ("_pytest", "iniconfig", "packaging", "pluggy", "pygments", "pytest"):
        shutil.copytree(here / name, packages / name)
    shutil.copy(here / "py.py", packages)


async def told(root: Path, command: str, **options: Any) -> list[str]:
    return (await run(Sandbox(root, **options), command)).text.splitlines()


async def test_an_environment_in_the_workspace_is_used_and_cannot_be_changed(
    tmp_path: Path,
) -> None:
    program(tmp_path / ".venv/bin/pytest", "ours")
    sandbox = Sandbox(tmp_path, tier="bubblewrap")
    made = await run(sandbox, "pytest; echo $VIRTUAL_ENV; echo x 2>&1 > .venv/bin/ls; ls -d .venv")

    assert made.text.replace(str(tmp_path), "ROOT").splitlines() == [
        "ours",
        "ROOT/.venv",
        "bash: line 1: .venv/bin/ls: Read-only file system",
        ".venv",
    ]
    assert sandbox.own_programs == (".venv/bin",)


async def test_one_that_a_command_made_is_used_by_the_next(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, tier="bubblewrap")
    made = (
        "mkdir -p .venv/bin; printf '#!/bin/sh\necho ours\n' > .venv/bin/tool; chmod +x .venv/bin/*"
    )

    assert (await run(sandbox, f"{made}; tool")).code == 127
    assert (await run(sandbox, "tool")).text == "ours\n"


async def test_an_environment_that_is_active_is_used_and_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "ws"
    tool = program(root / "env/bin/tool", "ours")
    script = program(root / "web/node_modules/.bin/lint", "linted")
    listed = f"{tool.parent}:{script.parent}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", listed)
    monkeypatch.setenv("VIRTUAL_ENV", str(root / "env"))
    made = await run(
        Sandbox(root, tier="bubblewrap"),
        "tool; lint; echo $PATH; echo $VIRTUAL_ENV; touch env/x web/node_modules/.bin/x web/x",
    )

    assert made.text.splitlines() == [
        "ours",
        "linted",
        listed,
        str(root / "env"),
        "touch: cannot touch 'env/x': Read-only file system",
        "touch: cannot touch 'web/node_modules/.bin/x': Read-only file system",
    ]


NOT_USED = {
    "a folder that a link leads to": "mkdir real; mv bin real/bin; ln -s real .venv",
    "programs that a link leads to": "mkdir .venv; ln -s ../bin .venv/bin",
    "a program of the system": "mkdir .venv; mv bin .venv/bin; cp .venv/bin/tool .venv/bin/ls",
    "no programs": "mkdir .venv",
}


@pytest.mark.parametrize("why", NOT_USED)
async def test_an_environment_that_cannot_be_trusted_is_not_used(tmp_path: Path, why: str) -> None:
    """The control is the same folder without what is wrong with it."""
    for name, made in (("good", "mkdir .venv; mv bin .venv/bin"), ("bad", NOT_USED[why])):
        program(tmp_path / name / "bin/tool", "ours")
        shell(tmp_path / name, made)
    sandboxes = [Sandbox(tmp_path / name, tier="bubblewrap") for name in ("good", "bad")]

    assert [sandbox.own_programs for sandbox in sandboxes] == [(".venv/bin",), ()]
    assert [(await run(one, "tool 2>/dev/null; echo $?")).text for one in sandboxes] == [
        "ours\n0\n",
        "127\n",
    ]


async def test_one_that_commands_can_write_is_not_used(tmp_path: Path) -> None:
    program(tmp_path / ".venv/bin/tool", "ours")
    none = ["unset", "127"]
    command = "echo ${VIRTUAL_ENV-unset}; tool 2>/dev/null; echo $?"

    assert await told(tmp_path, command, tier="landlock") == none
    assert await told(tmp_path, command, tier="bubblewrap", writable=[".venv"]) == none


async def test_a_planted_bug_is_found_by_the_tests_of_the_project(tmp_path: Path) -> None:
    """The control is another Python, which has another version of the package."""
    project(tmp_path)
    command = "python -m pytest -q -p no:cacheprovider test_adder.py | tail -n 1"
    said = await told(tmp_path, command, tier="bubblewrap")

    assert [line[:8] for line in said] == ["1 failed"]
    other = await told(tmp_path, command, tier="bubblewrap", writable=[".venv"])
    assert not other[-1].startswith("1 failed")


async def test_without_a_network_package_managers_do_not_try_again(tmp_path: Path) -> None:
    command = "echo $PIP_RETRIES $NPM_CONFIG_FETCH_RETRIES"

    assert await told(tmp_path, command) == ["0 0"]
    assert await told(tmp_path, command, tier="landlock") == ["0 0"]


@pytest.mark.parametrize("name", ["tree", "egrep", "fd", "strace"])
async def test_an_environment_with_programs_that_systems_have_is_not_used(
    tmp_path: Path, name: str
) -> None:
    """Rules allow those by name, whether this system has them or not."""
    program(tmp_path / ".venv/bin/pytest", "ours")
    control = Sandbox(tmp_path, tier="bubblewrap").own_programs
    program(tmp_path / ".venv/bin" / name, "planted")

    assert Sandbox(tmp_path, tier="bubblewrap").own_programs == ()
    assert control != ()
