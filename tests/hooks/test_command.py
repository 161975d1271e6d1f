"""A program as a check: what it says is data, and whatever goes wrong with it is a no."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from halfway import find_leaks
from handrail import Call, CallLimits, Executor, FailureKind, HandrailError, Result, Toolset, tool
from handrail.hooks import Hook, command

ran: list[str] = []


@tool
async def save(path: str) -> str:
    """Save."""
    ran.append(path)
    return f"saved {path}"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ran.clear()


def script(text: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", text]


def saying(answer: str | bytes) -> Hook:
    """A hook whose program says this to everything."""
    raw = answer.encode() if isinstance(answer, str) else answer
    return command(script(f"import sys; sys.stdin.read(); sys.stdout.buffer.write({raw!r})"))


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


@pytest.mark.parametrize("answer", ["{}", "", " {\n} "])
async def test_an_empty_answer_passes_the_call_on(answer: str) -> None:
    assert await given(saying(answer or "{}")) == Result("c1", "saved a")


async def test_a_program_that_says_nothing_passes_the_call_on() -> None:
    assert await given(command(script("pass"))) == Result("c1", "saved a")


async def test_a_refusal_is_what_the_model_reads() -> None:
    assert await given(saying('{"deny": "Not on Sundays."}')) == Result.fail(
        "c1", FailureKind.DENIED, "Not on Sundays.", "refused by handrail.hooks.command"
    )._replace(metadata={"refused_by": "handrail.hooks.command"})
    assert ran == []


async def test_a_rewritten_call_goes_on_as_it_is_now() -> None:
    assert await given(saying('{"args": {"path": "b"}}')) == Result("c1", "saved b")
    assert ran == ["b"]


async def test_a_rewritten_call_is_checked_like_any_other() -> None:
    result = await given(saying('{"args": {"path": 5}}'))

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
    args: Any, told: Any, tmp_path: Path
) -> None:
    noted = tmp_path / "noted"
    notes = (
        "import json, sys; told = json.load(sys.stdin);"
        f"json.dump([told, sys.argv[1:]], open({str(noted)!r}, 'w'))"
    )
    hook = command([*script(notes), "{path}", "$(id)"])

    await given(hook, args)

    assert json.loads(noted.read_text(encoding="utf-8")) == [
        {"id": "c1", "name": "save", "args": told},
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
    notes = f"import json, os; json.dump(dict(os.environ), open({str(noted)!r}, 'w'))"
    hook = command(script(notes), env={"HOME": "/nowhere", "MINE": "1"})
    monkeypatch.setenv("LATER", "1")

    await given(hook)

    seen = json.loads(noted.read_text(encoding="utf-8"))
    seen.pop("LC_CTYPE", None)  # which Python sets itself
    assert seen == {"PATH": "/PATH", "HOME": "/nowhere", "MINE": "1"}


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
    [
        "garbage",
        "{",
        b"\xff",
        b"\x80\x04.",
        "{}{}",
    ],
)
async def test_what_is_no_json_refuses_the_call(answer: str | bytes) -> None:
    result = await given(saying(answer))

    assert result.failure is not None
    assert result.failure.kind is FailureKind.DENIED
    assert result.text.startswith("Not run: a check before the call failed (")
    assert ran == []


@pytest.mark.parametrize("answer", ["[]", "null", "true", '"allow"', "1"])
async def test_what_is_no_object_refuses_the_call(answer: str) -> None:
    assert await given(saying(answer)) == broke("The hook did not print a JSON object.")
    assert ran == []


@pytest.mark.parametrize(
    ("answer", "keys"),
    [
        ('{"allow": true}', ["allow"]),
        ('{"deny": 1}', ["deny"]),
        ('{"args": []}', ["args"]),
        ('{"args": {}, "deny": "no"}', ["args", "deny"]),
        ('{"deny": "no", "x": 1}', ["deny", "x"]),
        ('{"args": {"path": "b"}, "x": 1}', ["args", "x"]),
        ('{"lc": 1, "type": "constructor"}', ["lc", "type"]),
    ],
)
async def test_an_object_that_says_something_else_refuses_the_call(
    answer: str, keys: list[str]
) -> None:
    assert await given(saying(answer)) == broke(
        f"The hook printed an object with other keys: {keys}."
    )
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
    assert await given(command(script(text))) == broke(f"The hook ended with exit code {code}.")
    assert ran == []


async def test_a_program_that_says_too_much_refuses_the_call() -> None:
    talks = script("print(' ' * (1 << 20) + '{}')")

    assert await given(command(talks)) == broke("The hook printed more than 1,048,576 bytes.")
    assert ran == []


async def test_a_program_that_takes_too_long_is_stopped_and_refuses_the_call(
    tmp_path: Path,
) -> None:
    waits = ["sh", "-c", f"echo $$ > '{tmp_path}/pid'; exec sleep 600"]

    result = await given(command(waits), limits=CallLimits(hook_timeout=3.0))

    assert result == Result.fail(
        "c1",
        FailureKind.DENIED,
        "Not run: a check before the call timed out after 3 s. Tell the user.",
        "a hook timed out after 3 s",
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
