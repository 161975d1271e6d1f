"""Hooks in the settings: programs before and after calls, and when a run starts and ends.

They can only refuse, never allow what the rules do not.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from handrail import (
    Allow,
    Ask,
    CallLimits,
    CheckedCall,
    Decision,
    Deny,
    HandrailError,
    Hook,
)
from handrail.cli._base.exits import Halt
from handrail.cli._base.hook_table import OTHER_EVENTS, HookProgram, programs_of
from handrail.cli._base.printable import one_line
from handrail.cli._project.workspace_code import SOURCES_ONLY, StartedLine
from handrail.hooks import (
    AskProgram,
    HookAnswer,
    ask_program,
    hook_variables,
    make_program_hook,
)
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
_NOTHING = HookAnswer(0, "", "", {})
_FAILED = _NOTHING._replace(code=2, err="a hook of the settings failed. Tell the user.")
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
_MODES = {"plan": "plan", "edits": "acceptEdits", "open": "bypassPermissions"}
"""Our modes, by the names hooks know."""
_AGENT_TYPE = "Explore"
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
        hook = make_program_hook(self._around, self._questions.__setitem__)
        before = hook.before if "PreToolUse" in self.table else None
        after = hook.after if not self.table.keys().isdisjoint(_AFTER) else None
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
            said.append(answer.context or answer.text.strip())
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
            said.append(answer.context or answer.text.strip())
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
        args = json.loads(str(pending.call.args))
        about = {"tool_name": name, "tool_use_id": call_id, "tool_input": args}
        async for answer in self._run("PermissionRequest", **about):
            answer.stop_if_asked()
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

    def _around(self, event: str, call: CheckedCall) -> Iterator[AskProgram]:
        """Yield the hooks for an event about a call."""
        if event == "PreToolUse":
            self._questions.pop(call.id, None)
        for hook in self._programs(event, call.name):
            yield partial(self._answer, hook)
        if call.name == "task" and event != "PreToolUse":
            for hook in self._programs("SubagentStop", _AGENT_TYPE):
                yield partial(self._answer_end, hook)

    async def _answer_end(self, hook: HookProgram, about: Mapping[str, Any]) -> HookAnswer:
        own: dict[str, Any] = {
            "stop_hook_active": False,
            "agent_id": about["tool_use_id"],
            "agent_type": _AGENT_TYPE,
            "last_assistant_message": about.get("tool_response", about.get("error")),
        }
        return await self._answer(hook, own)

    async def _run(self, event: str, **about: Any) -> AsyncGenerator[HookAnswer]:
        """Run an event's programs, one after the other."""
        subject = about.get("tool_name") or str(about.get(_SUBJECTS.get(event, ""), ""))
        for hook in self._programs(event, subject):
            yield await self._answer(hook, about)

    async def _answer(self, hook: HookProgram, about: Mapping[str, Any]) -> HookAnswer:
        """Run one program. If it fails, this is reported, and refuses a call it would precede."""
        try:
            return await self._ask(hook, about)
        except HandrailError as error:
            self.say(one_line(f"{hook.event} hook failed: {error}"))
            return _FAILED if hook.event == "PreToolUse" else _NOTHING

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
        if "tool_name" in about:
            request["tool_name"] = _usual_name(about["tool_name"])
        try:
            sandbox = await to_thread.run_sync(self._admit, hook)
        except SandboxUnavailable as error:
            raise HandrailError(f"{_NO_SANDBOX}: {error} {_SWITCH}") from None
        answer = await ask_program(
            hook.command,
            request,
            folder=self.workspace,
            variables=_variables(self.workspace),
            seconds=hook.seconds,
            sandbox=sandbox,
        )
        for line in filter(None, (answer.complaint, answer.data.get("systemMessage"))):
            self.say(one_line(f"{hook.event} hook `{hook.command}`: {line}"))
        return answer

    def _admit(self, hook: HookProgram) -> Sandbox | None:
        """Return a program's sandbox, or None if it runs outside. Raises UntrustedCode."""
        outside = self.unsandboxed or not hook.sandboxed
        line_of(hook, self.workspace, outside=outside).check(self.workspace)
        return None if outside else self.sandbox()

    def _programs(self, event: str, subject: str = "") -> Iterator[HookProgram]:
        """Yield an event's hooks about a tool or something else, in order."""
        for hook in programs_of(self.table):
            if hook.event == event and (not subject or _matches(hook.matcher, subject)):
                yield hook


def line_of(hook: HookProgram, workspace: Path, *, outside: bool) -> StartedLine:
    """Return a hook's line, for finding its code."""
    return StartedLine(hook.command, outside, _variables(workspace), workspace)


def _variables(workspace: Path) -> dict[str, str]:
    return hook_variables(workspace) | SOURCES_ONLY


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


def _usual_name(tool: str) -> str:
    return USUAL_NAMES.get(tool, tool)


def _matches(matcher: str, tool: str) -> bool:
    if matcher in {"", "*"}:
        return True
    return any(re.fullmatch(matcher, name) for name in (tool, _usual_name(tool)))
