"""Reads files again at SIGHUP, and when one of them changes."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import anyio

CHECK_SECONDS = 1.0
"""Seconds between two checks of the files."""

_Stamp: TypeAlias = tuple[int, int, int] | None


# files alone: no network interface changes a gateway: decision 161
async def keep_reloaded(
    list_files: Callable[[], Iterable[Path]], reload: Callable[[], Awaitable[None]]
) -> None:
    """Call ``reload`` at each signal and after each change, until cancelled."""
    again = [anyio.Event()]

    async def listen() -> None:
        with anyio.open_signal_receiver(signal.SIGHUP) as signals:
            async for _ in signals:
                again[0].set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        seen = _look(list_files())
        while True:
            with anyio.move_on_after(CHECK_SECONDS):
                await again[0].wait()
            found = _look(list_files())
            if found != seen or again[0].is_set():
                seen, again[0] = found, anyio.Event()
                await reload()


def _look(files: Iterable[Path]) -> list[_Stamp]:
    return [_stamp(file) for file in files]


def _stamp(file: Path) -> _Stamp:
    """Return what tells of a change."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
