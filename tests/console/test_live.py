"""Live pages: a stream sends the parts that changed, to those who may see them."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio import to_thread
from starlette.testclient import TestClient

from console.browser import serving
from console.scenes import make_console
from console.visits import BEHIND_A_PROXY, HOST, SECRET, make_pending, park, visit
from handrail import Allow, Text
from handrail.agent import Agent
from handrail.console import Console
from handrail.console._request import to_path
from handrail.console._store import Store
from handrail.messages import Delta, Reply, Request, StreamItem
from handrail.runs import Claimant, open_runs
from handrail.runs.durable import DurableRuns

REQUEST = f"/inbox/{to_path(make_pending('r1').id)}"


@contextmanager
def streaming(url: str, page: str, group: str = "admins", **headers: str) -> Generator[Any]:
    """Open a stream as a browser does."""
    known = {"x-handrail-secret": SECRET, "x-forwarded-user": "ana", "x-forwarded-groups": group}
    with (
        httpx2.Client(timeout=60, headers={**known, **headers}) as client,
        client.stream("GET", f"{url}/stream", params={"page": page}) as found,
    ):
        yield found


def read_events(lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    """The number and the HTML of each event."""
    number = 0
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "id":
            number = int(value)
        elif name == "data":
            yield number, json.loads(value)


def test_a_stream_sends_a_page_and_sends_it_again_when_it_changes(file: Path) -> None:
    journal = open_runs(file)
    with (
        serving(partial(make_console, file)) as (url, _),
        streaming(url, REQUEST) as found,
        streaming(url, "/runs/r1") as other,
    ):
        events, turns = (read_events(one.iter_lines()) for one in (found, other))
        first, run = next(events), next(turns)
        park(journal, make_pending("later"))
        second = next(events)
        while "later" not in second[1]:  # each line of the journal can be an event
            second = next(events)
        journal.answer_now(make_pending("r1").id, Allow(), by=Claimant("ben"))
        third = next(events)
        while third[1].count('data-seen=""') == 0:
            third = next(events)
        after = next(turns)
        media = found.headers["content-type"]

    assert media.startswith("text/event-stream")
    assert found.headers["cache-control"] == "no-store"
    assert first[1].lstrip().startswith('<section class="list" id="list" data-live="hold"')
    assert "<html" not in first[1]
    assert (first[0], "later" in first[1], "later" in second[1]) == (0, False, True)
    assert first[0] < second[0] < third[0]
    assert ('id="turn-2" data-live="replace"' in run[1], after[0] > run[0]) == (True, True)


def talk(database: str, started: threading.Event, go: threading.Event) -> None:
    """Work on a run. Its model says the last word when it may go."""

    async def model(_: Request) -> AsyncIterator[StreamItem]:
        yield Delta("Half <b> of ")
        await to_thread.run_sync(go.wait)
        yield Reply((Text("Half <b> of it."),))

    async def work() -> None:
        async with DurableRuns(database, {"shop": Agent(model)}, poll=0.05) as runs:
            await runs.start("shop", "Count.", run_id="r")
            started.set()
            async with runs.work(interval=0.1):
                await runs.wait("r", seconds=60)

    anyio.run(work)


def test_a_runs_page_shows_a_reply_while_it_arrives(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    started, go = threading.Event(), threading.Event()
    worker = threading.Thread(target=talk, args=(str(file), started, go))
    worker.start()
    started.wait()
    shown = list[bool]()
    with (
        serving(partial(make_console, file)) as (url, _),
        streaming(url, "/runs/r") as found,
        streaming(url, "/runs/r") as other,
    ):
        pages = read_events(found.iter_lines())
        first = read_events(other.iter_lines())
        next(first)
        for _, html in pages:
            _, _, writing = html.partition('<div id="writing" data-live="replace">')
            shown.append("Half &lt;b&gt; of" in writing)
            if shown[-1]:
                go.set()
            elif any(shown) and "Half &lt;b&gt; of it." in html:
                break
    worker.join()

    assert any(shown)


def test_streams_of_one_person_share_a_page_and_others_have_their_own(file: Path) -> None:
    with serving(partial(make_console, file)) as (url, _), ExitStack() as opened:
        tokens = list[str]()
        for name in ("ana", "ana", "ben"):
            found = opened.enter_context(streaming(url, "/inbox", **{"x-forwarded-user": name}))
            html = next(read_events(found.iter_lines()))[1]
            tokens += re.findall(r'name="csrf" value="([^"]+)"', html)

    assert (tokens[0] == tokens[1], tokens[0] == tokens[2], len(tokens)) == (True, False, 3)


def test_a_stream_continues_and_ends_so_that_its_person_is_checked_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.console._stream.GAP_SECONDS", 0.01)
    monkeypatch.setattr("handrail.console._stream.MAX_PLACES", 1)  # the others are forgotten
    with serving(partial(make_console, file)) as (url, _):
        with streaming(url, "/inbox") as found:
            events = read_events(found.iter_lines())
            next(events)
            park(open_runs(file), make_pending("r4"))
            place, text = next(events)
            while "Waiting for you · 3" not in text:
                place, text = next(events)
        monkeypatch.setattr("handrail.console._stream.MAX_WAKES", 3)
        monkeypatch.setattr("handrail.console._stream.QUIET_SECONDS", 0.01)
        sent = []
        for last in (str(place), "1"):
            with streaming(url, "/inbox", **{"last-event-id": last}) as found:
                sent.append(list(found.iter_lines()))

    assert [line for line in sent[0] if line] == [":"] * 3  # nothing is new
    assert len(list(read_events(iter(sent[1])))) == 1


def test_a_stream_shows_what_its_page_shows(file: Path) -> None:
    with serving(partial(make_console, file)) as (url, _):
        with streaming(url, REQUEST, "viewers") as found:
            seen = next(read_events(found.iter_lines()))[1]
        codes = []
        refused = [(REQUEST, "others"), (REQUEST, "nothing"), ("/inbox/none", "admins")]
        refused += [("/audit", "admins"), ("/stream?page=/inbox", "admins"), ("//x", "admins")]
        for page, group in refused:
            with streaming(url, page, group) as found:
                codes.append(found.status_code)

    assert "Waiting for others · 1" in seen
    assert "$1,240.00" not in seen
    assert "r2" not in re.sub(r"[\w-]{20,}", "", seen)  # without keys and digests
    assert codes == [404] * 6


def test_a_stream_says_nothing_of_others_and_ends_with_the_server(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_runs(file)
    with ExitStack() as opened:
        with serving(partial(make_console, file)) as (url, _):
            last = opened.enter_context(streaming(url, "/runs")).iter_lines()
            next(read_events(last))
            monkeypatch.setattr("handrail.console._stream.MAX_WAKES", 3)
            lines = opened.enter_context(streaming(url, "/inbox", "others")).iter_lines()
            next(read_events(lines))
            rest = list[str]()
            for number in range(3):
                park(journal, make_pending(f"x{number}"))
                while (line := next(lines, ":")) != ":":
                    rest.append(line)
        ended = list(last)

    sent = "".join(rest)  # at most the time that is left: a minute may have passed
    assert "run <bdi>x" not in sent  # the other team's requests change nothing on this page
    assert sent.count("Waiting for you") == sent.count("Waiting for you \\u00b7 1<")
    assert "Traceback" not in "".join(ended)


def test_a_page_is_not_live_without_a_reader_or_with_too_many_streams(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.console._stream.READY_SECONDS", 0.01)
    assert visit(file, "admins").get("/stream?page=/inbox").status_code == 503
    monkeypatch.setattr("handrail.console._stream.MAX_STREAMS", 0)
    monkeypatch.setattr("handrail.console._stream._RETRY_SECONDS", 0.01)
    (tmp_path / "broken.db").write_text("no database", encoding="utf-8")
    found = []
    for one in (file, tmp_path / "broken.db"):
        console = Console(BEHIND_A_PROXY, Store(str(one)))
        with TestClient(console, base_url=f"https://{HOST}") as client:
            person = visit(one, "admins", console=console)
            found.append(client.get("/stream?page=/inbox", headers=person.headers).status_code)

    assert found == [503, 503]
