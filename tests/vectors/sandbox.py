"""What a command in the sandbox must not reach: tried for real, with canaries on the host.

All probes of one tier run in one start. Each has files, a socket or a process of its own outside,
and it is there that is looked whether something happened.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from handrail import Call, Executor, FailureKind, Refused, Toolset
from handrail.net import Guard, Proxy
from handrail.sandbox import Sandbox, SandboxUnavailable
from handrail.tools import bash
from sandbox.commands import Ended, run

PROBE = Path(__file__).parent.parent / "sandbox" / "probe.py"
PYTHON = os.path.realpath(sys.executable)
TIERS = ("bubblewrap", "landlock")
OPEN = {
    "landlock": {
        "sandbox-004",  # modes
        "sandbox-005",  # times
        "sandbox-006",  # extended attributes
        "sandbox-027",  # other processes are seen
        "sandbox-043",  # and devices, though not opened
        "sandbox-055",  # names that others act on
    }
}
"""What a tier says of itself that it leaves open."""


class Listeners:
    """Sockets on the host that note who came."""

    def __init__(self, folder: Path) -> None:
        self.heard: list[str] = []
        self.abstract = f"handrail-{secrets.token_hex(8)}"
        self._open = {
            "tcp": socket.create_server(("127.0.0.1", 0)),
            "unix": _unix(str(folder / "host.sock")),
            "docker": _unix(str(folder / "docker.sock")),
            "agent": _unix(str(folder / "agent.sock")),
            "abstract": _unix("\0" + self.abstract),
        }
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self.tcp, self.udp = self._open["tcp"].getsockname()[1], self._udp.getsockname()[1]

    def listen(self) -> None:
        """What has come until now; the kernel has queued it."""
        for server in self._open.values():
            server.settimeout(0)
            with suppress(BlockingIOError):
                while True:
                    client, _ = server.accept()
                    with client:
                        client.settimeout(2)
                        self.heard.append(client.recv(200).decode(errors="replace"))
        self._udp.settimeout(0)
        with suppress(BlockingIOError):
            while True:
                self.heard.append(self._udp.recv(200).decode(errors="replace"))

    def close(self) -> None:
        for one in (*self._open.values(), self._udp):
            one.close()


def _unix(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(path)
    made.listen(16)
    return made


class World:
    """A workspace, and what is outside of it."""

    def __init__(self) -> None:
        self._base = Path(tempfile.mkdtemp(prefix=".handrail-vectors-", dir=Path.home()))
        self.ws, self.out = self._base / "ws", self._base / "out"
        self.ws.mkdir()
        (self.ws / ".venv/bin").mkdir(parents=True)
        (self.ws / ".venv/bin/python").write_text("python", encoding="utf-8")
        shutil.copy(PROBE, self.ws)
        for number in range(1, 56):
            folder = self.out / f"sandbox-{number:03}"
            folder.mkdir(parents=True)
            (folder / "secret").write_text("canary", encoding="utf-8")
        (self.out / "held-open").write_text("canary", encoding="utf-8")
        self.secret = secrets.token_hex(16)
        for name in (".trust.json.lock", "runs/x/state.json", "../../../.some-agent.json"):
            top = "config" if name.endswith("lock") else "state"
            file = self.out / top / "handrail" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.secret, encoding="utf-8")
        self._terminal = os.openpty()
        os.write(self._terminal[0], f"{self.secret}\n".encode())
        self.listeners = Listeners(self.out)
        self.nonce = f"handrail-probe-{secrets.token_hex(8)}"
        self.victims = [self._victim(), self._victim(), self._victim()]
        self._before = self._state()

    def _victim(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["/bin/sleep", "600"], env={"SECRET": self.secret}, cwd=self.out)

    def told(self) -> str:
        """Where the canaries are."""
        return json.dumps(
            {
                "ws": str(self.ws),
                "out": str(self.out),
                "pid": os.getpid(),
                "victim": self.victims[0].pid,
                "target": self.victims[1].pid,
                "scheduled": self.victims[2].pid,
                "terminal": os.ttyname(self._terminal[1]),
                "stack": _stack(self.victims[0].pid),
                "tcp": self.listeners.tcp,
                "udp": self.listeners.udp,
                "unix": str(self.out / "host.sock"),
                "docker": str(self.out / "docker.sock"),
                "abstract": self.listeners.abstract,
                "nonce": self.nonce,
            }
        )

    def _state(self) -> dict[str, Any]:
        return {
            folder.name: sorted(map(_looks, folder.iterdir()))
            for folder in self.out.glob("sandbox-*")
        }

    def changed(self, number: str) -> bool:
        """Whether something happened outside, by the canaries of one probe."""
        scheduled = self.victims[2].pid
        return (
            self._state().get(number) != self._before.get(number)
            or any(number in one for one in self.listeners.heard)
            or (number == "sandbox-028" and self.victims[1].poll() is not None)
            or (number == "sandbox-057" and os.getpriority(os.PRIO_PROCESS, scheduled) == 7)
            or (number == "sandbox-058" and os.sched_getscheduler(scheduled) == os.SCHED_IDLE)
            or (number == "sandbox-042" and Path("/tmp", self.nonce).exists())  # noqa: S108
            or (
                number == "sandbox-055"
                and _digest(self.ws / ".venv/bin/python") != _hash(b"python")
            )
        )

    def close(self) -> None:
        self.listeners.close()
        for end in self._terminal:
            os.close(end)
        for one in self.victims:
            one.kill()
            one.wait()
        Path("/tmp", self.nonce).unlink(missing_ok=True)  # noqa: S108
        shutil.rmtree(self._base)


def _looks(path: Path) -> tuple[Any, ...]:
    """Name, content, and all that a sandbox must not let be changed."""
    about = path.stat()
    marks = (about.st_mode, about.st_mtime_ns, about.st_nlink, tuple(os.listxattr(path)))
    return path.name, _digest(path), *marks


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest(path: Path) -> str:
    return _hash(path.read_bytes())


def _stack(pid: int) -> int:
    lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    return next(int(one.split("-")[1].split()[0], 16) - 64 for one in lines if "[stack]" in one)


@contextmanager
def world() -> Iterator[World]:
    made = World()
    try:
        yield made
    finally:
        made.close()


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """The host's own environment, for a while."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def leaking(path: Path) -> Iterator[None]:
    """An open file that children inherit, if nobody sees to it."""
    fd = os.open(path, os.O_RDONLY)
    os.set_inheritable(fd, True)  # noqa: FBT003
    try:
        yield
    finally:
        os.close(fd)


