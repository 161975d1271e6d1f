"""Real Chromium: no sideways scroll, no violation of the policy, no request to another host."""

from __future__ import annotations

import time
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from console.browser import WIDTHS, Browser, browsing, find_chromium, serving
from console.scenes import COMMAND, ODD, PAGES, UNKNOWN, make_console, make_file, sign_in
from console.visits import make_pending, park
from handrail import Deny
from handrail.console import Console, ConsoleConfig
from handrail.console._request import to_path
from handrail.console._store import Store
from handrail.runs import Claimant, open_runs

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with browsing() as made:
        yield made


def test_every_page_fits_and_loads_nothing_from_elsewhere(browser: Browser, tmp_path: Path) -> None:
    file = make_file(tmp_path)
    sign_in(browser)
    found: dict[str, object] = {}
    with serving(partial(make_console, file)) as (url, _):
        for name, path in PAGES.items():
            for width in WIDTHS:
                browser.resize(width, dark=width == 390)
                browser.open(url + path)
                wide = browser.evaluate(SIDEWAYS)
                browser.evaluate("document.documentElement.style.fontSize = '200%'")
                wide += browser.evaluate(SIDEWAYS)
                others = browser.hosts - {url.removeprefix("http://")}
                said = [one for one in browser.complaints if "404" not in one]
                if wide or others or said:
                    found[f"{name} at {width}"] = (wide, others, said)
        browser.open(f"{url}/inbox")
        browser.evaluate("document.body.style.width = '5000px'")
        control = browser.evaluate(SIDEWAYS)
        browser.evaluate("document.body.insertAdjacentHTML('beforeend', '<i style=color:red>')")
        browser.evaluate("new Image().src = 'http://127.0.0.2/x.png'")

    assert found == {}
    assert control > 0
    assert any("Content Security Policy" in one for one in browser.complaints)


def test_a_phone_without_script_signs_in_and_approves(browser: Browser, tmp_path: Path) -> None:
    file = make_file(tmp_path)
    browser.set_headers({})
    browser.resize(390)
    browser.call("Emulation.setScriptExecutionDisabled", value=True)

    def make(_host: str) -> Console:
        return Console(ConsoleConfig(), Store(str(file)))

    with serving(make) as (url, console):
        browser.open(url + console.make_link())
        browser.press("form button")
        cookies = browser.call("Network.getCookies", urls=[f"{url}/", browser.address])["cookies"]
        outside = browser.call("Network.getCookies", urls=[f"{url}/"])["cookies"]
        base = browser.address.removesuffix("/inbox")
        browser.open(f"{base}/inbox/{to_path(ODD.id)}")
        browser.evaluate("document.querySelector('#yes').value = 'yes'")
        browser.press("button[value=approve]")
        text = browser.evaluate("document.body.innerText")
        scripted = browser.evaluate("document.querySelector('#live').checkVisibility()")
    browser.call("Emulation.setScriptExecutionDisabled", value=False)

    assert [cookie["path"] for cookie in cookies] == [base.removeprefix(url) + "/"]
    assert not scripted
    assert outside == []  # a server on another port or path gets no cookie
    assert "✓ Approved." in text
    given = open_runs(file).records().receipt(ODD.id)
    assert given is not None
    assert (given.answer, given.via) == ("allow", "console")


CLOCK = "window.now = 0; performance.now = () => window.now"
"""A clock that stands still until a test moves it."""


def answers_at(browser: Browser, moment: int, key: str = "y") -> bool:
    """Press a key at a moment of the page, and return whether it sent an answer."""
    sends = f"window.now = {moment}; document.body.dispatchEvent(new KeyboardEvent('keydown', "
    browser.evaluate(f"{sends}{{key: '{key}', bubbles: true, cancelable: true}}))")
    return bool(browser.evaluate("!!document.querySelector('form.answer').dataset.sent"))


