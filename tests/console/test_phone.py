"""Approve from a phone: the refund happens once, whatever is killed in between."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Generator

import pytest

from console.browser import browsing, find_chromium
from console.phone import SECONDS, Phone, Shop
from services import VARIABLE, Postgres, find_binaries

pytestmark = [
    pytest.mark.skipif(find_chromium() is None, reason="needs Chromium"),
    pytest.mark.skipif(find_binaries() is None, reason="needs PostgreSQL"),
    pytest.mark.skipif(VARIABLE in os.environ, reason="kills its own PostgreSQL"),
    pytest.mark.timeout(3_600),
]
SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
VICTIMS = ("console", "worker", "database")
GAPS = ("started", "parked", "signed in", "read", "approved", "refunded")
KILLS = [*itertools.product(GAPS, VICTIMS)]
if not SOAK:
    KILLS = [("read", "console"), ("approved", "worker")]
APPROVALS = 200 if SOAK else 1


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Generator[Shop]:
    server = Postgres.start()
    made = Shop(tmp_path_factory.mktemp("shop"), server)
    try:
        made.begin("worker")
        made.begin("console")
        yield made
    finally:
        made.end()
        server.stop()


@pytest.fixture(scope="module")
def phone(shop: Shop) -> Generator[Phone]:
    with browsing() as browser:
        browser.call("Emulation.setScriptExecutionDisabled", value=True)
        yield Phone(browser, shop)


def test_a_refund_is_approved_from_a_phone_and_named_everywhere(phone: Phone, shop: Shop) -> None:
    delays = []
    several = [f"run-{number}" for number in range(APPROVALS)]
    shop.run("shop.py", *several)
    for run in several:
        shop.wait(run, "waiting")
        before = shop.count(run)
        page = phone.read(run)
        phone.approve(run)
        shop.wait(run, "done")
        given = shop.receipt(run)
        assert (before, shop.count(run)) == (0, 1)
        delays.append(shop.moments(run)[0] - given.at)
    person = given.by
    receipt, audit = phone.read("run-0"), ""
    phone.browser.open(f"{phone.base}/audit?run=run-0")
    audit = phone.text
    phone.browser.open(f"{phone.base}/runs/run-0?call=1")
    told = phone.text
    shown = shop.run("-m", "handrail.cli", "runs", "show", "run-0", "--database", shop.url)
    delays.sort()
    p50, p99 = (delays[int(len(delays) * part)] for part in (0.5, 0.99))
    print(f"{len(delays)} resumed: p50 {p50:.2f} s, p99 {p99:.2f} s")  # noqa: T201

    assert "Refund 500 to order 88213?" in page
    assert "Asked by refunds (rules.toml:2): Allow `refund` to make changes?" in page
    assert f"By {person}" in receipt
    for text in (audit, told, shown):
        assert person in text
    for text in (told, shown):
        assert "refunds" in text
        assert "rules.toml:2" in text
    assert not SOAK or p99 < 1.0


@pytest.mark.parametrize(("gap", "victim"), KILLS)
def test_no_kill_doubles_a_refund_or_loses_one_without_a_word(
    phone: Phone, shop: Shop, gap: str, victim: str
) -> None:
    run = f"{gap}-{victim}".replace(" ", "-")

    def cut(here: str) -> None:
        if here == gap:
            shop.kill(victim)

    shop.run("shop.py", run)
    cut("started")
    shop.wait(run, "waiting")
    cut("parked")
    phone.sign_in()
    cut("signed in")
    phone.read(run)
    cut("read")
    text = phone.approve(run)
    cut("approved")
    if gap == "refunded":
        until = time.monotonic() + SECONDS
        while not shop.count(run):
            assert time.monotonic() < until
            time.sleep(0.01)
    cut("refunded")
    shop.wait(run, "done")
    unknown = "unknown" in shop.result(run)

    assert "✓ Approved." in text
    assert (shop.count(run), unknown) in {(1, False), (1, True), (0, True)}
    assert shop.receipt(run).answer == "allow"


def test_a_console_that_dies_with_an_answer_has_recorded_it_once(phone: Phone, shop: Shop) -> None:
    shop.run("shop.py", "dies")
    shop.wait("dies", "waiting")
    shop.doom("answer.given")
    phone.read("dies")
    phone.browser.press("button[value=approve]")
    shop.processes["console"].communicate(timeout=SECONDS)
    ended = shop.processes["console"].returncode
    lost = phone.text
    shop.begin("console")
    text = phone.read("dies")
    shop.wait("dies", "done")

    assert (ended, "Approved" in lost) == (-9, False)
    assert "✓ Approved." in text
    assert (shop.count("dies"), shop.receipt("dies").via) == (1, "console")
