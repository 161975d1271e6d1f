"""Every failure and note of the coding tools, made by running the calls in a temporary folder."""

from __future__ import annotations

import os
import re
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio

from handrail import Call, Executor, Result, Tool, Toolset
from handrail.net import Guard
from handrail.sandbox import Restriction, Sandbox
from handrail.sources import unframe
from handrail.tools import (
    Jobs,
    Workspace,
    apply_patch,
    bash,
    coding_tools,
    glob,
    grep,
    read_job,
    stop_job,
    web_fetch,
)
from messages.row import Row
from net.web_stage import PUBLIC, Script, Web, redirect, reply, server_side

_MIB: Final = 1024 * 1024
_VARYING: Final = {
    re.compile(r"(?<=, )\d+\.\d s\b|(?<=after )\d+\.\d s(?=[.:])"): "0.1 s",
    re.compile(r"(?<=running for )\d+ s"): "0 s",
    re.compile(r"[\d,]+(?= of 1,000,000 bytes)"): "450,560",
    re.compile(r"[\d,]+(?= earlier bytes)"): "587,895",
}
_NOTE: Final = re.compile(r"^\[|^\(|\[clipped|\[\.\.\.|^Characters|^The page is")
_LONG: Final = re.compile(r"(.)\1{49,}|(?:d/){50,}|(?:0123456789){5,}")


class Case(NamedTuple):
    """A call, and when a model makes it."""

    when: str
    tool: str
    args: Mapping[str, Any]


FILES: Final[Mapping[str, bytes]] = {
    "a.py": b"def a():\n    return 1\n\n\ndef b():\n    return 1\n",
    "edited.py": b"def area(width, height):\n    return width * height\n",
    "several.py": b"if a:\n    call(1)\nif b:\n\tcall(1)\n",
    "unread.py": b"value = 1\n",
    "src/util/helpers.py": b"HELP = 1\n",
    "src/util/c.py": b"x = 1\n",
    "web/index.html": b"<p>hi</p>\n",
    "empty.txt": b"",
    "old.ipynb": b'{"worksheets": [], "nbformat": 3}\n',
    "two.ipynb": b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "load(data)"},'
    b' {"cell_type": "code", "source": ["x = 1\\n", "load(data)"]}]}\n',
    "long.txt": b"".join(b"line %d\n" % number for number in range(1, 3001)),
    "wide.txt": b"x" * 2_500 + b"\n",
    "far.txt": b"x" * 5_000_000 + b"needle\n",
    "crlf.txt": b"one\r\ntwo\r\n",
    "crlf2.txt": b"one\r\ntwo\r\n",
    "cr.txt": b"one\rtwo\r",
    "mixed.txt": b"one\r\ntwo\nthree\n",
    "stray.txt": "gr\u00fc\u00dfe aus \u4f60\u597d\n".encode() + b"caf\xe9\n",
    "unknown.txt": "\u8868\u793a\u8868\u793a\n".encode("shift-jis"),
    "latin.txt": "caf\u00e9 au lait\n".encode("latin-1"),
    "utf16.txt": "hello there\n".encode("utf-16"),
    "big.log": b"0123456789abcde\n" * (_MIB + 10),
    "bin.dat": b"\0\1\2\3" * 2_560,
    "big.png": b"\x89PNG\r\n\x1a\n" + b"\0" * 4_000_000,
    "half.bin": b"needle\n" + b"a\n" * 40_000 + b"\0needle\n",
    "money.txt": b"$9.99 (incl. tax) [net]\n",
    "twice.py": b"a = 1\nb = 2\na = 1\n",
    "many.txt": b"x " * 100_001,
    "go.go": b"func f() {\n\tif w < 0 {\n\t\treturn 0\n\t}\n}\n",
    "deep.py": b"if a:\n    with b:\n        c()\n",
    "html.txt": b"if a < b and c > d:\n",
    "smart.py": "QUOTE = \u201coops\u201d\n".encode(),
    "done.py": b"total = price * count\n",
    "nested.py": b"log(compute(value))\n",
    "sjis.txt": "name = '\u8868\u793a'\n".encode("shift-jis"),
    "read.py": b"value = 1\n",
    "stale.py": b"value = 1\n",
    "drifted.py": b"value = 1\nother = 2\n",
    "noted.log": b"KEY in a log\n",
    ".gitignore": b"*.log\nbuild/*\n",
    "build/out.txt": b"built\n",
    "only/folders/deep.txt": b"deep\n",
}


