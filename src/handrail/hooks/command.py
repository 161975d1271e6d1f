"""A program of yours as a check: it reads each call as JSON, and may refuse or rewrite it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import anyio
from anyio.abc import ByteReceiveStream

from handrail import Call, HandrailError, Kind, Result
from handrail.hooks._hook import Hook, refuse

MOST_BYTES = 1 << 20
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER")


def command(argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Hook:
    """Ask a program about every call.

    It gets ``{"id": …, "name": …, "args": …}`` on its standard input, never on its command line.
    It answers with a JSON object: empty to pass the call on, ``{"deny": "why"}`` to refuse it,
    ``{"args": {…}}`` to rewrite it. A program that fails, takes too long or answers anything else
    refuses the call. It sees few environment variables, and those of ``env``.

    Use its ``before``.
    """
    program = shutil.which(argv[0]) if argv else None
    if program is None:
        raise HandrailError(f"the hook {' '.join(argv)!r} cannot be run: there is no such program")
    words = [program, *argv[1:]]
    variables = {name: os.environ[name] for name in _KEPT if name in os.environ} | dict(env or {})

    async def before(call: Call) -> Call | Result:
        told = {"id": call.id, "name": call.name, "args": _args(call)}
        answer = _read(await _output(words, json.dumps(told).encode(), variables))
        if not answer:
            return call
        if answer.keys() == {"deny"} and isinstance(answer["deny"], str):
            return refuse(call, Kind.DENIED, answer["deny"], by="command")
        if answer.keys() == {"args"} and isinstance(answer["args"], dict):
            return replace(call, args=json.dumps(answer["args"]))
        raise HandrailError(f"the hook answered {sorted(answer)}")

    return Hook(before=before)


def _args(call: Call) -> Any:
    """The arguments as JSON; as text, where they are none and have yet to be mended or refused."""
    if not isinstance(call.args, str):
        return dict(call.args)
    try:
        return json.loads(call.args)
    except ValueError:
        return call.args


async def _output(words: list[str], told: bytes, env: Mapping[str, str]) -> bytes:
    """What the program says; it is stopped with whoever waits for it."""
    async with await anyio.open_process(words, stderr=subprocess.DEVNULL, env=env) as process:
        assert process.stdin is not None  # noqa: S101  pipes are what open_process makes
        assert process.stdout is not None  # noqa: S101
        output = b""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_tell, process.stdin, told)
                output = await _all(process.stdout)
            if len(output) > MOST_BYTES:
                raise HandrailError("the hook says too much")  # noqa: TRY301  stopped below
            code = await process.wait()
        except BaseException:
            process.kill()  # whoever waited for it does so no longer
            raise
    if code != 0:
        raise HandrailError(f"the hook ended with {code}")
    return output


async def _tell(stdin: Any, told: bytes) -> None:
    try:
        async with stdin:
            await stdin.send(told)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return  # it need not listen


async def _all(stdout: ByteReceiveStream) -> bytes:
    found = bytearray()
    async for piece in stdout:
        found += piece
        if len(found) > MOST_BYTES:
            break
    return bytes(found)


def _read(output: bytes) -> dict[str, Any]:
    answer: Any = json.loads(output or b"{}")
    if not isinstance(answer, dict):
        raise HandrailError("the hook answered no JSON object")
    return cast("dict[str, Any]", answer)
