"""A support agent whose refund a person approves in another process: a small web app.

The agent's process ends when the refund needs approval. The web app lists what is waiting, with a
signed link for each request. An approval resumes the run. An old state cannot refund twice.
Run it with `python examples/support_agent.py`: it starts the agent, then acts as the browser.
"""

import secrets
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir
from html import escape
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from urllib.request import ProxyHandler, build_opener

from handrail import Allow, Approvals, Call, tool
from handrail.agent import Agent, dump_state, load_state
from handrail.approvals import FileLedger, defer, sign_pending, verify_pending
from handrail.policy import Rulebook
from handrail.testing import ScriptedModel

FORM = "<form method=post action=/{}><button>{}</button></form>"
KEY = secrets.token_bytes(32)  # in a real app: one secret for all web processes
SCRIPT = (Call("refund", {"order": "A1", "euros": 120}, "c1"), "You get 120 euros back.")


@tool(headline="Refund {euros} euros on order {order}".format)
async def refund(order: str, euros: int) -> None:
    """Refund part of an order."""
    print(f"refund: {euros} euros on order {order}")


def make_agent(step: Call | str) -> Agent:
    approvals = Approvals(approver=defer, ledger=FileLedger("ledger"))
    return Agent(ScriptedModel(step), [refund], policy=Rulebook(), approvals=approvals)


def start(prompt: str) -> str:
    """Run in the agent's process, until an answer or an approval request."""
    result = make_agent(SCRIPT[0]).run_sync(prompt)
    Path(f"{result.state.run_id}.json").write_text(dump_state(result.state), encoding="utf-8")
    return result.stop_reason


def approve(token: str) -> str:
    """Resume the run, in the process of the web app."""
    pending = verify_pending(token, KEY)  # raises Tampered if the link was changed
    state = load_state(Path(f"{pending.run_id}.json").read_text(encoding="utf-8"))
    return make_agent(SCRIPT[1]).run_sync(history=state, answers={pending.id: Allow()}).text


class App(BaseHTTPRequestHandler):  # a real one has a login
    def do_GET(self) -> None:
        runs = [load_state(file.read_text(encoding="utf-8")) for file in Path().glob("*.json")]
        waiting = [pending for run in runs for pending in run.pending]
        self.reply("".join(FORM.format(sign_pending(p, KEY), escape(p.headline)) for p in waiting))

    def do_POST(self) -> None:
        self.reply(approve(self.path[1:]))

    def reply(self, page: str) -> None:
        self.send_response_only(200)
        self.end_headers()
        self.wfile.write(page.encode())


if __name__ == "__main__":
    with TemporaryDirectory() as folder, chdir(folder), HTTPServer(("127.0.0.1", 0), App) as server:
        print("agent:", ProcessPoolExecutor().submit(start, "I want 120 euros back.").result())
        Thread(target=server.serve_forever, daemon=True).start()
        browser, url = build_opener(ProxyHandler({})), f"http://127.0.0.1:{server.server_port}"
        page = browser.open(url).read().decode()
        link = page.partition("action=")[2].partition(">")[0]
        print("queue:", page.replace(link, "LINK"))
        for _ in range(2):
            print("approve:", browser.open(url + link, b"").read().decode())
        server.shutdown()

# output:
# agent: pending
# queue: <form method=post action=LINK><button>Refund 120 euros on order A1</button></form>
# refund: 120 euros on order A1
# approve: You get 120 euros back.
# approve: You get 120 euros back.
