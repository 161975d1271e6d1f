"""A process of its own that goes on with a run, and writes what its tools did into a log.

Reads one JSON object from stdin. With ``state``: resumes that with answers for the calls named, and
prints where the run then stands. With ``kills``: see ``killed``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from agent.stage import World, by_turn, calls, fill, look, put, says, streamed
from handrail import Allow, Ask, Call, Decision, Executor, Spec, Toolset
from handrail.agent import Agent, State, dump, load
from handrail.approvals import FileLedger, defer
from handrail.messages import Model


class Log(list[str]):
    """What was done, written down at once: it outlives the process."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def append(self, what: str) -> None:
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, f"{what}\n".encode())
        os.close(handle)


def tools(folder: Path) -> Toolset:
    world = World()
    world.did = Log(folder / "log")
    return world.tools


def gate(call: Call, spec: Spec, _: Any) -> Decision:
    return Ask(f"{call.id}?") if spec.name == "put" else Allow()


WAITS = by_turn(calls(put("a", "1"), look("x", "2"), put("b", "3"), put("c", "4")), says("done"))
GOES = by_turn(
    calls("First", look("x", "1"), put("a", "2")),
    calls(fill("b", "1"), put("c", "2"), look("y", "3"), put("d", "4")),
    says("done"),
)


def model(order: dict[str, Any], whole: Model) -> Model:
    return streamed(whole) if order["stream"] else whole


async def go_on(order: dict[str, Any]) -> dict[str, Any]:
    """Answer some questions of a run, and say where it stands."""
    folder, state = Path(order["folder"]), load(order["state"])
    ledger = FileLedger(folder / "ledger")
    answers = {one.id: Allow() for one in state.pending if one.call.id in order["answers"]}
    async with Executor(tools(folder), policy=gate, approver=defer, ledger=ledger) as executor:
        done = await Agent(model(order, WAITS), executor).resume(state, answers=answers)
    return {"stop": done.stop, "state": dump(done.state)}


# ---------------------------------------------------------------- killed


class Disk:
    """Where the state lies; the process dies at the nth time that it is written, before or after."""

    def __init__(self, folder: Path, dies_at: int = 0, *, after: bool = False) -> None:
        self._path = folder / "state"
        self._dies_at = dies_at
        self._after = after
        self.times = 0

    async def save(self, state: State) -> None:
        self.times += 1
        if self.times == self._dies_at and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        scratch = self._path.with_suffix(".new")
        scratch.write_text(dump(state), encoding="utf-8")
        scratch.replace(self._path)
        if self.times == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def load(self) -> State | None:
        return load(self._path.read_text(encoding="utf-8")) if self._path.exists() else None


async def once(order: dict[str, Any], folder: Path, disk: Disk) -> None:
    """One process's part of a run: from where it was left, until it ends or the process does."""
    ledger = FileLedger(folder / "ledger")
    asks = gate if order["asks"] else None
    executor = Executor(tools(folder), policy=asks, approver=defer, ledger=ledger)
    agent = Agent(model(order, GOES), executor, save=disk.save)
    state = disk.load()
    async with executor:
        done = await (agent.run("go") if state is None else agent.resume(state))
        while done.stop == "pending":
            answers = {one.id: Allow() for one in done.state.pending}
            done = await agent.resume(done.state, answers=answers)
    end = {"stop": done.stop, "text": done.text, "state": dump(done.state), "times": disk.times}
    (folder / "end").write_text(json.dumps(end), encoding="utf-8")


def in_a_process(order: dict[str, Any], folder: Path, disk: Disk) -> int:
    """The signal that ended it, or 0."""
    child = os.fork()
    if not child:
        try:
            anyio.run(once, order, folder, disk, backend=order["backend"])
        finally:
            os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


def killed(order: dict[str, Any]) -> list[dict[str, Any]]:
    """A run that is killed at each of its saves in turn, and gone on with: what became of each."""
    told: list[dict[str, Any]] = []
    after, at = bool(order["after"]), 0
    anyio.run(anyio.sleep, 0, backend=order["backend"])  # loads the event loop once for all
    while True:
        at += 1
        folder = Path(order["folder"]) / str(at)
        folder.mkdir()
        ended_by = in_a_process(order, folder, Disk(folder, at, after=after))
        left = Disk(folder).load()
        if ended_by:
            in_a_process(order, folder, Disk(folder))
        log = (folder / "log").read_text(encoding="utf-8").splitlines()
        end = json.loads((folder / "end").read_text(encoding="utf-8"))
        told.append({"signal": ended_by, "left": left and dump(left), "did": log, "end": end})
        if not ended_by:
            return told


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(killed(given) if "after" in given else anyio.run(go_on, given)))  # noqa: T201
