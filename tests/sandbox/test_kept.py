"""What a host program wants kept as it is: no command changes it, moves it or takes its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.sandbox import Sandbox, SandboxUnavailable
from sandbox.commands import run

CHANGES = (
    "echo x > conf/app/a",
    "echo x > conf/app/new",
    "rm conf/app/a",
    "rm -r conf/app",
    "mv conf/app away",
    "mv conf away",
    "ln -sfn /tmp conf/app",
    "echo x > tools.py",
    "mv tools.py away",
    "echo x > new && mv new tools.py",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a folder and a file to keep."""
    (tmp_path / "ws/conf/app").mkdir(parents=True)
    (tmp_path / "ws/conf/app/a").write_text("kept", encoding="utf-8")
    (tmp_path / "ws/tools.py").write_text("kept", encoding="utf-8")
    return tmp_path / "ws"


def state(root: Path) -> list[tuple[str, str]]:
    return sorted(
        (str(one), one.read_text(encoding="utf-8") if one.is_file() else "")
        for one in root.rglob("*")
    )


def inodes(root: Path) -> list[tuple[int, str]]:
    files = (root / "conf/app/a", root / "tools.py")
    return [(one.stat().st_ino, one.read_text(encoding="utf-8")) for one in files]


@pytest.mark.parametrize("command", CHANGES)
@pytest.mark.parametrize("masked", [[], ["conf/app"]])
async def test_no_command_changes_what_is_kept(root: Path, command: str, masked: list[str]) -> None:
    before = inodes(root)
    kept = ["conf/app", str(root / "tools.py")]

    done = await run(Sandbox(root, read_only=kept, masked=masked), f"{command}; echo ended")
    free = await run(
        Sandbox(root, read_only=kept), "echo x > conf/other && cat conf/app/a tools.py"
    )

    assert "ended" in done.text
    assert inodes(root) == before
    assert (free.code, free.text) == (0, "keptkept")


@pytest.mark.parametrize("command", CHANGES)
async def test_without_being_told_so_a_command_may(root: Path, command: str) -> None:
    before = state(root)

    await run(Sandbox(root), command)

    assert state(root) != before


@pytest.mark.parametrize(
    ("link", "to", "kept"),
    [
        ("linked", "conf", "linked/app"),
        ("linked", "conf/app", "linked"),
        ("linked", "/etc", "linked/hostname"),
        ("linked", "linked", "linked/app"),
        ("conf/linked", "../tools.py", "conf/linked"),
    ],
)
async def test_a_link_that_a_command_could_replace_is_refused(
    root: Path, link: str, to: str, kept: str
) -> None:
    (root / link).symlink_to(to)

    with pytest.raises(SandboxUnavailable) as refused:
        Sandbox(root, read_only=[kept]).start("true")

    assert str(refused.value) == (
        f"{root / kept} cannot be protected: {root / link} is a symbolic link in the workspace, which "
        "a command could replace."
    )


async def test_a_link_to_a_link_is_seen_and_one_from_outside_is_followed(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "outer").symlink_to(root / "conf")
    (root / "conf/app/inner").symlink_to("../../tools.py")
    outside = [str(tmp_path / "outer/app"), str(tmp_path / "outer/app/inner")]
    before = inodes(root)
    await run(Sandbox(root, read_only=outside), "; ".join(CHANGES))
    (tmp_path / "outer").unlink()
    (root / "by").symlink_to("conf")
    (tmp_path / "outer").symlink_to(root / "by")

    assert inodes(root) == before
    with pytest.raises(SandboxUnavailable, match="/by is a symbolic link in the workspace"):
        Sandbox(root, read_only=outside).start("true")


def test_what_is_not_there_or_holds_the_workspace_cannot_be_kept(root: Path) -> None:
    for kept, words in {
        "conf/none": "cannot be protected: it does not exist, and a command could create it",
        "..": "The workspace is inside .*, which read_only protects",
    }.items():
        with pytest.raises(SandboxUnavailable, match=words):
            Sandbox(root, read_only=[kept]).start("true")


async def test_a_workspace_can_be_read_only_as_a_whole(root: Path) -> None:
    (root / ".env").write_text("SECRET", encoding="utf-8")
    before = inodes(root)
    ended = await run(
        Sandbox(root, read_only=["."], restricted=lambda _: {".env": "hidden"}),
        f"{'; '.join(CHANGES)}; touch new; mkdir .vscode; cat tools.py .env; echo x > /tmp/x && cat /tmp/x",
    )

    assert inodes(root) == before
    assert ended.text.count("Read-only file system") >= len(CHANGES)
    assert ("SECRET" in ended.text, ended.text.endswith("x\n")) == (False, True)


async def test_landlock_cannot_keep_anything_and_is_refused(root: Path) -> None:
    with pytest.raises(SandboxUnavailable, match=r"Protecting .*tools\.py requires bubblewrap"):
        Sandbox(root, tier="landlock", read_only=["tools.py"])

    elsewhere = Sandbox(root, tier="landlock", read_only=["/etc/hostname", "/nowhere/at/all"])
    assert (await run(elsewhere, "echo x > tools.py")).code == 0
