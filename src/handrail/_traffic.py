"""Traffic: batches of calls under way, each call in a task of its own, started when it may."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import anyio

from handrail._access import Access
from handrail._batch import Batch, ready_in
from handrail._call import Call
from handrail._decision import Allow, Ask, Deny
from handrail._desk import Desk
from handrail._effect import READ
from handrail._event import Finished, Judged, Requested, Waiting
from handrail._glider import glides, tell_start
from handrail._hooked import Unfinished
from handrail._invoke import Flight, invoke, stopped
from handrail._lane import Lane, lane
from handrail._loop import group, is_cancelled
from handrail._pending import Pending
from handrail._preflight import Ready
from handrail._questions import Questions, Taken, waiting
from handrail._result import Kind, Result
from handrail._schedule import Schedule


class Traffic:
    """Everything that is under way."""

    def __init__(self, desk: Desk, schedule: Schedule) -> None:
        self.desk = desk
        self.schedule = schedule
        self.questions = Questions(desk)
        self.lanes: dict[str, Lane] = {}
        self.batches: dict[int, Batch] = {}
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
            if any(batch.gone):
                await self.questions.all_ended(batch.gone)
        if failure is not None:
            raise failure

    def _complete(self, batch: Batch) -> None:
        """All calls of a batch are known: those that waited for that may start."""
        for key in batch.held:
            if key in batch.flights:
                self.schedule.release(key)
        self.launch()
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
            passed = await self.desk.checked(call, passed)
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
                passed = await desk.checked(call)
        if self.lanes and type(passed) is Call and glides(self, batch, place, passed):
            return
        desk.tell(Requested(desk.clock(), call))
        if isinstance(passed, Result) and not desk.loosens(call, passed):
            await self._settle(batch, place, call, passed)
        else:
            judged = passed if isinstance(passed, Call) else call
            await self._admit(batch, place, judged, desk.judged(judged))

    async def take_up(self, batch: Batch, pending: Pending, answer: object) -> None:
        """Go on with a call that waited, now that it has its answer, or still has none."""
        place, desk, call = len(batch.calls), self.desk, pending.call
        batch.calls.append(call)
        others = set(pending.after) - batch.taken_up
        desk.tell(Requested(desk.clock(), call))
        taken = Taken(Result.fail(call.id, Kind.CANCELLED, _CLOSED))
        if not self.closed:
            free = not batch.before(place, pending.accesses)
            free = free and await self.questions.may_go_on(others)
            taken = await self.questions.taken_up(pending, answer, free=free)
        if taken.claimed:
            batch.taken_up.add(pending.chain)
        chain = pending.chain if taken.claimed else ""
        await self._admit(batch, place, call, taken.ready, chain=chain)

    async def _admit(
        self, batch: Batch, place: int, call: Call, ready: Ready | Result, *, chain: str = ""
    ) -> None:
        """Give a judged call its turn, or its result."""
        desk = self.desk
        if isinstance(ready, Ready):
            changed = ready.call if ready.call != batch.calls[place] else None
            desk.tell(Judged(desk.clock(), call.id, ready.accesses, ready.decision, changed))
            if self.closed:  # while somebody was waited for
                ready = Result.fail(call.id, Kind.CANCELLED, _CLOSED)
            elif refusal := self._refusal(ready):
                ready = Result.fail(call.id, Kind.DENIED, refusal)
            elif after := batch.before(place, ready.accesses):
                ready = waiting(self.questions.pending(ready, after, chain))
        if isinstance(ready, Ready):
            self._board(batch, place, ready, chain)
            return
        if ready.pending is not None:
            batch.waiting.append((place, ready.pending))
        elif chain:
            await self.questions.ended(chain)
        await self._settle(batch, place, call, ready)

    async def _settle(self, batch: Batch, place: int, call: Call, result: Result) -> None:
        """Give a call its result, once the hooks after it have seen it."""
        self._landing += 1
        try:
            batch.outcomes[place] = await self.desk.settled(call, result)
        finally:
            self._landing -= 1
            self._tell_if_quiet()

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
        for key, batch in list(self.batches.items()):
            place, flight = batch.flights[key]
            if call_ids and flight.ready.call.id not in call_ids:
                continue
            flight.cancel()
            if batch.closing and not flight.boarded:
                self._drop(batch, key)
            elif not flight.boarded:
                self._end(key, launch=False)
                batch.spawn(partial(self.land, batch, place, flight, stopped(flight)))
        self.launch()

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

    def _board(self, batch: Batch, place: int, ready: Ready, chain: str) -> None:
        """Give a judged call its turn."""
        spec, desk = ready.tool.spec, self.desk
        known = ready.call.name in self.lanes or ready.call.name != spec.name
        quick = desk.native and desk.registry is None and not known
        if quick and (made := lane(ready.tool, desk.limits.max_chars)):
            self.lanes[spec.name] = made
        flight = desk.flight(ready)
        flight.chain = chain
        batch.flights[flight.key] = (place, flight)
        self.batches[flight.key] = batch
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
        self.launch()
        if early and not asks:
            self._tell_if_crowded(flight)

    def _tell_if_crowded(self, flight: Flight) -> None:
        """A call that waits for nobody and was not started lacks a place."""
        if not flight.boarded and not flight.waits:
            self.desk.tell(Waiting(self.desk.clock(), flight.ready.call.id, ()))

    def _named(self, key: int) -> str:
        """The id of a call that has not ended; of one whose thread outlived it, what is known."""
        batch = self.batches.get(key)
        return batch.flights[key][1].ready.call.id if batch is not None else "(a stopped call)"

    def launch(self) -> None:
        for key in self.schedule.startable():
            batch = self.batches[key]
            place, flight = batch.flights[key]
            if batch.closing:
                self._drop(batch, key)
                continue
            flight.boarded = True
            batch.spawn(partial(self.fly, batch, place, flight))

    async def fly(self, batch: Batch, place: int, flight: Flight) -> None:
        """Run one call in a task of its own."""
        if flight.put_off is not None or batch.before(place, flight.ready.accesses):
            result = stopped(flight) if flight.stopped else self._waits(batch, place, flight)
            self._end(flight.key)  # those behind it find it among the waiting ones
            await self.land(batch, place, flight, result)
            return
        try:
            if flight.started is None and (flight.stopped or is_cancelled()):
                result = stopped(flight)
            else:
                result = await invoke(flight, self.desk.limits)
            batch.closing = batch.closing or is_cancelled()
        except BaseException:
            batch.closing = True
            batch.gone.append(flight.chain)
            self.desk.tell(Finished(self.desk.clock(), stopped(flight)))
            raise
        finally:
            self._end(flight.key, flight)
        await self.land(batch, place, flight, result)

    async def land(self, batch: Batch, place: int, flight: Flight, result: Result) -> None:
        dressed = self.desk.dressed(flight.ready, result)
        if flight.chain and result.pending is None:
            await self.questions.ended(flight.chain)
        await self._settle(batch, place, flight.ready.call, dressed)

    async def _ask(self, batch: Batch, place: int, flight: Flight) -> None:
        """Put a policy's question to the approver, and act on the answer."""
        amend = partial(self.schedule.amend, flight.key)
        settled = await self.questions.settle(flight, amend)
        if isinstance(settled, Allow | Pending) and not flight.stopped:
            flight.put_off = settled if isinstance(settled, Pending) else None
            flight.boarded = False
            self.schedule.release(flight.key)
            self.launch()
            return
        self._end(flight.key)
        told = settled if isinstance(settled, Result) and not flight.stopped else stopped(flight)
        await self.land(batch, place, flight, told)

    def _waits(self, batch: Batch, place: int, flight: Flight) -> Result:
        """Put a call off until somebody answers: what it is told while it waits."""
        after = batch.before(place, flight.ready.accesses)
        ready = (
            flight.ready if flight.asked is None else flight.ready._replace(decision=flight.asked)
        )
        pending = flight.put_off or self.questions.pending(ready, chain=flight.chain)
        pending = replace(pending, after=after)
        batch.waiting.append((place, pending))
        return waiting(pending)

    def in_the_way(self, accesses: tuple[Access, ...]) -> tuple[str, ...]:
        """The ids of the calls under way that one with these accesses would wait for."""
        return tuple(map(self._named, self.schedule.conflicting(accesses)))

    def _drop(self, batch: Batch, key: int) -> None:
        """A call will never run."""
        place, flight = batch.flights[key]
        self._end(key, launch=False)
        batch.gone.append(flight.chain)
        batch.outcomes[place] = stopped(flight)
        self.desk.tell(Finished(self.desk.clock(), batch.outcomes[place]))

    def _end(self, key: int, flight: Flight | None = None, *, launch: bool = True) -> None:
        """A call is over; unless its thread runs on, what it touched is free again."""
        batch = self.batches.pop(key)
        del batch.flights[key]
        if not batch.flights and batch.all_ended is not None:
            batch.all_ended.set()
        linger = flight.linger if flight is not None else None
        if linger is not None and linger.abandon(partial(self._thread_ended, key)):
            self._lingering += 1
            return
        self.schedule.end(key)
        if launch:
            self.launch()
        self._tell_if_quiet()

    def _thread_ended(self, key: int) -> None:
        self._lingering -= 1
        self.schedule.end(key)
        self.launch()
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
            await self.land(batch, place, flight, blocked)

    def _moves(self) -> bool:
        """Whether any call has a task that sees to it."""
        return any(batch.flights[key][1].boarded for key, batch in self.batches.items())

    def _give_up(self, batch: Batch) -> None:
        """The batch was cancelled from outside: whoever has not landed never will."""
        for key in list(batch.flights):
            self._drop(batch, key)
        for place, key, call, way, values, decision in batch.gliding.values():
            self.schedule.end(key)
            flight = self.desk.flight(ready_in(call, way, values, decision), key)
            batch.outcomes[place] = stopped(flight)
            tell_start(self.desk, flight.ready, self.desk.clock())
            self.desk.tell(Finished(self.desk.clock(), batch.outcomes[place]))
        self.launch()
        self._tell_if_quiet()


_BLOCKED = (
    "The call had to wait for an earlier one that was stopped but still runs, and so it was not "
    "run. Do something else first, or tell the user."
)
_CLOSED = "The executor was closed before the call came. Nothing was run."
_NOBODY = "Nobody is here to answer that, and so nothing was run."
