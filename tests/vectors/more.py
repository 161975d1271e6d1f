"""Two more sets of attacks. Each is tried, or is in the list of those that are open.

The control has no policy and no sandbox.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from handrail import Allow, Call, Executor, Toolset
from handrail.policy import Rulebook, RulePaths, builtin_rules, load
from handrail.sandbox import Sandbox
from handrail.tools import ScanReport, Workspace, bash, edit, write
from vectors.stage import line

DATA = Path(__file__).parent.parent / "data"


def vectors() -> dict[str, dict[str, Any]]:
    """Both sets, by id."""
    files = sorted(DATA.glob("more-vectors-*.jsonl"))
    lines = [json.loads(text) for file in files for text in file.read_text("utf-8").splitlines()]
    return {one["id"]: one for one in lines if "id" in one}


def _host(root: Path, command: str) -> None:
    subprocess.run(["bash", "-c", command], cwd=root, check=False, capture_output=True)  # noqa: S603, S607


def _reading(command: str, _root: Path, *, judged: bool) -> bool:
    """A mode that changes nothing does not allow it."""
    policy = Rulebook(builtin_rules("read_only"), mode="plan", sandboxed=True)
    return line(policy if judged else None, command).held


def _developing(command: str, _root: Path, *, judged: bool) -> bool:
    """The rules for development do not allow it."""
    rules = builtin_rules("read_only", "development")
    return line(Rulebook(rules, mode="ask", sandboxed=True) if judged else None, command).held


def _asked(root: Path, *calls: Call, judged: bool) -> list[bool]:
    """Whether each call of a file tool needs approval in the mode edits."""
    policy = load(RulePaths.of(root, config=root.parent / "config"), mode="edits")
    tools = Toolset(write(Workspace(root)), edit(Workspace(root)))
    executor = Executor(tools, policy=policy if judged else None)
    return [not isinstance(executor.explain(call).decision, Allow | None) for call in calls]


def _written(names: str, root: Path, *, judged: bool) -> list[bool]:
    calls = [Call("write", {"file_path": name, "content": "x"}) for name in names.split()]
    return _asked(root, *calls, judged=judged)


def _all_asked(names: str, root: Path, *, judged: bool) -> bool:
    return all(_written(names, root, judged=judged))


def _one_asked(names: str, root: Path, *, judged: bool) -> bool:
    return any(_written(names, root, judged=judged))


def _hook_edited(_input: Any, root: Path, *, judged: bool) -> bool:
    _host(root, HOOKS)
    args = {"file_path": "hk/pre-commit", "old_string": "exit 0", "new_string": "touch x"}
    return all(_asked(root, Call("edit", args), judged=judged))


def _told_or_refused(setup: str, path: str, command: str, root: Path, *, judged: bool) -> bool:
    """A file is as it was after a command, or the host is told."""
    _host(root, setup)
    before = _content(root / path)
    looks: list[ScanReport] = []
    if judged:
        tool = bash(Sandbox(root), found=looks.append)
        Executor(Toolset(tool)).run_sync(Call("bash", {"command": command}))
    else:
        _host(root, command)
    told = {one.path for look in looks for one in look.planted}
    return _content(root / path) == before or path in told


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


HOOKS = "mkdir hk; echo 'exit 0' > hk/pre-commit; git config core.hooksPath hk"
INCLUDE = "git config include.path ../team.cfg"
FIRST = "git -c user.name=n -c user.email=e commit -q --allow-empty -m x"
MODULE = ".git/modules/third_party/foo"
NAMES = {
    "t2-git-003": "HEAD config objects/k refs/k",
    "t3-protected-004": ".hg/hgrc .hg/requires .jj/repo/config.toml",
    "t3-protected-006": (
        ".github/copilot-instructions.md .cursorrules .windsurfrules .clinerules CLAUDE.local.md"
    ),
    "t3-protected-007": (
        ".zed/settings.json .windsurf/a .roo/a .kiro/a .amazonq/a .continue/a .opencode/a .nvim.lua"
    ),
}
CHECKS: dict[str, Callable[..., bool]] = {
    **{f"t2-bash-{number:03}": _reading for number in range(1, 12)},
    **{f"t2-dev-{number:03}": _developing for number in range(1, 15)},
    "t2-git-003": _one_asked,
    "t2-sandbox-001": partial(_told_or_refused, FIRST, ".git/rebase-merge/git-rebase-todo"),
    "t2-sandbox-002": partial(_told_or_refused, f"git init -q --bare {MODULE}", f"{MODULE}/config"),
    "t3-protected-001": _hook_edited,
    "t3-protected-002": partial(_told_or_refused, HOOKS, "hk/pre-commit"),
    "t3-protected-003": partial(_told_or_refused, INCLUDE, "team.cfg"),
    "t3-protected-004": _all_asked,
    "t3-protected-005": partial(_told_or_refused, "mkdir .hg", ".hg/hgrc"),
    "t3-protected-006": _all_asked,
    "t3-protected-007": _all_asked,
}
UNTRIED = frozenset(
    """
    t2-git-001 t2-git-002 t2-git-004
    t2-schema-001 t2-schema-002 t2-schema-003 t2-schema-004
    t2-sandbox-003 t2-env-001 t2-mode-001 t2-display-001 t2-display-002 t2-display-003
    t2-format-001 t2-executor-001 t2-secret-001 t2-secret-002 t2-secret-003 t2-secret-004
    t3-sandbox-001 t3-sandbox-002 t3-sandbox-003 t3-sandbox-004 t3-sandbox-005 t3-sandbox-006
    t3-sandbox-007 t3-sandbox-008 t3-sandbox-009 t3-home-001 t3-home-002 t3-home-003 t3-home-004
    t3-remember-001 t3-remember-002 t3-remember-003 t3-remember-004 t3-remember-005
    t3-remember-006 t3-remember-007 t3-remember-008 t3-fetch-001 t3-fetch-002 t3-fetch-003
    t3-approval-001 t3-proxy-001 t3-proxy-002
    """.split()
)
"""Not tried here. Give one a check above, or remove it when a test of its own tries it."""


def holds(name: str, *, judged: bool = True) -> bool:
    """Whether a vector is held."""
    given = vectors()[name]["input"]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "ws"
        root.mkdir()
        _host(root, "git init -q")
        if "mk.py" in given:  # hooks are in a folder that only the settings of git name
            script = given["mk.py"].replace(".githooks", "hk")
            (root / "mk.py").write_text(script, encoding="utf-8")
        target = NAMES.get(name) or str(given.get("command")).replace("{OUT}", "/srv/out")
        return CHECKS[name](target, root, judged=judged)
