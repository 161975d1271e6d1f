"""Many connections to a console in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from console.visits import SECRET

SERVER = """
import resource, socket, sys
import anyio
from console.scenes import make_console
from handrail.console import serve
soft, hard = int(sys.argv[3]), int(sys.argv[4])
if hard:
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
port = listening.getsockname()[1]
console = make_console(sys.argv[1], f"127.0.0.1:{port}", page_size=int(sys.argv[2]))
print(port, flush=True)
anyio.run(serve, console, listening)
"""


class Server:
    """A console in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self.port = port

    @property
    def memory(self) -> float:
        """Its resident memory, in MB."""
        return self._read_memory("VmRSS")

    @property
    def peak(self) -> float:
        """The most resident memory that it had since ``reset_peak``, in MB."""
        return self._read_memory("VmHWM")

    def reset_peak(self) -> float:
        """Forget the peak, and return the memory of now."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5", encoding="ascii")
        return self.memory

    def _read_memory(self, name: str) -> float:
        text = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        [line] = [one for one in text.splitlines() if one.startswith(name)]
        return int(line.split()[1]) / 1024

    @property
    def readers(self) -> int:
        """How often the file of the journal is open."""
        folder = Path(f"/proc/{self._process.pid}/fd")
        found = 0
        for one in folder.iterdir():
            with suppress(FileNotFoundError):  # closed since
                found += one.readlink().name == "journal.db"
        return found


@contextmanager
def crowded(
    file: Path, *, page_size: int = 100, files: tuple[int, int] = (0, 0)
) -> Generator[Server]:
    """Serve a journal. ``files`` are the limits of open files, soft and hard."""
    tests = Path(__file__).parents[1]
    names = {name: one for name, one in os.environ.items() if not name.startswith("COVERAGE")}
    with subprocess.Popen(  # noqa: S603  our own program
        [sys.executable, "-c", SERVER, str(file), *map(str, (page_size, *files))],
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**names, "PYTHONPATH": str(tests)},
    ) as process:
        assert process.stdout is not None
        try:
            yield Server(process, int(process.stdout.readline()))
        finally:
            process.terminate()
            process.wait(60)


@asynccontextmanager
async def requesting(port: int, path: str, group: str = "admins") -> AsyncGenerator[ByteStream]:
    """Send a request, as a browser behind the proxy does."""
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Handrail-Secret: {SECRET}\r\n"
    head += f"X-Forwarded-User: ana\r\nX-Forwarded-Groups: {group}\r\nConnection: close\r\n\r\n"
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(head.encode())
        yield stream


async def read_event(stream: BufferedByteReceiveStream) -> str:
    """Read the HTML of the next event."""
    while True:
        line = await stream.receive_until(b"\n", 10_000_000)
        if line.startswith(b"data: "):
            return str(json.loads(line[6:]))


async def read_status(stream: BufferedByteReceiveStream) -> int:
    """Read the head of an answer, and return its status."""
    head = await stream.receive_until(b"\r\n\r\n", 100_000)
    return int(head.split()[1])
