"""Long results in a folder, so a run can read them after a restart."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path


class ResultFolder:
    """Stores long results as files: ``LongResults(store=ResultFolder(path))``.

    Any process using the folder can read them. Use one folder for each run, since runs can
    have calls with the same id, and remove it when the run has ended. Only the owner can read it.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def put(self, call_id: str, text: str) -> int:
        """Store a text, and return how many characters were stored."""
        from handrail._support.private_files import make_private_folder, replace_file  # POSIX only

        make_private_folder(self._folder)
        replace_file(self._find(call_id), json.dumps([call_id, text]).encode())
        return len(text)

    def get(self, call_id: str) -> str | None:
        """Return a call's text, if it is stored."""
        try:
            return _read(self._find(call_id))[1]
        except FileNotFoundError:
            return None

    def ids(self) -> tuple[str, ...]:
        """Return the ids of calls with stored texts, oldest first."""
        files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        return tuple(_read(file)[0] for file in files)

    def _find(self, call_id: str) -> Path:
        name = sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{name}.json"


def _read(file: Path) -> tuple[str, str]:
    call_id, text = json.loads(file.read_bytes())
    return call_id, text
