"""Saved runs: journal runs in the state folder, which any process can read and resume."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

import click

from handrail._support import is_list, is_object
from handrail._support.git_settings import find_branch
from handrail.cli._base.exits import Halt
from handrail.cli._base.settings import KNOWN, runs_folder
from handrail.runs import JournalError, RunBusy, RunStore, open_runs
from handrail.runs.record import RunRecord
from handrail.runs.statuses import (
    CANCELLED,
    FAILED,
    INTERRUPTED,
    REASONS,
    RUNNING,
    STATUSES,
    Standing,
)

if TYPE_CHECKING:  # listing runs and completing their ids does not need the agent
    from handrail.agent import RunState
    from handrail.permissions import Pending
    from handrail.runs import AnswerOutcome, RunHead
    from handrail.runs.lines import LineFields

VERSION = 2
MAX_PROMPT_CHARS = 200
"""Prompt characters kept for a run list."""
CANCEL = "cancel"
"""The line kind asking a run's process to stop."""
BUSY_SECONDS = 5.0
"""Seconds to wait for another writing process."""
WHY_CANCELLED = "cancelled by the user"
CANCEL_SECONDS = 10.0
"""Seconds for a process to stop."""
_POLL_SECONDS = 0.05
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_TEXTS = ("workspace", "prompt", "began", "why")
_WORDS: Mapping[str, Sequence[str]] = {
    "command": ("run", "chat", "acp", "serve", "worker", "web"),
    "status": STATUSES,
    "reason": ("", *REASONS),
}


class Readable(Protocol):
    """A run with a summary and a state, which raise a Halt if they cannot be read."""

    @property
    def about(self) -> dict[str, Any]:
        """The summary."""
        ...

    @property
    def standing(self) -> Standing:
        """The run's status, and why it ended."""
        ...


R = TypeVar("R", bound=Readable)


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A journal run, for commands: its errors are Halts."""

    is_durable: ClassVar[bool] = False
    """Whether it continues without a command."""
    record: RunRecord
    journal: RunStore

    @property
    def id(self) -> str:
        """The run's id: when it began, and a few random characters."""
        return self.record.id

    @property
    def about(self) -> dict[str, Any]:
        """A run's summary: the workspace, the first prompt, the settings, how it ended.

        If it is invalid, a Halt.
        """
        return check_about(self.id, self.head)

    @property
    def head(self) -> RunHead:
        """Its chain's end, and its summary."""
        return self.record.head

    @property
    def standing(self) -> Standing:
        """The run's status. A running run without a process was interrupted."""
        standing = standing_of(self.about)
        return INTERRUPTED if standing == RUNNING and not self.busy else standing

    def put_standing(self, standing: Standing, why: str = "") -> None:
        """Record how the run ended, or its return to running."""
        ended = None if standing == RUNNING else now()
        self.record.set_status(**standing._asdict(), why=why, ended=ended)

    def state(self) -> RunState:
        """Return the messages and the pending calls; a Halt if they cannot be read."""
        from handrail.agent import InvalidState

        try:
            return self.record.state()
        except (InvalidState, JournalError) as error:
            message = f"cannot resume run {self.id}: {error}"
            hint = f"find the damage with `handrail runs verify {self.id}`, or start a new run"
            raise Halt(message, code="unreadable", hint=hint) from None

    def lines(self) -> list[LineFields]:
        """Return what happened, as fields."""
        return self.record.lines()

    def pending(self) -> Sequence[Pending]:
        """Return the waiting calls."""
        return self.state().pending

    @property
    def continued_by(self) -> str:
        """How it continues once its calls are answered."""
        return f"resume the run with `handrail runs resume {self.id}`"

    def answer(
        self, pending: Sequence[Pending], given: Mapping[str, str]
    ) -> Sequence[AnswerOutcome]:
        """Give the same answer to some pending calls. They run when the run is resumed."""
        from handrail.cli._runs.claims import answer_all

        return answer_all(self.journal, pending, given)

    def cancel(self) -> None:
        """Cancel the run. A process working on it stops its tools and ends."""
        try:
            with self.hold():
                self.put_standing(CANCELLED, WHY_CANCELLED)
        except Halt:
            self.record.note([{"event": CANCEL, "at": time.time()}])
            if not self.wait_for_release():
                raise

    def wait_for_release(self) -> bool:
        """Wait until no process holds the run. Returns whether this happened."""
        until = time.monotonic() + CANCEL_SECONDS
        while self.busy and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        return not self.busy

    def fork(self, turn: int | None, text: str | None) -> tuple[str, int]:
        """Start another run from a turn. Return its id and the turn's number."""
        from handrail.runs.states import CannotFork, fork_state

        about = self.about
        self.state()  # a Halt if a state cannot be read
        try:
            state = fork_state(self.record.states(), turn, text)
        except CannotFork as error:
            hint = f"run `handrail runs show {self.id}` to see its turns"
            raise Halt(str(error), code="no_turn", hint=hint) from None
        new = new_run(
            Path(about["workspace"]),
            about["prompt"],
            command=about["command"],
            settings=about["settings"],
            given=about["given"],
            state=state,
        )
        new.record.set_status(forked_from=self.id, forked_at=state.turns)
        new.put_standing(INTERRUPTED, f"forked from {self.id} after turn {state.turns}")
        return new.id, state.turns

    @property
    def busy(self) -> bool:
        """Whether a process is working on the run."""
        return self.journal.is_held(self.id)

    @contextmanager
    def hold(self) -> Generator[None]:
        """Lock the run for this process; a Halt if another process has locked it."""
        held = self.journal.hold(self.id)
        try:
            held.__enter__()
        except RunBusy:
            raise Halt(
                f"another process is working on run {self.id}",
                code="busy",
                hint="wait until it ends, or stop it with Ctrl-C",
            ) from None
        except JournalError as error:
            raise _unreadable(self.id, str(error)) from None
        try:
            yield
        finally:
            self.journal.close()  # its threads would leave a log beside the file
            held.__exit__(None, None, None)

    def remove(self) -> None:
        """Delete the run."""
        self.journal.remove(self.id)


