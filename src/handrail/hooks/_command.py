"""Command hook: your program reads each call as JSON, and can refuse or rewrite it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import anyio

from handrail import Call, CheckedCall, FailureKind, HandrailError, Hook, Result
from handrail._support.loop import shield
from handrail.hooks._shared import refuse

MAX_ANSWER_BYTES = 1 << 20
_PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER")
"""Environment variables for the program."""
_TOO_LONG = f"The hook printed more than {MAX_ANSWER_BYTES:,} bytes."


def command(argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Hook:
    """Run a program before every call.

    It receives ``{"id": …, "name": …, "args": {…}}`` on its standard input, never on its command
    line. The arguments are valid. It prints a JSON object: empty to let the call pass, ``{"deny":
    "why"}`` to deny it, or ``{"args": {…}}`` to rewrite it. The call is denied if the program
    fails, times out or prints anything else. The program gets a few environment variables, and
    those in ``env``.
    """
    program = shutil.which(argv[0]) if argv else None
    if program is None:
        raise HandrailError(
            f"The program of the hook {' '.join(argv)!r} was not found. Install it, or fix the "
            "path."
        )
    words = [program, *argv[1:]]
    variables = {name: os.environ[name] for name in _PASSED if name in os.environ} | dict(env or {})

    async def before(call: CheckedCall) -> CheckedCall | Call | Result:
        request = {"id": call.id, "name": call.name, "args": json.loads(call.parsed.text)}
        answer = _read(await _output(words, json.dumps(request).encode(), variables))
        if not answer:
            return call
        if answer.keys() == {"deny"} and isinstance(answer["deny"], str):
            return refuse(call, FailureKind.DENIED, answer["deny"], by="command")
        if answer.keys() == {"args"} and isinstance(answer["args"], dict):
            return replace(call.call, args=json.dumps(answer["args"]))
        raise HandrailError(f"The hook printed an object with other keys: {sorted(answer)}.")

    return Hook(before=before)


async def _output(words: list[str], request: bytes, env: Mapping[str, str]) -> bytes:
    """Run the program and return its output. Cancelling this kills the program."""
    start = anyio.open_process(words, stderr=subprocess.DEVNULL, env=env)
    async with await shield(start) as process:
        output = b""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_send, process.stdin, request)
                output = await _read_all(process.stdout)
            if len(output) > MAX_ANSWER_BYTES:
                raise HandrailError(_TOO_LONG)  # noqa: TRY301  killed below
            code = await process.wait()
        except BaseException:
            with suppress(ProcessLookupError):  # it may have ended
                process.kill()
            raise
    if code != 0:
        raise HandrailError(f"The hook ended with exit code {code}.")
    return output


async def _send(stdin: Any, request: bytes) -> None:
    try:
        async with stdin:
            await stdin.send(request)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return  # the program need not read its input


async def _read_all(stdout: Any) -> bytes:
    output = bytearray()
    async for piece in stdout:
        output += piece
        if len(output) > MAX_ANSWER_BYTES:
            break
    return bytes(output)


def _read(output: bytes) -> dict[str, Any]:
    answer: Any = json.loads(output or b"{}")
    if not isinstance(answer, dict):
        raise HandrailError("The hook did not print a JSON object.")
    return cast("dict[str, Any]", answer)
