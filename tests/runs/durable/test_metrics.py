"""Numbers for operators: of a worker, of its queues, and of the runs that need someone."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from handrail import Ask, Call, Text, tool
from handrail.agent import Agent
from handrail.messages import ModelError, Reply, Request
from handrail.runs._serving import measuring
from handrail.runs.durable import CallQueue, DurableRuns, DurableWorker
from handrail.telemetry import Telemetry
from runs.durable.shop import Ledger, call_once, make_agent
from runs.durable.workers import Forks

AGE = re.compile(r"(_seconds\{.*\}) \d.*")


class Office:
    """Agents whose runs fail, wait for a person, or wait until they may end."""

    def __init__(self) -> None:
        self.busy, self.may_end = anyio.Event(), anyio.Event()

    def agents(self) -> dict[str, Agent[Any]]:
        @tool
        async def pay() -> str:
            """Pay."""
            return "paid"

        async def fail(_request: Request) -> Reply:
            raise ModelError("Not available.")

        async def ask(_request: Request) -> Reply:
            return Reply((Call("pay", {}, "c"),))

        async def work(_request: Request) -> Reply:
            self.busy.set()
            await self.may_end.wait()
            return Reply((Text("done"),))

        policy: Any = lambda _call: Ask("Pay?")  # noqa: E731
        return {
            "fails": Agent(fail),
            'asks "twice"': Agent(ask, [pay], policy=policy),
            "works": Agent(work),
        }


async def get(port: int, path: str) -> tuple[str, str]:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        text = b""
        async for chunk in stream:
            text += chunk
    head, _, body = text.decode().partition("\r\n\r\n")
    return head, body


WORKER = """\
# HELP handrail_worker_slots Runs that this worker works on, and how many more it takes.
# TYPE handrail_worker_slots gauge
handrail_worker_slots{state="used"} 1
handrail_worker_slots{state="free"} 0
# HELP handrail_worker_takeovers_total Workers whose death this worker has seen.
# TYPE handrail_worker_takeovers_total counter
handrail_worker_takeovers_total 0
# HELP handrail_worker_taken_over_total Runs and calls of dead workers that continue.
# TYPE handrail_worker_taken_over_total counter
handrail_worker_taken_over_total 0
# HELP handrail_worker_calls_unknown_total Calls that may have taken effect.
# TYPE handrail_worker_calls_unknown_total counter
handrail_worker_calls_unknown_total 0
# HELP handrail_worker_runs_failed_total Runs that have failed in this worker.
# TYPE handrail_worker_runs_failed_total counter
handrail_worker_runs_failed_total 1
# HELP handrail_worker_database_errors_total Statements that failed: the database was away, or \
has refused them.
# TYPE handrail_worker_database_errors_total counter
handrail_worker_database_errors_total{kind="away"} 0
handrail_worker_database_errors_total{kind="refused"} 0
# HELP handrail_worker_database_up Whether the database answers.
# TYPE handrail_worker_database_up gauge
handrail_worker_database_up 1
"""
WAITING = """\
# HELP handrail_queue_depth Runs and calls that wait for a worker of this version.
# TYPE handrail_queue_depth gauge
handrail_queue_depth{queue="asks \\"twice\\"",kind="agent"} 2
handrail_queue_depth{queue="works",kind="agent"} 1
# HELP handrail_queue_oldest_seconds How long the oldest has waited.
# TYPE handrail_queue_oldest_seconds gauge
handrail_queue_oldest_seconds{queue="asks \\"twice\\"",kind="agent"} AGE
handrail_queue_oldest_seconds{queue="works",kind="agent"} AGE
# HELP handrail_runs Runs in the database that need someone.
# TYPE handrail_runs gauge
handrail_runs{status="failed"} 1
handrail_runs{status="waiting"} 1
# HELP handrail_runs_oldest_seconds How long the first of them has had its status.
# TYPE handrail_runs_oldest_seconds gauge
handrail_runs_oldest_seconds{status="failed"} AGE
handrail_runs_oldest_seconds{status="waiting"} AGE
# HELP handrail_budget_spent Spent in the current window, by model or tool.
# TYPE handrail_budget_spent gauge
# HELP handrail_budget_holders Principals, tenants or others with a budget, and how many have used \
it up.
# TYPE handrail_budget_holders gauge
"""


async def test_a_monitoring_system_can_ask_a_worker(database: str) -> None:
    office, started = Office(), anyio.Event()
    runs = DurableRuns(database, office.agents(), poll=0.02)
    ports: list[int] = []

    def on_start(_worker: DurableWorker, port: int) -> None:
        ports.append(port)
        started.set()

    async def serve() -> None:
        await runs.serve(health=("127.0.0.1", 0), slots=1, interval=60, on_start=on_start)

    with anyio.fail_after(60):
        async with runs, anyio.create_task_group() as group:
            group.start_soon(serve)
            await started.wait()
            await runs.wait(await runs.start("fails", "Go."))
            await runs.wait(await runs.start('asks "twice"', "Go."))
            await runs.start("works", "Go.")
            await office.busy.wait()  # the only slot is in use
            for agent in ('asks "twice"', 'asks "twice"', "works"):
                await runs.start(agent, "Go.")
            head, body = await get(ports[0], "/metrics")
            office.may_end.set()
            os.kill(os.getpid(), signal.SIGTERM)

    assert head.split("\r\n")[:2] == [
        "HTTP/1.1 200 OK",
        "Content-Type: text/plain; version=0.0.4; charset=utf-8",
    ]
    assert AGE.sub(r"\1 AGE", body) == WORKER + WAITING


def test_alarms_and_the_rule_for_scaling_use_these_numbers() -> None:
    used = {
        name
        for file in ("prometheus-alarms.yaml", "kubernetes/keda.yaml")
        for name in re.findall(r"handrail_\w+", str(yaml.safe_load(read_deploy(file))))
    }
    known = set(re.findall(r"# TYPE (\w+)", WORKER + WAITING))

    assert (len(used), used - known) == (7, set())


def read_deploy(name: str) -> str:
    return (Path(__file__).parents[3] / "deploy" / name).read_text(encoding="utf-8")


async def test_a_worker_counts_deaths_and_what_they_leave(
    forks: Forks, tmp_path: Path, sqlite: str
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    assert forks.run(ledger.path, sqlite, "r", agent="pay", crash="call.ran:1")
    runs = DurableRuns(sqlite, {"pay": make_agent(ledger, call_once("pay"))}, poll=0.02)
    async with runs.work(interval=0.05) as worker:
        await runs.wait("r", seconds=60)
        values = {one.name: one.values for one in worker.measures()}

    names = ("takeovers", "taken_over", "calls.unknown", "runs.failed")
    assert [values[f"handrail.worker.{name}"][0][1] for name in names] == [1, 1, 1, 0]


async def test_the_numbers_of_the_database_are_read_seldom_and_say_if_it_is_away(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = DurableRuns(sqlite, Office().agents(), poll=0.02, queues={"q": CallQueue()})
    async with runs.work(interval=60) as worker:
        first = await worker.render_metrics()
        await runs._database.write("ALTER TABLE handrail_run RENAME TO gone")  # noqa: SLF001
        again = await worker.render_metrics()
        monkeypatch.setattr(measuring, "FRESH_SECONDS", 0.0)
        away = await worker.render_metrics()
        await runs._database.write("ALTER TABLE gone RENAME TO handrail_run")  # noqa: SLF001

    assert "handrail_worker_database_up 1\n" in first
    assert "handrail_worker_database_up 1\n" in again
    assert "handrail_worker_database_up 0\n" in away
    assert re.search(r'handrail_worker_database_errors_total\{kind="refused"\} [1-9]', away)


async def test_opentelemetry_gets_the_same_numbers(sqlite: str) -> None:
    reader = InMemoryMetricReader()
    telemetry = Telemetry(meter_provider=MeterProvider([reader]))
    office = Office()
    runs = DurableRuns(sqlite, office.agents(), poll=0.02)
    async with runs.work(interval=60, slots=2) as worker:
        telemetry.worker(worker)
        await runs.wait(await runs.start("fails", "Go."), seconds=60)
        await worker.render_metrics()
        data: Any = reader.get_metrics_data()

    [scope] = data.resource_metrics[0].scope_metrics
    seen = {
        metric.name: (
            metric.unit,
            [(dict(point.attributes), point.value) for point in metric.data.data_points],
        )
        for metric in scope.metrics
    }
    assert seen["handrail.worker.slots"] == (
        "{slot}",
        [({"state": "used"}, 0), ({"state": "free"}, 2)],
    )
    assert seen["handrail.worker.runs.failed"] == ("1", [({}, 1)])
    assert seen["handrail.runs"] == ("1", [({"status": "failed"}, 1)])
