"""The coding tools: read, write, edit, glob, grep, bash and web_fetch, each with a factory."""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.tools._ask_user import AnswerQuestion, ask_user
    from handrail.tools._coding import coding_tools, hide_denied
    from handrail.tools._edit.apply_patch import apply_patch
    from handrail.tools._edit.edit import edit
    from handrail.tools._files.read import read
    from handrail.tools._files.undo import UndoEntry
    from handrail.tools._files.workspace import Workspace
    from handrail.tools._files.write import write
    from handrail.tools._outline import ToolSummary, list_missing_tools, outline
    from handrail.tools._search.file_names import list_files
    from handrail.tools._search.glob import glob
    from handrail.tools._search.grep import grep
    from handrail.tools._shell.bash import bash
    from handrail.tools._shell.jobs import Jobs, JobStatus, read_job, stop_job
    from handrail.tools._shell.leftovers import Scan, ScanReport, SuspiciousFile
    from handrail.tools._shell.state import Shell
    from handrail.tools._todo import todo
    from handrail.tools._trees.ignored import is_ignored
    from handrail.tools._trees.restore import UndoReport, list_changes, undo
    from handrail.tools._web.web_fetch import web_fetch
else:
    _MODULES = {
        "_ask_user": "AnswerQuestion ask_user",
        "_coding": "coding_tools hide_denied",
        "_edit.apply_patch": "apply_patch",
        "_edit.edit": "edit",
        "_files.read": "read",
        "_files.undo": "UndoEntry",
        "_files.workspace": "Workspace",
        "_files.write": "write",
        "_outline": "ToolSummary list_missing_tools outline",
        "_search.file_names": "list_files",
        "_search.glob": "glob",
        "_search.grep": "grep",
        "_shell.bash": "bash",
        "_shell.jobs": "JobStatus Jobs read_job stop_job",
        "_shell.leftovers": "Scan ScanReport SuspiciousFile",
        "_shell.state": "Shell",
        "_todo": "todo",
        "_trees.ignored": "is_ignored",
        "_trees.restore": "UndoReport list_changes undo",
        "_web.web_fetch": "web_fetch",
    }

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals())


__all__ = [
    "AnswerQuestion",
    "JobStatus",
    "Jobs",
    "Scan",
    "ScanReport",
    "Shell",
    "SuspiciousFile",
    "ToolSummary",
    "UndoEntry",
    "UndoReport",
    "Workspace",
    "apply_patch",
    "ask_user",
    "bash",
    "coding_tools",
    "edit",
    "glob",
    "grep",
    "hide_denied",
    "is_ignored",
    "list_changes",
    "list_files",
    "list_missing_tools",
    "outline",
    "read",
    "read_job",
    "stop_job",
    "todo",
    "undo",
    "web_fetch",
    "write",
]
