"""Runs that wait: answered and gone on with, by other processes."""

from __future__ import annotations

import grp
import math
import os
import pty
import select
import tempfile
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

import forked
from cli_harness import Handrail, Ran, Schemas
from cli_runs import JournalRun, edit_journal, journal_of, journal_run, journal_runs
from cli_scripts import programmed, scripted
from handrail.agent import RunState, dump_state, load_state
from handrail.permissions import Approvers
from runs.parked import make_pending, park

WRITES = "[write('a.txt', 'c1'), write('b.txt', 'c2')]"


def suspended(handrail: Handrail, *steps: str, options: tuple[str, ...] = ()) -> JournalRun:
    """A run that waits."""
    ran = handrail(
        "run", *scripted(handrail, *steps), "Go", "--on-denied", "suspend", "--json", *options
    )
    assert ran.exit == 4, ran.err
    return journal_run(handrail, ran.json["id"])


def files(handrail: Handrail) -> list[str]:
    return sorted(one.name for one in handrail.workspace.glob("*.txt"))


def test_another_process_goes_on_when_it_was_allowed(handrail: Handrail, schema: Schemas) -> None:
    saved = suspended(handrail, WRITES, "'Done.'")

    assert handrail.process("runs", "approve", saved.id, "--all").exit == 0
    ran = handrail.process("runs", "resume", saved.id, "--json")

    told = schema("runs-resume", ran.json)
    assert (ran.exit, told["answer"], files(handrail)) == (0, "Done.", ["a.txt", "b.txt"])
    assert (saved.standing, saved.answers) == (("done", "answer"), {})


def test_what_is_not_answered_waits_on(handrail: Handrail, schema: Schemas) -> None:
    saved = suspended(handrail, WRITES, "'Done.'")
    handrail("runs", "approve", saved.id, "c2")

    ran = handrail("runs", "resume", saved.id, "-o", "jsonl")

    lines = [schema("runs-resume", line, part="line") for line in ran.lines]
    assert (ran.exit, files(handrail)) == (4, ["b.txt"])
    assert [(one["tool"], one["call_id"], one["kind"]) for one in lines[1:3]] == [
        ("write", "c1", "pending"),
        ("write", "c2", ""),
    ]
    assert [one["call_id"] for one in lines[-1]["pending"]] == ["c1"]

    handrail("runs", "approve", saved.id, "c1")
    assert handrail("runs", "resume", saved.id).exit == 0
    assert files(handrail) == ["a.txt", "b.txt"]


def test_a_no_is_told_in_words(handrail: Handrail, schema: Schemas) -> None:
    saved = suspended(handrail, WRITES, "'Done.'")

    ran = handrail("runs", "deny", saved.id, "c1", "--reason", "Not that one.", "--json")
    handrail("runs", "deny", saved.id, "c2")
    resumed = handrail("runs", "resume", saved.id, "--json")

    denials = schema("runs-resume", resumed.json)["denials"]
    assert (resumed.exit, [(one["call_id"], one["cause"]) for one in denials]) == (
        3,
        [("c1", "answer"), ("c2", "answer")],
    )
    assert (
        denials[0]["why"]
        == "Not run: the user denied this call. Do not work around this. Their message: Not that one."
    )
    [answer] = schema("runs-deny", ran.json)["answers"]
    assert (answer["call_id"], answer["answer"], answer["reason"]) == (
        "c1",
        "deny",
        "Not that one.",
    )
    results: Any = saved.state().messages[2]
    assert [one.text for one in results.results] == [
        "Not run: the user denied this call. Do not work around this. Their message: Not that one.",
        (
            "Not run: the user denied this call. Do not work around this. Continue without it, or "
            "tell the user."
        ),
    ]
    assert files(handrail) == []


def test_all_that_is_approved_is_shown_and_nothing_of_it_acts(handrail: Handrail) -> None:
    saved = suspended(handrail, "write('a.txt', 'c1', 'x\\x1b[2J\\n' * 60)", "'Done.'")

    ran = handrail("runs", "approve", saved.id, "c1", "-q")

    assert ran.exit == 0
    assert ran.out.count("x\\u{1B}[2J") >= 60
    assert "\x1b" not in ran.out
    [pending] = saved.state().pending
    assert ran.out.replace(pending.fingerprint, "F")[-120:] == snapshot("""\
lid for this call only, once, within 7 days of this request
60 invisible characters are shown as \\u{...}
answer: allow

""")


