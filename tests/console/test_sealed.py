"""The console over sealed texts: it opens them with the codec, and says that it cannot search them."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.visits import BEHIND_A_PROXY, make_pending, park, read_page, visit
from handrail.console import app
from handrail.runs import Codec, open_runs
from sealing import codec


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A journal with a sealed run that waits."""
    path = tmp_path / "sealed.db"
    with open_runs(path, codec=codec) as journal:
        park(journal, make_pending("r1"))
    return path


def open_page(file: Path, path: str, with_codec: Codec | None = codec) -> tuple[int, str]:
    console = app(BEHIND_A_PROXY, runs=str(file), codec=with_codec)
    found = visit(file, "admins", console=console).get(path)
    return found.status_code, found.text


def test_pages_open_texts(file: Path) -> None:
    status, html = open_page(file, "/inbox")
    assert status == 200
    assert "Refund $1,240.00 to order 88213" in read_page(html).text


def test_the_search_says_that_prompts_are_sealed(file: Path, tmp_path: Path) -> None:
    _, found = open_page(file, "/runs?q=refund")
    _, by_id = open_page(file, "/runs?q=r1")
    assert "run id, agent; prompts are sealed" in found
    assert ("Refund it." in found, "Refund it." in by_id) == (False, True)

    plain = tmp_path / "plain.db"
    with open_runs(plain) as journal:
        park(journal, make_pending("r1"))
    _, html = open_page(plain, "/runs?q=refund", None)
    assert "words of the prompt, run id, agent" in html
    assert "Refund it." in html


def test_without_the_key_no_page_is_shown(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    status, html = open_page(file, "/runs", None)
    assert (status, "Cannot read the runs" in html) == (503, True)
    assert "sealed with the key 'k1'" in caplog.text
