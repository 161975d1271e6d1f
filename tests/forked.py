"""Runs of the command line in copies of one process that has loaded it: a start costs no imports.

The server loads handrail once. For each run it forks, and the copy takes over the arguments, the
environment, the folder and the files of the run. `tests/cli/test_forked.py` compares such a run with
one that a new interpreter starts. A test of what is loaded, of what Python reads when it starts, or of
a process that is killed needs a new interpreter.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import inspect
import io
import json
import os
import pkgutil
import posix
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from coverage import Coverage

MAX_REQUEST_BYTES = 150_000
_LISTENS = "listens"
_LAZY = (
    *("anyio._backends._asyncio", "anyio.from_thread", "anyio.to_thread", "pydantic.json_schema"),
    *(
        "griffe",
        "handrail.cli._input.area",
        "re2",
        "tree_sitter",
        "tree_sitter_bash",
        "yaml",
        "zoneinfo",
    ),
    *("pydantic.type_adapter", "rich.console", "rich.live", "rich.markdown", "rich.table"),
)
"""What of other packages a run loads on the way."""
_RELAY = """\
#!{python} -IS
import json, os, signal, socket, sys
asks = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asks.connect({listens!r})
wanted = dict(arguments=sys.argv[1:], env=dict(os.environ), cwd=os.getcwd(), terminal=False)
socket.send_fds(asks, [json.dumps(wanted).encode()], [0, 1, 2])
pid = int(asks.recv(100))
def tell(number, _):
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # it has ended meanwhile
        pass
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, tell)
os._exit(int(asks.recv(100)) % 256)
"""


class Forked:
    """A run; its methods are those of `subprocess.Popen`."""

    def __init__(self, tells: socket.socket) -> None:
        self._tells = tells
        self._code: int | None = None
        self.pid = int(self._tells.recv(100))

    def poll(self) -> int | None:
        """Return the exit code if it has ended."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return its exit code."""
        if self._code is None:
            self._tells.settimeout(timeout)
            try:
                self._code = int(self._tells.recv(100))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("handrail", timeout or 0) from None
            self._tells.close()
        return self._code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it is known to have ended."""
        if self._code is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it now."""
        with suppress(ProcessLookupError):
            self.send_signal(signal.SIGKILL)


def can(env: Mapping[str, str | None]) -> bool:
    """Return whether a run with these variables needs no new interpreter."""
    return not any(
        name.startswith(("PYTHON", "LANG", "LC_", "HANDRAIL_TEST_CRASH")) for name in env
    )


def _coerce_locale(env: Mapping[str, str]) -> dict[str, str]:
    """Add the variable that a new interpreter sets for itself if there is no locale (PEP 538)."""
    named = (env.get("LC_CTYPE") or env.get("LANG")) if not env.get("LC_ALL") else "chosen"
    return {**env, "LC_CTYPE": "C.UTF-8"} if named in {None, "", "C"} else dict(env)


def start(
    arguments: Sequence[str],
    files: tuple[int, int, int],
    *,
    env: Mapping[str, str],
    cwd: Path,
    terminal: bool = False,
) -> Forked:
    """Begin a run with these three files; a terminal is its own."""
    wanted = {
        "arguments": arguments,
        "env": _coerce_locale(env),
        "cwd": str(cwd),
        "terminal": terminal,
    }
    message = json.dumps(wanted).encode()
    assert len(message) < MAX_REQUEST_BYTES, "too much for one message"
    asks = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asks.connect(str(_server(traced="COVERAGE_PROCESS_CONFIG" in os.environ) / _LISTENS))
    socket.send_fds(asks, [message], files)
    return Forked(asks)


def run(
    arguments: Sequence[str], given: str, *, env: Mapping[str, str], cwd: Path
) -> tuple[int, str, str]:
    """Return the exit code of a run, and what it wrote."""
    reads, writes = os.pipe()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begun = start(arguments, (reads, out.fileno(), err.fileno()), env=env, cwd=cwd)
        os.close(reads)
        with suppress(BrokenPipeError), open(writes, "w", encoding="utf-8") as stdin:  # noqa: PTH123
            stdin.write(given)
        code = begun.wait()
        for one in (out, err):
            one.seek(0)
        return code, out.read().decode(), err.read().decode()


def path(*, counted: bool = False) -> Path:
    """Return a folder with a program `handrail` that runs it so; its lines are counted if wanted."""
    folder = _server(traced=counted and "COVERAGE_PROCESS_CONFIG" in os.environ)
    program = folder / "bin" / "handrail"
    if not program.exists():
        program.parent.mkdir()
        text = _RELAY.format(python=sys.executable, listens=str(folder / _LISTENS))
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
    return program.parent


def program() -> str:
    """Return the program for a process that a test starts itself; its lines are counted."""
    return str(path(counted=True) / "handrail")


