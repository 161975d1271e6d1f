"""Real Chromium: no sideways scroll, no violation of the policy, no request to another host."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest

from console.browser import WIDTHS, Browser, browsing, find_chromium, serving
from console.scenes import ODD, PAGES, make_console, make_file, sign_in
from handrail.console import Console, ConsoleConfig
from handrail.console.request import to_path
from handrail.console.store import open_store
from handrail.runs import open_records

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

    def make(_host: str) -> Console:
        return Console(ConsoleConfig(), open_store(file))

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

    assert [cookie["path"] for cookie in cookies] == [base.removeprefix(url) + "/"]
    assert outside == []  # a server on another port or path gets no cookie
    assert "✓ Approved." in text
    given = open_records(file).receipt(ODD.id)
    assert given is not None
    assert (given.answer, given.via) == ("allow", "console")
