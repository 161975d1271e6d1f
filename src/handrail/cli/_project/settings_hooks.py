"""Hooks in the settings: programs before and after calls, and when a run starts and ends.

They can only refuse, never allow what the rules do not.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from handrail import (
    Allow,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Decision,
    Deny,
    FailureKind,
    Hook,
    Result,
    StopRun,
    Text,
)
from handrail._support import is_object
from handrail.cli._base.exits import Halt
from handrail.cli._base.hook_table import OTHER_EVENTS, HookProgram, programs_of
from handrail.cli._base.printable import one_line
from handrail.cli._project.hook_program import (
    HookAnswer,
    HookFailed,
    hook_variables,
    run_program,
)
from handrail.cli._project.workspace_code import StartedLine, UntrustedCode
from handrail.permissions import Answer, Approver, Origin, Pending, Policy

if TYPE_CHECKING:  # most settings have no hooks
    from handrail.sandbox import Sandbox

USUAL_NAMES = {
    "ask_user": "AskUserQuestion",
    "bash": "Bash",
    "edit": "Edit",
    "glob": "Glob",
    "grep": "Grep",
    "read": "Read",
    "task": "Task",
    "todo": "TodoWrite",
    "web_fetch": "WebFetch",
    "write": "Write",
}
"""Our tools' names in people's hooks."""
_NO_SANDBOX = "hooks run in the sandbox, which is not available"
_SWITCH = "To run them with your rights, set `unsandboxed_hooks = true` in your own settings."
_FAILED = "Not run: a hook of the settings failed. Tell the user."
_AFTER = ("PostToolUse", "PostToolUseFailure", "SubagentStop")
_NOTIFY_SECONDS = 5.0
"""How long an answer waits for programs announcing its question."""
_SUBJECTS = {
    "Notification": "notification_type",
    "PreCompact": "trigger",
    "SessionEnd": "reason",
    "SessionStart": "source",
    "SubagentStop": "agent_type",
}
"""The field for a matcher, in events without a tool."""
_NOT_RUN = (FailureKind.DENIED, FailureKind.PENDING)
_MODES = {"plan": "plan", "edits": "acceptEdits", "open": "bypassPermissions"}
"""Our modes, by the names hooks know."""
_ORIGIN = Origin("PreToolUse hook", kind="built-in")


@dataclass
class SettingsHooks:
    """The settings' hooks, for one run."""

    table: Mapping[str, Sequence[Any]]
    workspace: Path
    run_id: str
    say: Callable[[str], None]
    """Shows a line to the person."""
    sandbox: Callable[[], Sandbox]
    """Returns the sandbox for programs, as the mode is now. Raises SandboxUnavailable."""
    mode: Callable[[], str] = str
    """Returns the mode."""
    unsandboxed: bool = False
    """Whether all programs run outside the sandbox."""
    is_manual: bool = False
    """Whether the user asked for the summary being made."""
    _questions: dict[str, str] = field(default_factory=dict[str, str])
    """Hooks' questions, by call id."""

    @property
    def hooks(self) -> list[Hook]:
        """The hooks for an executor."""
        before = self._before if "PreToolUse" in self.table else None
        after = self._after if not self.table.keys().isdisjoint(_AFTER) else None
        return [Hook(before=before, after=after)] if before or after else []

    def limit(self, rules: Policy) -> Policy:
        """Return a policy that asks wherever a hook asks, and else decides by the rules."""
        return HookPolicy(rules, self._questions) if "PreToolUse" in self.table else rules

    @property
    def limits(self) -> CallLimits:
        """Executor limits giving all programs for a call their time."""
        calls, usual = ("PreToolUse", *_AFTER), CallLimits()
        longest = max(sum(hook.seconds for hook in self._programs(event)) for event in calls)
        return replace(usual, hook_timeout=max(usual.hook_timeout, longest + 10.0))

    async def start(self, *, is_resumed: bool) -> str:
        """Run the hooks for a run's start. Returns text for the model."""
        said = list[str]()
        if missing := [event for event in OTHER_EVENTS if event in self.table]:
            self.say(f"these hooks do not run, as there is no such event: {', '.join(missing)}")
        source = "resume" if is_resumed else "startup"
        async for answer in self._run("SessionStart", source=source):
            said.append(answer.context or ("" if answer.data else answer.out.strip()))
        return "\n\n".join(filter(None, said))

    async def end(self, *, is_again: bool) -> str:
        """Run the hooks for a run's end. Returns why it must continue, or ""."""
        said = [answer.objection async for answer in self._run("Stop", stop_hook_active=is_again)]
        return "\n\n".join(filter(None, said))

    async def submit(self, prompt: str) -> str:
        """Run the hooks for a prompt. Returns text for the model; a Halt if one refuses it."""
        said = list[str]()
        async for answer in self._run("UserPromptSubmit", prompt=prompt):
            if why := answer.objection or answer.stop_reason:
                hint = "change the message, or the hook"
                raise Halt(f"a hook refused the message: {why}", code="hook", hint=hint)
            said.append(answer.context or ("" if answer.data else answer.out.strip()))
        return "\n\n".join(filter(None, said))

    async def compact(self) -> None:
        """Run the hooks before summarizing the conversation."""
        trigger = "manual" if self.is_manual else "auto"
        async for _ in self._run("PreCompact", trigger=trigger, custom_instructions=""):
            pass

    async def close(self, reason: str) -> None:
        """Run the hooks for the session's end."""
        async for _ in self._run("SessionEnd", reason=reason):
            pass

    def request(self, approver: Approver | None) -> Approver | None:
        """Return an approver for which hooks can deny, and which announces each question."""
        if approver is None or self.table.keys().isdisjoint(("PermissionRequest", "Notification")):
            return approver

        async def ask(pending: Pending) -> Answer | Pending:
            why = await self._refuse_request(pending)
            if why:
                return Deny(f"Not run: {why}")
            answer: Answer | Pending | None = None
            async with anyio.create_task_group() as group:
                group.start_soon(self._notify, pending.call.name)
                answer = await approver(pending)
                group.cancel_scope.deadline = anyio.current_time() + _NOTIFY_SECONDS
            assert answer is not None  # noqa: S101  an error would have been raised
            return answer

        return ask

    async def _refuse_request(self, pending: Pending) -> str:
        """Run the hooks for a question about a call. Returns why one denies it."""
        name, call_id = pending.call.name, pending.call.id
        about = {"tool_use_id": call_id, "tool_input": json.loads(str(pending.call.args))}
        async for answer in self._run("PermissionRequest", name, **about):
            _stop_if_asked(answer)
            if why := answer.objection or answer.denial:
                return why
        return ""

    async def _notify(self, tool: str) -> None:
        about = {
            "message": f"handrail needs your permission to use {_usual_name(tool)}",
            "title": "Permission needed",
            "notification_type": "permission_prompt",
        }
        async for _ in self._run("Notification", **about):
            pass

    async def _before(self, call: CheckedCall) -> CheckedCall | Call | Result:
        """Run the hooks before a call. Each gets the arguments returned by the one before it."""
        self._questions.pop(call.id, None)
        given = args = json.loads(call.parsed.text)
        for hook in self._programs("PreToolUse", call.name):
            about = {
                "tool_name": _usual_name(call.name),
                "tool_use_id": call.id,
                "tool_input": args,
            }
            try:
                answer = await self._ask(hook, about)
            except HookFailed as error:
                self._say_failed("PreToolUse", error)
                return call.refuse(_FAILED)
            _stop_if_asked(answer)
            if answer.objection:
                return call.refuse(f"Not run: {answer.objection}")
            if answer.question:
                self._questions[call.id] = answer.question
            changed = answer.specific.get("updatedInput")
            args = changed if is_object(changed) else args
        return call if args is given else replace(call.call, args=json.dumps(args))

    async def _after(self, call: CheckedCall | Call, result: Result) -> Result:
        """Run the hooks after a call that ran, and add their text to its result."""
        failure = result.failure
        if not isinstance(call, CheckedCall) or (failure and failure.kind in _NOT_RUN):
            return result
        about = {"tool_use_id": call.id, "tool_input": json.loads(call.parsed.text)}
        if failure is None:
            event, about["tool_response"] = "PostToolUse", result.text
        else:
            is_interrupt = failure.kind is FailureKind.CANCELLED
            event = "PostToolUseFailure"
            about |= {"error": failure.message, "is_interrupt": is_interrupt}
        said = list[str]()
        async for answer in self._run(event, call.name, **about):
            _stop_if_asked(answer)
            said += filter(None, (answer.objection, answer.context))
        if call.name == "task":
            said += await self._end_subagent(call.id, result.text)
        return _add_text(result, said)

    async def _end_subagent(self, call_id: str, text: str) -> list[str]:
        about: dict[str, Any] = {
            "stop_hook_active": False,
            "agent_id": call_id,
            "agent_type": "Explore",
            "last_assistant_message": text,
        }
        said = [answer.objection async for answer in self._run("SubagentStop", **about)]
        return list(filter(None, said))

    async def _run(self, event: str, tool: str = "", **about: Any) -> AsyncGenerator[HookAnswer]:
        """Run an event's programs, one after the other. A failing one is reported."""
        named = {"tool_name": _usual_name(tool)} if tool else {}
        subject = tool or str(about.get(_SUBJECTS.get(event, ""), ""))
        for hook in self._programs(event, subject):
            try:
                yield await self._ask(hook, {**named, **about})
            except HookFailed as error:
                self._say_failed(event, error)

    async def _ask(self, hook: HookProgram, about: Mapping[str, Any]) -> HookAnswer:
        """Run one program."""
        from handrail.sandbox import SandboxUnavailable

        request = {
            "session_id": self.run_id,
            "cwd": str(self.workspace),
            "permission_mode": _MODES.get(self.mode(), "default"),
            "hook_event_name": hook.event,
            **about,
        }
        try:
            answer = await run_program(
                hook.command,
                request,
                workspace=self.workspace,
                seconds=hook.seconds,
                sandbox=await to_thread.run_sync(self._admit, hook),
            )
        except SandboxUnavailable as error:
            raise HookFailed(f"{_NO_SANDBOX}: {error} {_SWITCH}") from None
        for line in filter(None, (answer.complaint, answer.data.get("systemMessage"))):
            self.say(one_line(f"{hook.event} hook `{hook.command}`: {line}"))
        return answer

    def _admit(self, hook: HookProgram) -> Sandbox | None:
        """Return a program's sandbox, or None if it runs outside. Raises HookFailed."""
        outside = self.unsandboxed or not hook.sandboxed
        try:
            line_of(hook, self.workspace, outside=outside).check(self.workspace)
        except UntrustedCode as error:
            raise HookFailed(str(error)) from None
        return None if outside else self.sandbox()

    def _programs(self, event: str, subject: str = "") -> Iterator[HookProgram]:
        """Yield an event's hooks about a tool or something else, in order."""
        for hook in programs_of(self.table):
            if hook.event == event and (not subject or _matches(hook.matcher, subject)):
                yield hook

    def _say_failed(self, event: str, error: HookFailed) -> None:
        self.say(one_line(f"{event} hook failed: {error}"))


