"""Models for runs under test, in a file of the workspace: what they say depends on the history.

So a process that goes on with a run hears what comes next, as with any other model.
"""

from __future__ import annotations

from cli_harness import Handrail
from replying import Way

_HEAD = """\
import os
from pathlib import Path

import anyio
from handrail import Call, Text
from handrail.messages import Delta, ModelError, Reasoning, Reply, ToolResults, TruncatedCall, Usage
from handrail.runs import RunRecord, open_runs
from handrail.testing import ScriptedModel


def script(*steps, way="whole"):
    async def model(request):
        turn = sum(isinstance(one, Reply) for one in request.messages)
        return await ScriptedModel(*steps[turn : turn + 1], stream=False)(request)

    async def stream(request):
        reply = await model(request)
        turn = sum(isinstance(one, Reply) for one in request.messages) + 1
        for call in reply.calls:
            yield call
        while way == "early" and not is_recorded(turn, reply.calls):
            await anyio.sleep(0.01)
        yield reply

    return model if way == "whole" else stream


def is_recorded(turn, calls):
    "Whether the journal has all that happens to calls of a turn before its reply."
    journal = open_runs(Path(os.environ["XDG_STATE_HOME"], "handrail/runs/journal.db"))
    lines = RunRecord(journal, journal.runs()[0].run).lines()
    journal.close()
    events = {(line["call_id"], line["event"]) for line in lines if line.get("turn") == turn}
    ends = {"glob": "finished", "write": "decided"}
    return all((call.id, ends.get(call.name, "requested")) in events for call in calls)


def write(name, call_id, text="x"):
    return Call("write", {"file_path": name, "content": text}, call_id)


def bash(command, call_id, **more):
    return Call("bash", {"command": command, **more}, call_id)


def glob(call_id):
    return Call("glob", {"pattern": "*.txt"}, call_id)


"""
MODEL = ("--model", "m.py:model")


def scripted(
    handrail: Handrail, *steps: str, more: str = "", way: Way = "whole"
) -> tuple[str, str]:
    """Write a model that says these steps, each in Python; the option that names it."""
    said = "".join(f"{step}, " for step in steps)
    handrail.write("m.py", f"{_HEAD}{more}\nmodel = script({said}way={way!r})\n")
    return MODEL


def programmed(handrail: Handrail, code: str) -> tuple[str, str]:
    """Write a model as code that defines ``model``; the option that names it."""
    handrail.write("m.py", _HEAD + code)
    return MODEL
