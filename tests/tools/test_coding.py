"""All tools of a coding agent together, and what is left out of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import Call, Executor
from handrail.net import Guard
from handrail.policy import Rulebook, builtin_rules
from handrail.providers import anthropic
from handrail.sandbox import Sandbox
from handrail.tools import Jobs, Workspace, bash, coding_tools, hide_denied, web_fetch
from handrail.tools._descriptions import CommandFacts, describe_bash

MAX_BLOCK_TOKENS = 2_500
"""What the tools may cost in every request, at four characters per token."""

ALL = ["bash", "edit", "glob", "grep", "read", "read_job", "stop_job", "web_fetch", "write"]


def names(tmp_path: Path, *without: str) -> list[str]:
    return [one.name for one in coding_tools(Workspace(tmp_path), without=without).specs]


def test_a_coding_agent_has_nine_tools(tmp_path: Path) -> None:
    assert names(tmp_path) == ALL


def test_commands_run_in_a_sandbox_that_is_given(tmp_path: Path) -> None:
    made = coding_tools(Workspace(tmp_path), sandbox=Sandbox(tmp_path))

    assert [one.name for one in made.specs] == ALL


@pytest.mark.parametrize("listed", [True, False])
def test_what_the_workspace_hides_is_hidden_from_programs_if_the_policy_can_list_it(
    tmp_path: Path,
    *,
    listed: bool,
) -> None:
    (tmp_path / ".env").write_text("canary\n", encoding="utf-8")
    (tmp_path / "peek.py").write_text("print(open('.env').read())\n", encoding="utf-8")
    rules = Rulebook(builtin_rules("read_only", "development"), mode="edits", sandboxed=True)
    workspace = Workspace(tmp_path, hides=hide_denied(rules if listed else rules.__call__))
    call = Call("bash", {"command": "python3 peek.py 2>&1 | tail -n 2"}, "1")
    made = Executor(coding_tools(workspace), policy=rules).run_sync(call)

    assert ("canary" in made.text, "Permission denied" in made.text) == (not listed, listed)


@pytest.mark.parametrize("name", ["edit", "read_job", "web_fetch"])
def test_a_tool_can_be_left_out(name: str, tmp_path: Path) -> None:
    assert names(tmp_path, name) == [one for one in ALL if one != name]


def test_without_bash_there_are_no_jobs_either(tmp_path: Path) -> None:
    assert names(tmp_path, "bash") == [
        one for one in ALL if one not in {"bash", "read_job", "stop_job"}
    ]


def test_all_tools_together_cost_little_in_every_request(tmp_path: Path) -> None:
    block = anthropic.encode_tools(coding_tools(Workspace(tmp_path)))
    text = json.dumps(block, separators=(",", ":"), ensure_ascii=False)

    assert len(text) / 4 <= MAX_BLOCK_TOKENS


def test_no_description_breaks_a_line_within_a_sentence(tmp_path: Path) -> None:
    for spec in coding_tools(Workspace(tmp_path)).specs:
        first, blank, rest = spec.description.split("\n")
        assert (first[-1], blank, rest[-1]) == (".", "", "."), spec.name


@pytest.mark.anyio
async def test_the_folder_lasts_from_one_turn_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    async with Executor(coding_tools(Workspace(tmp_path))) as executor:
        texts = [
            (await executor.run(Call("bash", {"command": command}, "c1"))).text.splitlines()[0]
            for command in ("cd web", "pwd", "cd ..", "pwd")
        ]

    assert texts == ["(no output)", f"{tmp_path}/web", "(no output)", str(tmp_path)]


SETTINGS: dict[str, dict[str, Any]] = {
    "hosts": {"network": ["a.org", "*.b.org"]},
    "many hosts": {"network": [f"h{n}.org" for n in range(12)]},
    "writable": {"writable": ["/var/cache", ".venv", ".git"]},
    "landlock": {"tier": "landlock"},
}


def test_the_description_of_bash_says_what_the_sandbox_allows(tmp_path: Path) -> None:
    usual = bash(Sandbox(tmp_path)).spec.description.split(". ")
    described = {
        name: bash(Sandbox(tmp_path, **options)).spec.description.split(". ")
        for name, options in SETTINGS.items()
    }

    assert {
        name: [part for part in parts if part not in usual] for name, parts in described.items()
    } == snapshot(
        {
            "hosts": ["Network access only to localhost, a.org and *.b.org"],
            "many hosts": [
                "Network access only to localhost, h0.org, h1.org, h2.org, h3.org, h4.org, h5.org, h6.org, h7.org, h8.org and 3 more"
            ],
            "writable": ["Only the workspace, /var/cache and $TMPDIR are writable"],
            "landlock": [
                "No network, not even localhost",
                "Only the workspace and $TMPDIR are writable",
            ],
        }
    )


def test_the_description_of_bash_says_what_can_run_on(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)

    assert "background" not in bash(sandbox).spec.description
    assert "use background to keep one running" in bash(sandbox, jobs=Jobs()).spec.description


def test_the_description_of_bash_says_where_servers_can_be_reached() -> None:
    each = [
        CommandFacts(),
        CommandFacts(network=["a.org"]),
        CommandFacts(shares_loopback=False),
        CommandFacts(shares_loopback=False, network=["a.org"]),
    ]

    assert [
        [part for part in describe_bash(facts).split(". ") if "localhost" in part] for facts in each
    ] == snapshot(
        [
            [
                "No network access, except to localhost",
                "Commands reach the servers of jobs at localhost",
            ],
            [
                "Network access only to localhost and a.org",
                "Commands reach the servers of jobs at localhost",
            ],
            ["Each command has its own localhost: start a server and call it in one command"],
            ["Each command has its own localhost: start a server and call it in one command"],
        ]
    )


def test_the_description_of_bash_says_which_python_it_is(tmp_path: Path) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").touch(0o755)
    described = [
        bash(Sandbox(tmp_path, tier=tier)).spec.description.split(". ")
        for tier in ("bubblewrap", "landlock")
    ]

    assert [
        [part for part in parts if "PATH:" in part or "in PATH" in part] for parts in described
    ] == snapshot(
        [[".venv/bin is first in PATH"], [".venv/bin is not in PATH: use .venv/bin/python"]]
    )


def test_the_description_of_web_fetch_says_what_the_guard_allows() -> None:
    guard = Guard(networks=("10.1.0.0/16",), names=("wiki.internal",), ports=frozenset({8080}))
    described = web_fetch(guard=guard).spec.description

    assert [part for part in described.split(". ") if "reaches" in part] == snapshot(
        ["It reaches only public hosts, 10.1.0.0/16 and wiki.internal, on port 8080"]
    )
