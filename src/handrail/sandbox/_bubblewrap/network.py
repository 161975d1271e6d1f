"""Connects commands to allowed hosts: a proxy outside the sandbox, and a bridge to it inside."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from handrail.net import Proxy, bridge, proxy_variables
from handrail.sandbox._protected import is_beneath
from handrail.sandbox._setup import Setup
from handrail.sandbox._values import TMP, SandboxUnavailable

_PORT: Final = 3128
_SOCKET_FOLDER: Final = f"{TMP}/.handrail-proxy"
"""In the private folder that is mounted on /tmp."""


class NetworkBridge:
    """One proxy for all commands of a sandbox, and a bridge for each command."""

    def __init__(self, setup: Setup, network: Sequence[str] | Proxy) -> None:
        self._python = os.path.realpath(sys.executable)
        folders = (setup.root, TMP, f"/var{TMP}")
        if any(is_beneath(self._python, folder) for folder in folders):
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
        self._socket = Path(self._proxy.path)
        self.mounts = {_SOCKET_FOLDER: os.path.realpath(self._socket.parent)}
        """Mount points, and what is mounted there."""

    def options(self) -> list[str]:
        """Return the options that mount the proxy's socket and set the proxy variables."""
        set_ = [word for pair in proxy_variables(_PORT).items() for word in ("--setenv", *pair)]
        return [*set_, "--ro-bind", self.mounts[_SOCKET_FOLDER], _SOCKET_FOLDER]

    def wrap_command(self, filtered: int, words: Sequence[str]) -> list[str]:
        """Run a command under the bridge, as process 1: bubblewrap's own would have no filter."""
        where = f"{_SOCKET_FOLDER}/{self._socket.name}"
        python = (self._python, "-I", "-S", "-c", bridge(), where, str(_PORT), str(filtered))
        return ["--as-pid-1", "--", *python, *words]
