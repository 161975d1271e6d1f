"""What a command must not inherit: secrets of the agent, and variables that steer programs."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from handrail import READ, Call, Executor, FailureKind, HandrailError, Result, Toolset, tool
from handrail.hooks import audit, command, redact
from handrail.sandbox import Sandbox
from handrail.tools import bash
from sandbox.commands import run
from vectors.sandbox import TIERS, environment

SECRET = "canary-5f2c9a"  # noqa: S105
TOKEN = f"ghp_{'x' * 36}"
PYTHON = os.path.realpath(sys.executable)
PLANTED = {
    "env-001": {"ANTHROPIC_API_KEY": SECRET, "OPENAI_API_KEY": SECRET},
    "env-002": {"AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": SECRET},
    "env-003": {"DATABASE_URL": f"postgres://app:{SECRET}@db/app"},
    "env-004": {"FOO": TOKEN, "USER": TOKEN, "LC_FOO": TOKEN},
    "env-005": {"LD_PRELOAD": "/nowhere/canary-5f2c9a.so", "DYLD_INSERT_LIBRARIES": SECRET},
    "env-006": {"BASH_ENV": "{OUT}/start", "ENV": "{OUT}/start", "PS4": SECRET},
    "env-007": {"BASH_FUNC_ls%%": f"() {{ echo {SECRET}; }}"},
    "env-008": {"PYTHONSTARTUP": SECRET, "PYTHONPATH": SECRET, "NODE_OPTIONS": SECRET}
    | {"PERL5OPT": SECRET, "RUBYOPT": SECRET},
    "env-009": {"GIT_DIR": SECRET, "GIT_SSH_COMMAND": SECRET, "GIT_CONFIG_COUNT": SECRET},
    "env-011": {"PATH": ".:{WS}/bin:{WS}:"},
}
"""What the agent itself has in its environment, by vector."""
SHOW = "env -0 | tr '\\0' '\\n'; echo; ls; echo; git --version; tool-of-the-workspace"


@contextmanager
def _folders() -> Iterator[tuple[Path, Path]]:
    with tempfile.TemporaryDirectory() as made:
        ws, out = Path(made, "ws"), Path(made, "out")
        (ws / "bin").mkdir(parents=True)
        out.mkdir()
        (out / "start").write_text(f"echo {SECRET}\n", encoding="utf-8")
        fake = ws / "bin/tool-of-the-workspace"
        fake.write_text(f"#!/bin/sh\necho {SECRET}\n", encoding="utf-8")
        fake.chmod(0o755)
        yield ws, out


def _planted(number: str, ws: Path, out: Path) -> dict[str, str]:
    filled = {
        name: value.replace("{WS}", str(ws)).replace("{OUT}", str(out))
        for name, value in PLANTED[number].items()
    }
    return filled | ({"PATH": filled["PATH"] + os.environ["PATH"]} if "PATH" in filled else {})


def _leaks(text: str) -> bool:
    return SECRET in text or TOKEN in text


@functools.cache
def _shown(tier: Any) -> str:
    """What a command sees where all of it is planted at once."""
    with _folders() as (ws, out):
        planted = {k: v for number in PLANTED for k, v in _planted(number, ws, out).items()}
        with environment(**planted):
            return anyio.run(run, Sandbox(ws, tier=tier), SHOW).text


def _inherited(number: str) -> bool:
    """The control: a program that is started as programs are, and sees everything."""
    with _folders() as (ws, out), environment(**_planted(number, ws, out)):
        made = subprocess.run(  # noqa: S603
            ["/bin/bash", "-c", SHOW],
            cwd=ws,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return _leaks(made.stdout.decode(errors="replace"))


def _through_the_tool(args: Mapping[str, Any]) -> tuple[Result, bool]:
    """A call of the tool, and whether anything ran."""

    async def ask() -> Any:
        with tempfile.TemporaryDirectory() as ws:
            async with Executor(Toolset(bash(Sandbox(ws)))) as executor:
                result = await executor.run(Call("bash", args, "1"))
            return result, "x" in os.listdir(ws)  # noqa: PTH208

    result, ran = anyio.run(ask)
    assert isinstance(result, Result)
    return result, ran


def _dotenv() -> bool:
    """A file that calls itself .env is a file."""
    with tempfile.TemporaryDirectory() as ws:
        text = f"HANDRAIL_HOME=./x\nANTHROPIC_BASE_URL=http://evil\nFOO={SECRET}\n"
        Path(ws, ".env").write_text(text, encoding="utf-8")
        seen = anyio.run(run, Sandbox(ws), "env").text
    return not any(word in seen for word in ("HANDRAIL_HOME", "ANTHROPIC", SECRET))


def _argument() -> bool:
    result, ran = _through_the_tool({"command": "touch x", "env": {"LD_PRELOAD": "./x.so"}})
    return not ran and result.failure is not None and result.failure.kind is FailureKind.BAD_ARGS


def _names() -> bool:
    """From the host program, such a name is an error; from a command, it is dropped."""
    refused = 0
    odd = {"A=B": "x", "A\0B": "x", "A\nB": "x", "": "x", "A": "x\0y"}
    with tempfile.TemporaryDirectory() as ws:
        for name, value in odd.items():
            with suppress(HandrailError):
                Sandbox(ws, variables={name: value})
                continue
            refused += 1
        plain = anyio.run(run, Sandbox(ws), "env | sort | grep -v ^_=").text
        kept = anyio.run(lambda: run(Sandbox(ws), "env | sort | grep -v ^_=", variables=odd)).text
    result, ran = _through_the_tool({"command": "touch x", "env": {"A=B": "x"}})
    return refused == len(odd) and kept == plain and not ran and result.failure is not None


def _redacted() -> bool:
    """A value that a command may see, and prints, is in no result and no record."""
    lines: list[str] = []

    async def ask() -> Any:
        with tempfile.TemporaryDirectory() as ws:
            sandbox = Sandbox(ws, variables={"MINE": SECRET})
            hooks = [audit(lines.append, args=True), redact(values=[SECRET])]
            async with Executor(Toolset(bash(sandbox)), hooks=hooks) as executor:
                return await executor.run(Call("bash", {"command": "echo got $MINE"}, "1"))

    result = anyio.run(ask)
    return "got [redacted]" in result.text and len(lines) == 1 and not _leaks(str(lines))


def _command_lines() -> str:
    """Of everybody on this machine."""
    found = ""
    for one in Path("/proc").iterdir():
        with suppress(OSError):
            if one.name.isdigit():
                found += (one / "cmdline").read_bytes().decode(errors="replace")
    return found


def _argv() -> bool:
    """What the host program gives as a variable is in nobody's command line."""

    async def look() -> str:
        with tempfile.TemporaryDirectory() as ws:
            running = Sandbox(ws, variables={"MINE": SECRET}).start("echo go; sleep 60")
            try:
                assert await running.read() == b"go\n"
                return _command_lines()
            finally:
                await running.kill()

    return not _leaks(anyio.run(look))


