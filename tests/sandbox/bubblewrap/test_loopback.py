"""One loopback for the commands of a sandbox, and for no others."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from pathlib import Path

import pytest

from handrail.sandbox import Sandbox, SandboxUnavailable
from handrail.sandbox._bubblewrap import loopback
from sandbox.commands import ended, run

pytestmark = pytest.mark.anyio

PYTHON = os.path.realpath(sys.executable)
SERVER = """\
import os, socket
server = socket.create_server(("127.0.0.1", 8000))
os.write(1, b"ready\\n")
while True:
    server.accept()[0].sendall(b"served")
"""
CLIENT = """\
import socket
try:
    print(socket.create_connection(("127.0.0.1", 8000)).recv(9).decode())
except OSError as error:
    print(error.strerror)
"""


def workspace(path: Path) -> Path:
    path.mkdir()
    (path / "server.py").write_text(SERVER, encoding="utf-8")
    (path / "client.py").write_text(CLIENT, encoding="utf-8")
    return path


async def asked(server: Sandbox, *clients: Sandbox) -> list[str]:
    """What clients hear while a server runs."""
    running = server.start(f"exec {PYTHON} -I -S server.py")
    try:
        assert await running.read() == b"ready\n"
        return [(await run(one, f"{PYTHON} -I -S client.py")).text.strip() for one in clients]
    finally:
        await running.kill()


async def test_a_command_reaches_the_server_of_another_and_no_other_sandbox_does(
    tmp_path: Path,
) -> None:
    root = workspace(tmp_path / "ws")
    ours, others = (Sandbox(root, tier="bubblewrap") for _ in range(2))

    assert ours.shares_loopback
    assert await asked(ours, ours, others) == ["served", "Connection refused"]


async def test_it_is_shared_where_hosts_are_allowed_too(tmp_path: Path) -> None:
    """Each command has its own way to them: the second one at another port."""
    root = workspace(tmp_path / "ws")
    sandbox = Sandbox(root, tier="bubblewrap", network=["example.org"])
    line = (
        f"{PYTHON} -I -S client.py; exec 9<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}; "
        r"printf 'CONNECT other.org:443 HTTP/1.1\r\n\r\n' >&9; head -n 1 <&9"
    )
    running = sandbox.start(f"exec {PYTHON} -I -S server.py")
    try:
        assert await running.read() == b"ready\n"
        made = await run(sandbox, line)
    finally:
        await running.kill()

    assert made.text == "served\nHTTP/1.1 403 Forbidden\r\n"


async def test_the_loopback_is_not_that_of_this_machine(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, tier="bubblewrap")
    made = await run(sandbox, "readlink /proc/self/ns/net; tail -n +3 /proc/net/dev")

    assert made.text.splitlines()[0] != os.readlink("/proc/self/ns/net")  # noqa: PTH115
    assert [line.split(":")[0].strip() for line in made.text.splitlines()[1:]] == ["lo"]


@pytest.mark.parametrize("script", ["exit 1", "exec sleep 0"])
async def test_where_it_cannot_be_shared_each_command_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    """The control is a program that only claims to have entered it: then nothing runs there."""
    root = workspace(tmp_path / "ws")
    fake = tmp_path / "bin/nsenter"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    sandbox = Sandbox(root, tier="bubblewrap")

    assert sandbox.shares_loopback is (script != "exit 1")
    if script == "exit 1":
        assert await asked(sandbox, sandbox) == ["Connection refused"]
    else:
        with pytest.raises(SandboxUnavailable):
            await run(sandbox, "true")


async def test_a_program_that_never_answers_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control is the same program, if it answers."""
    root, found = workspace(tmp_path / "ws"), list[bool]()
    real = shutil.which("bwrap")
    fake = tmp_path / "bin/bwrap"
    fake.parent.mkdir()
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    for first, seconds in (("--unshare-user", 0.1), ("never", 20.0)):
        monkeypatch.setattr(loopback, "_TIMEOUT_SECONDS", seconds)
        wait = f'[ "$1" = {first} ] && exec sleep 600'
        fake.write_text(f'#!/bin/sh\n{wait}\nexec {real} "$@"\n', encoding="utf-8")
        fake.chmod(0o755)
        sandbox = Sandbox(root, tier="bubblewrap")
        found.append(sandbox.shares_loopback)
        assert (await run(sandbox, "echo fine")).text == "fine\n"

    assert found == [False, True]


async def test_a_command_inherits_nothing_of_it(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, tier="bubblewrap")
    made = await ended(sandbox.start("ls /proc/self/fd"))

    assert made.text.split() == ["0", "1", "2", "3"]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_nothing_of_it_stays_open(tmp_path: Path) -> None:
    before = open_files()
    for _ in range(5):
        await run(Sandbox(tmp_path, tier="bubblewrap"), "true")
    gc.collect()

    assert open_files() <= before + 2
