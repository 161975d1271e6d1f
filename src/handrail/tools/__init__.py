"""The tools of a coding agent, over one workspace and one sandbox; one factory for each."""

from handrail.tools._bash import bash
from handrail.tools._change import undo
from handrail.tools._coding import coding, hidden_by
from handrail.tools._edit import edit
from handrail.tools._glob import glob
from handrail.tools._grep import grep
from handrail.tools._jobs import Jobs, read_job, stop_job
from handrail.tools._read import read
from handrail.tools._scan import Look, Planted, Scan
from handrail.tools._shell import Shell
from handrail.tools._web_fetch import web_fetch
from handrail.tools._workspace import Workspace
from handrail.tools._write import write

__all__ = [
    "Jobs",
    "Look",
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
    "read",
    "read_job",
    "stop_job",
    "undo",
    "web_fetch",
    "write",
]
