"""Every exit code of a run, by real processes with the real coding tools."""

from __future__ import annotations

import json
import signal
import socket
import subprocess

import pytest

import forked
from cli_harness import Handrail, Schemas
from cli_runs import journal_runs, standing_of
from cli_scripts import programmed, scripted
from doorman import doorman

WAITS = "[write('a.txt', 'c1')]"


def test_0_it_was_done(handrail: Handrail) -> None:
    ran = handrail.real("run", *scripted(handrail, "bash('echo hi', 'c1')", "'Hi.'"), "Go")

    assert (ran.exit, ran.out) == (0, "Hi.\n")


@pytest.mark.parametrize(
    ("trouble", "code_of"), [("other", 1), ("overloaded", 6), ("rate_limited", 6)]
)
def test_1_the_model_failed_and_6_its_provider_is_away(
    handrail: Handrail, schema: Schemas, trouble: str, code_of: int
) -> None:
    code = f"async def model(request):\n    raise ModelError('it is ill', {trouble!r})\n"

    ran = handrail.process("run", *programmed(handrail, code), "Go", "--json")

    told = schema("run", ran.json)
    assert (ran.exit, *standing_of(told), told["why"]) == (code_of, "failed", "error", "it is ill")
    assert ran.error == {
        "code": f"model_{trouble}",
        "message": "it is ill",
        "hint": f"resume with `handrail runs resume {told['id']}`",
        "exit": code_of,
    }


def test_1_somebodys_code_is_broken(handrail: Handrail) -> None:
    code = "async def model(request):\n    raise LookupError('oops')\n"

    ran = handrail.process("run", *programmed(handrail, code), "Go", "--json")

    assert (ran.exit, ran.error["message"]) == (1, "m.py:model raised LookupError: oops")
    assert "Traceback" not in ran.err


def test_2_it_cannot_begin(handrail: Handrail) -> None:
    assert handrail.process("run", "Go").exit == 2
    assert handrail.process("run", "--nonsense").exit == 2
    assert handrail.process("runs", "resume", "last").exit == 2


def test_3_calls_were_denied(handrail: Handrail) -> None:
    ran = handrail.process("run", *scripted(handrail, WAITS, "'Done.'"), "Go")

    assert (ran.exit, ran.out) == (3, "Done.\n")
    assert "1 call denied:" in ran.err


def test_4_it_waits(handrail: Handrail, schema: Schemas) -> None:
    option = scripted(handrail, WAITS, "'Done.'")

    ran = handrail.process("run", *option, "Go", "--on-denied", "suspend", "--json")

    told = schema("run", ran.json)
    assert (ran.exit, *standing_of(told)) == (4, "waiting", "")
    [waits] = told["pending"]
    assert (waits["call_id"], waits["tool"]) == ("c1", "write")
    assert waits["question"] == "Allow `write` to change a.txt?"


def test_4_it_says_how_to_go_on(handrail: Handrail) -> None:
    step = "[write('a.txt', 'c1'), write('a.txt', 'c2')]"

    ran = handrail("run", *scripted(handrail, step), "Go", "--on-denied", "suspend", "-q")

    [run] = journal_runs(handrail)
    assert ran.err == (
        "- c1: Allow `write` to change a.txt?\n"
        "- c2: Allow `write` to change a.txt?\n"
        f"run {run.id} is waiting for approval:\n"
        f"  handrail runs show {run.id}\n"
        f"  handrail runs approve {run.id} --all\n"
        f"  handrail runs resume {run.id}\n"
    )


def test_5_a_limit_is_reached(handrail: Handrail) -> None:
    option = scripted(handrail, "glob('c1')", "glob('c2')", "'Done.'")

    assert handrail.process("run", *option, "Go", "--max-turns", "2").exit == 5


def test_6_nobody_is_there(handrail: Handrail) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"

    ran = handrail.process("run", "-m", "openai-chat:any", "--base-url", url, "Go", "--json")

    assert ran.error == {
        "code": "model_network",
        "message": f"cannot connect to 127.0.0.1:{port}: connection refused",
        "hint": "is the server running? The address is from --base-url",
        "exit": 6,
    }
    assert journal_runs(handrail) == []


def test_6_the_host_does_not_exist(handrail: Handrail) -> None:
    url = "https://nowhere.invalid/v1"

    ran = handrail.process("run", "-m", "openai-chat:any", "--base-url", url, "Go", "--json")

    assert (ran.exit, ran.error["code"]) == (6, "model_network")
    assert ran.error["message"] == (
        "cannot connect to nowhere.invalid: the host name was not found"
    )
    assert ran.error["hint"].startswith("check the base URL and your network; resume with ")


def test_6_it_takes_no_request_of_ours(handrail: Handrail) -> None:
    own = {"OPENAI_API_KEY": "for-another-server", "HANDRAIL_API_KEY": "for-this-server"}
    with doorman() as (url, keys):
        ran = handrail.process(
            "run", "-m", "openai:any", "--base-url", url, "Go", "--json", env=own
        )

    assert (ran.exit, ran.error["code"], keys) == (6, "model_auth", ["Bearer for-this-server"])


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["130", "143"]
)
def test_130_and_143_somebody_ends_it(handrail: Handrail, number: int, code: int) -> None:
    option = scripted(handrail, "bash('sleep 100', 'c1')", "'Done.'")
    with subprocess.Popen(  # noqa: S603
        [forked.program(), "run", *option, "Go", "--mode", "open", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=handrail.environment(),
        cwd=handrail.workspace,
        encoding="utf-8",
    ) as process:
        assert process.stderr is not None
        said = "".join(iter(process.stderr.readline, '> bash {"command": "sleep 100"}\n'))
        process.send_signal(number)
        out, err = process.communicate()

    assert (process.returncode, "Traceback" in said + err) == (code, False)
    assert standing_of(json.loads(out)) == ("done", "interrupted")
    run = journal_runs(handrail)[0].id
    assert f"resume with `handrail runs resume {run}`" in err
