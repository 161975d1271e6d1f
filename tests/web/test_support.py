"""The support service of the examples in a real browser, while its processes are killed."""

from __future__ import annotations

import ast
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from console.browser import browsing, find_chromium
from web.support_program import EXAMPLE

PROGRAM = Path(__file__).parent / "support_program.py"
MAX_STATEMENTS = 60
SHOWN = "[...document.querySelectorAll('#talk > div')].map(one => one.textContent)"


def count_statements(source: str) -> int:
    """How many statements a program has, docstrings not counted."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    return sum(
        not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)) for one in found
    )


def test_the_service_has_at_most_60_statements_beside_its_tools() -> None:
    assert count_statements((EXAMPLE / "service.py").read_text(encoding="utf-8")) <= MAX_STATEMENTS
    assert count_statements('"""Text."""\nif a:\n    b = c\n') == 2


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


class Service:
    """The processes of one service."""

    def __init__(self, database: str, folder: Path) -> None:
        self.port = find_port()
        self._words = [database, str(folder), str(self.port)]
        self.url = f"http://127.0.0.1:{self.port}"
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, word: str) -> subprocess.Popen[bytes]:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("COVERAGE")}
        command = [sys.executable, PROGRAM, word, *self._words]
        process = subprocess.Popen(command, env=kept, stdout=subprocess.DEVNULL)  # noqa: S603
        self.started.append(process)
        return process


@contextmanager
def serving(database: str, folder: Path) -> Generator[Service]:
    service = Service(database, folder)
    try:
        yield service
    finally:
        for process in service.started:
            process.kill()
            process.wait()


def wait_for(service: Service) -> None:
    """Return once the web process listens: each page of a browser's error costs it a process."""
    while True:
        with socket.socket() as asked:
            if not asked.connect_ex(("127.0.0.1", service.port)):
                return
        time.sleep(0.05)  # nothing tells when a port opens


def say(browser: Any, text: str) -> None:
    browser.evaluate(f"document.querySelector('input').value = {text!r}")
    browser.evaluate("document.querySelector('#ask button').click()")


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("copy_postgres", marks=pytest.mark.soak)])
@pytest.mark.timeout(300)
@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_a_customer_sees_one_answer_and_gets_one_refund(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    found = request.getfixturevalue(kind)
    database = found if isinstance(found, str) else found()
    with ExitStack() as stack:
        service = stack.enter_context(serving(database, tmp_path))
        web, worker = service.start("web"), service.start("worker")
        wait_for(service)
        customer, staff = (stack.enter_context(browsing()) for _ in range(2))
        customer.open(f"{service.url}/ada")
        staff.open(f"{service.url}/staff")
        say(customer, "Refund 150 euros of o1, please.")
        staff.until("document.querySelector('button.allow') !== null")
        asked = staff.evaluate("document.querySelector('#inbox p').textContent")
        staff.evaluate("document.querySelector('button.allow').click()")

        customer.until(f"{SHOWN}.at(-1).endsWith('You get ')")
        worker.send_signal(signal.SIGKILL)
        web.send_signal(signal.SIGKILL)
        worker.wait(), web.wait()
        (tmp_path / "go").touch()
        service.start("web"), service.start("worker")
        customer.until(f"{SHOWN}.at(-1).endsWith('back.')")
        customer.until("document.querySelector('#state').textContent === ''")
        shown = customer.evaluate(SHOWN)
        if picture := os.environ.get("HANDRAIL_PICTURES"):
            customer.draw(Path(picture) / "support.png")

    assert asked.startswith("ada: Refund 150 euros of order o1")
    assert shown == ["Refund 150 euros of o1, please.", "One moment. You get 150 euros back."]
    with closing(sqlite3.connect(tmp_path / "orders.db")) as rows:
        assert list(rows.execute("SELECT order_id, euros FROM refunds")) == [("o1", 150)]
