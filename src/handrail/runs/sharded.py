"""Durable runs over several databases. A run's id names its database.

Needs the extra ``handrail[durable]``.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Self

import anyio
from anyio import to_thread

from handrail import Json
from handrail.messages import Content
from handrail.permissions import Answer
from handrail.runs._reading.records import Records
from handrail.runs._reading.values import InboxPage
from handrail.runs.answers import AnswerOutcome, Claimant, say_unknown
from handrail.runs.durable import DurableRun, DurableRuns
from handrail.runs.journal import JournalError

__all__ = ["ShardedRuns"]

_NAME = re.compile("[a-z0-9-]{1,32}")
_AWAY = (JournalError, OSError)
"""Errors from an unusable shard. A folder can be missing, too."""
_PAUSE = 5.0
"""Seconds in which a failed shard gets no run another one can have."""


class ShardedRuns:
    """Starts, watches and answers durable runs in several databases.

    A run lives in one shard. Its id is the name of the shard, a dot, and the id that you gave. So
    ids find their shard whatever shards are added later. A hash of the id that you gave chooses the
    shard; an id that begins with the name of a shard and a dot chooses it itself.

    Each shard has its own workers: ``shard("s1").serve()`` in a process, or ``handrail worker``.

    Args:
        shards: The databases by name, in the order in which they were added. A name is of lower
            case letters, digits and dashes. Add new ones at the end, and never rename one.
        make: Returns the ``DurableRuns`` of a database, given its address.
        unnamed: The shard with runs whose ids name none: of the time when there was one database.
        seconds: How long a page of the inbox waits for a shard.
    """

    def __init__(
        self,
        shards: Mapping[str, str],
        make: Callable[[str], DurableRuns],
        *,
        unnamed: str | None = None,
        seconds: float = 5.0,
    ) -> None:
        if not shards:
            raise ValueError("There is no shard.")
        for name in (*shards, *([] if unnamed is None else [unnamed])):
            if not _NAME.fullmatch(name) or name not in shards:
                raise ValueError(f"{name!r} is not the name of a shard.")
        self._addresses = dict(shards)
        self._make = make
        self._unnamed = unnamed
        self._seconds = seconds
        self._users = 0
        self._open: dict[str, DurableRuns] = {}
        self._locks = {name: anyio.Lock() for name in shards}
        self._stack = AsyncExitStack()
        self._away: dict[str, float] = {}
        """When a shard failed."""
        self._records: dict[str, Records] = {}
        self._opening = threading.Lock()
        self._slow: dict[str, threading.Event] = {}
        """Reads from shards that were too slow. Each event is set when the read ends."""

    async def __aenter__(self) -> Self:
        self._users += 1
        async with anyio.create_task_group() as group:
            for name in self._addresses:
                group.start_soon(self._try, name)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._users -= 1
        if self._users:
            return
        with anyio.CancelScope(shield=True):
            self._open.clear()
            await self._stack.aclose()
            while self._records:
                await to_thread.run_sync(self._records.popitem()[1].close)

    def shard(self, name: str) -> DurableRuns:
        """Return a shard's runs, for a worker or to maintain it."""
        return self._make(self._addresses[name])

    def find(self, run_id: str) -> str:
        """Return the shard name for a run or a request. Raises LookupError."""
        name, dot, _ = run_id.partition(".")
        if dot and name in self._addresses:
            return name
        if self._unnamed is None:
            names = ", ".join(self._addresses)
            raise LookupError(f"The id {run_id!r} names no shard. There are {names}.")
        return self._unnamed

    async def start(
        self,
        agent: str,
        *prompt: str | Content,
        run_id: str | None = None,
        principal: str | None = None,
        metadata: Mapping[str, Json] | None = None,
        labels: Iterable[str] = (),
    ) -> str:
        """Start a run, and return its id with its shard. See ``DurableRuns.start``.

        A second start with the same ``run_id`` joins the first, also if shards were added between
        them. Without a ``run_id``, a recently failed shard gets no run.
        """
        about: dict[str, Any] = {"principal": principal, "metadata": metadata, "labels": labels}
        whole = self._choose() if run_id is None else await self._place(run_id)
        try:
            runs = await self._use(self.find(whole))
            return await runs.start(agent, *prompt, run_id=whole, **about)
        except _AWAY:
            self._away[self.find(whole)] = time.monotonic()
            raise

    def _choose(self) -> str:
        """Return a new run's id."""
        late = time.monotonic() - _PAUSE
        near = [name for name in self._addresses if self._away.get(name, -math.inf) < late]
        key = uuid.uuid4().hex
        return f"{_owners(key, near or list(self._addresses))[-1]}.{key}"

    async def _place(self, run_id: str) -> str:
        """Return the whole id: for the existing run, or for a new one."""
        name, dot, _ = run_id.partition(".")
        if dot and name in self._addresses:
            return run_id
        *earlier, last = [f"{name}.{run_id}" for name in _owners(run_id, list(self._addresses))]
        if self._unnamed is not None:
            earlier.append(run_id)
        for whole in earlier:
            try:
                await self.get(whole)
            except LookupError:
                continue
            return whole
        return last

    async def get(self, run_id: str) -> DurableRun:
        """Return where a run stands. Raises LookupError if there is none with this id."""
        return await (await self._use(self.find(run_id))).get(run_id)

    async def wait(self, run_id: str, *, seconds: float = 3600.0) -> DurableRun:
        """Return a run once it has ended or waits for a person. Raises TimeoutError."""
        return await (await self._use(self.find(run_id))).wait(run_id, seconds=seconds)

    async def cancel(self, run_id: str) -> bool:
        """Stop a run, and its tools. Returns False if it has already ended."""
        return await (await self._use(self.find(run_id))).cancel(run_id)

    async def answer(self, request_id: str, answer: Answer, *, by: str | Claimant) -> AnswerOutcome:
        """Answer a request if this person may. See ``RunStore.answer``."""
        try:
            runs = await self._use(self.find(request_id))
        except LookupError:
            return say_unknown(request_id)
        return await runs.store.answer(request_id, answer, by=by)

    async def inbox(self, *, after: str = "", limit: int = 50) -> InboxPage:
        """Return what waits for a person in all shards, by the time that is left.

        It reads one page of each shard. A shard that fails, or does not answer in time, is in
        ``InboxPage.away``, and what waits there is not on the page. If it is back on a later page,
        what came before that page is still missing: begin again.

        Args:
            after: The key of the page, from ``InboxPage.next``. Raises ValueError for any other.
            limit: How many rows to return at most.
        """
        place = _read_key(after)
        pages: dict[str, InboxPage] = {}
        async with anyio.create_task_group() as group:
            for name in self._addresses:
                group.start_soon(self._read_page, name, place, limit, pages)
        rows = [
            (row.expires, name, number, row)
            for name, page in pages.items()
            for number, row in enumerate(page.rows)
        ]
        rows.sort(key=lambda one: one[:3])
        chosen = rows[:limit]
        more = len(rows) > limit or any(page.next for page in pages.values())
        return InboxPage(
            rows=tuple(row for *_, row in chosen),
            next=f"{chosen[-1][0]!r} {chosen[-1][1]} {chosen[-1][3].id}" if more else "",
            total=sum(page.total for page in pages.values()),
            away=tuple(name for name in self._addresses if name not in pages),
        )

    async def _read_page(
        self, name: str, place: _Place | None, limit: int, pages: dict[str, InboxPage]
    ) -> None:
        slow = self._slow.get(name)
        if slow is not None and not slow.is_set():
            return
        done = threading.Event()
        after, is_over = ("", False) if place is None else _continue(place, name)

        def read() -> InboxPage:
            try:
                return self._open_records(name).inbox(after=after, limit=limit)
            finally:
                done.set()

        with anyio.move_on_after(self._seconds) as scope:
            try:
                page = await to_thread.run_sync(read, abandon_on_cancel=True)
            except _AWAY:
                self._away[name] = time.monotonic()
            else:
                pages[name] = replace(page, rows=(), next="") if is_over else page
        if scope.cancelled_caught:
            self._away[name] = time.monotonic()
            self._slow[name] = done

    def _open_records(self, name: str) -> Records:
        with self._opening:
            if name not in self._records:
                self._records[name] = self.shard(name).store.records()
            return self._records[name]

    async def _use(self, name: str) -> DurableRuns:
        """Return a shard's open runs. Raises JournalError or OSError if it is away."""
        async with self._locks[name]:
            if name not in self._open:
                self._open[name] = await self._stack.enter_async_context(self.shard(name))
            return self._open[name]

    async def _try(self, name: str) -> None:
        try:
            await self._use(name)
        except _AWAY:
            self._away[name] = time.monotonic()


_Place = tuple[float, str, str]
"""Where an inbox page continues: after a time, a shard, and a request id."""


def _read_key(after: str) -> _Place | None:
    if not after:
        return None
    try:
        expires, name, id_ = after.split(" ", 2)
        return float(expires), name, id_
    except ValueError:
        raise ValueError(f"{after!r} is not the key of a page.") from None


def _continue(place: _Place, name: str) -> tuple[str, bool]:
    """Return the key for a shard's page, and whether nothing can be after it.

    Requests with the same time are in shard order. The databases may sort ids in different ways, so
    two shards' ids are never compared.
    """
    expires, last, id_ = place
    if name == last:
        return f"{expires!r} {id_}", False
    if name > last:
        return f"{expires!r} ", False
    return f"{math.nextafter(expires, math.inf)!r} ", expires == math.inf


def _owners(key: str, names: Sequence[str]) -> list[str]:
    """Return the shards owning an id as shards were added, one by one. The last has it now.

    One more shard takes its share from all others, and moves no other id.
    """
    owners: list[str] = []
    most = b""
    for name in names:
        weight = hashlib.sha256(f"{name}.{key}".encode("utf-8", "surrogatepass")).digest()
        if weight > most:
            most = weight
            owners.append(name)
    return owners
