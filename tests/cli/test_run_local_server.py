"""A run with a real model server: llama.cpp's, with a small model."""

from __future__ import annotations

import pytest

from cli_harness import Handrail, Schemas
from tiny_server import Tiny

pytestmark = pytest.mark.timeout(600)  # a model takes its time on a busy machine
TOOL = '''\
from handrail import READ, tool


@tool(effect=READ)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''


@pytest.fixture
def server(tiny: Tiny) -> str:
    return tiny.url


@pytest.mark.parametrize("provider", ["openai-chat", "openai", "anthropic"])
def test_its_words_are_streamed(
    handrail: Handrail, schema: Schemas, server: str, provider: str
) -> None:
    handrail.write("t.py", TOOL)
    url = server if provider == "anthropic" else f"{server}/v1"

    ran = handrail(
        *("run", "Say hello.", "--model", f"{provider}:small", "--base-url", url),
        *("--tools", "t.py", "--system", "Be brief.", "--max-tokens", "12", "--max-turns", "1"),
        *("--output", "jsonl"),
    )

    lines = [schema("run", line, part="line") for line in ran.lines]
    assert ran.exit in (0, 5), ran.err  # it may call the tool, and then would go on
    end = lines[-1]
    pieces = [one["text"] for one in lines if one["type"] == "text"]
    assert len(pieces) > 1
    assert (end["answer"], end["turns"]) == ("".join(pieces), 1)
    assert end["usage"]["output_tokens"] > 1
