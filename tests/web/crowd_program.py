"""A web process whose chats are run by workers: `python crowd_program.py DATABASE PORT`."""

from __future__ import annotations

import socket
import sys

import anyio

from handrail.net import serve_app
from handrail.runs.durable import DurableRuns
from handrail.web import ChatApp
from web.chats import ORIGIN, identify

if __name__ == "__main__":
    database, port = sys.argv[1:]
    runs = DurableRuns(database, {"talker": None})  # type: ignore[dict-item]
    app = ChatApp(runs, identify, origins=[ORIGIN], agent="talker")
    listening = socket.create_server(("127.0.0.1", int(port)), backlog=1_000)
    anyio.run(serve_app, app, listening)