def _read(when: str, path: str, **others: Any) -> Case:
    return Case(when, "read", {"file_path": path, **others})


READ: Final = [
    _read("a file is empty", "empty.txt"),
    _read("a notebook has an older format", "old.ipynb"),
    _read("a file has more lines than a page", "long.txt"),
    _read("a line is very long", "wide.txt"),
    _read("lines end in CRLF", "crlf.txt"),
    _read("lines end in CR", "cr.txt"),
    _read("line endings are mixed", "mixed.txt"),
    _read("some bytes are not UTF-8", "stray.txt"),
    _read("the encoding is unknown", "unknown.txt"),
    _read("the encoding is guessed", "latin.txt"),
    _read("the encoding has a byte order mark", "utf16.txt"),
    _read("a file is very large", "big.log", offset=1_048_570),
    _read("the first line is past the end", "a.py", offset=100),
    _read("the first line is past the end of a very large file", "big.log", offset=2_000_000),
    _read("view_range has one number", "a.py", view_range=[1]),
    _read("view_range is reversed", "a.py", view_range=[9, 3]),
    _read("a file is binary", "bin.dat"),
    _read("an image is too large", "big.png"),
    _read("a file name is misspelled", "src/util/helper.py"),
    _read("the file is in another folder", "c.py"),
    _read("the folder does not exist", "util/helpers.py"),
    _read("only upper and lower case differ", "A.py"),
    _read("no file has a similar name", "src/zzz.txt"),
    _read("the path is a folder", "web"),
    _read("the path is a pipe", "pipe"),
    _read("a file is used as a folder", "a.py/x"),
    _read("links form a loop", "loop"),
    _read("a file name is too long", "n" * 300),
    _read("the path is absolute", "/etc/passwd"),
    _read("the path starts with ~", "~/.profile"),
    _read("the path has a variable", "$HOME/x"),
    _read("the path is a URL", "https://example.org/x"),
    _read("the path starts with a backslash", "\\srv\\x"),
    _read("the path has a drive", "C:/x"),
    _read("the path climbs out of the workspace", "../other"),
    _read("a link leads out of the workspace", "out"),
    _read("the path is empty", ""),
    _read("the path is very long", "d/" * 2_500),
]


def _write(when: str, path: str, content: str = "x\n") -> Case:
    return Case(when, "write", {"file_path": path, "content": content})


WRITE: Final = [
    _write("the file exists and was not read", "unread.py"),
    _write("the file changed since it was read", "stale.py", "value = 3\n"),
    _write("the file already has the content", "read.py", "value = 1\n"),
    _write("line endings are kept", "crlf.txt", "one\n"),
    _write("the encoding is kept", "utf16.txt", "one\n"),
    _write("the encoding lacks a character", "latin.txt", "\u4f60\n"),
    _write("the encoding is unknown", "unknown.txt", "\u4f60\n"),
    _write("the file is too large to read", "big.log"),
    _write("the file is too large to change", "huge.txt"),
    _write("the path is a folder", "web"),
    _write("the path is the workspace", "."),
    _write("the path is a pipe", "pipe"),
    _write("a link is broken", "dangling"),
    _write("the name is a device on Windows", "con"),
    _write("the name has combining accents", "cafe\u0301"),
    _write("the name has a backslash", "a\\b"),
    _write("the name has percent-encoded characters", "a%2Fb"),
    _write("the name has a file stream", "ab::$DATA"),
    _write("the name has control characters", "a\x07b"),
    _write("the name ends with whitespace", "a "),
]


def _edit(when: str, path: str, old: str, new: str, **others: Any) -> Case:
    args = {"file_path": path, "old_string": old, "new_string": new, **others}
    return Case(when, "edit", args)


