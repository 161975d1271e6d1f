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
    _HOMES = {
        "DESTROY": "_values.effect",
        "READ": "_values.effect",
        "WRITE": "_values.effect",
        "Access": "_values.access",
        "Allow": "_values.decision",
        "Approvals": "_execution.settings",
        "Args": "_values.call",
        "Ask": "_values.decision",
        "Call": "_values.call",
        "CallLimits": "_execution.settings",
        "CheckedCall": "_permissions.checked_call",
        "Context": "_values.context",
        "Decision": "_values.decision",
        "DefinitionError": "_values.errors",
        "Deny": "_values.decision",
        "DuplicateName": "_values.errors",
        "Effect": "_values.effect",
        "Executor": "_execution.executor",
        "Exposure": "_values.effect",
        "Failure": "_values.result",
        "FailureKind": "_values.result",
        "Fault": "_values.result",
        "File": "_values.content",
        "Finding": "_collection.lint",
        "HandrailDeprecationWarning": "_values.errors",
        "HandrailError": "_values.errors",
        "Hook": "_execution.settings",
        "Image": "_values.content",
        "Json": "_values.content",
        "LongResults": "_execution.settings",
        "NeedsLogin": "_values.errors",
        "Refused": "_values.errors",
        "Registry": "_collection.registry",
        "Result": "_values.result",
        "Retry": "_values.spec",
        "Source": "_collection.source",
        "Spec": "_values.spec",
        "StopRun": "_values.errors",
        "Text": "_values.content",
        "Tool": "_definition.tool",
        "ToolFailed": "_values.errors",
        "Toolset": "_collection.toolset",
        "Transient": "_values.errors",
        "Turn": "_turn.turn",
        "Unknown": "_values.errors",
        "UnknownName": "_values.errors",
        "lint": "_collection.lint",
        "reads_file": "_values.access",
        "tool": "_definition.decorator",
        "writes_file": "_values.access",
    }

    __getattr__, __dir__ = make_lazy(__name__, _HOMES, globals())


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
