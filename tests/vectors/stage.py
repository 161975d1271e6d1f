"""What the vectors share: tools whose bodies note that they ran, and calls through the front door.

That a body ran is what is looked at: not what a result says, and not what a policy promised.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import anyio

from handrail import (
    DESTROY,
    READ,
    Allow,
    Ask,
    Call,
    Decision,
    Deny,
    Executor,
    Result,
    Toolset,
    reads_file,
    tool,
    writes_file,
)
from handrail.policy import Level, Rule, parse

ran: list[str] = []
"""What the bodies did, since the stage was last used."""


@tool(effect=DESTROY)
async def bash(command: str) -> str:
    """Run a command; here it is only noted."""
    ran.append(command)
    return f"ran {command}"


@tool(touches=lambda path, **_: writes_file(path))
async def save(path: str, text: str = "") -> str:
    """Save a file; here it is only noted."""
    ran.append(f"save {path} {text}".rstrip())
    return f"saved {path}"


@tool(effect=READ, touches=reads_file)
async def load(path: str) -> str:
    """Load a file; here it is only noted."""
    ran.append(f"load {path}")
    return f"loaded {path}"


TOOLS = Toolset(bash, save, load)


class Outcome(NamedTuple):
    """What became of a call that was made three times: alone, again, and in a batch."""

    ran: tuple[str, ...]
    decision: Decision | None
    results: tuple[Result, ...]

    @property
    def allowed(self) -> bool:
        """Whether it ran each time, without a question."""
        return len(self.ran) == 3 and isinstance(self.decision, Allow)

    @property
    def asked(self) -> bool:
        """Whether it never ran, since nobody was there to answer."""
        return not self.ran and isinstance(self.decision, Ask)

    @property
    def denied(self) -> bool:
        """Whether it never ran, and nobody could have allowed it."""
        return not self.ran and isinstance(self.decision, Deny)

    @property
    def held(self) -> bool:
        """Whether it never ran by itself."""
        return not self.ran and not isinstance(self.decision, Allow)


def tried(policy: Any, call: Call, tools: Toolset = TOOLS, **options: Any) -> Outcome:
    """What a policy, in an executor, lets become of a call."""
    ran.clear()

    async def turn() -> tuple[Decision | None, list[Result]]:
        async with Executor(tools, policy=policy, **options) as executor:
            decision = executor.explain(call).decision
            alone = [await executor.run(call), await executor.run(call)]
            return decision, [*alone, *await executor.run_all([call])]

    decision, results = anyio.run(turn)
    return Outcome(tuple(ran), decision, tuple(results))


def line(policy: Any, command: str, **options: Any) -> Outcome:
    """What becomes of a command line."""
    return tried(policy, Call("bash", {"command": command}, "1"), **options)


def rules(text: str, level: Level = Level.USER) -> tuple[Rule, ...]:
    """Rules, as a file has them."""
    return parse(text, file="rules.toml", level=level).rules


class Check(Protocol):
    """Tries an attack in a workspace, with what guards against it or without. True if it fails."""

    def __call__(self, given: Any, root: Path, /, *, judged: bool) -> bool:
        """``given`` is the input of a vector."""
        ...


def host(root: Path, command: str, **variables: str) -> str:
    """Run a command without any guard, and return what it said."""
    done = subprocess.run(  # noqa: S603
        ["bash", "-c", command],  # noqa: S607
        cwd=root,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **variables},
        encoding="utf-8",
    )
    return done.stdout
