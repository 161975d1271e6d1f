"""The coding tools in short: the same words as the tools have themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from handrail.tools import ToolSummary, Workspace, coding_tools, list_missing_tools, outline


@pytest.mark.parametrize("without", [[], ["bash"], ["web_fetch", "read"], ["stop_job"], ["none"]])
def test_the_outline_is_what_the_tools_are(tmp_path: Path, without: list[str]) -> None:
    made = coding_tools(Workspace(tmp_path), without=without)

    assert outline(without=without) == tuple(
        ToolSummary(one.name, one.effect, one.description, one.exposure) for one in made.specs
    )


@pytest.mark.parametrize("missing", ["httpcore2", "html_to_markdown"])
def test_web_fetch_is_left_out_where_its_extra_is_not_there(
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert list_missing_tools() == {}
    monkeypatch.setitem(sys.modules, missing, None)

    coding_tools(Workspace(tmp_path), without=["bash", "web_fetch"])
    assert caplog.messages == []
    made = coding_tools(Workspace(tmp_path), without=["bash"])

    assert list_missing_tools() == {"web_fetch": "web"}
    assert caplog.messages == ["the tool 'web_fetch' is omitted: install handrail[web]"]

    assert [one.name for one in outline()] == [
        "bash",
        "edit",
        "glob",
        "grep",
        "read",
        "read_job",
        "stop_job",
        "write",
    ]
    assert [one.name for one in made.specs] == ["edit", "glob", "grep", "read", "write"]