def check_about(run: str, head: RunHead) -> dict[str, Any]:
    """Return a run's summary, or a Halt if it is invalid."""
    bare: dict[str, Any] = {
        "handrail": VERSION,
        "workspace": "",
        "prompt": "",
        "began": "",
        "command": "run",
        "settings": {},
        "given": [],
        **({"reason": ""} if head.status else FAILED._asdict()),
        "why": "",
        "ended": None,
        "turns": 0,
        "calls": 0,
    }
    about = {"id": run, **bare, **head.summary}
    about.pop("at", None)
    try:
        _check(about)
    except TypeError as wanted:
        raise _unreadable(run, str(wanted)) from None
    return about


def standing_of(about: Mapping[str, Any]) -> Standing:
    """Return the status in a checked summary."""
    return Standing(about["status"], about["reason"])


def _unreadable(run: str, why: str) -> Halt:
    hint = (
        f"find the damage with `handrail runs verify {run}`, or delete the run with "
        f"`handrail runs prune {run}`"
    )
    return Halt(f"cannot read run {run}: {why}", code="unreadable", hint=hint)


def _check(about: Mapping[str, Any]) -> None:
    """Raise a TypeError if a summary's field is invalid."""
    for name in _TEXTS:
        if not isinstance(about[name], str):
            raise TypeError(f"{name} must be a string")
    for name, words in _WORDS.items():
        if about[name] not in words:
            raise TypeError(f"{name} must be one of {', '.join(filter(None, words))}")
    if not isinstance(about["ended"], str | None):
        raise TypeError("ended must be a string or null")
    given = about["given"]
    if not is_list(given) or not all(isinstance(value, str) for value in given):
        raise TypeError("given must be a list of strings")
    if not {type(about["turns"]), type(about["calls"])} <= {int}:
        raise TypeError("turns and calls must be integers")
    _check_settings(about["settings"])


def _check_settings(settings: Any) -> None:
    if not is_object(settings):
        raise TypeError("settings must be an object")
    for name, value in settings.items():
        known = KNOWN.get(name)
        if known is None or (value is None and known.built_in is None):
            continue
        try:
            known.check(value)
        except TypeError as wanted:
            raise TypeError(f"{name} must be {wanted}") from None


def now() -> str:
    """Return the current time as text."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def open_journal(busy_seconds: float = BUSY_SECONDS) -> RunStore:
    """Return the journal with this user's runs."""
    return open_runs(runs_folder() / "journal.db", busy_seconds=busy_seconds)


def open_run(run: str, journal: RunStore) -> SavedRun:
    """Return a journal's run."""
    return SavedRun(RunRecord(journal, run), journal)


def make_id() -> str:
    """Return a new run's id. Ids sort by time."""
    moment = datetime.now(UTC)  # with microseconds
    return f"{moment:%Y%m%d-%H%M%S}-{moment.microsecond:05x}{secrets.token_hex(1)[0]}"


def new_run(
    workspace: Path,
    prompt: str,
    *,
    command: Literal["run", "chat", "acp", "serve"],
    settings: Mapping[str, Any],
    given: Iterable[str] = (),
    state: RunState | None = None,
) -> SavedRun:
    """Begin a run in the journal.

    Args:
        workspace: The folder that the run works in.
        prompt: The first prompt.
        command: The command that starts it.
        settings: The values of all settings.
        given: The settings from the command line. They apply again when the run is resumed; the
            others are then read from the files.
        state: The state to start from; empty by default.
    """
    saved = open_run(make_id(), open_journal())
    about = {
        "at": time.time(),
        "handrail": VERSION,
        "workspace": str(workspace),
        "branch": find_branch(str(workspace)),
        "prompt": prompt[:MAX_PROMPT_CHARS],
        "began": now(),
        "command": command,
        "settings": dict(settings),
        "given": sorted(given),
        **RUNNING._asdict(),
    }
    saved.record.put([{"event": "status", **about}])
    if state is None:
        saved.record.flush()
    else:
        saved.record.keep(state)
    return saved


def list_runs(*, status: str = "", limit: int | None = None) -> list[SavedRun]:
    """Return runs, the newest first."""
    journal = open_journal()
    return [open_run(head.run, journal) for head in journal.runs(status=status, limit=limit)]


def readable_runs(runs: Iterable[R], say: Callable[[str], None]) -> list[R]:
    """Return the readable runs, and report why the others cannot be read."""
    readable: list[R] = []
    for run in runs:
        try:
            _ = run.about, run.standing
        except Halt as halt:
            say(str(halt))
        else:
            readable.append(run)
    return readable


def find_run(wanted: str) -> SavedRun:
    """Return a run by its id, by a unique start of its id, or as ``last``."""
    journal = open_journal()
    return open_run(find_head(journal, wanted).run, journal)


def find_head(journal: RunStore, wanted: str) -> RunHead:
    """Return a journal's run with this id or unique start of its id, or the last one."""
    if wanted == "last":
        matches = journal.runs(limit=1)
    else:
        matches = journal.runs(prefix=wanted) if wanted else []
        matches = [head for head in matches if head.run == wanted] or matches
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


def run_ids(_context: click.Context, _option: click.Parameter, start: str) -> list[str]:
    """Return saved run ids starting with a text, the newest first; for completion."""
    try:
        return [head.run for head in open_journal().runs(prefix=start)]
    except JournalError:
        return []
