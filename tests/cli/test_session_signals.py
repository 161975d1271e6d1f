"""Signals at any moment: the run ends soon, nothing is left running, and it can be gone on with."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import forked
from agent.faults import Faulty
from cli_harness import Handrail, Ran, Schemas
from cli_runs import journal_of, standing_of
from cli_scripts import programmed, scripted
from handrail import Call
from handrail.cli._base.app import App
from handrail.cli._project.kit import Kit
from handrail.cli._runs import headless as _headless
from handrail.cli._runs.saved import SavedRun, new_run, open_run
from handrail.cli._runs.session import open_session
from handrail.messages import Reply, ToolResults, TruncatedCall
from handrail.providers import anthropic, gemini, openai_chat, openai_responses
from handrail.testing import ScriptedModel

SOAK = os.environ.get("HANDRAIL_PROFILE", "") == "soak"
EVERY = {"soak": 2}.get(os.environ.get("HANDRAIL_PROFILE", ""), 6)
"""How many awaits lie between two that a signal is tried at."""
STREAMED = """
import anyio

async def model(request):
    turn = sum(isinstance(one, Reply) for one in request.messages)
    if turn > 1:
        yield Delta("Done.")
        yield Reply((Text("Done."),))
        return
    said = (Text("I go on."), glob(f"g{turn}"), write(f"f{turn}.txt", f"w{turn}"))
    for word in ("I ", "go ", "on."):
        yield Delta(word)
        await anyio.sleep(0)
    for call in said[1:]:
        yield call
        await anyio.sleep(0)
    yield Reply(said, "calls")
"""


def valid(saved: SavedRun) -> None:
    """One result for each call, which every provider takes."""
    transcript = saved.state().transcript()
    for wire in (anthropic, gemini, openai_chat, openai_responses):
        wire.encode_messages(transcript)
    for before, after in zip(transcript, [*transcript, None][1:], strict=True):
        if isinstance(before, Reply):
            asked = [one.id for one in before.parts if isinstance(one, Call | TruncatedCall)]
            given = [one.call_id for one in after.results] if isinstance(after, ToolResults) else []
            assert asked == given


def last(handrail: Handrail) -> SavedRun:
    journal = journal_of(handrail)
    return open_run(journal.runs(limit=1)[0].run, journal)


def goes_on(handrail: Handrail, saved: SavedRun, ran: Ran, code: int) -> None:
    killed = 128 - code  # by a signal that came when all was over
    assert ran.exit in (0, code) or (ran.exit, saved.standing.reason) == (killed, "answer")
    assert "Traceback" not in ran.err
    assert saved.standing.reason in (("answer", "interrupted") if ran.exit else ("answer",))
    valid(saved)
    again = handrail("runs", "resume", saved.id)
    assert (again.exit, saved.standing, again.out.endswith("Done.\n")) == (
        0,
        ("done", "answer"),
        True,
    )
    valid(saved)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_at_every_await(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    option = programmed(handrail, STREAMED)
    offset = 0 if number == signal.SIGINT else 1
    codes = set()
    for at in range(1 + offset, 400, EVERY):
        awaited: list[Faulty[Any]] = []

        def run(work: Callable[[], Any], at: int = at, awaited: list[Faulty[Any]] = awaited) -> Any:
            async def faulty() -> Any:
                awaited.append(Faulty(work(), at, first=partial(signal.raise_signal, number)))
                return await awaited[0]

            return anyio.run(faulty)

        with monkeypatch.context() as patch:
            patch.setattr(_headless, "run_alone", run)
            ran = handrail("run", *option, "Go", "--mode", "edits", "--without", "bash")
        codes.add(ran.exit)
        if awaited[0].waits < at:
            break
        goes_on(handrail, last(handrail), ran, code)
    assert codes == {0, code}


def test_before_it_begins(handrail: Handrail, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(work: Callable[[], Any]) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return anyio.run(work)

    with monkeypatch.context() as patch:
        patch.setattr(_headless, "run_alone", run)
        ran = handrail("run", *scripted(handrail, "'Done.'"), "Go", "--without", "bash")

    assert (ran.exit, ran.out) == (143, "")
    goes_on(handrail, last(handrail), ran, 143)


def test_a_model_that_fails_since_it_was_interrupted(handrail: Handrail) -> None:
    code = """