def test_an_answer_needs_half_a_second_of_quiet(browser: Browser, tmp_path: Path) -> None:
    file = make_file(tmp_path)
    sign_in(browser)
    browser.resize(1280)
    made = browser.call("Page.addScriptToEvaluateOnNewDocument", source=CLOCK)
    stop = "document.querySelector('form.answer').addEventListener('submit', (e) => e.preventDefault())"
    found: dict[str, list[bool]] = {}
    try:
        with serving(partial(make_console, file)) as (url, _):
            browser.open(f"{url}/inbox/{to_path(UNKNOWN.id)}")
            browser.evaluate(stop)
            early = [answers_at(browser, moment) for moment in (0, 100, 499, 500)]
            answers_at(browser, 450, key="x")  # a key for something else
            found["arming"] = [*early, *(answers_at(browser, at) for at in (501, 949, 951))]
            browser.open(f"{url}/inbox/{to_path(COMMAND.id)}")
            browser.evaluate(stop)
            found["typed yes"] = [answers_at(browser, 900)]
            browser.open(f"{url}/inbox")
            answers = "document.querySelector('.item[aria-current]')"
            browser.events.clear()
            press = "new KeyboardEvent('keydown', {key: 'j', bubbles: true, cancelable: true})"
            browser.evaluate(f"document.body.dispatchEvent({press})")
            browser.until(f"!!{answers}")
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=made["identifier"])

    assert found == {
        "arming": [False, False, False, False, False, False, True],
        "typed yes": [False],
    }


def test_a_page_says_what_is_new_and_never_moves_what_someone_reads(  # noqa: PLR0915  one story
    browser: Browser, tmp_path: Path
) -> None:
    file = make_file(tmp_path)
    journal = open_runs(file)
    sign_in(browser)
    browser.resize(1280)
    live = "document.querySelector('#live .dot').className === 'dot on'"
    hide = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true}); "
    hide += "document.dispatchEvent(new Event('visibilitychange'))"
    with serving(partial(make_console, file)) as (url, console):
        streams: Any = console._streams  # noqa: SLF001  how many are open
        browser.open(f"{url}/inbox/{to_path(UNKNOWN.id)}")
        browser.until(live)
        told = browser.evaluate("document.querySelector('#news').checkVisibility()")
        before = browser.evaluate("document.querySelector('#list').innerText")
        park(journal, make_pending("new"))
        browser.until("document.querySelector('#news').checkVisibility()")
        after = browser.evaluate("document.querySelector('#list').innerText")
        journal.answer_now(UNKNOWN.id, Deny("no"), by=Claimant("ben"))
        browser.until("document.querySelector('#gone').checkVisibility()")
        buttons = (
            "[...document.querySelectorAll('form.answer button')].every((one) => one.disabled)"
        )
        disabled = browser.evaluate(buttons)
        browser.evaluate(hide % "true")
        end = time.monotonic() + 60
        while streams._open:  # noqa: SLF001
            assert time.monotonic() < end
            time.sleep(0.02)
        browser.evaluate(hide % "false")
        browser.until(live)
        browser.open(f"{url}/runs/new")
        park(journal, make_pending("new", "c2"))
        browser.until("!!document.querySelector('#turns #turn-4')")
        said = browser.complaints
    browser.until("document.querySelector('#live').innerText.includes('not live')")

    assert (told, after, disabled) == (False, before, True)
    assert said == []


def test_a_form_that_was_sent_works_again_after_going_back(
    browser: Browser, tmp_path: Path
) -> None:
    file = make_file(tmp_path)
    sign_in(browser)
    browser.resize(1280)
    mark = "document.querySelector('form.answer').dataset.sent"
    back = "addEventListener('click', () => dispatchEvent(new PageTransitionEvent('pageshow', {persisted: %s})))"
    with serving(partial(make_console, file)) as (url, _):
        browser.open(f"{url}/inbox/{to_path(UNKNOWN.id)}")
        browser.evaluate(f"{mark} = '1'; {back % 'false'}; document.querySelector('h1').click()")
        shown = browser.evaluate(mark)
        browser.open(f"{url}/inbox/{to_path(UNKNOWN.id)}")
        browser.evaluate(f"{mark} = '1'; {back % 'true'}")
        browser.press("h1")
        again = browser.evaluate(f"{mark} || ''")

    assert (shown, again) == ("1", "")
