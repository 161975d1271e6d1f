"""Keep open connections, and lend each to one thread at a time."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Generic, Protocol, TypeVar


class _Closable(Protocol):
    def close(self) -> None: ...


_C = TypeVar("_C", bound=_Closable)


class Connections(Generic[_C]):
    """Lends connections, and opens one when none is idle."""

    def __init__(self, connect: Callable[[], _C]) -> None:
        self._connect = connect
        self._idle: list[_C] = []
        # keeps idle connections alive until it closes them, whatever refers to this object
        weakref.finalize(self, _close_all, self._idle).atexit = False

    @contextmanager
    def lend(self) -> Generator[_C]:
        """Lend a connection. After an error, neither it nor an idle one is lent again."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        except BaseException:
            with suppress(Exception):
                connection.close()
            self.close()
            raise
        else:
            self._idle.append(connection)

    def close(self) -> None:
        """Close the idle connections."""
        _close_all(self._idle)


def _close_all(idle: list[Any]) -> None:
    while idle:
        with suppress(Exception):  # another thread has taken it, or it is broken
            idle.pop().close()
