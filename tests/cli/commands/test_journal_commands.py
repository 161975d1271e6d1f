"""`handrail runs verify | inbox | prune | cancel | fork | replay | watch | export --html`."""

from __future__ import annotations

import html
import importlib.util
import re
import threading
import time

import pytest
from inline_snapshot import snapshot

from cli_harness import Handrail, Ran, Schemas
from cli_runs import JournalRun, change_journal, edit_journal, journal_run, journal_runs
from cli_scripts import scripted
from replying import WAYS, Way

WRITES = "[glob('g1'), write('a.txt', 'c1'), write('a.txt', 'c2')]"


in_each_way = pytest.mark.parametrize("way", WAYS)


def suspended(handrail: Handrail, *steps: str, way: Way = "whole") -> JournalRun:
    """A run that waits for two answers."""
    option = scripted(handrail, *(steps or (WRITES, "'Done.'")), way=way)
    ran = handrail("run", *option, "Go", "--on-denied", "suspend", "--json")
    assert ran.exit == 4, ran.err
    return journal_run(handrail, ran.json["id"])


def answered(handrail: Handrail, way: Way = "whole") -> JournalRun:
    """A run that has its answer, after two turns with calls."""
    step = "[glob('g1'), write('a.txt', 'c1')]"
    option = scripted(handrail, step, "write('b.txt', 'c2')", "'Done.'", way=way)
    ran = handrail("run", *option, "Go", "--mode", "edits", "--json")
    assert ran.exit == 0, ran.err
    return journal_run(handrail, ran.json["id"])


def test_a_whole_journal_is_verified(handrail: Handrail) -> None:
    saved = suspended(handrail)
    head = saved.record.head

    assert handrail("runs", "verify") == Ran(
        0, f"{saved.id}  ok  {head.entries}:{head.digest}\n", ""
    )
    expect = f"{head.entries}:{head.digest}"
    assert handrail("runs", "verify", "last", "--expect", expect).exit == 0
    handrail("runs", "deny", "last", "--all")
    assert handrail("runs", "verify", "last", "--expect", expect).exit == 0


def test_it_is_said_where_a_chain_breaks(handrail: Handrail) -> None:
    first, second = suspended(handrail), suspended(handrail)
    edit_journal(handrail, lambda number, _, body: "{}" if number == 3 else body, first.id)

    ran = handrail("runs", "verify", "--json")

    assert (ran.exit, [(item["id"], item["broken"]) for item in ran.json["runs"]]) == (
        1,
        [
            (second.id, None),
            (
                first.id,
                {"entry": 3, "reason": "the digest does not match the entry and the one before it"},
            ),
        ],
    )
    ran = handrail("runs", "verify", first.id)
    reason = "the digest does not match the entry and the one before it"
    assert (ran.exit, ran.out) == (1, f"{first.id}  BROKEN  entry 3: {reason}\n")
    change_journal(handrail, "DELETE FROM handrail_run WHERE id = ?", second.id)
    assert "the run is not in the list of runs" in handrail("runs", "verify").out


def test_a_chain_that_was_computed_again_has_another_digest(handrail: Handrail) -> None:
    saved = suspended(handrail)

    ran = handrail("runs", "verify", saved.id, "--expect", f"2:{'0' * 64}")

    assert (ran.exit, "entry 2: the digest is " in ran.out) == (1, True)
    for expect in ("5", "x:y", "2:abc"):
        assert handrail("runs", "verify", saved.id, "--expect", expect).exit == 2
    suspended(handrail)
    assert handrail("runs", "verify", "--expect", f"2:{'0' * 64}").exit == 2


def test_without_runs_nothing_is_verified_and_nothing_waits(handrail: Handrail) -> None:
    assert handrail("runs", "verify") == Ran(0, "no runs\n", "")
    assert handrail("runs", "inbox") == Ran(0, "no calls wait\n", "")


def test_the_inbox_has_what_waits_over_all_runs(handrail: Handrail) -> None:
    first, second = suspended(handrail), suspended(handrail, "write('b.txt', 'c1')", "'Done.'")
    answered(handrail)
    handrail("runs", "approve", second.id, "c1")

    ran = handrail("runs", "inbox", "--json")

    names = ("id", "call_id", "tool", "waits_for", "answer", "rule")
    assert [tuple(item[name] for name in names) for item in ran.json["calls"]] == [
        (first.id, "c1", "write", "approval", "", "mode ask"),
        (first.id, "c2", "write", "approval", "", "mode ask"),
        (second.id, "c1", "write", "resume", "allow", "mode ask"),
    ]
    text = handrail("runs", "inbox")
    shown = re.sub(r"\d\d-\d\d \d\d:\d\d +\S+ \S+ +", "TIME  ", text.out)
    assert shown.splitlines()[1:] == [
        f"{first.id}  c1    write  approval   -    TIME  Allow `write` to change a.txt?",
        f"{first.id}  c2    write  approval   -    TIME  Allow `write` to change a.txt?",
        f"{second.id}  c1    write  resume     -    TIME  Allow `write` to change b.txt?",
    ]
    heads = "run call tool waits for for since waited request"
    assert text.out.splitlines()[0].split() == heads.split()
    assert text.err == (
        f"answer with `handrail runs approve {first.id} c1` or `handrail runs deny`\n"
    )


