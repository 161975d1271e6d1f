"""A coding agent with your own rules over one folder: it fixes the code, not the tests.

The file tools cannot leave the folder, and commands run in a sandbox. One rule denies changes below
`tests/`, for every tool. A script replaces the model. This example needs Linux.

Run it with `python examples/coding_agent.py`.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from handrail import Call, Executor
from handrail.agent import Agent, RunEvent
from handrail.messages import ToolResults
from handrail.policy import Level, Rulebook, builtin_rules, parse
from handrail.testing import ScriptedModel
from handrail.tools import Workspace, coding_tools, hide_denied

RULES = """
[[rule]]
id = "tests"
decide = "deny"
reason = "tests say what the code must do"
access = "write file:tests/**"
match = ["write file:tests/test_prices.py"]
not_match = ["read file:tests/test_prices.py", "write file:prices.py"]
"""
FILES = {
    "prices.py": "def with_tax(net):\n    return net * 81 // 100\n",
    "tests/test_prices.py": """\
from unittest import TestCase
from prices import with_tax
class Prices(TestCase):
    def test_tax(self): self.assertEqual(with_tax(100), 108)
""",
}


def test(call_id: str) -> Call:
    return Call("bash", {"command": "python3 -m unittest tests.test_prices"}, call_id)


def edit(path: str, old: str, new: str, call_id: str) -> Call:
    return Call("edit", {"file_path": path, "old_string": old, "new_string": new}, call_id)


MODEL = ScriptedModel(
    test("test"),
    edit("tests/test_prices.py", "108", "81", "change the test"),
    edit("prices.py", "81 // 100", "108 // 100", "change the code"),
    test("test again"),
    "The factor in with_tax was wrong.",
)


def show(event: RunEvent) -> None:
    for result in event.results if isinstance(event, ToolResults) else ():
        lines = [line for line in result.text.splitlines() if not line.startswith("[")]
        print(f"{result.call_id}: {result.failure.kind if result.failure else lines[-1]}")


async def work(folder: str) -> None:
    mine = parse(RULES, file="rules.toml", level=Level.USER).rules
    rules = [*builtin_rules("read_only", "development"), *mine]
    policy = Rulebook(rules, mode="edits", sandboxed=True)
    workspace = Workspace(folder, hides=hide_denied(policy))
    async with Executor(coding_tools(workspace), policy=policy) as executor:
        done = await Agent(MODEL, executor).run("Make the test pass.", on_event=show)
    print(done.text)


with TemporaryDirectory() as folder:
    for name, text in FILES.items():
        Path(folder, name).parent.mkdir(exist_ok=True)
        Path(folder, name).write_text(text, encoding="utf-8")
    anyio.run(work, folder)

# output:
# test: FAILED (failures=1)
# change the test: denied
# change the code: Edited 'prices.py', line 2.
# test again: OK
# The factor in with_tax was wrong.
