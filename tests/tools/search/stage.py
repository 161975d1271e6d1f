"""What the tests of glob and grep share: trees, and calls through an executor."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from handrail import Call, Executor, Result, Toolset
from handrail.tools import Workspace, glob, grep

_AGES = count(1_000_000)
RIPGREP = shutil.which("rg") or "rg"


def made(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """A folder with files in it, the first the oldest."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        age = next(_AGES)
        os.utime(path, (age, age))
    return root


def program(path: Path, script: str) -> str:
    """A program in the place of ripgrep."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def tools(root: Path, ripgrep: str | None = RIPGREP, **options: Any) -> Toolset:
    """The tools over a workspace."""
    seconds = options.pop("seconds", 20.0)
    workspace = Workspace(root, **options)
    return Toolset(
        glob(workspace, ripgrep=ripgrep, seconds=seconds),
        grep(workspace, ripgrep=ripgrep, seconds=seconds),
    )


def ask(
    root: Path, name: str, ripgrep: str | None = RIPGREP, *, options: Any = None, **args: Any
) -> Result:
    """What one call gives."""
    return Executor(tools(root, ripgrep, **(options or {}))).run_sync(Call(name, args, "c1"))


def text(
    root: Path, name: str, ripgrep: str | None = RIPGREP, *, options: Any = None, **args: Any
) -> str:
    """What a model reads."""
    return ask(root, name, ripgrep, options=options, **args).text
