"""Data analysis for many tenants: each one has its own database and its own rules.

Tools get the database from the run: a model cannot choose it. A hook removes email addresses.
Run it with `python examples/analysis_agent.py`.
"""

import sqlite3
from dataclasses import dataclass
from typing import Literal, TypeAlias

from handrail import READ, WRITE, Access, Call, Context, tool
from handrail.agent import Agent, RunEvent
from handrail.hooks import budget, redact
from handrail.messages import ToolResults
from handrail.policy import Rulebook
from handrail.testing import ScriptedModel

Database: TypeAlias = Context[sqlite3.Connection]
Table: TypeAlias = Literal["orders", "salaries"]  # so no other text can get into a query


@dataclass
class Report:
    average: float
    exported: bool


def reads(table: str) -> Access:
    return Access(READ, f"table:{table}")


def exports(table: str, to: str) -> list[Access]:
    return [reads(table), Access(WRITE, f"export:{to}")]


@tool(effect=READ, touches=reads)
async def sample(table: Table, context: Database) -> list[tuple[str, int]]:
    """Return the first row of a table."""
    return context.deps.execute(f"SELECT * FROM {table} LIMIT 1").fetchall()  # noqa: S608


@tool(effect=READ, touches=reads)
async def average(table: Table, context: Database) -> float:
    """Return the average amount in a table."""
    [mean] = context.deps.execute(f"SELECT avg(euros) FROM {table}").fetchone()  # noqa: S608
    return float(mean)


@tool(effect=WRITE, touches=exports)
async def export(table: Table, to: str) -> str:
    """Export a table to a folder."""
    return f"Exported {table} to {to}."


PRIVATE = '[[rule]]\ndecide = "deny"\naccess = "read table:salaries"\nreason = "private"\n'
REPORTS = '[[rule]]\ndecide = "allow"\naccess = ["read table:orders", "write export:reports"]\n'
EXPORT = Call("export", {"table": "orders", "to": "reports"}, "export")
TENANTS = {"acme": PRIVATE + REPORTS, "globex": 'mode = "plan"'}  # without a rule: ask, and read


def show(event: RunEvent) -> None:
    for result in event.results if isinstance(event, ToolResults) else ():
        print(f"  {result.call_id}: {result.failure.kind if result.failure else result.text}")


for tenant, rules in TENANTS.items():
    database = sqlite3.connect(":memory:")
    for table, euros in [("orders", 20), ("salaries", 5000)]:
        database.execute(f"CREATE TABLE {table} AS SELECT 'ada@x.com' AS email, {euros} AS euros")
    read = [Call(name, {"table": "orders"}, name) for name in ("sample", "average")]
    more = [Call("average", {"table": "salaries"}, "salaries"), EXPORT]
    answer = {"answer": {"average": 20.0, "exported": tenant == "acme"}}
    model = ScriptedModel(read, more, Call("final_answer", answer, "answer"))
    hooks = [budget(calls=10), redact(patterns=[r"[\w.]+@[\w.]+"])]
    policy = Rulebook.from_toml(rules)
    agent = Agent(model, [sample, average, export], output=Report, policy=policy, hooks=hooks)
    print(tenant)
    print(agent.run_sync("What do we earn?", deps=database, on_event=show).output)
    database.close()

# output:
# acme
#   sample: [["[redacted]",20]]
#   average: 20.0
#   salaries: denied
#   export: Exported orders to reports.
#   answer: Answer accepted.
# Report(average=20.0, exported=True)
# globex
#   sample: [["[redacted]",20]]
#   average: 20.0
#   salaries: 5000.0
#   export: denied
#   answer: Answer accepted.
# Report(average=20.0, exported=False)
