"""The example pages of both protocols in a real browser, with the clients' own libraries."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from console.browser import browsing, find_chromium
from handrail import Call, Text
from handrail.messages import Delta, Reply, Request, StreamItem, ToolResults
from handrail.net import serve_app

EXAMPLE = Path(__file__).parents[2] / "examples" / "chat_pages"
MODULES = Path(sys.prefix, "node_modules")
PAGES = {
    "ag_ui": ("https://esm.sh/@ag-ui/client@1.0.0", "@ag-ui/client/dist/index.mjs"),
    "ai_sdk": ("https://esm.sh/ai@7.0.173", "ai/dist/index.js"),
}
"""The address of each library in its page, and its file here."""
ROWS = "[...document.querySelectorAll('#talk > div')].map(one => [one.className, one.textContent])"

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_chromium() is None, reason="needs Chromium"),
]


async def model(request: Request) -> AsyncIterator[StreamItem]:
    """Calls the tool for `refund SUM`, and says what it returned."""
    last = request.messages[-1]
    if isinstance(last, ToolResults):
        yield Delta("Done: ")
        yield Delta(last.results[0].text)
        yield Reply((Text(f"Done: {last.results[0].text}"),))
        return
    said = str(last.parts[0].text)  # type: ignore[union-attr]
    yield Delta("Let me look.")
    euros = int(said.split()[1])
    call = Call("refund", {"order": "o1", "euros": euros}, f"c{len(request.messages)}")
    yield Reply((Text("Let me look."), call), "calls")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with each library in one file: the tests reach no other host."""
    folder = tmp_path_factory.mktemp("bundles")
    npm = str(shutil.which("npm"))
    install = ("install", "--silent", "--no-save", "--no-audit", "--no-fund", "esbuild@0.28.2")
    subprocess.run([npm, *install], cwd=folder, check=True)  # noqa: S603
    for name, (_, file) in PAGES.items():
        (folder / f"{name}.in.js").write_text(
            f'export * from "{MODULES / file}";\n', encoding="utf-8"
        )
        tool = folder / "node_modules" / ".bin" / "esbuild"
        options = ("--bundle", "--format=esm", "--platform=browser", "--log-level=error")
        words = [str(tool), f"{name}.in.js", *options, f"--outfile={name}.js"]
        subprocess.run(words, cwd=folder, check=True)  # noqa: S603
    return folder


@pytest.fixture
def url(bundles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    sys.modules.pop("pages", None)
    import pages  # type: ignore[import-not-found]

    listening = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"

    def show(request: Any) -> HTMLResponse:
        name = request.path_params["name"]
        text = (EXAMPLE / f"{name}.html").read_text(encoding="utf-8")
        assert PAGES[name][0] in text
        return HTMLResponse(text.replace(PAGES[name][0], f"/modules/{name}.js"))

    inner = pages.make_app(model, address, str(tmp_path / "chats.db"))
    modules = Mount("/modules", StaticFiles(directory=bundles))
    app = Starlette(routes=[Route("/{name}.html", show), modules, Mount("/", inner)])
    Thread(target=lambda: anyio.run(serve_app, app, listening), daemon=True).start()
    yield address
    sys.modules.pop("pages", None)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_chats_and_asks_its_person(page: str, url: str) -> None:
    with browsing() as browser:
        browser.resize(390)
        browser.open(f"{url}/{page}.html")

        def say(text: str) -> None:
            browser.evaluate(f"document.querySelector('input').value = {text!r}")
            browser.evaluate("document.querySelector('#ask button').click()")

        def rest(rows: int) -> None:
            count = f"document.querySelectorAll('#talk > .assistant').length === {rows}"
            browser.until(f"{count} && document.querySelector('#state').textContent === ''")

        say("refund 50")
        rest(2)
        for euros, answer, rows in ((500, "allow", 4), (700, "deny", 6)):
            say(f"refund {euros}")
            browser.until(f"document.querySelector('button.{answer}') !== null")
            if picture := os.environ.get("HANDRAIL_PICTURES"):
                browser.draw(Path(picture) / f"{page}-{answer}.png")
            browser.evaluate(f"document.querySelector('button.{answer}').click()")
            rest(rows)
        shown = browser.evaluate(ROWS)
        errors = [one for one in browser.events if one["method"] == "Runtime.exceptionThrown"]

    denied = "Not run: the user denied this call. Do not work around this. Continue without it, or tell the user."
    done = "euros for order o1 are on their way"
    assert shown == [
        [kind, text]
        for euros, result in ((50, f"50 {done}"), (500, f"500 {done}"), (700, denied))
        for kind, text in (
            ("user", f"refund {euros}"),
            ("assistant", "Let me look."),
            ("call", f"refund: {result}"),
            ("assistant", f"Done: {result}"),
        )
    ]
    assert errors == []
