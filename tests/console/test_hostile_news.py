"""Hostile text that arrives while a page is open: in the browser, it stays text."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path

import jinja2
import pytest

from console.browser import Browser, browsing, find_chromium, serving
from console.scenes import make_console, sign_in
from console.test_hostile import ACTIVE, PACKAGE, PLAIN, TOGETHER, Element, record
from console.visits import make_pending, park
from handrail.console import _rendering as rendering
from handrail.runs import RunRecord, open_runs

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
ODD = f"a\u202eb p\u0430ypal {'x' * 900}"
ELEMENTS = (
    "[...document.querySelectorAll('*')].map((one) => [one.localName, one.getAttributeNames()])"
)
LIVE = "document.querySelector('#live .dot').className === 'dot on'"
ARRIVED = {
    "/runs/r1": "document.querySelector('#whole').innerText.includes('failed')",
    "/runs": "document.querySelector('#runs').innerText.includes('failed')",
    "/inbox": "document.querySelector('#news').checkVisibility()",
}

if os.environ.get("HANDRAIL_PROFILE") != "soak":
    del ARRIVED["/runs"], ARRIVED["/inbox"]


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with browsing() as made:
        yield made


def watch(
    browser: Browser, folder: Path, texts: Sequence[str]
) -> tuple[dict[str, list[Element]], list[str]]:
    """Open pages, let texts arrive, and return the elements then, and what ran or was refused."""
    folder.mkdir()
    file, found, said = folder / "journal.db", dict[str, list[Element]](), list[str]()
    journal = open_runs(file)
    sign_in(browser)
    for path, arrived in ARRIVED.items():
        park(journal, make_pending("r1", path))
        with serving(partial(make_console, file)) as (url, _):
            browser.open(url + path)
            browser.until(LIVE)
            for number, text in enumerate(texts):
                record(journal, f"{path} {number} {text}")
            RunRecord(journal, "r1").set_status(status="failed", reason="error")
            browser.until(arrived)
            several = browser.evaluate(ELEMENTS)
            found[path] = [(name, tuple(sorted(names))) for name, names in several]
            said += ran(browser)
            assert browser.hosts == {url.removeprefix("http://")}
    return found, said


def compare(found: Sequence[Element], plain: Sequence[Element], known: set[Element]) -> list[str]:
    """What is wrong with a page that got hostile text."""
    counts = [Counter(name for name, _ in one if name in ACTIVE) for one in (found, plain)]
    different = [f"counts {one}" for one in counts] if counts[0] != counts[1] else []
    return different + [f"element {one}" for one in sorted(set(found) - known)]


def ran(browser: Browser) -> list[str]:
    """What the browser ran or refused to run."""
    return [
        event["method"] for event in browser.events if event["method"].endswith("DialogOpening")
    ] + browser.complaints


def test_hostile_text_that_arrives_stays_text(browser: Browser, tmp_path: Path) -> None:
    plain, _ = watch(browser, tmp_path / "plain", [PLAIN] * len(TOGETHER))
    odd, _ = watch(browser, tmp_path / "odd", [ODD] * len(TOGETHER))
    known = {one for several in (*plain.values(), *odd.values()) for one in several}
    hostile, said = watch(browser, tmp_path / "hostile", TOGETHER)

    assert {path: compare(one, plain[path], known) for path, one in hostile.items()} == {
        path: [] for path in ARRIVED
    }
    assert said == []


def test_what_watches_the_browser_can_fail(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of a live page past `shown` is caught: by its elements, and by the policy."""
    plain, _ = watch(browser, tmp_path / "plain", [PLAIN])
    known = {one for several in plain.values() for one in several}
    sources = {
        path.name: path.read_text(encoding="utf-8").replace(
            "{{ m.name(call.tool) }}", "{{ call.tool|safe }}"
        )
        for path in (PACKAGE / "templates").iterdir()
    }
    changed = rendering.make_environment().overlay(loader=jinja2.DictLoader(sources))
    monkeypatch.setattr(rendering, "make_environment", lambda: changed)
    hostile, said = watch(browser, tmp_path / "hostile", TOGETHER[:1])

    assert compare(hostile["/runs/r1"], plain["/runs/r1"], known) != []
    assert any("Content Security Policy" in one for one in said)
