"""All coding tools together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Protocol, runtime_checkable

from handrail import READ, Access, Ask, Call, CheckedCall, Deny, Spec, Toolset
from handrail.permissions import Policy
from handrail.sandbox import Restriction, Sandbox
from handrail.tools._edit.edit import edit
from handrail.tools._files.read import read
from handrail.tools._files.workspace import Hiding, Workspace
from handrail.tools._files.write import write
from handrail.tools._outline import list_missing_tools, outline
from handrail.tools._search.glob import glob
from handrail.tools._search.grep import grep
from handrail.tools._shell.bash import bash
from handrail.tools._shell.command_undo import OnlyReads
from handrail.tools._shell.jobs import Jobs, read_job, stop_job
from handrail.tools._web.web_fetch import web_fetch

log = logging.getLogger("handrail.tools")
_READ_SPEC = Spec(
    name="read",
    description="Read a file.",
    input_schema={"type": "object", "properties": {"file_path": {"type": "string"}}},
    effect=READ,
)


def coding_tools(
    workspace: Workspace,
    *,
    sandbox: Sandbox | None = None,
    without: Iterable[str] = (),
    only_reads: OnlyReads | None = None,
    jobs: Jobs | None = None,
) -> Toolset:
    """Make the coding tools: read, write, edit, glob, grep, bash with its jobs, and web_fetch.

    Commands run in ``sandbox``, by default a new one for the workspace. If the workspace hides what
    a Rulebook denies (``hide_denied``), so does the new sandbox. Raises SandboxUnavailable if no
    sandbox works; pass ``without=["bash"]`` to do without commands. Before a command, the files of
    the workspace are kept for ``undo``, unless ``only_reads(command)`` is true. ``jobs`` holds
    the commands in the background; by default, it is a new one. web_fetch needs the
    extra ``handrail[web]``, and is omitted without it; the log and ``list_missing_tools`` say so.
    """
    without = set(without)
    names = {entry.name for entry in outline(without=without)}
    for name, extra in list_missing_tools().items():
        if name not in without:
            log.warning("the tool %r is omitted: install handrail[%s]", name, extra)
    tools = [read(workspace), write(workspace), edit(workspace), glob(workspace), grep(workspace)]
    if "bash" in names:
        jobs = jobs or Jobs()
        sandbox = sandbox or _make_sandbox(workspace)
        tools += [
            bash(sandbox, jobs=jobs, workspace=workspace, only_reads=only_reads),
            read_job(jobs),
            stop_job(jobs),
        ]
    if "web_fetch" in names:
        tools.append(web_fetch())
    return Toolset(*(tool for tool in tools if tool.spec.name in names))


def _make_sandbox(workspace: Workspace) -> Sandbox:
    hides = workspace.hides
    restricted = hides.find_restricted(workspace.root) if isinstance(hides, _Hiding) else None
    return Sandbox(workspace.root, restricted=restricted)


@runtime_checkable
class _KnowsFiles(Protocol):
    """A policy that knows which files it denies and asks about, such as a Rulebook."""

    def find_asked(self, folder: str) -> Collection[str]: ...

    def find_restricted(
        self, command: str = "", *, folder: str | None = None
    ) -> Mapping[str, Restriction]: ...


class _Hiding:
    """Asks a policy about reading a file."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._files = policy if isinstance(policy, _KnowsFiles) else None

    def __call__(self, relative: str) -> Hiding:
        call = Call("read", {"file_path": relative}, id="hidden")
        accesses = (Access(READ, f"file:{relative}"),)
        decision = self._policy(CheckedCall.recorded(call, _READ_SPEC, accesses))
        return "ask" if isinstance(decision, Ask) else isinstance(decision, Deny)

    def find_restricted(self, root: str) -> Callable[[str], Mapping[str, Restriction]] | None:
        """Return a function for ``Sandbox(restricted=...)``; None if the policy has none."""
        return partial(self._files.find_restricted, folder=root) if self._files else None

    def list_asked(self, root: str) -> Collection[str] | None:
        """Return the files that need approval; None if the policy cannot list them."""
        return self._files.find_asked(root) if self._files else None


def hide_denied(policy: Policy) -> Callable[[str], Hiding]:
    """Return a function for ``Workspace(hides=...)`` that hides files the policy denies reading.

    A search also omits what is in files the policy asks about, and says so.
    """
    return _Hiding(policy)
