"""Nobody is left: whatever a command starts, and however it ends."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail.sandbox import Process, Sandbox
from sandbox.commands import ended, run

TRIALS = {"brief": 1, "quick": 1, "soak": 20}[os.environ.get("HANDRAIL_PROFILE", "quick")]
"""Of each tree, in each tier, on each loop, killed and at its natural end."""
both = pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
TREES = {
    "children": "{sleep} & {sleep} &",
    "sessions": "setsid {sleep} & setsid setsid {sleep} &",
    "second forks": "( ( {sleep} & ) & ) ; ( setsid {sleep} & )",
    "no environment": "setsid env -i {sleep} & (env -i setsid {sleep} &)",
    "deaf to signals": "(trap '' TERM HUP INT; {sleep}) & nohup {sleep} >/dev/null 2>&1 &",
    "closed streams": "(exec 0>&- 1>&- 2>&-; setsid {sleep}) & disown -a;",
    "a small storm": "f() {{ {sleep} & if [ $1 -gt 0 ]; then f $(($1-1)) & f $(($1-1)) & fi; }}; f 3;",
}
trees = pytest.mark.parametrize("tree", TREES)


def whole(line: str, last: str) -> str:
    """A tree, and what its command does then."""
    return f"{line} {last}" if line[-1] in ";&" else f"{line}; {last}"


class Marked:
    """Processes that can be told from all others by how long they mean to sleep."""

    def __init__(self) -> None:
        self._long = f"1{secrets.randbelow(10**9):09}"
        self.sleep = f"sleep {self._long}"

    def alive(self) -> list[int]:
        """Their numbers. Who has ended, and only waits to be taken note of, has no words."""
        found: list[int] = []
        for one in Path("/proc").iterdir():
            with suppress(OSError):
                if one.name.isdigit() and self._long.encode() in (one / "cmdline").read_bytes():
                    found.append(int(one.name))
        return found

    def elsewhere(self, group: int) -> bool:
        """Whether one of them has left a group."""
        with suppress(ProcessLookupError):
            return any(os.getpgid(one) != group for one in self.alive())
        return False

    def kill(self) -> None:
        for one in self.alive():
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)


async def begun(running: Process, marked: Marked | None = None) -> None:
    """Until the command says that all is under way, and a marked process is there."""
    said = b""
    while b"go" not in said:
        piece = await running.read()
        assert piece, said
        said += piece
    with anyio.fail_after(30):
        while marked is not None and not marked.alive():  # noqa: ASYNC110  processes tell nobody
            await anyio.sleep(0.01)


@both
@trees
async def test_nobody_survives_being_ended(tmp_path: Path, tier: Any, tree: str) -> None:
    sandbox = Sandbox(tmp_path, tier=tier)
    for _ in range(TRIALS):
        marked = Marked()
        line = TREES[tree].format(sleep=marked.sleep)
        running = sandbox.start(whole(line, f"echo go; {marked.sleep}"))
        await begun(running)
        _until(lambda marked=marked: bool(marked.alive()))  # none may be a sleep yet
        await running.kill()

        assert marked.alive() == []


@both
@trees
async def test_nobody_survives_the_natural_end(tmp_path: Path, tier: Any, tree: str) -> None:
    sandbox = Sandbox(tmp_path, tier=tier)
    for _ in range(TRIALS):
        marked = Marked()
        line = TREES[tree].format(sleep=marked.sleep)
        made = await run(sandbox, whole(line, "exit 3"))

        assert (made.code, marked.alive()) == (3, [])


@both
async def test_nobody_survives_an_end_at_once(tmp_path: Path, tier: Any) -> None:
    sandbox = Sandbox(tmp_path, tier=tier)
    for _ in range(5 * TRIALS):
        marked = Marked()
        running = sandbox.start(f"{marked.sleep} & {marked.sleep}")
        await running.kill()

        assert (await running.wait(), marked.alive()) == (-9, [])


@both
async def test_an_end_goes_on_when_whoever_asked_for_it_is_cancelled(
    tmp_path: Path, tier: Any
) -> None:
    marked = Marked()
    running = Sandbox(tmp_path, tier=tier).start(f"setsid {marked.sleep} & echo go; {marked.sleep}")
    with anyio.CancelScope() as scope:
        try:
            await begun(running)
            scope.cancel()
            await running.read()
        finally:
            await running.kill()

    assert (scope.cancelled_caught, marked.alive()) == (True, [])


async def test_one_of_many_commands_ends_without_the_others(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, tier="landlock")
    going, ending = Marked(), Marked()
    other = sandbox.start(f"setsid env -i {going.sleep} & echo go; {going.sleep}")
    running = sandbox.start(f"setsid env -i {ending.sleep} & echo go; {ending.sleep}")
    await begun(other)
    await begun(running)
    _until(lambda: len(going.alive()) == 2)
    await running.kill()

    left = len(going.alive()), ending.alive()
    await other.kill()

    assert (left, going.alive()) == ((2, []), [])


async def test_a_long_command_is_looked_for_among_all_processes(tmp_path: Path) -> None:
    marked = Marked()
    made = await run(
        Sandbox(tmp_path, tier="landlock"), f"sleep 0.6; setsid {marked.sleep} & exit 4"
    )
    late = await run(
        Sandbox(tmp_path, tier="landlock"), f"setsid {marked.sleep} & sleep 0.6; exit 5"
    )

    assert (made.code, late.code, marked.alive()) == (4, 5, [])


COMET = """
#include <time.h>
#include <unistd.h>
int main(void) {
    time_t end = time(0) + 30;
    setsid();
    while (time(0) < end) if (fork()) _exit(0);
}
"""


async def test_one_that_forks_and_ends_at_once_is_caught(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a compiler: nothing else forks as fast")
    (tmp_path / "comet.c").write_text(COMET, encoding="utf-8")
    subprocess.run([compiler, "-o", "comet", "comet.c"], cwd=tmp_path, check=True)  # noqa: ASYNC221, S603
    running = Sandbox(tmp_path, tier="landlock").start("./comet & sleep 0.6; echo go; sleep 60")
    await begun(running)

    began = anyio.current_time()
    await running.kill()

    assert anyio.current_time() - began < 20


@pytest.mark.parametrize("tree", [name for name, line in TREES.items() if "setsid" in line])
def test_the_control_killing_a_group_leaves_somebody(tree: str) -> None:
    marked = Marked()
    text = whole(TREES[tree].format(sleep=marked.sleep), f"echo go; {marked.sleep}")
    with subprocess.Popen(  # noqa: S603
        ["/bin/bash", "-c", text], stdout=subprocess.PIPE, start_new_session=True
    ) as bare:
        assert bare.stdout is not None
        assert bare.stdout.readline() == b"go\n"
        _until(lambda: marked.elsewhere(bare.pid))
        os.killpg(bare.pid, signal.SIGKILL)
        bare.wait()
        left = marked.alive()
        marked.kill()

    assert left


AGENT = """
import sys
import anyio
from handrail.sandbox import Sandbox

