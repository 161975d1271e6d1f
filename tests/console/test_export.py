"""A run as one file: from the same templates as its page, with everything in it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from console.scenes import make_file
from console.visits import read_page
from handrail.console import export_run
from handrail.runs import RunRecord, open_runs


def export(file: Path, run: str) -> str:
    with closing(open_runs(file).records()) as records, closing(open_runs(file)) as journal:
        lines = list(RunRecord(journal, run).lines())
        return export_run(records, run, lines, {"journal": "9 entries, whole"})


def test_a_file_has_every_call_with_its_events_and_leads_nowhere(tmp_path: Path) -> None:
    page = read_page(export(make_file(tmp_path), "ab12cd"))

    words = [
        "Run ab12cd",
        "journal9 entries, whole",
        "waited 2.0 s for #1 bash",
        "denied by no-force (rules.toml:12)",
        "decided · deny · no-force (rules.toml:12)",
        "Result, as the model got itdone",
    ]
    assert [one for one in words if one not in page.text] == []
    assert page.text.count("What happened") == 3
    assert {one[:1] for one in page.addresses} == {"#", "d"}  # a place in the file, or its own data
    assert {tag for tag, _ in page.elements} & {"script", "form", "img", "iframe"} == set()


def test_a_run_without_a_record_is_not_exported(tmp_path: Path) -> None:
    file = make_file(tmp_path)
    with closing(open_runs(file)) as journal:
        RunRecord(journal, "plain").note([json.loads('{"event": "prompt", "text": "Hi."}')])

    assert "Hi." in read_page(export(file, "plain")).text
    with pytest.raises(LookupError):
        export(file, "none")