def test_an_answer_as_a_document(handrail: Handrail, schema: Schemas) -> None:
    saved = suspended(handrail, WRITES, "'Done.'")

    ran = handrail("runs", "approve", "last", "c1", "c1", "--json")

    first, _ = saved.state().pending
    assert schema("runs-approve", ran.json) == {
        "id": saved.id,
        "answers": [
            {
                "pending": first.id,
                "call_id": "c1",
                "tool": "write",
                "question": "Allow `write` to change a.txt?",
                "answer": "allow",
                "reason": "",
            }
        ],
    }
    assert saved.answers == {first.id: {"answer": "allow"}}


@pytest.mark.parametrize("verb", ["approve", "deny"])
@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ((), "name the calls, or pass `--all`; waiting: c1, c2"),
        (("c1", "--all"), "name the calls, or pass `--all`; waiting: c1, c2"),
        (("c1", "c9"), "no call 'c9' is waiting"),
    ],
)
def test_calls_must_be_named(
    handrail: Handrail, verb: str, calls: tuple[str, ...], told: str
) -> None:
    saved = suspended(handrail, WRITES)

    ran = handrail("runs", verb, saved.id, *calls, "--json")

    assert (ran.exit, ran.error["message"]) == (2, told)
    assert saved.answers == {}


def test_a_call_may_be_named_by_its_question(handrail: Handrail) -> None:
    saved = suspended(handrail, WRITES)
    first, second = saved.state().pending

    ran = handrail("runs", "deny", saved.id, second.id, first.id)

    assert (ran.exit, saved.answers.keys()) == (0, {first.id, second.id})


def test_two_calls_of_one_id_are_told_apart(handrail: Handrail) -> None:
    """Each call of a run has its own id; a state that was written elsewhere may differ."""
    saved = suspended(handrail, "[write('a.txt', 'c'), write('b.txt', 'c')]")
    state = saved.state()
    assert [one.call.id for one in state.pending] == ["c", "c-2"]
    saved.write_state(load_state(dump_state(state).replace('"c-2"', '"c"')))
    pending = saved.state().pending

    ran = handrail("runs", "approve", saved.id, "c", "--json")

    assert (ran.exit, ran.error["message"]) == (2, "several calls have the ID 'c'")
    assert all(one.id in ran.error["hint"] for one in pending)


def test_what_only_waits_for_another_needs_no_answer(handrail: Handrail) -> None:
    allow = '[[rule]]\nid = "r"\ndecide = "allow"\ntools = ["write"]\nargs = {content = "y"}\n'
    handrail.config.mkdir(parents=True)
    (handrail.config / "rules.toml").write_text(allow, encoding="utf-8")
    step = "[write('a.txt', 'c1'), write('a.txt', 'c2', 'y')]"

    ran = handrail("run", *scripted(handrail, step, "'Done.'"), "Go", "--on-denied", "suspend")
    assert "- c2: waiting for an earlier call" in ran.err, ran.err
    assert handrail("runs", "approve", "last", "c2").exit == 2
    assert handrail("runs", "approve", "last", "--all").exit == 0
    assert handrail("runs", "resume", "last").exit == 0


def test_there_may_be_nothing_to_answer(handrail: Handrail) -> None:
    handrail("run", *scripted(handrail, "'Done.'"), "Go")

    ran = handrail("runs", "approve", "last", "--all", "--json")

    assert (ran.exit, ran.error["code"]) == (2, "no_pending")


def test_what_is_too_long_to_be_shown_is_not_approved(handrail: Handrail) -> None:
    saved = suspended(handrail, "write('a.txt', 'c1', 'x' * 20_000)", "'Done.'")

    ran = handrail("runs", "approve", saved.id, "--all", "--json")

    assert (ran.exit, ran.error["code"], saved.answers) == (2, "too_long", {})
    assert handrail("runs", "deny", saved.id, "--all").exit == 0


