"""Runs inside a sandbox: forwards TCP from its loopback to the proxy's UNIX socket outside.

A separate program needing only the standard library: ``python3 -I -S -c SOURCE PATH PORT FILTER
COMMAND...``. It listens on a port, starts the command, forwards, and ends with the command's exit
code. If another command has the port, it takes a free one, and changes the proxy variables. The
command runs under the system call filter from the descriptor FILTER (-1 for none). It cannot open
UNIX sockets, so it cannot forward itself. The bridge is not under the filter, so it prevents other
processes from writing to its memory. In a sandbox it is process 1: every other process there is
under the filter.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import threading
from contextlib import suppress
from typing import NoReturn

_DUMPABLE, _SECCOMP, _NO_NEW_PRIVILEGES = 4, 22, 38
_FILTER = 2
_MAX_FILTER_BYTES = 65_536
_CHUNK_BYTES = 65_536


def carry(source: socket.socket, target: socket.socket) -> None:
    """Forward one way, until the source has finished or a connection breaks."""
    with suppress(OSError):
        while piece := source.recv(_CHUNK_BYTES):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
    with suppress(OSError):
        source.shutdown(socket.SHUT_RD)


def carry_both_ways(client: socket.socket, path: str) -> None:
    """Forward both ways between a client and the socket at a path."""
    with client, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as proxy:
        try:
            proxy.connect(path)
        except OSError:
            return
        back = threading.Thread(target=carry, args=(proxy, client), daemon=True)
        back.start()
        carry(client, proxy)
        back.join()


def forward(listener: socket.socket, path: str) -> None:
    """Forward for every client, until the proxy's socket is removed."""
    while True:
        client, _ = listener.accept()
        if not os.path.exists(path):  # noqa: PTH110  to import fewer modules
            client.close()
            return
        threading.Thread(target=carry_both_ways, args=(client, path), daemon=True).start()


def prctl(*numbers: int | object) -> None:
    """Change this thread's attributes. Raises OSError."""
    call = ctypes.CDLL(None, use_errno=True).prctl
    if call(*numbers, *[ctypes.c_ulong(0)] * (5 - len(numbers))) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def restrict(program: bytes) -> None:
    """Put this thread and its program under a system call filter."""
    buffer = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1))
    prctl(_SECCOMP, ctypes.c_ulong(_FILTER), ctypes.c_char_p(described))


def exec_command(command: tuple[str, ...], program: bytes, listener: socket.socket) -> NoReturn:
    """Run the command in a new session, restoring the signal handlers Python changed."""
    listener.close()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    if program:
        restrict(program)
    os.execvp(command[0], command)  # noqa: S606  the command is what it is for


def listen(port: int) -> socket.socket:
    """Listen on a port, or on a free one. Then the variables naming the port are changed."""
    try:
        return socket.create_server(("127.0.0.1", port), backlog=64)
    except OSError:
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    place = "http://127.0.0.1:{}".format
    for name, value in os.environ.items():
        if value == place(port):
            os.environ[name] = place(listener.getsockname()[1])
    return listener


def close_all_but(kept: int) -> None:
    """Close every other descriptor: the command's output ends only when all are closed."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def wait_for(child: int) -> int:
    """Wait for the command, and reap orphaned processes until then."""
    code = next(
        os.waitstatus_to_exitcode(status) for ended, status in iter(os.wait, None) if ended == child
    )
    return code if code >= 0 else 128 - code


def main(path: str, port: str, descriptor: str, *command: str) -> None:
    """Listen, start the command, and forward until it has ended."""
    prctl(_DUMPABLE, ctypes.c_ulong(0))  # the command must not write to this process's memory
    program = b""
    if int(descriptor) >= 0:
        with os.fdopen(int(descriptor), "rb") as file:
            program = file.read(_MAX_FILTER_BYTES)
    listener = listen(int(port))
    child = os.fork() or exec_command(command, program, listener)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # process 1 ignores the other signals already
    close_all_but(listener.fileno())
    threading.Thread(target=forward, args=(listener, path), daemon=True).start()
    os._exit(wait_for(child))
