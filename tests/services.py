"""A scratch PostgreSQL for the tests: `python tests/services.py start|stop|url`.

It listens on a free port of 127.0.0.1, keeps its files in a temporary folder, and never runs as
root. The variable HANDRAIL_POSTGRES names another server, which is then used as it is.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "HANDRAIL_POSTGRES"
KEPT = Path(tempfile.gettempdir()) / f"handrail-postgres-{os.getuid()}.json"
"""Where `start` writes what `stop` and `url` need."""


def find_binaries() -> Path | None:
    """The folder of initdb and pg_ctl: on the PATH, or where Debian puts them."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def as_user(command: Sequence[str]) -> list[str]:
    """PostgreSQL refuses to run as root: run it as another user."""
    if os.getuid() != 0:
        return list(command)
    return ["setpriv", f"--reuid={_owner()}", f"--regid={_owner()}", "--clear-groups", *command]


def _owner() -> str:
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


class Postgres:
    """A cluster in a folder of its own."""

    def __init__(self, folder: Path, port: int, options: str = "") -> None:
        self.folder = folder
        self.port = port
        self._options = options

    @classmethod
    def start(cls, options: str = "") -> Postgres:
        """Make a cluster, and start a server of it with these options."""
        binaries = find_binaries()
        if binaries is None:
            raise LookupError("There is no initdb. Install the Debian package `postgresql`.")
        folder = Path(tempfile.mkdtemp(prefix="handrail-postgres-"))
        if os.getuid() == 0:
            shutil.chown(folder, _owner())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            made = cls(folder, free.getsockname()[1], options)
        data = folder / "data"
        made.run("initdb", "-D", data, "-U", "handrail", "-A", "trust", "--no-sync", "-E", "UTF8")
        made.launch()
        return made

    def replicate(self) -> Postgres:
        """Start a replica, which follows this server."""
        folder = Path(tempfile.mkdtemp(prefix="handrail-postgres-"))
        if os.getuid() == 0:
            shutil.chown(folder, _owner())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            replica = Postgres(folder, free.getsockname()[1], self._options)
        self.run("pg_basebackup", "-d", self.url, "-D", folder / "data", "-R", "-c", "fast", "-N")
        replica.launch()
        return replica

    def launch(self) -> None:
        """Start the server, and wait until it answers."""
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} "
            f"-c fsync=off -c max_connections=100 {self._options}"
        )
        log = self.folder / "log"
        self.run("pg_ctl", "-D", self.folder / "data", "-l", log, "-w", "-o", options, "start")

    def halt(self) -> None:
        """Stop the server at once, as a crash would."""
        self.run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")

    def stop(self) -> None:
        self.halt()
        shutil.rmtree(self.folder)

    def run(self, program: str, *args: object) -> None:
        binaries = find_binaries()
        assert binaries is not None
        place = (binaries / "initdb").resolve().parent  # a link can stand for one program alone
        command = as_user([str(place / program), *map(str, args)])
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")

    @property
    def url(self) -> str:
        return f"postgresql://handrail@127.0.0.1:{self.port}/postgres"


def main(wanted: str) -> None:
    if wanted == "start":
        server = Postgres.start()
        about = {"folder": str(server.folder), "port": server.port}
        KEPT.write_text(json.dumps(about), encoding="utf-8")
        print(server.url)
        return
    about = json.loads(KEPT.read_text(encoding="utf-8"))
    server = Postgres(Path(about["folder"]), about["port"])
    if wanted == "url":
        print(server.url)
    else:
        server.stop()
        KEPT.unlink()


if __name__ == "__main__":
    main(sys.argv[1])
