"""Traffic: batches of calls under way, each call in a task of its own, started when it may."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio

from handrail._batch import Batch, Glide, begun, ready_in
from handrail._call import Call
from handrail._decision import Allow, Ask, Deny
from handrail._desk import Desk
from handrail._effect import READ
from handrail._event import Finished, Judged, Requested, Waiting
from handrail._hooked import Unfinished, answered, passed_back, passed_on
from handrail._invoke import Flight, invoke, stopped
from handrail._lane import Lane, at_once, lane
from handrail._loop import Expired, group, is_cancelled
from handrail._output import rendered
from handrail._policy import ALLOW, judge
from handrail._preflight import Ready
from handrail._result import Kind, Result
from handrail._schedule import Schedule

ANSWER_TIMEOUT = 24 * 3600.0
"""Seconds that an approver may take."""


class Traffic:
    """Everything that is under way."""

    def __init__(self, desk: Desk, schedule: Schedule) -> None:
        self.desk = desk
        self.schedule = schedule
        self.lanes: dict[str, Lane] = {}
        self._batches: dict[int, Batch] = {}
        """By the key of each call that has not ended."""
        self._open: list[Batch] = []
        self._lingering = 0
        self._landing = 0
        """Calls that have ended, but not yet passed the hooks after them."""
        self._quiet: anyio.Event | None = None
        self.closed = False

    @asynccontextmanager
    async def batch(self) -> AsyncGenerator[Batch]:
        """Take calls in; leaving it runs those that waited for the batch to be complete."""
        batch = Batch()
        failure: Exception | None = None
        self._open.append(batch)
        try:
            async with group() as batch.spawn:
                try:
                    yield batch
                    self._complete(batch)
                    while batch.flights:
                        await self._ended(batch)
                except Exception as error:  # noqa: BLE001  whoever gave the calls failed; said below
                    failure = error
                    self._stop(batch)
                except BaseException:
                    batch.closing = True
                    raise
        finally:
            self._open.remove(batch)
            self._give_up(batch)
        if failure is not None:
            raise failure

    def _complete(self, batch: Batch) -> None:
        """All calls of a batch are known: those that waited for that may start."""
        for key in batch.held:
            if key in batch.flights:
                self.schedule.release(key)
        self._launch()
        for key in batch.held:
            if key in batch.flights:
                self._tell_if_crowded(batch.flights[key][1])

    def _stop(self, batch: Batch) -> None:
        batch.closing = True
        for _, flight in batch.flights.values():
            flight.cancel()

    async def alone(self, call: Call, passed: Call | Result | Unfinished | None = None) -> Result:
        """Run one call; ``passed`` is what the hooks before it have made of it."""
        if isinstance(passed, Unfinished):
            passed = await passed_on(call, passed.rest, self.desk.hook_timeout, passed.answer)
        async with self.batch() as batch:
            await self.take(batch, call, passed)
        return batch.outcomes[0]

    async def take(self, batch: Batch, call: Call, passed: Call | Result | None = None) -> None:
        """Judge a call and give it its place among the others."""
        desk = self.desk
        place = len(batch.calls)
        batch.calls.append(call)
        if self.closed:
            passed = Result.fail(call.id, Kind.CANCELLED, _CLOSED)
        elif passed is None:
            passed = call
            if desk.before:
                passed = await passed_on(call, desk.before, desk.hook_timeout)
        if self.lanes and type(passed) is Call and self._glides(batch, place, passed):
            return
        desk.tell(Requested(desk.clock(), call))
        ready = passed if isinstance(passed, Result) else desk.judged(passed)
        if isinstance(ready, Ready):
            desk.tell(Judged(desk.clock(), call.id, ready.accesses, ready.decision))
            if refusal := self._refusal(ready):
                ready = Result.fail(call.id, Kind.DENIED, refusal)
        if isinstance(ready, Result):
            seen = call if isinstance(passed, Result) else passed
            batch.outcomes[place] = await desk.settled(seen, ready)
        else:
            self._board(batch, place, ready)

    def _refusal(self, ready: Ready) -> str:
        """Why a judged call may not run, if it may not."""
        match ready.decision:
            case Deny(reason):
                return reason
            case Ask(question) if self.desk.approver is None:
                return f"{question} {_NOBODY}"
            case _:
                return ""

    def cancel(self, call_ids: tuple[str, ...]) -> None:
        """Stop these calls, or all: those that run, and those that have not started."""
        for batch in self._open:
            waiting = batch.gliding.items()
            batch.stopped |= {n for n, glide in waiting if not call_ids or glide[2].id in call_ids}
        for key, batch in list(self._batches.items()):
            place, flight = batch.flights[key]
            if call_ids and flight.ready.call.id not in call_ids:
                continue
            flight.cancel()
            if batch.closing and not flight.boarded:
                self._drop(batch, key)
            elif not flight.boarded:
                self._end(key, launch=False)
                batch.spawn(partial(self._land, batch, place, flight, stopped(flight)))
        self._launch()

    async def all_ended(self) -> None:
        """Wait until nothing is under way, threads that outlived their calls included."""
        self.closed = True
        self.lanes.clear()  # the fast lane does not ask whether it is closed
        while self.schedule.open or self._landing:
            self._quiet = anyio.Event()
            await self._quiet.wait()

    def _tell_if_quiet(self) -> None:
        if self._quiet is not None and not self.schedule.open and not self._landing:
            self._quiet.set()

    async def went_on(self, call: Call, lane: Lane, values: dict[str, Any], started: Any) -> Result:
        """Go on with a single call that was started where it stood, and did not end at once."""
        flight = self.desk.flight(ready_in(call, lane, values))
        flight.started, flight.boarded = started, True
        self._tell_start(call, lane, self.desk.clock())
        self.schedule.add(flight.key, lane.spec.name, lane.accesses)
        self.schedule.startable()
        batch = self._batches[flight.key] = Batch()
        batch.flights[flight.key] = (0, flight)
        await self._fly(batch, 0, flight)
        return batch.outcomes[0]

    def _board(self, batch: Batch, place: int, ready: Ready) -> None:
        """Give a judged call its turn."""
        spec, desk = ready.tool.spec, self.desk
        known = ready.call.name in self.lanes or ready.call.name != spec.name
        quick = desk.native and desk.registry is None and not known
        if quick and (made := lane(ready.tool, desk.limits.max_chars)):
            self.lanes[spec.name] = made
        flight = desk.flight(ready)
        batch.flights[flight.key] = (place, flight)
        self._batches[flight.key] = batch
        asks = isinstance(ready.decision, Ask)
        early = spec.effect == READ
        waits = self.schedule.add(flight.key, spec.name, ready.accesses, held=asks + (not early))
        flight.waits = bool(waits)
        if waits:
            desk.tell(Waiting(desk.clock(), ready.call.id, tuple(map(self._named, waits))))
        if not early:
            batch.held.append(flight.key)
        if asks:
            flight.boarded = True
            batch.spawn(partial(self._ask, batch, place, flight))
        self._launch()
        if early and not asks:
            self._tell_if_crowded(flight)

    def _tell_if_crowded(self, flight: Flight) -> None:
        """A call that waits for nobody and was not started lacks a place."""
        if not flight.boarded and not flight.waits:
            self.desk.tell(Waiting(self.desk.clock(), flight.ready.call.id, ()))

    def _named(self, key: int) -> str:
        """The id of a call that has not ended; of one whose thread outlived it, what is known."""
        batch = self._batches.get(key)
        return batch.flights[key][1].ready.call.id if batch is not None else "(a stopped call)"

    def _launch(self) -> None:
        for key in self.schedule.startable():
            batch = self._batches[key]
            place, flight = batch.flights[key]
            if batch.closing:
                self._drop(batch, key)
                continue
            flight.boarded = True
            batch.spawn(partial(self._fly, batch, place, flight))

    async def _fly(self, batch: Batch, place: int, flight: Flight) -> None:
        """Run one call in a task of its own."""
        try:
            if flight.stopped and flight.started is None:
                result = stopped(flight)
            else:
                result = await invoke(flight, self.desk.limits)
            batch.closing = batch.closing or is_cancelled()
        except BaseException:
            batch.closing = True
            self.desk.tell(Finished(self.desk.clock(), stopped(flight)))
            raise
        finally:
            self._end(flight.key, flight)
        await self._land(batch, place, flight, result)

    async def _land(self, batch: Batch, place: int, flight: Flight, result: Result) -> None:
        dressed = self.desk.dressed(flight.ready, result)
        self._landing += 1
        try:
            batch.outcomes[place] = await self.desk.settled(flight.ready.call, dressed)
        finally:
            self._landing -= 1
            self._tell_if_quiet()

    async def _ask(self, batch: Batch, place: int, flight: Flight) -> None:
        """Put a policy's question to the approver, and act on the answer."""
        answer = await self._answer(flight)
        flight.stop = None
        if isinstance(answer, Allow) and not flight.stopped:
            flight.boarded = False
            self.schedule.release(flight.key)
            self._launch()
            return
        self._end(flight.key)
        result = stopped(flight)
        if isinstance(answer, Deny) and not flight.stopped:
            result = Result.fail(flight.ready.call.id, Kind.DENIED, answer.reason)
        await self._land(batch, place, flight, result)

    async def _answer(self, flight: Flight) -> Allow | Deny | None:
        """Yes or no; None where the call was stopped before somebody answered."""
        ready, approver = flight.ready, self.desk.approver
        if flight.stopped or approver is None or not isinstance(ready.decision, Ask):
            return None
        try:
            return await answered(
                ready.call,
                ready.decision,
                approver,
                seconds=ANSWER_TIMEOUT,
                waits=flight.may_wait,
            )
        except Expired:
            return None

    def _glides(self, batch: Batch, place: int, call: Call) -> bool:
        """Start a call in the fast lane, if it may and nothing stands in its way."""
        lane, desk = self.lanes.get(call.name), self.desk
        if lane is None or not lane.reads:
            return False
        values = at_once(lane.tool, call.args)
        if values is None:
            return False
        if desk.policy and judge(desk.policy, call, lane.spec, lane.accesses) is not ALLOW:
            return False
        desk.keys += 1
        if not self.schedule.read_now(desk.keys, lane.spec.name, lane.accesses):
            return False
        glide = batch.gliding[place] = (place, desk.keys, call, lane, values)
        batch.spawn(partial(self._glide, batch, glide))
        return True

    async def _glide(self, batch: Batch, glide: Glide) -> None:
        """Run a call of the fast lane in a task of its own."""
        place, key, call, lane, values = glide
        del batch.gliding[place]
        desk = self.desk
        began = desk.clock() if desk.feeds else 0.0
        if place in batch.stopped:
            flight = desk.flight(ready_in(call, lane, values), key)
            self.schedule.end(key)
            self._tell_start(call, lane, began)
            await self._land(batch, place, flight, stopped(flight))
            return
        first = begun(lane.fn, values)
        if first.started is not None:
            await self._take_off(batch, glide, first.started)
            return
        self.schedule.end(key)
        if self._batches:
            self._launch()
        result, stored = rendered(call.id, first.value, lane.tool), 0
        if len(result.text) > lane.most:
            result, stored = desk.shortened(result, lane.most)
        try:
            if desk.after:
                result = await passed_back(call, result, desk.after, desk.hook_timeout, native=True)
        finally:
            if desk.feeds:
                desk.tell((began, desk.clock(), call, lane.accesses, ALLOW, result, stored))
        batch.outcomes[place] = result

    async def _take_off(self, batch: Batch, glide: Glide, started: Any) -> None:
        """Go on with a call of the fast lane that did not end at once."""
        place, key, call, lane, values = glide
        flight = self.desk.flight(ready_in(call, lane, values), key)
        flight.started, flight.boarded = started, True
        batch.flights[key], self._batches[key] = (place, flight), batch
        self.schedule.settle(key)
        self._tell_start(call, lane, self.desk.clock())
        await self._fly(batch, place, flight)

    def _tell_start(self, call: Call, lane: Lane, at: float) -> None:
        self.desk.tell(Requested(at, call))
        self.desk.tell(Judged(at, call.id, lane.accesses, ALLOW))

    def _drop(self, batch: Batch, key: int) -> None:
        """A call will never run."""
        place, flight = batch.flights[key]
        self._end(key, launch=False)
        batch.outcomes[place] = stopped(flight)
        self.desk.tell(Finished(self.desk.clock(), batch.outcomes[place]))

    def _end(self, key: int, flight: Flight | None = None, *, launch: bool = True) -> None:
        """A call is over; unless its thread runs on, what it touched is free again."""
        batch = self._batches.pop(key)
        del batch.flights[key]
        if not batch.flights and batch.all_ended is not None:
            batch.all_ended.set()
        linger = flight.linger if flight is not None else None
        if linger is not None and linger.abandon(partial(self._thread_ended, key)):
            self._lingering += 1
            return
        self.schedule.end(key)
        if launch:
            self._launch()
        self._tell_if_quiet()

    def _thread_ended(self, key: int) -> None:
        self._lingering -= 1
        self.schedule.end(key)
        self._launch()
        self._tell_if_quiet()

    async def _ended(self, batch: Batch) -> None:
        """Wait for a batch; but not forever, for a thread that was stopped and does not stop."""
        batch.all_ended = anyio.Event()
        with anyio.move_on_after(self.desk.limits.timeout):
            await batch.all_ended.wait()
        for key, (place, flight) in list(batch.flights.items()):
            if not self._lingering or self._moves():
                return  # whoever waits does not wait in vain
            if key not in batch.flights:
                continue  # it was stopped meanwhile
            self._end(key)
            blocked = Result.fail(flight.ready.call.id, Kind.TIMEOUT, _BLOCKED)
            await self._land(batch, place, flight, blocked)

    def _moves(self) -> bool:
        """Whether any call has a task that sees to it."""
        return any(batch.flights[key][1].boarded for key, batch in self._batches.items())

    def _give_up(self, batch: Batch) -> None:
        """The batch was cancelled from outside: whoever has not landed never will."""
        for key in list(batch.flights):
            self._drop(batch, key)
        for place, key, call, way, values in batch.gliding.values():
            self.schedule.end(key)
            batch.outcomes[place] = stopped(self.desk.flight(ready_in(call, way, values), key))
            self._tell_start(call, way, self.desk.clock())
            self.desk.tell(Finished(self.desk.clock(), batch.outcomes[place]))
        self._launch()
        self._tell_if_quiet()


_BLOCKED = (
    "The call had to wait for an earlier one that was stopped but still runs, and so it was not "
    "run. Do something else first, or tell the user."
)
_CLOSED = "The executor was closed before the call came. Nothing was run."
_NOBODY = "Nobody is here to answer that, and so nothing was run."
