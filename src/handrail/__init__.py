"""The tool layer for AI agents: the rail that a model's hands hold on to."""

from typing import TYPE_CHECKING, Any

from handrail._access import Access, read_file, write_file
from handrail._call import Args, Call
from handrail._content import File, Image, Json, Text
from handrail._context import Context
from handrail._decision import Allow, Ask, Decision, Deny
from handrail._define import tool
from handrail._effect import DESTROY, READ, WRITE, Effect, Exposure
from handrail._errors import (
    DefinitionError,
    DuplicateName,
    HandrailDeprecationWarning,
    HandrailError,
    Refused,
    ToolFailed,
    Transient,
    UnknownName,
)
from handrail._lint import Finding, lint
from handrail._registry import Registry
from handrail._result import Failure, Fault, Kind, Result
from handrail._spec import Retry, Spec
from handrail._tool import Tool
from handrail._toolset import Toolset

if TYPE_CHECKING:
    from handrail._executor import Executor

__all__ = [
    "DESTROY",
    "READ",
    "WRITE",
    "Access",
    "Allow",
    "Args",
    "Ask",
    "Call",
    "Context",
    "Decision",
    "DefinitionError",
    "Deny",
    "DuplicateName",
    "Effect",
    "Executor",
    "Exposure",
    "Failure",
    "Fault",
    "File",
    "Finding",
    "HandrailDeprecationWarning",
    "HandrailError",
    "Image",
    "Json",
    "Kind",
    "Refused",
    "Registry",
    "Result",
    "Retry",
    "Spec",
    "Text",
    "Tool",
    "ToolFailed",
    "Toolset",
    "Transient",
    "UnknownName",
    "lint",
    "read_file",
    "tool",
    "write_file",
]


def __getattr__(name: str) -> Any:
    """Load the executor when it is first asked for: it brings anyio and pydantic along."""
    if name == "Executor":
        from handrail._executor import Executor  # noqa: PLC0415

        globals()["Executor"] = Executor
        return Executor
    raise AttributeError(f"module 'handrail' has no attribute {name!r}")