import os, signal

async def model(request):
    os.kill(os.getpid(), signal.SIGINT)
    raise ModelError("the server was interrupted too")
"""
    ran = handrail("run", *programmed(handrail, code), "Go", "--without", "bash", "--json")

    assert (ran.exit, *standing_of(ran.json)) == (130, "done", "interrupted")


class Started:
    """A run in a process of its own, which has begun."""

    def __init__(self, handrail: Handrail, *arguments: str, traced: bool = True) -> None:
        program = forked.path(counted=traced) / "handrail"
        self.process = subprocess.Popen(  # noqa: S603
            [program, "run", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=handrail.environment(),
            cwd=handrail.workspace,
            encoding="utf-8",
        )
        assert self.process.stderr is not None
        self.said = self.process.stderr.readline()
        self.saved = open_run(self.said.split()[1], journal_of(handrail))

    def until(self, words: str) -> None:
        assert self.process.stderr is not None
        while words not in self.said:
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line

    def end(self) -> Ran:
        out, err = self.process.communicate(timeout=50)
        return Ran(self.process.returncode, out, self.said + err)


JOBS = """[
    bash('sleep 3210.{0}', 'j1', background=True),
    bash('sleep 3211.{0}', 'j2', background=True),
]"""


def sleeping(mark: int) -> list[str]:
    """Commands of a run that are still there."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = one.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if f"3210.{mark}" in words or f"3211.{mark}" in words:
            found.append(words)
    return found


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_at_random_moments_nothing_is_left_running(handrail: Handrail, number: int) -> None:
    chosen = random.Random(number)  # noqa: S311  the same moments each time
    code = 128 + number
    for mark in range(4):
        name = f"{os.getpid()}{number}{mark}"
        option = scripted(
            handrail,
            JOBS.format(name),
            "bash('sleep 0.2', 'c1')",
            "[glob('c2'), write('a.txt', 'c3')]",
            "'Done.'",
        )
        started = Started(handrail, *option, "Go", "--mode", "open")
        time.sleep(chosen.uniform(0, 1.5))  # any moment will do
        started.process.send_signal(number)
        ran = started.end()
        assert sleeping(int(name)) == []
        goes_on(handrail, started.saved, ran, code)


def test_jobs_are_found_if_they_are_there(handrail: Handrail) -> None:
    """What the test above relies on."""
    name = f"{os.getpid()}999"
    option = scripted(handrail, JOBS.format(name), "bash('sleep 50', 'c1')")
    started = Started(handrail, *option, "Go", "--mode", "open")
    started.until("< bash done")

    found = sleeping(int(name))
    started.process.send_signal(signal.SIGTERM)

    assert len(found) >= 2
    assert started.end().exit == 143


STUBBORN = """
import time
import anyio
from handrail import READ, tool

def begun():
    print("begun", flush=True)

@tool(effect=READ, timeout=60)
async def stubborn() -> str:
    '''Does not let itself be stopped.'''
    begun()
    try:
        await anyio.sleep_forever()
    finally:
        print("not yet", flush=True)
        with anyio.CancelScope(shield=True):
            await anyio.sleep_forever()

@tool(effect=READ, timeout=60)
def threaded() -> str:
    '''Cannot be stopped.'''
    begun()
    time.sleep(1000)

@tool(effect=READ)
async def quits() -> str:
    '''Ends a program.'''
    raise KeyboardInterrupt

async def deaf(request):
    begun()
    while True:
        try:
            await anyio.sleep_forever()
        except BaseException:
            pass

async def blocks(request):
    begun()
    time.sleep(1000)

async def talks(request):
    yield Delta("x" * 1_000_000)

calls_stubborn = script(Call("stubborn", {}, "c1"), "Done.")
calls_threaded = script(Call("threaded", {}, "c1"), "Done.")
calls_quits = script(Call("quits", {}, "c1"), "Done.")
"""


def stuck(handrail: Handrail, model: str, *options: str) -> Started:
    """A run that does not end by itself. The tracer can crash where it saves beside a thread."""
    programmed(handrail, STUBBORN)
    named = ("--model", f"m.py:{model}", "--tools", "m.py")
    traced = model in ("calls_stubborn", "calls_quits")
    return Started(handrail, *named, "Go", *options, traced=traced)


