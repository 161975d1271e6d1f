"""The page of a run: all that happened, and nothing in it acts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from handrail.permissions import FileChange
from handrail.runs import read_history, render_page
from handrail.runs.lines import make_diff

EVIL = "</pre><script>alert(1)</script>\" onload='x' \x1b[31m\u202e\ud800 & <b>"
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "small", "dl", "dt", "dd"),
    *("pre", "div", "span", "b", "svg", "rect", "ul", "li", "details", "summary", "p"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "class", "viewbox", "open"),
    *("preserveaspectratio", "x", "y", "width", "height"),
}
LINES: list[dict[str, Any]] = [
    {"at": 0.0, "event": "prompt", "text": "Go"},
    {"at": 1.0, "event": "reply", "model": "m", "usage": {"input_tokens": 1500}, "text": "I go."},
    {"at": 1.0, "event": "requested", "call_id": "c1", "tool": "read", "args": '{"path": "a"}'},
    {"at": 1.0, "event": "decided", "call_id": "c1", "decision": "allow", "origin": {"rule": "r1"}},
    {"at": 1.0, "event": "started", "call_id": "c1"},
    {"at": 1.0, "event": "requested", "call_id": "c2", "tool": "edit", "args": {"n": 1}},
    {"at": 1.0, "event": "waiting", "call_id": "c2", "on": ["c1", "gone"]},
    {"at": 1.5, "event": "attempt_failed", "call_id": "c1", "kind": "transient", "again_in": 0.5},
    {"at": 2.0, "event": "started", "call_id": "c1"},
    {"at": 3.0, "event": "finished", "call_id": "c1", "kind": "", "text": "the text"},
    {"at": 3.0, "event": "asked", "call_id": "c2", "question": "May I?", "diff": "--- a\n+++ b\n-x\n+y"},
    {"at": 4000.0, "event": "answered", "call_id": "c2", "answer": "deny", "reason": "No."},
    {"at": 4000.0, "event": "finished", "call_id": "c2", "kind": "denied", "text": "No."},
    {"at": 4001.0, "event": "reply", "model": "m"},
    {"at": 4001.0, "event": "requested", "call_id": "c3", "tool": "edit",
     "args": {"old_string": "one", "new_string": "two"}},
    {"at": 4001.0, "event": "waiting", "call_id": "c3", "on": []},
    {"at": 4100.0, "event": "asked", "call_id": "c3", "question": "And now?"},
    {"at": 4101.0, "event": "requested", "call_id": "c4", "tool": "bad", "args": "{half"},
    {"at": 4101.0, "event": "finished", "call_id": "c4", "kind": "bug", "text": "It broke."},
]  # fmt: skip


class Page(HTMLParser):
    """The tags, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text.partition("</style>")[2])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def lines_of(text: str) -> list[str]:
    return [line for line in "".join(Page(text).texts).splitlines() if line.strip()]


def test_a_page_has_all_that_happened() -> None:
    text = render_page({"id": "r-1", "status": "answer", "why": "", "n": None}, read_history(LINES))
    items = re.findall(r"<li>(.*?)</li>", text)

    assert items == [
        "decision: allow by r1",
        "attempt failed (transient), retried after 500 ms",
        "waited 1.1 h for #1 read, a call that is not in the journal",
        "approval requested: May I?",
        "denied after 1.1 h: No.",
        "waited 1.7 min for a free slot",
        "waiting for approval for 1.00 s",
        "approval requested: And now?",
    ]
    shown = lines_of(text)
    assert shown[0] == "Run r-1"
    assert "statusanswer" in shown
    assert [line for line in shown if line.startswith(("Prompt", "Turn"))] == [
        "Prompt +0 ms · 1970-01-01 00:00:00+00:00",
        "Turn 1 +1.00 s · 1970-01-01 00:00:01+00:00 · m · model took 1.00 s · 1,500 tokens in, 0 out",
        "Turn 2 +1.1 h · 1970-01-01 01:06:41+00:00 · m · model took 1.00 s · 0 tokens in, 0 out",
    ]
    assert [line for line in shown if "#" in line and "waited" not in line] == [
        "#1read2.00 sok",
        "#2edit1.1 hdenied",
        "#3edit1.7 minno result",
        "#4bad0 msbug",
    ]
    assert re.findall(r'<span class="(?:add|del)">(.*?)</span>', text) == [
        "-x",
        "+y",
        "-one",
        "+two",
    ]
    assert ("{half" in text, '"path": "a"' in "".join(Page(text).texts)) == (True, True)
    assert text.count('class="backoff"') == 2  # a call, and the legend


def test_a_page_of_nothing() -> None:
    text = render_page({}, read_history([]))

    assert lines_of(text)[0] == "Run "
    lost = render_page({"id": "x"}, read_history([{"event": "started", "call_id": "c"}]))
    assert "Calls" in lost


@given(st.data())
def test_whatever_was_said_nothing_in_a_page_acts(data: st.DataObject) -> None:
    evil = st.sampled_from([EVIL, 5, None, [EVIL], {EVIL: EVIL}, "", f'{{"old_string": "{EVIL}"'])
    lines = [
        {
            name: data.draw(evil) if data.draw(st.booleans()) else value
            for name, value in line.items()
        }
        | {"event": line["event"], "text": EVIL, "model": EVIL}
        for line in LINES
    ]
    text = render_page({"id": EVIL, EVIL: EVIL}, read_history(lines))
    page = Page(text)

    assert (page.tags - TAGS, page.attributes - ATTRIBUTES) == (set(), set())
    assert "\x1b" not in text
    assert "\u202e" not in text
    text.encode()


def test_planned_changes_as_a_diff() -> None:
    changes = [
        FileChange("new.txt", None, "one\ntwo\n"),
        FileChange("gone.txt", "old\n", None),
        "Sends a mail.",
    ]

    assert make_diff(changes) == (
        "--- a/new.txt\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
        "--- a/gone.txt\n+++ b/gone.txt\n@@ -1 +0,0 @@\n-old\nSends a mail.\n"
    )
    assert len(make_diff([FileChange("a", "", "x\n" * 20_000)])) == 20_000
