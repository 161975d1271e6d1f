"""The fast lane: a call that may run at once does, in its batch's order, with nothing prepared."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from handrail._batch import Batch, Glide, begun, ready_in
from handrail._call import Call
from handrail._decision import Allow
from handrail._desk import Desk
from handrail._event import Judged, Requested
from handrail._hooked import passed_back
from handrail._invoke import Flight, stopped
from handrail._lane import Lane, at_once
from handrail._output import rendered
from handrail._policy import judge
from handrail._preflight import Ready
from handrail._result import Result
from handrail._schedule import Schedule


class Ground(Protocol):
    """What a call in the fast lane needs of the traffic around it."""

    desk: Desk
    schedule: Schedule
    lanes: dict[str, Lane]
    batches: dict[int, Batch]

    def launch(self) -> None:
        """Start the calls that may start now."""
        ...

    async def fly(self, batch: Batch, place: int, flight: Flight) -> None:
        """Run one call in a task of its own."""
        ...

    async def land(self, batch: Batch, place: int, flight: Flight, result: Result) -> None:
        """Give a call its result."""
        ...


async def went_on(ground: Ground, ready: Ready, started: Any) -> Result:
    """Go on with a single call that was started where it stood, and did not end at once."""
    flight = ground.desk.flight(ready)
    flight.started, flight.boarded = started, True
    tell_start(ground.desk, ready, ground.desk.clock())
    ground.schedule.add(flight.key, ready.tool.spec.name, ready.accesses)
    ground.schedule.startable()
    batch = ground.batches[flight.key] = Batch()
    batch.flights[flight.key] = (0, flight)
    await ground.fly(batch, 0, flight)
    return batch.outcomes[0]


def glides(ground: Ground, batch: Batch, place: int, call: Call) -> bool:
    """Start a call in the fast lane, if it may and nothing stands in its way."""
    lane, desk = ground.lanes.get(call.name), ground.desk
    if lane is None or not lane.reads:
        return False
    values = at_once(lane.tool, call.args)
    if values is None:
        return False
    decision = judge(desk.policy, call, lane.spec, lane.accesses)
    if type(decision) is not Allow or (batch.waiting and batch.before(place, lane.accesses)):
        return False
    desk.keys += 1
    if not ground.schedule.read_now(desk.keys, lane.spec.name, lane.accesses):
        return False
    glide = batch.gliding[place] = (place, desk.keys, call, lane, values, decision)
    batch.spawn(partial(_glide, ground, batch, glide))
    return True


async def _glide(ground: Ground, batch: Batch, glide: Glide) -> None:
    """Run a call of the fast lane in a task of its own."""
    place, key, call, lane, values, decision = glide
    del batch.gliding[place]
    desk = ground.desk
    began = desk.clock() if desk.feeds else 0.0
    if place in batch.stopped:
        flight = desk.flight(ready_in(call, lane, values, decision), key)
        ground.schedule.end(key)
        tell_start(ground.desk, flight.ready, began)
        await ground.land(batch, place, flight, stopped(flight))
        return
    first = begun(lane.fn, values)
    if first.started is not None:
        await _take_off(ground, batch, glide, first.started)
        return
    ground.schedule.end(key)
    if ground.batches:
        ground.launch()
    result, stored = rendered(call.id, first.value, lane.tool), 0
    if len(result.text) > lane.most:
        result, stored = desk.shortened(result, lane.most)
    try:
        if desk.after:
            result = await passed_back(call, result, desk.after, desk.hook_timeout, native=True)
    finally:
        if desk.feeds:
            desk.tell((began, desk.clock(), call, lane.accesses, decision, result, stored))
    batch.outcomes[place] = result


async def _take_off(ground: Ground, batch: Batch, glide: Glide, started: Any) -> None:
    """Go on with a call of the fast lane that did not end at once."""
    place, key, call, lane, values, decision = glide
    flight = ground.desk.flight(ready_in(call, lane, values, decision), key)
    flight.started, flight.boarded = started, True
    batch.flights[key], ground.batches[key] = (place, flight), batch
    ground.schedule.settle(key)
    tell_start(ground.desk, flight.ready, ground.desk.clock())
    await ground.fly(batch, place, flight)


def tell_start(desk: Desk, ready: Ready, at: float) -> None:
    desk.tell(Requested(at, ready.call))
    desk.tell(Judged(at, ready.call.id, ready.accesses, ready.decision))