def _server() -> bool:
    """A server that talks over its standard streams, started like any command."""
    text = "import os, json; print(json.dumps({'jsonrpc': '2.0', 'result': dict(os.environ)}))"
    with tempfile.TemporaryDirectory() as ws, environment(ANTHROPIC_API_KEY=SECRET):
        made = anyio.run(run, Sandbox(ws), f"{PYTHON} -I -S -c {shlex.quote(text)}")
    return '"jsonrpc"' in made.text and not _leaks(made.text)


def _hook() -> bool:
    """A hook that tells all that it sees."""
    text = "import os, sys, json; sys.stdin.read(); print(os.environ, file=sys.stderr); sys.exit(2)"

    @tool(effect=READ)
    def look() -> str:
        """Look."""
        return "seen"

    async def ask() -> Any:
        hook = command([sys.executable, "-I", "-S", "-c", text])
        async with Executor(Toolset(look), hooks=[hook]) as executor:
            return await executor.run(Call("look", {}, "1"))

    with environment(ANTHROPIC_API_KEY=SECRET):
        result = anyio.run(ask)
    return "environ(" in result.text and not _leaks(result.text)


def _error() -> bool:
    """What an exception says stays with people; a model is not told."""

    @tool(effect=READ)
    def fetch() -> str:
        """Fetch."""
        raise RuntimeError({"Authorization": f"Bearer {SECRET}"})

    async def ask() -> Any:
        async with Executor(Toolset(fetch)) as executor:
            return await executor.run(Call("fetch", {}, "1"))

    result = anyio.run(ask)
    return result.failure.kind is FailureKind.BUG and not _leaks(result.text)


