"""Twelve tasks of a day, done by the coding agent's own tools: no call is wasted, no question needless.

The calls are written down, as no language model is at hand. What they find and change is real: a project with its
own environment and git history, a server, a package index on loopback, and a log of 150,000 lines.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from handrail import Allow, Call, Result
from handrail.coding import coding_agent
from handrail.messages import ToolResults
from handrail.net import Proxy
from handrail.permissions import Pending
from handrail.testing import ScriptedModel
from tools.shell.test_installs import UV_FOLDER, make_environment, serve_index

CART = """\
from shop.money import add_amounts


class Cart:
    def __init__(self):
        self.items = []

    def add(self, price, count=1):
        self.items.append((price, count))

    def total(self):
        return add_amounts([price for price, count in self.items])

    def size(self):
        return len(self.items)
"""
MONEY = """\
import os


def add_amounts(amounts):
    return sum(amounts)
"""
TESTS = """\
import unittest

from shop.cart import Cart


class CartTest(unittest.TestCase):
    def test_counts(self):
        cart = Cart()
        cart.add(5, 2)
        self.assertEqual((cart.total(), cart.size()), (10, 2))
"""
SERVER = """\
import http.server

PRICES = {"tea": 3}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(PRICES[self.path]).encode())


print("serving", flush=True)
http.server.HTTPServer(("127.0.0.1", 8123), Handler).serve_forever()
"""
LINT = """\
import ast, pathlib, sys

