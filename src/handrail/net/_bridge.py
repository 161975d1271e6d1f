"""Runs inside a sandbox: TCP on the loopback there, carried to the proxy's UNIX socket outside.

A program of its own, of the standard library alone: ``python3 -I -S -c SOURCE PATH PORT FILTER
COMMAND...``. It listens on a port, starts the command, carries, and ends with the command and its
exit code. The command is under the system-call filter that comes from the descriptor FILTER (-1
for none): it may not open UNIX sockets, so it cannot carry by itself. The bridge is not under the
filter, so it lets nobody write into it. In a sandbox it is process 1: there is no other there that
is not under the filter.
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
_MOST_FILTER = 65_536
_PIECE = 65_536


def carry(source: socket.socket, target: socket.socket) -> None:
    """Carry one way, until the source has said all or one of them breaks."""
    with suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
    with suppress(OSError):
        source.shutdown(socket.SHUT_RD)


def both(client: socket.socket, path: str) -> None:
    """Carry both ways between a client and the socket at a path."""
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
    """Carry for every client, until the proxy is gone."""
    while True:
        client, _ = listener.accept()
        if not os.path.exists(path):  # noqa: PTH110  no more modules than it needs
            client.close()
            return
        threading.Thread(target=both, args=(client, path), daemon=True).start()


def prctl(*numbers: int | object) -> None:
    """Change this thread's attributes. Raises OSError."""
    call = ctypes.CDLL(None, use_errno=True).prctl
    if call(*numbers, *[ctypes.c_ulong(0)] * (5 - len(numbers))) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def restrict(program: bytes) -> None:
    """Put this thread, and what it becomes, under a filter of system calls."""
    kept = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(kept))
    prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1))
    prctl(_SECCOMP, ctypes.c_ulong(_FILTER), ctypes.c_char_p(described))


def become(command: tuple[str, ...], program: bytes, listener: socket.socket) -> NoReturn:
    """Be the command, in a session of its own, with what Python had changed put right."""
    listener.close()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    if program:
        restrict(program)
    os.execvp(command[0], command)  # noqa: S606  the command is what it is for


def hold_nothing_but(kept: int) -> None:
    """Whoever reads what the command says waits for the end of all that hold the other end."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def see_off(child: int) -> int:
    """Wait for the command, and meanwhile for whatever belongs to nobody else."""
    code = next(
        os.waitstatus_to_exitcode(status) for ended, status in iter(os.wait, None) if ended == child
    )
    return code if code >= 0 else 128 - code


def main(path: str, port: str, descriptor: str, *command: str) -> None:
    """Listen, start the command, and carry until it has ended."""
    prctl(_DUMPABLE, ctypes.c_ulong(0))  # the command, of the same user, must not write into it
    program = b""
    if int(descriptor) >= 0:
        with os.fdopen(int(descriptor), "rb") as file:
            program = file.read(_MOST_FILTER)
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=64)
    child = os.fork() or become(command, program, listener)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as process 1 treats all others by itself
    hold_nothing_but(listener.fileno())
    threading.Thread(target=forward, args=(listener, path), daemon=True).start()
    os._exit(see_off(child))
