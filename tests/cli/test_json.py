"""JSON: every command has a published schema, and prints what it says."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator, ValidationError

import forked
from cli_harness import SCHEMAS, Handrail, Schemas, commands
from handrail.policy import RulePaths
from handrail.runs.durable import DurableRuns

MODEL = """
from handrail.testing import ScriptedModel
from handrail import Call

asks = ScriptedModel(Call("put", {"text": "a"}, id="c1"), "It is put.")
calls = ScriptedModel(Call("area", {"width": 3, "height": 4}, id="c1"), "It is 12.")
"""
TOOLS = '''
from handrail import READ, WRITE, tool

@tool(effect=READ)
def area(width: int, height: int) -> int:
    """Work out the area of a rectangle.

    Args:
        width: In metres.
        height: In metres.
    """
    return width * height

@tool(effect=WRITE)
def put(text: str) -> str:
    """Put a text somewhere.

    Args:
        text: What is put.
    """
    return text
'''
WORKER = """
import os, signal
from handrail.runs.durable import DurableRuns

class Once(DurableRuns):
    async def serve(self, *, on_start, **options):
        def stop(worker, port):
            on_start(worker, port)
            os.kill(os.getpid(), signal.SIGTERM)

        await super().serve(on_start=stop, **options)

runs = Once("runs.db", {})
"""
SERVER = """
import uvicorn

class Once(uvicorn.Server):
    async def startup(self, sockets=None):
        uvicorn.Server = Once.__base__
        await super().startup(sockets=sockets)
        self.should_exit = True

uvicorn.Server = Once
"""
RULES = '[[rule]]\ndecide = "allow"\ntools = "area"\n'
OURS = ("-t", "tools.py")


def schema_of(words: tuple[str, ...]) -> str:
    """The name of a command's schema; a command that stands at two places has one."""
    name = "-".join(words)
    return name if (SCHEMAS / f"{name}.json").exists() else words[-1]


LEAVES = sorted(commands())
NAMES = sorted({schema_of(one) for one in LEAVES} | {"error"})


def objects(schema: Any) -> list[dict[str, Any]]:
    """Every schema of an object in a schema."""
    if isinstance(schema, list):
        return [one for part in schema for one in objects(part)]
    if not isinstance(schema, dict):
        return []
    below = [one for part in schema.values() for one in objects(part)]
    return [schema, *below] if "properties" in schema else below


def test_every_command_has_a_schema_and_no_schema_is_left_over() -> None:
    assert sorted(one.stem for one in SCHEMAS.glob("*.json")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one_and_leaves_nothing_open(name: str) -> None:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))

    Draft202012Validator.check_schema(schema)

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"]
    assert objects(schema)
    for one in objects(schema):
        assert one.get("additionalProperties") is False or one.get("unevaluatedProperties") is False


def test_a_schema_that_is_none_is_found() -> None:
    with pytest.raises(Exception, match="'thing' is not valid"):
        Draft202012Validator.check_schema({"type": "thing"})
    assert objects({"a": [{"properties": {}}]}) == [{"properties": {}}]


@pytest.fixture
def prepared(handrail: Handrail) -> Handrail:
    """A workspace with tools, a model, a rule, and a run that waits for an answer."""
    handrail.write("tools.py", TOOLS)
    handrail.write("model.py", MODEL)
    handrail.write("stops_at_once.py", WORKER)
    handrail.write("serves_once.py", TOOLS + SERVER)
    handrail.write("rules.toml", RULES)
    handrail.write("handrail.toml", "max_turns = 5\n")
    handrail.write("settings.json", '{"permissions": {"allow": ["Read"]}}')
    return handrail


def waiting(handrail: Handrail) -> str:
    """The id of a run that waits for an answer."""
    handrail("run", "Put a.", *OURS, "-m", "model.py:asks", "--on-denied", "suspend")
    found: str = handrail("runs", "list", "--json").json["runs"][0]["id"]
    return found


def ended(handrail: Handrail) -> str:
    """The id of a run that has its answer."""
    handrail("run", "What is it?", *OURS, "-m", "model.py:calls")
    found: str = handrail("runs", "list", "--json").json["runs"][0]["id"]
    return found


