"""The list of runs, and a run: its turns and calls, why each waited, and who sees what."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from console.scenes import make_file
from console.visits import read_page, visit
from handrail.runs import RunRecord, open_runs
from replying import WAYS, Way, stream_lines

AT = 1_763_350_000.0


@pytest.fixture(scope="module", params=WAYS)
def file(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    return make_file(tmp_path_factory.mktemp("runs"), request.param)


in_one_way = pytest.mark.parametrize("file", ["whole"], indirect=True)
in_each_way = pytest.mark.parametrize("way", WAYS)


def said(found: Any) -> str:
    return read_page(found.text).text.replace("\u00a0", " ")


def calls_of(page: Any) -> list[tuple[str, int]]:
    """Return the heading of each turn, and how many calls are below it."""
    parts = re.split("<h2>((?:Turn|Prompt|Calls)[^<]*)</h2>", page.text)
    return [
        (name, part.count('class="call"'))
        for name, part in zip(parts[1::2], parts[2::2], strict=True)
    ]


@in_one_way
def test_runs_are_listed_with_figures_and_found_again(file: Path) -> None:
    person = visit(file, "admins")
    text = said(person.get("/runs"))

    assert "5last 24 h" in text
    assert "? waits for approval 4 requests" in text
    assert "✓ done" in text
    found = said(person.get("/runs?q=tests+pass"))
    assert ("ab12cd" in found, "c03f5e" in found) == (True, False)
    assert "No run matches" in said(person.get("/runs?q=nothing+here"))
    assert "c03f5e" not in said(person.get("/runs?status=done"))
    assert "No run matches" in said(person.get("/runs?reason=odd"))


def test_runs_are_found_by_status_and_by_why_they_ended(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    for reason in ("answer", "limit"):
        run = RunRecord(open_runs(file), f"ends-with-{reason}")
        run.set_status(status="done", reason=reason, agent="coder")
    RunRecord(open_runs(file), "new").set_status(status="queued", reason="")
    person = visit(file, "admins")

    def found(query: str) -> list[str]:
        return re.findall(
            r"<code><bdi>([a-z-]+)</bdi></code></a>", person.get(f"/runs{query}").text
        )

    assert found("") == ["new", "ends-with-limit", "ends-with-answer"]
    assert found("?status=done") == ["ends-with-limit", "ends-with-answer"]
    assert found("?status=done&reason=limit") == ["ends-with-limit"]
    assert found("?status=queued&reason=limit") == []
    page = person.get("/runs?status=done&reason=limit").text
    options = re.findall(r'<option value="(\w*)"( selected)?>([^<]*)</option>', page)
    assert options == [
        ("", "", "all"),
        ("queued", "", "queued"),
        ("running", "", "running"),
        ("waiting", "", "waits for approval"),
        ("done", " selected", "done"),
        ("failed", "", "failed"),
        ("cancelled", "", "cancelled"),
        ("", "", "all"),
        ("answer", "", "answer"),
        ("limit", " selected", "limit reached"),
        ("interrupted", "", "interrupted"),
        ("stopped", "", "stopped"),
        ("truncated", "", "answer cut off"),
        ("refused", "", "refused"),
        ("empty", "", "no answer"),
        ("invalid", "", "invalid answer"),
        ("error", "", "error"),
    ]


def test_an_empty_list_says_how_to_start_a_run(tmp_path: Path) -> None:
    assert "No runs yet" in said(visit(tmp_path / "new.db", "admins").get("/runs"))


def test_a_run_shows_its_calls_and_why_they_waited(file: Path) -> None:
    page = visit(file, "admins").get("/runs/ab12cd?call=2")
    text = said(page)

    for words in (
        "Make the tests pass, then push.",
        "I read the parser and run its tests.",
        "3,210 tokens in, 96 out",
        "waited 2.00 s for #1 bash",
        "approved",
        "denied by no-force (rules.toml:12)",
        "decided · allow · no-force (rules.toml:12)",
        "Arguments, as recorded",
        "Result, as the model got it",
    ):
        assert words in text
    labels = [one for one in read_page(page.text).attributes if "waited" in one]
    assert "waited 2.00 s, ran 2.00 s" in labels
    assert calls_of(page) == [("Prompt", 0), ("Turn 1", 3)]


def test_a_viewer_sees_the_shape_of_a_run_and_not_its_content(tmp_path: Path) -> None:
    file = make_file(tmp_path)
    text = said(visit(file, "viewers").get("/runs/c03f5e?call=1"))

    assert "refund" in text
    assert "Arguments, as recorded" not in text
    assert "88213" not in text
    assert "Arguments, as recorded" in said(visit(file, "auditors").get("/runs/c03f5e?call=1"))


@in_each_way
def test_a_strip_says_how_long_a_run_waited_for_people(tmp_path: Path, way: Way) -> None:
    file = tmp_path / "journal.db"
    run = RunRecord(open_runs(file), "shop")
    run.set_status(status="running", agent="shop")
    at = time.time()  # after the status
    reply = {"event": "reply", "model": "m", "stop": "tools", "usage": {}, "seconds": 2.0}
    call = {"turn": 1, "call_id": "c1", "tool": "refund"}
    lines = [
        {"at": at, "event": "prompt", "text": "Refund order 88213."},
        {**reply, "at": at + 2, "turn": 1, "text": "I refund it."},
        {**call, "at": at + 2, "event": "requested", "args": {}},
        {**call, "at": at + 2, "event": "asked", "pending": "p1", "question": "?"},
        {**call, "at": at + 62, "event": "answered", "answer": "allow", "by": "ana"},
        {**call, "at": at + 62, "event": "started", "attempt": 1},
        {**call, "at": at + 63, "event": "finished", "kind": "", "text": "refunded"},
        {**reply, "at": at + 65, "turn": 2, "text": "The order is refunded."},
    ]
    run.note(stream_lines(way, lines))
    page = visit(file, "admins").get("/runs/shop")
    strip = "Whole run: 4.00 s of models, 1.00 s of calls, 1m of waiting for approval"

    assert strip in page.text.replace("\u00a0", " ")
    assert calls_of(page) == [("Prompt", 0), ("Turn 1", 1), ("Turn 2", 0)]
    assert "The order is refunded." in said(page)
    assert "before this" not in said(page)


def make_long(folder: Path, *, turns: int, each: int = 10) -> Path:
    """A journal with a run of ten calls in each turn."""
    file = folder / "journal.db"
    run = RunRecord(open_runs(file), "long")
    run.set_status(status="running", agent="coder", prompt="Work.")
    lines: list[dict[str, Any]] = []
    for turn in range(turns):
        at = AT + turn * 20
        lines.append(
            {"at": at, "event": "reply", "turn": turn + 1, "model": "m", "text": "On.", "usage": {}}
        )
        for number in range(each):
            call = {"at": at + number, "turn": turn + 1, "call_id": f"c{turn}-{number}"}
            lines += [
                {**call, "event": "requested", "tool": "read_file", "args": {"path": "a"}},
                {**call, "event": "started", "attempt": 1},
                {**call, "event": "finished", "kind": "", "text": "x"},
            ]
    run.note(lines)
    run.set_status(status="failed", reason="error", why="the model did not answer")
    return file


@pytest.mark.soak
@pytest.mark.parametrize(("turns", "each"), [(1_000, 10), (10_000, 1)])
def test_the_first_page_of_ten_thousand_calls_is_cheap_and_small(
    tmp_path: Path, turns: int, each: int
) -> None:
    person = visit(make_long(tmp_path, turns=turns, each=each), "admins")
    page = person.get("/runs/long")
    spent = list[float]()
    for _ in range(5):
        began = time.process_time()
        person.get("/runs/long")
        spent.append(time.process_time() - began)
    nodes = len(read_page(page.text).elements) + len(read_page(page.text).texts)
    print(f"{min(spent) * 1000:.0f} ms of CPU, {nodes} nodes, {len(page.text)} bytes")  # noqa: T201

    assert f"Turn {turns}" in page.text
    assert nodes <= 6_000
    assert min(spent) < 0.05


def test_pages_of_a_long_run_go_on_by_key_and_stay_small(tmp_path: Path) -> None:
    file = make_long(tmp_path, turns=30)
    person = visit(file, "admins")
    opened, first = person.get("/runs/long"), person.get("/runs/long?turn=1")
    pages, path = list[str](), "/runs/long?turn=1"
    while path:
        pages.append(person.get(path).text)
        more = [
            one for one in read_page(pages[-1]).addresses if "after=" in one and "call=" not in one
        ]
        path = more[0] if more else ""

    assert "290 calls before this." in said(opened)
    assert "the model did not answer" in said(opened)
    assert [page.count('class="call"') for page in pages] == [100, 100, 100]
    assert len(first.text) < 60_000
    assert len(read_page(first.text).elements) < 2_000
    assert (len(first.text) - len(opened.text)) / 90 < 500  # bytes of a call
    assert person.get("/runs/long?turn=x&after=-1&call=zzz").status_code == 200
    assert person.get("/runs/long?call=999").status_code == 200


@in_one_way
def test_runs_without_an_engine_have_no_fleet(file: Path) -> None:
    assert "No workers here" in said(visit(file, "admins").get("/fleet"))
    assert visit(file, "approvers").get("/fleet").status_code == 404
    assert '"/fleet"' not in visit(file, "approvers").get("/runs").text


def test_a_run_without_calls_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    run = RunRecord(open_runs(file), "new")
    run.set_status(status="odd", agent="", prompt="")
    assert "Nothing is recorded yet." in said(visit(file, "admins").get("/runs/new"))
    run.note([{"event": "prompt", "at": AT, "text": "Hello"}])
    text = said(visit(file, "admins").get("/runs/new"))

    assert ("Prompt" in text, "odd" in text) == (True, True)
    assert "unknown time" not in text


def test_a_call_of_a_reply_that_is_not_complete_is_in_its_turn(tmp_path: Path) -> None:
    """A page that is live shows it while the model still replies."""
    file = tmp_path / "journal.db"
    run = RunRecord(open_runs(file), "live")
    run.set_status(status="running", agent="coder", prompt="Work.")
    call = {"at": AT, "event": "requested", "tool": "look", "args": {}}
    reply = {"at": AT, "event": "reply", "model": "m", "usage": {}}
    person = visit(file, "admins")

    run.note([{"event": "prompt", "at": AT, "text": "Work."}])
    run.note([{**reply, "turn": 1}, {**call, "turn": 1, "call_id": "c1"}])
    run.note([{**call, "turn": 2, "call_id": "c1"}])
    early = person.get("/runs/live?turn=1")
    run.note([{**reply, "turn": 2, "usage": {"input_tokens": 7}}])
    late = person.get("/runs/live?turn=1")

    turns = [("Prompt", 0), ("Turn 1", 1), ("Turn 2", 1)]
    assert (calls_of(early), calls_of(late)) == (turns, turns)
    assert ("7 tokens in" in said(early), "7 tokens in" in said(late)) == (False, True)


def test_calls_of_no_agent_have_a_heading_without_a_number(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    run = RunRecord(open_runs(file), "served")
    run.note([{"at": AT, "event": "requested", "call_id": "c1", "tool": "look", "args": {}}])

    assert calls_of(visit(file, "admins").get("/runs/served")) == [("Calls", 1)]
