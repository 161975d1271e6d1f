"""A support chat: streams over durable runs, approvals by the staff, memory, and a budget.

Start `python service.py worker`, any number of times, and `python service.py web`. They share a
database: set SHOP_DATABASE to a path or postgresql://..., and MODEL to a name such as openai:NAME.
Open http://127.0.0.1:8000/ada as a customer, and http://127.0.0.1:8000/staff to approve.
"""

import os
import sys
from pathlib import Path

import anyio
import uvicorn
from orders import Orders, find_order, refund
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from handrail import Allow, Ask, CheckedCall
from handrail.agent import Agent
from handrail.messages import Model
from handrail.permissions import Decision
from handrail.runs.durable import DurableRuns
from handrail.shared import Budget
from handrail.web import ChatApp, Visitor

HERE = Path(__file__).parent
PEOPLE = {"ada": False, "bob": False, "staff": True}  # yours are in your sign-in


def decide(call: CheckedCall) -> Decision:
    is_large = call.name == "refund" and call.args["euros"] > 100
    return Ask("Refunds of more than 100 euros need the staff.") if is_large else Allow()


def make_runs(database: str, model: Model | str, orders: Path) -> DurableRuns:
    budget = Budget(200_000, unit="tokens", per="principal", window="day", database=database)
    agent = Agent(
        model,
        [find_order, refund],
        system="You are the support of a shop. Look at an order before you refund it.",
        policy=decide,
        budget=budget,
    )
    return DurableRuns(database, {"support": agent}, deps={"support": Orders(orders)})


def identify(request: Request) -> Visitor | None:
    name = request.cookies.get("person", "")
    return Visitor(principal=name, answers=PEOPLE[name]) if name in PEOPLE else None


async def show_page(request: Request) -> HTMLResponse:
    if request.path_params["name"] not in PEOPLE:
        raise HTTPException(404)
    page = HTMLResponse((HERE / "chat.html").read_text(encoding="utf-8"))
    page.set_cookie("person", request.path_params["name"], httponly=True, samesite="strict")
    return page


def make_app(runs: DurableRuns, origin: str) -> Starlette:
    chat = ChatApp(runs, identify, origins=[origin], agent="support")
    return Starlette(routes=[Mount("/api", chat), Route("/{name}", show_page)])


def main(word: str, runs: DurableRuns, port: int) -> None:
    if word == "worker":
        anyio.run(runs.serve)
    else:
        uvicorn.run(make_app(runs, f"http://127.0.0.1:{port}"), port=port)


if __name__ == "__main__":
    place = os.environ.get("SHOP_DATABASE", "shop.db")
    main(sys.argv[1], make_runs(place, os.environ["MODEL"], Path("orders.db")), 8000)
