"""The table: rows and doors, the cells that are not possible, and the tests of frameworks."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from joints import agent_doors, own_doors, served_doors
from joints.case import Door
from joints.rows import ROWS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "joints.md"
ADAPTERS = Path(__file__).parents[1] / "adapters"
DOORS: dict[str, Door] = {**own_doors.DOORS, **agent_doors.DOORS, **served_doors.DOORS}
MCP = ("MCP in process", "MCP over HTTP", "MCP gateway")

_THREAD = "The caller is a thread that waits, and threads cannot be cancelled."
_OBJECT = "Arguments arrive as an object: the client has read the JSON."
_YES_OR_NO = "The client's user can approve or deny a call, and not change it."
_WHOLE = "A result of MCP is sent as a whole."
_SERVICE = "The tool is in the service, which gets the arguments and nothing else."
_CLIENT = "The client of MCP's SDK hears no progress from a server in its own process."
_BEHIND = "The tool is in the server behind the gateway, which gets the arguments and nothing else."
_SUB_AGENT = (
    "Only a run of an agent passes on what its sub-agent asks. Elsewhere the sub-agent's own approver "
    "answers."
)

NOT_POSSIBLE: dict[tuple[str, str], str] = {
    **{("cancelled by the caller", door): _THREAD for door in ("run_sync", "in_thread")},
    ("long result, read_result", "Agent.resume"): (
        "The text stays in the process that made it. `read_result` says so, and to call again."
    ),
    ("span below the caller's", "DurableRuns"): (
        "A worker continues the run in another process, and its spans are in a separate trace."
    ),
    ("principal", "MCP in process"): "A program that starts the server is its only user.",
    **{(row, "MCP gateway"): _BEHIND for row in ("deps", "metadata")},
    ("progress", "MCP in process"): _CLIENT,
    **{("output in pieces", door): _WHOLE for door in MCP},
    **{("approval of changed arguments", door): _YES_OR_NO for door in MCP},
    **{(row, door): _OBJECT for row in ("malformed JSON", "a key twice") for door in MCP},
    (
        "StopRun",
        "MCP over HTTP",
    ): "Each request is a separate turn, and a client sends the next one.",
    ("StopRun", "MCP gateway"): "Each request is a separate turn, and a client sends the next one.",
    ("login", "MCP gateway"): "A gateway has no user to sign in at its servers while a call runs.",
    ("long result, read_result", "MCP gateway"): (
        "The server behind the gateway has truncated it, and its `read_result` is not offered."
    ),
    **{
        (row, "MCP gateway"): "The gateway asks, and the tool is in the server behind it."
        for row in (
            "context.may",
            "is_approved, the policy asks",
            "is_approved, the tool always asks",
        )
    },
    **{
        ("question of a sub-agent", door): _SUB_AGENT
        for door in (*own_doors.DOORS, *served_doors.DOORS)
    },
    **{
        (row, "OpenAPI"): _SERVICE
        for row in (
            "principal",
            "deps",
            "metadata",
            "deadline of a tool",
            "progress",
            "output in pieces",
            "login",
            "context.may",
            "is_approved, the policy asks",
            "is_approved, the tool always asks",
        )
    },
}
"""Why a cell has no test."""

_CUT_OFF = "test_a_call_that_was_cut_off_does_not_run"
_ELSEWHERE = "test_two_writes_and_a_read_are_approved_in_another_process"
_EVERY_HOST = {
    "approval, given later elsewhere": _ELSEWHERE,
    "StopRun": "test_a_hook_ends_the_run",
}
HOSTS: dict[str, dict[str, str]] = {
    "pydantic_ai": {
        "principal": "test_the_tools_get_the_deps_and_the_principal_of_the_run",
        "deps": "test_the_tools_get_the_deps_and_the_principal_of_the_run",
        "malformed JSON": _CUT_OFF,
        "a key twice": "test_arguments_are_read_as_the_model_sent_them",
        "span below the caller's": "test_the_span_of_each_call_is_below_the_span_of_the_host",
        **_EVERY_HOST,
    },
    "langgraph": {
        "principal": "test_the_tools_get_the_context_and_the_principal_of_the_graph",
        "deps": "test_the_tools_get_the_context_and_the_principal_of_the_graph",
        "malformed JSON": _CUT_OFF,
        "span below the caller's": "test_the_span_of_each_call_is_below_the_span_that_runs_the_graph",
        **_EVERY_HOST,
    },
    "langchain": {"malformed JSON": _CUT_OFF, **_EVERY_HOST},
    "openai_agents": {
        "principal": "test_the_tools_get_the_context_the_principal_and_the_name_of_the_run",
        "deps": "test_the_tools_get_the_context_the_principal_and_the_name_of_the_run",
        "login": "test_a_login_is_asked_for_in_words_and_the_next_call_runs",
        "span below the caller's": "test_the_span_of_each_call_is_below_the_span_of_the_host",
        **_EVERY_HOST,
    },
}
"""The test of each cell of a framework, in its file or in `host_tests.py`."""
CELLS = [(row, door) for row in ROWS for door in DOORS if (row, door) not in NOT_POSSIBLE]


@cache
def _names(file: str) -> frozenset[str]:
    tree = ast.parse((ADAPTERS / file).read_text(encoding="utf-8"))
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    return frozenset(one.name for one in functions)


def has_test(host: str, name: str) -> bool:
    """Return whether a framework has a test with this name."""
    return name in _names(f"on_{host}.py") | _names("host_tests.py")


def count() -> str:
    """Return how many cells there are of each kind, in one line."""
    hosts = sum(map(len, HOSTS.values()))
    left = len(ROWS) * len(HOSTS) - hosts
    return (
        f"{len(CELLS) + hosts} tested ({hosts} of them in frameworks), "
        f"{len(NOT_POSSIBLE)} not possible, {left} not tried"
    )


def page() -> str:
    """Return the whole page."""
    head = ["", *DOORS, *HOSTS]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    notes: dict[str, int] = {}
    for row in ROWS:
        marks = [_mark(row, door, notes) for door in DOORS]
        marks += ["yes" if row in tests else "" for tests in HOSTS.values()]
        lines.append(f"| {row} | {' | '.join(marks)} |")
    why = [f"{number}. {text}" for text, number in notes.items()]
    return _BEGINNING + "\n".join(lines) + _MIDDLE + "\n".join(why) + "\n"


def _mark(row: str, door: str, notes: dict[str, int]) -> str:
    why = NOT_POSSIBLE.get((row, door))
    return "yes" if why is None else f"no ({notes.setdefault(why, len(notes) + 1)})"


_BEGINNING = """\
# What works where

Use this page to see what reaches a call, and what comes back from it, in each way to run calls. Each "yes" is a test that runs in every
check. Where a model sends the calls, it streams: each call is sent when it is complete, before the next one.

- "no" has a number: the list below the table says why.
- An empty cell was not tried.
- An approval is given later, by an executor that reads the request from JSON, or by the user of an MCP client.
- `MCP in process` is the server of `serve_stdio`, with a client in the same process.
- The last four columns are [frameworks](../frameworks/index.md), with their own tests.

This is one cell, "the same note after an approval" at `Executor.run`:

```python
from handrail import Allow, Approvals, Ask, Call, Executor, Toolset, tool
from handrail.approvals import callback


@tool
def pay(euros: int) -> str:
    \"\"\"Pay.\"\"\"
    return f"paid {euros}"


approvals = Approvals(approver=callback(lambda pending: Allow()))
executor = Executor(Toolset(pay), policy=lambda call: Ask("Pay?"), approvals=approvals)
print(executor.run_sync(Call("pay", {"euros": "5"}, "c1")).text)
```

```text output
paid 5
[Note: euros: the string was read as a number.]
```

"""
_MIDDLE = """

## Why not

"""