def _bare(command: str, ws: Path) -> str:
    """The control: no sandbox at all."""
    made = subprocess.run(  # noqa: S603
        ["/bin/bash", "-c", command], cwd=ws, stdout=subprocess.PIPE, check=True, close_fds=False
    )
    return made.stdout.decode()


def _held(command: str, ws: Path, tier: Any) -> str:
    out = str(ws.parent / "out")  # shown, so that it is not only out of sight
    made = anyio.run(run, Sandbox(ws, tier=tier, readable=[out]), command)
    assert made.code == 0, made
    return made.text


@functools.cache
def escapes(tier: str) -> frozenset[str]:
    """The probes that reached something, of all of them in one start."""
    with ExitStack() as stack:
        there = stack.enter_context(world())
        stack.enter_context(leaking(there.out / "held-open"))
        own = {f"XDG_{name.upper()}_HOME": str(there.out / name) for name in ("config", "state")}
        stack.enter_context(environment(SSH_AUTH_SOCK=str(there.out / "agent.sock"), **own))
        command = f"{PYTHON} -I -S probe.py {shlex.quote(there.told())}"
        text = _bare(command, there.ws) if tier == "none" else _held(command, there.ws, tier)
        said: dict[str, str] = json.loads(text)
        there.listeners.listen()
        return frozenset(
            number
            for number in said
            if there.changed(number)
            or (number in BELIEVED and said[number] == "done")
            or (number in TELLING and there.secret in said[number])
        )


BELIEVED = {f"sandbox-{n:03}" for n in (17, *range(22, 26), 27, *range(29, 42), 43, 44, 59)}
"""Where the probe itself sees best what it got: a descriptor, a capability, a namespace."""
TELLING = {f"sandbox-{n:03}" for n in (26, 56, 60, 61)}
"""Where the probe says what it has read."""


def _without_bubblewrap(ws: Path) -> bool:
    """With no bubblewrap, asking for it is refused, and "auto" says what it took instead."""
    with tempfile.TemporaryDirectory() as empty, environment(PATH=empty):
        Path(empty, "bash").symlink_to(shutil.which("bash", path=os.defpath) or "/bin/bash")
        with suppress(SandboxUnavailable):
            Sandbox(ws, tier="bubblewrap")
            return False
        return Sandbox(ws).report().tier == "landlock"