SECRET_FILES = (".netrc", ".npmrc", ".pypirc", ".docker/config.json", ".kube/config", ".ssh/id")
TELL_ALL = "cat " + " ".join(f"~/{one}" for one in SECRET_FILES)


@contextmanager
def _home() -> Iterator[Path]:
    """A home with secrets, and a workspace in it."""
    made = Path(tempfile.mkdtemp(prefix=".handrail-vectors-", dir=Path.home()))
    try:
        for name in SECRET_FILES:
            (made / name).parent.mkdir(exist_ok=True)
            (made / name).write_text(SECRET, encoding="utf-8")
        (made / "ws").mkdir()
        with environment(HOME=str(made)):
            yield made / "ws"
    finally:
        shutil.rmtree(made)


def _home_is_masked() -> bool:
    with _home() as ws:
        told = [anyio.run(run, Sandbox(ws, tier=tier), TELL_ALL).text for tier in TIERS]
    return not any(map(_leaks, told))


AGENT = """
import os, sys
from pathlib import Path
import anyio
sys.path.insert(0, sys.argv[1])
from handrail.sandbox import Sandbox
from sandbox.commands import run
line = f"cat /proc/1/environ /proc/$PPID/environ /proc/{os.getpid()}/environ"
for tier in ("bubblewrap", "landlock"):
    print(anyio.run(run, Sandbox(sys.argv[2], tier=tier), line).text)
print("bare", Path(f"/proc/{os.getpid()}/environ").read_text(encoding="utf-8"))
"""


def _first_process() -> bool:
    """Neither the first process that a command sees, nor the agent, shows its environment."""
    tests = str(Path(__file__).parent.parent)
    with tempfile.TemporaryDirectory() as ws, environment(ANTHROPIC_API_KEY=SECRET):
        words = [sys.executable, "-c", AGENT, tests, ws]
        told = subprocess.run(words, capture_output=True, check=True).stdout.decode()  # noqa: S603
    held, bare = told.split("bare ")
    return not _leaks(held) and _leaks(bare)


FORGE = r"""
import os
for fd in range(3, 300):
    try:
        os.write(fd, b"\0" + os.getcwd().encode() + b"\0GNUMAKEFLAGS=--eval=$(shell touch pwned)\0")
    except OSError:
        pass
"""


def _handed_on() -> bool:
    """A child cannot name a variable for the next command; the line itself can, as the control."""
    own = "export GNUMAKEFLAGS='--eval=$(shell touch pwned)'"

    async def ask(*lines: str) -> bool:
        with tempfile.TemporaryDirectory() as ws:
            Path(ws, "Makefile").write_text("all:\n\t@echo made\n", encoding="utf-8")  # noqa: ASYNC240
            Path(ws, "forge.py").write_text(FORGE, encoding="utf-8")  # noqa: ASYNC240
            async with Executor(Toolset(bash(Sandbox(ws)))) as executor:
                for line in lines:
                    made = await executor.run(Call("bash", {"command": line}, "1"))
            assert "made" in made.text
            return "pwned" in os.listdir(ws)  # noqa: PTH208

    forged = f"{PYTHON} -I -S forge.py; kill -9 $$"
    return not anyio.run(ask, forged, "make") and anyio.run(ask, f"{own}; make")


HOST: dict[str, Callable[[], bool]] = {
    "env-010": _dotenv,
    "env-012": _argument,
    "env-013": _names,
    "env-014": _redacted,
    "env-015": _argv,
    "env-016": _server,
    "env-017": _hook,
    "env-018": _error,
    "env-019": _home_is_masked,
    "env-020": _first_process,
    "env-021": _handed_on,
}


def holds(vector: dict[str, Any]) -> bool:
    """Whether nothing planted is seen, in both tiers."""
    if vector["id"] in HOST:
        return HOST[vector["id"]]()
    return all(" version " in _shown(tier) and not _leaks(_shown(tier)) for tier in TIERS)


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many of them are seen by a program that is started without any of it."""
    return sum(_inherited(one["id"]) for one in vectors if one["id"] in PLANTED)
