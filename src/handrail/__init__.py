"""The tool layer for AI agents: validated, permission-checked, ordered and bounded tool calls."""

from handrail._support.lazy import make_lazy

TYPE_CHECKING = bool(0)  # not False, which editors evaluate; typing would cost more than the rest
if TYPE_CHECKING:
    from handrail._collection.lint import Finding, lint
    from handrail._collection.registry import Registry
    from handrail._collection.source import Source
    from handrail._collection.toolset import Toolset
    from handrail._definition.decorator import tool
    from handrail._definition.tool import Tool
    from handrail._execution.executor import Executor
    from handrail._execution.settings import Approvals, CallLimits, Hook, LongResults
    from handrail._permissions.checked_call import CheckedCall
    from handrail._turn.turn import Turn
    from handrail._values.access import Access, reads_file, writes_file
    from handrail._values.call import Args, Call
    from handrail._values.content import File, Image, Json, Text
    from handrail._values.context import Context
    from handrail._values.decision import Allow, Ask, Decision, Deny
    from handrail._values.effect import DESTROY, READ, WRITE, Effect, Exposure
    from handrail._values.errors import (
        DefinitionError,
        DuplicateName,
        HandrailDeprecationWarning,
        HandrailError,
        NeedsLogin,
        Refused,
        StopRun,
        ToolFailed,
        Transient,
        Unknown,
        UnknownName,
    )
    from handrail._values.result import Failure, FailureKind, Fault, Result
    from handrail._values.spec import Retry, Spec
else:
    _MODULES = {
        "_collection.lint": "Finding lint",
        "_collection.registry": "Registry",
        "_collection.source": "Source",
        "_collection.toolset": "Toolset",
        "_definition.decorator": "tool",
        "_definition.tool": "Tool",
        "_execution.executor": "Executor",
        "_execution.settings": "Approvals CallLimits Hook LongResults",
        "_permissions.checked_call": "CheckedCall",
        "_turn.turn": "Turn",
        "_values.access": "Access reads_file writes_file",
        "_values.call": "Args Call",
        "_values.content": "File Image Json Text",
        "_values.context": "Context",
        "_values.decision": "Allow Ask Decision Deny",
        "_values.effect": "DESTROY Effect Exposure READ WRITE",
        "_values.errors": (
            "DefinitionError DuplicateName HandrailDeprecationWarning HandrailError NeedsLogin "
            "Refused StopRun ToolFailed Transient Unknown UnknownName"
        ),
        "_values.result": "Failure FailureKind Fault Result",
        "_values.spec": "Retry Spec",
    }

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals())


__all__ = [
    "DESTROY",
    "READ",
    "WRITE",
    "Access",
    "Allow",
    "Approvals",
    "Args",
    "Ask",
    "Call",
    "CallLimits",
    "CheckedCall",
    "Context",
    "Decision",
    "DefinitionError",
    "Deny",
    "DuplicateName",
    "Effect",
    "Executor",
    "Exposure",
    "Failure",
    "FailureKind",
    "Fault",
    "File",
    "Finding",
    "HandrailDeprecationWarning",
    "HandrailError",
    "Hook",
    "Image",
    "Json",
    "LongResults",
    "NeedsLogin",
    "Refused",
    "Registry",
    "Result",
    "Retry",
    "Source",
    "Spec",
    "StopRun",
    "Text",
    "Tool",
    "ToolFailed",
    "Toolset",
    "Transient",
    "Turn",
    "Unknown",
    "UnknownName",
    "lint",
    "reads_file",
    "tool",
    "writes_file",
]