def line_of(hook: HookProgram, workspace: Path, *, outside: bool) -> StartedLine:
    """Return a hook's line, for finding its code."""
    return StartedLine(hook.command, outside, hook_variables(workspace), workspace)


class HookPolicy:
    """The rules, and the hooks' questions."""

    def __init__(self, rules: Policy, questions: Mapping[str, str]) -> None:
        self._rules, self._questions = rules, questions

    def __call__(self, checked: CheckedCall) -> Decision:
        """Decide by the rules. If they allow a call a hook asks about, ask."""
        decision, question = self._rules(checked), self._questions.get(checked.id)
        if question is not None and isinstance(decision, Ask):
            return replace(decision, review=False)
        if question is None or not isinstance(decision, Allow):
            return decision
        return Ask(question, _ORIGIN, once=True)

    def __getattr__(self, name: str) -> Any:
        """Everything else is as in the rules."""
        return getattr(self._rules, name)


def _stop_if_asked(answer: HookAnswer) -> None:
    if answer.stop_reason:
        raise StopRun(answer.stop_reason)


def _usual_name(tool: str) -> str:
    return USUAL_NAMES.get(tool, tool)


def _matches(matcher: str, tool: str) -> bool:
    if matcher in {"", "*"}:
        return True
    return any(re.fullmatch(matcher, name) for name in (tool, _usual_name(tool)))


def _add_text(result: Result, said: Sequence[str]) -> Result:
    if not said:
        return result
    note = "\n\n".join(["", *(f"[Hook: {text}]" for text in said)])
    parts = (*result.parts, Text(note.strip())) if result.parts else ()
    return result._replace(text=f"{result.text}{note}", parts=parts)
