"""The programs of the GitHub Action, run as a runner does, and what they leave."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from markdown_it import MarkdownIt

import forked
from cli_harness import Handrail

ROOT = Path(__file__).parents[1]
STEPS = ROOT / "deploy" / "action"


class Stepped(NamedTuple):
    """What a step left."""

    exit: int
    log: str
    outputs: dict[str, str]
    summary: str


def step(
    handrail: Handrail,
    name: str,
    env: Mapping[str, str | None] = {},
    *,
    commands: Path | None = None,
) -> Stepped:
    """Run a program of the action as the runner does."""
    temp = handrail.folder / "temp"
    temp.mkdir(exist_ok=True)
    files = {one: temp / one for one in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV")}
    for file in files.values():
        file.write_text("", encoding="utf-8")
    runner = {one: str(file) for one, file in files.items()}
    runner |= {"RUNNER_TEMP": str(temp), "GITHUB_ACTION_PATH": str(ROOT)}
    shell = ["bash"] if name.endswith(".sh") else [sys.executable, "-Es"]
    done = subprocess.run(  # noqa: S603
        [*shell, str(STEPS / name)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env=handrail.environment(
            runner | {"ACTION_BIN": str(commands or forked.path())} | dict(env)
        ),
        cwd=handrail.workspace,
        check=False,
    )
    assert files["GITHUB_ENV"].read_text(encoding="utf-8") == ""
    outputs = dict(_outputs(files["GITHUB_OUTPUT"].read_text(encoding="utf-8")))
    summary = files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
    return Stepped(done.returncode, done.stdout, outputs, summary)


def _outputs(text: str) -> Iterator[tuple[str, str]]:
    """Read outputs as the runner does: `name=value`, or lines up to a delimiter."""
    lines = iter(text.split("\n")[:-1])
    for line in lines:
        name, heredoc, end = line.partition("<<")
        if heredoc:
            yield name, "\n".join(iter(lambda end=end: next(lines, end), end))  # type: ignore[misc]
        else:
            name, _, value = line.partition("=")
            yield name, value


def fake(handrail: Handrail, name: str, code: str) -> Path:
    """Write a program in place of another one, and return its folder."""
    folder = handrail.folder / "fake"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!{sys.executable} -IS\n{code}", encoding="utf-8")
    (folder / name).chmod(0o700)
    return folder


def outside_fences(text: str) -> str:
    """Return the Markdown of a summary without its code blocks."""
    blocks = MarkdownIt("commonmark").parse(text)
    kept = text.split("\n")
    for block in blocks:
        if block.type == "fence":
            assert block.map is not None
            kept[slice(*block.map)] = [""] * (block.map[1] - block.map[0])
    return "\n".join(kept)


def inputs() -> dict[str, Any]:
    """Return the inputs of the action."""
    found: dict[str, Any] = manifest()["inputs"]
    return found


def manifest() -> dict[str, Any]:
    """Return the action."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    return found


def variable(name: str) -> str:
    """Return the variable that has the value of an input."""
    return f"INPUT_{name.upper().replace('-', '_')}"
