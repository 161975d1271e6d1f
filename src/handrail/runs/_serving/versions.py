"""Give an old version's runs to a new one, when no worker of the old version is left."""

from __future__ import annotations

from anyio import to_thread

from handrail.runs._durable.rows import Rows
from handrail.runs._engine.workflows import Workflows
from handrail.runs._store.database import Database
from handrail.runs._store.liveness import make_lock


async def adopt_version(
    database: Database, workflows: Workflows, rows: Rows, *, old: str, new: str
) -> int:
    """Move runs from one version to another. Returns how many segments and calls moved.

    A living worker keeps its segments. A dead one moves with its segments, for any worker of the
    new version to take them over.
    """
    moved = await workflows.adopt(old)
    for worker in await rows.workers_of(old):
        lock = make_lock(database, worker)
        if not await to_thread.run_sync(lock.take):
            continue
        try:
            moved += await workflows.adopt(old, worker)
            await rows.move_worker(worker, new)
        finally:
            await to_thread.run_sync(lock.release)
    return moved
