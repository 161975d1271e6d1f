"""Tools for many tenants: each request brings its user, its database and its tenant's rules.

One executor serves all requests. The tools get the request's data from their `Context`; a model can
neither see nor set it. The policy picks the rules of the tenant.

Run it with `python examples/tenant_tools.py`.
"""

from dataclasses import dataclass

import anyio

from handrail import READ, WRITE, Call, CheckedCall, Context, Decision, Executor, Toolset, tool
from handrail.policy import Rulebook


@dataclass
class Database:
    """One tenant's data."""

    invoices: dict[str, int]


@tool(effect=READ)
async def show_invoice(number: str, context: Context[Database]) -> int:
    """Return the amount of an invoice in euros."""
    return context.deps.invoices[number]


@tool(effect=WRITE)
async def discount(number: str, euros: int, context: Context[Database]) -> str:
    """Lower the amount of an invoice."""
    context.deps.invoices[number] -= euros
    return f"{context.principal} lowered {number} to {context.deps.invoices[number]} euros."


SMALL_DISCOUNTS = """
[[rule]]
decide = "allow"
tools = "discount"
args = { euros = { min = 1, max = 50 } }
"""
RULES = {
    "acme": Rulebook.from_toml(SMALL_DISCOUNTS),  # anything else that writes needs approval
    "globex": Rulebook(mode="plan"),  # read only
}


def policy(call: CheckedCall) -> Decision:
    """Decide by the tenant's rules. For an unknown tenant this raises, and the call is denied."""
    return RULES[str(call.turn.metadata["tenant"])](call)


async def main() -> None:
    databases = {"acme": Database({"i1": 200}), "globex": Database({"i1": 900})}
    calls = [
        Call("show_invoice", {"number": "i1"}, "c1"),
        Call("discount", {"number": "i1", "euros": 20}, "c2"),
        Call("discount", {"number": "i1", "euros": 80}, "c3"),
    ]
    async with Executor(Toolset(show_invoice, discount), policy=policy) as executor:
        for tenant, user in [("acme", "ada"), ("globex", "bob")]:
            about = {"tenant": tenant}
            turn = executor.turn(principal=user, deps=databases[tenant], metadata=about)
            for result in await executor.run_all(calls, turn=turn):
                print(
                    tenant, result.call_id, result.failure.kind if result.failure else result.text
                )


anyio.run(main)

# output:
# acme c1 200
# acme c2 ada lowered i1 to 180 euros.
# acme c3 denied
# globex c1 900
# globex c2 denied
# globex c3 denied
