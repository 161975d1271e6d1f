"""Prompts of MCP servers in a chat: a person begins with one, and reads it as the server's words."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.test_chat_commands import ENTER, Chat
from cli_harness import Handrail
from cli_runs import journal_runs
from handrail import Text
from handrail.messages import Prompt

RAW = Path(__file__).parents[1] / "mcp_client" / "raw_server.py"


@pytest.fixture
def chat(handrail: Handrail) -> Iterator[Chat]:
    for name, reviews in (("shop", True), ("strange", False)):
        words = ("--", sys.executable, "-S", str(RAW), "prompts")
        added = handrail("mcp", "add", name, "--no-sandbox", *words)
        reviewed = handrail("mcp", "review", name, "--yes") if reviews else added
        assert (added.exit, reviewed.exit) == (0, 0), added.err + reviewed.err
    made = Chat(handrail, "--without", "bash")
    yield made
    made.pty.end()


SENT = ["sent, in the words of the MCP server shop:"]
ANSWER = ["  │ [An answer that the server suggests:]", "  │ Of course."]
WORDS = "@notes.txt /quit"


def find_rows(chat: Chat) -> list[str]:
    """What the help says of the server's prompts."""
    return [" ".join(row.split()) for row in chat("/help") if row.startswith("/shop")]


def test_a_prompt_of_a_server_begins_a_turn(chat: Chat, handrail: Handrail) -> None:
    before, listed, after = find_rows(chat), chat("/shop:"), find_rows(chat)
    both = chat("/shop:greet Ada 'very kind'")
    named = chat("/shop:greet tone=kind Ada Lovelace")
    none = chat("/shop:plain")
    ended = chat.ends()
    [run] = journal_runs(handrail)
    prompts = [one for one in run.state().messages if isinstance(one, Prompt)]

    assert listed == [
        "/shop:greet name [tone]  Greet\\x1b someone",
        "/shop:plain",
        "/shop:slow",
        "/shop:empty",
    ]
    assert (before, after) == (
        ["/shop: list its prompts"],
        [" ".join(row.split()) for row in listed],
    )
    told = '{"name": "Ada", "tone": "very kind"}'
    assert both[:5] == [*SENT, f"  │ greet {told}", f"  │ {WORDS}", *ANSWER]
    assert named[1] == '  │ greet {"name": "Ada Lovelace", "tone": "kind"}'
    assert (none[1], none[20:22]) == ("  │ plain {}", ["  │ .", "  │ … 9 more"])
    assert ended == 0
    assert len(prompts) == 3
    assert prompts[0].parts == (
        Text(f"greet {told}\n{WORDS}", quoted=True),
        Text("[An answer that the server suggests:]\nOf course.", quoted=True),
    )


def test_what_cannot_be_sent_is_said(chat: Chat, handrail: Handrail) -> None:
    said = {
        line: chat(line)
        for line in (
            *("/shop:greet", "/shop:plain Ada", "/shop:great Ada", "/shop:empty", "/strange:greet"),
            "/etc:passwd",
        )
    }
    os.mkfifo(handrail.workspace / "asked")
    chat.pty.types("/shop:slow\r")
    with (handrail.workspace / "asked").open(encoding="utf-8"):  # the server has been asked
        chat.pty.types("\x03")
        chat.pty.sees("stopped")
        chat.pty.sees(ENTER)
    kept = handrail.config / "mcp" / "shop.json"
    kept.write_text("[", encoding="utf-8")
    broken = chat("/shop:")
    ended = chat.ends()
    [run] = journal_runs(handrail)
    sent = [one for one in run.state().messages if isinstance(one, Prompt)]

    assert said == {
        "/shop:greet": ["/shop:greet needs name", "  type /shop:greet name [tone]"],
        "/shop:plain Ada": ["/shop:plain takes no 'Ada'", "  type /shop:plain"],
        "/shop:great Ada": ["there is no prompt shop:great", "  did you mean /shop:greet?"],
        "/shop:empty": ["the server sent a prompt without text", "  use another one"],
        "/strange:greet": [
            "the tools of strange are not reviewed",
            "  review them with `handrail mcp review strange`",
        ],
        "/etc:passwd": ["  1: /etc:passwd"],  # no server has this name, so it is a message
    }
    assert "".join(broken).replace(" ", "") == (
        f"{kept}cannotberead:Expectingvalue:line1column2(char1).Removeit.thenreviewtheserveragain"
    )
    assert ([one.parts for one in sent], ended) == ([(Text("/etc:passwd"),)], 0)
