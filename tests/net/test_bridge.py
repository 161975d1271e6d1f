"""The bridge: a command in a sandbox gets out to the proxy, and only there."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from handrail.net import Guard, Proxy, _bridge, bridge
from net.web_stage import PUBLIC, Site, reply

ALLOW_ALL = struct.pack("HBBI", 6, 0, 0, 0x7FFF_0000)
"""The shortest filter: every system call may pass."""
CLIENT = """
import os, socket, sys
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
client.sendall(b"GET http://pub.test/ HTTP/1.1\\r\\n\\r\\n")
print(b"".join(iter(lambda: client.recv(999), b"")).splitlines()[-1].decode(), end=" ")
print(open("/proc/self/status", encoding="utf-8").read().partition("Seccomp:")[2].split()[0], end=" ")
print(os.getpid() - os.getsid(0), flush=True)
sys.stdin.readline()
sys.exit(7)
"""


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    site = Site({"*": reply(b"hello")})
    guard = Guard(resolver=lambda *_: [PUBLIC])
    with Proxy(
        ["pub.test"],
        directory=tmp_path / "p",
        guard=guard,
        connect=lambda *_: socket.create_connection(("127.0.0.1", site.port)),
    ) as made:
        yield made
    site.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def opened(process: int) -> set[str]:
    """What kinds of things a process holds open."""
    found: set[str] = set()
    for one in Path(f"/proc/{process}/fd").iterdir():
        with suppress(OSError):  # it may be closed meanwhile
            found.add(str(one.readlink()).partition(":")[0])
    return found


@pytest.mark.parametrize("filtered", [True, False])
@pytest.mark.parametrize("alone", [True, False], ids=["as text", "as a module"])
def test_a_command_reaches_the_proxy_from_inside(
    proxy: Proxy, *, filtered: bool, alone: bool
) -> None:
    source = bridge() if alone else "import sys\nfrom handrail.net._bridge import main\n"
    isolated = ["-I", "-S"] if alone else []
    port, (read, write) = str(free_port()), os.pipe()
    os.write(write, ALLOW_ALL)
    os.close(write)
    command = [sys.executable, "-I", "-S", "-c", CLIENT, port]
    program = source if alone else f"{source}main(*sys.argv[1:])"
    try:
        started = subprocess.Popen(  # noqa: S603  our own interpreter
            [
                *(sys.executable, *isolated, "-c", program),
                *(proxy.path, port, str(read) if filtered else "-1", *command),
            ],
            pass_fds=[read],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        assert started.stdin
        assert started.stdout
        said = started.stdout.readline()
        held = opened(started.pid)
        writable = os.access(f"/proc/{started.pid}/mem", os.W_OK) if os.geteuid() else False
        _, wrong = started.communicate("go on\n")
    finally:
        os.close(read)

    assert (said, wrong) == (f"hello {2 if filtered else 0} 0\n", "")
    assert started.returncode == 7
    assert held == {"/dev/null", "socket"}  # nobody waits for a pipe that it holds
    assert not writable
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(port)))


def test_a_command_that_a_signal_ends_has_the_code_of_a_shell(proxy: Proxy) -> None:
    """And whoever it leaves behind is nobody's concern. Python ignores a broken pipe; it does not."""
    command = ["/bin/bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}; (: &); kill -9 $$"]
    words = [*(sys.executable, "-I", "-S", "-c", bridge(), proxy.path), str(free_port()), "-1"]

    made = subprocess.run([*words, *command], capture_output=True, check=False)  # noqa: S603

    assert (made.returncode, made.stdout, made.stderr) == (137, b"y\n141\n", b"")


def test_where_the_port_is_taken_a_free_one_is_used_and_named(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("OTHER", f"http://127.0.0.1:{port}0")
        line = "echo $OTHER; exec 9<>/dev/tcp/127.0.0.1/${http_proxy##*:}; "
        line += r"printf 'GET http://pub.test/ HTTP/1.1\r\n\r\n' >&9; tail -n 1 <&9"
        words = [*(sys.executable, "-I", "-S", "-c", bridge(), proxy.path), str(port), "-1"]
        made = subprocess.run([*words, "/bin/bash", "-c", line], capture_output=True, check=False)  # noqa: S603
        with _bridge.listen(port) as free:
            named = os.environ["http_proxy"], os.environ["OTHER"]
            taken = free.getsockname()[1]

    assert named == (f"http://127.0.0.1:{taken}", f"http://127.0.0.1:{port}0")
    assert (made.stdout.decode(), made.stderr) == (f"http://127.0.0.1:{port}0\nhello", b"")


def test_what_is_carried_ends_with_either_side(proxy: Proxy) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    carrying = threading.Thread(target=_bridge.forward, args=(listener, proxy.path))
    carrying.start()
    with socket.create_connection(listener.getsockname()) as client:
        client.sendall(b"GET http://evil.test/ HTTP/1.1\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(999), b""))
    proxy.close()
    with listener, socket.create_connection(listener.getsockname()) as late:
        nothing = late.recv(9)
        carrying.join(10)

    assert answer.startswith(b"HTTP/1.1 403 Forbidden")
    assert (nothing, carrying.is_alive()) == (b"", False)


def test_a_filter_that_the_kernel_does_not_take_is_an_error() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        _bridge.prctl(22, 99)


def test_a_proxy_that_does_not_answer_ends_a_connection(tmp_path: Path) -> None:
    one, other = socket.socketpair()
    _bridge.carry_both_ways(one, str(tmp_path))

    with other:
        assert other.recv(9) == b""
