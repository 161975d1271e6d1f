"""The tools of a coding agent, over one workspace and one sandbox; one factory for each."""

from typing import TYPE_CHECKING

from handrail._door import door

if TYPE_CHECKING:
    from handrail.tools._bash import bash
    from handrail.tools._change import undo
    from handrail.tools._coding import coding, hidden_by
    from handrail.tools._edit import edit
    from handrail.tools._glob import glob
    from handrail.tools._grep import grep
    from handrail.tools._jobs import Jobs, read_job, stop_job
    from handrail.tools._outline import Outline, outline
    from handrail.tools._read import read
    from handrail.tools._scan import Look, Planted, Scan
    from handrail.tools._shell import Shell
    from handrail.tools._web_fetch import web_fetch
    from handrail.tools._workspace import Workspace
    from handrail.tools._write import write
else:
    _HOMES = {
        "Jobs": "_jobs",
        "Look": "_scan",
        "Outline": "_outline",
        "Planted": "_scan",
        "Scan": "_scan",
        "Shell": "_shell",
        "Workspace": "_workspace",
        "bash": "_bash",
        "coding": "_coding",
        "edit": "_edit",
        "glob": "_glob",
        "grep": "_grep",
        "hidden_by": "_coding",
        "outline": "_outline",
        "read": "_read",
        "read_job": "_jobs",
        "stop_job": "_jobs",
        "undo": "_change",
        "web_fetch": "_web_fetch",
        "write": "_write",
    }

    __getattr__, __dir__ = door(__name__, _HOMES, globals())


__all__ = [
    "Jobs",
    "Look",
    "Outline",
    "Planted",
    "Scan",
    "Shell",
    "Workspace",
    "bash",
    "coding",
    "edit",
    "glob",
    "grep",
    "hidden_by",
    "outline",
    "read",
    "read_job",
    "stop_job",
    "undo",
    "web_fetch",
    "write",
]
