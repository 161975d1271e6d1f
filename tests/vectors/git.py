"""Repositories that make git run something: it may run where it can do no harm, and nowhere else.

Each repository runs a canary that leaves a mark outside of the workspace, and one inside.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from handrail import Call, Executor, Toolset
from handrail.sandbox import Sandbox
from handrail.tools import bash

INIT = """
git init -q . && git config user.email a@b.c && git config user.name n
echo one > file && git add -A && git commit -qm one && echo two > file
"""


class Place(NamedTuple):
    """A workspace, what lies beside it, and the program that must not run out there."""

    root: Path
    out: Path

    @property
    def canary(self) -> Path:
        return self.root / "canary.sh"

    @property
    def escaped(self) -> bool:
        """Whether anything at all happened outside."""
        return any(self.out.iterdir())


Run: TypeAlias = Callable[[Place, str], str]


def ours(place: Place, command: str) -> str:
    """The tool, through an executor."""
    call = Call("bash", {"command": command, "timeout_ms": 10_000}, "1")
    return Executor(Toolset(bash(Sandbox(place.root)))).run_sync(call).text


def naive(place: Place, command: str) -> str:
    """The control: a shell with no sandbox, and with the folder it stands in on its PATH."""
    return _host(place, f"PATH=.:$PATH; {command}")


def _host(place: Place, line: str) -> str:
    done = subprocess.run(  # noqa: S603
        ["bash", "-c", line],  # noqa: S607
        cwd=place.root,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    return (done.stdout + done.stderr).decode(errors="replace")


def _config(*settings: str) -> str:
    return "; ".join(f"git config {one}" for one in settings)


def _hook(path: str) -> str:
    return f"mkdir -p $(dirname {path}); cp canary.sh {path}; chmod +x {path}"


SIGNED = """
tree=$(git write-tree); printf 'tree %s\\nauthor a <a@b> 1 +0000\\ncommitter a <a@b> 1 +0000\\ngpgsig
 -----BEGIN PGP SIGNATURE-----\\n \\n x\\n -----END PGP SIGNATURE-----\\n\\nsigned\\n' $tree | sed 's/^gpgsig$/gpgsig/' > c
