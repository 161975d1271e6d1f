"""A chat in a real terminal with a real model server: llama.cpp's, with a small model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli.terminal import Open, opened
from cli_harness import Handrail
from cli_runs import journal_runs
from tiny_server import Tiny

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


@pytest.fixture
def tmux(handrail: Handrail) -> Iterator[Open]:
    yield from opened(handrail)


@pytest.mark.soak
def test_a_chat_goes_on_over_two_processes(tmux: Open, handrail: Handrail, server: str) -> None:
    handrail.write("t.py", TOOL)
    pane = tmux(100)
    pane.runs(
        *("chat", "Say hello.", "--model", "openai-chat:small", "--base-url", f"{server}/v1"),
        *("--tools", "t.py", "--system", "Be brief.", "--max-tokens", "12", "--max-turns", "1"),
    )
    head = "openai-chat:small · mode ask · 1 tool · /help"
    first = pane.shows("\n>")
    pane.types("/quit")
    codes = [pane.ends()]
    pane.runs("chat", "--resume", "last")
    pane.answers("And goodbye.", after="\n>")
    second = pane.shows("\n>", times=2)
    pane.types("/quit")
    codes.append(pane.ends())

    [saved] = journal_runs(handrail)
    state = saved.state()
    assert (codes, first[0], second[0]) == ([0, 0], head, head)
    assert (state.turns, state.usage.output_tokens > 2) == (2, True)
    assert [row for row in first if "failed" in row] == []
