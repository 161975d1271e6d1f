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
from handrail.agent import State
from handrail.cli._exits import Halt
from handrail.cli._journal import event_line, prompt_line
from handrail.cli._saved import Saved, find_run, new_run, runs_folder, saved_runs
from handrail.events import Answered, Judged
from handrail.judgement import Edit
from handrail.messages import Prompt, Reply, Results
from handrail.providers import anthropic, gemini, openai_chat, openai_responses

ANYTHING: Any = SimpleNamespace(origin=None)
ID = r"\d{8}-\d{6}-[0-9a-f]{6}"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "handrail" / "runs"


def made(prompt: str = "Go", **settings: Any) -> Saved:
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
    assert saved.state() == State()
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

    assert [one.id for one in saved_runs()] == [newer, new, old]
    assert find_run("last").id == newer
    assert find_run("2026010").id == old
    assert find_run(new).id == new


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("2026", "2 runs begin with '2026'"),
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
    assert saved_runs() == []
    with pytest.raises(Halt, match="there is no run 'last'"):
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

    assert (saved.about["stop"], saved.about["why"]) == ("failed", "its about.json cannot be read")
    assert (saved.journal(), saved.answers) == ([], {})
    with pytest.raises(Halt) as halt:
        saved.state()
    assert (halt.value.code, halt.value.hint) == (
        "unreadable",
        f"what is left of it is in {saved.folder}",
    )


MEANINGLESS: list[tuple[dict[str, Any], str]] = [
    ({"workspace": 5}, "workspace must be a text"),
    ({"workspace": None}, "workspace must be a text"),
    ({"prompt": ["x"]}, "prompt must be a text"),
    ({"command": "rm"}, "command must be run or chat"),
    ({"stop": []}, "stop must be one of running, answer, pending, limit, interrupted, failed"),
    ({"ended": 5}, "ended must be a text or null"),
    ({"given": 5}, "given must be a list of texts"),
    ({"given": [["mode"]]}, "given must be a list of texts"),
    ({"settings": 5}, "settings must be a table"),
    ({"settings": []}, "settings must be a table"),
    ({"settings": {"max_turns": "abc"}}, "max_turns must be a whole number from 1 on"),
    ({"settings": {"max_turns": -1}}, "max_turns must be a whole number from 1 on"),
    ({"settings": {"max_turns": None}}, "max_turns must be a whole number from 1 on"),
    ({"settings": {"max_seconds": float("inf")}}, "max_seconds must be a number above 0"),
    ({"settings": {"tools": 5}}, "tools must be a list of texts"),
    ({"settings": {"tools": None}}, "tools must be a list of texts"),
    ({"settings": {"without": 3}}, "without must be a list of texts"),
    ({"settings": {"model": 5}}, "model must be a text"),
    ({"settings": {"mode": []}}, "mode must be plan, ask, edits or open"),
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
                "message": f"run {folder.name} cannot be read: about.json: {told}",
                "hint": f"mend it in {folder}, or delete that folder",
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
    pending = Saved(folder).state().pending[0].id
    (folder / "answers.json").write_text(json.dumps({pending: kept}), encoding="utf-8")

    ran = handrail("runs", "resume", "last", "--json")

    assert (ran.exit, ran.error["code"], ran.error["message"]) == (
        2,
        "unreadable",
        (
            f"run {folder.name} cannot be read: answers.json: it must have a table of texts for "
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

    with pytest.raises(Halt, match="cannot be read: lock: ") as halt:
        _ = saved.busy
    assert (halt.value.code, (tmp_path / "elsewhere").exists()) == ("unreadable", False)
    with pytest.raises(Halt, match="cannot be read: lock: "), saved.held():
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
    assert saved.about["why"] == "its about.json cannot be read"
    with pytest.raises(Halt, match=r"cannot be read: journal\.jsonl: it is no regular file"):
        saved.note([{"n": 1}])


@pytest.mark.usefixtures("state")
def test_one_process_at_a_time() -> None:
    saved = made()

    assert (saved.busy, saved.stop) == (False, "interrupted")
    with saved.held():
        assert (saved.busy, saved.stop) == (True, "running")
        with pytest.raises(Halt, match="another process works on run") as halt, saved.held():
            pass
    assert halt.value.code == "busy"
    saved.ends("answer")
    assert saved.stop == "answer"


def test_answers_as_lines() -> None:
    def line(answer: Allow | Deny | Edit | Result) -> dict[str, Any]:
        return event_line(Answered(1.0, "p", "c", answer))

    head = {"at": 1.0, "event": "answered", "call_id": "c", "pending": "p"}
    assert line(Allow()) == {**head, "answer": "allow"}
    assert line(Deny("No.")) == {**head, "answer": "deny", "reason": "No."}
    assert line(Edit({"a": 1})) == {**head, "answer": "edit", "args": {"a": 1}}
    assert line(Edit("{}")) == {**head, "answer": "edit", "args": "{}"}
    assert line(Result("c", "x" * 3_000)) == {**head, "answer": "result", "text": "x" * 2_000}


def test_judgements_as_lines() -> None:
    changed = Judged(1.0, "c", (), Allow(), Call("f", "{}", "c"))

    assert event_line(changed) == {
        "at": 1.0,
        "event": "judged",
        "call_id": "c",
        "accesses": [],
        "decision": "allow",
        "origin": None,
        "tool": "f",
        "args": "{}",
    }


@pytest.mark.parametrize(
    "event", ["what", Judged(1.0, "c", (), ANYTHING), Answered(1.0, "p", "c", ANYTHING)]
)
def test_what_nobody_knows_is_a_mistake(event: Any) -> None:
    with pytest.raises(AssertionError):
        event_line(event)


def test_prompts_as_lines() -> None:
    prompt = Prompt((Text("Go "), Text("on")))

    assert prompt_line(1.0, prompt) == {"at": 1.0, "event": "prompt", "text": "Go on"}


KILLED = """\
import os, signal, sys
from handrail.cli import _saved

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
from handrail_cli import main
main()
"""


def test_a_process_may_be_killed_whenever_it_writes(handrail: Handrail) -> None:
    """At each step of each write: what is left goes on to the end, and nothing is done twice."""
    step = "[glob('c1'), bash('mktemp -d once.XXXXXX', 'c2')]"
    option = scripted(handrail, step, "'Done.'")
    worker = handrail.write("../worker.py", KILLED)
    runs = handrail.state / "runs"
    steps = 0
    for at in range(1, 1000, 7):
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
            _goes_on(handrail, Saved(left))
    else:
        pytest.fail("it never came to its end")
    assert steps > 2


def _goes_on(handrail: Handrail, saved: Saved) -> None:
    assert saved.stop == "interrupted"
    for wire in (anthropic, gemini, openai_chat, openai_responses):
        wire.encode_messages(saved.state().transcript())
    again = handrail("runs", "resume", saved.id)
    assert (again.exit, again.out) == (0, "Done.\n"), again.err
    assert len(list(handrail.workspace.glob("once.*"))) <= 1
    assert saved.stop == "answer"
    said = [one for one in saved.state().messages if isinstance(one, Reply | Results)]
    assert [type(one) for one in said] == [Reply, Results, Reply]
    assert json.loads((saved.folder / "about.json").read_text(encoding="utf-8"))["ended"]
