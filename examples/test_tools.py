"""Tests of tools, rules and an agent, without a model: lint, decisions, a call and a run.

Run it with `python -m pytest -qq examples/test_tools.py`.
"""

import pytest

from handrail import READ, WRITE, Access, Call, Executor, FailureKind, Result, Toolset, lint, tool
from handrail.agent import Agent
from handrail.messages import ToolResults
from handrail.policy import Rulebook
from handrail.testing import ScriptedModel


def order_access(order_id: str) -> Access:
    return Access(WRITE, f"order:{order_id}")


def customer_access(customer: str) -> Access:
    return Access(READ, f"customer:{customer}")


@tool(effect=READ, touches=customer_access)
async def find_order(customer: str) -> str:
    """Find the newest order of a customer.

    Args:
        customer: The customer's name.
    """
    return {"ada": "A1"}[customer]


@tool(effect=WRITE, touches=order_access)
async def cancel_order(order_id: str) -> str:
    """Cancel an order.

    Args:
        order_id: The id that find_order returns.
    """
    return f"Cancelled {order_id}."


TOOLS = Toolset(find_order, cancel_order)
RULES = Rulebook.from_toml("""
[[rule]]
id = "test orders"
decide = "allow"
access = "write order:T*"
match = ["write order:T1"]
not_match = ["write order:A1", "read order:T1"]
""")


def test_the_tools_are_clear_to_a_model() -> None:
    assert lint(TOOLS) == ()


@pytest.mark.parametrize(("order_id", "verdict"), [("T1", "allow"), ("A1", "ask")])
def test_only_test_orders_are_cancelled_without_approval(order_id: str, verdict: str) -> None:
    call = Call("cancel_order", {"order_id": order_id})
    assert Executor(TOOLS, policy=RULES).explain(call).matched[0].verdict == verdict


def test_wrong_arguments_do_not_reach_the_function() -> None:
    result = Executor(TOOLS).run_sync(Call("find_order", {"name": "ada"}))
    assert result.failure
    assert result.failure.kind is FailureKind.BAD_ARGS


def test_the_agent_cancels_the_order_that_it_found() -> None:
    find = Call("find_order", {"customer": "ada"}, "c1")
    cancel = Call("cancel_order", {"order_id": "A1"}, "c2")
    with ScriptedModel(find, cancel, "Order A1 is cancelled.") as model:
        done = Agent(model, TOOLS).run_sync("Cancel the last order of Ada.")
    assert done.text == "Order A1 is cancelled."
    assert done.state.messages[-2] == ToolResults((Result("c2", "Cancelled A1."),))


# output:
# .....                                                                    [100%]
