"""A coding agent's system prompt: how to work, and where."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio

from handrail import Toolset
from handrail._support.visible import spell_out
from handrail.agent import IsTrusted, RunState, read_instructions
from handrail.policy import RulePaths, Trust, digest

if TYPE_CHECKING:  # other agents' runs use this module too, without a sandbox
    from handrail.sandbox import Sandbox

log = logging.getLogger("handrail.coding")
HOW_TO_WORK = (
    "You work on the files of one folder with tools. Paths are relative to that folder. Read a "
    "file before you change it. After a change, run the tests or checks of the project, if it has "
    "any. If a call is denied, do not work around it: continue without it, and say so. At the end, "
    "summarize in a few sentences what you changed and what you found."
)
_GIT_STATUS = "git --no-optional-locks -c core.fsmonitor=false status --porcelain=v2 --branch"
MAX_GIT_SECONDS = 5.0
MAX_CONVERSATIONS = 100
"""Conversations whose system prompts are kept."""


class SystemPrompt:
    """Writes a conversation's system prompt. It stays the same, so providers can cache it."""

    def __init__(
        self,
        root: str,
        sandbox: Sandbox | None,
        *,
        tools: Toolset,
        instructions: Callable[[], str],
        text: str = "",
        more: str = "",
    ) -> None:
        """Prepare to describe a folder.

        Args:
            root: The folder.
            sandbox: The sandbox for commands; None if there are none.
            tools: The agent's tools.
            instructions: Reads the instruction files as text.
            text: How to work, in place of the usual text.
            more: More text.
        """
        self._root = Path(root)
        self._sandbox = sandbox
        self._tools = tools
        self._instructions = instructions
        self._text = text or HOW_TO_WORK
        self._more = more
        self._written: dict[str, tuple[str, str]] = {}
        """By conversation: what comes before the instructions, and these."""

    async def __call__(self, state: RunState) -> str:
        if state.run_id not in self._written:
            if len(self._written) == MAX_CONVERSATIONS:
                del self._written[next(iter(self._written))]
            parts = (self._text, self._more, await self._describe_place())
            head = "\n\n".join(filter(None, parts))
            self._written[state.run_id] = head, self._instructions()
        return "\n\n".join(filter(None, self._written[state.run_id]))

    def read_again(self) -> None:
        """Read the instruction files again. The prompt's rest stays the same."""
        text = self._instructions()
        self._written = {run: (head, text) for run, (head, _) in self._written.items()}

    async def _describe_place(self) -> str:
        lines = {
            "Folder": spell_out(str(self._root)),
            "Date": datetime.now().astimezone().date().isoformat(),
            "Platform": f"{platform.system()} {platform.machine()}",
            "Git": await self._describe_git(),
            "Network": self._describe_network(),
        }
        named = "\n".join(f"{name}: {value}" for name, value in lines.items())
        return f"When this conversation started:\n{named}"

    async def _describe_git(self) -> str:
        """Return the branch, and whether there are changes. git runs in the sandbox."""
        if not (self._root / ".git").exists():
            return "not a repository"
        status = ""
        if self._sandbox is not None:
            with anyio.move_on_after(MAX_GIT_SECONDS):
                status = await _read_status(self._sandbox)
        lines = status.splitlines()
        branch = next((line for line in lines if line.startswith("# branch.head ")), "")
        if not branch:
            return "a repository"
        changed = sum(not line.startswith("#") for line in lines)
        name = spell_out(branch.removeprefix("# branch.head "))
        return f"branch {name}, {changed or 'no'} changed {'file' if changed == 1 else 'files'}"

    def _describe_network(self) -> str:
        if self._sandbox is None:
            return "there are no commands"
        hosts = ", ".join(self._sandbox.network)
        commands = f"commands can reach {hosts}" if hosts else "commands have none"
        more = "; bash can ask for hosts" if self._sandbox.opens_hosts else ""
        pages = "; use web_fetch for web pages" if self._tools.find("web_fetch") else ""
        return commands + more + pages


async def _read_status(sandbox: Sandbox) -> str:
    """Return git status output, or nothing if it fails."""
    process = sandbox.start(_GIT_STATUS)
    try:
        output = b""
        while piece := await process.read():
            output += piece
        return output.decode(errors="replace") if await process.wait() == 0 else ""
    finally:
        await process.kill()


def read_trusted(root: str, trusted: IsTrusted | None) -> str:
    """Return the trusted instruction files as text. The log names the others."""
    instructions = read_instructions(root, trusted=trusted or _read_trust(Path(root)))
    for notice in instructions.notices:
        review = f"; review it with `handrail trust {notice.path}`"
        hint = review if notice.kind == "untrusted" else ""
        log.warning("%s: %s%s", notice.path, notice.message, hint)
    return instructions.text


def _read_trust(root: Path) -> IsTrusted:
    """Return a function asking the user's record of trusted files."""
    trust = Trust(cast("Path", RulePaths.of(root).trust))  # always set here
    return lambda path, content: trust.has(root / path, digest(content))
