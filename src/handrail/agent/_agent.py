"""Agent: a model and the tools it may call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypedDict

import anyio
from typing_extensions import Unpack

from handrail import (
    READ,
    Access,
    Approvals,
    Context,
    Effect,
    Executor,
    Hook,
    Json,
    Tool,
    ToolFailed,
    tool,
)
from handrail._support.loop import in_event_loop
from handrail.agent._arguments import (
    AnyTools,
    add_tools,
    apply_options,
    as_approvals,
    as_model,
    as_tools,
    check_limits,
    check_options,
    find_start,
    tell_both,
)
from handrail.agent._event_stream import EventStream
from handrail.agent._history.compaction import Compaction
from handrail.agent._history.earlier_results import EarlierResults
from handrail.agent._history.state import RunState
from handrail.agent._loop.budgets import (
    Budgets,
    RunBudget,
    Spender,
    apply_budgets,
    list_budgets,
)
from handrail.agent._loop.events import OnEvent
from handrail.agent._loop.limits import Limits
from handrail.agent._loop.live_runs import LiveRun
from handrail.agent._loop.recorder import (
    Recorder,
    record_replies,
    recorded_checks,
    turn_options,
)
from handrail.agent._loop.settings import (
    NO_ANSWERS,
    AroundRun,
    Prepare,
    RunOptions,
    RunResult,
    RunSettings,
    Save,
    SystemPrompt,
    T,
    describe_end,
)
from handrail.agent._loop.spending import check_price
from handrail.agent._loop.typed_answer import FinalAnswer, read_answer
from handrail.agent._run import Run
from handrail.agent._subagent import NO_TIMEOUT, budgets_above, lend_credentials, run_inside
from handrail.messages import Content, Message, Model, model_names
from handrail.permissions import Answer, Approver, FindCredential, Policy, check_answers

_DEFAULT_LIMITS = Limits()


class RunArgs(TypedDict, total=False):
    """A run's options."""

    answers: Mapping[str, Answer]
    """Answers to pending calls, by ``Pending.id``. Calls without an answer stay pending."""
    on_event: OnEvent
    """Gets text, replies and results, and each sub-agent event. It must return quickly."""
    principal: str
    """The user or service on whose behalf the calls run."""
    deps: Any
    """Objects for the tools, such as a database."""
    metadata: Mapping[str, Json]
    """More facts for policies, hooks and tools, such as a tenant."""
    limits: Limits
    """This run's limits, in place of the agent's."""
    model: Model | str
    """This run's model, in place of the agent's."""
    system: str | SystemPrompt
    """This run's system prompt, in place of the agent's."""
    save: Save
    """Saves this run's state after each step, before the agent's ``save``."""


