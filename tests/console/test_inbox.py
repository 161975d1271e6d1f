"""The inbox without script: reading a request, every answer to it, and every refusal."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from console.visits import (
    ASKED,
    BEHIND_A_PROXY,
    HOST,
    Visitor,
    make_pending,
    park,
    read_page,
    visit,
)
from handrail import Deny
from handrail.console import Console
from handrail.console._store import Store
from handrail.permissions import (
    Approvers,
    CommandPart,
    FileChange,
    Grade,
    Origin,
    Pending,
    Undoable,
)
from handrail.runs import RunRecord, open_runs, request_digest
from handrail.runs.records import AnswerRecord, from_path, to_path

REFUND = make_pending("r1")
COMMAND = make_pending(
    "r1",
    "c2",
    tool="bash",
    args={"command": "git status && rm -rf build", "timeout": 5},
    headline="Delete build/ and everything in it",
    grade=Grade.LOSES,
    parts=(
        CommandPart(0, 10, Grade.UNKNOWN),
        CommandPart(14, 26, Grade.LOSES, ("build",)),
    ),
    accesses=(),
)
EDIT = make_pending(
    "r1",
    "c3",
    tool="edit",
    args={"path": "limits.toml"},
    headline="Edit limits.toml",
    grade=Grade.CHANGE,
    origin=None,
    after=("r1/1/c1",),
    changes=(
        FileChange(
            "limits.toml",
            "".join(f"{n}\n" for n in range(20)),
            "0\nnew\n" + "".join(f"{n}\n" for n in range(2, 19)) + "end\n",
            12,
        ),
        FileChange("new.txt", None, "text\n"),
        FileChange("old.txt", "text\n", None),
        FileChange("same.txt", "text\n", "text\n"),
        "Also tells the build server.",
        Undoable((), "undo does not keep build/"),
        Undoable(()),
    ),
)
LONG = make_pending("r1", "c4", args={"body": f"{'line' * 20}\n" * 50, "n": "x" * 500})
HUGE = make_pending("r1", "c5", args={"body": "x" * 11_000})
WIDE = make_pending("r1", "c6", args={}, changes=(FileChange("a", "x\n" * 3_000, "y\n" * 3_000),))
TALL = make_pending(
    "r1",
    "c8",
    args={},
    changes=(FileChange("a", "", "".join(f"{n} {'x' * 90}\n" for n in range(60))),),
)
NOT_JSON = make_pending("r1", "c7", args='{"broken')
PATH = {
    "refund": REFUND,
    "command": COMMAND,
    "edit": EDIT,
    "long": LONG,
    "huge": HUGE,
    "wide": WIDE,
    "broken": NOT_JSON,
    "tall": TALL,
}


def path(name: str) -> str:
    return f"/inbox/{to_path(PATH[name].id)}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "journal.db"
    journal = open_runs(file)
    park(journal, *PATH.values())
    journal.close()
    return file


def receipt(file: Path, pending: Pending) -> AnswerRecord | None:
    return open_runs(file).records().receipt(pending.id)


def said(found: Any) -> str:
    return read_page(found.text).text


def test_the_list_is_sorted_by_the_time_left(tmp_path: Path) -> None:
    journal = open_runs(tmp_path / "journal.db")
    times = {"slow": 86_400.0, "soon": 1_800.0, "never": float("inf")}
    several = [
        make_pending("r1", call, headline=call, expires_at=ASKED + seconds)
        for call, seconds in times.items()
    ]
    park(journal, *several, make_pending("r1", "none", headline="", grade=Grade.CHANGE))
    text = said(visit(tmp_path / "journal.db").get("/inbox"))

    assert "Waiting for you · 4" in text
    order = [text.index(title) for title in ("soon?", "Call refund?", "slow?", "never?")]
    assert order == sorted(order)
    assert re.search(
        "[0-9]{1,2}m(\u00a0[0-9]{2}s)? left", visit(tmp_path / "journal.db").get("/inbox").text
    )
    assert "no limit" in text
    assert "changes files" in text


def test_pages_of_the_list_go_on_by_key(file: Path) -> None:
    console = Console(replace(BEHIND_A_PROXY, page_size=2), Store(str(file)))
    person, seen, path = visit(file, console=console), list[str](), "/inbox"
    for _ in range(10):
        page = read_page(person.get(path).text)
        seen += [one for one in page.addresses if one.startswith("/inbox/r")]
        [path] = [one for one in page.addresses if "after=" in one] or [""]
        if not path:
            break

    assert sorted(set(seen)) == sorted(f"/inbox/{to_path(one.id)}" for one in PATH.values())
    assert len(seen) == 8


def test_an_empty_inbox_says_so(tmp_path: Path) -> None:
    assert "Nothing waits for you" in said(visit(tmp_path / "new.db").get("/inbox"))


def test_a_request_shows_content_before_buttons_and_facts_after(file: Path) -> None:
    page = visit(file).get(path("refund")).text
    order = [
        page.index(part)
        for part in (
            "<h1><bdi",
            "! leaves this machine</p>",
            "124000",
            "Asked by",
            "rules.toml:18",
            "Refunds need a person.",
            'value="approve"',
            'value="deny"',
            "Fingerprint",
        )
    ]

    assert order == sorted(order)
    assert read_page(page).buttons == ["approve", "deny"]


def test_a_command_shows_its_grave_part_and_a_change_its_lines(file: Path) -> None:
    command, edit = (visit(file).get(path(name)).text for name in ("command", "edit"))

    assert '<span class="grave">rm -rf build</span>' in command
    assert "It can delete" in command
    assert 'name="typed"' in command
    assert '<tr class="del"><td class="ln">13</td><td class="sg">\u2212' in edit
    assert '<tr class="add"><td class="ln">13</td>' in edit
    assert '<tr class="gap">' in edit
    for words in ("a new file", "would be deleted", "no change", "Also tells", "does not keep"):
        assert words in edit
    assert "1\u00a0call before it" in edit


@pytest.mark.parametrize(
    ("answer", "fields", "word", "notice"),
    [
        ("approve", {}, "allow", "✓ Approved."),
        ("deny", {"reason": "Too much."}, "deny", "✓ Denied."),
        ("edit", {"args": '{"amount": 1}'}, "edit", "✓ Edited and approved."),
        ("result", {"result": "Done by hand.\r\nOK"}, "result", "✓ Answered with a result."),
    ],
)
def test_each_answer_is_recorded_with_its_person(  # noqa: PLR0917
    file: Path, answer: str, fields: dict[str, str], word: str, notice: str
) -> None:
    person = visit(file)
    form = person.form(f"{path('refund')}/more")
    found = person.post(path("refund"), {**form, "answer": answer, **fields})
    given = receipt(file, REFUND)

    assert (found.status_code, found.headers["location"]) == (303, path("refund"))
    assert given is not None
    assert (given.answer, given.by, given.via) == (word, "proxy|ana", "console")
    assert given.seen in (request_digest(REFUND), "")
    assert given.reason == (Deny.by_user("Too much.").reason if word == "deny" else "")
    shown = said(person.get(path("refund")))
    assert notice in shown
    assert "handrail runs resume r1" in shown
    assert read_page(person.get(path("refund")).text).buttons == []


REFUSALS: list[tuple[str, str, dict[str, str], str]] = [
    ("command", "approve", {}, "type yes before you approve it"),
    ("command", "approve", {"typed": "no"}, "type yes before you approve it"),
    ("long", "approve", {}, "Part of the request was not on your page"),
    ("huge", "approve", {}, "too long to show, so it cannot be approved"),
    ("refund", "", {}, "did not say which answer"),
    ("refund", "edit", {"args": "[1]"}, "not a JSON object"),
    ("refund", "edit", {"args": "{"}, "not a JSON object"),
    ("refund", "result", {"result": ""}, "The result is empty"),
    ("refund", "approve", {"seen": "x"}, "The request changed while you read it."),
]


@pytest.mark.parametrize(("name", "answer", "fields", "why"), REFUSALS)
def test_an_answer_that_is_not_used_says_so_first(  # noqa: PLR0917
    file: Path, name: str, answer: str, fields: dict[str, str], why: str
) -> None:
    person = visit(file)
    found = person.answer(path(name), answer, **fields)

    assert found.status_code == 409
    assert why in said(found)
    assert "Your answer was not used." in said(found)
    assert receipt(file, PATH[name]) is None


def test_what_was_not_shown_in_full_is_not_approved(file: Path) -> None:
    person = visit(file)
    short, full = (read_page(person.get(path("long") + query).text) for query in ("", "?full=1"))
    stolen = {**short.fields, "full": "1", "answer": "approve"}

    assert (short.buttons, full.buttons) == (["deny"], ["approve", "deny"])
    assert person.post(path("long"), stolen).status_code == 409
    assert "4,050\u00a0characters, 51\u00a0lines" in person.get(path("long")).text
    assert receipt(file, LONG) is None
    assert person.post(path("long"), {**full.fields, "answer": "approve"}).status_code == 303
    for name in ("huge", "wide"):
        assert read_page(person.get(f"{path(name)}?full=1").text).buttons == ["deny"]
    tall = read_page(person.get(path("tall")).text)
    assert tall.buttons == ["deny"]
    assert "more lines" in tall.text.replace("\u00a0", " ")
    assert read_page(person.get(f"{path('tall')}?full=1").text).buttons == ["approve", "deny"]


LINES = ("a\nb\n" * 150, "a\n" * 300)


@pytest.mark.parametrize(
    ("changes", "compared"),
    [
        ([FileChange("a", *LINES)], True),
        ([FileChange(f"f{n}", *LINES) for n in range(3)], False),  # each alone is short enough
        ([FileChange("a", "x" * 150_000, "y" * 60_000)], False),
    ],
)
def test_changes_are_compared_only_if_all_are_short_and_never_in_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: list[FileChange], *, compared: bool
) -> None:
    found: list[str] = []

    def trace(change: FileChange) -> Any:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        found.append(change.path)
        return iter([("+", 1, "new")])

    monkeypatch.setattr("handrail.console._request.diff_rows", trace)
    pending = make_pending("r1", changes=tuple(changes))
    more = make_pending("r1", "c2", args={"n": "x" * 11_000}, changes=(FileChange("a", "", "b"),))
    park(open_runs(tmp_path / "journal.db"), pending, more)
    person = visit(tmp_path / "journal.db")
    pages = [person.get(f"/inbox/{to_path(one.id)}?full=1").text for one in (pending, more)]
    buttons = [read_page(page).buttons for page in pages]

    assert found == (["a"] if compared else [])
    assert buttons == [["approve", "deny"] if compared else ["deny"], ["deny"]]


CUT: dict[str, dict[str, Any]] = {
    "name": {"args": {f"note{' x' * 150}; END": "yes"}},
    "question": {"question": f"{'Q' * 299} END?", "origin": Origin("r" * 400, "f" * 400, 1)},
    "headline": {"headline": f"Pay {'z' * 2_100} END"},
    "path": {"changes": (FileChange(f"{'d/' * 1_010}END", "a", "b"),)},
    "removed": {
        "args": {"command": "rm", "n": 1},
        "parts": (CommandPart(0, 2, Grade.CHANGE, ("x" * 400,)),),
    },
    "tool": {"tool": "t" * 400},
}


@pytest.mark.parametrize("part", CUT)
def test_where_it_can_be_approved_nothing_is_cut(tmp_path: Path, part: str) -> None:
    pending = make_pending("r1", **CUT[part])
    park(open_runs(tmp_path / "journal.db"), pending)
    whole = visit(tmp_path / "journal.db").get(f"/inbox/{to_path(pending.id)}?full=1").text
    content = whole[whole.index("<article") : whole.index("<form", whole.index("<article"))]

    assert read_page(whole).buttons == ["approve", "deny"]
    assert 'class="cut"' not in content
    assert ("END" in content) == (part not in ("removed", "tool"))


def test_a_headline_that_is_cut_cannot_be_approved(tmp_path: Path) -> None:
    pending = make_pending("r1", headline="z" * 250_000)
    park(open_runs(tmp_path / "journal.db"), pending)
    cut = visit(tmp_path / "journal.db").get(f"/inbox/{to_path(pending.id)}?full=1").text

    assert read_page(cut).buttons == ["deny"]
    assert 'class="cut">… (250,001 characters)' in cut


def test_what_cannot_be_undone_needs_a_typed_yes(file: Path) -> None:
    assert visit(file).answer(path("command"), typed=" yes ").status_code == 303
    assert visit(file).get(f"{path('command')}/more").text.count('name="typed"') == 1
    assert "&#39;{&#34;broken&#39;" in visit(file).get(f"{path('broken')}/more").text


def test_a_request_has_one_answer(file: Path) -> None:
    console = Console(BEHIND_A_PROXY, Store(str(file)))
    ana, ben = visit(file, console=console), visit(file, name="ben", console=console)
    first, second = ana.form(path("refund")), ben.form(path("refund"))
    assert ana.post(path("refund"), {**first, "answer": "approve"}).status_code == 303
    late = ben.post(path("refund"), {**second, "answer": "deny"})
    replayed = ana.post(path("refund"), {**first, "answer": "approve"})

    assert (late.status_code, replayed.status_code) == (409, 409)
    assert re.search(
        r"Already answered\. proxy\|ana approved it [\d.]+ seconds? before you\.", said(late)
    )
    given = receipt(file, REFUND)
    assert given is not None
    assert given.answer == "allow"


def test_a_request_that_expired_is_too_late(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    pending = make_pending("r1", expires_at=ASKED + 61)
    park(open_runs(file), pending)
    now = [ASKED + 60.5]
    console = Console(BEHIND_A_PROXY, Store(str(file)), clock=lambda: now[0])
    person = visit(file, console=console)
    where = f"/inbox/{to_path(pending.id)}"
    now[0] = ASKED + 3_600
    found = said(person.get(where))

    assert "Too late. This request was denied automatically at" in found
    assert "after 1m 01s." in found.replace("\u00a0", " ")


def test_a_run_in_use_is_said(file: Path) -> None:
    journal = open_runs(file)
    with journal.hold("r1"):
        found = visit(file).answer(path("refund"))

    assert "Another process is working on this run. Your answer was not used." in said(found)


def test_who_may_not_answer_sees_no_arguments(file: Path) -> None:
    viewer = visit(file, "viewers")
    for name in PATH:
        page = viewer.get(path(name)).text
        assert read_page(page).buttons == []
        for secret in ("88213", "124000", "rm -rf", "limits.toml", "Refunds need"):
            assert secret not in page
    assert "Only those who may answer see the arguments" in said(viewer.get(path("refund")))
    assert "Waiting for others · 8" in said(viewer.get("/inbox"))
    assert "88213" not in viewer.get("/inbox").text + viewer.get("/runs/r1?call=1").text
    assert "88213" in visit(file).get("/runs/r1?call=1").text  # the control


def test_roles_of_two_groups_do_not_mix(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    journal = open_runs(file)
    park(journal, make_pending("r1"))
    park(journal, make_pending("r2"), labels=["team=other"])
    person = visit(file, "approvers,watchers")
    text = said(person.get("/inbox"))
    other = f"/inbox/{to_path(make_pending('r2').id)}"

    assert ("Waiting for you · 1" in text, "Waiting for others · 1" in text) == (True, True)
    assert read_page(person.get(other).text).buttons == []
    assert person.get(f"{other}/more").status_code == 404
    form = {**person.form(f"/inbox/{to_path(make_pending('r1').id)}"), "answer": "approve"}
    assert "You may not answer this request." in said(person.post(other, form))
    assert receipt(file, make_pending("r2")) is None


def test_rules_can_reserve_a_request_for_some(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    limits = Approvers((("leads",),))
    several = make_pending("r1", "c2", approvers=Approvers(count=2))
    own = make_pending("r1", "c3", approvers=Approvers(not_requester=True), principal="proxy|ana")
    park(open_runs(file), make_pending("r1", approvers=limits), several, own)
    where = [f"/inbox/{to_path(f'r1~1~{call}~0')}" for call in ("c1", "c2", "c3")]
    console = Console(BEHIND_A_PROXY, Store(str(file)))
    ana, ben = visit(file, console=console), visit(file, name="ben", console=console)

    assert "Only leads can answer it." in said(ana.get(where[0]))
    form = {**ana.form(where[1]), "answer": "approve"}
    refused = ana.post(where[0], form)
    assert "You may not answer this request." in said(refused)
    assert ana.get(f"{where[0]}/more").status_code == 404
    assert "it is on your own behalf. Your answer was not used." in said(ana.answer(where[2]))
    assert ana.post(where[1], form).status_code == 303
    assert "So far: proxy|ana approved." in said(ben.get(where[1]))
    assert read_page(ben.get(where[1]).text).buttons == ["approve", "deny"]
    assert ben.answer(where[1]).status_code == 303
    assert "✓ Approved." in said(ben.get(where[1]))


def test_a_vote_is_shown_with_its_word(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    pending = make_pending("r1", approvers=Approvers(count=2))
    park(open_runs(file), pending)
    person, where = visit(file), f"/inbox/{to_path(pending.id)}"

    assert "So far: none." in said(person.get(where))
    assert person.answer(where, "edit", args='{"amount": 1}').status_code == 303
    assert "So far: proxy|ana edited and approved." in said(person.get(where))


def test_what_is_reserved_for_some_is_hidden_from_other_approvers(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    limits = Approvers((("proxy|boss",),))
    park(open_runs(file), make_pending("r1", approvers=limits), make_pending("r1", "c2"))
    ana, boss, audits = visit(file), visit(file, name="boss"), visit(file, "auditors")
    lists = [said(one.get("/inbox")) for one in (ana, boss)]
    drawers = [one.get("/runs/r1?call=1").text for one in (ana, boss, audits)]

    assert [text.count("Refund $1,240.00") for text in lists] == [1, 4]  # boss can tick them too
    assert "Waiting for you · 1" in lists[0]
    assert "Waiting for others · 1" in lists[0]
    assert ["88213" in text for text in drawers] == [False, True, True]
    assert "88213" in ana.get("/runs/r1?call=2").text  # the control


def test_several_are_denied_at_once_and_never_approved(file: Path) -> None:
    person = visit(file)
    ticked = [to_path(one.id) for one in (REFUND, LONG)]
    form = {"csrf": person.form("/inbox")["csrf"], "reason": "Later.", "answer": "approve"}
    found = person.post("/inbox/deny", {**form, "pending": [*ticked, "~bm9uZQ", ticked[0]]})
    again = person.post("/inbox/deny", {**form, "pending": ticked})

    assert "✓ Denied 2. There is no such request." in said(found)
    assert "Nothing was denied. Already answered." in said(again)
    assert [given and given.answer for given in (receipt(file, REFUND), receipt(file, LONG))] == [
        "deny",
        "deny",
    ]
    assert receipt(file, COMMAND) is None


def test_ids_in_addresses_are_read_as_they_were_written() -> None:
    for text in ("r1", "r/1?0", "r~1~c.1~0", "a b", "~x", "", "ü", "x" * 300, ".."):
        assert from_path(to_path(text)) == text
    assert to_path("r~1~c.1~0") == "r~1~c.1~0"
    assert [from_path(to_path(text)) for text in ("\ud800", "a\0b")] == ["?", "a\ufffdb"]
    for bad in ("a/b", "~*", "~bm9uZQ=", "~\u00fc", "~/w", "../x", "~cjE", "~7aCA"):
        assert from_path(bad) == ""


def test_a_page_costs_at_most_six_statements_however_much_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "journal.db"
    journal = open_runs(file)
    park(journal, *(make_pending("r1", f"c{number}") for number in range(20)))
    statements: list[str] = []
    person = visit(file, "admins")
    paths = ["/inbox", f"/inbox/{to_path('r1~1~c1~0')}", "/runs", "/runs/r1?call=1", "/audit"]
    for one in paths:
        person.get(one)  # opens the connections
    connect = sqlite3.connect

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    counted = visit(file, "admins")
    counted.get("/inbox")
    counts = {}
    for one in paths:
        statements.clear()
        assert counted.get(one).status_code == 200
        counts[one] = len(statements)

    assert max(counts.values()) <= 6, counts
    assert min(counts.values()) >= 1, counts


def test_a_local_person_is_a_visitor_too(file: Path) -> None:
    client = TestClient(Console(BEHIND_A_PROXY, Store(str(file))), base_url=f"https://{HOST}")
    assert Visitor(client, {"host": HOST}).get("/inbox").status_code == 401


FORM = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "title": "Si\u202eze"},
        "colour": {"enum": ["red", "blue"]},
        "note": {"type": "string", "default": "none"},
    },
    "required": ["size"],
}
QUESTION = make_pending(
    "r1",
    "c9",
    tool="fill_in",
    args={"question": "Which?", "form": FORM, "state": "kept"},
    kind="form",
    headline="Answer the shop",
    question="Which?",
    origin=None,
    grade=Grade.UNKNOWN,
)


@pytest.mark.parametrize(
    ("typed", "given", "said"),
    [
        ({"value-0": "3", "value-1": "1"}, {"size": 3, "colour": "blue", "note": "none"}, ""),
        ({"value-0": "3", "value-1": "9"}, None, "colour: this must be one of red, blue"),
        ({}, None, "Si\\u{202E}ze: a value is needed, a whole number"),
    ],
)
def test_a_form_is_filled_in_on_the_page(
    tmp_path: Path, typed: dict[str, str], given: object, said: str
) -> None:
    file = tmp_path / "journal.db"
    with closing(open_runs(file)) as journal:
        park(journal, QUESTION)
    person, path = visit(file), f"/inbox/{to_path(QUESTION.id)}"
    page, more = person.get(path).text, person.get(f"{path}/more").text
    answered = person.answer(path, **typed)
    with closing(open_runs(file)) as journal:
        receipt = journal.records().receipt(QUESTION.id)
        saved = RunRecord(journal, "r1").answers.get(QUESTION.id, {}).get("saved")

    text = read_page(page).text
    assert "Answer the shop?" in text
    assert "Send the answer" in text
    assert "kept" not in page
    assert "Change the arguments" not in more
    if said:
        assert (receipt, said in read_page(answered.text).text) == (None, True)
    else:
        assert receipt is not None
        assert (receipt.answer, receipt.by) == ("edit", "proxy|ana")
        assert json.loads(str(saved))["answer"]["edit"] == given