def _patch(when: str, *lines: str) -> Case:
    text = "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
    return Case(when, "apply_patch", {"input": text})


HABITS: Final = [
    Case("an argument has another name", "read", {"path": "empty.txt"}),
    Case("an argument with two readings", "grep", {"pattern": "x", "-n": False}),
    Case("the tool has another name", "ls", {}),
    Case("the name of the tool differs in case", "Read", {}),
    Case("there is no similar tool", "Task", {}),
]
PATCH: Final = [
    Case("it is not a patch", "apply_patch", {"input": "diff --git a b"}),
    _patch("the first line names no file", "+x"),
    _patch("a line has no mark", "*** Update File: a.py", "x"),
    _patch("a new file has a line without its mark", "*** Add File: new.py", "x"),
    _patch("an update has no changes", "*** Update File: a.py"),
    _patch("lines follow a delete", "*** Delete File: a.py", "-x"),
    _patch("a file occurs twice", "*** Delete File: a.py", "*** Delete File: a.py"),
    _patch("a new file exists", "*** Add File: empty.txt", "+x"),
    _patch("a hunk has no context", "*** Update File: long.txt", "+x"),
    _patch("an anchor is not in the file", "*** Update File: long.txt", "@@ zzz", "-x"),
    _patch("a hunk does not match", "*** Update File: long.txt", "-zzz", "+x"),
    _patch("a patch is applied", "*** Add File: patched.py", "+x"),
]
_TWO: Final = [
    {"old_string": "def area", "new_string": "def size"},
    {"old_string": "no such text here", "new_string": "x"},
]
EDIT: Final = [
    _edit("a new file is meant", "new.py", "", "x = 1\n"),
    _edit("several cells of a notebook have the text", "two.ipynb", "load(data)", "load()"),
    _edit("no cell of a notebook has the text", "two.ipynb", "nbformat", "x"),
    _edit("a new cell has none before it", "two.ipynb", "x = 1", "[new cell, raw]\nx = 1"),
    _edit("the text goes beyond a cell", "two.ipynb", "x = 1\nload(data)\n", "x = 2"),
    _edit("old_string is empty", "a.py", "", "x"),
    _edit("both strings are the same", "a.py", "return 1", "return 1"),
    _edit("several places match", "twice.py", "a = 1", "a = 2"),
    _edit("several places match apart from whitespace", "several.py", "call(1) \n", "call(2)\n"),
    _edit("too many places match", "many.txt", "x", "y", replace_all=True),
    _edit("nothing is similar", "edited.py", "class Complete:\n    nothing here", "x"),
    _edit("something is similar", "edited.py", "def area(width, size):\n    return width", "x"),
    _edit("something is similar apart from spaces", "edited.py", "return  width * height", "x"),
    _edit("the file changed since it was read", "stale.py", "value = 1", "value = 3"),
    _edit("the edit may be applied already", "done.py", "total = price * amount", "total = price * count"),
    _edit("old_string is part of new_string", "nested.py", "compute(value)", "log(compute(value))"),
    _edit("old_string has HTML entities", "html.txt", "if a &lt; b and c &gt; d:", "x"),
    _edit("old_string has escaped line breaks", "deep.py", "with b:\\n        c()", "x"),
    _edit("the indentation is unclear", "deep.py", "    with b:\n    c()\n", "    with b:\n    d()\n"),
    _edit("only some lines have numbers", "go.go", "2\t\tif w < 0 {\n3\t\t\treturn 0", "2\t\tif w < 0 {\n\t\treturn 0"),
    _edit("a character may be split", "sjis.txt", "\\x95", "x"),
    _edit("the encoding lacks a character", "latin.txt", "lait", "\u4f60"),
    _edit("the file is binary", "bin.dat", "a", "b"),
    _edit("both forms are used", "a.py", "a", "b", edits=_TWO),
    Case("edits is empty", "edit", {"file_path": "a.py", "edits": []}),
    Case("one of several edits fails", "edit", {"file_path": "edited.py", "edits": _TWO}),
    _edit("indentation differs", "go.go", "    if w < 0 {\n        return 0\n", "    if w < 1 {\n        return 1\n"),
    _edit("line numbers are copied", "go.go", "5\t}\n", "5\t}\n\n"),
    _edit("look-alike characters differ", "smart.py", 'QUOTE = "oops"', 'QUOTE = "fine"'),
    _edit("line endings differ", "crlf2.txt", "one\ntwo", "one\nthree"),
    _edit("spelled out characters are copied", "sjis.txt", "name = '\\x95\\\\x8e\\xa6'", "title = '\\x95\\\\x8e\\xa6'"),
    _edit("other lines changed since the file was read", "drifted.py", "value = 1", "value = 2"),
]  # fmt: skip


