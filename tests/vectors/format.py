"""Files made to hurt whoever reads them: bombs, archives, entities, endless ones.

What is looked at: how much memory a call takes, what it shows, and that nothing outside of the
workspace is made or connected to.
"""

from __future__ import annotations

import io
import json
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from handrail import READ, Call, Executor, FailureKind, Image, Result, Toolset, tool
from handrail.tools import Workspace, read, web_fetch, write
from net.web_stage import Web
from tools.stage import kind, results, tree

MEMORY = 128 * 1024
"""Kilobytes by which a call may make this process grow."""
LONG = 110_000
"""Characters that are more than any page."""


class Ground(NamedTuple):
    """A folder with a workspace in it, the tools over it, and how large large files are."""

    out: Path
    tools: Toolset
    large: int
    listener: socket.socket

    @property
    def root(self) -> Path:
        return self.out / "ws"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}/x"

    def put(self, data: bytes | str) -> None:
        (self.root / "f").write_bytes(data.encode() if isinstance(data, str) else data)

    def read(self, **args: object) -> Result:
        [done] = results(self.tools, ("read", {"file_path": "f", **args}))
        return done


def _tools(root: Path) -> Toolset:
    workspace = Workspace(root)
    return Toolset(read(workspace), write(workspace))


Make = Callable[[Path], Toolset]


@contextmanager
def ground(make: Make, large: int) -> Iterator[Ground]:
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        out = Path(folder)
        (out / "ws").mkdir()
        (out / "x").write_text("canary", encoding="utf-8")
        listener.settimeout(0)
        yield Ground(out, make(out / "ws"), large, listener)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _lean(check: Callable[[Ground], bool], place: Ground) -> bool:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    began = _status("VmRSS")
    return check(place) and _status("VmHWM") - began < MEMORY


def _small(check: Callable[[Ground], bool], place: Ground) -> bool:
    """Whether it holds, without much memory, and with nothing outside touched or asked."""
    before = tree(place.out, without=place.root)
    held = any(_lean(check, place) for _ in range(3))  # others of this process may grow meanwhile
    try:
        place.listener.accept()[0].close()
    except BlockingIOError:
        return held and tree(place.out, without=place.root) == before
    return False


def _endless(place: Ground) -> bool:
    with (place.root / "f").open("wb") as file:
        file.write(b"line\n" * 10_000)
        file.truncate(place.large)
    first, far = place.read(), place.read(offset=10**9)
    with (place.root / "f").open("wb") as file:
        file.truncate(place.large)
    return (
        len(first.text) < LONG and len(far.text) < LONG and kind(place.read()) is FailureKind.FAILED
    )


GROWS = """
import sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), ended.append(1)), daemon=True).start()
ended = []
with open(sys.argv[1], "ab", buffering=0) as file:
    file.write(b"line\\n" * 1000)
    print("ready", flush=True)
    while not ended and file.tell() < 60_000_000:
        file.write(b"line\\n" * 1000)
"""


def _growing(place: Ground) -> bool:
    program = [sys.executable, "-I", "-S", "-c", GROWS, str(place.root / "f")]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:  # noqa: S603
        assert writer.stdout is not None
        writer.stdout.readline()
        done = (place.read(offset=offset) for offset in (1, 1_500, 3_000, 10**9) * 3)
        held = all(len(one.text) < LONG for one in done)
        writer.kill()
    return held


