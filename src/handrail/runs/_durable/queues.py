"""Some tools' calls run on queues, on any worker, within limits."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from handrail import Call, CheckedCall, FailureKind, Hook, Result
from handrail.events import WaitReason
from handrail.runs._durable.active import Active
from handrail.runs._durable.once import MAY_HAVE_RUN, Once
from handrail.runs._durable.orders import CallOrder, Served
from handrail.runs._durable.rows import Rows
from handrail.runs._engine.call_queue import CallQueue
from handrail.runs._engine.port import Engine
from handrail.telemetry import continue_trace, read_trace

_CALLS_INSIDE = "Not run: a call on a queue cannot make other calls. Tell the user."
_PAUSE = 1.0
"""Seconds until a call is queued again whose agent this worker does not have."""


class QueuedCalls:
    """Sends calls to queues, and runs those this worker takes from them."""

    def __init__(
        self,
        engine: Engine,
        rows: Rows,
        served: Mapping[str, Served],
        *,
        queues: Mapping[str, CallQueue],
        active: Active,
    ) -> None:
        self._engine = engine
        self._rows = rows
        self.active = active
        self.queues = queues
        self.served = served
        self.waiting = 0
        """How many calls from local segments wait on queues."""

    def find(self, call: CheckedCall) -> str | None:
        """Return a call's queue."""
        for name, queue in self.queues.items():
            if call.name in queue.tools or call.spec.tags & frozenset(queue.tags):
                return name
        return None

    def wait_reason(self, queue: str) -> WaitReason:
        """Return why calls wait on a queue."""
        return self.queues[queue].wait_reason

    async def send(self, queue: str, agent: str, call: CheckedCall) -> tuple[Result, float | None]:
        """Let a call run on a queue. Returns its result, and when a worker took it.

        After a restart, this joins it.
        """
        turn = call.turn
        order = CallOrder(
            call.key,
            agent,
            turn.run_id,
            turn.id,
            call.name,
            call.parsed.text,
            call.id,
            turn.principal,
            dict(turn.metadata),
            read_trace(),
        )
        self.waiting += 1
        try:
            text = await self._engine.call(queue, call.key, json.dumps(order), turn.principal or "")
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._engine.cancel(call.key)
            raise
        finally:
            self.waiting -= 1
        began, result = json.loads(text) if text is not None else (None, "")
        if began is not None:
            return Result.from_json(result), began
        self.active.counts.unknown += 1
        return call.refuse(MAY_HAVE_RUN, FailureKind.UNKNOWN), None

    async def run(self, text: str) -> str | None:
        """Run a queued call, and return when it began and its result, as text.

        Returns None if this worker does not have its agent: then another one gets it.
        """
        order, began = CallOrder(*json.loads(text)), time.time()
        if order.agent not in self.served:
            await self._engine.delay(order.key, _PAUSE)
            return None
        result = Result.fail(order.id, FailureKind.CANCELLED, "Stopped.")
        with self.active.running(order.run, order.key), continue_trace(order.trace or {}):
            result = await self._run(order)
        return json.dumps([began, result.to_json()])

    async def _run(self, order: CallOrder) -> Result:
        served = self.served[order.agent]
        gate = self.active.gate
        once = Once(self._rows, self.active.counts, order.run, f"queued {order.key}")

        async def run_once(call: CheckedCall, run: Callable[[], Awaitable[Result]]) -> Result:
            if call.turn.is_inner:  # this executor has no policy
                return call.refuse(_CALLS_INSIDE)
            async with gate.calling():
                return await once.run(call, run)

        options: dict[str, Any] = {"principal": order.principal, "metadata": order.metadata}
        options["records"] = once
        if served.deps is not None:
            options["deps"] = served.deps
        async with served.agent.make_executor(Hook(around=run_once)) as executor:
            turn = executor.turn(order.turn, run=order.run, known=once.known, **options)
            await once.find_known(turn)
            call = Call(order.name, order.args, order.id)
            [result] = await executor.run_all([call], turn=turn)
        return result
