"""Every task with the keyboard alone, in real Chromium: Tab, Enter, and the keys of the pages."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from console.accessibility import find_barriers
from console.browser import Browser, browsing, find_chromium, serving
from console.scenes import COMMAND, ODD, UNKNOWN, make_console, make_file, sign_in
from handrail.console import Console, ConsoleConfig
from handrail.console._store import Store
from handrail.permissions import Pending
from handrail.runs import open_runs
from handrail.runs.records import to_path

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
CLOCK = "window.now = 0; performance.now = () => window.now"
"""A clock that stands still until a test moves it."""


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with browsing() as made:
        yield made


@contextmanager
def still_clock(browser: Browser) -> Generator[None]:
    made = browser.call("Page.addScriptToEvaluateOnNewDocument", source=CLOCK)
    try:
        yield
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=made["identifier"])


def go_to(browser: Browser, selector: str) -> int:
    """Press Tab until an element has the focus, and return how often."""
    for presses in range(1, 80):
        browser.type("Tab")
        if browser.evaluate(f"document.activeElement.matches({selector!r})"):
            return presses
    raise AssertionError(f"Tab does not reach {selector}")


def send(browser: Browser, *keys: str) -> str:
    """Press keys that lead to another page, and return what it says."""
    browser.events.clear()
    browser.type(*keys)
    browser.wait("Page.loadEventFired")
    return str(browser.evaluate("document.querySelector('main').innerText"))


def wait_for_quiet(browser: Browser) -> None:
    browser.evaluate("window.now += 501")


def answered(file: Path, pending: Pending) -> str:
    given = open_runs(file).records().receipt(pending.id)
    return given.answer if given else ""


def test_a_person_signs_in_and_approves(browser: Browser, tmp_path: Path) -> None:
    file = make_file(tmp_path)
    browser.set_headers({})
    browser.resize(1280)
    with (
        still_clock(browser),
        serving(lambda _: Console(ConsoleConfig(), Store(str(file)))) as (url, console),
    ):
        browser.open(url + console.make_link())
        go_to(browser, "form button")
        send(browser, "Enter")
        go_to(browser, f".item[href$='{to_path(UNKNOWN.id)}']")
        send(browser, "Enter")
        browser.type("Tab")
        skip = browser.evaluate("document.activeElement.className")
        browser.type("Enter")  # to the request
        presses = go_to(browser, "button[value=approve]")
        browser.type("Enter")  # too early: it was a key for the link
        early = answered(file, UNKNOWN)
        wait_for_quiet(browser)
        receipt = send(browser, "Enter")

    assert (skip, presses < 5, early) == ("skip", True, "")
    assert "✓ Approved." in receipt
    assert answered(file, UNKNOWN) == "allow"


def test_a_typed_yes_is_sent_by_enter(browser: Browser, tmp_path: Path) -> None:
    file = make_file(tmp_path)
    sign_in(browser)
    with still_clock(browser), serving(partial(make_console, file)) as (url, _):
        browser.open(f"{url}/inbox/{to_path(COMMAND.id)}")
        go_to(browser, "#yes")
        wait_for_quiet(browser)
        receipt = send(browser, "y", "e", "s", "Enter")

    assert "✓ Approved." in receipt
    assert answered(file, COMMAND) == "allow"


def test_a_denial_has_a_reason_an_edit_and_a_result(browser: Browser, tmp_path: Path) -> None:
    file = make_file(tmp_path)
    sign_in(browser)
    found: list[str] = []
    with still_clock(browser), serving(partial(make_console, file)) as (url, _):
        for pending, keys in (
            (UNKNOWN, ("#reason", "n", "o", "Enter")),
            (COMMAND, ("#result", "o", "k", "Tab", " ")),
            (ODD, ("#typed", "y", "e", "s", "Tab", "Enter")),
        ):
            browser.open(f"{url}/inbox/{to_path(pending.id)}")
            go_to(browser, "a[href$='/more']")
            send(browser, "Enter")
            go_to(browser, keys[0])
            browser.type(*[key for key in keys[1:-1] if key != "Tab"])
            if "Tab" in keys:
                browser.type("Tab")
            wait_for_quiet(browser)
            send(browser, keys[-1])
            found.append(answered(file, pending))

    assert found == ["deny", "result", "edit"]


def test_several_are_denied_and_pages_are_searched(browser: Browser, tmp_path: Path) -> None:
    file = make_file(tmp_path)
    sign_in(browser)
    with serving(partial(make_console, file)) as (url, _):
        browser.open(f"{url}/inbox")
        go_to(browser, ".several summary")
        browser.type("Enter")
        go_to(browser, ".several input[type=checkbox]")
        browser.type(" ")
        go_to(browser, ".several button")
        denied = send(browser, "Enter")
        send(browser, "g", "r")
        runs = browser.address
        browser.type("/")
        searched = send(browser, "c", "0", "3", "Enter")
        go_to(browser, "main a[href*='/runs/']")
        send(browser, "Enter")
        go_to(browser, "main a[href*='call=']")
        send(browser, "Enter")
        drawer = browser.evaluate("!!document.querySelector('#call')")
        send(browser, "g", "i")
        inbox = browser.address
        send(browser, "j")

    assert "✓ Denied 1." in denied
    assert (runs, inbox) == (f"{url}/runs", f"{url}/inbox")
    assert "c03f5e" in searched
    assert drawer
    assert "/inbox/" in browser.address


def test_the_keys_are_shown_and_can_be_turned_off(browser: Browser, tmp_path: Path) -> None:
    file = make_file(tmp_path)
    sign_in(browser)
    is_open = "document.querySelector('#keys').open"
    found: list[object] = []
    with still_clock(browser), serving(partial(make_console, file)) as (url, _):
        browser.open(f"{url}/inbox/{to_path(UNKNOWN.id)}")
        browser.type("?")
        found.append(browser.evaluate(is_open))
        barriers = find_barriers(browser)
        wait_for_quiet(browser)
        browser.type("y", "Escape")  # the keys of the page are behind the window
        browser.until(f"!{is_open}")
        browser.type("?")
        go_to(browser, "button[value=off]")
        browser.type("Enter")
        browser.until("document.cookie.includes('keys=off')")
        browser.open(f"{url}/inbox/{to_path(UNKNOWN.id)}")
        wait_for_quiet(browser)
        browser.type("y", "?")
        found += [answered(file, UNKNOWN), browser.evaluate(is_open)]
        go_to(browser, "#show-keys")
        browser.type("Enter")
        go_to(browser, "button[value=on]")
        browser.type("Enter")
        browser.until("document.cookie.includes('keys=on')")
        wait_for_quiet(browser)
        receipt = send(browser, "y")

    assert found == [True, "", False]
    assert barriers == []
    assert "✓ Approved." in receipt
