"""The tool layer for AI agents: the rail that a model's hands hold on to."""

from handrail._access import Access, read_file, write_file
from handrail._call import Args, Call
from handrail._content import Content, File, Image, Json, Text
from handrail._context import Context
from handrail._decision import Allow, Ask, Decision, Deny
from handrail._define import Options, tool
from handrail._effect import DESTROY, READ, WRITE, Effect, Exposure
from handrail._errors import (
    DefinitionError,
    DuplicateName,
    HandrailDeprecationWarning,
    HandrailError,
    UnknownName,
)
from handrail._event import ToolsChanged
from handrail._lint import Finding, lint
from handrail._registry import Registry
from handrail._result import Failure, Fault, Kind, Result
from handrail._spec import Retry, Spec
from handrail._tool import Tool
from handrail._toolset import Toolset

__all__ = [
    "DESTROY",
    "READ",
    "WRITE",
    "Access",
    "Allow",
    "Args",
    "Ask",
    "Call",
    "Content",
    "Context",
    "Decision",
    "DefinitionError",
    "Deny",
    "DuplicateName",
    "Effect",
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
    "Options",
    "Registry",
    "Result",
    "Retry",
    "Spec",
    "Text",
    "Tool",
    "ToolsChanged",
    "Toolset",
    "UnknownName",
    "lint",
    "read_file",
    "tool",
    "write_file",
]
