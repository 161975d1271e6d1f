"""Saved runs: folders that are whole at any moment, and that nobody else reads."""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli_harness import Handrail
from cli_scripts import scripted
from handrail import Allow, Call, Deny, Result, Text
from handrail.agent import RunState
from handrail.cli._base.exits import Halt
from handrail.cli._base.settings import runs_folder
from handrail.cli._runs.journal import event_lines, prompt_line
from handrail.cli._runs.saved import SavedRun, find_run, list_runs, new_run
from handrail.events import Answered, Decided, Lost, Progressed, Yielded
from handrail.messages import Prompt, Reply, ToolResults
from handrail.permissions import Edit
from handrail.providers import anthropic, gemini, openai_chat, openai_responses

ANYTHING: Any = SimpleNamespace(origin=None)
ID = r"\d{8}-\d{6}-[0-9a-f]{6}"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "handrail" / "runs"


def made(prompt: str = "Go", **settings: Any) -> SavedRun:
    return new_run(Path("/ws"), prompt, command="run", settings=settings, given=settings)


def named(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)


def test_what_a_new_run_is(state: Path) -> None:
    saved = made("x" * 300, mode="ask")

    assert saved.folder.parent == state
    assert re.fullmatch(ID, saved.id)
    about = saved.about
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", about.pop("began"))
    assert about == {
        "handrail": 1,
        "id": saved.id,
        "workspace": "/ws",
        "prompt": "x" * 200,
        "command": "run",
        "settings": {"mode": "ask"},
        "given": ["mode"],
        "stop": "running",
        "why": "",
        "ended": None,
    }
    assert saved.state() == RunState()
    assert (saved.journal(), saved.answers) == ([], {})


def test_nobody_else_may_read_it(handrail: Handrail) -> None:
    option = scripted(handrail, "write('a.txt', 'c1')", "'Done.'")
    umask = os.umask(0)
    try:
        handrail("run", *option, "Go", "--on-denied", "suspend")
        handrail("runs", "approve", "last", "--all")
    finally:
        os.umask(umask)

    [run] = (handrail.state / "runs").iterdir()
    modes = {
        one.name: stat.S_IMODE(one.stat().st_mode)
        for one in [handrail.state.parent, handrail.state, run.parent, run, *run.iterdir()]
    }
    assert modes == {
        "state": 0o700,
        "handrail": 0o700,
        "runs": 0o700,
        run.name: 0o700,
        "about.json": 0o600,
        "state.json": 0o600,
        "journal.jsonl": 0o600,
        "answers.json": 0o600,
        "lock": 0o600,
        "ledger": 0o700,
    }


def test_a_run_is_found_by_the_beginning_of_its_id(state: Path) -> None:
    old, new, newer = "20260101-000000-aaaaaa", "20261231-000000-abcdef", "20261231-000000-abcfff"
    named(state, new, old, newer, ".new-x", "other")
    (state / "20260101-000000-bbbbbb").symlink_to(state / old)
    (state / "20260101-000000-cccccc").write_text("", encoding="utf-8")

    assert [one.id for one in list_runs()] == [newer, new, old]
    assert find_run("last").id == newer
    assert find_run("2026010").id == old
    assert find_run(new).id == new


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("2026", "2 runs start with '2026'"),
        ("", "there is no run ''"),
        ("../x", "there is no run '../x'"),
        ("../20260101-000000-aaaaaa", "there is no run '../20260101-000000-aaaaaa'"),
        ("/etc", "there is no run '/etc'"),
        ("other", "there is no run 'other'"),
    ],
)
def test_an_id_is_no_path(state: Path, wanted: str, told: str) -> None:
    named(state, "20260101-000000-aaaaaa", "20261231-000000-abcdef", "other", "../x")
    named(state.parent, "20260101-000000-aaaaaa")

    with pytest.raises(Halt) as halt:
        find_run(wanted)

    assert (str(halt.value), halt.value.code) == (told, "no_run")


def test_one_run_is_not_found_by_nothing(state: Path) -> None:
    named(state, "20260101-000000-aaaaaa")

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


