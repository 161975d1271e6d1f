"""The table: rows and doors, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

from joints import agent_doors, own_doors, served_doors, web_doors
from joints.case import Door
from joints.reasons import HOSTS, NOT_POSSIBLE
from joints.rows import ROWS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "joints.md"
DOORS: dict[str, Door] = {
    **own_doors.DOORS,
    **agent_doors.DOORS,
    **web_doors.DOORS,
    **served_doors.DOORS,
}
CELLS = [(row, door) for row in ROWS for door in DOORS if (row, door) not in NOT_POSSIBLE]


def count() -> str:
    """Return how many cells there are of each kind, in one line."""
    not_possible = len(NOT_POSSIBLE)
    tested = len(ROWS) * (len(DOORS) + len(HOSTS)) - not_possible
    hosts = tested - len(CELLS)
    reasons = len(set(NOT_POSSIBLE.values()))
    return (
        f"{tested} tested ({hosts} of them in frameworks), {not_possible} not possible, "
        f"for {reasons} reasons"
    )


def page() -> str:
    """Return the whole page."""
    head = ["", *DOORS, *HOSTS]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    notes: dict[str, int] = {}
    for row in ROWS:
        marks = [_mark(row, door, notes) for door in (*DOORS, *HOSTS)]
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
- An approval is given later, by an executor that reads the request from JSON, or by the user of an MCP client.
- `MCP in process` is the server of `serve_stdio`, with a client in the same process.
- Over MCP, the client's user approves, denies and fills in forms. Arguments are changed by the server's own approver. Output in pieces arrives as progress; so does a response that an HTTP service streams.
- At `MCP gateway`, `context.may`, `context.ask` and "is_approved, the policy asks" are questions of the server behind it, which the gateway passes on.
- At `web chat`, a page reads the stream of `ChatApp`. Answers are posted to another process's application, except those of forms, logins and `context.may`.
- "StopRun" over HTTP is tried in a session, which the protocol of 2026-07-28 has no longer: see [serve tools](../guides/serve-tools.md#over-http).
- In `run_sync` and `in_thread`, another thread cancels: `turn.cancel()`.
- The OpenAI Agents SDK asks only whether to approve or reject, before a tool runs. The executor's own approver answers the rest: changed arguments, a login, `context.may` and `context.ask`.
- A "tool in the background" runs once. An agent reads its result in a later message, if the call takes longer; elsewhere, the call waits for it. See [tools in the background](../guides/background.md).
- "The host's own events or callbacks" are those of each column: a feed, `on_event`, `watch`, middleware of the server, hooks of the HTTP client, or callbacks of the framework.
- The last four columns are [frameworks](../frameworks/index.md), each with its own agent or graph, which streams.
- In LangGraph and LangChain, "malformed JSON" and "a key twice" need a message that keeps the text of the arguments. Messages of LangChain's clients for
  Anthropic and for OpenAI's Responses API do. Otherwise LangChain has read the JSON, and completed it.
- At `Agent.run`, each row was also tried with the [model clients](../models/index.md) of Anthropic, OpenAI (both APIs) and Google. A server streams in
  their formats, and sends the rest of a reply when a call has begun. Gemini sends arguments as an object: its JSON is never malformed.
  With OpenAI's Responses, handrail treats JSON that ends too early as cut off.

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