class Agent(Generic[T]):
    """Lets a model call tools until it has an answer.

    Args:
        model: A provider and a model, such as ``openai:NAME``. Or a function from a request to a
            reply, or to a stream that ends with the reply.
        tools: The tools the model may call: a list of functions, a Toolset or a Registry. Each
            run has its own Executor. Or your own Executor, which you close.
        system: The system prompt, or a function that returns it at the start of a run.
        output: The answer type. By default, the answer is the model's last text.
        limits: Run limits: turns, calls, tokens, cost and seconds.
        retries: How often in a row the model is asked again after a reply that is empty, truncated
            or not a valid answer.
        prepare: Changes each request before it is sent.
        compaction: Shortens long histories for sending, before it exceeds the model's window.
        save: Saves the state after each step, before the next one starts.
        max_tokens: Maximum tokens in one reply.
        policy: Decides each call. Without one, every call is allowed.
        approvals: Who approves calls, and what an approval is tied to.
        hooks: Your code before, after and around calls.
        around: Your code around each run, also if the agent is a sub-agent.
        credentials: Finds each principal's credentials: see ``Executor``.
        budget: What runs may spend together, or several of these: see ``handrail.shared.Budget``.
    """

    def __init__(  # noqa: PLR0913  each is an option with a default
        self,
        model: Model | str,
        tools: AnyTools = (),
        *,
        system: str | SystemPrompt = "",
        output: type[T] | None = None,
        limits: Limits = _DEFAULT_LIMITS,
        retries: int = 2,
        prepare: Prepare | None = None,
        compaction: Compaction | None = None,
        save: Save | None = None,
        max_tokens: int | None = None,
        policy: Policy | None = None,
        approvals: Approvals | Approver | None = None,
        hooks: Sequence[Hook] = (),
        around: AroundRun | None = None,
        credentials: FindCredential | None = None,
        budget: Budgets = (),
    ) -> None:
        function = as_model(model)
        check_limits(limits)
        self._budgets = list_budgets(budget)
        self._tools = add_tools(as_tools(tools), self._budgets)
        hooks = (*hooks, *[hook for one in self._budgets for hook in one.hooks])
        checks: dict[str, Any] = {"policy": policy, "approvals": approvals, "hooks": hooks}
        checks["credentials"] = credentials
        given = [name for name, value in checks.items() if value]
        if isinstance(self._tools, Executor) and given:
            raise ValueError(f"Agent({given[0]}=...): pass it to your Executor instead.")
        checks["approvals"] = as_approvals(approvals)  # all runs share one record
        self._checks = checks
        self._settings = RunSettings(
            model=function,
            system=system,
            limits=limits,
            final=None if output is None or output is str else FinalAnswer(output),
            save=save,
            max_tokens=max_tokens,
            retries=retries,
            prepare=prepare,
            compaction=compaction,
            around=around,
        )
        names = model_names(self._settings.model)
        check_price(limits, names)
        for one in self._budgets:
            one.check_models(names)
        self._check_own_tools()

    def run(
        self,
        *prompt: str | Content | None,
        history: RunState | Sequence[Message] | None = None,
        **options: Unpack[RunArgs],
    ) -> Run[T]:
        """Start a run with a prompt. Await the returned Run to get its RunResult.

        With ``history``, the run continues a conversation: an earlier run's state, or its
        messages. Then the prompt can be None, or left out.
        """
        start, executor = find_start(history, prompt), self._executor()
        return self._make_run(start, executor, options)

    def resume(
        self, state: RunState, *prompt: str | Content | None, **options: Unpack[RunArgs]
    ) -> Run[T]:
        """Resume a run from a state, optionally with another prompt."""
        return self._make_run(find_start(state, prompt), self._executor(), options)

    def run_recorded(
        self, state: RunState, recorder: Recorder, **options: Unpack[RunArgs]
    ) -> Run[T]:
        """Run or resume from a state, and record what another process needs to continue.

        Calls needing approval stay pending, unless the agent has an approver. If you
        pass an Executor to the agent, its last hook must be the recorder's.
        """
        limits = options.get("limits", self._settings.limits)
        if limits.seconds is not None and recorder.steps is not None:
            raise ValueError(
                "Limits(seconds=...): a durable run can wait for days. Limit turns or cost instead."
            )
        if isinstance(self._tools, Executor):
            if recorder.hook not in self._tools.hooks[-1:]:
                raise TypeError(
                    "This Executor does not record its calls. Pass the tools to the Agent instead."
                )
            return self._make_run(state, self._tools, options, recorder=recorder)
        checks = recorded_checks(self._checks, recorder, state)
        return self._make_run(state, Executor(self._tools, **checks), options, recorder=recorder)

    def make_executor(self, hook: Hook) -> Executor:
        """Return an executor for tool calls a run has already allowed.

        For durable engines, whose workers run calls for each other.
        """
        if isinstance(self._tools, Executor):
            raise TypeError("A durable run makes its own Executor. Pass the tools to the Agent.")
        return Executor(self._tools, hooks=(hook, Hook(frames=False)))  # the run's frames them

    def run_sync(
        self,
        *prompt: str | Content | None,
        history: RunState | Sequence[Message] | None = None,
        **options: Unpack[RunArgs],
    ) -> RunResult[T]:
        """Run with a prompt from synchronous code, and return the result."""
        if in_event_loop():
            raise RuntimeError(
                "run_sync was called in an event loop, such as a notebook's. Write "
                "`result = await agent.run(...)` instead."
            )

        async def run() -> RunResult[T]:
            return await self.run(*prompt, history=history, **options)

        return anyio.run(run)

    def stream(
        self,
        *prompt: str | Content | None,
        history: RunState | Sequence[Message] | None = None,
        **options: Unpack[RunArgs],
    ) -> EventStream[T]:
        """Start a run, and watch it: ``async with agent.stream(...) as events``.

        A state with pending calls or without an answer is continued; then the prompt is optional.
        """
        start = find_start(history, prompt)
        executor = self._executor()

        def make_run(on_event: OnEvent, approver: Approver | None) -> Run[T]:
            return self._make_run(start, executor, options, approver=approver, watch=on_event)

        return EventStream(executor, make_run)

    def read_output(self, state: RunState) -> T | None:
        """Return the answer in a state's last reply, or None if it has none."""
        return read_answer(self._settings.final, state)

    def _check_own_tools(self) -> None:
        """Raise DuplicateName if a tool is named like one the agent adds itself."""
        tools, settings = self._executor().tools, self._settings
        if settings.final is not None:
            settings.final.add_to(tools)
        if settings.compaction is not None:
            EarlierResults(()).add_to(tools)

    def _executor(self, above: Sequence[RunBudget] = ()) -> Executor:
        """Return an executor for a run. ``above`` are its caller's budgets."""
        if isinstance(self._tools, Executor):
            return self._tools
        more = [hook for one in above if one not in self._budgets for hook in one.hooks]
        checks: dict[str, Any] = {**self._checks, "hooks": (*self._checks["hooks"], *more)}
        return Executor(self._tools, **checks)

    def _make_run(  # noqa: PLR0913  each is an option with a default
        self,
        start: RunState,
        executor: Executor,
        options: RunArgs,
        *,
        approver: Approver | None = None,
        parent: LiveRun | None = None,
        watch: OnEvent | None = None,
        recorder: Recorder | None = None,
        caller: Context[Any] | None = None,
    ) -> Run[T]:
        check_options(options, RunArgs.__annotations__)
        if recorder is None:  # its answers can be used
            check_answers(options.get("answers", NO_ANSWERS), start.requests)
        executor.tools.check_deps(options.get("deps"), "`agent.run`")
        settings = apply_options(self._settings, options)
        above = () if parent is None else parent.budgets
        budgets = (*self._budgets, *above)
        if budgets:
            settings = replace(settings, model=_limit(settings.model, budgets, start, options))
        for_turn = {name: options.get(name) for name in ("principal", "deps", "metadata")}
        for_turn |= {"approver": approver, "credentials": lend_credentials(caller)}
        if recorder is not None:
            if recorder.steps is not None:
                recorded = record_replies(settings.model, recorder.steps, options.get("on_event"))
                settings = replace(settings, model=recorded)
            for_turn |= turn_options(recorder)
        run_options = RunOptions(
            answers=options.get("answers", NO_ANSWERS),
            on_event=tell_both(options.get("on_event"), watch),
            for_turn={name: value for name, value in for_turn.items() if value is not None},
            parent=parent,
            recorder=recorder,
            caller=caller,
            budgets=budgets,
        )
        return Run(settings, run_options, executor, start, own=executor is not self._tools)

    def as_tool(
        self,
        name: str,
        description: str,
        *,
        effect: Effect | None = None,
        touches: Callable[..., Access | Iterable[Access]] | None = None,
        timeout: float = NO_TIMEOUT,
    ) -> Tool[..., Any]:
        """Return a tool that gives this agent a task and returns its answer.

        Its questions are asked where the caller's are, and credentials are the caller's, unless it
        has its own. Principal, deps and metadata are the caller's. Tokens count for that run.

        Args:
            name: The tool's name.
            description: What the agent does, for the model that calls it.
            effect: The worst the agent can do. Default: its tools' worst; with a registry,
                whose tools can change, the highest.
            touches: What a task touches. By default, tasks that can change something run one after
                the other.
            timeout: Seconds for one task. By default, only the agent's own limits apply.
        """

        async def run_agent(task: str, context: Context) -> Any:
            """Do a task.

            Args:
                task: The task, with all necessary context. Nothing else is passed on.
                context: The context of the call.
            """
            executor = self._executor(budgets_above(context))

            def make_run(state: RunState, given: Any, parent: LiveRun | None) -> Run[T]:
                options: RunArgs = given
                options["deps"], options["metadata"] = context.deps, context.metadata
                if context.principal is not None:
                    options["principal"] = context.principal
                approver = context.approver if executor.approver is None else None
                about: Any = {"approver": approver, "parent": parent, "caller": context}
                return self._make_run(state, executor, options, **about)

            done = await run_inside(task, context, executor, make_run)
            if done.stop_reason != "answer":
                raise ToolFailed(_describe_unfinished(done))
            return done.output

        if self._settings.final is not None:
            run_agent.__annotations__["return"] = self._settings.final.type
        given: Any = {} if touches is None else {"touches": touches}
        make = tool(
            name=name,
            description=description,
            effect=self._worst_effect() if effect is None else effect,
            timeout=timeout,
            **given,
        )
        return make(run_agent)

    def _worst_effect(self) -> Effect:
        """Return the worst the tools can do, also after a registry change."""
        executor = self._executor()
        if executor.registry is not None:
            return max(Effect)
        return max((spec.effect for spec in executor.tools.specs), default=READ)


def _limit(model: Model, budgets: Sequence[RunBudget], start: RunState, options: RunArgs) -> Model:
    about = options.get("principal"), options.get("metadata", {}), start.run_id
    return apply_budgets(model, budgets, Spender(*about))


def _describe_unfinished(done: RunResult[Any]) -> str:
    last_text = f" Its last message: {done.text}" if done.text else ""
    return f"Not finished: {describe_end(done)}.{last_text}"