@pytest.mark.usefixtures("state")
def test_a_line_that_was_cut_off_is_left_out() -> None:
    saved, file = made(), "journal.jsonl"
    saved.note([{"n": 1}, {"n": 2, "odd": {1}}])
    whole = (saved.folder / file).read_bytes()

    for end in range(len(whole) + 1):
        (saved.folder / file).write_bytes(whole[:end])
        saved.note([{"n": 3}])
        kept = [one["n"] for one in saved.journal()]
        assert kept == [
            *([1] if end >= whole.index(b"\n") else []),
            *([2] if end >= len(whole) - 1 else []),
            3,
        ]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00", "[" * 100_000])
def test_files_that_are_broken(text: str) -> None:
    saved = made()
    for name in ("about.json", "state.json", "journal.jsonl", "answers.json"):
        (saved.folder / name).write_text(text, encoding="utf-8")

    assert (saved.about["stop"], saved.about["why"]) == ("failed", "cannot read about.json")
    assert (saved.journal(), saved.answers) == ([], {})
    with pytest.raises(Halt) as halt:
        saved.state()
    assert (halt.value.code, halt.value.hint) == (
        "unreadable",
        f"start a new run; what is left of this one is in {saved.folder}",
    )


MEANINGLESS: list[tuple[dict[str, Any], str]] = [
    ({"workspace": 5}, "workspace must be a string"),
    ({"workspace": None}, "workspace must be a string"),
    ({"prompt": ["x"]}, "prompt must be a string"),
    ({"command": "rm"}, "command must be run or chat"),
    (
        {"stop": []},
        "stop must be one of running, answer, pending, limit, interrupted, stopped, truncated, refused, empty, invalid, failed",
    ),
    ({"ended": 5}, "ended must be a string or null"),
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
    [folder] = (handrail.state / "runs").iterdir()
    whole = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    changed = {**whole, "given": [*whole["settings"]], **changes}
    (folder / "about.json").write_text(json.dumps(changed), encoding="utf-8")

    for command in (["resume", "last", "On"], ["show", "last"], ["export", "last"]):
        ran = handrail("runs", *command, "--json")
        assert (ran.exit, ran.out, ran.error) == (
            2,
            "",
            {
                "code": "unreadable",
                "message": f"cannot read run {folder.name}: about.json: {told}",
                "hint": f"correct that file, or delete the run: `rm -r {folder}`",
                "exit": 2,
            },
        )


@pytest.mark.usefixtures("state")
def test_settings_that_nobody_knows_or_has_set_are_no_mistake() -> None:
    saved = made(mode=None, max_seconds=2.5, novelty={"x": 1})

    assert saved.about["settings"] == {"mode": None, "max_seconds": 2.5, "novelty": {"x": 1}}


@pytest.mark.parametrize("kept", ["allow", ["allow"], None, {"answer": 5}])
def test_answers_that_mean_nothing_are_refused_in_words(handrail: Handrail, kept: Any) -> None:
    handrail(
        "run",
        *scripted(handrail, "write('a.txt', 'c1')", "'Done.'"),
        "Go",
        "--on-denied",
        "suspend",
    )
    [folder] = (handrail.state / "runs").iterdir()
    pending = SavedRun(folder).state().pending[0].id
    (folder / "answers.json").write_text(json.dumps({pending: kept}), encoding="utf-8")

    ran = handrail("runs", "resume", "last", "--json")

    assert (ran.exit, ran.error["code"], ran.error["message"]) == (
        2,
        "unreadable",
        (
            f"cannot read run {folder.name}: answers.json: it must have an object of strings for "
            "each answer"
        ),
    )
    assert not (handrail.workspace / "a.txt").exists()


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_lock_that_is_none_is_told_and_followed_nowhere(tmp_path: Path, kind: str) -> None:
    saved = made()
    if kind == "link":
        (saved.folder / "lock").symlink_to(tmp_path / "elsewhere")
    else:
        (saved.folder / "lock").mkdir()

    with pytest.raises(Halt, match=r"cannot read run .*: lock: ") as halt:
        _ = saved.busy
    assert (halt.value.code, (tmp_path / "elsewhere").exists()) == ("unreadable", False)
    with pytest.raises(Halt, match=r"cannot read run .*: lock: "), saved.hold():
        pass


@pytest.mark.usefixtures("state")
def test_pipes_and_links_are_not_read_and_not_waited_for(tmp_path: Path) -> None:
    saved = made()
    for name in ("about.json", "answers.json"):
        (saved.folder / name).unlink(missing_ok=True)
    os.mkfifo(saved.folder / "journal.jsonl")
    (tmp_path / "other").write_text('{"a": {"answer": "allow"}}', encoding="utf-8")
    (saved.folder / "answers.json").symlink_to(tmp_path / "other")
    (saved.folder / "about.json").mkdir()

    assert (saved.journal(), saved.answers) == ([], {})
    assert saved.about["why"] == "cannot read about.json"
    with pytest.raises(Halt, match=r"cannot read run .*: journal\.jsonl: it is not a regular file"):
        saved.note([{"n": 1}])


@pytest.mark.usefixtures("state")
def test_one_process_at_a_time() -> None:
    saved = made()

    assert (saved.busy, saved.stop) == (False, "interrupted")
    with saved.hold():
        assert (saved.busy, saved.stop) == (True, "running")
        with pytest.raises(Halt, match="another process is working on run") as halt, saved.hold():
            pass
    assert halt.value.code == "busy"
    saved.ends("answer")
    assert saved.stop == "answer"


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


EVERY = {"soak": 7}.get(os.environ.get("HANDRAIL_PROFILE", ""), 11)
"""How many steps lie between two at which a process is killed."""
KILLED = """\
import os, signal, sys
from handrail.cli._runs import saved as _saved

left = int(sys.argv.pop(1))

def dies(name):
    real = getattr(os, name)
    def act(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return act

class Dying:
    def __getattr__(self, name):
        return dies(name) if name in ("open", "fsync", "write", "fdopen") else getattr(os, name)

_saved.os = Dying()
from handrail.cli._main import main
main()
"""


def test_a_process_may_be_killed_whenever_it_writes(handrail: Handrail) -> None:
    """At each step of each write: what is left goes on to the end, and nothing is done twice."""
    step = "[glob('c1'), bash('mktemp -d once.XXXXXX', 'c2')]"
    option = scripted(handrail, step, "'Done.'")
    worker = handrail.write("../worker.py", KILLED)
    runs = handrail.state / "runs"
    steps = 0
    for at in range(1, 1000, EVERY):
        for one in handrail.workspace.glob("once.*"):
            one.rmdir()
        before = set(runs.glob("2*"))
        ran = subprocess.run(  # noqa: S603
            [sys.executable, worker, str(at), "run", *option, "Go", "--mode", "open"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=handrail.environment(),
            cwd=handrail.workspace,
            check=False,
        )
        if ran.returncode == 0:
            break
        assert ran.returncode == -signal.SIGKILL
        for left in set(runs.glob("2*")) - before:
            steps += 1
            _goes_on(handrail, SavedRun(left))
    else:
        pytest.fail("it never came to its end")
    assert steps > 2


def _goes_on(handrail: Handrail, saved: SavedRun) -> None:
    assert saved.stop == "interrupted"
    for wire in (anthropic, gemini, openai_chat, openai_responses):
        wire.encode_messages(saved.state().transcript())
    again = handrail("runs", "resume", saved.id)
    assert (again.exit, again.out) == (0, "Done.\n"), again.err
    assert len(list(handrail.workspace.glob("once.*"))) <= 1
    assert saved.stop == "answer"
    said = [one for one in saved.state().messages if isinstance(one, Reply | ToolResults)]
    assert [type(one) for one in said] == [Reply, ToolResults, Reply]
    assert json.loads((saved.folder / "about.json").read_text(encoding="utf-8"))["ended"]
