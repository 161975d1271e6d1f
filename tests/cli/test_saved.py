"""Saved runs: a journal that is whole at any moment, and that nobody else reads."""

from __future__ import annotations

import os
import pwd
import re
import signal
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli_harness import Handrail
from cli_runs import change_journal, edit_journal, journal_of, journal_runs, standings
from cli_scripts import scripted
from crash_points import WRITE_POINTS, crash_env
from handrail import Allow, Call, Deny, Result, Text
from handrail.agent import RunState
from handrail.cli._base.exits import Halt
from handrail.cli._base.settings import runs_folder
from handrail.cli._runs.saved import (
    SavedRun,
    find_run,
    list_runs,
    new_run,
    open_journal,
    open_run,
)
from handrail.events import Answered, Decided, Lost, Progressed, Yielded
from handrail.messages import Prompt, Reply, ToolResults
from handrail.permissions import Edit
from handrail.providers import anthropic, gemini, openai_chat, openai_responses
from handrail.runs import verify
from handrail.runs.lines import event_lines, prompt_line
from handrail.runs.statuses import Standing

ANYTHING: Any = SimpleNamespace(origin=None)
ID = r"\d{8}-\d{6}-[0-9a-f]{6}"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "handrail" / "runs"


def made(prompt: str = "Go", **settings: Any) -> SavedRun:
    return new_run(Path("/ws"), prompt, command="run", settings=settings, given=settings)


def named(*names: str) -> None:
    """Runs of these ids, one after the other."""
    for name in names:
        open_run(name, open_journal()).put_standing(Standing("done", "answer"))


@pytest.mark.usefixtures("state")
def test_what_a_new_run_is() -> None:
    saved = made("x" * 300, mode="ask")

    assert re.fullmatch(ID, saved.id)
    about = saved.about
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", about.pop("began"))
    assert about == {
        "handrail": 2,
        "id": saved.id,
        "workspace": "/ws",
        "branch": "",
        "prompt": "x" * 200,
        "command": "run",
        "settings": {"mode": "ask"},
        "given": ["mode"],
        "status": "running",
        "reason": "",
        "why": "",
        "ended": None,
        "turns": 0,
        "calls": 0,
    }
    assert saved.state() == RunState()
    assert ([line["event"] for line in saved.record.lines()], saved.record.answers) == (
        ["status"],
        {},
    )


def test_nobody_else_may_read_it(handrail: Handrail) -> None:
    option = scripted(handrail, "write('a.txt', 'c1')", "'Done.'")
    umask = os.umask(0)
    try:
        handrail("run", *option, "Go", "--on-denied", "suspend")
        handrail("runs", "approve", "last", "--all")
    finally:
        os.umask(umask)

    runs = handrail.state / "runs"
    modes = {
        one.name: stat.S_IMODE(one.stat().st_mode)
        for one in [handrail.state.parent, handrail.state, runs, *runs.iterdir()]
    }
    assert {name: mode for name, mode in modes.items() if name[-4:] not in ("-wal", "-shm")} == {
        "state": 0o700,
        "handrail": 0o700,
        "runs": 0o700,
        "journal.db": 0o600,
        ".journal.db.lock": 0o600,
        "journal.db.workers": 0o700,
    }
    assert set(modes.values()) == {0o600, 0o700}


@pytest.mark.usefixtures("state")
def test_a_run_is_found_by_the_beginning_of_its_id() -> None:
    old, new, newer = "20260101-000000-aaaaaa", "20261231-000000-abcdef", "20261231-000000-abcfff"
    named(old, new, newer)

    assert [one.id for one in list_runs()] == [newer, new, old]
    assert find_run("last").id == newer
    assert find_run("2026010").id == old
    assert find_run(new).id == new


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("2026", "2 runs start with '2026'"),
        ("", "there is no run ''"),
        ("%", "there is no run '%'"),
        ("../x", "there is no run '../x'"),
        ("other", "there is no run 'other'"),
    ],
)
@pytest.mark.usefixtures("state")
def test_an_id_is_no_pattern(wanted: str, told: str) -> None:
    named("20260101-000000-aaaaaa", "20261231-000000-abcdef")

    with pytest.raises(Halt) as halt:
        find_run(wanted)

    assert (str(halt.value), halt.value.code) == (told, "no_run")


@pytest.mark.usefixtures("state")
def test_one_run_is_not_found_by_nothing() -> None:
    named("20260101-000000-aaaaaa")

    with pytest.raises(Halt, match="there is no run ''"):
        find_run("")


@pytest.mark.usefixtures("state")
def test_where_there_are_none() -> None:
    assert list_runs() == []
    with pytest.raises(Halt, match="there are no saved runs"):
        find_run("last")


