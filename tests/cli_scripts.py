"""Models for runs under test, in a file of the workspace: what they say depends on the history.

So a process that goes on with a run hears what comes next, as with any other model.
"""

from __future__ import annotations

from cli_harness import Handrail

_HEAD = """\
from handrail import Call, Text
from handrail.messages import Delta, ModelError, Reasoning, Reply, ToolResults, TruncatedCall, Usage
from handrail.testing import ScriptedModel


def script(*steps):
    async def model(request):
        turn = sum(isinstance(one, Reply) for one in request.messages)
        return await ScriptedModel(*steps[turn : turn + 1], stream=False)(request)

    return model


def write(name, call_id, text="x"):
    return Call("write", {"file_path": name, "content": text}, call_id)


def bash(command, call_id, **more):
    return Call("bash", {"command": command, **more}, call_id)


def glob(call_id):
    return Call("glob", {"pattern": "*.txt"}, call_id)


"""
MODEL = ("--model", "m.py:model")


def scripted(handrail: Handrail, *steps: str, more: str = "") -> tuple[str, str]:
    """Write a model that says these steps, each in Python; the option that names it."""
    handrail.write("m.py", f"{_HEAD}{more}\nmodel = script({', '.join(steps)})\n")
    return MODEL


def programmed(handrail: Handrail, code: str) -> tuple[str, str]:
    """Write a model as code that defines ``model``; the option that names it."""
    handrail.write("m.py", _HEAD + code)
    return MODEL