@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        ([signal.SIGINT, signal.SIGTERM, signal.SIGINT], 130),
        pytest.param([signal.SIGTERM, signal.SIGINT], 130, marks=pytest.mark.soak),
        ([signal.SIGTERM, signal.SIGTERM], 143),
    ],
    ids=["INT-TERM-INT", "TERM-INT", "TERM-TERM"],
)
def test_a_second_signal_ends_at_once(handrail: Handrail, numbers: list[int], code: int) -> None:
    started = stuck(handrail, "calls_stubborn")
    started.until("begun")

    started.process.send_signal(numbers[0])
    started.until("not yet")
    for number in numbers[1:]:  # a SIGTERM after Ctrl-C asks for what is under way already
        started.process.send_signal(number)
    ran = started.end()

    assert (ran.exit, "Traceback" in ran.err, "did not stop" in ran.err) == (code, False, False)
    assert started.saved.standing == ("done", "interrupted")
    valid(started.saved)


def test_what_does_not_stop_is_left_behind(handrail: Handrail, schema: Schemas) -> None:
    limit = ("--json", "--max-seconds", "1")
    calls = ("calls_stubborn", "calls_threaded")[SOAK - 1 :]
    late = [stuck(handrail, model, *limit) for model in calls]
    models = ("deaf", "blocks", "calls_stubborn")[: 3 if SOAK else 1]
    signalled = [stuck(handrail, model, "--json") for model in models]
    numbers = ([signal.SIGTERM] * 2 + [signal.SIGINT])[: len(models)]
    for started, number in zip(signalled, numbers, strict=True):
        started.until("begun")
        started.process.send_signal(number)
    codes = [143, 143, 130][: len(models)]
    ended = {"limit": (late, [5] * len(late)), "interrupted": (signalled, codes)}

    for stop, (runs, codes) in ended.items():
        rans = [one.end() for one in runs]
        assert [ran.exit for ran in rans] == codes, [ran.err for ran in rans]
        assert {standing_of(schema("run", ran.json)) for ran in rans} == {("done", stop)}
        assert all("did not stop in time and was abandoned" in ran.err for ran in rans)
        assert {one.saved.standing for one in runs} == {("done", stop)}
        for one in runs:
            valid(one.saved)
    told: list[Any] = [one.saved.state().transcript()[-1] for one in late]
    kinds = [str(one.results[0].failure.kind) for one in told]
    assert kinds == ["unknown", "cancelled"][-len(kinds) :]


def test_a_run_ends_though_nobody_reads_what_it_says(handrail: Handrail) -> None:
    started = stuck(handrail, "talks", "--max-seconds", "1")

    assert started.process.wait(50) == 5
    started.end()


def test_code_that_ends_a_program_ends_the_run(handrail: Handrail, schema: Schemas) -> None:
    ran = stuck(handrail, "calls_quits", "--json").end()

    assert (ran.exit, *standing_of(schema("run", ran.json))) == (1, "done", "interrupted")
    assert ran.error["message"] == ("a tool or the model raised KeyboardInterrupt")


def test_a_session_needs_nobody_who_watches(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(handrail.folder / "state"))
    monkeypatch.setenv("HOME", str(handrail.folder / "home"))
    app = App(workspace=handrail.workspace, flags={"without": ["bash"]})
    saved = new_run(app.workspace, "Go", command="chat", settings=app.settings.values)
    model = ScriptedModel([Call("glob", {"pattern": "*"}, "c1")], "One.", "Two.", "Three.")

    async def talk() -> list[tuple[str, str]]:
        async with open_session(Kit(app), saved, model) as session:
            first = await session.finish(session.run("Go"))
            session.interrupt()
            second = await session.finish(session.run("And?"))
            session.stopping = False
            third = await session.finish(session.run(per_prompt=True))
            return [(one.stop_reason, one.text) for one in (first, second, third)]

    assert anyio.run(talk) == [("answer", "One."), ("interrupted", "One."), ("answer", "Two.")]
    assert saved.standing == ("done", "answer")
