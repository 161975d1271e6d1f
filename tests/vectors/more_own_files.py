"""A program's own files in a workspace, and files that changed under a question."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import Any

import handrail
from handrail import Allow, Ask, Call, Executor, Toolset
from handrail.permissions import Pending
from handrail.policy import RulePaths, load
from handrail.sandbox import Sandbox
from handrail.tools import Workspace, bash, edit, write
from vectors.sandbox import TIERS
from vectors.stage import Check, host

HANDRAIL = "import sys\nfrom handrail.cli._main import main\nsys.exit(main())\n"
PLANT = """
import glob
[packages] = glob.glob('{0}/lib/python*/site-packages')
open(packages + '/zz.pth', 'w').write('import zz\\n')
open(packages + '/zz.py', 'w').write("open({1!r}, 'w').close()\\n")
"""
LATE = """
import subprocess, sys
from handrail import Allow, Ask, Call, Executor, Toolset
from handrail.permissions import Pending
from handrail.sandbox import Sandbox
from handrail.tools import Workspace, bash, web_fetch

for tier in sys.argv[1:]:
    tools = Toolset(bash(Sandbox(".", tier=tier)))
    print(Executor(tools).run_sync(Call("bash", {"command": "python3 append.py; echo tried"})).text)
if not sys.argv[1:]:
    subprocess.run(["python3", "append.py"])
fetched = Executor(Toolset(web_fetch())).run_sync(Call("web_fetch", {"url": "http://10.0.0.1/"}))
print("fetched:", fetched.text)
"""
APPEND = """
import glob
for path in glob.glob('venv/lib/python*/site-packages/handrail/tools/**/*.py', recursive=True):
    with open(path, 'a') as file:
        file.write("\\nopen({0!r}, 'w').close()\\n")
