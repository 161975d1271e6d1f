"""Hostile text in every field of every page: the page keeps exactly the elements of its template."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import jinja2
import pytest

from console.visits import make_pending, park, read_page, visit
from handrail import WRITE, Access
from handrail.console import _rendering as rendering
from handrail.console._request import to_path
from handrail.permissions import FileChange, Grade, Origin
from handrail.runs import JournalError, RunRecord, RunStore, open_runs
from handrail.runs._reading.records import Records

PACKAGE = Path(rendering.__file__).parent
PLAIN = "plain text"
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' autofocus onfocus=alert(1) x='",
    "</textarea></title></style><iframe src=//evil.example>",
    "javascript:alert(1)",
    "<math><mtext></form><form action=//evil.example><button>Approve",
    "<!-- --><![CDATA[ ]]>",
    "{{7*7}}{% include '/etc/passwd' %}",
    "${7*7}#{7*7}<%= 7 %>",
    "=cmd|'/c calc'!A1",
    "https://evil.example/",
    "a\u202egnp.exe",
    "pay\u200bpal \u0440\u0430ypal",
    "\x1b[2J\x1b]8;;https://evil.example\x07x",
    "&lt;b&gt;&#x202e;",
    "a\r\nSet-Cookie: x=1",
    "\udfff\ud800 lone",
    "@import url(//evil.example);}",
    "x" * 900,
)
TOGETHER = [" ".join(HOSTILE[start : start + 5]) for start in range(0, len(HOSTILE), 5)]
"""Several texts in one: a page costs more than a text."""
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u200b-\u200f\u2066-\u2069\ufeff]")


def make_file(folder: Path, text: str) -> Path:
    """A journal with a text in every field that comes from outside."""
    file = folder / "journal.db"
    journal = open_runs(file)
    record(journal, text)
    journal.close()
    return file


def record(journal: RunStore, text: str) -> None:
    """Write a text to every field that comes from outside."""
    call = f"c {text}"[:500]
    common: dict[str, Any] = {
        "tool": text,
        "args": json.dumps({"command": text, text: text, "list": [text, {text: 1}]}),
        "headline": text,
        "question": text,
        "origin": Origin(text, text, 3),
        "accesses": (Access(WRITE, f"x:{text}"),),
        "principal": text,
        "changes": (FileChange(text, text, f"{text}!"), text),
        "grade": Grade.LOSES,
    }
    about = {"agent": text, "principal": text, "prompt": text, "why": text}
    park(journal, make_pending("r1", call, **common), make_pending("r1", "c2"), **about)
    run = RunRecord(journal, "r1")
    at = {"at": 1_763_350_000.0, "call_id": call}
    run.note(
        [
            {**at, "event": "decided", "decision": "deny", "origin": {"rule": text, "file": text}},
            {**at, "event": "waiting", "on": [text], "what": text, "reason": text},
            {**at, "event": "started", "attempt": 1},
            {**at, "event": "finished", "kind": text, "text": text},
        ]
    )
    run.set_status(status="waiting", reason="", why=text)


def pages(file: Path, text: str) -> dict[str, str]:
    """Every page that shows it."""
    person = visit(file, "admins", name="ana")
    request = f"/inbox/{to_path(make_pending('r1', f'c {text}'[:500]).id)}"
    paths = ["/inbox", request, f"{request}?full=1", f"{request}/more", "/runs", "/runs/r1?call=1"]
    paths.append("/rules?run=r1&call=1")
    found = {path.replace(request, "R"): person.get(path) for path in [*paths, "/audit"]}
    for path, response in found.items():
        assert response.status_code == 200, (path, text)
    form = {**person.form(request), "answer": "approve", "seen": "x"}
    found["refused"] = person.post(request, form)
    return {path: response.text for path, response in found.items()}


ACTIVE = {"a", "button", "form", "iframe", "img", "input", "link", "meta", "script", "textarea"}
"""Elements that do something. A page of hostile text has as many of them as one of plain text."""
Element = tuple[str, tuple[str, ...]]


def findings(html: str, wanted: str, known: set[Element]) -> list[str]:
    """What is wrong with a page of hostile text, compared with one of plain text."""
    page, plain = read_page(html), read_page(wanted)
    found = [f"element {one}" for one in sorted(set(page.elements) - known)]
    counts = [Counter(name for name, _ in one.elements if name in ACTIVE) for one in (page, plain)]
    found += [f"counts {one}" for one in counts] if counts[0] != counts[1] else []
    if RAW.search("".join(page.texts)) or RAW.search("".join(page.attributes)):
        found.append("characters that are not visible")
    found += [one for one in page.addresses if not re.match(r"(/|#|\?|data:,|$)", one)]
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return pages(make_file(tmp_path_factory.mktemp("plain"), PLAIN), PLAIN)


@pytest.fixture(scope="module")
def known(plain: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> set[Element]:
    """The elements of the templates, also of notices about hidden characters and of what is cut."""
    text = f"a\u202eb p\u0430ypal {'x' * 900}"
    odd = pages(make_file(tmp_path_factory.mktemp("odd"), text), text)
    return {one for html in (*plain.values(), *odd.values()) for one in read_page(html).elements}


@pytest.mark.parametrize("text", TOGETHER, ids=lambda text: ascii(text)[:20])
def test_hostile_text_stays_text(
    tmp_path: Path, text: str, plain: dict[str, str], known: set[Element]
) -> None:
    shown = pages(make_file(tmp_path, text), text)
    found = {path: findings(html, plain[path], known) for path, html in shown.items()}

    if len(text) > 500:  # too long to approve: the page says so in place of the fields
        found = {
            path: [one for one in several if "counts" not in one] for path, several in found.items()
        }
    assert found == {path: [] for path in shown}
    assert not any(word == "49" for html in shown.values() for word in html.split())


def test_a_name_from_a_proxy_is_outside_text_too(tmp_path: Path, known: set[Element]) -> None:
    file = make_file(tmp_path, PLAIN)
    wanted = visit(file, "admins", name="ana").get("/inbox").text
    for text in (HOSTILE[1], HOSTILE[2], HOSTILE[3]):
        if text.isascii() and text.isprintable():
            assert (
                findings(visit(file, "admins", name=text).get("/inbox").text, wanted, known) == []
            )


CONTROLS = {
    "safe": ("{{ m.parts(one_line(request.tool, most)) }}", "{{ request.tool|safe }}"),
    "no quotes": ('value="{{ value }}"', "value={{ value }}"),
    "past shown": ("finalize=finish", ""),
}


@pytest.mark.parametrize("control", CONTROLS)
def test_the_findings_can_fail(  # noqa: PLR0917
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    control: str,
    plain: dict[str, str],
    known: set[Element],
) -> None:
    """A template with `|safe`, an attribute without quotes, and a field past `shown`: caught."""
    old, new = CONTROLS[control]
    sources = {
        path.name: path.read_text(encoding="utf-8").replace(old, new)
        for path in (PACKAGE / "templates").iterdir()
    }
    if control == "past shown":
        sources["content.html"] = sources["content.html"].replace(
            "{{ m.title(request.title, most) }}", "{{ request.title }}"
        )
    if control == "no quotes":
        sources["runs.html"] = sources["runs.html"].replace(
            'value="{{ text }}"', "value={{ text }}"
        )
    made = rendering.make_environment()
    changed = made.overlay(loader=jinja2.DictLoader(sources))
    if control == "past shown":
        changed = made.overlay(loader=jinja2.DictLoader(sources), finalize=None)
    monkeypatch.setattr(rendering, "make_environment", lambda: changed)
    text = "a\u202eb" if control == "past shown" else HOSTILE[1]
    person = visit(make_file(tmp_path, text), "admins")
    request = f"/inbox/{to_path(make_pending('r1', f'c {text}').id)}"
    path = "/runs?q=a onfocus=alert(1)" if control == "no quotes" else f"{request}?full=1"
    wanted = plain["/runs"] if control == "no quotes" else plain["R?full=1"]
    html = person.get(path).text

    assert findings(html, wanted, known) != []


def test_nothing_in_the_package_switches_escaping_off() -> None:
    sources = {
        path.relative_to(PACKAGE): path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*")
        if path.suffix in (".py", ".html", ".js", ".css")
    }
    for words in ("|safe", "| safe", "Markup", "innerHTML", "autoescape false", "autoescape=False"):
        assert [path for path, text in sources.items() if words in text] == []
    for path, text in sources.items():
        if path.suffix == ".html":
            bare = re.findall(r" [\w-]+=\{[{%]", text)
            assert bare == [], path
            assert " style=" not in text
            assert re.findall(r"\son\w+=", text) == []
    assert sum(text.count("\n") for text in sources.values()) > 1_000
    assert 1_000 < len(sources[Path("static/console.js")].encode()) <= 12_000


def test_exports_quote_formulas_and_stay_ascii_or_visible(tmp_path: Path) -> None:
    text = "=cmd|'/c calc'!A1\u202e"
    person = visit(make_file(tmp_path, text), "admins")
    table = person.get("/audit/export.csv")
    lines = person.get("/audit/export.jsonl")
    cells = [cell for row in csv.reader(io.StringIO(table.text)) for cell in row]
    events = [json.loads(line) for line in lines.text.splitlines()]

    assert any(cell.startswith("'=cmd") for cell in cells)
    assert [cell for cell in cells if cell[:1] in "=+-@" and cell] == []
    assert RAW.search(table.text.replace("\r\n", "")) is None
    assert lines.text.isascii()
    assert {"place", "run", "number", "kind", "body", "digest"} == set(events[0])
    assert len(events) == len(cells) // 9 - 1
    assert table.headers["content-disposition"] == 'attachment; filename="audit.csv"'
    few = person.get("/audit/export.jsonl?kind=asked").text.splitlines()
    assert len(few) == 2
    assert "No event matches" in person.get("/audit?kind=nothing").text


@pytest.mark.parametrize("text", ["=1+1", "'=1+1", "\n=1+1"])
def test_a_cell_never_begins_as_a_formula_or_its_mark(tmp_path: Path, text: str) -> None:
    table = visit(make_file(tmp_path, text), "admins").get("/audit/export.csv").text
    cells = {cell for row in csv.reader(io.StringIO(table, newline="")) for cell in row}

    assert f"'{text}" in cells
    assert text not in cells


def test_an_export_has_every_page_and_fails_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = visit(make_file(tmp_path, PLAIN), "admins")
    whole = person.get("/audit/export.jsonl").text
    monkeypatch.setattr("handrail.runs._reading.exports._PAGE", 3)
    assert person.get("/audit/export.jsonl").text == whole

    def fail(_event: object) -> str:
        raise OSError("broken")

    monkeypatch.setattr("handrail.runs._reading.exports._row", fail)
    with pytest.raises(OSError, match="broken"):  # half an answer is not made whole
        person.get("/audit/export.csv")


def test_the_view_of_a_request_has_no_field_that_a_page_forgets() -> None:
    from handrail.console._request import RequestPage

    templates = "".join(
        path.read_text(encoding="utf-8") for path in (PACKAGE / "templates").iterdir()
    )
    unused = [one.name for one in fields(RequestPage) if f"request.{one.name}" not in templates]

    assert unused == []


def test_an_export_reads_its_pages_one_by_one_as_they_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    person = visit(make_file(tmp_path, PLAIN), "admins")
    monkeypatch.setattr("handrail.runs._reading.exports._PAGE", 3)
    seen = list[int]()
    read = Records.events

    def fail_later(records: Records, *args: Any, **options: Any) -> Any:
        seen.append(options["limit"])
        if len(seen) > wanted:
            raise JournalError("the file is gone")
        return read(records, *args, **options)

    monkeypatch.setattr(Records, "events", fail_later)
    wanted = 0
    first = person.get("/audit/export.jsonl")
    wanted, _ = 2, seen.clear()
    with pytest.raises(JournalError, match="gone"):  # half an answer is not made whole
        person.get("/audit/export.jsonl")

    assert (first.status_code, "Cannot read the runs" in first.text) == (503, True)
    assert seen == [3, 3, 3]
    assert caplog.text.count("the file is gone") == 2
