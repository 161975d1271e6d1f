"""The client of the official conformance suite: it lists the tools of a server, and calls each once."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import httpx2

from handrail import Allow, Approvals, Call, Executor, NeedsLogin, Registry
from handrail.approvals import read_form
from handrail.mcp import HttpServer, Login, McpSource, TokenFile
from handrail.permissions import Answer, Pending

ARGS = {"add_numbers": {"a": 5, "b": 3}}
DOCUMENTS = {"auth/basic-cimd": "https://conformance-test.local/client-metadata.json"}
"""By scenario: where the suite says that this client's metadata are."""


async def open_page(url: str) -> None:
    """Do what a person does in a browser, who agrees at once."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        await browser.get(url)


async def answer(login: Login, pending: Pending) -> Answer:
    """Sign in, or fill in a form with what it suggests."""
    if pending.kind == "login":
        await open_page(pending.question.rpartition(" ")[2])
        await login.wait()
        return Allow()
    form = read_form(pending)
    return Allow() if form is None else form.fill({})


async def main(url: str) -> None:
    known: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    known.setdefault("client_id", DOCUMENTS.get(os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), ""))
    registration = {name: known[name] for name in ("client_id", "client_secret") if name in known}
    with TemporaryDirectory() as folder:
        login = Login(TokenFile(Path(folder) / "tokens.json"), **registration)
        source = McpSource(HttpServer(name="suite", url=url, auth=login), start_seconds=90)
        registry = Registry()
        approvals = Approvals(approver=partial(answer, login))
        for _ in range(3):
            try:
                async with (
                    registry.connect(source),
                    Executor(registry, policy=lambda _: Allow(), approvals=approvals) as executor,
                ):
                    for tool in executor.tools:
                        name = str(tool.spec.metadata["mcp_tool"])
                        await executor.run(Call(tool.spec.name, ARGS.get(name, {})))
                    break
            except NeedsLogin as needed:
                await open_page(needed.url)
                await login.wait()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