def test_the_inbox_of_a_workspace(handrail: Handrail) -> None:
    saved = suspended(handrail)
    assert len(handrail("runs", "inbox", "--here", "--json").json["calls"]) == 2
    saved.change_about(workspace="/elsewhere")

    assert handrail("runs", "inbox", "--here", "--json").json == {"calls": []}


def test_the_inbox_has_what_waits_for_a_person_and_says_what_it_cannot_read(
    handrail: Handrail,
) -> None:
    allow = '[[rule]]\nid = "r"\ndecide = "allow"\ntools = ["write"]\nargs = {content = "y"}\n'
    handrail.config.mkdir(parents=True)
    (handrail.config / "rules.toml").write_text(allow, encoding="utf-8")
    saved = suspended(handrail, "[write('a.txt', 'c1'), write('a.txt', 'c2', 'y')]", "'Done.'")

    calls = handrail("runs", "inbox", "--json").json["calls"]
    assert [(item["call_id"], item["waits_for"]) for item in calls] == [("c1", "approval")]
    change_journal(handrail, "UPDATE handrail_summary SET about = '{\"prompt\":5}'")
    broken = handrail("runs", "inbox")
    assert (broken.exit, broken.out) == (0, "no calls wait\n")
    assert broken.err.startswith(f"cannot read run {saved.id}: ")


def test_old_runs_are_deleted_and_waiting_ones_are_kept(handrail: Handrail) -> None:
    waits, old, new = suspended(handrail), answered(handrail), answered(handrail)
    held = answered(handrail)
    for saved in (waits, old, held):
        change_journal(
            handrail,
            "UPDATE handrail_run SET changed = changed - 90000 WHERE id = ?",
            saved.id,
        )

    with held.hold():
        dry = handrail("runs", "prune", "--older-than", "1d", "--dry-run", "--json")
        before = {saved.id for saved in journal_runs(handrail)}
        ran = handrail("runs", "prune", "--older-than", "1d")

    kept = [
        {"id": held.id, "reason": "a process is working on it"},
        {"id": waits.id, "reason": "it waits for approval"},
    ]
    assert dry.json == {"count": 1, "removed": [old.id], "kept": kept, "dry_run": True}
    assert before == {waits.id, old.id, new.id, held.id}
    assert ran.out == (
        f"{old.id}  deleted\n{held.id}  kept: a process is working on it\n"
        f"{waits.id}  kept: it waits for approval\n1 run deleted\n"
    )
    assert {saved.id for saved in journal_runs(handrail)} == {waits.id, new.id, held.id}
    assert handrail("runs", "prune", "--older-than", "4w").out == "0 runs deleted\n"


def test_named_runs_are_deleted(handrail: Handrail) -> None:
    saved = suspended(handrail)

    assert handrail("runs", "prune", "last", "--json").json["removed"] == [saved.id]
    assert journal_runs(handrail) == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "name the runs, or pass `--older-than AGE`"),
        (["last", "--older-than", "1d"], "name the runs, or pass `--older-than AGE`"),
        (
            ["--older-than", "soon"],
            (
                "invalid value for '--older-than': must be a number and s, m, h, d or w, as in "
                "30d; got 'soon'"
            ),
        ),
    ],
)
def test_prune_needs_to_know_what_to_delete(
    handrail: Handrail, options: list[str], told: str
) -> None:
    answered(handrail)

    ran = handrail("runs", "prune", *options, "--json")

    assert (ran.exit, ran.error["message"]) == (2, told)
    assert len(journal_runs(handrail)) == 1


def test_a_cancelled_run_waits_no_longer(handrail: Handrail, schema: Schemas) -> None:
    other, saved = suspended(handrail), suspended(handrail)

    told = schema("runs-cancel", handrail("runs", "cancel", other.id, "--json").json)
    assert handrail("runs", "cancel", "last").out == f"{saved.id}  cancelled\n"
    before = {"status": "waiting", "reason": ""}
    assert told == {"id": other.id, "was": before, "status": "cancelled", "reason": ""}
    assert (*saved.standing, saved.about["why"]) == ("cancelled", "", "cancelled by the user")
    assert handrail("runs", "inbox", "--json").json == {"calls": []}
    again = handrail("runs", "cancel", "last", "--json")
    assert (again.exit, again.error["code"]) == (2, "ended")
    assert again.error["message"] == f"run {saved.id} has ended already: cancelled"