async def main():
    running = Sandbox(sys.argv[1], tier="bubblewrap").start(sys.argv[2])
    while piece := await running.read():
        sys.stdout.buffer.write(piece)
        sys.stdout.flush()

anyio.run(main)
"""


@trees
def test_nobody_survives_the_death_of_the_agent(tmp_path: Path, tree: str) -> None:
    root, temporary = tmp_path / "ws", tmp_path / "tmp"
    root.mkdir()
    temporary.mkdir()
    for _ in range(TRIALS):
        marked = Marked()
        line = TREES[tree].format(sleep=marked.sleep)
        text = whole(line, f"echo go; {marked.sleep}")
        words = [sys.executable, "-c", AGENT, str(root), text]
        env = os.environ | {"TMPDIR": str(temporary)}
        with subprocess.Popen(words, stdout=subprocess.PIPE, env=env) as agent:  # noqa: S603
            assert agent.stdout is not None
            assert agent.stdout.readline() == b"go\n"
            agent.send_signal(signal.SIGKILL)
            agent.stdout.read()  # the kernel takes the rest with it
        _until(lambda marked=marked: marked.alive() == [])
    left = list(root.iterdir())
    anyio.run(run, Sandbox(root), "true")

    assert (bool(left), list(root.iterdir())) == (True, [])


def _until(holds: Callable[[], bool]) -> None:
    """The kernel's signals are on their way; the test's own timeout is the limit."""
    while not holds():
        os.sched_yield()


@both
async def test_a_command_outlives_the_thread_that_asked_for_it(tmp_path: Path, tier: Any) -> None:
    sandbox = Sandbox(tmp_path, tier=tier)
    found: list[Process] = []
    thread = threading.Thread(
        target=lambda: found.append(sandbox.start("read -t 0.3 <> <(:); echo still here"))
    )
    thread.start()
    thread.join()

    assert await ended(found[0]) == (0, "still here\n", "")


def test_a_forked_process_has_a_thread_of_its_own_to_start_from(tmp_path: Path) -> None:
    code = (
        "import os, sys, anyio\n"
        "from handrail.sandbox import Sandbox\n"
        "async def said():\n"
        "    running = Sandbox(sys.argv[1]).start('echo hi')\n"
        "    text = await running.read()\n"
        "    await running.kill()\n"
        "    return text\n"
        "first = anyio.run(said)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    sys.exit(anyio.run(said) != first)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )

    words = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, str(tmp_path)]
    made = subprocess.run(words, capture_output=True, check=True)  # noqa: S603

    assert made.stdout == b"0\n"