def sealed(handrail: Handrail) -> str:
    """A database of durable runs, with a codec in the user's settings."""
    handrail.config.mkdir(parents=True, exist_ok=True)
    settings = handrail.config / "config.toml"
    settings.write_text('codec = "sealing:codec"\n', encoding="utf-8")
    return durable(handrail)


def durable(handrail: Handrail) -> str:
    """A database of durable runs."""
    file = str(handrail.workspace / "durable.db")

    async def create() -> None:
        async with DurableRuns(file, {}):
            pass

    anyio.run(create)
    return file


def remembered(handrail: Handrail) -> str:
    """The id of a rule that an answer left behind."""
    file = RulePaths.of(handrail.workspace, config=handrail.config).remembered
    assert file is not None
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file.write_text(f'[[rule]]\nid = "remembered-0011aabb"\n{RULES[9:]}', encoding="utf-8")
    file.chmod(0o600)
    return "remembered-0011aabb"


def changed(handrail: Handrail) -> tuple[str, ...]:
    """No arguments, after a change that can be undone."""
    handrail("tools", "call", "write", "file_path=new", "content=x", "--mode", "edits")
    return ()


def served(handrail: Handrail) -> str:
    """The name of an MCP server in the user's own list, approved."""
    raw = Path(__file__).parents[1] / "mcp_client" / "raw_server.py"
    words = ("--", sys.executable, "-S", str(raw))
    handrail("mcp", "add", "raw", "--no-sandbox", "--reads", "get_*", *words)
    handrail("mcp", "review", "raw", "--yes")
    return "raw"


Line = Callable[[Handrail], tuple[str, ...]]
LINES: dict[str, Line] = {
    "completion": lambda _: ("completion", "bash"),
    "config show": lambda _: ("config", "show"),
    "doctor": lambda _: ("doctor",),
    "explain": lambda _: ("explain", "area", "width=3", "height=4", *OURS),
    "init": lambda _: ("init", "-m", "openai:NAME", "--no-try"),
    "mcp add": lambda _: ("mcp", "add", "one", "--url", "https://one.example/mcp"),
    "mcp list": lambda h: ("mcp", "list", *served(h)[:0]),
    "mcp remove": lambda h: ("mcp", "remove", served(h)),
    "mcp review": lambda h: ("mcp", "review", served(h), "--yes"),
    "mcp show": lambda h: ("mcp", "show", served(h)),
    "mcp test": lambda h: ("mcp", "test", served(h)),
    "mode": lambda _: ("mode",),
    "models list": lambda _: ("models", "list", "--port", "1"),
    "rules check": lambda _: ("rules", "check", "rules.toml", *OURS),
    "rules explain": lambda _: ("rules", "explain", "area", "width=3", "height=4", *OURS),
    "rules forget": lambda h: ("rules", "forget", remembered(h)),
    "rules import": lambda _: ("rules", "import", "claude", "settings.json"),
    "rules list": lambda _: ("rules", "list", "--all"),
    "rules replay": lambda h: ("rules", "replay", waiting(h)),
    "run": lambda _: ("run", "What is it?", *OURS, "-m", "model.py:calls"),
    "runs approve": lambda h: ("runs", "approve", waiting(h), "--all"),
    "runs cancel": lambda h: ("runs", "cancel", waiting(h)),
    "runs deny": lambda h: ("runs", "deny", waiting(h), "--all"),
    "runs erase": lambda h: ("runs", "erase", "--principal", "a", "--database", durable(h)),
    "runs export": lambda h: ("runs", "export", waiting(h)),
    "runs fork": lambda h: ("runs", "fork", ended(h)),
    "runs inbox": lambda h: ("runs", "inbox", *waiting(h)[:0]),
    "runs list": lambda h: ("runs", "list", *waiting(h)[:0]),
    "runs migrate": lambda _: ("runs", "migrate", "--database", "made.db"),
    "runs prune": lambda h: ("runs", "prune", waiting(h)),
    "runs replay": lambda h: ("runs", "replay", ended(h), *OURS),
    "runs resume": lambda h: ("runs", "resume", waiting(h)),
    "runs rotate": lambda h: ("runs", "rotate", "--database", sealed(h)),
    "runs show": lambda h: ("runs", "show", waiting(h)),
    "runs stats": lambda h: ("runs", "stats", *waiting(h)[:0]),
    "runs verify": lambda h: ("runs", "verify", waiting(h)),
    "runs watch": lambda h: ("runs", "watch", waiting(h)),
    "schema": lambda _: ("schema", "area", "--api", "gemini", *OURS),
    "serve": lambda _: ("serve", "-t", "serves_once.py", "--http", "127.0.0.1:0"),
    "tools call": lambda _: ("tools", "call", "area", "width=3", "height=4", *OURS),
    "tools explain": lambda _: ("tools", "explain", "area", "width=3", "height=4", *OURS),
    "tools lint": lambda _: ("tools", "lint", *OURS),
    "tools list": lambda _: ("tools", "list", *OURS),
    "tools search": lambda _: ("tools", "search", "area", *OURS),
    "tools schema": lambda _: ("tools", "schema", "area", "--api", "anthropic", *OURS),
    "tools show": lambda _: ("tools", "show", "area", *OURS),
    "trust": lambda _: ("trust", "--list"),
    "undo": lambda h: ("undo", *changed(h)),
    "worker": lambda _: ("worker", "stops_at_once:runs"),
}
"""A line for each command, in a workspace that is prepared."""
EXITS = {"doctor": (0, 1), "runs resume": (4,), "tools lint": (1,)}
"""How these may end; all others are done."""
MAY_BE_EMPTY = {"tools lint", "rules check"}
"""What lists nothing where nothing is wrong."""


