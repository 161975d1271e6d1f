"""All tools of a coding agent together."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from handrail import READ, Access, Call, Deny, Spec, Toolset
from handrail.judgement import Policy
from handrail.sandbox import Sandbox
from handrail.tools._bash import bash
from handrail.tools._edit import edit
from handrail.tools._glob import glob
from handrail.tools._grep import grep
from handrail.tools._jobs import Jobs, read_job, stop_job
from handrail.tools._outline import outline
from handrail.tools._read import read
from handrail.tools._web_fetch import web_fetch
from handrail.tools._workspace import Workspace
from handrail.tools._write import write

_READING = Spec(
    name="read",
    description="Read a file.",
    input_schema={"type": "object", "properties": {"file_path": {"type": "string"}}},
    effect=READ,
)


def coding(
    workspace: Workspace, *, sandbox: Sandbox | None = None, without: Iterable[str] = ()
) -> Toolset:
    """The tools of a coding agent: read, write, edit, glob, grep, bash with its jobs, web_fetch.

    Commands run in a sandbox around the workspace, or in the one that is given. Where none can be
    had, Unavailable is raised: leave bash out by name, ``without=["bash"]``, to go on. web_fetch is
    there where the extra ``handrail[web]`` is.
    """
    names = {one.name for one in outline(without=without)}
    made = [read(workspace), write(workspace), edit(workspace), glob(workspace), grep(workspace)]
    if "bash" in names:
        jobs = Jobs()
        made += [
            bash(sandbox or Sandbox(workspace.root), jobs=jobs),
            read_job(jobs),
            stop_job(jobs),
        ]
    if "web_fetch" in names:
        made.append(web_fetch())
    return Toolset(*(one for one in made if one.spec.name in names))


def hidden_by(policy: Policy) -> Callable[[str], bool]:
    """Which files a policy denies ``read``; for ``Workspace(hides=...)``: no search shows them."""

    def hides(relative: str) -> bool:
        call = Call("read", {"file_path": relative}, id="hidden")
        accesses = (Access(READ, f"file:{relative}"),)
        return isinstance(policy(call, _READING, accesses), Deny)

    return hides
