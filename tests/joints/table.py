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
    ways = ", ".join(f"`{door}`" for door in (*DOORS, *HOSTS))
    everywhere = [row for row in ROWS if row not in {row for row, _ in NOT_POSSIBLE}]
    features = "\n".join(f"- {row}" for row in everywhere)
    lines = [f"| {'; '.join(rows)} | {where} | {why} |" for (where, why), rows in _gaps().items()]
    return _PAGE.format(ways=ways, features=features, gaps="\n".join(lines))


def _gaps() -> dict[tuple[str, str], list[str]]:
    """Return the rows that are not possible, by where and why."""
    gaps: dict[tuple[str, str], list[str]] = {}
    for row in ROWS:
        where: dict[str, list[str]] = {}
        for door in (*DOORS, *HOSTS):
            if why := NOT_POSSIBLE.get((row, door)):
                where.setdefault(why, []).append(f"`{door}`")
        for why, doors in where.items():
            gaps.setdefault((", ".join(doors), why), []).append(row)
    return gaps


_PAGE = """\
# What works where

Look up what reaches a call, and what comes back, in each way to run calls. Every check tests each feature below in these:

{ways}

Where a model sends the calls, it streams: each call is sent when it is complete. `MCP in process` is the server of `serve_stdio`. The last
four are [frameworks](../frameworks/index.md).

## Everywhere

{features}

## With exceptions

These work everywhere else:

| feature | not at | why |
|---|---|---|
{gaps}

## How it is tested

- An approval is given later: by an executor that reads the request from JSON, or by an MCP client's user, who also denies and fills in forms.
- Over MCP, the server's own approver changes arguments, and output in pieces arrives as progress. So does a response an HTTP service streams.
- `MCP gateway` passes on the questions of the server behind it.
- At `web chat`, a page reads the stream of `ChatApp`. Answers are posted to another process, except those of forms, logins and `context.may`.
- In `run_sync` and `in_thread`, another thread cancels, with `turn.cancel()`.
- "The host's own events or callbacks" are a feed, `on_event`, `watch`, middleware of the server, hooks of the HTTP client, or callbacks
  of the framework.
- "StopRun" over HTTP needs a session, which the protocol of 2026-07-28 lacks: see [serve tools](../guides/serve-tools.md#over-http).
- The OpenAI Agents SDK asks only whether to approve or reject. The executor's own approver answers the rest.
- A [tool in the background](../guides/background.md) runs once. Where no agent reads its result later, the call waits for it.
- In LangGraph and LangChain, "malformed JSON" and "a key twice" need a message that keeps the arguments' text: see
  [LangChain](../frameworks/langchain.md#stops-and-cut-off-calls).
- At `Agent.run`, each row was also tried with the [model clients](../models/index.md) of Anthropic, OpenAI (both APIs) and Google. Gemini
  sends arguments as an object: its JSON is never malformed. With OpenAI's Responses, JSON that ends too early is treated as cut off.

This is "the same note after an approval" at `Executor.run`:

```python
from handrail import Allow, Approvals, Ask, Call, Executor, Toolset, tool
from handrail.approvals import callback


@tool
def pay(euros: int) -> str:
    \"\"\"Pay.\"\"\"
    return f"paid {{euros}}"


approvals = Approvals(approver=callback(lambda pending: Allow()))
executor = Executor(Toolset(pay), policy=lambda call: Ask("Pay?"), approvals=approvals)
print(executor.run_sync(Call("pay", {{"euros": "5"}}, "c1")).text)
```

```text output
paid 5
[Note: euros: the string was read as a number.]
```
"""
