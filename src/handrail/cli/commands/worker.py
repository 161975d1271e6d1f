"""`handrail worker`."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Halt

if TYPE_CHECKING:
    from handrail.runs.durable import DurableRuns, DurableWorker


@as_command("worker", "Work on durable runs until the process is stopped.")
@click.argument("runs", help="The runs, as MODULE:NAME. The module is imported.")
@click.option("--slots", default=100, show_default=True, help="How many runs at once.")
@click.option("--health", metavar="HOST:PORT", help="Answer /healthz, /readyz and /metrics here.")
@click.option("--drain", default=30.0, show_default=True, help="Seconds for turns at the end.")
def command(app: App, *, runs: str, slots: int, health: str | None, drain: float) -> None:
    """Work on durable runs until the process gets SIGTERM or Ctrl-C.

    RUNS names an object of type DurableRuns, such as shop:runs for `runs` in shop.py. Start as many
    workers as you like. The runs of a worker that dies continue in the others. A worker whose calls
    outlast --drain and five seconds more ends with exit code 75.
    """
    found = _load(app, runs)
    place = None if health is None else _read_place(health)

    def say(worker: DurableWorker, port: int) -> None:
        at = f", health on port {port}" if port else ""
        document = {"worker": worker.id, "health_port": port or None}
        app.print(document, [f"worker {worker.id} is running{at}"])

    async def serve() -> None:
        await found.serve(slots=slots, drain_seconds=drain, health=place, on_start=say)

    anyio.run(serve)


def _load(app: App, name: str) -> DurableRuns:
    from handrail.runs.durable import DurableRuns

    module, _, attribute = name.partition(":")
    sys.path.insert(0, str(app.workspace))
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        hint = "name a module and an object in it, such as `shop:runs`"
        raise Halt(f"cannot load {name!r}: {error}", code="usage", hint=hint) from error
    if not isinstance(found, DurableRuns):
        raise Halt(f"{name!r} is a {type(found).__name__}, not DurableRuns", code="usage")
    return found


def _read_place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise Halt(f"--health {text!r} is not HOST:PORT", code="usage")
    return host, int(port)
