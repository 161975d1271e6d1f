"""Record what a run did, so another process can continue it: replies, and whole turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Protocol

from handrail import Approvals, Hook, LongResults, Result, Turn
from handrail.agent._history.conversation import Conversation
from handrail.agent._history.record_codec import (
    TurnRecord,
    dump_error,
    dump_reply,
    dump_turn,
    load_reply,
    load_turn,
)
from handrail.agent._history.state import RunState
from handrail.agent._loop.model_stream import Show, ask
from handrail.approvals import defer
from handrail.messages import Model, ModelError, Reply, Request, ToolResults, model_names
from handrail.permissions import CallRecords, Ledger


class Steps(Protocol):
    """Records a run's replies and turns. For durable engines."""

    async def record(self, name: str, work: Callable[[], Awaitable[str]], /) -> str:
        """Return a step's recorded text, or do the work and record its text."""
        ...


class Recorder(Protocol):
    """Records what a run did, so another process can continue it."""

    @property
    def claimant(self) -> str:
        """The execution's id, the same after a restart. It uses the approvals."""
        ...

    @property
    def known(self) -> dict[str, Result]:
        """The current turn's results recorded before a restart, by call id."""
        ...

    @property
    def records(self) -> CallRecords:
        """Stores texts for calls that a restart interrupts."""
        ...

    @property
    def ledger(self) -> Ledger:
        """Records which approvals were used, for all processes."""
        ...

    def find_results(self, *, are_known: bool) -> LongResults:
        """Return where long results are, for all processes.

        ``are_known`` says whether the run's messages name some.
        """
        ...

    @property
    def hook(self) -> Hook:
        """Runs around each call, inside all other hooks."""
        ...

    @property
    def steps(self) -> Steps | None:
        """Records replies and turns. None if a restart reads the states the agent saves."""
        ...

    async def begin(self, turn: Turn[Any], /, *, again: bool) -> None:
        """Prepare to run a turn's calls: fill ``known``.

        With ``again``, the run's state says a former attempt may have begun them.
        """
        ...


def turn_options(recorder: Recorder) -> dict[str, Any]:
    """Return what the turns of a recorded run need."""
    names = ("known", "claimant", "records")
    return {name: getattr(recorder, name) for name in names}


def recorded_checks(
    checks: Mapping[str, Any], recorder: Recorder, state: RunState
) -> dict[str, Any]:
    """Return an executor's options for a recorded run. Calls without an approver stay pending."""
    approvals: Approvals = checks["approvals"]
    approver = approvals.approver or defer
    return {
        **checks,
        "approvals": replace(approvals, approver=approver, ledger=recorder.ledger),
        "hooks": (*checks["hooks"], recorder.hook),
        "long_results": recorder.find_results(are_known=_has_truncated(state)),
    }


def _has_truncated(state: RunState) -> bool:
    messages = [one for one in state.messages if isinstance(one, ToolResults)]
    return any(_are_truncated(message.results) for message in messages)


def _are_truncated(results: Sequence[Result]) -> bool:
    return any(_TRUNCATED in result.text for result in results)


_TRUNCATED = " characters omitted. To read on: "
"""In each truncated result whose rest is stored."""


def has_rows(recorder: Recorder | None) -> bool:
    """Whether a recorder knows which calls in a saved reply have begun: each has a row."""
    return recorder is not None and recorder.steps is None  # as commands do: decision 095


def record_replies(model: Model, steps: Steps, show: Show | None = None) -> Model:
    """Return a model whose replies are recorded. A recorded reply is not asked for again.

    ``show`` gets each streamed piece.
    """
    return _RecordedModel(model, steps, show)


def hide_pieces(model: Model) -> Model:
    """Return the same model, without showing pieces."""
    return model.hidden if isinstance(model, _RecordedModel) else model


class _RecordedModel:
    def __init__(self, model: Model, steps: Steps, show: Show | None) -> None:
        self._model = model
        self._steps = steps
        self._show = show
        self.names = model_names(model)

    @property
    def hidden(self) -> Model:
        """The same model, without showing pieces."""
        return _RecordedModel(self._model, self._steps, None)

    async def __call__(self, request: Request) -> Reply:
        text = await self._steps.record("model", partial(self._ask, request))
        return load_reply(text)

    async def _ask(self, request: Request) -> str:
        """Ask the model. A failure is recorded too: a restart must take the same path."""
        began = perf_counter()
        try:
            reply = await ask(self._model, request, _ignore, self._show)
        except ModelError as error:
            return dump_error(error)
        if reply is None:
            return dump_error(ModelError(_NO_REPLY))
        seconds = perf_counter() - began if reply.seconds is None else reply.seconds
        return dump_reply(replace(reply, seconds=seconds))


async def record_turn(
    recorder: Recorder | None,
    talk: Conversation,
    turn: Turn[Any],
    run: Callable[[], Awaitable[Sequence[Result]]],
    *,
    again: bool = False,
) -> Sequence[Result]:
    """Return a turn's results: recorded ones, or from running now."""
    if recorder is None:
        return await run()
    if recorder.steps is None:
        await recorder.begin(turn, again=again)
        results = await run()
    else:

        async def work() -> str:
            await recorder.begin(turn, again=again)
            results = tuple(await run())
            spent = talk.usage, talk.cost
            left = turn.approved, turn.background
            return dump_turn(TurnRecord(results, turn.stop_reason, *spent, *left))

        results = _load(await recorder.steps.record(f"turn {turn.id}", work), talk, turn)
    if _are_truncated(results):  # perhaps before a restart
        turn.owner.view.offer_reader()
    return results


def _load(text: str, talk: Conversation, turn: Turn[Any]) -> Sequence[Result]:
    """Return a recorded turn's results, and continue from its state."""
    recorded = load_turn(text)
    turn.approved, turn.background = recorded.approved, recorded.background
    if recorded.stop_reason is not None:
        turn.close(recorded.stop_reason)
    talk.usage, talk.cost = recorded.usage, recorded.cost
    return recorded.results


def _ignore(_cancel: Callable[[], None]) -> None: ...


_NO_REPLY = "The model's stream ended without a Reply."
