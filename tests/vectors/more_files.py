"""More files that other programs obey: no tool changes them unasked, and no command unnoticed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cli_harness import Handrail
from handrail import Allow, Call, Executor, Toolset
from handrail.policy import RulePaths, load
from handrail.sandbox import Sandbox
from handrail.tools import ScanReport, Workspace, bash, edit, write
from vectors.stage import Check, host

HOOKS = "mkdir hk; echo 'exit 0' > hk/pre-commit; git config core.hooksPath hk"
INCLUDE = "git config include.path ../team.cfg"
FIRST = "git -c user.name=n -c user.email=e commit -q --allow-empty -m x"
MODULE = ".git/modules/third_party/foo"
BARE = "HEAD config objects/k refs/k"
SETTINGS = ".hg/hgrc .hg/requires .jj/repo/config.toml"
INSTRUCTIONS = (
    ".github/copilot-instructions.md .cursorrules .windsurfrules .clinerules CLAUDE.local.md"
)
EDITORS = (
    ".zed/settings.json .windsurf/a .roo/a .kiro/a .amazonq/a .continue/a .opencode/a .nvim.lua"
)


def _asked(root: Path, *calls: Call, judged: bool) -> list[bool]:
    """Whether each call of a file tool needs approval in the mode edits."""
    policy = load(RulePaths.of(root, config=root.parent / "config"), mode="edits")
    tools = Toolset(write(Workspace(root)), edit(Workspace(root)))
    executor = Executor(tools, policy=policy if judged else None)
    return [not isinstance(executor.explain(call).decision, Allow | None) for call in calls]


def _written(names: str, root: Path, *, judged: bool) -> list[bool]:
    calls = [Call("write", {"file_path": name, "content": "x"}) for name in names.split()]
    return _asked(root, *calls, judged=judged)


def _all_asked(names: str, _given: Any, root: Path, *, judged: bool) -> bool:
    return all(_written(names, root, judged=judged))


def _one_asked(names: str, _given: Any, root: Path, *, judged: bool) -> bool:
    return any(_written(names, root, judged=judged))


def _hook_edited(_given: Any, root: Path, *, judged: bool) -> bool:
    host(root, HOOKS)
    args = {"file_path": "hk/pre-commit", "old_string": "exit 0", "new_string": "touch x"}
    return all(_asked(root, Call("edit", args), judged=judged))


def _told_or_refused(
    setup: str, path: str, given: Mapping[str, str], root: Path, *, judged: bool
) -> bool:
    """A file is as it was after a command, or the host is told."""
    host(root, setup)
    if "mk.py" in given:  # hooks are in a folder that only the settings of git name
        script = given["mk.py"].replace(".githooks", "hk")
        (root / "mk.py").write_text(script, encoding="utf-8")
    before = _content(root / path)
    looks: list[ScanReport] = []
    if judged:
        tool = bash(Sandbox(root), found=looks.append)
        Executor(Toolset(tool)).run_sync(Call("bash", {"command": given["command"]}))
    else:
        host(root, given["command"])
    told = {one.path for look in looks for one in look.planted}
    return _content(root / path) == before or path in told


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _at_home(given: Any, root: Path, *, judged: bool) -> bool:
    """In the home folder, no tool runs; in a project, this one writes."""
    call = ("write", f"file_path={given['file_path']}", f"content={given['content']}")
    home = root if judged else root.parent / "home"
    Handrail(root.parent)("tools", "call", *call, "--mode", "edits", env={"HOME": str(home)})
    return not (root / given["file_path"]).exists()


def _command_at_home(given: Any, root: Path, *, judged: bool) -> bool:
    command = given["command"]
    if judged:
        call = ("tools", "call", "bash", f"command={command}", "--mode", "open")
        Handrail(root.parent)(*call, env={"HOME": str(root)})
    else:
        host(root, command)
    return not (root / ".bashrc").exists()


CHECKS: dict[str, Check] = {
    "t2-git-003": partial(_one_asked, BARE),
    "t2-sandbox-001": partial(_told_or_refused, FIRST, ".git/rebase-merge/git-rebase-todo"),
    "t2-sandbox-002": partial(_told_or_refused, f"git init -q --bare {MODULE}", f"{MODULE}/config"),
    "t3-protected-001": _hook_edited,
    "t3-protected-002": partial(_told_or_refused, HOOKS, "hk/pre-commit"),
    "t3-protected-003": partial(_told_or_refused, INCLUDE, "team.cfg"),
    "t3-protected-004": partial(_all_asked, SETTINGS),
    "t3-protected-005": partial(_told_or_refused, "mkdir .hg", ".hg/hgrc"),
    "t3-protected-006": partial(_all_asked, INSTRUCTIONS),
    "t3-protected-007": partial(_all_asked, EDITORS),
    **{f"t3-home-{number:03}": _at_home for number in range(1, 4)},
    "t3-home-004": _command_at_home,
}
