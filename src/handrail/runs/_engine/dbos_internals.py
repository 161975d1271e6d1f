"""The private DBOS names in use: each once, and checked before a worker begins."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from importlib import import_module, metadata
from typing import Any, NamedTuple

from dbos import DBOS

from handrail import HandrailError
from handrail.runs._engine.call_queue import CallQueue

_VERSIONS = "_migration.get_migration_versions"
_FILE_VERSIONS = "_migration.get_sqlite_migration_versions"
_BEGIN = "_core.execute_dequeued_workflow"
_INSTANCE = "_dbos._dbos_global_instance"
_REGISTRY = "_dbos._get_or_create_dbos_registry"
_QUEUE = "_queue.Queue"
_QUEUE_PROOF = "_queue._INTERNAL_QUEUE_CONSTRUCTION"
_PICKLES = "_serialization.DefaultSerializer"
_SYSTEM = "_sys_db.SystemDatabase"

FUNCTIONS: Mapping[str, str] = {
    _BEGIN: "dbos status owner_xid",
    _REGISTRY: "",
    _VERSIONS: "engine schema *use_listen_notify",
    _FILE_VERSIONS: "engine",
    _QUEUE: "name *worker_concurrency *global_concurrency *partition_concurrency *limiter *token",
    f"{_SYSTEM}.get_queue_partitions": "self queue_name",
    f"{_SYSTEM}.get_workflow_statuses": "self workflow_ids",
    f"{_SYSTEM}.start_queued_workflows": (
        "self queue executor_id app_version queue_partition_key local_running_count *owner_xid"
    ),
}
"""Functions in private modules, and the parameters we pass. Those with ``*`` by name."""
VALUES = (_INSTANCE, _QUEUE_PROOF, f"{_PICKLES}.deserialize")
"""Values in private modules."""
ATTRIBUTES = (
    "_config",
    "_launched",
    "_registry.workflow_info_map",
    "_serializer",
    "_sys_db._retry_connection_errors",
    "_sys_db._run_background_processes",
    "_workflow_timeout_stop_event",
    "background_thread_stop_events",
)
"""Attributes of a launched instance."""
_BUSY = {"55P03", "40001"}
"""What PostgreSQL says if another worker takes from the same queue now."""


def check_names() -> None:
    """Raise a HandrailError unless this DBOS version has everything we use."""
    wrong = [path for path, names in FUNCTIONS.items() if not _fits(path, names.split())]
    _refuse_names([*wrong, *(path for path in VALUES if not _has(path))])


def check_instance(instance: Any) -> None:
    """Raise a HandrailError unless an instance has what we use."""
    wrong: list[str] = []
    for path in ATTRIBUTES:
        try:
            _follow(instance, path.split("."))
        except AttributeError:
            wrong.append(f"DBOS.{path}")
    _refuse_names(wrong)


def _refuse_names(wrong: Sequence[str]) -> None:
    if wrong:
        raise HandrailError(
            f"Durable runs do not work with dbos {metadata.version('dbos')}: they use "
            f"{', '.join(wrong)}, which it does not have, or not with the same parameters. "
            "Install a version that this handrail knows: `pip install 'handrail[durable]'`."
        )


def _follow(value: Any, names: Iterable[str]) -> Any:
    return reduce(getattr, names, value)


def _find(path: str) -> Any:
    """Return a name from a private DBOS module."""
    module, *names = path.split(".")
    return _follow(import_module(f"dbos.{module}"), names)


def _has(path: str) -> bool:
    with suppress(ImportError, AttributeError):
        _find(path)
        return True
    return False


def _fits(path: str, names: Sequence[str]) -> bool:
    """Return whether a function takes these parameters, and needs no others."""
    if not _has(path):
        return False
    known = inspect.signature(_find(path)).parameters
    first = [name for name in names if not name.startswith("*")]
    given = {name.removeprefix("*") for name in names}
    others = [one for name, one in known.items() if name not in given]
    return (
        list(known)[: len(first)] == first
        and given <= known.keys()
        and all(one.default is not one.empty for one in others)
    )


def find_instance() -> Any:
    """Return the instance launched by this process."""
    found = _find(_INSTANCE)
    return found if getattr(found, "_launched", found is not None) else None


def forget_workflow(name: str) -> None:
    """Allow registering a workflow again. An earlier worker in this process may have left one."""
    _find(_REGISTRY)().workflow_info_map.pop(name, None)


class Settings(NamedTuple):
    """An instance's settings."""

    name: str
    url: str
    serializer: str


