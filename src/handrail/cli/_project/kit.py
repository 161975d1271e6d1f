"""A command's services: tools, rules, the workspace and the sandbox, by the settings.

Slow imports are inside the parts needing them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from handrail import HandrailError, Spec, Tool, Toolset
from handrail._support.git_settings import find_branch
from handrail.cli._base.app import App
from handrail.cli._base.exits import Halt
from handrail.cli._base.settings import closest_name

if TYPE_CHECKING:
    from handrail import CheckedCall, Decision
    from handrail.agent import Skills
    from handrail.cli._project.own_places import OwnPlaces
    from handrail.cli._project.settings_hooks import SettingsHooks
    from handrail.policy import RememberedApprovals, Rulebook, RulePaths
    from handrail.sandbox import Restriction, Sandbox
    from handrail.tools import Jobs, JobStatus, ToolSummary, Workspace

CODING = "coding"
"""The coding tools' source name."""
_SHELL_TAG = "shell"
"""The tag of the tools whose commands rules check."""
MAX_COMPARED_BYTES = 400_000
"""Largest file to show a diff for."""


@dataclass(frozen=True)
class Kit:
    """The parts defined by an App's settings. Each is created on first use."""

    app: App
    servers: bool = True
    """Whether approved MCP tools are included."""
    more: Toolset = field(default_factory=Toolset)
    """Tools beside those in the settings."""

    @cached_property
    def places(self) -> RulePaths:
        """The rule files' paths."""
        from handrail.policy import RulePaths

        return RulePaths.of(self.app.workspace)

    @cached_property
    def rules(self) -> Rulebook:
        """The applicable rules. Problems with their files are reported."""
        book = self.load_rules()
        for problem in book.problems:
            self.app.say(str(problem))
        return book

    def load_rules(self) -> Rulebook:
        """Load the applicable rules, without reporting problems."""
        from handrail.policy import load

        try:
            return load(
                self.places,
                mode=self.app.settings["mode"],
                sandboxed=self.confined,
                hides_files=self._hides_files,
                protected=self._own.protected,
                private=self._own.private,
            )
        except HandrailError as error:
            raise Halt(str(error), code="rules", hint="pass another mode: `--mode edits`") from None

    @cached_property
    def memory(self) -> RememberedApprovals:
        """The remembered approvals."""
        from handrail.policy import RememberedApprovals

        return RememberedApprovals(self.rules, self.places)

    @cached_property
    def workspace(self) -> Workspace:
        """The coding tools' folder, or a Halt if it is the home folder."""
        from handrail.sandbox import contains_home
        from handrail.tools import Workspace, hide_denied

        if contains_home(self.app.workspace):
            raise Halt(
                f"the workspace {str(self.app.workspace)!r} is your home folder or contains it: "
                "tools could change what runs when you log in",
                code="usage",
                hint="change to the folder of a project, or pass it with `-C`",
            )
        self._own.drop_old_undo_folders()
        hides, folder = hide_denied(_LazyRules(self)), self._own.undo_folder
        return Workspace(self.app.workspace, hides=hides, undo_folder=folder)

    @cached_property
    def sandbox(self) -> Sandbox | None:
        """The sandbox for commands; None if it is not available here, or not needed."""
        settings = self.app.settings
        if CODING not in settings["tools"] or "bash" in settings["without"]:
            return None
        from handrail.sandbox import SandboxUnavailable, contains_home

        if contains_home(self.app.workspace):
            return None  # `workspace` says why
        try:
            return self._make_sandbox(readable=self._skill_folders())
        except SandboxUnavailable as error:
            self.app.say(f"the bash tool is not available: {error}")
            self.app.say("  run `handrail doctor` to see what is missing")
            return None

    @cached_property
    def skills(self) -> Skills:
        """The user's own skills, and the workspace's trusted ones."""
        from handrail.agent import find_skills
        from handrail.cli._project.trusted import make_trust_check

        workspace = self.app.workspace
        trusted = make_trust_check(workspace)
        return find_skills(workspace, trusted=trusted, user=[self._own.skills])

    def _skill_folders(self) -> Sequence[str]:
        """Return the user's own skill folders: commands can run their scripts."""
        if not self._own.skills.is_dir():
            return ()
        return [skill.folder for skill in self.skills.skills if skill.from_user]

    @cached_property
    def _own(self) -> OwnPlaces:
        from handrail.cli._project.own_places import OwnPlaces

        return OwnPlaces(self.app.workspace, self.app.settings)

    @cached_property
    def confined(self) -> bool:
        """Whether every tool for commands runs them in the sandbox."""
        if self.sandbox is None:
            return False
        try:
            others = [tool for part in self._of_files.values() for tool in part]
        except Halt:  # `tools` reports it
            return False
        return not any(_SHELL_TAG in tool.spec.tags for tool in others)

    @cached_property
    def tools(self) -> Toolset:
        """The tools named by the settings."""
        try:
            whole = Toolset(*(tool for part in self._parts() for tool in part))
        except HandrailError as error:
            hint = "rename one of them, or remove its source from `--tools`"
            raise Halt(str(error), code="tools", hint=hint) from None
        without = set(self.app.settings["without"])
        self._warn_unknown(name for tool in whole for name in _names(tool))
        return Toolset(*(tool for tool in whole if without.isdisjoint(_names(tool))))

    @property
    def outlines(self) -> Sequence[Spec | ToolSummary]:
        """Tool summaries. The coding tools are not created for this, as it is slow."""
        settings = self.app.settings
        if settings["tools"] != [CODING] or len(self._of_servers):
            return self.tools.specs
        from handrail.tools import outline

        outlines = outline(
            without=self._excluded(),
            network=settings["allowed_hosts"],
            opens_hosts=self.sandbox is not None and self.sandbox.opens_hosts,
        )
        self._warn_unknown(tool.name for tool in outlines)
        return outlines

    def make_hooks(self, run_id: str) -> SettingsHooks:
        """Return the settings' hooks, for one run."""
        from handrail.cli._project.settings_hooks import SettingsHooks

        app, settings = self.app, self.app.settings
        outside = settings["unsandboxed_hooks"]
        return SettingsHooks(
            settings["hooks"],
            app.workspace,
            run_id,
            app.say,
            self._hook_sandbox,
            mode=lambda: str(self.rules.mode),
            unsandboxed=outside,
        )

    def _hook_sandbox(self) -> Sandbox:
        """Return the sandbox for hooks. In the mode plan, the workspace is read-only there."""
        return (
            self._plan_hook_sandbox if str(self.rules.mode) == "plan" else self._free_hook_sandbox
        )

    @cached_property
    def _free_hook_sandbox(self) -> Sandbox:
        return self._make_sandbox(readable=self._own.hook_programs)

    @cached_property
    def _plan_hook_sandbox(self) -> Sandbox:
        here = str(self.app.workspace.resolve())
        return self._make_sandbox(readable=self._own.hook_programs, read_only=[here])

    def _make_sandbox(self, *, readable: Sequence[str], read_only: Sequence[str] = ()) -> Sandbox:
        from handrail.sandbox import Sandbox

        settings = self.app.settings
        try:
            return Sandbox(
                self.app.workspace,
                network=settings["allowed_hosts"],
                readable=readable,
                opened=_LazyRules(self).find_hosts,
                masked=[str(self._own.state)],
                read_only=[*read_only, *self._own.make_for_sandbox()],
                restricted=_LazyRules(self).find_restricted,
            )
        except ValueError as error:
            where = settings.origins["allowed_hosts"].where
            hint = "write a host name such as `pypi.org` or `*.example.org`"
            raise Halt(f"{where}: {error}", code="config", hint=hint) from None

    def tool(self, name: str) -> Tool[..., Any]:
        """Return a tool by its name or an alias; a Halt if there is none."""
        tool = self.tools.find(name)
        if tool is not None:
            return tool
        settings = self.app.settings
        if name in settings["without"]:
            message = f"the tool {name!r} is excluded by {settings.origins['without'].where}"
            hint = f"remove {name!r} from `without`"
        else:
            near = self.tools.closest(name)
            message = f"there is no tool {name!r}"
            hint = "run `handrail tools list` to see the tools"
            hint = f"did you mean {' or '.join(near)}?" if near else hint
        raise Halt(message, code="no_tool", hint=hint)

    def _parts(self) -> Iterator[Toolset]:
        for source in self.app.settings["tools"]:
            yield self._coding() if source == CODING else self._of_files[source]
        yield self._of_servers
        yield self.more

    @cached_property
    def _of_files(self) -> Mapping[str, Toolset]:
        """The tools of each source beside the coding tools."""
        settings, sources = self.app.settings, self.app.settings["tools"]
        if sources == [CODING]:
            return {}
        from handrail.cli._project.sources import load_tools

        others = [source for source in sources if source != CODING]
        where = settings.origins["tools"]
        return {source: load_tools(source, self.app.workspace, where) for source in others}

    @cached_property
    def _of_servers(self) -> Toolset:
        """Approved MCP tools."""
        from handrail.cli._project.servers import approved_tools

        return approved_tools(self.app) if self.servers else Toolset()

    def _coding(self) -> Toolset:
        from handrail.tools import coding_tools

        return coding_tools(
            self.workspace,
            sandbox=self.sandbox,
            without=self._excluded(),
            only_reads=self._only_reads,
            jobs=self.jobs,
        )

    @cached_property
    def jobs(self) -> Jobs:
        """The commands in the background."""
        from handrail.tools import Jobs

        return Jobs()

    def describe_place(self) -> str:
        """Return the workspace's name, and its branch if it has one."""
        folder = self.app.workspace
        branch = find_branch(str(folder))
        return f"{folder.name} ({branch})" if branch else folder.name

    def list_jobs(self) -> Sequence[JobStatus]:
        """Return the commands in the background. Without any, nothing is loaded for them."""
        return self.jobs.statuses() if "jobs" in self.__dict__ else ()

    def _only_reads(self, command: str) -> bool:
        """Return whether the rules say a command changes nothing: plan mode allows it."""
        from handrail import DESTROY, Access, Allow, Call, CheckedCall

        call = Call("bash", {"command": command}, id="reads")
        spec = Spec(name="bash", description="", input_schema={}, effect=DESTROY)
        checked = CheckedCall.recorded(call, spec, (Access(DESTROY, "*"),))
        return isinstance(self._plan_rules(checked), Allow)

    @cached_property
    def _plan_rules(self) -> Rulebook:
        from handrail.policy import Rulebook

        return Rulebook(
            self.rules.rules,
            mode="plan",
            sandboxed=self.confined,
            hides_files=self._hides_files,
            workspace=self.app.workspace,
        )

    @property
    def _hides_files(self) -> bool:
        """Whether commands cannot read the files that rules deny or ask about."""
        return self.sandbox is not None and self.sandbox.restricts_files

    def _excluded(self) -> set[str]:
        """Return excluded or unavailable coding tools."""
        without = {*self.app.settings["without"], *self._missing}
        return without | ({"bash"} if self.sandbox is None else set())

    @cached_property
    def _missing(self) -> Sequence[str]:
        """The coding tools whose packages are not installed. They are reported, once."""
        from handrail.tools import list_missing_tools

        missing = list_missing_tools()
        for name in missing.keys() - set(self.app.settings["without"]):
            self.app.say(
                f"the tool {name} is not available: pip install 'handrail[{missing[name]}]'"
            )
        return tuple(missing)

    def report_misnamed(self, tools: Toolset) -> None:
        """Report rules with almost a tool's name, once. They never decide its calls."""
        known = {*self.app.settings["without"], *self._misnamed}
        for name, rule in self.rules.named_tools.items():
            if name not in known and (meant := tools.meant_by(name)):
                self._misnamed.add(name)
                self.app.say(f"{rule}: no tool is named {name!r}; did you mean {meant!r}?")

    @cached_property
    def _misnamed(self) -> set[str]:
        """The names reported."""
        return set()

    def _warn_unknown(self, names: Iterable[str]) -> None:
        """Warn about a misspelled name in ``without``, which excludes no tool."""
        from handrail.tools import outline

        known, without = set(names), set(self.app.settings["without"])
        if CODING in self.app.settings["tools"]:  # including those not available here
            known |= {tool.name for tool in outline()}
        if not without - known:
            return
        from handrail.coding import AGENT_TOOLS

        for name in sorted(without - known - set(AGENT_TOOLS)):
            if near := closest_name(name, known - without):
                self.app.say(f"`without` names an unknown tool {name!r}; did you mean {near!r}?")


@dataclass(frozen=True, slots=True)
class _LazyRules:
    """The rules as a policy. The first use loads them: they depend on the sandbox."""

    kit: Kit

    def __call__(self, call: CheckedCall) -> Decision:
        return self.kit.rules(call)

    def is_quick(self, call: CheckedCall) -> bool:
        """Return whether a call can be decided in the event loop."""
        return self.kit.rules.is_quick(call)

    def find_hosts(self) -> Sequence[str]:
        """Return hosts opened to commands by rules."""
        return self.kit.rules.find_hosts()

    def find_asked(self, folder: str) -> Collection[str]:
        """Return the files in a folder that rules ask about."""
        return self.kit.rules.find_asked(folder)

    def find_restricted(
        self, command: str = "", *, folder: str | None = None
    ) -> Mapping[str, Restriction]:
        """Return files a command cannot use."""
        return self.kit.rules.find_restricted(command, folder=folder)


def _names(tool: Tool[..., Any]) -> tuple[str, ...]:
    return (tool.spec.name, *tool.spec.aliases)