"""


@cache
def _template(*, whole: bool) -> tempfile.TemporaryDirectory[str]:
    """An environment with handrail, and if ``whole`` with its files; made once."""
    made = tempfile.TemporaryDirectory()
    words = [sys.executable, "-m", "venv", "--without-pip", f"{made.name}/env"]
    subprocess.run(words, check=True)  # noqa: S603
    [packages] = Path(made.name).glob("env/lib/python*/site-packages")
    package = Path(handrail.__file__).parent
    found = [sysconfig.get_paths()["purelib"], *([] if whole else [str(package.parent)])]
    (packages / "others.pth").write_text("\n".join(found), encoding="utf-8")
    if whole:
        shutil.copytree(package, packages / "handrail")
    return made


def _install(folder: Path, *, whole: bool = False) -> Path:
    """Make an environment with handrail, and return its Python."""
    shutil.copytree(f"{_template(whole=whole).name}/env", folder, symlinks=True)
    return folder / "bin/python"


def _run(root: Path, *words: str | Path) -> str:
    """Run a program in a workspace, with a home folder of its own and no environment in PATH."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(root.parent / "home")}
    done = subprocess.run(  # noqa: S603
        [str(word) for word in words],
        cwd=root,
        env=env,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    return done.stdout


def _planted(name: str, _given: Any, root: Path, *, judged: bool) -> bool:
    """A script plants code in the environment of the command line; the next start runs none."""
    mark = root.parent / "ran"
    python = _install(root / name)
    (root / "mk.py").write_text(PLANT.format(name, str(mark)), encoding="utf-8")
    start = python.parent / "handrail"
    start.write_text(HANDRAIL, encoding="utf-8")
    if judged:
        call = ("tools", "call", "bash", "command=python3 mk.py; echo tried", "--mode", "edits")
        said = _run(root, python, start, *call, "--no-input")
        assert "tried" in said, said
    else:
        host(root, "python3 mk.py")
    assert _run(root, python, "-c", "print('started')") == "started\n"
    return not mark.exists()


def _imported_late(_given: Any, root: Path, *, judged: bool) -> bool:
    """A command appends to modules of the tools; what this process imports later is as it was."""
    mark = root.parent / "ran"
    python = _install(root / "venv", whole=True)
    (root / "append.py").write_text(APPEND.format(str(mark)), encoding="utf-8")
    (root / "app.py").write_text(LATE, encoding="utf-8")
    tiers = TIERS if judged else ()
    said = _run(root, python, "app.py", *tiers)
    assert "fetched: Not run" in said, said
    assert said.count("tried") == len(tiers), said
    return not mark.exists()


def _written(_given: Any, root: Path, *, judged: bool) -> bool:
    """The tool write needs approval for a file in an environment, whatever its folder's name."""
    names = ("venv", "backend/env")
    for name in names:
        _install(root / name)
    policy = load(RulePaths.of(root, config=root.parent / "config"), mode="edits")
    executor = Executor(Toolset(write(Workspace(root))), policy=policy if judged else None)
    for name in names:
        path = f"{name}/lib/python3.11/site-packages/y.pth"
        executor.run_sync(Call("write", {"file_path": path, "content": "import y"}))
    return not [*root.rglob("y.pth")]


EVIL = """
import os, subprocess
def git(*words): subprocess.run(['git', *words], check=False)
git('init', '-q', '--bare', 'evil')
git('-C', 'evil', 'config', 'core.bare', 'false')
git('-C', 'evil', 'config', 'core.worktree', os.getcwd())
git('-C', 'evil', 'config', 'core.fsmonitor', {0!r})
def put(path, text):
    try: open(path, 'w').write(text)
    except OSError as error: print('tried', error)
"""
"""Makes settings that run a program, and a function that writes a file if it can."""
SETTINGS = "[core]\\n\\tfsmonitor = {0}\\n"
PLANTS = {
    "worktree": "put('.git/worktrees/wt5/commondir', os.path.abspath('evil'))",
    "settings": f"put('.git/config.worktree', '{SETTINGS}')",
    "their settings": f"put('.git/worktrees/wt5/config.worktree', '{SETTINGS}')",
    "common": "put('.git/commondir', os.path.abspath('evil'))",
    "new": "git('init', '-q'); git('config', 'core.fsmonitor', {0!r})",
}
COMMIT = (
    "git -c user.name=n -c user.email=e commit -q --allow-empty -m x; git worktree add -q ../wt5"
)


def _obeyed(plants: str, where: str, setup: str, _given: Any, root: Path, *, judged: bool) -> bool:
    """After a script has written what git would obey, git on the host runs no program of it."""
    mark, program = root.parent / "ran", root.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n", encoding="utf-8")
    program.chmod(0o755)
    host(root, setup)
    assert "fatal" not in host(root / where, "git status") or setup == NO_REPOSITORY
    script = "".join([EVIL, *(f"{PLANTS[name]}\n" for name in plants.split(", "))])
    (root / "mk.py").write_text(
        script.replace("{0!r}", repr(str(program))).replace("{0}", str(program)), "utf-8"
    )
    if judged:
        policy = load(RulePaths.of(root, config=root.parent / "c"), mode="edits", sandboxed=True)
        executor = Executor(Toolset(bash(Sandbox(root))), policy=policy)
        text = executor.run_sync(Call("bash", {"command": "python3 mk.py; echo ran it"})).text
        assert "ran it" in text, text
    else:
        host(root, "python3 mk.py")
    host(root / where, "git status")
    return not mark.exists()


def _changed_meanwhile(_given: Any, root: Path, *, judged: bool) -> bool:
    """An approved edit is not applied to a file that changed while the question was open."""
    path = root / "a.txt"
    path.write_text("one\ntwo\nthree\n", encoding="utf-8")

    async def approve(_pending: Pending) -> Allow:
        path.write_text("ONE\ntwo\nthree\n", encoding="utf-8")
        return Allow()

    call = Call("edit", {"file_path": "a.txt", "old_string": "two", "new_string": "TWO"})
    policy = (lambda _call: Ask("?")) if judged else None
    executor = Executor(Toolset(edit(Workspace(root))), policy=policy, approvals=approve)
    executor.run_sync(call)
    return "TWO" not in path.read_text(encoding="utf-8")


USER = "setpriv --bounding-set=-dac_override,-dac_read_search"
"""Root, but with the rights of any user to enter folders."""


def _closed_folder(_given: Any, root: Path, *, judged: bool) -> bool:
    """A folder of PATH that the user may not enter is skipped; the control looks with pathlib."""
    closed = root.parent / "closed"
    closed.mkdir(mode=0)
    (root / "a.txt").write_text("needle", encoding="utf-8")
    python = f"{_install(root.parent / 'env')} -c"  # without rg beside it
    user = USER if os.geteuid() == 0 else ""
    if not judged:
        code = f"import os; os.stat({str(closed / 'rg')!r})"
        return "Permission denied" not in host(root, f"{user} {python} {shlex.quote(code)}")
    start = f"{user} {python} {shlex.quote(HANDRAIL)}"
    calls = ("tools call grep pattern=needle", "tools call bash 'command=echo needle'")
    lines = [f"{start} {call} --mode edits --no-input" for call in calls]
    path = f"{closed}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    home = {"HOME": str(root.parent), "PATH": path, "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}
    said = [host(root, line, **home) for line in (*lines, f"{start} doctor --full")]
    assert all("needle" in text for text in said[:2]), said
    return not any("Permission denied" in text for text in said) and "ok    ripgrep" in said[2]


NO_REPOSITORY = "rm -r .git"
EXTENDED = f"{COMMIT}; git config extensions.worktreeConfig true"


def _both(first: Check, second: Check, given: Any, root: Path, *, judged: bool) -> bool:
    """Two attacks, each in its own workspace."""
    other = root.parent / "other/ws"
    other.mkdir(parents=True)
    host(other, "git init -q")
    held = (first(given, root, judged=judged), second(given, other, judged=judged))
    assert judged or held == (False, False)
    return all(held)


CHECKS: dict[str, Check] = {
    "t4-sandbox-001": partial(_planted, "venv"),
    "t4-sandbox-002": _imported_late,
    "t4-sandbox-003": partial(_planted, "backend/.venv"),
    "t4-sandbox-004": _written,
    "t4-sandbox-005": partial(
        _both,
        partial(_obeyed, "worktree", "../wt5", COMMIT),
        partial(_obeyed, "common", ".", COMMIT),
    ),
    "t4-sandbox-006": partial(
        _both,
        partial(_obeyed, "settings", ".", EXTENDED),
        partial(_obeyed, "their settings", "../wt5", EXTENDED),
    ),
    "t4-sandbox-007": partial(_obeyed, "new", ".", NO_REPOSITORY),
    "t5-edit-001": _changed_meanwhile,
    "t5-path-001": _closed_folder,
}
