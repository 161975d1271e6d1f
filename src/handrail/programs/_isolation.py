"""Run the worker processes in separate namespaces, where bubblewrap works."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from functools import cache
from pathlib import Path

_WORKER = "monty"
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin")
_PROBE_SECONDS = 10.0


def make_command(bwrap: str, worker: str) -> list[str]:
    """Return a command for starting a worker without the host's network, files or processes.

    The worker ends with the thread it was started from.
    """
    binds = [part for path in _SYSTEM if Path(path).exists() for part in ("--ro-bind", path, path)]
    limits = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    place = ["--ro-bind", worker, "/worker", "--chdir", "/", "--clearenv"]
    return [bwrap, *limits, *binds, *place, "--", "/worker"]


@cache
def find_binary() -> str | None:
    """Return the program starting a worker, or None for a worker without a wrapper."""
    bwrap, worker = shutil.which("bwrap"), find_worker()
    if bwrap is None or worker is None:
        return None
    command = make_command(bwrap, worker)
    try:
        probe = subprocess.run(  # noqa: S603  our own command
            [*command, "--version"], check=False, capture_output=True, timeout=_PROBE_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if probe.returncode != 0:
        return None
    folder = tempfile.mkdtemp(prefix="handrail-programs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    script = Path(folder, "worker")
    script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
    script.chmod(0o700)
    return str(script)


def find_worker() -> str | None:
    """Return the worker's program."""
    folders = (os.environ.get("MONTY_BIN"), Path(sysconfig.get_path("scripts"), _WORKER))
    for found in folders:
        if found and Path(found).is_file():
            return str(Path(found).resolve())
    return shutil.which(_WORKER)
