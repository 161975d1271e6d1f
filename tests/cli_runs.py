"""Saved runs as they lie on disk: read and changed as any program could."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli_harness import Handrail
from handrail.agent import RunState, dump_state, load_state


@dataclass(frozen=True)
class RunFolder:
    """The folder of a saved run."""

    folder: Path

    @property
    def id(self) -> str:
        """The run's."""
        return self.folder.name

    @property
    def about(self) -> dict[str, Any]:
        """What a list of runs is made from."""
        return self._read("about.json")

    @property
    def answers(self) -> dict[str, Any]:
        """Answers that were given, and not used yet."""
        return self._read("answers.json")

    def state(self) -> RunState:
        """All that was said, and what waits."""
        return load_state((self.folder / "state.json").read_text(encoding="utf-8"))

    def change_about(self, **changes: Any) -> None:
        """Change what is known of the run."""
        self._write("about.json", json.dumps({**self.about, **changes}))

    def write_answers(self, answers: Mapping[str, Mapping[str, str]]) -> None:
        """Answer calls that wait."""
        self._write("answers.json", json.dumps(answers))

    def write_state(self, state: RunState) -> None:
        """Put another state in place of the one that is there."""
        self._write("state.json", dump_state(state))

    def add_to_journal(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write lines to the end of the journal."""
        with (self.folder / "journal.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Work on the run, as far as others can see."""
        with (self.folder / "lock").open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    def _read(self, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")


def run_folder(handrail: Handrail, id_: str) -> RunFolder:
    """The folder of a run, which need not be there yet."""
    return RunFolder(handrail.state / "runs" / id_)


def run_folders(handrail: Handrail) -> list[RunFolder]:
    """All that there are."""
    return [RunFolder(folder) for folder in (handrail.state / "runs").glob("2*")]


def stops(handrail: Handrail) -> list[str]:
    """How all saved runs stand, the newest first."""
    return [one["stop"] for one in handrail("runs", "list", "--json").json["runs"]]
