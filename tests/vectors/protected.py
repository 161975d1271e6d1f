"""What programs outside obey is not changed unasked: by the file tools in no mode, by bash not at all.

What bash can do about names that a mount cannot hold is found after the command, and told.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import anyio

from handrail import Allow, Call, Executor, Toolset
from handrail.policy import Mode, Rulebook, Trust, digest
from handrail.sandbox import Sandbox
from handrail.tools import ScanReport, Workspace, bash, edit, read, write

INIT = """
git init -q . && git config user.email a@b.c && git config user.name n && echo x > file
git add file && git commit -qm one && mkdir sub && git init -q sub
mkdir .aws && echo s3cret > .aws/credentials && echo s3cret > .env
"""


def _host(root: Path, line: str) -> str:
    done = subprocess.run(["bash", "-c", line], cwd=root, check=False, capture_output=True)  # noqa: S603, S607
    return done.stdout.decode(errors="replace")


def _listed(root: Path) -> dict[str, str]:
    """Every file that git, editors and shells obey, with what is in it."""
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        steers = not name.startswith(".git/") or name.startswith(
            (".git/hooks", ".git/config", ".git/info")
        )
        if steers and path.is_file() and not path.is_symlink():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif steers:
            found[name] = "link" if path.is_symlink() else "folder"
    return found


def _file_tools(vector: dict[str, Any], root: Path, *, judged: bool) -> bool:
    """Neither a new file nor a changed one, in any mode."""
    path, content = vector["input"]["path"], vector["input"]["content"]
    there = root / "there" / path
    there.parent.mkdir(parents=True)
    there.write_text("old\n", encoding="utf-8")
    before = _listed(root)
    calls = [
        Call("write", {"file_path": path, "content": content}, "1"),
        Call("read", {"file_path": f"there/{path}"}, "2"),
        Call("write", {"file_path": f"there/{path}", "content": content}, "3"),
        Call(
            "edit", {"file_path": f"there/{path}", "old_string": "old", "new_string": content}, "4"
        ),
    ]
    return (
        not any(_lets(root, calls, mode, judged=judged) for mode in Mode)
        and _listed(root) == before
    )


def _lets(root: Path, calls: list[Call], mode: Mode, *, judged: bool) -> bool:
    """Whether a mode lets one of these calls pass unasked; each is run in any case."""
    workspace = Workspace(root)
    tools = Toolset(read(workspace), write(workspace), edit(workspace))
    policy = Rulebook(mode=mode, sandboxed=True) if judged else None

    async def turn() -> bool:
        async with Executor(tools, policy=policy) as executor:
            asked = [executor.explain(one).decision for one in calls if one.name != "read"]
            for call in calls:
                await executor.run(call)
            return judged and any(isinstance(one, Allow) for one in asked)

    return anyio.run(turn)


def _bash(
    root: Path, command: str, *, judged: bool, **options: Any
) -> tuple[str, list[ScanReport]]:
    """What a model reads of a command, and what the host is told; the control has no sandbox."""
    looks: list[ScanReport] = []
    if not judged:
        return _host(root, command), looks
    tool = bash(Sandbox(root, **options), found=looks.append)
    text = Executor(Toolset(tool)).run_sync(Call("bash", {"command": command}, "1")).text
    return text, looks


def _contained(vector: dict[str, Any], root: Path, *, judged: bool) -> bool:
    """Nothing that steers is different, and the repository is the same one."""
    command = vector["input"]["command"].partition(" (with")[0]
    before, inode = _listed(root), (root / ".git").stat().st_ino
    _bash(root, command, judged=judged)
    return _listed(root) == before and (root / ".git").stat().st_ino == inode


def _flagged(vector: dict[str, Any], root: Path, *, judged: bool) -> bool:
    """What cannot be prevented is told to the model and to the host."""
    command = vector["input"]["command"].replace("{OUT}", str(root.parent / "out"))
    text, looks = _bash(root, command, judged=judged)
    return "mention them to the user: " in text and bool(looks) and bool(looks[0].planted)


def _masked(_vector: dict[str, Any], root: Path, *, judged: bool) -> bool:
    text, _ = _bash(
        root, "cat .aws/credentials .aws/../.aws/credentials", judged=judged, masked=(".aws/",)
    )
    return "s3cret" not in text


def _masked_and_renamed(vector: dict[str, Any], root: Path, *, judged: bool) -> bool:
    before = _listed(root)
    text, _ = _bash(root, vector["input"]["command"], judged=judged, masked=(".env",))
    return "s3cret" not in text and _listed(root) == before


def _commondir(_vector: dict[str, Any], root: Path, *, judged: bool) -> bool:
    """Trust in one workspace is no trust in another that says it belongs to the same repository."""
    rules = 'mode = "open"\n'
    trusted, other = root / "trusted", root / "other"
    for folder in (trusted, other):
        (folder / ".handrail").mkdir(parents=True)
        (folder / "handrail.toml").write_text(rules, encoding="utf-8")
    _host(trusted, "git init -q .")
    (other / ".git").write_text(f"gitdir: {other}/fake\n", encoding="utf-8")
    (other / "fake").mkdir()
    (other / "fake" / "commondir").write_text(f"{trusted}/.git\n", encoding="utf-8")
    kept = Trust(root / "trust.json")
    for name in ("handrail.toml", ".handrail/rules.toml"):
        kept.grant(trusted / name, digest(rules.encode()))
    if not judged:  # the control takes git's word for what a workspace is
        said = _host(other, "git rev-parse --git-common-dir").strip()
        return Path(said).parent != trusted
    return not kept.has(other / "handrail.toml", digest(rules.encode()))


@cache
def _template() -> tempfile.TemporaryDirectory[str]:
    """A workspace with a repository in it; made once."""
    folder = tempfile.TemporaryDirectory()
    _host(Path(folder.name), INIT)
    return folder


CHECKS: dict[str, Callable[..., bool]] = {
    "protected-048": _masked,
    "protected-049": _masked_and_renamed,
    "protected-051": _commondir,
}


def holds(vector: dict[str, Any], *, judged: bool = True) -> bool:
    """Whether protected names are as they were, or what became of them is told."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "ws"
        root.mkdir()
        if "path" in vector["input"]:
            return _file_tools(vector, root, judged=judged)
        shutil.copytree(_template().name, root, symlinks=True, dirs_exist_ok=True)
        usual = _flagged if vector["expected"] == "flagged-after-run" else _contained
        return CHECKS.get(vector["id"], usual)(vector, root, judged=judged)


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many are lost by tools with no policy and a shell with no sandbox."""
    return sum(not holds(one, judged=False) for one in vectors)
