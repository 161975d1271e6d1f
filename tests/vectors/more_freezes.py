"""Text that froze a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

from vectors.stage import Check

MAX_SECONDS = 1
"""Seconds of processor time for a process that does it, after its imports; rounded up."""
DECIDES = """
    from handrail import Call, Executor, Toolset, tool
    from handrail.policy import Rulebook, builtin_rules
    from handrail.policy._consequences import consequences, program_text

    @tool
    async def bash(command: str) -> str:
        "Run a command."
        return command

    if not judged:
        program_text._LIST = re.compile(r'''\\[\\s*(?:(['"])[^'"\\n]*\\1\\s*,?\\s*)+\\]''')
        consequences._TASKS = re.compile(r"(?:\\w+[:_-])*(?:deploy|publish)")
    limit()
    for mode in ("plan", "ask", "edits", "open"):
        rules = Rulebook(builtin_rules("read_only", "development"), mode=mode, sandboxed=True)
        Executor(Toolset(bash), policy=rules).run_sync(Call("bash", {"command": text}))
"""
DEFINES = """
    from handrail.openapi import _operations, _schemas, tools

    def merge(document, value):
        found = dict(document.resolve(value))
        for part in found.pop("allOf", ()):
            found |= merge(document, part)
        return found

    if not judged:
        _operations.merge = _schemas.merge = merge
    limit()
    tools(text)
"""
START = f"""
    import re, resource, sys

    def limit():
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime) + {MAX_SECONDS} + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))

    text = sys.stdin.read()
"""


def _ends(work: str, text: str, *, judged: bool) -> bool:
    """Whether a process that does something with a text ends soon."""
    program = f"judged = {judged}\n{dedent(START)}{dedent(work)}"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program],
        input=text,
        encoding="utf-8",
        stdout=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode in (0, -9, -24), work
    return done.returncode == 0


def _decided(given: Any, _root: Path, *, judged: bool) -> bool:
    return _ends(DECIDES, given["command"], judged=judged)


def _defined(given: Any, _root: Path, *, judged: bool) -> bool:
    return _ends(DEFINES, given["document"], judged=judged)


CHECKS: dict[str, Check] = {
    "t4-redos-001": _decided,
    "t4-redos-002": _decided,
    "t4-redos-003": _decided,
    "t4-openapi-001": _defined,
}
