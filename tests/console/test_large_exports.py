"""Large exports: a few megabytes of memory, bytes that can be verified, and an end."""

from __future__ import annotations

import queue
from collections.abc import Generator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cli_harness import made
from console.browser import serving
from console.crowd import Server, crowded
from console.scenes import make_console
from console.visits import SECRET
from handrail.console import _audit as audit
from handrail.runs import RunRecord, open_runs

EVENTS = 9_990
CHARS = 10_500
MOST = 16.0
"""Megabytes that an export may add."""


def make_large(folder: Path, *, events: int, chars: int, each: int = 100) -> Path:
    """A journal with large events."""
    file = folder / "journal.db"
    with closing(open_runs(file)) as journal:
        run = RunRecord(journal, "large")
        run.set_status(status="running", agent="coder", prompt="Work.")
        for start in range(0, events, each):
            some = range(start, min(start + each, events))
            run.note([_make_event(number, chars) for number in some])
        run.set_status(status="done", reason="answer")
    return file


def _make_event(number: int, chars: int) -> dict[str, Any]:
    call = {"at": 1_763_350_000.0 + number, "call_id": f"c{number}"}
    return {**call, "event": "requested", "tool": "look", "args": {"text": "t" * chars}}


HEADERS = {
    "x-handrail-secret": SECRET,
    "x-forwarded-user": "ana",
    "x-forwarded-groups": "admins",
}


def download(server: Server, path: str, file: Path) -> float:
    """Write what a path returns to a file, and return the memory that this added, in MB."""
    before, url = server.reset_peak(), f"http://127.0.0.1:{server.port}{path}"
    with httpx2.stream("GET", url, headers=HEADERS, timeout=60) as found, file.open("wb") as out:
        assert found.status_code == 200
        for part in found.iter_bytes():
            out.write(part)
    return server.peak - before


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_an_export_of_a_hundred_megabytes_needs_few_of_them(tmp_path: Path) -> None:
    file = make_large(tmp_path, events=EVENTS, chars=CHARS)
    handrail = made(tmp_path)
    found = dict[str, tuple[float, int]]()
    with crowded(file) as server:
        download(server, "/audit/export.jsonl?kind=prompt", tmp_path / "first")
        for path in ("/audit/export.jsonl", "/audit/export.csv", "/audit/chain/large"):
            grown = download(server, path, tmp_path / "body")
            found[path] = grown, (tmp_path / "body").stat().st_size
    with crowded(file, page_size=EVENTS) as server:
        download(server, "/audit?kind=prompt", tmp_path / "first")
        whole = download(server, "/audit", tmp_path / "page")
    for path, (grown, size) in found.items():
        print(f"{path}: {size / 1e6:.0f} MB sent, {grown:.1f} MB of memory")  # noqa: T201

    small = [path for path, (_, size) in found.items() if size < 100_000_000]
    assert small == ["/audit/export.csv"]  # it has no arguments
    assert [path for path, (grown, _) in found.items() if grown > MOST] == []
    assert whole > 4 * MOST  # the control: all events in memory at once
    assert handrail("runs", "verify", "--from", str(tmp_path / "body")).exit == 0


@pytest.mark.parametrize("path", ["/audit/export.jsonl", "/audit/chain/large"])
def test_an_export_ends_when_its_client_goes_away(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make_large(tmp_path, events=30, chars=500_000, each=1)
    monkeypatch.setattr("handrail.runs._reading.exports._PAGE", 1)
    ended = queue.Queue[int]()

    def count(texts: Generator[str], media: str, name: str) -> Any:
        def note() -> Generator[str]:
            sent = 0
            try:
                for text in texts:
                    yield text
                    sent += 1
            finally:
                ended.put(sent)

        return download_as(note(), media, name)

    download_as = audit._download  # noqa: SLF001  what every export passes through
    monkeypatch.setattr(audit, "_download", count)
    sent = list[int]()
    with serving(partial(make_console, file)) as (url, _), httpx2.Client(headers=HEADERS) as client:
        for stays in (False, True):
            with client.stream("GET", f"{url}{path}", timeout=60) as found:
                size = 0
                for part in found.iter_bytes():
                    size += len(part)
                    if not stays:
                        break
            sent.append(ended.get(timeout=60))

    assert 0 < sent[0] < 30 <= sent[1]
    assert size > 15_000_000  # the control: who stays gets all of it