def test_a_yes_may_come_too_late(handrail: Handrail) -> None:
    saved = suspended(handrail, "write('a.txt', 'c1')", "'Done.'")
    state = saved.state()
    [pending] = state.pending
    old = dump_state(state).replace(repr(pending.expires_at), repr(pending.asked_at))
    saved.write_state(load_state(old))

    ran = handrail("runs", "approve", saved.id, "--all", "--json")

    assert (ran.exit, ran.error["code"], saved.answers) == (2, "expired", {})


def test_what_has_changed_is_asked_again(handrail: Handrail) -> None:
    saved = suspended(handrail, "write('a.txt', 'c1')", "'Done.'")
    handrail("runs", "approve", saved.id, "--all")
    handrail.config.mkdir(parents=True)
    rule = '[[rule]]\nid = "new"\ndecide = "ask"\ntools = ["write"]\n'
    (handrail.config / "rules.toml").write_text(rule, encoding="utf-8")

    ran = handrail("runs", "resume", saved.id, "--json")

    assert (ran.exit, files(handrail)) == (4, [])
    [pending] = ran.json["pending"]
    assert pending["question"].startswith(
        "Changed since it was approved, so it needs approval again."
    )


def test_an_answer_counts_once(handrail: Handrail) -> None:
    saved = suspended(handrail, "bash('mktemp XXXX.txt', 'c1')", "'Done.'")
    state = saved.state()
    handrail("runs", "approve", saved.id, "--all")
    first = handrail("runs", "resume", saved.id)
    journal_run(handrail, saved.id).write_state(state)

    ran = handrail("runs", "resume", saved.id)

    assert (ran.exit, ran.err, len(files(handrail))) == (0, first.err, 1)


def test_one_process_at_a_time(handrail: Handrail) -> None:
    saved = suspended(handrail, WRITES, "'Done.'")

    with saved.hold():
        rans = [
            handrail("runs", *words, "--json")
            for words in (
                ("resume", saved.id),
                ("approve", saved.id, "--all"),
                ("deny", saved.id, "--all"),
            )
        ]

    assert [(one.exit, one.error["code"]) for one in rans] == [(2, "busy")] * 3
    assert handrail("runs", "approve", saved.id, "--all").exit == 0  # now that nobody holds it


def parked(handrail: Handrail, **limits: Any) -> str:
    """Return the id of a run that waits for people."""
    run = "20260101-000000-000000"
    pending = make_pending(run, expires_at=math.inf, approvers=Approvers(**limits))
    park(journal_of(handrail), run, pending)
    return run


def test_a_person_who_may_not_answer_learns_it(handrail: Handrail) -> None:
    run = parked(handrail, groups=(("no such group",),))

    ran = handrail("runs", "approve", run, "--all", "--json")

    assert (ran.exit, ran.error["code"]) == (2, "refused")
    assert ran.error["message"] == (
        "You may not answer this request. It is for no such group. Your answer was not used."
    )
    assert journal_run(handrail, run).answers == {}