@cache
def _server(*, traced: bool) -> Path:
    """Start a server and return its folder. It ends before this process does."""
    folder = Path(tempfile.mkdtemp(prefix="handrail-forked-"))
    listens = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listens.bind(str(folder / _LISTENS))
    listens.listen()
    uncounted = ("COVERAGE_",) * (not traced)
    left_out = ("PYTHONWARNDEFAULTENCODING", *uncounted)  # a new interpreter gets none of them
    kept = {name: text for name, text in os.environ.items() if not name.startswith(left_out)}
    server = subprocess.Popen(  # noqa: S603  our own interpreter
        [sys.executable, "-P", __file__, str(listens.fileno())],
        stdin=subprocess.PIPE,
        pass_fds=[listens.fileno()],
        env={**kept, "TERM": "xterm-256color"},  # the line editor reads it when it is loaded
        start_new_session=True,
    )
    listens.close()

    def end() -> None:
        server.communicate()
        shutil.rmtree(folder)

    atexit.register(end)
    return folder


_UNUSED = (
    "handrail.adapters.",
    "handrail.net._oidc",
    "handrail.net.sign_in",
    "handrail.runs._durable.",
    "handrail.runs._serving.",
    "handrail.testing.",
)
"""Modules that no command here loads: some need frameworks that are not installed."""


def _load() -> None:
    """Load what a command loads."""
    package = importlib.import_module("handrail")
    for one in pkgutil.walk_packages(package.__path__, "handrail."):
        if not one.name.endswith("__main__") and not one.name.startswith(_UNUSED):
            importlib.import_module(one.name)
    for name in _LAZY:
        importlib.import_module(name)
    policy = importlib.import_module("handrail.policy")
    policy.builtin_rules("read_only", "development")  # parsed once: half of what a short run costs
    gc.collect()
    gc.freeze()


def measure_copies() -> None:
    """Save which lines the imports reached, once: each copy measures what it reaches itself."""
    measures = Coverage.current()
    if measures is None:
        return
    measures.stop()
    measures.save()
    atexit.unregister(measures._atexit)  # noqa: SLF001
    inspect.stack()  # coverage calls it, and it remembers the file of each module


def _serve(listens: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each request, and tell exit codes; return in the copies only, with the request."""
    running: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as waits:
        waits.register(0, selectors.EVENT_READ)
        waits.register(listens, selectors.EVENT_READ)
        while True:
            for key, _ in waits.select():
                if key.fd == 0:
                    sys.exit(0)
                if key.data is not None:
                    _tell(waits, key, running)
                    continue
                tells, _ = listens.accept()
                message, files, _, _ = socket.recv_fds(tells, MAX_REQUEST_BYTES, 3)
                if (pid := os.fork()) == 0:
                    for one in (listens, tells, *running.values()):
                        one.detach()
                    return json.loads(message), files
                for one in files:
                    os.close(one)
                tells.send(str(pid).encode())
                at = os.pidfd_open(pid)
                running[at] = tells
                waits.register(at, selectors.EVENT_READ, pid)


def _tell(
    waits: selectors.BaseSelector, key: selectors.SelectorKey, running: dict[int, socket.socket]
) -> None:
    """Tell the exit code of a run that has ended."""
    waits.unregister(key.fd)
    _, status = os.waitpid(key.data, 0)
    with running.pop(key.fd) as tells, suppress(BrokenPipeError):
        tells.send(str(os.waitstatus_to_exitcode(status)).encode())
    os.close(key.fd)


def _become(request: dict[str, Any], files: list[int]) -> None:
    """Make this process what a new interpreter with these arguments would be."""
    if request["terminal"]:
        os.setsid()
    for number, one in enumerate(files):
        os.dup2(one, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path.insert(0, request["cwd"])
    sys.argv[1:] = request["arguments"]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        made = _stream(getattr(sys, name), number)
        setattr(sys, name, made)
        setattr(sys, f"__{name}__", made)


def _stream(before: io.TextIOWrapper, number: int) -> io.TextIOWrapper:
    """Open what an interpreter opens when it starts."""
    raw: Any = io.FileIO(number, "r" if before.readable() else "w", closefd=False)
    raw.name = before.name
    buffer = io.BufferedReader(raw) if before.readable() else io.BufferedWriter(raw)
    at_once = before.name == "<stderr>" or raw.isatty()
    return io.TextIOWrapper(buffer, before.encoding, before.errors, line_buffering=at_once)


def _run() -> None:
    """Run the command line, and end as an interpreter does, but leave its memory to the kernel.

    An interpreter clears every module, and a copy would copy each page for that: ten times what the
    shortest command costs.
    """
    try:
        runpy.run_module("handrail.cli", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code
    assert isinstance(code, int)
    threading._shutdown()  # noqa: SLF001  what an interpreter calls
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.stdout.flush()
    posix._exit(code)  # noqa: SLF001  `os._exit` is replaced by coverage, to save once more


if __name__ == "__main__":
    _load()
    measure_copies()
    _become(*_serve(socket.socket(fileno=int(sys.argv[1]))))
    _run()
