"""The tiny model of docs/get-started/local-model.md: a llama.cpp server with 135 million parameters.

The file `tiny.py` of that page is started unchanged, once for a test run: see the fixture `tiny`.
`python tests/tiny_server.py COMMAND...` runs a command with the server and the file at its disposal.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[1] / "docs" / "get-started" / "local-model.md"
NAME = "tiny.py"
WINDOW = 8192
"""The context window in the file, in tokens."""
_FILE = re.compile(r'^```python title="tiny\.py"\n(?P<source>.*?)^```$', re.MULTILINE | re.DOTALL)
_ADDRESS = re.compile(r"(?P<url>http://127\.0\.0\.1:(?P<port>\d+))/v1")


class Tiny(NamedTuple):
    """A running server."""

    folder: Path
    """Contains `tiny.py`."""
    url: str
    port: str

    @property
    def env(self) -> dict[str, str]:
        """The variables with which `tiny.py` finds this server."""
        return {"TINY_PORT": self.port}


def untraced() -> dict[str, str]:
    """The variables of a process whose lines are not counted: that takes as long as its work."""
    return {name: "" for name in os.environ if name.startswith("COVERAGE_")}


def source() -> str:
    """Return `tiny.py`."""
    found = _FILE.search(PAGE.read_text(encoding="utf-8"))
    assert found, f"{PAGE} has no file {NAME}"
    return found["source"]


@contextmanager
def running(folder: Path, window: int = WINDOW) -> Iterator[Tiny]:
    """Run the server on a free port, with a context window of so many tokens."""
    (folder / NAME).write_text(source().replace(str(WINDOW), str(window)), encoding="utf-8")
    with subprocess.Popen(  # noqa: S603  our own code
        [sys.executable, NAME],
        cwd=folder,
        env={**os.environ, "TINY_PORT": "0", **untraced()},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    ) as process:
        try:
            assert process.stdout is not None
            address = _ADDRESS.search(process.stdout.readline())
            assert address, "the server did not start"
            yield Tiny(folder, address["url"], address["port"])
        finally:
            process.kill()


def main(*command: str) -> int:
    """Run a command that can import `tiny`."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as tiny:
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))
        env = {**os.environ, **tiny.env, "PYTHONPATH": path}
        return subprocess.run(command, env=env, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
