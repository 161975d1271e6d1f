"""A program as a check: what it says is data, and whatever goes wrong with it is a no."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from halfway import find_leaks
from handrail import (
    Call,
    CallLimits,
    Executor,
    FailureKind,
    HandrailError,
    Result,
    ToolFailed,
    Toolset,
    tool,
)
from handrail.hooks import Hook, command

ran: list[str] = []


@tool
async def save(path: str) -> str:
    """Save."""
    if not path:
        raise ToolFailed("There is no path.")
    ran.append(path)
    return f"saved {path}"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ran.clear()


def script(text: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", text]


def saying(answer: str | bytes, **options: Any) -> Hook:
    """A hook whose program says this to everything."""
    raw = answer.encode() if isinstance(answer, str) else answer
    text = f"import sys; sys.stdin.read(); sys.stdout.buffer.write({raw!r})"
    return command(script(text), **options)


def specific(**fields: Any) -> str:
    return json.dumps({"hookSpecificOutput": fields})


def refused(reason: str) -> Result:
    """What a call becomes that a program refuses."""
    by = "handrail.hooks.command"
    result = Result.fail("c1", FailureKind.DENIED, f"Not run: {reason}", f"refused by {by}")
    return result._replace(metadata={"refused_by": by})


async def given(hook: Hook, args: Any = '{"path":"a"}', **options: Any) -> Result:
    """What a model reads of a call that passed this hook."""
    async with Executor(Toolset(save), hooks=[hook], **options) as executor:
        return await executor.run(Call("save", args, "c1"))


def pid_in(path: Path) -> int:
    return int(path.read_text(encoding="utf-8"))


def running() -> list[int]:
    return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdecimal()]


def broke(why: str) -> Result:
    message = "Not run: a check before the call failed (HandrailError). Tell the user."
    return Result.fail("c1", FailureKind.DENIED, message, repr(HandrailError(why)))


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(
    "answer", ["{}", "", " {\n} ", '{"decision": "approve", "systemMessage": "Seen."}']
)
async def test_an_answer_that_asks_for_nothing_passes_the_call_on(answer: str) -> None:
    assert await given(saying(answer)) == Result("c1", "saved a")


@pytest.mark.parametrize(
    "hook",
    [
        command(script("import sys; print('Not on Sundays.', file=sys.stderr); sys.exit(2)")),
        saying('{"decision": "block", "reason": "Not on Sundays."}'),
        saying(specific(permissionDecision="deny", permissionDecisionReason="Not on Sundays.")),
        saying(specific(permissionDecision="ask", permissionDecisionReason="Not on Sundays.")),
    ],
    ids=["code", "decision", "deny", "ask"],
)
async def test_a_refusal_is_what_the_model_reads(hook: Hook) -> None:
    assert await given(hook) == refused("Not on Sundays.")
    assert ran == []


async def test_a_rewritten_call_goes_on_as_it_is_now() -> None:
    hook = saying(specific(updatedInput={"path": "b"}))

    assert await given(hook) == Result("c1", "saved b")
    assert ran == ["b"]


async def test_a_program_ends_the_run() -> None:
    result = await given(saying('{"continue": false, "stopReason": "Lunch."}'))

    assert result.text == "Not run: a check ended the run. Lunch."
    assert ran == []


async def test_a_program_adds_text_after_a_call(tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    text = (
        f"import sys; open({str(noted)!r}, 'a').write(sys.stdin.read() + chr(10));"
        f"print({specific(additionalContext='Look at b, too.')!r})"
    )
    hook = command(script(text), events=["PostToolUse", "PostToolUseFailure"])

    saved = await given(hook)
    failed = await given(hook, {"path": ""})

    note = "\n\n[Hook: Look at b, too.]"
    assert (saved.text, failed.text) == (f"saved a{note}", f"There is no path.{note}")
    told = [json.loads(line) for line in noted.read_text(encoding="utf-8").splitlines()]
    assert [
        (one["hook_event_name"], one.get("tool_response"), one.get("error")) for one in told
    ] == [
        ("PostToolUse", "saved a", None),
        ("PostToolUseFailure", None, "There is no path."),
    ]


async def test_what_fails_after_a_call_withholds_its_result() -> None:
    result = await given(command(script("raise SystemExit(1)"), events=["PostToolUse"]))

    assert result.failure is not None
    assert (result.failure.kind, ran) == (FailureKind.BUG, ["a"])


def test_another_event_is_an_error() -> None:
    with pytest.raises(HandrailError, match="has no event 'Stop'"):
        command(script("pass"), events=["PreToolUse", "Stop"])


async def test_a_rewritten_call_is_checked_like_any_other() -> None:
    result = await given(saying(specific(updatedInput={"path": 5})))

    assert result.failure is not None
    assert result.failure.kind is FailureKind.BAD_ARGS
    assert ran == []


# ---------------------------------------------------------------- what it is told


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"path": "a"}, {"path": "a"}),
        ('{"path":"a"}', {"path": "a"}),
        (r'"{\"path\": \"a\"}"', {"path": "a"}),
    ],
)
async def test_it_reads_the_call_on_its_input_and_nowhere_else(
    args: Any, told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = tmp_path / "noted"
    monkeypatch.chdir(tmp_path)
    notes = (
        "import json, sys; told = json.load(sys.stdin);"
        f"json.dump([told, sys.argv[1:]], open({str(noted)!r}, 'w'))"
    )
    hook = command([*script(notes), "{path}", "$(id)"])

    await given(hook, args)

    [asked, words] = json.loads(noted.read_text(encoding="utf-8"))
    assert asked.pop("session_id")
    assert [asked, words] == [
        {
            "cwd": str(tmp_path),
            "permission_mode": "default",
            "hook_event_name": "PreToolUse",
            "tool_name": "save",
            "tool_use_id": "c1",
            "tool_input": told,
        },
        ["{path}", "$(id)"],
    ]


async def test_it_sees_few_variables_and_those_it_was_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    noted = tmp_path / "noted"
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name in ("PATH", "HOME", "SECRET_KEY", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, f"/{name}")
    monkeypatch.chdir(tmp_path)
    notes = f"import json, os; json.dump(dict(os.environ), open({str(noted)!r}, 'w'))"
    hook = command(script(notes), env={"HOME": "/nowhere", "MINE": "1"})
    monkeypatch.setenv("LATER", "1")

    await given(hook)

    seen = json.loads(noted.read_text(encoding="utf-8"))
    seen.pop("LC_CTYPE", None)  # which Python sets itself
    folders = dict.fromkeys(("HANDRAIL_PROJECT_DIR", "CLAUDE_PROJECT_DIR"), str(tmp_path))
    assert seen == {"PATH": "/PATH", "HOME": "/nowhere", "MINE": "1", **folders}


async def test_it_need_not_listen() -> None:
    hook = command(script("import sys; sys.stdin.close(); print('{}')"))

    await given(hook, {"path": "a" * 200_000})

    assert ran == ["a" * 200_000]


async def test_it_may_talk_while_it_listens() -> None:
    """Neither waits for the other where both have more to say than a pipe holds."""
    echoes = "import sys; sys.stdout.write(' ' * 300_000); sys.stdin.read(); print('{}')"

    await given(command(script(echoes)), {"path": "a" * 300_000})

    assert ran == ["a" * 300_000]


async def test_it_is_not_asked_about_calls_that_the_check_refused(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    hook = command(script(f"open({str(asked)!r}, 'w')"))

    result = await given(hook, '["a"]')

    assert result.failure is not None
    assert result.failure.kind is FailureKind.BAD_ARGS
    assert not asked.exists()


# ---------------------------------------------------------------- a failure is a no


@pytest.mark.parametrize(
    "answer",
    ["garbage", "{", b"\xff", b"\x80\x04.", "{}{}", "[]", "null", "true", '"allow"', "1"],
)
async def test_what_is_no_json_object_refuses_the_call(answer: str | bytes) -> None:
    assert await given(saying(answer)) == broke("The hook did not print a JSON object.")
    assert ran == []


@pytest.mark.parametrize(
    "answer",
    [
        '{"deny": "no"}',
        '{"decision": "deny"}',
        '{"decision": "block", "resaon": "no"}',
        '{"hookSpecificOutput": "deny"}',
        '{"hookSpecificOutput": {"permissionDecision": "denied"}}',
        '{"hookSpecificOutput": {"permissionDecsion": "deny"}}',
        '{"hookSpecificOutput": {"decision": {"behavior": "deny"}}}',
        '{"hookSpecificOutput": {"updatedInput": "a"}}',
        '{"continue": "false"}',
    ],
)
async def test_an_answer_with_a_typo_refuses_the_call(answer: str) -> None:
    assert await given(saying(answer)) == broke("The hook printed an unknown field or decision.")
    assert ran == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("raise SystemExit(1)", 1),
        ("print('{}'); raise SystemExit(3)", 3),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9),
    ],
)
async def test_a_program_that_fails_refuses_the_call(text: str, code: int) -> None:
    assert await given(command(script(text))) == broke(f"The hook ended with exit code {code}: ")
    assert ran == []


async def test_a_program_that_says_too_much_refuses_the_call() -> None:
    talks = script("print(' ' * (1 << 20) + '{}')")

    line = shlex.join(talks)
    assert await given(command(talks)) == broke(f"`{line}` printed more than 1,048,576 bytes")
    assert ran == []


@pytest.mark.parametrize("seconds", [0.2, 60.0])
async def test_a_program_that_takes_too_long_is_stopped_and_refuses_the_call(
    tmp_path: Path, seconds: float
) -> None:
    line = f"echo $$ > '{tmp_path}/pid'; exec sleep 600"
    waits = command(["sh", "-c", line], timeout=seconds)

    result = await given(waits, limits=CallLimits(hook_timeout=3.0))

    late = "Not run: a check before the call timed out after 3 s. Tell the user."
    sh = shutil.which("sh")
    assert result == (
        Result.fail("c1", FailureKind.DENIED, late, "a hook timed out after 3 s")
        if seconds == 60.0
        else broke(f"`{shlex.join([str(sh), '-c', line])}` did not end within 0.2 s")
    )
    assert ran == []
    assert pid_in(tmp_path / "pid") not in running()


@pytest.mark.parametrize("argv", [[], ["/no/such/program"], ["no-such-program-either", "-x"]])
def test_a_program_that_is_not_there_is_told_at_once(argv: list[str]) -> None:
    with pytest.raises(HandrailError, match="was not found"):
        command(argv)


async def test_a_program_that_goes_away_later_refuses_the_call(tmp_path: Path) -> None:
    program = tmp_path / "hook"
    program.write_text("#!/bin/sh\necho '{}'\n", encoding="utf-8")
    program.chmod(0o700)
    hook = command([str(program)])
    assert await given(hook) == Result("c1", "saved a")

    program.unlink()
    result = await given(hook)

    assert result.text == (
        "Not run: a check before the call failed (FileNotFoundError). Tell the user."
    )
    assert ran == ["a"]


def test_a_call_that_is_cancelled_while_its_program_starts_leaves_nothing_behind() -> None:
    waiting = command(["/bin/sh", "-c", "cat; read line"])

    assert find_leaks(partial(given, waiting)) == []
