"""A run in a copy of a loaded process is what a new interpreter makes of the same command."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

import forked
from cli.terminal import Pty
from cli_harness import Handrail, Ran
from cli_scripts import scripted

FACTS = '''
import gc, json, locale, os, signal, sys, threading, warnings
from handrail import READ, tool

@tool(effect=READ)
def facts() -> str:
    """What a process knows of itself."""
    streams = [sys.__stdin__, sys.__stdout__, sys.__stderr__]
    return json.dumps({
        "arguments": sys.argv[1:], "path": sys.path, "env": dict(os.environ), "folder": os.getcwd(),
        "main": sys.modules["__main__"].__spec__.name, "limit": sys.getrecursionlimit(),
        "streams": [(one.encoding, one.errors, one.name, one.isatty()) for one in streams],
        "signals": [getattr(one := signal.getsignal(number), "__name__", str(one)) for number in sorted(signal.valid_signals())],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "files": sorted(os.listdir("/proc/self/fd")),
        "filters": sorted({str(one) for one in warnings.filters}), "locale": locale.getlocale(),
        "gc": gc.isenabled(), "umask": os.umask(0o022), "nice": os.getpriority(os.PRIO_PROCESS, 0),
    })
'''
CALL = ("tools", "call", "facts", "-t", "own.py")


@pytest.fixture
def own(handrail: Handrail) -> Handrail:
    handrail.write("own.py", FACTS)
    return handrail


def test_a_command_finds_what_it_would_find_in_a_new_interpreter(own: Handrail) -> None:
    env = {"A": "1"}
    ours = own.process(*CALL, input="text", env=env)

    assert (ours.exit, ours.err, ours.json) == (0, "", own.real(*CALL, input="text", env=env).json)
    assert ours.json != own.process(*CALL, input="text", env={**env, "A": "2"}).json


@pytest.mark.parametrize(
    ("words", "code"),
    [(("--version",), 0), (("nothing",), 2), (("tools", "call", "broken", "-t", "own.py"), 2)],
)
def test_it_ends_as_a_new_interpreter_does(
    handrail: Handrail, words: tuple[str, ...], code: int
) -> None:
    handrail.write("own.py", "raise LookupError('oops')\n")

    ours = handrail.process(*words)

    assert (ours.exit, ours) == (code, handrail.real(*words))


def test_a_python_with_other_settings_is_a_new_one(handrail: Handrail) -> None:
    assert [forked.can({"PYTHONPATH": "x"}), forked.can({"LANG": "C"}), forked.can({"A": "C"})] == [
        *(False, False, True)
    ]
    assert handrail.process("--version", env={"PYTHONVERBOSE": "1"}).err.startswith("import ")


@pytest.mark.parametrize("start", ["new", "copy"])
def test_at_a_terminal_it_leads_a_session_and_can_be_interrupted(
    handrail: Handrail, start: str
) -> None:
    model = scripted(handrail, "bash('sleep 100', 'c1')", "'Done.'")
    pty = Pty(handrail, "run", *model, "Go", "--mode", "open", real=start == "new")
    pty.sees("sleep 100")
    session = os.getsid(pty.pid)
    pty.types("\x03")

    assert (pty.ends(), session == pty.pid, pty.ended) == (130, True, True)
    pty.end()


def test_one_that_is_killed_is_known_to_be(handrail: Handrail) -> None:
    model = scripted(handrail, "bash('sleep 100', 'c1')", "'Done.'")
    pty = Pty(handrail, "run", *model, "Go", "--mode", "open")
    pty.sees("sleep 100")
    assert not pty.ended
    pty.signals(signal.SIGKILL)

    assert pty.ends() == -signal.SIGKILL
    pty.end()


def test_the_program_of_a_shell_is_the_same_command(handrail: Handrail) -> None:
    env = handrail.environment({"PATH": f"{forked.path()}:{os.environ['PATH']}"})
    done = subprocess.run(
        ["bash", "-c", "handrail --version; handrail nothing"],  # noqa: S607
        env=env,
        cwd=handrail.workspace,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    assert Ran(done.returncode, done.stdout, done.stderr) == (
        2,
        handrail.real("--version").out,
        handrail.real("nothing").err,
    )
