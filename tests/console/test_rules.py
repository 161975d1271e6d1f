"""The page of the rules: which decide, what today's say about a call, and a rule to try."""

from __future__ import annotations

import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.visits import BEHIND_A_PROXY, Visitor, read_page, visit
from handrail import Call
from handrail.console import Console, app
from handrail.console._store import Store
from handrail.policy import Rulebook, count_uses, load_files, make_patch, read_recorded, try_rules
from handrail.runs import RunRecord, open_runs
from handrail.runs.records import PastCall, RuleCount, read_past_calls
from runs.pages import counted

TODAY = """
[[rule]]
id = "no-force"
decide = "deny"
tools = ["push"]

[[rule]]
id = "never"
decide = "allow"
tools = ["push"]

[[rule]]
id = "spare"
decide = "ask"
tools = ["other"]
"""
PROPOSED = '[[rule]]\nid = "lint"\ndecide = "allow"\ntools = ["lint"]\n'


def note(file: Path, run: str, calls: list[tuple[str, str, str, str]], team: str) -> None:
    """Record calls: tool, decision, rule, and what a person answered."""
    with closing(open_runs(file)) as journal:
        record = RunRecord(journal, run)
        record.set_status(status="running", labels=[team])
        for number, (tool, decision, rule, answer) in enumerate(calls, 1):
            about: dict[str, Any] = {"call_id": f"c{number}", "at": 1.7e9}
            origin = {"rule": rule, "file": "rules.toml", "line": 2}
            touched = [["write", "shop:orders"]]
            lines = [
                {**about, "event": "requested", "tool": tool, "args": {"target": "all"}},
                {**about, "event": "decided", "decision": decision, "origin": origin}
                | {"accesses": touched},
            ]
            if answer:
                lines.append({**about, "event": "asked", "pending": "p", "origin": origin})
                lines.append({**about, "event": "answered", "answer": answer})
            record.note(lines)


@pytest.fixture
def person(tmp_path: Path) -> Visitor:
    return visit_rules(tmp_path, "admins")


def visit_rules(folder: Path, group: str) -> Visitor:
    file, rules = folder / "journal.db", folder / "rules.toml"
    if not file.exists():
        rules.write_text(TODAY, encoding="utf-8")
        calls = [("lint", "ask", "mode ask", ""), ("lint", "ask", "mode ask", "deny")]
        note(file, "r1", [*calls, ("push", "allow", "no-force", "")], "team=pay")
        note(file, "r2", [("lint", "ask", "theirs", "")], "team=other")
    config = replace(BEHIND_A_PROXY, rules=(str(rules),))
    console = Console(config, Store(str(file)), clock=lambda: 1.7e9)
    return visit(file, group, console=console)


def text_of(found: Any) -> str:
    assert found.status_code == 200
    return read_page(found.text).text.replace("\u00a0", " ")


def test_rules_are_counted_with_what_never_decides(person: Visitor, tmp_path: Path) -> None:
    page = text_of(person.get("/rules"))

    for words in (
        "mode ask rules.toml:2 — 2 deny 1",
        "no-force rules.toml:2 — 1",
        f"never {tmp_path}/rules.toml:7 ✓ allow 0 dead: it never decides, because no-force",
        f"spare {tmp_path}/rules.toml:12 ? ask 0 unused",
    ):
        assert words.replace(" ", "") in page.replace(" ", "")
    assert "theirs" in page
    assert "theirs" not in text_of(visit_rules(tmp_path, "viewers").get("/rules"))


def test_a_call_is_explained_with_the_rules_of_today(person: Visitor, tmp_path: Path) -> None:
    page = text_of(person.get("/rules?run=r1&call=3"))
    plain = text_of(visit_rules(tmp_path, "viewers").get("/rules?run=r1&call=3"))
    denied = text_of(person.get("/rules?run=r1&call=2"))
    link = "/rules?run=r1&call=3"

    words = f"Then ✓ allow by no-force (rules.toml:2) Today ⊘ deny by no-force ({tmp_path}/rules.toml:2)"
    assert f"{words}: ".replace(" ", "") in page.replace(" ", "")  # why, for who sees content
    assert f"{words}Nothing".replace(" ", "") in plain.replace(" ", "")
    assert "and a person answered deny" in denied
    assert link in read_page(person.get("/runs/r1?call=3").text).addresses
    missing = person.get("/rules?run=none&call=1")
    for path in ("/rules?run=r1&call=9", "/rules?run=r1"):
        assert (person.get(path).status_code, person.get(path).text) == (404, missing.text)
    others = visit_rules(tmp_path, "others").get("/rules?run=r1&call=3")
    assert (others.status_code, others.text) == (404, missing.text)