def test_a_process_that_does_not_stop_is_reported(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = suspended(handrail)
    monkeypatch.setattr("handrail.cli._runs.saved.CANCEL_SECONDS", 0.1)
    with saved.hold():
        ran = handrail("runs", "cancel", "last", "--json")
    assert (ran.exit, ran.error["code"], saved.standing) == (2, "busy", ("waiting", ""))
    assert saved.record.lines()[-1]["event"] == "cancel"


STUCK = """
from pathlib import Path
import anyio
from handrail import READ, tool


@tool(effect=READ)
async def stuck() -> str:
    "Never end."
    Path("began.txt").touch()
    try:
        await anyio.sleep_forever()
    finally:
        Path("stopped.txt").touch()
"""


def test_cancel_reaches_a_process_and_its_tool(handrail: Handrail) -> None:
    handrail.write("t.py", STUCK)
    option = scripted(handrail, "Call('stuck', {}, 'c1')", "'Done.'")
    cancelled: list[Ran] = []

    def cancel() -> None:
        until = time.monotonic() + 60
        while not (handrail.workspace / "began.txt").exists() and time.monotonic() < until:
            time.sleep(0.02)
        cancelled.append(handrail.real("runs", "cancel", "last"))

    person = threading.Thread(target=cancel)
    person.start()
    ran = handrail("run", *option, "--tools", "t.py", "Go")
    person.join()

    [saved] = journal_runs(handrail)
    assert ran.exit == 130, ran
    assert (*saved.standing, saved.about["why"]) == ("cancelled", "", "cancelled by the user")
    assert (handrail.workspace / "stopped.txt").exists()
    said = "waiting for the process that works on it\n"
    assert cancelled == [Ran(0, f"{saved.id}  cancelled\n", said)]


def test_a_fork_continues_from_a_turn(handrail: Handrail) -> None:
    saved = answered(handrail)
    state = saved.state()

    ran = handrail("runs", "fork", saved.id, "--turn", "1", "--json")

    new = journal_run(handrail, ran.json["id"])
    assert ran.json == {"id": new.id, "from": saved.id, "turn": 1}
    assert (new.state().messages, new.state().turns) == (state.messages[:3], 1)
    assert (new.standing, new.about["forked_from"]) == (("done", "interrupted"), saved.id)
    assert handrail("runs", "resume", new.id).out == "Done.\n"
    assert (saved.state(), new.state().messages[:3]) == (state, state.messages[:3])


def test_a_fork_can_change_what_the_model_said(handrail: Handrail) -> None:
    saved = answered(handrail)

    handrail("runs", "fork", saved.id, "--turn", "1", "--answer", "Something else.")

    new = journal_runs(handrail)[0].state().messages
    old = saved.state().messages
    assert (new[0], new[2]) == (old[0], old[2])
    assert [getattr(part, "text", part) for part in new[1].parts] == [  # type: ignore[union-attr]
        "Something else.",
        *old[1].parts,  # type: ignore[union-attr]
    ]


def test_a_turn_that_is_not_complete_cannot_be_forked(handrail: Handrail) -> None:
    saved = suspended(handrail)

    for options, told in [
        ([], "the run has no complete turn; complete turns: none"),
        (["--turn", "7"], "the run has no complete turn 7; complete turns: none"),
    ]:
        ran = handrail("runs", "fork", saved.id, *options, "--json")
        assert (ran.exit, ran.error["code"], ran.error["message"]) == (2, "no_turn", told)


@in_each_way
def test_a_replay_of_the_same_rules_differs_in_nothing(handrail: Handrail, way: Way) -> None:
    saved = suspended(handrail, way=way)
    handrail("runs", "approve", saved.id, "c1")
    handrail("runs", "deny", saved.id, "c2", "--reason", "No.")
    handrail("runs", "resume", saved.id)
    (handrail.workspace / "a.txt").unlink()

    ran = handrail("runs", "replay", saved.id)

    assert (ran.exit, ran.out) == (0, "1 turn, 3 calls, 0 differences\n")
    assert not (handrail.workspace / "a.txt").exists()  # no tool ran


@in_each_way
def test_a_replay_shows_what_other_rules_change(handrail: Handrail, way: Way) -> None:
    saved = answered(handrail, way)
    handrail.config.mkdir(parents=True)
    rule = '[[rule]]\nid = "no-b"\ndecide = "deny"\ntools = ["write"]\n'
    rule += 'args = {file_path = "b.txt"}\n'
    (handrail.config / "rules.toml").write_text(rule, encoding="utf-8")

    ran = handrail("runs", "replay", saved.id)

    assert ran == snapshot(
        Ran(
            exit=1,
            out="""\
turn 2  write (c2): another decision
  recorded  allow
  now       deny
turn 2  write (c2): another run
  recorded  ran
  now       did not run
turn 2  write (c2): another result
  recorded  ok: Created 'b.txt' with 1 line.
  now       denied: Not run: rule 'no-b' denies this call. Do not work around this. Continue without it, or  ...
2 turns, 3 calls, 3 differences
""",
            err="",
        )
    )


@in_each_way
def test_a_run_is_shown_with_each_call_in_its_turn(handrail: Handrail, way: Way) -> None:
    saved = suspended(handrail, "[glob('g1'), write('a.txt', 'c1')]", "'Done.'", way=way)
    handrail("runs", "approve", saved.id, "--all")
    handrail("runs", "resume", saved.id)
    forked = handrail("runs", "fork", saved.id, "--turn", "1", "--json").json["id"]
    handrail("runs", "resume", forked)

    shown = handrail("runs", "show", saved.id).out
    turns = handrail("runs", "show", saved.id, "--json").json["turns"]
    again = handrail("runs", "show", forked, "--json").json["turns"]

    events = [(line["event"], line.get("call_id")) for line in saved.record.lines()]
    early = events.index(("finished", "g1")) < events.index(("reply", None))
    heads = [line.split("  ")[0] for line in shown.splitlines() if line[:4] in ("prom", "turn")]
    assert early is (way == "early")
    assert heads == ["prompt", "prompt", "turn 1", "turn 2"]
    assert [(turn["number"], [call["id"] for call in turn["calls"]]) for turn in turns] == [
        (0, []),
        (1, ["g1", "c1"]),
        (2, []),
    ]
    assert [turn["number"] for turn in again] == [2]
    assert min(turn["seconds"] for turn in turns[1:]) > 0
    page = handrail("runs", "export", saved.id, "--html").out
    assert re.findall("<h2>((?:Turn|Prompt)[^<]*)</h2>", page) == ["Prompt", "Turn 1", "Turn 2"]


def test_without_turns_in_the_journal_a_replay_compares_no_decision(handrail: Handrail) -> None:
    saved = answered(handrail, "early")
    edit_journal(handrail, lambda _number, _kind, body: body.replace('"turn"', '"other"'))

    ran = handrail("runs", "replay", saved.id, "--mode", "plan", "--json")

    assert {one["what"] for one in ran.json["differences"]} == {"result"}


@in_each_way
def test_a_run_is_watched_until_its_process_ends(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    saved = answered(handrail, way)
    lines = handrail("runs", "watch", saved.id, "-o", "jsonl").lines
    assert lines == saved.record.lines()
    whole = handrail("runs", "watch", "--json").json
    assert whole == {"id": saved.id, "status": "done", "reason": "answer", "events": lines}

    process = saved.hold()
    process.__enter__()

    def work(_seconds: float) -> None:
        saved.add_to_journal([{"event": "progressed", "at": 5, "message": "late"}])
        process.__exit__(None, None, None)

    monkeypatch.setattr(time, "sleep", work)  # the other process works while this one waits
    watched = handrail("runs", "watch")
    assert watched.out.splitlines()[-1] == "--:--:--  progressed  late"


def test_a_page_needs_the_extra_of_the_console(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspended(handrail, "write('a.txt', 'c1', 'x')", "'Done.'")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "jinja2" else find(name)
    )

    ran = handrail("runs", "export", "last", "--html")

    assert (ran.exit, "--html needs the package `jinja2`" in ran.err) == (2, True)
    assert "pip install 'handrail[console]'" in ran.err


def test_an_exported_page_is_one_file_that_acts_on_nothing(handrail: Handrail) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    suspended(handrail, f"[write('a.txt', 'c1', {evil!r}), {evil!r}]", "'Done.'")
    handrail("runs", "approve", "last", "--all")
    handrail("runs", "resume", "last")

    ran = handrail("runs", "export", "last", "--html", "--to", "run.html")

    page = (handrail.workspace / "run.html").read_text(encoding="utf-8")
    assert ran.exit == 0
    assert handrail("runs", "export", "last", "--html").out == page
    assert ("<script" in page, "<img" in page, "alert(1)" in page) == (False, False, True)
    body = page.replace(html.escape(evil).replace("&#x27;", "&#39;"), "")
    assert re.findall(r'https?://|src=|href="[^#d]|url\(| style=| on\w+=', body) == []
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert html.unescape(policy) == (
        "default-src 'none'; style-src data:; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert "asked · mode ask · Allow `write` to change a.txt?" in html.unescape(page)
    assert f'<span class="l">+{html.escape(evil)}</span>' in page
    assert " entries, whole, " in page
    edit_journal(handrail, lambda number, _, body: "{}" if number == 4 else body)
    assert "broken at entry 4" in handrail("runs", "export", "last", "--html").out
    assert handrail("runs", "export", "last", "--html", "--redact").exit == 2
