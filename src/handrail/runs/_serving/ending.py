"""End a worker's process if its turns or calls outlast its drain."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress

log = logging.getLogger("handrail.runs")

EXIT_CODE = 75
"""The exit code: a temporary failure, as in ``sysexits.h``. Other workers continue the runs."""


def end_process(calls: int) -> None:
    """Flush what was logged and printed, and end the process at once.

    No thread survives this, so none can act after the system has released the worker's lock.
    """
    log.error(
        "turns or calls outlast the drain, and %d calls still run: the process ends with exit code "
        "%d, and other workers continue the runs",
        calls,
        EXIT_CODE,
    )
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it may be closed
            stream.flush()
    os._exit(EXIT_CODE)  # a thread could pay after another worker did: decision 078
