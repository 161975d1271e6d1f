"""Saved runs: one folder each, which any process can read, answer and resume.

The folder is valid even if a process is killed: files are replaced atomically, and the journal
loses at most its last line.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import click

from handrail._support import is_list, is_table
from handrail._support.private_files import make_private_folder, replace_file
from handrail.cli._base.exits import Halt
from handrail.cli._base.settings import KNOWN, runs_folder

if TYPE_CHECKING:  # listing runs and completing their ids does not need the agent
    from handrail.agent import RunState

VERSION = 1
MAX_PROMPT_CHARS = 200
"""Characters of a prompt to keep for a list of runs."""
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_TEXTS = ("id", "workspace", "prompt", "began", "why")

Ending: TypeAlias = Literal[
    "running",
    "answer",
    "pending",
    "limit",
    "interrupted",
    "stopped",
    "truncated",
    "refused",
    "empty",
    "invalid",
    "failed",
]
"""The state of a run: the stop reason of an agent's run, running, or failed."""


@dataclass(frozen=True, slots=True)
class SavedRun:
    """The folder of one run. Its files are read on each access."""

    folder: Path

    @property
    def id(self) -> str:
        """The id of the run: when it began, and a few random characters."""
        return self.folder.name

    @property
    def about(self) -> dict[str, Any]:
        """The summary of a run: the workspace, the first prompt, the settings, how it ended.

        If the file cannot be read, default values; if it was changed and is invalid, a Halt.
        """
        fields = _object(self._read("about.json"))
        bare: dict[str, Any] = {
            "handrail": VERSION,
            "id": self.id,
            "workspace": "",
            "prompt": "",
            "began": "",
            "command": "run",
            "settings": {},
            "given": [],
            "stop": "failed",
            "why": "" if fields else "cannot read about.json",
            "ended": None,
        }
        about = {**bare, **fields}
        try:
            _check(about)
        except TypeError as wanted:
            raise self._unreadable("about.json", str(wanted)) from None
        return about

    @property
    def stop(self) -> Ending:
        """The state of the run. A running run without a process was interrupted."""
        stop = cast("Ending", self.about["stop"])
        return "interrupted" if stop == "running" and not self.busy else stop

    def update(self, **changes: Any) -> None:
        """Change the summary of the run."""
        self._write("about.json", json.dumps({**self.about, **changes}))

    def ends(self, stop: Ending, why: str = "") -> None:
        """Record how the run ended, or that it is running again."""
        self.update(stop=stop, why=why, ended=None if stop == "running" else now())

    def state(self) -> RunState:
        """Return the messages and the pending calls; a Halt if they cannot be read."""
        from handrail.agent import InvalidState, load_state

        try:
            return load_state(self._read("state.json"))
        except InvalidState as error:
            message = f"cannot resume run {self.id}: {error}"
            hint = f"start a new run; what is left of this one is in {self.folder}"
            raise Halt(message, code="unreadable", hint=hint) from None

    def _unreadable(self, name: str, why: str) -> Halt:
        message = f"cannot read run {self.id}: {name}: {why}"
        hint = f"correct that file, or delete the run: `rm -r {self.folder}`"
        return Halt(message, code="unreadable", hint=hint)

    async def save(self, state: RunState) -> None:
        """Save the state; an agent's ``save``."""
        from anyio import to_thread

        await to_thread.run_sync(self.keep, state)

    def keep(self, state: RunState) -> None:
        """Save the state."""
        from handrail.agent import dump_state

        self._write("state.json", dump_state(state))

    def journal(self) -> list[dict[str, Any]]:
        """Return the lines of the journal, without incomplete ones."""
        lines = (_object(line) for line in self._read("journal.jsonl").split("\n"))
        return [line for line in lines if line]

    def note(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append lines to the journal."""
        text = "".join(f"{json.dumps(line, default=repr)}\n" for line in lines)
        flags = _OPEN | os.O_CREAT | os.O_RDWR | os.O_APPEND
        handle = os.open(self.folder / "journal.jsonl", flags, 0o600)
        try:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):  # a pipe would block
                raise self._unreadable("journal.jsonl", "it is not a regular file")
            size = about.st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":  # the last line is incomplete
                text = f"\n{text}"
            rest = memoryview(text.encode())
            while rest:
                rest = rest[os.write(handle, rest) :]
        finally:
            os.close(handle)

    @property
    def answers(self) -> dict[str, dict[str, str]]:
        """Unused answers, by the id of the pending call."""
        answers = _object(self._read("answers.json"))
        if not all(is_table(answer) and _are_texts(answer.values()) for answer in answers.values()):
            raise self._unreadable(
                "answers.json", "it must have an object of strings for each answer"
            )
        return answers

    def keep_answers(self, given: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the saved answers."""
        self._write("answers.json", json.dumps(given))

    @property
    def ledger(self) -> Path:
        """The path of the ledger, which records used answers."""
        return self.folder / "ledger"

    @property
    def busy(self) -> bool:
        """Whether a process is working on the run."""
        try:
            with self.hold():
                return False
        except Halt as halt:
            if halt.code != "busy":
                raise
            return True

    @contextmanager
    def hold(self) -> Generator[None]:
        """Lock the run for this process; a Halt if another process has locked it."""
        try:
            handle = os.open(self.folder / "lock", _OPEN | os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise self._unreadable("lock", str(error.strerror)) from None
        try:
            if not _try_lock(handle):
                raise Halt(
                    f"another process is working on run {self.id}",
                    code="busy",
                    hint="wait until it ends, or stop it with Ctrl-C",
                )
            yield
        finally:
            os.close(handle)

    def _read(self, name: str) -> str:
        """Return the content of a file; empty if it does not exist or is not a regular file."""
        try:
            handle = os.open(self.folder / name, _OPEN | os.O_RDONLY)
        except OSError:
            return ""
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # a pipe would block
            os.close(handle)
            return ""
        with os.fdopen(handle, encoding="utf-8", errors="replace") as file:
            return file.read()

    def _write(self, name: str, text: str) -> None:
        """Replace a file atomically; only the user can read it."""
        replace_file(self.folder / name, text.encode())


def _check(about: Mapping[str, Any]) -> None:
    """Raise a TypeError if a field of about.json is invalid."""
    for name in _TEXTS:
        if not isinstance(about[name], str):
            raise TypeError(f"{name} must be a string")
    if about["command"] not in ("run", "chat"):
        raise TypeError("command must be run or chat")
    if about["stop"] not in get_args(Ending):
        raise TypeError(f"stop must be one of {', '.join(get_args(Ending))}")
    if not isinstance(about["ended"], str | None):
        raise TypeError("ended must be a string or null")
    if not is_list(about["given"]) or not _are_texts(about["given"]):
        raise TypeError("given must be a list of strings")
    _check_settings(about["settings"])


def _check_settings(settings: Any) -> None:
    if not is_table(settings):
        raise TypeError("settings must be an object")
    for name, value in settings.items():
        known = KNOWN.get(name)
        if known is None or (value is None and known.built_in is None):
            continue
        try:
            known.check(value)
        except TypeError as wanted:
            raise TypeError(f"{name} must be {wanted}") from None


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def now() -> str:
    """Return the current time as text."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def new_run(
    workspace: Path,
    prompt: str,
    *,
    command: Literal["run", "chat"],
    settings: Mapping[str, Any],
    given: Iterable[str] = (),
    state: RunState | None = None,
) -> SavedRun:
    """Create the folder of a new run. It appears complete, in one step.

    Args:
        workspace: The folder that the run works in.
        prompt: The first prompt.
        command: The command that starts it.
        settings: The values of all settings.
        given: The settings from the command line. They apply again when the run is resumed; the
            others are then read from the files.
        state: The state to start from; empty by default.
    """
    from handrail.agent import RunState

    moment = datetime.now(UTC)  # with microseconds, so that ids sort by time
    stamp = f"{moment:%Y%m%d-%H%M%S}-{moment.microsecond:05x}{secrets.token_hex(1)[0]}"
    saved = SavedRun(runs_folder() / stamp)
    make_private_folder(saved.folder.parent)
    draft = SavedRun(Path(tempfile.mkdtemp(dir=saved.folder.parent, prefix=".new-")))
    draft.update(
        id=saved.id,
        workspace=str(workspace),
        prompt=prompt[:MAX_PROMPT_CHARS],
        began=now(),
        command=command,
        settings=dict(settings),
        given=sorted(given),
        stop="running",
        why="",
    )
    draft.keep(state or RunState())
    draft.folder.rename(saved.folder)
    return saved


def list_runs() -> list[SavedRun]:
    """Return all runs, the newest first."""
    try:
        entries = [entry for entry in os.scandir(runs_folder()) if _ID.fullmatch(entry.name)]
    except OSError:
        return []
    names = sorted(
        (entry.name for entry in entries if entry.is_dir(follow_symlinks=False)), reverse=True
    )
    return [SavedRun(runs_folder() / name) for name in names]


def readable_runs(runs: Iterable[SavedRun], say: Callable[[str], None]) -> list[SavedRun]:
    """Return the runs that can be read, and report why the others cannot."""
    readable: list[SavedRun] = []
    for run in runs:
        try:
            _ = run.stop
        except Halt as halt:
            say(str(halt))
        else:
            readable.append(run)
    return readable


def find_run(wanted: str) -> SavedRun:
    """Return a run by its id, by the unique start of its id, or as ``last``."""
    runs = list_runs() if wanted else []
    matches = runs[:1] if wanted == "last" else [run for run in runs if run.id.startswith(wanted)]
    if len(matches) == 1:
        return matches[0]
    hint = "run `handrail runs list` to see the IDs"
    if matches:
        message, hint = f"{len(matches)} runs start with {wanted!r}", "use more of the ID"
    elif wanted == "last":
        message, hint = "there are no saved runs", "start one with `handrail run PROMPT`"
    else:
        message = f"there is no run {wanted!r}"
    raise Halt(message, code="no_run", hint=hint)


def _object(text: str) -> dict[str, Any]:
    """Parse a JSON object; return an empty one for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def run_ids(_context: click.Context, _option: click.Parameter, start: str) -> list[str]:
    """Return the ids of saved runs that start with a text, the newest first; for completion."""
    try:
        names = [folder.name for folder in runs_folder().iterdir()]
    except OSError:
        return []
    return sorted((name for name in names if name.startswith(start)), reverse=True)