def _glob(when: str, pattern: str, **others: Any) -> Case:
    return Case(when, "glob", {"pattern": pattern, **others})


def _grep(when: str, pattern: str, **others: Any) -> Case:
    return Case(when, "grep", {"pattern": pattern, **others})


SEARCH: Final = [
    _glob("no file matches", "**/*.zzz"),
    _glob("no file matches, and the pattern has no slash", "*.zzz"),
    _glob("the pattern names a folder", "only"),
    _glob("a folder has only folders", "only/*"),
    _glob("ignored files would match", "**/*.log"),
    _glob("the folder is ignored", "**/*", path="build"),
    _glob("more files match than are shown", "**/*.py", limit=2),
    _glob("the pattern is empty", ""),
    _glob("limit is too large", "*", limit=5_000),
    _glob("path is a file", "*", path="a.py"),
    _glob("path has a wildcard", "*.py", path="src/*"),
    _glob("the pattern is absolute", "/etc/*"),
    _glob("the pattern climbs", "../*"),
    _glob("the pattern is too long", "a" * 1_001),
    _glob("braces give too many patterns", "{a,b}" * 8),
    _grep("nothing matches", "zzz_nothing"),
    _grep("the pattern would match as plain text", "$9.99 (incl. tax) [net]"),
    _grep("ignored files would match", "KEY in"),
    _grep("the folder is ignored", "built", path="build"),
    _grep("more lines match than are shown", "line", path="long.txt"),
    _grep("offset is past the end", "HELP", offset=9),
    _grep("a line is clipped", "x", path="wide.txt"),
    _grep("a match is far into a line", "needle", path="far.txt"),
    _grep("a binary file matches", "\\x01", path="bin.dat"),
    _grep("only a binary file matches", "\\x01\\x02"),
    _grep("a file is binary from some point on", "needle", path="half.bin"),
    _grep("the pattern is invalid", "f("),
    _grep("the pattern has a look-around", "(?=x)"),
    _grep("the pattern has a backreference", "(a)\\1"),
    _grep("the pattern is too large", "(?:[a-z]{9999}){99}"),
    _grep("the pattern contains a line break", "a\nb"),
    _grep("the pattern matches a line break", "a\\nb"),
    _grep("the pattern is empty", ""),
    _grep("the pattern is too long", "a" * 10_001),
    _grep("the type is unknown", "x", type="python3"),
    _grep("path has a wildcard", "x", path="src/util/*.py"),
    _grep("path does not exist", "x", path="src/utl"),
    _grep("context is too large", "x", context=100),
]
ENGINES: Final = {
    "the search takes too long": ("exec sleep 60", 0.2),
    "the search is killed": ("kill -9 $$", 20.0),
    "files cannot be opened": ("exit 2", 20.0),
    "the search fails": ("echo something >&2; exit 2", 20.0),
}
"""Programs in the place of ripgrep, and the time limit."""


def _bash(when: str, command: str, **others: Any) -> Case:
    return Case(when, "bash", {"command": command, **others})


def _job(when: str, tool: str, **args: Any) -> Case:
    return Case(when, tool, args)


