"""Random commands and undos: the tree is as before, to the byte, ignored files too."""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import anyio
import pytest

from handrail import Call, Executor, Toolset
from handrail.sandbox import Sandbox
from handrail.tools import Workspace, bash, list_changes, undo
from tools.stage import rounds
from tools.trees.stage import project, tree

COMMANDS = rounds(quick=100, soak=1_000)
MOST_AT_ONCE = 4
Maker: TypeAlias = Callable[[random.Random, "Paths"], str]
GIT = "git -c user.name=A -c user.email=a@example.com"


class Paths:
    """Paths to use in a command: some exist, some do not."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self._chance = chance
        every = [
            path for path in sorted(root.rglob("*")) if ".git" not in path.relative_to(root).parts
        ]
        names = [
            str(path.relative_to(root)) for path in every if path.is_symlink() or not path.is_dir()
        ]
        self.files = names or ["none"]
        self.folders = [".", *(str(path.relative_to(root)) for path in every if path.is_dir())]

    @property
    def file(self) -> str:
        return quote(self._chance.choice(self.files))

    @property
    def folder(self) -> str:
        return quote(self._chance.choice(self.folders))

    @property
    def new(self) -> str:
        name = self._chance.choice(["a", "b.log", "c d", "new\nline", "-x", "é", "build", "x.txt"])
        return quote(f"{self._chance.choice(self.folders)}/{name}{self._chance.randrange(30)}")


def quote(path: str) -> str:
    return shlex.quote(f"./{path}")


ACTIONS: Mapping[str, Maker] = MappingProxyType(
    {
        "create": lambda chance, paths: f"echo {chance.random()} > {paths.new}",
        "odd name": lambda chance, paths: f"touch {paths.folder}/$'odd\\xff{chance.randrange(9)}'",
        "append": lambda _, paths: f"echo more >> {paths.file}",
        "same size": lambda _, paths: f"tr a-m n-z < {paths.file} > /tmp/x; cat /tmp/x > {paths.file}",
        "truncate": lambda _, paths: f": > {paths.file}",
        "delete": lambda _, paths: f"rm -f {paths.file}",
        "delete all": lambda _, paths: f"rm -rf {paths.folder}",
        "mode": lambda chance, paths: f"chmod {chance.choice(['600', '755', '444', '+x'])} {paths.file}",
        "folder mode": lambda chance, paths: f"chmod {chance.choice(['700', '755', '2775'])} {paths.folder}",
        "rename": lambda _, paths: f"mv -T {paths.file} {paths.new}",
        "move folder": lambda _, paths: f"mv -T {paths.folder} {paths.new}",
        "replace": lambda _, paths: f"mv -f {paths.file} {paths.file}",
        "make folder": lambda _, paths: f"mkdir -p {paths.new}/deep",
        "remove folder": lambda _, paths: f"rmdir {paths.folder}",
        "link": lambda _, paths: f"ln -s {paths.file} {paths.new}",
        "link out": lambda _, paths: f"ln -sfn /etc {paths.file}",
        "folder to link": lambda _, paths: f"rm -rf {paths.folder}; ln -s /etc {paths.folder}",
        "hard link": lambda _, paths: f"ln {paths.file} {paths.new}",
        "file to folder": lambda _, paths: f'f={paths.file}; rm -f "$f"; mkdir "$f"',
        "ignored": lambda chance, _: f"mkdir -p build/{chance.randrange(3)}; date > build/{chance.randrange(3)}/o",
        "old time": lambda _, paths: f"echo x > {paths.file}; touch -d 2001-01-01 {paths.file}",
        "commit": lambda _, __: f"{GIT} add -A; {GIT} commit -qm more",
        "reset": lambda _, __: f"{GIT} reset -q --hard",
        "clean": lambda _, __: f"{GIT} clean -qfdx",
        "stash": lambda _, __: f"{GIT} stash -qu",
        "collect": lambda _, __: f"{GIT} gc -q --prune=now",
        "branch": lambda chance, __: f"{GIT} checkout -qB b{chance.randrange(3)}",
    }
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_random_commands_are_undone(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable
    root, done = project(tmp_path / "w"), set[str]()
    workspace = Workspace(root, undo_folder=tmp_path / "undo")

    async def run_some(executor: Executor) -> None:
        """Run a few commands, then undo them backwards, with a new workspace as after a restart."""
        trees = [tree(root)]
        for number in range(chance.randint(1, MOST_AT_ONCE)):
            name = chance.choice([*ACTIONS])
            line = ACTIONS[name](chance, Paths(root, chance))
            await executor.run(Call("bash", {"command": line}, f"c{number}"))
            if tree(root) != trees[-1]:
                done.add(name)
                trees.append(tree(root))
        for before in reversed(trees[:-1]):
            later = Workspace(root, undo_folder=tmp_path / "undo")
            report = undo(later, list_changes(later)[-1].number)
            assert (dict(report.left), tree(root)) == ({}, before)
        assert list_changes(workspace) == ()

    async def run() -> None:
        sandbox = Sandbox(root)
        async with Executor(Toolset(bash(sandbox, workspace=workspace))) as executor:
            for _ in range(COMMANDS // 10):
                await run_some(executor)

    anyio.run(run)
    assert len(done) > min(COMMANDS // 25, len(ACTIONS)) // 2
