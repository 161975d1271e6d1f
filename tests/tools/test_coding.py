"""All tools of a coding agent together, and what is left out of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.sandbox import Sandbox
from handrail.tools import Workspace, coding

ALL = ["bash", "edit", "glob", "grep", "read", "read_job", "stop_job", "web_fetch", "write"]


def names(tmp_path: Path, *without: str) -> list[str]:
    return [one.name for one in coding(Workspace(tmp_path), without=without).specs]


def test_a_coding_agent_has_nine_tools(tmp_path: Path) -> None:
    assert names(tmp_path) == ALL


def test_commands_run_in_a_sandbox_that_is_given(tmp_path: Path) -> None:
    made = coding(Workspace(tmp_path), sandbox=Sandbox(tmp_path))

    assert [one.name for one in made.specs] == ALL


@pytest.mark.parametrize("name", ["edit", "read_job", "web_fetch"])
def test_a_tool_can_be_left_out(name: str, tmp_path: Path) -> None:
    assert names(tmp_path, name) == [one for one in ALL if one != name]


def test_without_bash_there_are_no_jobs_either(tmp_path: Path) -> None:
    assert names(tmp_path, "bash") == [
        one for one in ALL if one not in {"bash", "read_job", "stop_job"}
    ]