BASH: Final = [
    _bash("a command prints nothing", "true"),
    _bash("a command fails", "exit 3"),
    _bash("a signal ends a command", "kill -9 $$"),
    _bash("the command is empty", ""),
    _bash("the command is too long", ":" + " " * 130_000),
    _bash("the timeout is too long", "ls", timeout_ms=700_000),
    _bash("a command times out", "echo begun; sleep 60", timeout_ms=400),
    _bash("a command leaves a background process", "sleep 60 & echo on"),
    _bash("an editor is started", "vim a.py"),
    _bash("a command reads its standard input", "cat"),
    _bash("an interpreter reads its standard input", "python3"),
    _bash("a program needs a terminal", "htop || exit 1"),
    _bash("a program needs privileges", "sudo ls || exit 1"),
    _bash("a program needs a remote host", "ssh a@host.invalid ls || exit 1"),
    _bash("git needs an editor", "echo no tag message?; exit 1"),
    _bash("a program prompts", "python3 -c 'input()'"),
    _bash("a variable does not last", "export PATH=/opt/bin:$PATH"),
    _bash("there is no network", "curl -sS http://host.invalid/ || exit 1"),
    _bash("a file outside is read-only", "echo x > /etc/handrail-test"),
    _bash("a protected file is read-only", "mkdir -p .vscode/x"),
    _bash("an unnamed file is read-only", "echo Read-only file system; exit 1"),
    _bash("a rule hides a file", "cat .e*"),
    _bash("memory is used up", "echo MemoryError; exit 1"),
    _bash("a file is too large", "echo File too large; exit 1"),
    _bash("too many processes run", "echo fork: Resource temporarily unavailable; exit 1"),
    _bash("output is not UTF-8", "printf 'caf\\351\\n'"),
    _bash("output is very long", "yes x | tr '\\n' '\\r' | head -c 1000000"),
    _bash("a link leads out of the workspace", "ln -s /etc/hosts settings"),
    _bash("a job starts", "sleep 60", background=True),
    _job("a job has printed nothing", "read_job", job=1),
    _job("a job has printed nothing more", "read_job", job=1, since=5),
    _bash("", "sleep 60", background=True),
    _bash("too many jobs run", "sleep 60", background=True),
    _job("there is no such job", "read_job", job=9),
    _job("a job is stopped", "stop_job", job=1),
    _job("a job was stopped", "read_job", job=1),
    _job("", "stop_job", job=2),
    _bash("a job ends at once", "exit 4", background=True),
    _job("a job has already ended", "stop_job", job=3),
    _bash("", "seq 100000", background=True),
    _job("", "read_job", job=4, since=1_000_000, wait_ms=30_000),
    _job("early output was dropped", "read_job", job=4, since=0),
    _bash("the variables are reset", "", restart=True),
]
"""Cases without a name are run, and give no row."""
HOSTS: Final = [
    _bash("a host is closed", "curl -sS http://host.invalid/"),
    _bash("another host is closed", "curl -sS https://b.test/", hosts=["a.test"]),
    _bash("hosts are closed", "echo Network is unreachable; exit 1"),
    _bash("a command with hosts has no job", "curl -sS http://localhost:1/", hosts=["a.test"]),
    _bash("a host cannot be opened", "true", hosts=["localhost"]),
    _bash("a host is not valid", "true", hosts=["https://a.test"]),
    _bash("there are too many hosts", "true", hosts=[f"h{number}.test" for number in range(21)]),
]
"""Cases of a sandbox that opens hosts on request."""

Answer = tuple[str, Script, str]
OK: Final = reply()
SITE: Final = "http://pub.test/"


def _endless(client: socket.socket) -> None:
    while True:
        client.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: " + b"a" * 50_000 + b"\r\n\r\n")


def _status(text: str, **headers: str) -> Answer:
    return f"the status is {text[:3]}", reply(b"", status=text, **headers), SITE