def read_settings(instance: Any) -> Settings:
    """Return an instance's settings."""
    config, serializer = instance._config, instance._serializer  # noqa: SLF001
    return Settings(config["name"], config["system_database_url"], serializer.name())


class Taken(NamedTuple):
    """How much this process takes from a queue."""

    queue: str
    most: int
    limits: CallQueue | None
    """A call queue's limits."""
    running: int
    """Its calls running here."""
    token: str
    """Marks the rows taken."""


def take(instance: Any, wanted: Taken) -> list[Any]:
    """Take a queue's rows for this process, and return those it must begin."""
    system = find_system(instance)
    queue = _make_queue(wanted)
    keys: list[str | None] = [None]
    if wanted.limits is not None and wanted.limits.per_tenant is not None:
        keys = system.get_queue_partitions(wanted.queue)
        random.shuffle(keys)  # no tenant is always the last
    ids: list[str] = []
    mine = (DBOS.executor_id, DBOS.application_version)
    for key in keys:
        running = wanted.running + len(ids)
        try:
            found, _ = system.start_queued_workflows(
                queue, *mine, key, running, owner_xid=wanted.token
            )
        except Exception as error:
            if getattr(getattr(error, "orig", None), "sqlstate", None) not in _BUSY:
                raise
            continue
        ids += found
    rows: list[Any] = system.get_workflow_statuses(ids) if ids else []
    return [row for row in rows if row["status"] == "PENDING"]  # others were just cancelled


def begin(instance: Any, row: Any, token: str) -> None:
    """Begin what was taken. Raises if it cannot run."""
    _find(_BEGIN)(instance, row, token)


def _make_queue(wanted: Taken) -> Any:
    """Return a DBOS queue without a row, which no other thread checks."""
    named: dict[str, Any] = {"worker_concurrency": wanted.most}
    if (limits := wanted.limits) is not None:
        rate = limits.rate
        named = {
            "worker_concurrency": limits.per_worker,
            "global_concurrency": limits.in_all,
            "partition_concurrency": limits.per_tenant,
            "limiter": None if rate is None else {"limit": rate[0], "period": rate[1]},
        }
    return _find(_QUEUE)(wanted.queue, **named, token=_find(_QUEUE_PROOF))


def find_system(instance: Any) -> Any:
    """Return an instance's connection to its tables. It does not say later."""
    return instance._sys_db  # noqa: SLF001


def end_checks(instance: Any) -> None:
    """End the threads checking the database all the time: no one needs their finds.

    These are schedules, timeouts, messages, and queues DBOS listens to.
    """
    for event in (*instance.background_thread_stop_events, instance._workflow_timeout_stop_event):  # noqa: SLF001
        event.set()
    find_system(instance)._run_background_processes = False  # noqa: SLF001


def end_retries(system: Any) -> None:
    """Let DBOS not try forever to reach the database: the process could not end."""
    system._retry_connection_errors = False  # noqa: SLF001


def read_versions(engine: Any) -> tuple[int, int]:
    """Return the last DBOS migration's number: in the tables, and in the package."""
    if engine.dialect.name == "sqlite":
        done, last = _find(_FILE_VERSIONS)(engine)
    else:
        done, last = _find(_VERSIONS)(engine, "dbos", use_listen_notify=True)
    return done, last


def refuse_pickles() -> None:
    """Let DBOS read no pickle, in this process.

    DBOS chooses by the row how to read it, whatever serializer it has. A pickle runs code, so
    anyone who can write a row could run code in a worker.
    """
    _find(_PICKLES).deserialize = _refuse


def _refuse(_serializer: object, _text: str) -> Any:
    raise HandrailError("A pickle in the database of durable runs was not read: it could run code.")