def _fake_in_path(ws: Path) -> bool:
    """A bwrap that the workspace brings along is never run."""
    fake = ws / "bin/bwrap"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\ntouch {ws}/ran-the-fake\n", encoding="utf-8")
    fake.chmod(0o755)
    before = Path.cwd()
    os.chdir(ws)
    try:
        with environment(PATH=f"{ws}/bin:bin:.:{os.environ['PATH']}"):
            made = anyio.run(run, Sandbox(ws, tier="bubblewrap"), "echo fine")
    finally:
        os.chdir(before)
    return made.text == "fine\n" and not (ws / "ran-the-fake").exists()


def _empty_list(ws: Path) -> bool:
    """No hosts are no hosts: there is not even a bridge."""
    line = "env | grep -ci proxy; echo > /dev/tcp/127.0.0.1/3128"
    made = anyio.run(run, Sandbox(ws, tier="bubblewrap", network=[]), line)
    return made.code != 0 and made.text.startswith("0\n") and "refused" in made.text


@functools.cache
def _answers() -> dict[str, str]:
    """What a proxy with one allowed host says to others, all asked from inside one sandbox."""
    found = {"allowed.test": ["93.184.215.14"], "private.test": ["127.0.0.1"]}
    asked = {
        "allowed": "allowed.test:443",
        "below": "allowed.test.evil.test:443",
        "beside": "evilallowed.test:443",
        "nul": "attacker.test\\0000.allowed.test:443",
        "literal": "127.0.0.1:22",
        "private": "private.test:443",
    }
    lines = "; ".join(
        f"exec 9<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT %b HTTP/1.1\\r\\n\\r\\n' "
        f"{shlex.quote(where)} >&9; IFS= read -r line <&9; "
        f"echo {name} $line; exec 9>&-"
        for name, where in asked.items()
    )
    with (
        tempfile.TemporaryDirectory() as ws,
        tempfile.TemporaryDirectory() as private,
        socket.create_server(("127.0.0.1", 0)) as far,
        Proxy(
            ["allowed.test", "private.test"],
            directory=private,
            guard=Guard(resolver=lambda host, _port: found.get(host, ["93.184.215.14"])),
            connect=lambda _address, _port: socket.create_connection(far.getsockname()[:2]),
        ) as proxy,
        world() as there,
    ):
        direct = f"; curl -sS --noproxy '*' -m 2 http://127.0.0.1:{there.listeners.tcp}/sandbox-052"
        made: Ended = anyio.run(run, Sandbox(ws, network=proxy), lines + direct)
        there.listeners.listen()
        said = dict(line.split(" ", 1) for line in made.text.splitlines() if " " in line)
        return said | {"direct": str(there.listeners.heard)}


def _refuses(*names: str) -> bool:
    """Whether the one host is reached, and these are not."""
    said = _answers()
    return " 200 " in said["allowed"] and not any(" 200 " in said[name] for name in names)


def _asks_for_none(ws: Path) -> bool:
    """A model cannot switch it off: the tool has no such argument."""

    async def ask() -> Any:
        async with Executor(Toolset(bash(Sandbox(ws)))) as executor:
            return await executor.run(Call("bash", {"command": "touch x", "sandbox": False}, "1"))

    result = anyio.run(ask)
    return result.failure.kind is FailureKind.BAD_ARGS and not (ws / "x").exists()


def _elsewhere(ws: Path) -> bool:
    """A folder outside cannot be where a command starts."""
    refused = 0
    for cwd in ("/", "..", "../..", f"{ws}/../..", "sub/../../"):
        with suppress(Refused):
            Sandbox(ws).start("pwd", cwd=cwd)
            continue
        refused += 1
    return refused == 5


HOST: dict[str, Callable[[Path], bool]] = {
    "sandbox-045": _without_bubblewrap,
    "sandbox-046": _fake_in_path,
    "sandbox-047": _empty_list,
    "sandbox-048": lambda _: _refuses("below", "beside"),
    "sandbox-049": lambda _: _refuses("nul"),
    "sandbox-050": lambda _: _refuses("literal"),
    "sandbox-051": lambda _: _refuses("private"),
    "sandbox-052": lambda _: _answers()["direct"] == "[]",
    "sandbox-053": _asks_for_none,
    "sandbox-054": _elsewhere,
}


def holds(vector: dict[str, Any]) -> bool:
    """Whether nothing outside was reached, in each tier but for what that one says it leaves."""
    number = vector["id"]
    if number in HOST:
        with tempfile.TemporaryDirectory() as folder:
            return HOST[number](Path(folder))
    return all((number in escapes(tier)) == (number in OPEN.get(tier, set())) for tier in TIERS)


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many of them reach something where there is no sandbox."""
    return len(escapes("none") & {one["id"] for one in vectors})
