"""Saved runs: a folder for each, which any process can read, answer and go on with.

Whatever moment a process is killed at, the folder is whole: files are replaced at once, and of the
journal no more than its last line is lost.
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

from handrail.cli._exits import Halt
from handrail.cli._rules_shapes import is_list, is_table
from handrail.cli._rules_store import private_folder
from handrail.cli._settings import KNOWN, home

if TYPE_CHECKING:  # a list of runs, and a shell that completes their ids, need no agent
    from handrail.agent import State

VERSION = 1
MOST_PROMPT = 200
"""Characters of a prompt that a list of runs shows."""
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_TEXTS = ("id", "workspace", "prompt", "began", "why")

Ending: TypeAlias = Literal["running", "answer", "pending", "limit", "interrupted", "failed"]
"""How a run stands: like the ``stop`` of an agent's run, or it goes on, or it broke."""


@dataclass(frozen=True, slots=True)
class Saved:
    """One run's folder. Everything is read when it is asked for."""

    folder: Path

    @property
    def id(self) -> str:
        """The run's: when it began, and a few characters that nobody can guess."""
        return self.folder.name

    @property
    def about(self) -> dict[str, Any]:
        """What a list of runs needs: the workspace, the first prompt, the settings, how it ended.

        A file that cannot be read has the bare minimum; a Halt where somebody has changed it so
        that it means nothing.
        """
        told = _object(self._read("about.json"))
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
            "why": "" if told else "its about.json cannot be read",
            "ended": None,
        }
        about = {**bare, **told}
        try:
            _check(about)
        except TypeError as wanted:
            raise self._unreadable("about.json", str(wanted)) from None
        return about

    @property
    def stop(self) -> Ending:
        """How it stands; a run that nobody works on any more was interrupted."""
        told = cast("Ending", self.about["stop"])
        return "interrupted" if told == "running" and not self.busy else told

    def tell(self, **changes: Any) -> None:
        """Change what is told of the run."""
        self._write("about.json", json.dumps({**self.about, **changes}))

    def ends(self, stop: Ending, why: str = "") -> None:
        """Note that the run ended, for now, and how."""
        self.tell(stop=stop, why=why, ended=None if stop == "running" else now())

    def state(self) -> State:
        """All that was said, and what waits."""
        from handrail.agent import Unreadable, load  # noqa: PLC0415  see above

        try:
            return load(self._read("state.json"))
        except Unreadable as error:
            words = f"run {self.id} cannot be gone on with: {error}"
            hint = f"what is left of it is in {self.folder}"
            raise Halt(words, code="unreadable", hint=hint) from None

    def _unreadable(self, name: str, why: str) -> Halt:
        words = f"run {self.id} cannot be read: {name}: {why}"
        hint = f"mend it in {self.folder}, or delete that folder"
        return Halt(words, code="unreadable", hint=hint)

    async def save(self, state: State) -> None:
        """Write the state down; an agent's ``save``."""
        from anyio import to_thread  # noqa: PLC0415  see above

        await to_thread.run_sync(self.keep, state)

    def keep(self, state: State) -> None:
        """Write the state down."""
        from handrail.agent import dump  # noqa: PLC0415  see above

        self._write("state.json", dump(state))

    def journal(self) -> list[dict[str, Any]]:
        """What happened, line by line; a line that was cut off is left out."""
        lines = (_object(line) for line in self._read("journal.jsonl").split("\n"))
        return [line for line in lines if line]

    def note(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write lines to the end of the journal."""
        text = "".join(f"{json.dumps(line, default=repr)}\n" for line in lines)
        flags = _OPEN | os.O_CREAT | os.O_RDWR | os.O_APPEND
        handle = os.open(self.folder / "journal.jsonl", flags, 0o600)
        try:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):  # a pipe would keep us waiting
                raise self._unreadable("journal.jsonl", "it is no regular file")
            size = about.st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":  # cut off, and so lost
                text = f"\n{text}"
            rest = memoryview(text.encode())
            while rest:
                rest = rest[os.write(handle, rest) :]
        finally:
            os.close(handle)

    @property
    def answers(self) -> dict[str, dict[str, str]]:
        """Answers that were given and not used yet, by the id of what is pending."""
        found = _object(self._read("answers.json"))
        if not all(is_table(one) and _are_texts(one.values()) for one in found.values()):
            raise self._unreadable("answers.json", "it must have a table of texts for each answer")
        return found

    def keep_answers(self, given: Mapping[str, Mapping[str, str]]) -> None:
        """Write answers down, in place of those that were there."""
        self._write("answers.json", json.dumps(given))

    @property
    def ledger(self) -> Path:
        """Where used answers are kept."""
        return self.folder / "ledger"

    @property
    def busy(self) -> bool:
        """Whether a process works on it now."""
        try:
            with self.held():
                return False
        except Halt as halt:
            if halt.code != "busy":
                raise
            return True

    @contextmanager
    def held(self) -> Generator[None]:
        """Nobody else works on the run meanwhile; a Halt where somebody does."""
        try:
            handle = os.open(self.folder / "lock", _OPEN | os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise self._unreadable("lock", str(error.strerror)) from None
        try:
            if not _locked(handle):
                raise Halt(
                    f"another process works on run {self.id}",
                    code="busy",
                    hint="wait until it has ended",
                )
            yield
        finally:
            os.close(handle)

    def _read(self, name: str) -> str:
        """What a file says; nothing, where it is none, or no regular one."""
        try:
            handle = os.open(self.folder / name, _OPEN | os.O_RDONLY)
        except OSError:
            return ""
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # a pipe would keep us waiting
            os.close(handle)
            return ""
        with os.fdopen(handle, encoding="utf-8", errors="replace") as file:
            return file.read()

    def _write(self, name: str, text: str) -> None:
        """Put a text in place of a file at once; nobody else may read it."""
        handle, made = tempfile.mkstemp(dir=self.folder, prefix=f".{name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        Path(made).replace(self.folder / name)


def _check(about: Mapping[str, Any]) -> None:
    """Raise a TypeError that says what a part of an about.json must be, where it is not that."""
    for name in _TEXTS:
        if not isinstance(about[name], str):
            raise TypeError(f"{name} must be a text")
    if about["command"] not in ("run", "chat"):
        raise TypeError("command must be run or chat")
    if about["stop"] not in get_args(Ending):
        raise TypeError(f"stop must be one of {', '.join(get_args(Ending))}")
    if not isinstance(about["ended"], str | None):
        raise TypeError("ended must be a text or null")
    if not is_list(about["given"]) or not _are_texts(about["given"]):
        raise TypeError("given must be a list of texts")
    _check_settings(about["settings"])


def _check_settings(settings: Any) -> None:
    if not is_table(settings):
        raise TypeError("settings must be a table")
    for name, value in settings.items():
        known = KNOWN.get(name)
        if known is None or (value is None and known.built_in is None):
            continue
        try:
            known.check(value)
        except TypeError as wanted:
            raise TypeError(f"{name} must be {wanted}") from None


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(one, str) for one in values)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def runs_folder() -> Path:
    """Where runs are saved; a relative path is none, or a workspace could choose it."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    above = given if given.is_absolute() else home() / ".local" / "state"
    return above / "handrail" / "runs"


def now() -> str:
    """The time, as it is written down."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def new_run(
    workspace: Path,
    prompt: str,
    *,
    command: Literal["run", "chat"],
    settings: Mapping[str, Any],
    given: Iterable[str] = (),
    state: State | None = None,
) -> Saved:
    """Make the folder of a new run; it has all its parts when it is first seen.

    Args:
        workspace: Where the run works.
        prompt: What it begins with.
        command: Which command began it.
        settings: The values that count.
        given: Which of them came from the command line: they count again when the run is gone on
            with, while all else is read as it is then.
        state: From which it begins; without one, nothing was said yet.
    """
    from handrail.agent import State  # noqa: PLC0415  see above

    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    saved = Saved(runs_folder() / f"{stamp}-{secrets.token_hex(3)}")
    private_folder(saved.folder.parent)
    made = Saved(Path(tempfile.mkdtemp(dir=saved.folder.parent, prefix=".new-")))
    made.tell(
        id=saved.id,
        workspace=str(workspace),
        prompt=prompt[:MOST_PROMPT],
        began=now(),
        command=command,
        settings=dict(settings),
        given=sorted(given),
        stop="running",
        why="",
    )
    made.keep(state or State())
    made.folder.rename(saved.folder)
    return saved


def saved_runs() -> list[Saved]:
    """All runs, the newest first."""
    try:
        found = [one for one in os.scandir(runs_folder()) if _ID.fullmatch(one.name)]
    except OSError:
        return []
    names = sorted((one.name for one in found if one.is_dir(follow_symlinks=False)), reverse=True)
    return [Saved(runs_folder() / name) for name in names]


def readable(runs: Iterable[Saved], say: Callable[[str], None]) -> list[Saved]:
    """Those of some runs that can be read; of each other one it is said why it cannot."""
    found: list[Saved] = []
    for one in runs:
        try:
            _ = one.stop
        except Halt as halt:
            say(str(halt))
        else:
            found.append(one)
    return found


def find_run(wanted: str) -> Saved:
    """The run of an id, or of the beginning of one that only it has; or the ``last``."""
    runs = saved_runs() if wanted else []
    found = runs[:1] if wanted == "last" else [one for one in runs if one.id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    raise Halt(
        f"{len(found)} runs begin with {wanted!r}" if found else f"there is no run {wanted!r}",
        code="no_run",
        hint="see `handrail runs list`",
    )


def _object(text: str) -> dict[str, Any]:
    """A JSON object; an empty one for all else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
