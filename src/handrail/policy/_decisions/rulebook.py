"""Rulebook: a policy made from rules, a mode and safeguards. It names the deciding rule."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from handrail import Access, Allow, Call, CheckedCall, Decision, Deny, Effect, Spec
from handrail.permissions import Matched, Origin
from handrail.policy._decisions import hosts
from handrail.policy._decisions.decision_text import (
    add_sources,
    ask_about_call,
    ask_about_command,
    describe_consequence,
    first_opinion,
    format_denial,
)
from handrail.policy._decisions.foresight import Foresight
from handrail.policy._decisions.opinions import (
    COMPUTED,
    NO_COMMAND_TO_CHECK,
    UNREADABLE,
    Opinion,
    ReadCommand,
    add_mode_opinion,
    allowances,
    command_accesses,
    command_allowances,
    command_objections,
    command_safeguards,
    git_objections,
    is_answerable,
    is_read_only,
    mode_effect,
    new_repository,
    objections,
    opinion_of,
    path_safeguards,
    possible_objections,
    spell_out,
)
from handrail.policy._decisions.recursion import recursion_objections
from handrail.policy._decisions.restricted_files import Restriction, RuleFiles
from handrail.policy._decisions.safeguards import ProtectedFiles, find_name_readers
from handrail.policy._decisions.tool_rules import FETCH_TAG, NO_ARGS, SHELL_TAG, ToolRules
from handrail.policy._decisions.unreachable import UnreachableRule, find_named, find_unreachable
from handrail.policy._decisions.wording import describe_unmatched
from handrail.policy._decisions.workspace_files import WorkspaceFiles, spell_folder
from handrail.policy._rules.errors import RuleProblem
from handrail.policy._rules.index import Candidates, Version
from handrail.policy._rules.mode import Mode, check_available
from handrail.policy._rules.parse import parse
from handrail.policy._rules.rule import Level, Rule
from handrail.policy._rules.shell_command import ShellCommand, Usable, read_shell_command
from handrail.policy._rules.source import SourceRules

_MAX_REMEMBERED = 4096
_NOT_SIMPLE = "it is not a simple command, so only a rule about the whole line can allow it"


class Rulebook:
    """A policy for an executor: decides calls by rules, then by the mode.

    Any matching deny wins, otherwise any ask, otherwise the allows. Set ``sandboxed`` if shell
    commands run in a sandbox. Without one, a command no rule matches needs approval in every mode.
    ``protected`` adds files and folders whose changes need approval in every mode. Commands start
    in ``workspace``. Hooks and settings named there by git's settings are protected. A command
    reading a whole folder needs approval if a rule asks about a file in it. Set ``hides_files`` if
    the sandbox hides such files, because it has ``find_restricted``. Set ``sources`` to ask about
    names that neither you nor your systems gave, and about commands.
    """

    def __init__(  # noqa: PLR0913  each is an option with a default
        self,
        rules: Iterable[Rule] = (),
        *,
        mode: Mode | str | None = None,
        sandboxed: bool = False,
        refusal: str = "",
        problems: Iterable[RuleProblem] = (),
        shell: Iterable[str] = ("bash",),
        protected: Iterable[str] = (),
        workspace: str | os.PathLike[str] | None = None,
        hides_files: bool = False,
        root: bool | None = None,
        ceiling: Mode | str = Mode.OPEN,
        clock: Callable[[], float] = time.time,
        sources: SourceRules = False,
    ) -> None:
        every = (*rules, *ToolRules.find_ready(sources, alone=mode is None))
        self.rules = tuple(sorted(every, key=lambda rule: rule.rank))
        self._mode = Mode.of(mode or Mode.ASK)
        self._sandboxed, self._hides_files = sandboxed, hides_files
        self._refusal = refusal  # why every call is denied, if rules could not be read
        self._version = Version()
        self.problems = tuple(problems) or ((RuleProblem("invalid", refusal),) if refusal else ())
        """Problems with rule files, for the people who run the application."""
        self._shell = frozenset(shell)
        self._protected = ProtectedFiles(workspace, protected)
        self._workspace, self._has_workspace = workspace or ".", workspace is not None
        self._folders = spell_folder(workspace)  # the workspace's absolute paths
        self._files = WorkspaceFiles(self._workspace, self._find_hidden if hides_files else None)
        self._read = partial(ReadCommand.of, folders=self._folders, files=self._files)
        self._clock = clock
        self._root = hasattr(os, "geteuid") and os.geteuid() == 0 if root is None else root
        self.ceiling = Mode.of(ceiling)
        """The most permissive mode ``set_mode`` accepts."""
        self._check_mode(self._mode)
        self._lock = threading.Lock()  # approvals are remembered from other threads
        self._tools: dict[str, ToolRules] = {}
        self._known_files: RuleFiles | None = None
        self._known_foresight: Foresight | None = None

    @classmethod
    def from_toml(cls, text: str, *, file: str = "rules.toml", **options: Any) -> Rulebook:
        """Make a policy from a rule file's text. ``mode`` overrides the file's mode."""
        read = parse(text, file=file, level=Level.USER)
        usual: dict[str, Any] = {"mode": read.mode or Mode.ASK, "sources": read.sources}
        return cls(read.rules, **usual | options)

    @property
    def mode(self) -> Mode:
        """The mode, which decides calls no rule matches."""
        return self._mode

    def set_mode(self, mode: Mode | str) -> None:
        """Change the mode. Approvals given before no longer apply."""
        self._check_mode(chosen := Mode.of(mode))
        with self._lock:
            self._mode, self._tools = chosen, {}

    def _check_mode(self, mode: Mode) -> None:
        check_available(mode, self.ceiling, confined=self._sandboxed or not self._root)

    def add(self, rule: Rule) -> None:
        """Add a rule, for as long as this object exists."""
        with self._lock:
            self.rules = tuple(sorted((*self.rules, rule), key=lambda rule: rule.rank))
            self._tools = {}

    def remove(self, rule: Rule) -> None:
        """Remove a rule."""
        with self._lock:
            self.rules = tuple(other for other in self.rules if other != rule)
            self._tools = {}

    def is_shell_tool(self, tool: str) -> bool:
        """Return whether a tool runs shell commands, as far as is known."""
        known = self._tools.get(tool)
        return tool in self._shell if known is None else known.shell

    @property
    def uses_sources(self) -> bool:
        """Whether a rule depends on sources, or on what was read before."""
        return any(rule.source for rule in self.rules)

    @property
    def is_sandboxed(self) -> bool:
        """Whether shell commands run in a sandbox."""
        return self._sandboxed

    def is_answered_by_line(self, origin: Origin) -> bool:
        """Return whether a rule for one whole command applies despite the asking rule."""
        return any(rule.origin == origin and is_answerable(opinion_of(rule)) for rule in self.rules)

    def allowing(self, tool: str) -> tuple[Rule, ...]:
        """Return the rules currently allowing a tool's calls with any arguments."""
        found = (rule for rule in self.rules if rule.decide == "allow" and not rule.args)
        return tuple(one for one in found if one.is_active(self._now()) and one.names(tool))

    def unreachable_rules(self, specs: Iterable[Spec] = ()) -> tuple[UnreachableRule, ...]:
        """Return rules that can never decide a call. With specs, also those for unknown tools."""
        return tuple(find_unreachable(self.rules, list(specs), self._now()))

    @property
    def named_tools(self) -> Mapping[str, Origin]:
        """Tools named in full by rules, each with its first rule, without built-in rules."""
        return find_named(self.rules)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    @property
    def version(self) -> str:
        """Changes whenever the policy changes, except when an approval is remembered."""
        mode, protected = self._mode.name, self._protected.named
        given: list[object] = [mode, self._sandboxed, self._refusal, protected]
        return self._version.of(self.rules, given)

    def __call__(self, call: CheckedCall) -> Decision:
        """Decide a call."""
        tool, accesses = self._tool_rules(call.spec), call.accesses
        known = tool.find_remembered(call)
        if known is not None and not self._protected.depends_on_disk(accesses[0]):
            (access,) = accesses
            decision = (remembered := known[access.verb]).get(access.resource)
            if decision is None:
                decision = self._decide(call, tool)
                if len(remembered) < _MAX_REMEMBERED:
                    remembered[access.resource] = decision
            return decision
        return self._decide(call, tool)

    def is_quick(self, call: CheckedCall) -> bool:
        """Return whether a call can be decided in the event loop: no command, and little text."""
        return self._tool_rules(call.spec).is_quick(call)

    def explain(self, call: CheckedCall) -> tuple[Matched, ...]:
        """Return every rule matching a call, the deciding one first."""
        return tuple(one.matched for one in self._opinions(call, self._tool_rules(call.spec)))

    def never(self, spec: Spec) -> bool:
        """Return whether every call to a tool is denied, if it touches what its effect says."""
        return self.denies_all(spec, (Access(spec.effect, "*"),))

    def denies_all(self, spec: Spec, accesses: tuple[Access, ...] | None) -> bool:
        """Return whether every call to a tool is denied. None: its accesses depend on the call."""
        return bool(self._refusal) or self._foresight.denies_all(spec, accesses)

    def asks_always(self, spec: Spec, accesses: tuple[Access, ...] | None) -> bool:
        """Return whether every call to a tool is known to need approval or be denied."""
        if accesses is None or self._tool_rules(spec).shell:
            return self._foresight.asks_always(spec)
        call = CheckedCall.recorded(Call(spec.name, "{}"), spec, accesses)
        return self._opinions(call, self._foresight.find_lenient(spec))[0].verdict != "allow"

    @property
    def _foresight(self) -> Foresight:
        rules, mode, known = self.rules, self._mode, self._known_foresight
        if known is None or known.rules is not rules or known.mode is not mode:
            known = self._known_foresight = Foresight(rules, mode, self._shell)
        return known

    def find_restricted(
        self, command: str = "", *, folder: str | os.PathLike[str] | None = None
    ) -> dict[str, Restriction]:
        """Return workspace files that rules deny or ask about, for a sandbox.

        A file closed to reading is "hidden", one closed to changes "read-only". A file under a rule
        which only asks is omitted if the command names it: it ran with approval. Pass this method
        as ``Sandbox(restricted=...)``.
        """
        top, searched = folder or self._workspace, not self._hides_files
        usable = partial(self._is_usable, now=self._now())
        return self._rule_files().find_restricted(top, command, usable, searched=searched)

    def find_hosts(self) -> list[str]:
        """Return hosts opened by rules to all commands, for ``Sandbox(opened=...)``.

        In ``plan`` mode there are none: an open host can be sent to.
        """
        if self.mode is Mode.PLAN:
            return []
        usable = partial(self._is_usable, now=self._now())
        return hosts.find_open_hosts(self.rules, self._shell, usable)

    def find_asked(self, folder: str) -> set[str]:
        """Return files in a folder whose reading needs approval under rules."""
        return self._rule_files().find_asked(folder, partial(self._is_usable, now=self._now()))

    def _find_hidden(self) -> set[str]:
        return {path for path, kind in self.find_restricted().items() if kind == "hidden"}

    def _rule_files(self) -> RuleFiles:
        if self._known_files is None or self._known_files.rules is not self.rules:
            self._known_files = RuleFiles(self.rules, self._shell)
        return self._known_files

    def _tool_rules(self, spec: Spec) -> ToolRules:
        indexed = self._tools.get(spec.name)
        if indexed is not None and indexed.spec is spec:
            return indexed
        with self._lock:  # a rule change replaces the dictionary, and this entry with it
            rules, tools = self.rules, self._tools
        timeless = all(rule.expires is None for rule in rules)
        shell = spec.name in self._shell or SHELL_TAG in spec.tags
        tool = tools[spec.name] = ToolRules(spec, rules, shell=shell, timeless=timeless)
        return tool

    def _decide(self, call: CheckedCall, tool: ToolRules) -> Decision:
        first, accesses = first_opinion(self._opinions(call, tool)), call.accesses
        if first.verdict == "allow":
            return Allow(first.origin)
        if first.verdict == "deny":
            return Deny(format_denial(first), first.origin)
        name, text = tool.spec.name, tool.read_command(call.call)
        if text is None:
            asked = ask_about_call(name, accesses, first)
        else:
            usable = partial(self._is_usable, now=self._now(), args=tool.read_args(call.call))
            read = self._read(read_shell_command(text), tool.commands, usable)
            asked = ask_about_command(name, read, accesses, first, sandboxed=self._sandboxed)
        return add_sources(asked, call, first, in_workspace=self._has_workspace)

    def _opinions(self, call: CheckedCall, tool: ToolRules) -> list[Opinion]:
        """Return all opinions, the deciding one first."""
        if self._refusal:
            return [Opinion("deny", Level.BUILT_IN, UNREADABLE, self._refusal)]
        args, accesses = tool.read_args(call.call), call.accesses
        usable = partial(self._is_usable, now=self._now(), args=args)
        more = tool.object_to_sources(call, usable, in_workspace=self._has_workspace)
        text = tool.read_command(call.call)
        if text is not None:
            read = self._read(read_shell_command(text), tool.commands, usable)
            return self._opinions_on_command(tool, read, call, more)
        rules = self._drop_expired(tool.rules.candidates(accesses))
        wide = {} if tool.filtered else self._drop_expired(tool.rules.candidates_below(accesses))
        opinions = [*more, *path_safeguards(accesses, self._protected), *objections(rules, args)]
        opinions += possible_objections(wide, args)
        if tool.shell:
            opinions.append(NO_COMMAND_TO_CHECK)
        allowed = allowances(rules, args, accesses)
        effect = max(map(mode_effect, accesses), default=tool.spec.effect)
        if allowed and FETCH_TAG in tool.spec.tags:
            effect = Effect.READ
        return add_mode_opinion([*opinions, *allowed], effect, self._mode)

    def _opinions_on_command(
        self, tool: ToolRules, read: ReadCommand, call: CheckedCall, more: Sequence[Opinion]
    ) -> list[Opinion]:
        from handrail.policy._consequences.consequences import find_computed

        args, accesses = tool.read_args(call.call), call.accesses
        usable = partial(self._is_usable, now=self._now(), args=args)
        command, matched, sent = read.command, read.matched, hosts.with_sending(accesses)
        opinions = self._objections_to_command(tool, read, args, sent, usable=usable)
        allowed = command_allowances(matched)
        effect = Effect.DESTROY  # a shell tool's declared effect says nothing about its commands
        if allowed:
            effect = max(Effect.READ if is_read_only(part) else Effect.WRITE for part in matched)
        if lines := [rule for rule in tool.lines if rule.line == command.text and usable(rule)]:
            if any(rule.level is not Level.PROJECT for rule in lines):
                opinions = [one for one in opinions if not is_answerable(one)]
            allowed = [opinion_of(rule) for rule in lines]
        caused = "" if lines else describe_consequence(read.known, matched, self._mode)
        caused = caused or hosts.describe_unopened(tool, accesses, usable)
        if caused:
            allowed, effect = [], Effect.DESTROY  # only a written rule can allow it
        unclear = _NOT_SIMPLE if command.simple is None else describe_unmatched(matched)
        if any(tool.commands.may_restrict(argv) for argv in find_computed(command)):
            unclear = unclear or _NOT_SIMPLE
            opinions.append(Opinion("ask", Level.BUILT_IN, COMPUTED, unclear, once=True))
        says = partial(add_mode_opinion, caused=caused, sandboxed=self._sandboxed)
        return says([*more, *opinions, *allowed], effect, self._mode, reason=caused or unclear)

    def _is_usable(self, rule: Rule, *, now: datetime, args: Mapping[str, Any] = NO_ARGS) -> bool:
        """Return whether a rule applies to a command with these arguments."""
        return (
            rule.is_active(now)
            and (not rule.args or rule.fits(args))
            and (self._sandboxed or not rule.sandboxed)
        )

    def read_command(self, text: str) -> ShellCommand:
        """Return a shell command, with paths in the workspace relative to it."""
        return read_shell_command(text).seen_from(self._folders)

    def _objections_to_command(
        self,
        tool: ToolRules,
        read: ReadCommand,
        args: Mapping[str, Any],
        accesses: Sequence[Access],
        *,
        usable: Usable,
    ) -> list[Opinion]:
        """Return what safeguards and rules say against a command."""
        command, index = read.command, tool.commands
        touched = command_accesses(command, read.matched)
        names = find_name_readers(command)
        shown = command_accesses(command, read.matched, names) if names else touched
        named = [access for access in accesses if access.resource != "*"]
        opinions = [*hosts.folder_safeguards(named, self._protected)]
        opinions += command_safeguards(read.known, self._protected, denies=tool.denies)
        for one in dict.fromkeys((read.spelled, command)):
            opinions += command_objections(index, one, usable)
        made = new_repository(command, read.matched, self._protected)
        opinions += path_safeguards([*named, *touched, *made], self._protected)
        folders = self._folders if read.spelled is not command else ()
        kinds = {"deny": touched, "ask": shown} if names else {"denyask": touched}
        for says, named_files in kinds.items():
            resources = [*accesses, *named_files, *spell_out(named_files, folders)]
            rules = self._drop_expired(tool.rules.candidates(resources))
            opinions += [one for one in objections(rules, args) if one.verdict in says]
        wide = self._drop_expired(tool.rules.candidates_below(named))
        opinions += possible_objections(wide, args)
        opinions += recursion_objections(tool.guarded, command, read.matched, self._files)
        if self._mode is Mode.PLAN or not (self._sandboxed or self._mode is Mode.OPEN):
            opinions += git_objections(read.matched, self._files.find_git_program)
        return list(dict.fromkeys(opinions))

    def _drop_expired(self, rules: Candidates) -> Candidates:
        now = self._now() if rules else None
        return {rule: found for rule, found in rules.items() if now and rule.is_active(now)}
