"""An agent of LangChain's ``create_agent``, whose model streams. Answers go to another agent, through the checkpointer."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent

from handrail import Executor
from handrail.adapters.langchain import tools
from joints.case import Case, Seen
from joints.hosts.langgraph import Streamed, run_graph


def _make_agent(case: Case, executor: Executor, turn: dict[str, Any], saver: Any) -> Any:
    made = tools(executor, **turn)
    return create_agent(Streamed(case=case), made, checkpointer=saver, context_schema=object)


async def door(case: Case) -> Seen:
    return await run_graph(case, _make_agent)