def test_the_groups_of_the_user_count(handrail: Handrail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getgroups", lambda: [2**31 - 7, os.getgid()])  # one has no name
    run = parked(handrail, groups=((grp.getgrgid(os.getgid()).gr_name,),))

    assert handrail("runs", "approve", run, "--all").exit == 0
    again = handrail("runs", "deny", run, "--all", "--json")

    assert again.error["message"].startswith("Already answered. ")
    assert again.error["message"].endswith(" before you. Your answer was not used.")


def test_the_first_of_two_approvals_counts(handrail: Handrail) -> None:
    run = parked(handrail, count=2)

    ran = handrail("runs", "approve", run, "--all")

    assert ran.exit == 0
    assert ran.err == "Your approval counts. 1 more person must approve it.\n"
    assert journal_run(handrail, run).answers == {}


def test_the_model_may_change_midway(handrail: Handrail) -> None:
    saved = suspended(handrail, "write('a.txt', 'c1')", "'Never said.'")
    handrail.write("other.py", (handrail.workspace / "m.py").read_text(encoding="utf-8"))
    programmed(handrail, "async def model(request):\n    return Reply((Text('Another.'),))\n")
    handrail("runs", "approve", saved.id, "--all")

    ran = handrail("runs", "resume", saved.id, "--model", "m.py:model")

    assert (ran.exit, ran.out) == (0, "Another.\n")


def test_a_conversation_goes_on(handrail: Handrail) -> None:
    option = scripted(handrail, "'One.'", "'Two.'")
    handrail("run", *option, "Go")

    again = handrail("runs", "resume", "last")
    more = handrail("runs", "resume", "last", "And", "then?")

    assert (again.exit, again.out) == (0, "One.\n")
    assert (more.exit, more.out) == (0, "Two.\n"), more.err


def test_a_limit_may_be_raised(handrail: Handrail) -> None:
    """At a limit, the model has the last word: that is a turn, too."""
    option = scripted(handrail, "glob('c1')", "'So far.'", "'Done.'")
    assert handrail("run", *option, "Go", "--max-turns", "1").exit == 5

    assert handrail("runs", "resume", "last").exit == 5
    assert handrail("runs", "resume", "last", "--max-turns", "3").exit == 0


def test_it_works_where_the_run_did(handrail: Handrail, tmp_path: Path) -> None:
    saved = suspended(handrail, "write('a.txt', 'c1')", "'Done.'")
    handrail("runs", "approve", saved.id, "--all")
    (tmp_path / "elsewhere").mkdir()

    ran = handrail("runs", "resume", saved.id, "-C", str(tmp_path / "elsewhere"))

    assert (ran.exit, files(handrail)) == (0, ["a.txt"])


def test_its_folder_may_be_gone(handrail: Handrail) -> None:
    saved = suspended(handrail, "write('a.txt', 'c1')")
    saved.change_about(workspace=str(handrail.folder / "gone"))

    ran = handrail("runs", "resume", saved.id, "--json")

    assert (ran.exit, ran.error["code"]) == (2, "no_workspace")


def test_nothing_may_have_been_said(handrail: Handrail) -> None:
    handrail("run", *scripted(handrail, "'One.'"), "Go")
    [saved] = journal_runs(handrail)
    saved.write_state(RunState())

    ran = handrail("runs", "resume", "last", "--json")

    assert (ran.exit, ran.error["code"]) == (2, "no_prompt")
    assert handrail("runs", "resume", "last", "Go").out == "One.\n"


def test_a_broken_run_is_told_in_words(handrail: Handrail) -> None:
    saved = suspended(handrail, WRITES)
    edit_journal(handrail, lambda _, kind, body: "{}" if kind == "state" else body)

    ran = handrail("runs", "resume", saved.id, "--json")

    assert (ran.exit, ran.error["code"]) == (2, "unreadable")


def test_denied_calls_may_be_denied_at_once(handrail: Handrail) -> None:
    saved = suspended(handrail, "write('a.txt', 'c1')", "'Done.'")

    ran = handrail("runs", "resume", saved.id, "--on-denied", "fail", "--json")

    assert (ran.exit, [one["call_id"] for one in ran.json["denials"]]) == (3, ["c1"])


def test_what_an_earlier_process_was_denied_still_counts(
    handrail: Handrail, schema: Schemas
) -> None:
    rule = '[[rule]]\nid = "no"\ndecide = "deny"\ntools = ["edit"]\n'
    handrail.config.mkdir(parents=True)
    file = handrail.config / "rules.toml"
    file.write_text(rule, encoding="utf-8")
    edit = "Call('edit', {'file_path': 'a', 'old_string': 'a', 'new_string': 'b'}, 'c2')"
    more = """
from handrail import READ, Refused, tool

@tool(effect=READ)
def refuses() -> str:
    '''Refuses.'''
    raise Refused("not this one")
"""
    step = f"[write('a.txt', 'c1'), {edit}, Call('refuses', {{}}, 'c3'), glob('c4')]"
    option = scripted(handrail, step, "'So far.'", "'One.'", "'Two.'", more=more)
    tools = ("--tools", "m.py:refuses", "--tools", "coding")
    assert handrail("run", *option, *tools, "Go", "--max-turns", "1").exit == 5

    ran = handrail("runs", "resume", "last", "--max-turns", "9", "--json")
    again = handrail("runs", "resume", "last")
    anew = handrail("runs", "resume", "last", "And", "now?", "--max-turns", "9", "--json")

    denials = schema("runs-resume", ran.json)["denials"]
    assert (ran.exit, again.exit) == (3, 3)
    assert [(one["tool"], one["cause"], one["advice"]) for one in denials] == [
        (
            "write",
            "asked",
            "no rule can allow it; to approve it yourself, pass `--on-denied suspend`",
        ),
        (
            "edit",
            "rule",
            f"denied by no ({file}:1); no allow rule can override that, so change this rule",
        ),
        ("refuses", "refused", "refused by the tool itself; no rule can change that"),
    ]
    assert "3 calls denied:" in again.err
    assert (anew.exit, anew.json["denials"]) == (0, [])  # nothing since that was said


@pytest.mark.parametrize(
    "line",
    [
        {"event": "finished", "kind": "denied", "call_id": ["c1"], "text": 5},
        {"event": "requested", "call_id": "c1", "tool": 5, "args": 5},
        {"event": "decided", "call_id": "c1", "decision": "deny", "origin": 5, "args": [5]},
        {"event": "asked", "call_id": "c1", "question": 5, "origin": {"rule": 5}},
        {"event": "answered", "call_id": "c1", "answer": 5},
        {"event": 5, "call_id": "c1"},
    ],
)
def test_a_journal_may_have_been_changed(handrail: Handrail, line: dict[str, Any]) -> None:
    assert handrail("run", *scripted(handrail, "write('a.txt', 'c1')", "'Done.'"), "Go").exit == 3
    saved = journal_runs(handrail)[0]
    saved.add_to_journal(
        [line, {"event": "finished", "kind": "denied", "call_id": "c1", "text": ""}]
    )

    assert handrail("runs", "resume", "last", "--json").exit == 3


class Terminal:
    """A process at a terminal."""

    def __init__(self, handrail: Handrail, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.said = b""
        self._out = tempfile.TemporaryFile()  # noqa: SIM115  closed at the end
        self.process = forked.start(
            arguments,
            (theirs, self._out.fileno(), theirs),
            env=handrail.environment(),
            cwd=handrail.workspace,
            terminal=True,
        )
        os.close(theirs)

    def until(self, words: bytes) -> None:
        while words not in self.said:
            assert select.select([self._ours], [], [], 30)[0], self.said
            self.said += os.read(self._ours, 4096)

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def end(self) -> Ran:
        code = self.process.wait(30)
        os.close(self._ours)
        with self._out as out:
            out.seek(0)
            return Ran(code, out.read().decode(), self.said.decode())


def test_at_a_terminal_questions_are_asked(handrail: Handrail) -> None:
    saved = suspended(handrail, WRITES, "[write('c.txt', 'c3')]", "'Done.'")
    handrail("runs", "deny", saved.id, "c2")
    terminal = Terminal(handrail, "runs", "resume", saved.id)

    terminal.until(b"your answer: ")
    terminal.type(b"y\n")
    terminal.until(b"Write c.txt")
    terminal.said = terminal.said.partition(b"Write c.txt")[2]
    terminal.until(b"your answer: ")
    terminal.type(b"l\n")  # later
    ran = terminal.end()

    assert (ran.exit, files(handrail)) == (4, ["a.txt"])
    assert [one.call.id for one in saved.state().pending] == ["c3"]


def test_a_question_may_be_left_open(handrail: Handrail) -> None:
    saved = suspended(handrail, "write('a.txt', 'c1')", "'Done.'")
    terminal = Terminal(handrail, "runs", "resume", saved.id)

    terminal.until(b"your answer: ")
    terminal.type(b"l\n")

    assert (terminal.end().exit, saved.standing) == (4, ("waiting", ""))


def test_an_interrupt_withdraws_a_question(handrail: Handrail) -> None:
    saved = suspended(handrail, WRITES, "'Done.'")
    terminal = Terminal(handrail, "runs", "resume", saved.id)

    terminal.until(b"your answer: ")
    terminal.process.send_signal(2)
    ran = terminal.end()

    assert (ran.exit, files(handrail)) == (130, [])
    assert len(saved.state().pending) == 2


def test_a_run_asks_nobody_even_at_a_terminal(handrail: Handrail) -> None:
    option = scripted(handrail, "write('a.txt', 'c1')", "'Done.'")
    terminal = Terminal(handrail, "run", *option, "Go", "--on-denied", "suspend")

    terminal.until(b"handrail runs resume")

    assert terminal.end().exit == 4
    assert b"your answer" not in terminal.said
