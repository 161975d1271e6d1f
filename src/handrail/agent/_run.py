"""One agent run: await it, watch it, steer it, stop it."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import TYPE_CHECKING, Any, Generic

from handrail import Executor
from handrail.agent._history.state import RunState
from handrail.agent._loop.loop import Loop
from handrail.agent._loop.model_stream import run_within
from handrail.agent._loop.settings import RunOptions, RunResult, RunSettings, T
from handrail.messages import Content, Prompt


class Run(Generic[T]):
    """An agent run. Await it for its RunResult. Its state can be saved at any time."""

    def __init__(
        self,
        settings: RunSettings[T],
        options: RunOptions,
        executor: Executor,
        state: RunState,
        *,
        own: bool,
    ) -> None:
        self._seconds = settings.limits.seconds
        self._executor = executor
        self._own = own
        self._around = settings.around
        self._loop = Loop(settings, options, executor, state)

    @property
    def state(self) -> RunState:
        """The run's current state. Pass it to ``Agent.resume`` to continue."""
        return self._loop.talk.state

    def send(self, *parts: str | Content) -> None:
        """Add a message to the model's next turn."""
        self._loop.talk.send(Prompt.of(*parts))
        self._loop.background.wake()

    def interrupt(self) -> None:
        """Stop the model and the running calls. The run then ends as ``interrupted``."""
        self._loop.stop("interrupted")

    async def compact(self) -> RunState:
        """Let the model summarize everything before its last turn, instead of running.

        Returns the state with the summary, sent from now on in place of the messages
        before it. The messages stay in the state. Without ``Agent(compaction=...)``, or if there
        is nothing to summarize, the state is unchanged.
        """
        await self._loop.shorten_now()
        return self.state

    if TYPE_CHECKING:
        pass  # with the method below, checkers would accept every name
    else:

        def __getattr__(self, name: str) -> Any:
            hint = ": await the run first" if hasattr(RunResult, name) else ""
            raise AttributeError(f"'Run' object has no attribute {name!r}{hint}")

    def __await__(self) -> Generator[Any, Any, RunResult[T]]:
        bounded = self._own or self._seconds is not None
        return (self._run_bounded() if bounded else self._run_once()).__await__()

    async def _run_bounded(self) -> RunResult[T]:
        """Run with an own executor, a time limit, or both."""
        if not self._own:
            return await self._run_in_time()
        async with self._executor:
            return await self._run_in_time()

    async def _run_in_time(self) -> RunResult[T]:
        if self._seconds is None:
            return await self._run_once()
        return await run_within(self._seconds, self._run_once, lambda: self._loop.stop("seconds"))

    def _run_once(self) -> Awaitable[RunResult[T]]:
        if self._around is None:
            return self._loop.run()
        return self._around(self.state, self._loop.run)
