"""The hosts that a command may reach: through a proxy outside, and a bridge to it inside."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from handrail.net import Proxy, bridge, variables
from handrail.sandbox._protected import beneath
from handrail.sandbox._room import Room
from handrail.sandbox._words import Unavailable

_PORT: Final = 3128
_SHOWN: Final = "/tmp/.handrail-proxy"  # noqa: S108  in the private folder that is shown as /tmp


class WayOut:
    """One proxy for all commands of a sandbox; a bridge for each of them."""

    def __init__(self, room: Room, network: Sequence[str] | Proxy) -> None:
        self._python = os.path.realpath(sys.executable)
        if beneath(self._python, room.root) or self._python.startswith(("/tmp/", "/var/tmp/")):  # noqa: S108
            raise Unavailable("the bridge to allowed hosts needs a Python outside the workspace")
        if isinstance(network, Proxy):
            self._proxy, self.hosts = network, "those of the proxy that was given"
        else:
            self._proxy = Proxy(network, directory=room.folder("proxy"))
            self.hosts = ", ".join(network)
            weakref.finalize(self, self._proxy.close)
        self._socket = Path(self._proxy.path)
        self.shown = {_SHOWN: os.path.realpath(self._socket.parent)}
        """Where what is mounted."""

    def mounts(self) -> list[str]:
        """How the proxy's socket is seen, and what tells programs of the bridge."""
        set_ = [word for pair in variables(_PORT).items() for word in ("--setenv", *pair)]
        return [*set_, "--ro-bind", self.shown[_SHOWN], _SHOWN]

    def around(self, filtered: int, words: Sequence[str]) -> list[str]:
        """The bridge is process 1: bubblewrap's own would be one that no filter holds."""
        where = f"{_SHOWN}/{self._socket.name}"
        python = (self._python, "-I", "-S", "-c", bridge(), where, str(_PORT), str(filtered))
        return ["--as-pid-1", "--", *python, *words]
