"""Every page and state in real Chromium: no finding of axe-core, no text that is cut."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest
from anyio import to_thread

from console.accessibility import AXE, find_barriers, find_cut
from console.browser import WIDTHS, Browser, browsing, find_chromium, serving
from console.scenes import (
    COMMAND,
    HUGE,
    LONG,
    ODD,
    PAGES,
    UNKNOWN,
    make_console,
    make_file,
    sign_in,
)
from console.visits import ASKED, make_pending, park
from handrail.console import Console, ConsoleConfig
from handrail.console._request import to_path
from handrail.console._store import Store
from handrail.permissions import Approvers, Pending
from handrail.runs import open_runs
from handrail.runs.durable import DurableRuns
from runs.durable.shop import Ledger, make_agent, make_model

pytestmark = [
    pytest.mark.skipif(find_chromium() is None, reason="needs Chromium"),
    pytest.mark.skipif(not AXE.exists(), reason="needs axe-core: `make setup`"),
]
EXPIRED = make_pending("old", expires_at=ASKED + 1)
VOTED = make_pending("two", approvers=Approvers(count=2))
RESERVED = make_pending("lead", approvers=Approvers((("leads",),)))


@dataclass(frozen=True)
class State:
    """A page, and what is pressed on it."""

    path: str
    group: str = "admins"
    press: str = ""
    fill: str = ""
    """A script that fills in a form before."""


def at(pending: Pending, rest: str = "") -> str:
    return f"/inbox/{to_path(pending.id)}{rest}"


CHANGE = "document.querySelectorAll('[name=seen]').forEach((one) => { one.value = 'x' })"
STATES = {
    **{name: State(path) for name, path in PAGES.items()},
    "all of it": State(at(LONG, "?full=1")),
    "too long": State(at(HUGE)),
    "expired": State(at(EXPIRED)),
    "two people": State(at(VOTED)),
    "reserved": State(at(RESERVED)),
    "read only": State(at(VOTED), "viewers"),
    "nothing waits": State("/inbox", "others"),
    "no runs": State("/runs", "others"),
    "no event": State("/audit?kind=none"),
    "run that waits": State("/runs/c03f5e?call=1"),
    "run of a viewer": State("/runs/two?call=1", "viewers"),
    "not typed": State(at(COMMAND), press="button[value=approve]"),
    "changed": State(at(UNKNOWN), press="button[value=approve]", fill=CHANGE),
    "edit that cannot be read": State(
        at(ODD, "/more"),
        press="button[value=edit]",
        fill="document.querySelector('textarea').value = '{'",
    ),
    "none ticked": State(
        "/inbox",
        press=".several form button",
        fill="document.querySelector('.several').open = true",
    ),
    "refused": State(
        at(UNKNOWN),
        press="button[value=deny]",
        fill="document.querySelector('.answer [name=csrf]').value = 'x'",
    ),
}
SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"


class Look(NamedTuple):
    """How a person sees a page."""

    width: int
    dark: bool = False
    forced: bool = False
    large: bool = False
    """Text of twice the size."""

    def apply(self, browser: Browser) -> None:
        """Show the page so."""
        browser.resize(self.width, dark=self.dark, forced=self.forced)
        size = "200%" if self.large else ""
        browser.evaluate(f"document.documentElement.style.fontSize = '{size}'")


KINDS: list[dict[str, bool]] = [{}, {"dark": True}, {"forced": True}, {"large": True}]
LOOKS = [Look(width, **kind) for width in WIDTHS for kind in KINDS]


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with browsing() as made:
        yield made


@contextmanager
def serving_states(folder: Path) -> Generator[str]:
    """A console with every state of a page."""
    file = make_file(folder)
    journal = open_runs(file)
    for one in (EXPIRED, VOTED, RESERVED):
        park(journal, one)
    journal.close()
    with serving(partial(make_console, file)) as (url, _):
        yield url


def show(browser: Browser, url: str, state: State) -> None:
    """Go to a state."""
    sign_in(browser, state.group)
    if state.press:
        browser.call("Emulation.setScriptExecutionDisabled", value=True)  # it waits for quiet
        browser.open(url + state.path)
        browser.evaluate(state.fill or "1")
        browser.press(state.press)
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    else:
        browser.open(url + state.path)


def check(browser: Browser, looks: list[Look]) -> list[object]:
    """What is wrong with a page: by axe in some looks, and by its texts and its width in more."""
    found: list[object] = []
    for look in LOOKS if SOAK else {LOOKS[3], *looks}:  # large texts are cut first
        look.apply(browser)
        several: list[object] = [*find_cut(browser)]
        several += find_barriers(browser) if look in looks else []
        found += [(look, several)] if several else []
    Look(1280).apply(browser)
    return found


@pytest.mark.timeout(1_800)
def test_no_page_has_a_barrier_or_a_text_that_is_cut(browser: Browser, tmp_path: Path) -> None:
    found: dict[str, list[object]] = {}
    texts = dict[str, str]()
    looks = itertools.cycle(LOOKS)
    with serving_states(tmp_path) as url:
        for name, state in STATES.items():
            show(browser, url, state)
            texts.setdefault(browser.evaluate("document.body.innerText"), name)
            if several := check(browser, LOOKS if SOAK else [next(looks)]):
                found[name] = several

    assert found == {}
    assert list(texts.values()) == list(STATES)  # no state is another one


async def work(database: str, ledger: Path, parked: threading.Event, done: threading.Event) -> None:
    """Park a payment, and keep the worker until it was looked at."""
    agent = make_agent(Ledger(ledger), make_model(((("pay", {"amount": 500}),),)))
    runs = DurableRuns(database, {"shop": agent}, name="shop", poll=0.05)
    async with runs.work(interval=0.1, drain_seconds=5):
        await runs.wait(await runs.start("shop", "Pay it.", run_id="run-1"), seconds=60)
        parked.set()
        await to_thread.run_sync(done.wait)


def test_no_page_outside_of_the_others_has_a_barrier(browser: Browser, tmp_path: Path) -> None:
    """A link, a used link, runs that cannot be read, and a fleet."""
    found, heads = list[object](), list[str]()

    def note(shown: str) -> None:
        browser.open(shown)
        heads.append(browser.evaluate("document.querySelector('h1').innerText"))
        found.extend(check(browser, LOOKS if SOAK else LOOKS[::3]))

    database, parked, done = tmp_path / "runs.db", threading.Event(), threading.Event()
    args = (work, str(database), tmp_path / "ledger", parked, done)
    worker = threading.Thread(target=anyio.run, args=args, daemon=True)
    worker.start()
    (tmp_path / "broken.db").write_text("no database", encoding="utf-8")
    browser.set_headers({})
    with serving(lambda _: Console(ConsoleConfig(), Store(str(tmp_path / "own.db")))) as (url, own):
        note(url + own.make_link())
        note(f"{url}{own._guard.base}/inbox")  # noqa: SLF001  its random path
    sign_in(browser)
    with serving(partial(make_console, tmp_path / "broken.db")) as (url, _):
        note(f"{url}/inbox")
    try:
        assert parked.wait(60)
        with serving(partial(make_console, database)) as (url, _):
            note(f"{url}/fleet")
            text = browser.evaluate("document.body.innerText")
    finally:
        done.set()
        worker.join(60)

    assert found == []
    assert heads == [
        "Open the console",
        "This link was used or has expired",
        "Cannot read the runs",
        "Fleet",
    ]
    assert "Workers" in text


MARKS = """
((first, second, names) => {
  const [one, other] = [first, second].map((name) => getComputedStyle(document.querySelector(name)));
  return names.some((name) => one[name] !== other[name]);
})"""
BORDERS = ["borderBottomColor", "outlineStyle"]


def test_with_forced_colors_what_is_chosen_is_marked(browser: Browser, tmp_path: Path) -> None:
    marks = {
        "tab": ("inbox", ".top nav a[aria-current]", ".top nav a:not([aria-current])"),
        "request": ("unknown", ".item[aria-current]", ".item:not([aria-current])"),
        "call": ("run", ".call[aria-current]", ".call:not([aria-current])"),
        "no mark": ("inbox", ".item:nth-child(1)", ".item:nth-child(1)"),
    }
    found = dict[str, bool]()
    borders = set[str]()
    with serving_states(tmp_path) as url:
        browser.resize(1280, forced=True)
        for name, (state, first, second) in marks.items():
            show(browser, url, STATES[state])
            asked = f"({json.dumps(first)}, {json.dumps(second)}, {json.dumps(BORDERS)})"
            found[name] = browser.evaluate(MARKS + asked)
            every = "[...document.querySelectorAll('button')].map((one) => "
            borders.update(browser.evaluate(f"{every}getComputedStyle(one).borderTopStyle)"))

    assert found == {"tab": True, "request": True, "call": True, "no mark": False}
    assert borders == {"solid"}


def test_what_finds_barriers_and_cut_texts_can_fail(browser: Browser, tmp_path: Path) -> None:
    with serving_states(tmp_path) as url:
        browser.resize(390)
        show(browser, url, STATES["command"])
        browser.evaluate("document.querySelector('label[for=yes]').remove()")
        browser.evaluate("document.querySelector('article h1').style.color = '#bbbbbb'")
        barriers = [one.partition(":")[0] for one in find_barriers(browser)]
        narrow = "document.querySelector('article h1').style.cssText = 'white-space: nowrap; width: 40px; "
        browser.evaluate(f"{narrow}overflow: hidden'")
        browser.evaluate("document.querySelector('article h1 bdi').style.whiteSpace = 'nowrap'")
        cut = find_cut(browser)
        browser.evaluate("document.body.style.width = '5000px'")
        wide = find_cut(browser)[-1]

    assert barriers == ["color-contrast", "label"]
    assert cut == ["Delete build/ and everything in it?"]
    assert wide.endswith("pixels")
