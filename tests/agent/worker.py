"""A separate process that resumes a run, and logs the calls of its tools.

Reads one JSON object from stdin. With ``state``: resumes it with answers for the named calls, and
prints the outcome. With ``kills``: see ``killed``.
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
from handrail import Allow, Approvals, Ask, CheckedCall, Decision, Executor, Toolset
from handrail.agent import Agent, RunState, dump_state, load_state
from handrail.approvals import FileLedger, defer
from handrail.messages import Model


class Log(list[str]):
    """A log that is written immediately, so that it survives the process."""

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


def gate(call: CheckedCall) -> Decision:
    return Ask(f"{call.id}?") if call.name == "put" else Allow()


WAITS = by_turn(calls(put("a", "1"), look("x", "2"), put("b", "3"), put("c", "4")), says("done"))
GOES = by_turn(
    calls("First", look("x", "1"), put("a", "2")),
    calls(fill("b", "1"), put("c", "2"), look("y", "3"), put("d", "4")),
    says("done"),
)


def model(order: dict[str, Any], whole: Model) -> Model:
    return streamed(whole) if order["stream"] else whole


async def resume_run(order: dict[str, Any]) -> dict[str, Any]:
    """Answer some pending calls of a run, and return its state."""
    folder, state = Path(order["folder"]), load_state(order["state"])
    ledger = FileLedger(folder / "ledger")
    answers = {one.id: Allow() for one in state.pending if one.call.id in order["answers"]}
    async with Executor(
        tools(folder), policy=gate, approvals=Approvals(approver=defer, ledger=ledger)
    ) as executor:
        done = await Agent(model(order, WAITS), executor).resume(state, answers=answers)
    return {"stop": done.stop_reason, "state": dump_state(done.state)}


# ---------------------------------------------------------------- killed


class Disk:
    """The file of the state. The process dies at the nth save, before or after writing."""

    def __init__(self, folder: Path, dies_at: int = 0, *, after: bool = False) -> None:
        self._path = folder / "state"
        self._dies_at = dies_at
        self._after = after
        self.times = 0

    async def save(self, state: RunState) -> None:
        self.times += 1
        if self.times == self._dies_at and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        scratch = self._path.with_suffix(".new")
        scratch.write_text(dump_state(state), encoding="utf-8")
        scratch.replace(self._path)
        if self.times == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def load(self) -> RunState | None:
        return load_state(self._path.read_text(encoding="utf-8")) if self._path.exists() else None


async def once(order: dict[str, Any], folder: Path, disk: Disk) -> None:
    """One process's part of a run: from the last state until the run or the process ends."""
    ledger = FileLedger(folder / "ledger")
    asks = gate if order["asks"] else None
    executor = Executor(
        tools(folder), policy=asks, approvals=Approvals(approver=defer, ledger=ledger)
    )
    agent = Agent(model(order, GOES), executor, save=disk.save)
    state = disk.load()
    async with executor:
        done = await (agent.run("go") if state is None else agent.resume(state))
        while done.stop_reason == "pending":
            answers = {one.id: Allow() for one in done.state.pending}
            done = await agent.resume(done.state, answers=answers)
    end = {
        "stop": done.stop_reason,
        "text": done.text,
        "state": dump_state(done.state),
        "times": disk.times,
    }
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
    """Kill a run at each of its saves in turn, resume it, and return the outcomes."""
    kills: list[dict[str, Any]] = []
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
        kills.append(
            {"signal": ended_by, "left": left and dump_state(left), "did": log, "end": end}
        )
        if not ended_by:
            return kills


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(killed(given) if "after" in given else anyio.run(resume_run, given)))  # noqa: T201