sed -i 'N;s/gpgsig\\n /gpgsig /;P;D' c; git update-ref HEAD $(git hash-object -t commit -w --stdin < c)
"""
BARE = """
git init -q --bare sub; printf '[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=..\\nfsmonitor=%s\\n' "$PWD/canary.sh" > sub/config
"""
PLAIN = """
rm -rf .git; mkdir objects refs; touch objects/k refs/k; echo 'ref: refs/heads/main' > HEAD
printf '[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\nfsmonitor=%s\\n' "$PWD/canary.sh" > config
"""
SUBMODULE = """
git init -q part; (cd part; git config user.email a@b.c; git config user.name n; cp ../canary.sh post-checkout; git add .; git commit -qm x)
git init -q evil; cd evil; git config user.email a@b.c; git config user.name n
printf '[submodule "sub"]\\n\\tpath = "sub\\r"\\n\\turl = ../part\\n' > .gitmodules
ln -s .git/modules/sub/hooks sub; git add .gitmodules sub
git update-index --add --cacheinfo "160000,$(git -C ../part rev-parse HEAD),sub"$'\\r'; git commit -qm x
"""

REPOSITORIES: dict[str, tuple[str, str]] = {
    "git-001": (_config("core.fsmonitor ./canary.sh"), "git status"),
    "git-002": (
        "printf '[core]\\nfsmonitor=./canary.sh\\n' > evil.cfg; git config include.path ../evil.cfg",
        "git status",
    ),
    "git-003": (_config("diff.external ./canary.sh"), "git diff"),
    "git-004": (
        "echo '* diff=x' > .gitattributes; " + _config("diff.x.textconv ./canary.sh"),
        "git diff",
    ),
    "git-005": (
        "echo '* diff=x' > .gitattributes; " + _config("diff.x.command ./canary.sh"),
        "git diff",
    ),
    "git-006": (
        "echo '* filter=x' > .gitattributes; " + _config("filter.x.clean ./canary.sh"),
        "git status",
    ),
    "git-007": (
        "echo '* filter=x' > .gitattributes; " + _config("filter.x.process ./canary.sh"),
        "git status",
    ),
    "git-008": (
        "echo '* filter=x' > .gitattributes; " + _config("filter.x.clean ./canary.sh"),
        "git diff",
    ),
    "git-009": (
        _hook(".git/hooks/post-index-change") + "; git checkout -q file; touch -d 2001-01-01 file",
        "git status",
    ),
    "git-010": (_hook(".git/hooks/pre-commit"), "git commit -am x"),
    "git-011": (_hook("hk/pre-commit") + "; git config core.hooksPath hk", "git commit -am x"),
    "git-012": (SIGNED + _config("log.showSignature true", "gpg.program ./canary.sh"), "git log"),
    "git-013": (BARE, "cd sub && git status"),
    "git-014": (_config("user.email '$(./canary.sh)'"), "true"),
    "git-015": ("printf 'yarnPath: ./canary.sh\\n' > .yarnrc.yml; cp canary.sh yarn", "true"),
    "git-016": (
        "git update-ref refs/heads/--output={OUT}/x HEAD",
        "git diff $(git for-each-ref --format='%(refname:lstrip=2)')",
    ),
    "git-017": (SUBMODULE, "git -c protocol.file.allow=always clone --recursive evil c"),
    "git-018": ("cp canary.sh git", "git status"),
    "git-019": (
        "echo kept > {OUT}/../kept",
        "git add ../../etc/passwd ../kept; git show :../../etc/passwd",
    ),
    "git-020": ("", "git -C {OUT}/../other status"),
    "git-021": ("", "git init {OUT}/new"),
    "git-022": (PLAIN, "git status"),
    "git-023": (SIGNED + _config("gpg.program ./canary.sh"), "git log --pretty=%GG"),
}
BESIDE = "git init -q other && cd other && git config core.fsmonitor ../ws/canary.sh"


RUN_NOTHING = (
    "git-001", "git-002", "git-009", "git-012", "git-013", "git-014", "git-015", "git-018", "git-022", "git-023",
)  # fmt: skip
"""Repositories whose canary must not run at all, not even where it could do no harm."""


@cache
def _template() -> tempfile.TemporaryDirectory[str]:
    """A workspace with a repository, and a hostile one beside it; made once."""
    folder = tempfile.TemporaryDirectory()
    base = Path(folder.name).resolve()
    place = Place(base / "ws", base / "out")
    place.root.mkdir()
    place.out.mkdir()
    _host(place, INIT)
    _host(place, f"cd ..; {BESIDE}")
    return folder


def holds(vector: dict[str, Any], run: Run = ours) -> bool:
    """Whether nothing happens outside of the workspace, whatever the repository says."""
    setup, command = REPOSITORIES[vector["id"]]
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve() / "base"
        shutil.copytree(_template().name, base, symlinks=True)
        place = Place(base / "ws", base / "out")
        place.canary.write_text(
            f"#!/bin/sh\necho ran >> {place.root}/inside\necho ran >> {place.out}/log\ncat\n",
            encoding="utf-8",
        )
        place.canary.chmod(0o755)
        _host(place, setup.replace("{OUT}", str(place.out)))
        for one in (place.root / "inside", place.out / "log"):  # from when it was built
            one.unlink(missing_ok=True)
        text = run(place, command.replace("{OUT}", str(place.out)))
        ran = vector["id"] in RUN_NOTHING and (place.root / "inside").exists()
        return not place.escaped and not ran and not text.startswith("root:")


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many repositories do their harm to a shell with no sandbox."""
    return sum(not holds(one, naive) for one in vectors)
