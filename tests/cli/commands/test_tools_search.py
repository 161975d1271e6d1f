"""`handrail tools search`, `tools list --tokens`, and what `tools lint` says of searches."""

from __future__ import annotations

import re

import pytest
from inline_snapshot import snapshot

from cli_harness import Handrail, Ran, Schemas

OFFICE = '''
from handrail import READ, WRITE, Exposure, tool

@tool(effect=READ, exposure=Exposure.DEFERRED, touches=lambda **_: ())
def list_issues(repo: str) -> str:
    """List the issues of a repository.

    Args:
        repo: The repository.
    """
    raise NotImplementedError

@tool(effect=READ, exposure=Exposure.DEFERRED, touches=lambda **_: ())
def list_issues_too(repo: str) -> str:
    """List the issues of a repository.

    Args:
        repo: The repository.
    """
    raise NotImplementedError

@tool(effect=WRITE)
def send_message(channel: str) -> str:
    """Send a message.

    Args:
        channel: The channel.
    """
    raise NotImplementedError

@tool(effect=READ, touches=lambda **_: ())
def search_tools() -> str:
    """Search the shed."""
    raise NotImplementedError

@tool(effect=READ, exposure=Exposure.SEARCH)
def find() -> str:
    """Find something."""
    raise NotImplementedError
'''


@pytest.fixture
def office(handrail: Handrail) -> Handrail:
    handrail.write("office.py", OFFICE)
    return handrail


def test_search_shows_what_a_model_would_read(office: Handrail) -> None:
    ran = office("tools", "search", "-t", "office.py", "issues", "send", "--limit", "2")

    assert ran == snapshot(
        Ran(
            exit=0,
            out="""\
"issues":
list_issues(repo: string) - List the issues of a repository
"send":
send_message(channel: string) - Send a message [asks for approval]
""",
            err="",
        )
    )


def test_search_shows_scores_by_field(office: Handrail) -> None:
    ran = office("tools", "search", "-t", "office.py", "repository", "-v")

    assert re.sub(r"\b0\.\d+", "N", ran.out) == snapshot("""\
list_issues(repo: string) - List the issues of a repository
list_issues_too(repo: string) - List the issues of a repository

list_issues      N  description N, argument texts N
list_issues_too  N  description N, argument texts N
""")


def test_search_follows_the_rules(office: Handrail) -> None:
    ran = office("tools", "search", "-t", "office.py", "--mode", "plan", "send", "-v")

    assert ran == snapshot(
        Ran(
            exit=0,
            out='No tool fits "send". The nearest namespaces: list (2). Pass one as a query to list it. Do not search for the same words again: use others.\n',
            err="",
        )
    )


def test_a_search_is_a_document_for_programs(office: Handrail, schema: Schemas) -> None:
    whole = schema(
        "tools-search", office("tools", "search", "-t", "office.py", "shed", "--json").json
    )

    (hit,) = whole["hits"]

    assert (whole["queries"], whole["text"]) == (["shed"], "search_tools() - Search the shed")
    assert (hit["name"], hit["fields"]) == ("search_tools", {"description": hit["score"]})


def test_a_search_without_tools(handrail: Handrail) -> None:
    handrail.write("none.py", "from handrail import Toolset\nnone = Toolset()\n")

    assert handrail("tools", "search", "-t", "none.py:none", "x").out == snapshot("")


def test_the_bill_of_all_tools(office: Handrail, schema: Schemas) -> None:
    ran = office("tools", "list", "-t", "office.py", "--tokens")
    whole = schema(
        "tools-list", office("tools", "list", "-t", "office.py", "--tokens", "--json").json
    )
    direct = office("tools", "list", "-t", "office.py:send_message", "--tokens")

    assert ran == snapshot(
        Ran(
            exit=0,
            out="""\
52  deferred  list_issues_too
51  deferred  list_issues
48  direct    send_message
27  direct    search_tools
24  search    find
""",
            err="5 tools, 202 tokens, 99 of them in each request\n",
        )
    )
    assert whole["tools"][-1] == snapshot(
        {
            "name": "find",
            "effect": "read",
            "exposure": "search",
            "description": "Find something.",
            "tokens": 24,
        }
    )
    assert direct == snapshot(
        Ran(exit=0, out="48  direct  send_message\n", err="1 tool, 48 tokens in each request\n")
    )


def test_lint_names_definitions_that_no_search_finds_first(office: Handrail) -> None:
    ran = office("tools", "lint", "-t", "office.py", "--api", "anthropic")

    assert ran.out == snapshot(
        "list_issues_too: no search for the words of its name and its first sentence finds it first: list_issues comes before it. Say there what only this tool does, or add a search_hint [not-found-first]\n"
    )