bad = 0
for path in sorted(pathlib.Path("src").rglob("*.py")):
    text = path.read_text("utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import) and text.count(node.names[0].name) == 1:
            print(f"{path}:{node.lineno}: unused import {node.names[0].name}")
            bad = 1
sys.exit(bad)
"""
MAKE = """\
lint:
\t@python lint.py
build:
\t@for n in 1 2 3 4; do echo step $$n of 4; sleep 0.5; done; echo built > built.txt
"""
TEST = "PYTHONPATH=src python -m unittest -q tests.test_cart"
PACKAGES = 32
LOG_LINES = 150_000


def call(name: str, **args: Any) -> Call:
    return Call(name, args)


def bash(command: str, **args: Any) -> Call:
    return call("bash", command=command, **args)


def read(path: str) -> Call:
    return call("read", file_path=path)


def edit(path: str, old: str, new: str, **args: Any) -> Call:
    return call("edit", file_path=path, old_string=old, new_string=new, **args)


class Done(NamedTuple):
    """What came of one task."""

    results: Sequence[Result]
    questions: Sequence[str]
    folder: Path

    @property
    def text(self) -> str:
        return "\n".join(result.text for result in self.results)

    @property
    def wasted(self) -> list[str]:
        """The results that say that a call was of no use, or was read in another way than it was meant."""
        return [
            one.text
            for one in self.results
            if one.failure is not None or re.search(r"\[Note|\[exit code [1-9]", one.text)
        ]

    def runs(self, *words: str) -> str:
        """What a program prints in the project, outside of the agent."""
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": "src"}
        return subprocess.run(  # noqa: S603
            words, cwd=self.folder, env=env, capture_output=True, encoding="utf-8", check=True
        ).stdout

    def tests(self) -> bool:
        return self.runs(sys.executable, "-m", "unittest", "discover", "-s", "tests", "-q") == ""


class Task(NamedTuple):
    """The replies of a model, each with its calls, and whether the task is done."""

    turns: Sequence[Sequence[Call]]
    done: Callable[[Done], bool]
    questions: int = 0


TASKS = {
    "1 bug": Task(
        [
            [bash(f"{TEST} || true"), read("src/shop/cart.py"), read("tests/test_cart.py")],
            [
                edit("src/shop/cart.py", "[price for", "[price * count for"),
                edit(
                    "src/shop/cart.py", "len(self.items)", "sum(count for _, count in self.items)"
                ),
                bash(TEST),
            ],
        ],
        Done.tests,
    ),
    "2 rename": Task(
        [
            [call("grep", pattern="add_amounts", output_mode="count")],
            [bash("grep -rl add_amounts src | xargs sed -i 's/add_amounts/sum_amounts/g'")],
            [bash("! grep -r add_amounts src && PYTHONPATH=src python -c 'import shop.part31'")],
        ],
        lambda done: (
            done.runs("grep", "-rl", "--include=*.py", "sum_amounts", "src").count("\n")
            == PACKAGES + 2
        ),
    ),
    "3 refactor": Task(
        [
            [read("src/shop/cart.py")],
            [
                call(
                    "edit",
                    file_path="src/shop/cart.py",
                    edits=[
                        {"old_string": "self.items = []", "new_string": "self.lines = []"},
                        {
                            "old_string": "self.items",
                            "new_string": "self.lines",
                            "replace_all": True,
                        },
                    ],
                )
            ],
            [bash(TEST)],
        ],
        lambda done: "self.items" not in (done.folder / "src/shop/cart.py").read_text("utf-8"),
    ),
    "4 feature": Task(
        [
            [read("src/shop/cart.py")],
            [
                call(
                    "write",
                    file_path="src/shop/discount.py",
                    content="def discount(total, percent):\n    return total * (100 - percent) / 100\n",
                ),
                call(
                    "write",
                    file_path="tests/test_discount.py",
                    content="import unittest\n\nfrom shop.discount import discount\n\n\n"
                    "class DiscountTest(unittest.TestCase):\n    def test_tenth(self):\n"
                    "        self.assertEqual(discount(50, 10), 45)\n",
                ),
                bash("PYTHONPATH=src python -m unittest discover -s tests -q"),
            ],
        ],
        Done.tests,
    ),
    "5 server": Task(
        [
            [bash("python server.py", background=True)],
            [call("read_job", job=1, until="serving", wait_ms=20_000)],
            [
                bash("curl -s localhost:8123/tea || true"),
                call("read_job", job=1),
                read("server.py"),
            ],
            [
                edit("server.py", "PRICES[self.path]", 'PRICES[self.path.strip("/")]'),
                call("stop_job", job=1),
            ],
            [bash("python server.py", background=True)],
            [call("read_job", job=2, until="serving", wait_ms=20_000)],
            [bash("curl -s localhost:8123/tea")],
        ],
        lambda done: "KeyError: '/tea'" in done.text and done.results[-1].text.startswith("3\n"),
    ),
    "6 notebook": Task(
        [
            [read("sales.ipynb")],
            [edit("sales.ipynb", "total = 1 + 1", "total = 1 + 2")],
            [read("sales.ipynb")],
        ],
        lambda done: (
            json.loads((done.folder / "sales.ipynb").read_text("utf-8"))["cells"][1]["source"]
            == ["total = 1 + 2"]
        ),
    ),
    "7 log": Task(
        [
            [call("grep", pattern="FATAL", path="big.log"), bash("tail -n 2 big.log")],
            [call("read", file_path="big.log", offset=99_998, limit=5)],
        ],
        lambda done: "FATAL disk full" in done.text and f"line {LOG_LINES - 1}" in done.text,
    ),
    "8 history": Task(
        [[bash("git log --oneline -S'return 7' -- src/old.py")]],
        lambda done: "Lower the limit" in done.text,
    ),
    "9 data": Task(
        [
            [
                bash(
                    "python -c \"import csv; rows = list(csv.DictReader(open('orders.csv')));"
                    " print(sum(int(r['count']) for r in rows))\""
                )
            ]
        ],
        lambda done: done.results[0].text.startswith("4950\n"),
    ),
    "10 dependency": Task(
        [
            [bash("uv pip install -q -i http://pub.test/simple demo")],
            [bash("python -m demo")],
        ],
        lambda done: done.results[1].text.startswith("from the wheel\n"),
        questions=1,
    ),
    "11 lint": Task(
        [
            [bash("make lint || true")],
            [edit("src/shop/money.py", "import os\n\n\n", ""), bash("make lint")],
        ],
        lambda done: "unused import os" in done.text and "exit code 0" in done.results[-1].text,
    ),
    "12 build": Task(
        [
            [bash("make build", background=True)],
            [call("read_job", job=1, wait_ms=60_000)],
        ],
        lambda done: "step 4 of 4" in done.text and (done.folder / "built.txt").exists(),
    ),
}
"""In the order in which they are done: each begins with what the one before has left."""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def git(folder: Path, *words: str) -> None:
    about = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org"]
    subprocess.run(["git", *about, *words], cwd=folder, check=True, capture_output=True)  # noqa: S603, S607


def make_project(folder: Path) -> None:
    """A shop of 37 Python files."""
    parts = {
        f"src/shop/part{number:02}.py": "from shop.money import add_amounts\n\n"
        f"PART = add_amounts([{number}])\n"
        for number in range(PACKAGES)
    }
    log = "".join(f"line {number} ok\n" for number in range(LOG_LINES))
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["# Sales"]},
        {
            "cell_type": "code",
            "execution_count": None,
            "id": "b",
            "metadata": {},
            "outputs": [],
            "source": ["total = 1 + 1"],
        },
    ]
    orders = "".join(f"{number},{number}\n" for number in range(100))
    files = {
        **parts,
        "src/shop/__init__.py": "",
        "src/shop/cart.py": CART,
        "src/shop/money.py": MONEY,
        "tests/test_cart.py": TESTS,
        "server.py": SERVER,
        "lint.py": LINT,
        "Makefile": MAKE,
        ".gitignore": ".venv/\nbig.log\n__pycache__/\n",
        "big.log": log.replace("line 99999 ok", "line 99999 FATAL disk full"),
        "orders.csv": f"id,count\n{orders}",
        "sales.ipynb": json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
    }  # fmt: skip
    write(folder, {**files, "src/old.py": "def limit():\n    return 9\n"})
    git(folder, "init", "-q", "-b", "main")
    for message, number in (("Add the shop", 9), ("Lower the limit", 7), ("Raise it", 8)):
        write(folder, {"src/old.py": f"def limit():\n    return {number}\n"})
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", message)
    make_environment(folder)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Proxy]:
    with serve_index(tmp_path) as proxy:
        yield proxy


async def do(folder: Path, index: Proxy, turns: Sequence[Sequence[Call]]) -> Done:
    """Let an agent do a task, with a person who approves everything."""
    questions: list[str] = []

    async def approve(pending: Pending) -> Allow:
        questions.append(pending.question)
        return Allow()

    numbered = [
        [Call(one.name, one.args, f"c{number}-{place}") for place, one in enumerate(turn)]
        for number, turn in enumerate(turns)
    ]
    with ScriptedModel(*numbered, "Done.") as model:
        agent = coding_agent(
            folder, model, rules="edits", approvals=approve, network=cast("Any", index)
        )
        ended = await agent.run("Do the task.")
    said = [one for one in ended.state.messages if isinstance(one, ToolResults)]
    return Done([result for one in said for result in one.results], questions, folder)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("PATH", f"{UV_FOLDER}{os.pathsep}{os.environ['PATH']}")
    made = tmp_path / "shop"
    made.mkdir()
    make_project(made)
    return made


@pytest.mark.anyio
@pytest.mark.timeout(180)
async def test_twelve_tasks_are_done_without_a_wasted_call(folder: Path, index: Proxy) -> None:
    calls = 0
    for name, task in TASKS.items():
        done = await do(folder, index, task.turns)
        calls += len(done.results)
        print(f"{name:15} {len(done.results)} calls  {len(done.text) // 4:6} tokens")  # noqa: T201  with -s
        assert done.wasted == [], name
        assert len(done.questions) == task.questions, (name, done.questions)
        assert task.done(done), (name, done.text)

    assert calls == sum(len(turn) for task in TASKS.values() for turn in task.turns)


@pytest.mark.anyio
async def test_calls_that_are_of_no_use_are_counted(folder: Path, index: Proxy) -> None:
    wrong = [
        [read("missing.py"), call("ls", path=".")],
        [edit("server.py", "no such text", "x"), bash("exit 3")],
    ]
    done = await do(folder, index, wrong)

    assert len(done.wasted) == len(done.results) == 4
