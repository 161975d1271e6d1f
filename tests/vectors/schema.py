"""Hostile arguments and names: each is refused in words, and no tool body runs."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from handrail import (
    WRITE,
    Args,
    Context,
    DefinitionError,
    DuplicateName,
    Failure,
    Spec,
    Tool,
    Toolset,
    tool,
)

Parse = Callable[[str], object]
"""Reads arguments: an Args or a Failure, as ``Tool.parse`` does."""

ran: list[str] = []


@tool
def fetch(path: str, limit: Annotated[int, Field(ge=1, le=1000)] = 10) -> str:
    """Fetch something."""
    ran.append(path)
    return path * limit


@tool
def bash(command: str) -> str:
    """Run a command."""
    ran.append(command)
    return command


TOOLS = Toolset(fetch, bash)

ARGS: dict[str, str] = {
    "schema-013": '{"path":"x","limit":' + "[" * 10_000 + "]" * 10_000 + "}",
    "schema-014": json.dumps({"path": "x" * 10_000_000}),
    "schema-015": '{"path":"\\ud800"}',
    "schema-016": '{"path":"a\\u0000"}',
    "schema-004": '{"path":"x","limit":true}',
    "schema-005": '{"path":"x","limit":"10"}',
    "schema-006": '{"path":"x","limit":-1}',
    "schema-007": '{"path":"x","limit":NaN}',
    "schema-008": '{"path":"x","limit":1e400}',
    "schema-017": '{"path":"x","__class__":"x","__proto__":"y"}',
}
"""Vectors that are described rather than spelled out, or that must fail for one reason only."""


def refuses(parse: Parse, text: str) -> bool:
    """Whether arguments are refused as a value, in bounded words, before anything runs."""
    before = len(ran)
    try:
        outcome = parse(text)
    except Exception:  # noqa: BLE001  an exception that escapes is what must not happen
        return False
    return isinstance(outcome, Failure) and len(outcome.message) < 2_000 and len(ran) == before


def repairs(parse: Parse, text: str) -> bool:
    """Whether a coercion is the documented one, and is reported."""
    outcome = parse(text)
    return isinstance(outcome, Args) and len(outcome.repairs) == 1


def unknown(*names: str) -> bool:
    return all(TOOLS.find(name) is None for name in names)


def refuses_two_of_one_name() -> bool:
    try:
        Toolset(fetch, tool(name="fetch")(bash.fn))
    except DuplicateName:
        return True
    return False


def is_bounded() -> bool:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "(a+)+$"}}}
    far = Tool.remote(Spec(name="far", description="", input_schema=schema), _nowhere)
    started = time.process_time()
    far.parse(json.dumps({"x": "a" * 100_000 + "!"}))
    return time.process_time() - started < 20


def ignores_hints() -> bool:
    schema = {"type": "object", "annotations": {"readOnlyHint": True}, "readOnly": True}
    return (
        Tool.remote(Spec(name="far", description="", input_schema=schema), _nowhere).spec.effect
        == WRITE
    )


def checks_defaults() -> bool:
    def wrong(path: Annotated[str, Field(max_length=2)] = "/etc") -> str:
        return path

    try:
        tool(wrong)
    except DefinitionError:
        return True
    return False


async def _nowhere(_args: object, _context: Context) -> None: ...


OTHER: dict[str, Callable[[], bool]] = {
    "schema-018": lambda: unknown("imaginary_tool"),
    "schema-019": lambda: unknown("Bash", "bash ", " bash", "BASH", "bash\n"),
    "schema-020": refuses_two_of_one_name,
    "schema-021": lambda: unknown("../x", "./bash", "bash/../fetch"),
    "schema-022": is_bounded,
    "schema-023": ignores_hints,
    "schema-024": checks_defaults,
}


def holds(vector: dict[str, Any]) -> bool:
    """Whether the library does what the vector expects."""
    if vector["id"] in OTHER:
        return OTHER[vector["id"]]()
    text = ARGS.get(vector["id"], vector["input"]["args"])
    if vector["id"] == "schema-005":
        return repairs(fetch.parse, text)
    return refuses(fetch.parse, text)


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many vectors a naive parser lets through: plain json.loads, then a lax TypeAdapter."""
    adapter = TypeAdapter(fetch.fn)

    def naive(text: str) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            adapter.validate_python(json.loads(text))
        return Args({}, text)

    caught = [v for v in vectors if v["id"] not in OTHER]
    return sum(not refuses(naive, ARGS.get(v["id"], v["input"]["args"])) for v in caught)