def test_a_workspace_cannot_choose_where_runs_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "here")

    assert runs_folder() == tmp_path / ".local" / "state" / "handrail" / "runs"
    monkeypatch.setenv("HOME", ".")
    real = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert runs_folder() == real / ".local" / "state" / "handrail" / "runs"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "\x00", "[" * 100_000, '{"kept":9,"state":{}}']
)
def test_entries_that_are_broken(handrail: Handrail, text: str) -> None:
    handrail("run", *scripted(handrail, "'Done.'"), "Go")
    edit_journal(handrail, lambda _number, _kind, _body: text)
    change_journal(handrail, "UPDATE handrail_summary SET about = ?", text)
    [saved] = journal_runs(handrail)

    assert standings(handrail) == [("failed", "error")]
    assert handrail("runs", "show", "last").exit == 0
    ran = handrail("runs", "resume", "last", "On", "--json")
    hint = f"find the damage with `handrail runs verify {saved.id}`, or start a new run"
    assert (ran.exit, ran.error["code"], ran.error["hint"]) == (2, "unreadable", hint)


MEANINGLESS: list[tuple[dict[str, Any], str]] = [
    ({"workspace": 5}, "workspace must be a string"),
    ({"workspace": None}, "workspace must be a string"),
    ({"prompt": ["x"]}, "prompt must be a string"),
    ({"command": "rm"}, "command must be one of run, chat, acp, serve, worker, web"),
    (
        {"status": []},
        "status must be one of queued, running, waiting, done, failed, cancelled",
    ),
    (
        {"reason": "pending"},
        "reason must be one of answer, limit, interrupted, stopped, truncated, refused, empty, invalid, error",
    ),
    ({"ended": 5}, "ended must be a string or null"),
    ({"turns": True}, "turns and calls must be integers"),
    ({"given": 5}, "given must be a list of strings"),
    ({"given": [["mode"]]}, "given must be a list of strings"),
    ({"settings": 5}, "settings must be an object"),
    ({"settings": []}, "settings must be an object"),
    ({"settings": {"max_turns": "abc"}}, "max_turns must be an integer of at least 1"),
    ({"settings": {"max_turns": -1}}, "max_turns must be an integer of at least 1"),
    ({"settings": {"max_turns": None}}, "max_turns must be an integer of at least 1"),
    ({"settings": {"max_seconds": float("inf")}}, "max_seconds must be a number greater than 0"),
    ({"settings": {"tools": 5}}, "tools must be a list of strings"),
    ({"settings": {"tools": None}}, "tools must be a list of strings"),
    ({"settings": {"without": 3}}, "without must be a list of strings"),
    ({"settings": {"model": 5}}, "model must be a string"),
    ({"settings": {"mode": []}}, 'mode must be "plan", "ask", "edits" or "open"'),
]


@pytest.mark.parametrize(("changes", "told"), MEANINGLESS, ids=str)
def test_what_somebody_has_changed_is_refused_in_words(
    handrail: Handrail, changes: dict[str, Any], told: str
) -> None:
    handrail("run", *scripted(handrail, "'Done.'"), "Go")
    [saved] = journal_runs(handrail)
    saved.change_about(**{"given": [*saved.about["settings"]], **changes})

    for command in (["resume", "last", "On"], ["show", "last"], ["export", "last"]):
        ran = handrail("runs", *command, "--json")
        assert (ran.exit, ran.out, ran.error) == (
            2,
            "",
            {
                "code": "unreadable",
                "message": f"cannot read run {saved.id}: {told}",
                "hint": f"find the damage with `handrail runs verify {saved.id}`, or delete the "
                f"run with `handrail runs prune {saved.id}`",
                "exit": 2,
            },
        )


@pytest.mark.usefixtures("state")
def test_settings_that_nobody_knows_or_has_set_are_no_mistake() -> None:
    saved = made(mode=None, max_seconds=2.5, novelty={"x": 1})

    assert saved.about["settings"] == {"mode": None, "max_seconds": 2.5, "novelty": {"x": 1}}


@pytest.mark.parametrize("given", [{}, {"answer": 5}, {"answer": ["allow"]}, {"answer": "Allow"}])
def test_answers_that_mean_nothing_deny(handrail: Handrail, given: Any) -> None:
    step = "write('a.txt', 'c1')"
    handrail("run", *scripted(handrail, step, "'Done.'"), "Go", "--on-denied", "suspend")
    [saved] = journal_runs(handrail)
    saved.write_answers({saved.state().pending[0].id: given})

    assert handrail("runs", "resume", "last").exit == 3
    assert not (handrail.workspace / "a.txt").exists()


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_lock_that_is_none_is_told_and_followed_nowhere(
    state: Path, tmp_path: Path, kind: str
) -> None:
    saved = made()
    with saved.hold():
        [lock] = (state / "journal.db.workers").iterdir()
    if kind == "link":
        lock.symlink_to(tmp_path / "elsewhere")
    else:
        lock.mkdir()

    assert (saved.busy, (tmp_path / "elsewhere").exists()) == (False, False)
    with pytest.raises(Halt, match=r"cannot read run .*: Cannot open ") as halt, saved.hold():
        pass
    assert halt.value.code == "unreadable"


