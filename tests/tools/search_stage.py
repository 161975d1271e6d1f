"""What the tests of glob and grep share: trees, engines, and calls through an executor."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from handrail import Call, Executor, Result, Toolset
from handrail.tools._fallback import Walk
from handrail.tools._glob import glob
from handrail.tools._grep import grep
from handrail.tools._ripgrep import Ripgrep
from handrail.tools._search import Engine
from handrail.tools._workspace import Workspace

_AGES = count(1_000_000)
FOUND = shutil.which("rg")
RIPGREP = Ripgrep(FOUND or "rg")
NO_RULES = "\n[Ignore files were not looked at: what they leave out was searched too.]"

engines = pytest.mark.parametrize(
    "engine", [pytest.param(RIPGREP, id="ripgrep"), pytest.param(Walk(), id="walk")]
)


def made(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """A folder with files in it, the first the oldest."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        age = next(_AGES)
        os.utime(path, (age, age))
    return root


def tools(root: Path, engine: Engine | None = RIPGREP, **options: Any) -> Toolset:
    """The tools over a workspace."""
    seconds = options.pop("seconds", 20.0)
    workspace = Workspace(root, **options)
    return Toolset(
        glob(workspace, engine=engine, seconds=seconds),
        grep(workspace, engine=engine, seconds=seconds),
    )


def ask(
    root: Path, name: str, engine: Engine | None = RIPGREP, *, options: Any = None, **args: Any
) -> Result:
    """What one call gives."""
    return Executor(tools(root, engine, **(options or {}))).run_sync(Call(name, args, "c1"))


def text(
    root: Path, name: str, engine: Engine | None = RIPGREP, *, options: Any = None, **args: Any
) -> str:
    """What a model reads, without the words that only one engine has."""
    return ask(root, name, engine, options=options, **args).text.replace(NO_RULES, "")