def test_a_rule_is_tried_and_shows_first_what_a_person_had_denied(
    person: Visitor, tmp_path: Path
) -> None:
    def try_it(who: Visitor, text: str) -> Any:
        return who.post("/rules/replay", {**who.form("/rules"), "rule": text})

    before = (tmp_path / "rules.toml").read_text(encoding="utf-8")
    page = text_of(try_it(person, PROPOSED))
    others = text_of(try_it(visit_rules(tmp_path, "others"), PROPOSED))
    wrong = text_of(try_it(person, "[[rule]]\ndecide = 'maybe'\n"))

    assert "3 calls of 4 would be decided differently. A person had denied some of them." in page
    assert 'lint {"target": "all"}? ask✓ allow31' in page
    assert "1 call of 1 would be decided differently." in others
    assert "The rule cannot be read." in wrong
    assert (tmp_path / "rules.toml").read_text(encoding="utf-8") == before
    assert "+++ b/rules.toml" in page
    approver = visit_rules(tmp_path, "approvers")
    assert "Try a rule" not in text_of(approver.get("/rules"))


def test_a_console_without_rules_counts_and_tries_nothing(tmp_path: Path) -> None:
    visit_rules(tmp_path, "admins")
    file = tmp_path / "journal.db"
    person = visit(file, "admins")
    csrf = person.form("/audit")

    assert "does not know the rules of today" in text_of(person.get("/rules?run=r1&call=1"))
    assert person.post("/rules/replay", {**csrf, "rule": PROPOSED}).status_code == 404
    given = app(BEHIND_A_PROXY, runs=str(file), rules=lambda: Rulebook.from_toml(TODAY))
    assert "Try a rule" in text_of(visit(file, "admins", console=given).get("/rules"))
    sent = {**visit(file, "admins", console=given).form("/rules"), "rule": PROPOSED}
    codes = [
        visit(file, group, console=given).post("/rules/replay", sent).status_code
        for group in ("admins", "approvers", "viewers")
    ]
    assert codes == [200, 404, 404]


def test_pages_of_rules_take_few_statements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visit_rules(tmp_path, "admins")
    with (
        counted(monkeypatch) as seen,
        closing(open_runs(tmp_path / "journal.db").records()) as records,
    ):
        seen.clear()
        past = read_past_calls(records)
        replayed = len(seen)
        seen.clear()
        records.run("r1")
        records.call("r1", 1)
        records.rules()
        explained = len(seen)

    assert len(past) == 4
    assert (replayed <= 6, explained <= 6) == (True, True)


def test_calls_that_are_not_complete_are_left_out() -> None:
    def make(**fields: Any) -> PastCall:
        call = fields.pop("call", Call("lint", {}, "c1"))
        about = {"run": "r", "call": call, "accesses": (), "decision": "ask", **fields}
        return PastCall(**about)

    lines = [
        make(),
        make(call=Call("lint", '{"a": 1}', "c2"), accesses=(("read", "file:a"),)),
        make(call=Call("lint", "[1]", "c3")),
        make(call=Call("lint", "{half", "c4")),
        make(call=Call("", {}, "c5")),
        make(decision="maybe"),
        make(accesses=(("grow", "file:a"),)),
    ]

    assert [read_recorded(one) is not None for one in lines] == [True, True, *[False] * 5]
    trial = try_rules(PROPOSED, Rulebook, lines)
    assert (trial.calls, trial.changed) == (2, 1)
    assert [one.args for one in trial.effects] == ["{}"]  # what only reads is allowed anyway


def test_rules_that_no_longer_exist_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('mode = "plan"\n', encoding="utf-8")
    (tmp_path / "b.toml").write_text(TODAY, encoding="utf-8")
    book = load_files([str(tmp_path / "a.toml"), str(tmp_path / "b.toml")])
    about = {"rule": "old", "file": "x.toml", "line": 1, "day": "2026-11-17"}
    counts = [
        RuleCount(**about, outcome="ask", count=3),
        RuleCount(**about, outcome="answer allow", count=2),
    ]
    first, *rest = count_uses(book, counts)

    assert book.mode.name == "PLAN"
    assert (first.rule, first.decides, first.decided) == ("old", "", 3)
    assert (first.answers, first.note) == ({"allow": 2}, "")
    assert sorted(one.rule for one in rest) == ["never", "no-force", "spare"]
    assert [one.rule for one in count_uses(None, counts)] == ["old"]


@pytest.mark.parametrize("before", [None, "", TODAY, TODAY.rstrip("\n")])
def test_a_patch_adds_rules_to_a_file(tmp_path: Path, before: str | None) -> None:
    file = tmp_path / "rules.toml"
    if before is not None:
        file.write_text(before, encoding="utf-8")
    patch = make_patch(file, PROPOSED)
    subprocess.run(["git", "apply"], cwd=tmp_path, input=patch.encode(), check=True)  # noqa: S607

    text = file.read_text(encoding="utf-8")
    assert text.startswith(before or "")
    assert Rulebook.from_toml(text).rules[-1].decide == "allow"
    assert text.endswith(PROPOSED.lstrip("\n"))