@pytest.mark.usefixtures("state")
def test_one_process_at_a_time() -> None:
    saved = made()

    assert (saved.busy, saved.standing) == (False, ("done", "interrupted"))
    with saved.hold():
        assert (saved.busy, saved.standing) == (True, ("running", ""))
        with pytest.raises(Halt, match="another process is working on run") as halt, saved.hold():
            pass
    assert halt.value.code == "busy"
    saved.put_standing(Standing("done", "answer"))
    assert saved.standing == ("done", "answer")


def test_answers_as_lines() -> None:
    def line(answer: Allow | Deny | Edit | Result) -> dict[str, Any]:
        [line] = event_lines(Answered(1.0, "p", "c", answer))
        return line

    head = {"at": 1.0, "event": "answered", "call_id": "c", "pending": "p"}
    assert line(Allow()) == {**head, "answer": "allow"}
    assert line(Deny("No.")) == {**head, "answer": "deny", "reason": "No."}
    assert line(Edit({"a": 1})) == {**head, "answer": "edit", "args": {"a": 1}}
    assert line(Edit("{}")) == {**head, "answer": "edit", "args": "{}"}
    assert line(Result("c", "x" * 3_000)) == {**head, "answer": "result", "text": "x" * 2_000}


def test_judgements_as_lines() -> None:
    changed = Decided(1.0, "c", (), Allow(), Call("f", "{}", "c"))

    assert event_lines(changed) == [
        {
            "at": 1.0,
            "event": "decided",
            "call_id": "c",
            "accesses": [],
            "decision": "allow",
            "origin": None,
            "tool": "f",
            "args": "{}",
        }
    ]


def test_progress_as_lines() -> None:
    head = {"at": 1.0, "event": "progressed", "call_id": "c", "message": "so far"}

    assert event_lines(Progressed(1.0, "c", "so far")) == [head]
    assert event_lines(Progressed(1.0, "c", "so far", 0.5)) == [{**head, "fraction": 0.5}]


def test_pieces_are_not_written_since_the_result_has_them() -> None:
    assert event_lines(Yielded(1.0, "c", "piece")) == []


def test_events_that_were_lost_are_written_as_a_number() -> None:
    assert event_lines(Lost(3)) == [{"event": "lost", "count": 3}]


@pytest.mark.parametrize(
    "event", ["what", Decided(1.0, "c", (), ANYTHING), Answered(1.0, "p", "c", ANYTHING)]
)
def test_what_nobody_knows_is_a_mistake(event: Any) -> None:
    with pytest.raises(AssertionError):
        event_lines(event)


def test_prompts_as_lines() -> None:
    prompt = Prompt((Text("Go "), Text("on")))

    assert prompt_line(1.0, prompt) == {"at": 1.0, "event": "prompt", "text": "Go on"}


SOAK = os.environ.get("HANDRAIL_PROFILE", "") == "soak"
CRASHES = (
    [(point, passage) for point in WRITE_POINTS for passage in range(1, 30)]
    if SOAK
    else [("write.made", 4)]
)
"""The crash points and the passages at which a process is killed."""


@pytest.mark.parametrize(("point", "passage"), CRASHES)
def test_a_process_may_be_killed_whenever_it_writes(
    handrail: Handrail, point: str, passage: int
) -> None:
    """What is left goes on to the end, and nothing is done twice."""
    step = "[glob('c1'), bash('mktemp -d once.XXXXXX', 'c2')]"
    option = scripted(handrail, step, "'Done.'")
    crash = crash_env(f"{point}:{passage}")

    ran = handrail.process("run", *option, "Go", "--mode", "open", env=crash)

    assert ran.exit == -signal.SIGKILL or (SOAK and ran.exit == 0)
    for left in list_runs_of(handrail):
        _goes_on(handrail, left)


def list_runs_of(handrail: Handrail) -> list[SavedRun]:
    journal = journal_of(handrail)
    return [open_run(head.run, journal) for head in journal.runs()]


def _goes_on(handrail: Handrail, saved: SavedRun) -> None:
    assert saved.standing in (("done", "interrupted"), ("done", "answer"))
    for wire in (anthropic, gemini, openai_chat, openai_responses):
        wire.encode_messages(saved.state().transcript())
    again = handrail("runs", "resume", saved.id)
    assert (again.exit, again.out) == (0, "Done.\n"), again.err
    assert len(list(handrail.workspace.glob("once.*"))) <= 1
    assert saved.standing == ("done", "answer")
    said = [one for one in saved.state().messages if isinstance(one, Reply | ToolResults)]
    assert [type(one) for one in said] == [Reply, ToolResults, Reply]
    assert saved.about["ended"]
    assert verify(saved.journal, saved.id) is None
