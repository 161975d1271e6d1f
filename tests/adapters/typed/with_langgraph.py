"""What type checkers must see of a node, as docs/frameworks/langgraph.md writes it; it is never run."""

from __future__ import annotations

from dataclasses import dataclass

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph

from handrail import Executor, Toolset
from handrail.adapters.langgraph import node


class Shop(MessagesState):
    """A state with a field of its own."""

    name: str


@dataclass
class Deps:
    """What tools get."""

    shop: str


def find_user(config: RunnableConfig) -> str:
    return str(config["metadata"]["user"])


def make() -> None:
    executor = Executor(Toolset())
    plain = StateGraph(MessagesState)
    plain.add_node("tools", node(executor))
    plain.add_edge(START, "tools")
    shop = StateGraph(Shop, context_schema=Deps)
    shop.add_node("tools", node(executor, principal=find_user))
