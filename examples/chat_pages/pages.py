"""A chat for clients of two protocols: AG-UI, and the AI SDK of Vercel.

Set MODEL to a name such as openai:NAME, and start `python pages.py`. Open
http://127.0.0.1:8000/ag_ui.html or http://127.0.0.1:8000/ai_sdk.html.
"""

import os
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from handrail import WRITE, Access, Allow, Ask, CheckedCall, tool
from handrail.agent import Agent
from handrail.messages import Model
from handrail.permissions import Decision
from handrail.web import ChatApp, Visitor

HERE = Path(__file__).parent


def touch_order(order: str, euros: int) -> Access:  # noqa: ARG001  the arguments of the tool
    return Access(WRITE, f"order:{order}")


@tool(effect=WRITE, touches=touch_order)
def refund(order: str, euros: int) -> str:
    """Refund an order."""
    return f"{euros} euros for order {order} are on their way"


def decide(call: CheckedCall) -> Decision:
    return Ask(f"Refund {call.args['euros']} euros?") if call.args["euros"] > 100 else Allow()


def identify(_request: Request) -> Visitor:  # yours is in your sign-in
    return Visitor(principal="ada", answers=lambda pending: pending.principal == "ada")


def make_app(model: Model | str, origin: str, database: str) -> Starlette:
    agent = Agent(model, [refund], system="You are the support of a shop.", policy=decide)
    chat = ChatApp(agent, identify, origins=[origin], database=database, details=True)
    return Starlette(routes=[Mount("/api", chat), Mount("/", StaticFiles(directory=HERE))])


if __name__ == "__main__":
    uvicorn.run(make_app(os.environ["MODEL"], "http://127.0.0.1:8000", "chats.db"), port=8000)