PAGES: Final[Sequence[Answer]] = [
    ("the page is empty", reply(b""), SITE),
    ("the page is long", reply(b"0123456789" * 4_000), SITE),
    ("the page is too long", reply(b"0123456789" * 6_000), SITE),
    _status("400 Bad Request"),
    _status("401 Unauthorized"),
    _status("403 Forbidden"),
    _status("404 Not Found"),
    _status("410 Gone"),
    _status("503 Busy", Retry_After="7"),
    ("it redirects to another host", redirect("https://other.test/x"), SITE),
    ("it redirects to an internal host", redirect("http://10.0.0.1/"), SITE),
    ("it redirects to another scheme", redirect("ftp://pub.test/"), SITE),
    ("it redirects to an invalid URL", redirect("http://[::1/"), SITE),
    ("it redirects to another page", redirect("/again"), SITE),
    ("it redirects in a loop", redirect("/?again"), SITE),
    ("it redirects from https to http", redirect("http://pub.test/plain"), "https://pub.test/"),
    ("the page is not text", reply(b"%PDF", "application/pdf"), SITE),
    ("the page is binary", reply(b"\0\1", "text/plain"), SITE),
    ("the page cannot be unpacked", reply(b"not gzip", Content_Encoding="gzip"), SITE),
    ("the page has another encoding", reply(b"x", Content_Encoding="br"), SITE),
    ("the response is not HTTP", lambda client: client.sendall(b"SSH-2.0\r\n\r\n"), SITE),
    ("the response never ends", _endless, SITE),
    ("the certificate is wrong", OK, "https://other.test/"),
    ("the host does not exist", OK, "http://nowhere.test/"),
    ("the host is internal", OK, "http://localhost/"),
    ("the port is not allowed", OK, "http://pub.test:8765/"),
    ("the URL has no scheme", OK, "pub.test/x"),
    ("the URL is too long", OK, SITE + "x" * 9_000),
    ("the URL has a space", OK, "http://pub.test/a b"),
    ("the URL has a user name", OK, "http://me@pub.test/"),
    ("the URL has an invalid port", OK, "http://pub.test:99999/"),
    ("the URL has an encoded ..", OK, "http://pub.test/%252e%252e/x"),
    ("the host ends with a dot", OK, "http://pub.test./"),
    ("the host is too long", OK, f"http://{'.'.join(['abcdefghij' * 5] * 6)}/"),
    ("the address is shortened", OK, "http://127.1/"),
    ("the address is not IPv6", OK, "http://[1::2::3]/"),
    ("the address has a zone", OK, "http://[fe80::1%25eth0]/"),
    ("a part of the host is invalid", OK, "http://-a.test/"),
    ("a part of the host is ambiguous", OK, "http://stra\u00dfe.test/"),
]


async def rows() -> list[Row]:
    """Run every call, and return what a model reads."""
    with tempfile.TemporaryDirectory() as folder:
        root = _make_files(folder)
        parts = (_file_rows(root), _search_rows(root), _bash_rows(root.parent), _web_rows())
        return [row for part in parts async for row in part]


def _make_files(folder: str) -> Path:
    root = Path(folder).resolve() / "workspace"
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (1, 1))
    (root / "huge.txt").touch()
    os.truncate(root / "huge.txt", 70 * _MIB)
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to("loop")
    (root / "out").symlink_to("/etc/hosts")
    (root / "dangling").symlink_to("nothing")
    return root


async def _file_rows(root: Path) -> AsyncIterator[Row]:
    workspace = Workspace(root)
    tools = coding_tools(workspace, without=["bash", "web_fetch"]) | Toolset(apply_patch(workspace))
    async with Executor(tools) as executor:
        for name in ("read.py", "stale.py", "drifted.py", "crlf.txt", "latin.txt", "utf16.txt"):
            await executor.run(Call("read", {"file_path": name}, "c0"))
        (root / "stale.py").write_bytes(b"amount = 2\n")
        (root / "drifted.py").write_bytes(b"value = 1\nother = 3\n")
        for case in [*READ, *WRITE, *EDIT, *PATCH, *HABITS]:
            yield await _run(executor, case)


