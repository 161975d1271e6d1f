"""A program's own files in a workspace, and files that changed under a question."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import Any

import handrail
from handrail import Call, Executor, Toolset
from handrail.policy import RulePaths, load
from handrail.tools import Workspace, write
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
from handrail import Call, Executor, Toolset
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
    """A script plants code in the environment of the command line; its next start runs nothing."""
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
    said = _run(root, python, start, "--version")
    assert said.startswith("handrail "), said
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


CHECKS: dict[str, Check] = {
    "t4-sandbox-001": partial(_planted, "venv"),
    "t4-sandbox-002": _imported_late,
    "t4-sandbox-003": partial(_planted, "backend/.venv"),
    "t4-sandbox-004": _written,
}