def _archive(name: str, content: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return made.getvalue()


def _bomb(place: Ground) -> bool:
    place.put(_archive("1", _archive("2", b"\0" * 20_000_000) * 500))
    return kind(place.read()) is FailureKind.FAILED


def _slip(place: Ground) -> bool:
    place.put(_archive("../x", b"pwned"))
    return kind(place.read()) is FailureKind.FAILED


def _tape(place: Ground) -> bool:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, sort, target in (
            ("d", tarfile.CHRTYPE, ""),
            ("l", tarfile.SYMTYPE, "/etc/passwd"),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = sort, target
            archive.addfile(entry)
    place.put(made.getvalue())
    there = {one.name for one in place.root.iterdir()}
    return (
        kind(place.read()) is FailureKind.FAILED
        and {one.name for one in place.root.iterdir()} == there
    )


def _verbatim(text: str) -> Callable[[Ground], bool]:
    """It is shown as it is written: nothing is expanded, parsed or fetched."""

    def held(place: Ground) -> bool:
        content = text.replace("{address}", place.address)
        place.put(content)
        shown = [line.partition("\t")[2] for line in place.read().text.split("\n")]
        return shown == content.splitlines()

    return held


LAUGHS = "\n".join(
    [
        '<?xml version="1.0"?>',
        '<!DOCTYPE lolz [<!ENTITY l0 "lol">',
        *(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10)),
        "]><lolz>&l9;</lolz>",
    ]
)
ENTITY = (
    '<?xml version="1.0"?>\n<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">'
    '<!ENTITY f SYSTEM "{address}">]>\n<x>&e;&f;</x>'
)
ALIASES = "\n".join(
    ["a0: &a0 [lol]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))]
)
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">\n'
    '<image xlink:href="{address}"/><script href="{address}"/>\n</svg>'
)


def _nested(place: Ground) -> bool:
    place.put("[" * 1_000_000)
    done = place.read()
    return done.failure is None and len(done.text) < 3_000


def _notebook(place: Ground) -> bool:
    head, tail = '{"cells": [{"outputs": [{"text": "', '"}]}]}'
    with (place.root / "f").open("w", encoding="utf-8") as file:
        file.writelines(
            [head, *["x" * 1_000_000] * (min(place.large, 200_000_000) // 1_000_000), tail]
        )
    return len(place.read().text) < 3_000


def _pixels(place: Ground) -> bool:
    """A picture of 50,000 by 50,000 points, and a document of a gigabyte, both small files."""
    packed = zlib.compress(b"\0" * 1_000_000)
    head = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 0, 0, 0, 0)
    chunks = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in ((b"IHDR", head), (b"IDAT", packed), (b"IEND", b""))
    )
    place.put(b"\x89PNG\r\n\x1a\n" + chunks)
    picture = place.read()
    place.put(b"%PDF-1.7\n1 0 obj<</Filter/FlateDecode>>stream\n" + packed + b"\nendstream")
    document = place.read()
    return (
        isinstance(picture.content[-1], Image)
        and len(picture.content[-1].data) < 10_000
        and document.failure is None
        and len(document.content) == 2
    )


def _page(place: Ground) -> bool:
    """50 MB of a page; it is not read to the end."""

    def sends(client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html><body>")
        with suppress(OSError):
            for _ in range(3_000):
                client.sendall(b"<div><p>word</p>" * 1_000)

    async def fetched(web: Web) -> Result:
        async with Executor(Toolset(web_fetch(**web.options()))) as executor:
            return await executor.run(Call("web_fetch", {"url": "http://pub.test/"}, "1"))

    with Web({"/": sends}) as web:
        done = anyio.run(fetched, web)
    return len(done.text) < LONG and kind(done) in {None, FailureKind.FAILED} and place.large > 0


def _trojan(place: Ground) -> bool:
    """In what is read, and in the difference that is shown before a file is overwritten."""
    place.put("if access != 'user\u202e \u2066# only admins\u2069 \u2066':\n    grant()\n")
    args = {"file_path": "f", "content": "pass\n"}
    shown, difference = results(place.tools, ("write", args), ("read", {"file_path": "f"}))
    return (
        all(
            "\\u{202e}" in one.text and not any(mark in one.text for mark in "\u202e\u2066\u2069")
            for one in (shown, difference)
        )
        and "reading direction" in difference.text
    )


CHECKS: dict[str, Callable[[Ground], bool]] = {
    "format-001": _endless,
    "format-002": _growing,
    "format-003": _bomb,
    "format-004": _slip,
    "format-005": _tape,
    "format-006": _verbatim(LAUGHS),
    "format-007": _verbatim(ENTITY),
    "format-008": _verbatim(ALIASES),
    "format-009": _nested,
    "format-010": _notebook,
    "format-011": _pixels,
    "format-012": _verbatim(SVG),
    "format-013": _page,
    "format-014": _trojan,
}


def holds(vector: dict[str, Any], make: Make = _tools, large: int = 100 * 1024**3) -> bool:
    """Whether such a file is shown in bounds, as it is, or not at all."""
    with ground(make, large) as place:
        return _small(CHECKS[vector["id"]], place)


def _naive(root: Path) -> Toolset:
    """The control: it helps. Whole files, archives unpacked, data read as what it is."""

    def unpacked(data: bytes) -> str:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                (root / name).write_bytes(archive.read(name))
        return "unpacked"

    @tool(name="read", effect=READ)
    def reads(file_path: str, offset: int = 1) -> str:
        """Read."""
        data = (root / file_path).read_bytes()
        if zipfile.is_zipfile(io.BytesIO(data)):
            return unpacked(data)
        text = data.decode("utf-8", "replace")
        return json.dumps(json.loads(text)) if text.startswith(("{", "[")) else text

    @tool(name="write")
    def writes(file_path: str, content: str) -> str:
        """Write."""
        (root / file_path).write_text(content, encoding="utf-8")
        return "written"

    return Toolset(reads, writes)


CONTROLLED = [f"format-{number:03}" for number in (1, 2, 3, 4, 5, 9, 10, 11, 14)]


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many files hurt a reader that takes them for what they say they are."""
    tried = [one for one in vectors if one["id"] in CONTROLLED]
    return sum(not holds(one, _naive, 150_000_000) for one in tried)