async def _search_rows(root: Path) -> AsyncIterator[Row]:
    workspace = Workspace(root)
    async with Executor(Toolset(glob(workspace), grep(workspace))) as executor:
        for case in SEARCH:
            yield await _run(executor, case)
    hiding = Workspace(root, hides=lambda path: path == "a.py")
    yield await _run_alone(grep(hiding), _grep("a rule denies reading the path", "x", path="a.py"))
    for when, (script, seconds) in ENGINES.items():
        program = root.parent / "rg"
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
        engine = grep(workspace, ripgrep=str(program), seconds=seconds)
        yield await _run_alone(engine, _grep(when, "x"))


def _hide_env(_command: str) -> dict[str, Restriction]:
    return {".env": "hidden"}


async def _bash_rows(folder: Path) -> AsyncIterator[Row]:
    root = folder / "commands"
    (root / "sub").mkdir(parents=True)
    (root / ".env").touch()
    jobs, sandbox = Jobs(max_running=2, max_output_bytes=1_000), Sandbox(root, restricted=_hide_env)
    tools = Toolset(bash(sandbox, jobs=jobs), read_job(jobs), stop_job(jobs))
    async with Executor(tools) as executor:
        for case in BASH:
            row = await _run(executor, case)
            if case.when:
                yield row
    async with Executor(Toolset(bash(sandbox))) as executor:
        yield await _run(executor, _bash("the folder changes", "cd sub"))
        calls = [Call("bash", {"command": command}, command) for command in ("cd ..", "pwd")]
        _, second = await executor.run_all(calls)
        yield _describe("`bash`, an earlier call of the turn changed the folder", second)
    for case in HOSTS:
        yield await _run_alone(bash(Sandbox(root, opened=list)), case)
    not_a_folder = folder / "not-a-folder"
    not_a_folder.touch()
    workspace = Workspace(root, undo_folder=not_a_folder / "undo")
    tool = bash(sandbox, workspace=workspace)
    yield await _run_alone(tool, _bash("a command cannot be undone", "true"))


async def _web_rows() -> AsyncIterator[Row]:
    for when, script, url in PAGES:
        with Web({"*": script}, secure=server_side("pub.test")) as web:
            tool = web_fetch(**web.options(most_bytes=50_000))
            yield await _run_alone(tool, Case(when, "web_fetch", {"url": url}))
    with Web({"*": reply(b"short")}) as web:
        args = {"url": SITE, "offset": 99}
        tool = web_fetch(**web.options())
        yield await _run_alone(tool, Case("offset is past the end", "web_fetch", args))
    guard = Guard(resolver=lambda *_: [PUBLIC])
    for when, tool in (
        ("the host does not respond", web_fetch(guard=guard, connect=_refuse)),
        ("the host cannot be resolved now", web_fetch(guard=Guard(resolver=_fail))),
        ("it takes too long", web_fetch(guard=guard, connect=_wait, within=0.05)),
    ):
        yield await _run_alone(tool, Case(when, "web_fetch", {"url": SITE}))


async def _refuse(_address: str, _port: int) -> Any:
    raise ConnectionRefusedError


async def _wait(_address: str, _port: int) -> Any:
    await anyio.sleep_forever()


def _fail(_host: str, _port: int) -> list[str]:
    raise socket.gaierror(socket.EAI_AGAIN, "temporary")


async def _run_alone(tool: Tool[..., Any], case: Case) -> Row:
    async with Executor(Toolset(tool)) as executor:
        return await _run(executor, case)


async def _run(executor: Executor, case: Case) -> Row:
    result = await executor.run(Call(case.tool, dict(case.args), "c1"))
    return _describe(f"`{case.tool}`, {case.when}", result)


def _describe(when: str, result: Result) -> Row:
    """Return the row of a failure, or the notes of a result that did not fail."""
    kind = result.failure.kind.value if result.failure else "note"
    lines = unframe(result.text).splitlines()
    notes = [_find_note(line) for line in lines if _NOTE.search(line)]
    text = result.text if result.failure or not notes else "\n".join(notes)
    text = _LONG.sub(r"\1...", text)
    for varying, usual in _VARYING.items():
        text = varying.sub(usual, text)
    return Row(when, kind, text)


def _find_note(line: str) -> str:
    """Return a note without the line of a file before it."""
    return line[max(line.find("[clipped"), 0) :]