def test_every_command_has_a_line_here() -> None:
    todo = "a new command: see the docstring of handrail.cli.commands"
    assert sorted([*LINES, "acp", "chat", "console"]) == sorted(map(" ".join, LEAVES)), todo


@pytest.mark.parametrize("words", LINES)
def test_what_a_command_prints_is_as_its_schema_says(
    prepared: Handrail, schema: Schemas, words: str
) -> None:
    ran = prepared(*LINES[words](prepared), "--json")

    assert "Traceback" not in ran.err
    assert ran.exit in EXITS.get(words, (0,)), ran.err
    document = schema(schema_of(tuple(words.split())), ran.json)
    with pytest.raises(ValidationError):
        schema(schema_of(tuple(words.split())), {**document, "more": 1})


@pytest.mark.parametrize("words", LINES)
def test_each_line_that_a_command_prints_is_as_its_schema_says(
    prepared: Handrail, schema: Schemas, words: str
) -> None:
    ran = prepared(*LINES[words](prepared), "--output", "jsonl")

    name = schema_of(tuple(words.split()))
    whole = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    assert ran.lines or words in MAY_BE_EMPTY
    for line in ran.lines:
        schema(name, line, part="line" if "line" in whole.get("$defs", {}) else "")


@pytest.mark.parametrize("words", [" ".join(one) for one in LEAVES])
def test_a_mistake_in_any_command_line_is_told_in_json(
    handrail: Handrail, schema: Schemas, words: str
) -> None:
    ran = handrail(*words.split(), "--no-such-option", "--json")

    assert (ran.exit, ran.out) == (2, "")
    assert schema("error", json.loads(ran.err))["error"]["code"] == "usage"


def test_a_chat_says_at_its_end_what_became_of_it(prepared: Handrail, schema: Schemas) -> None:
    assert prepared("chat", "--json").error["code"] == "no_terminal"
    ours, theirs = pty.openpty()
    arguments = ["chat", "What is it?", *OURS, "-m", "model.py:calls", "--json"]
    with subprocess.Popen(  # noqa: S603
        [forked.program(), *arguments],
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.PIPE,
        env=prepared.environment({"TERM": "dumb"}),
        cwd=prepared.workspace,
        start_new_session=True,
    ) as chat:
        os.close(theirs)
        _until_over(chat, ours)
        assert chat.stdout is not None
        document = json.loads(chat.stdout.read())
    os.close(ours)

    assert schema("chat", document)["reason"] == "answer"


def _until_over(chat: subprocess.Popen[bytes], terminal: int) -> None:
    """Wait for the answer, then end the input until somebody notices."""
    seen = b""
    while chat.poll() is None:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                seen += os.read(terminal, 4096)
            except OSError:  # it has gone
                break
        elif b"It is 12." in seen:
            os.write(terminal, b"\x04")
