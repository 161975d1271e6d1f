"""Connects commands to allowed hosts: a proxy outside the sandbox, and a bridge to it inside."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from handrail.net import Proxy, bridge, proxy_variables
from handrail.sandbox._setup import Setup, is_python_usable
from handrail.sandbox._values import TMP, SandboxUnavailable

_PORT: Final = 3128
_SOCKET_FOLDER: Final = "/dev/.handrail-proxy"
"""Each command has its own /dev. In /tmp, which commands share, another one could replace it."""


class NetworkBridge:
    """A proxy and a bridge for each command in a sandbox."""

    def __init__(self, setup: Setup, network: Sequence[str] | Proxy) -> None:
        self._python = os.path.realpath(sys.executable)
        if not is_python_usable(setup.root):
            raise SandboxUnavailable(
                f"Allowing hosts requires a Python outside the workspace and {TMP}, not "
                f"{self._python}."
            )
        if isinstance(network, Proxy):
            self._proxy = network
        else:
            self._proxy = Proxy(network, directory=setup.make_folder("proxy"))
            weakref.finalize(self, self._proxy.close)
        self.hosts = self._proxy.allowed
        self.mounts = {_SOCKET_FOLDER: os.path.realpath(Path(self._proxy.path).parent)}
        """Mount points, and what is mounted there."""

    def open(self, hosts: Sequence[str]) -> Route:
        """Return one command's route, which reaches these hosts too."""
        return Route(self._proxy.with_hosts(hosts), self._python)

    def find_closed(self, hosts: Sequence[str]) -> list[str]:
        """Return the unreachable hosts, normalized."""
        return self._proxy.find_closed(hosts)

    def options(self) -> list[str]:
        """Return the options to mount the proxy's socket and set the proxy variables."""
        set_ = [word for pair in proxy_variables(_PORT).items() for word in ("--setenv", *pair)]
        return [*set_, "--ro-bind", self.mounts[_SOCKET_FOLDER], _SOCKET_FOLDER]


class Route(NamedTuple):
    """One command's route to hosts: its own proxy, and the bridge to it."""

    proxy: Proxy
    python: str

    def refused(self) -> tuple[str, ...]:
        """Return the closed hosts the command tried to reach."""
        return self.proxy.refused

    def wrap_command(self, filtered: int, words: Sequence[str]) -> list[str]:
        """Run a command under the bridge, as process 1: bubblewrap's own would have no filter."""
        where = f"{_SOCKET_FOLDER}/{Path(self.proxy.path).name}"
        python = (self.python, "-I", "-S", "-c", bridge(), where, str(_PORT), str(filtered))
        return ["--as-pid-1", "--", *python, *words]
